"""Every network that the zoo has from torchvision, with torchvision's weights, against it.

The weights are random, and no number among them is one that a mistake could hide behind: scales
are not 1, shifts are not 0. The input is not square, and not even, where a network allows that.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from zoo_networks import agree, need_room, size_of

from neuralsym import zoo
from neuralsym.zoo.preprocess import DEVIATION, MEAN

torch = pytest.importorskip("torch", reason="torch is not installed")
torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")
pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]

NETWORKS = [name for name in zoo.models() if zoo.info(name).source == "torchvision"]
CLASSES = 12

# What torchvision's constructors need; "size" becomes the size of the input.
SETTINGS: dict[str, dict[str, Any]] = {
    "googlenet": {"init_weights": False, "aux_logits": True},
    "inception_v3": {"init_weights": False, "aux_logits": True},
    "maxvit_*": {"input_size": "pair"},
    "vit_*": {"image_size": "size"},
}
# Inputs must be square, or of one size.
SQUARE = ("maxvit_*", "vit_*")

# timm's name of the same network. Where it has none, the network is another there.
TIMM = {
    "convnext_tiny": "convnext_tiny",
    "densenet121": "densenet121",
    "efficientnet_b0": "efficientnet_b0",
    "efficientnet_v2_s": "efficientnetv2_s",
    "inception_resnet_v2": "inception_resnet_v2",
    "inception_v3": "inception_v3",
    "mnasnet0_5": "mnasnet_050",
    "mnasnet1_0": "mnasnet_100",
    "mobilenet_v2": "mobilenetv2_100",
    "mobilenet_v3_large": "mobilenetv3_large_100",
    "mobilenet_v3_small": "mobilenetv3_small_100",
    "regnet_x_400mf": "regnetx_004_tv",
    "regnet_y_400mf": "regnety_004",
    "resnet18": "resnet18",
    "resnext50_32x4d": "resnext50_32x4d",
    "swin_t": "swin_tiny_patch4_window7_224",
    "swin_v2_t": "swinv2_tiny_window8_256",
    "vgg11": "vgg11",
    "vgg11_bn": "vgg11_bn",
    "vit_b_16": "vit_base_patch16_224",
    "wide_resnet50_2": "wide_resnet50_2",
}
# For smaller inputs timm makes the windows smaller.
TIMM_SIZES = {"swin_t": (224, 224), "swin_v2_t": (256, 256)}

# What timm has of Keras's networks, and the mean and deviation of what it takes.
PORTS = {
    "efficientnet_b0_keras": ("tf_efficientnet_b0", MEAN, DEVIATION),
    "efficientnet_v2_b0": ("tf_efficientnetv2_b0", MEAN, DEVIATION),
    "mobilenet_v3_small_keras": ("tf_mobilenetv3_small_100", np.full(3, 0.5), np.full(3, 0.5)),
}

# Loaded from files of torch and of safetensors too.
AS_FILES = (
    "convnext_tiny",
    "densenet121",
    "mobilenet_v3_large",
    "regnet_y_400mf",
    "resnet18",
    "shufflenet_v2_x1_0",
    "squeezenet1_0",
    "swin_t",
    "vit_b_16",
)


def matching(name: str, table: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return next((row for pattern, row in table.items() if fnmatchcase(name, pattern)), {})


def input_size(name: str) -> tuple[int, int]:
    size = size_of(name)
    square = any(fnmatchcase(name, pattern) for pattern in SQUARE)
    return (size, size) if square else (size + 3, size + 11)


def pictures(size: tuple[int, int], count: int = 2) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal((count, 3, *size)).astype(np.float32)


def drawn(model: Any, size: tuple[int, int]) -> Any:
    """The model for inference, with numbers instead of all zeros and ones.

    Batch norms hold the statistics of pictures, those compared among them, and a drawn deviation
    from these. Each is measured behind those before it, deviations included, and no kernel is so
    small that epsilon outweighs a variance: so no signal dies or grows on its way, and every
    number shows. Their shifts are mostly positive: a deep network of ReLUs that cut in the middle
    is chaotic, and makes of the last digit of float32 one that is compared.
    """
    random = torch.Generator().manual_seed(0)

    def measure(norm: Any, inputs: tuple[Any, ...]) -> None:
        variance, mean = torch.var_mean(inputs[0], (0, 2, 3), correction=0)
        shift = 0.3 * variance.sqrt() * torch.randn(mean.shape, generator=random)
        norm.running_mean.copy_(mean + shift)
        norm.running_var.copy_(variance * (0.5 + torch.rand(variance.shape, generator=random)))

    norms = [m for m in model.eval().modules() if isinstance(m, torch.nn.BatchNorm2d)]
    with torch.no_grad():
        for values in model.parameters():
            if values.ndim == 4:
                torch.nn.init.kaiming_normal_(values, generator=random)
            first = float(values.flatten()[0])
            if values.numel() > 1 and bool((values == first).all()):
                if first == 0:
                    values.normal_(0.0, 0.3, generator=random)
                else:
                    values.uniform_(0.5, 1.5, generator=random)
        for norm in norms:
            norm.bias.normal_(1.0, 0.3, generator=random)
        hooks = [norm.register_forward_pre_hook(measure) for norm in norms]
        model(torch.from_numpy(pictures(size, 8)))
        for hook in hooks:
            hook.remove()
    return model


def torchvision_model(name: str) -> Any:
    height, width = size = input_size(name)
    words = {"size": height, "pair": (height, width)}
    settings = {k: words.get(v, v) for k, v in matching(name, SETTINGS).items()}
    torch.manual_seed(0)
    return drawn(getattr(torchvision.models, name)(num_classes=CLASSES, **settings), size)


def arrays(model: Any) -> dict[str, Any]:
    return {key: values.numpy() for key, values in model.state_dict().items()}


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_are_those_of_torchvision(name: str) -> None:
    need_room(name, 4)
    size = input_size(name)
    model = torchvision_model(name)
    network = zoo.create(name, size=size, classes=CLASSES)
    loaded = network.load_weights(arrays(model))
    assert loaded.scheme == "torchvision"
    x = pictures(size)
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
    del model
    agree(network(x), expected)


@pytest.mark.parametrize("name", sorted(TIMM))
def test_outputs_are_those_of_timm(name: str) -> None:
    timm = pytest.importorskip("timm", reason="timm is not installed")
    need_room(name, 4)
    size = TIMM_SIZES.get(name, input_size(name))
    settings = {"img_size": size} if size[0] == size[1] else {}
    torch.manual_seed(0)
    model = drawn(timm.create_model(TIMM[name], num_classes=CLASSES, **settings), size)
    network = zoo.create(name, size=size, classes=CLASSES)
    network.load_weights(arrays(model), scheme="timm")
    x = pictures(size)
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
    agree(network(x), expected)


@pytest.mark.parametrize("name", PORTS)
def test_outputs_are_those_of_timms_ports(name: str) -> None:
    """Keras's network scales pixels itself, timm's takes them scaled."""
    timm = pytest.importorskip("timm", reason="timm is not installed")
    size = input_size(name)
    other, mean, deviation = PORTS[name]
    torch.manual_seed(0)
    model = drawn(timm.create_model(other, num_classes=CLASSES), size)
    network = zoo.create(name, size=size, classes=CLASSES)
    network.load_weights(arrays(model), scheme="timm")
    pixels = 128 + 64 * pictures(size)
    scaled = (pixels / np.float32(255) - np.reshape(mean, (3, 1, 1))) / np.reshape(
        deviation, (3, 1, 1)
    )
    with torch.no_grad():
        expected = model(torch.from_numpy(scaled.astype(np.float32))).numpy()
    agree(network(pixels), expected)


@pytest.mark.parametrize("name", AS_FILES)
def test_files_hold_the_same_weights(name: str, tmp_path: Path) -> None:
    model = torchvision_model(name)
    network = zoo.create(name, size=input_size(name), classes=CLASSES)
    network.load_weights(arrays(model))
    expected = {key: network.weights[key] for key in network.weights}
    safe = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    torch.save(model.state_dict(), tmp_path / "new.pth")
    torch.save({"state_dict": model.state_dict()}, tmp_path / "wrapped.pth")
    torch.save(model.state_dict(), tmp_path / "legacy.pth", _use_new_zipfile_serialization=False)
    safe.save_file(model.state_dict(), tmp_path / "m.safetensors")
    for path in sorted(tmp_path.iterdir()):
        other = zoo.create(name, size=input_size(name), classes=CLASSES)
        other.load_weights(path)
        for key, value in expected.items():
            np.testing.assert_array_equal(other.weights[key], value, f"{key} of {path.name}")


def test_files_from_before_the_mlps_of_vit_were_sequences() -> None:
    """torchvision's own files of trained ViTs call the two maps `linear_1` and `linear_2`."""
    model = torchvision_model("vit_b_32")
    new = arrays(model)
    old = {
        k.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2."): v
        for k, v in new.items()
    }
    assert old.keys() != new.keys()
    networks = [zoo.vit_b_32(size=input_size("vit_b_32"), classes=CLASSES) for _ in range(2)]
    for network, weights in zip(networks, (new, old), strict=True):
        network.load_weights(weights)
    for name in networks[0].weights:
        np.testing.assert_array_equal(networks[0].weights[name], networks[1].weights[name])


def test_the_oldest_names_of_densenet() -> None:
    """Files of before 2018 have norm.1 and conv.2 in their dense layers."""
    model = torchvision_model("densenet121")
    inner = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))([12]\.)")
    old = {inner.sub(r"\1.\2", key): values for key, values in arrays(model).items()}
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    new, networks = arrays(model), []
    for weights in (old, new):
        network = zoo.create("densenet121", classes=CLASSES)
        assert network.load_weights(weights).scheme == "torchvision"
        networks.append(network)
    for key in networks[0].weights:
        np.testing.assert_array_equal(networks[0].weights[key], networks[1].weights[key])

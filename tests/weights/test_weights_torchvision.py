"""torchvision's state dicts as files: every form that torch.save and safetensors write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuralsym import zoo

torch = pytest.importorskip("torch", reason="torch is not installed")
torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")
safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]

SIZES = {
    "resnet50": 64,
    "squeezenet1_0": 64,
    "inception_v3": 96,
    "mobilenet_v3_large": 64,
    "efficientnet_b0": 64,
    "densenet121": 64,
    "vgg16_bn": 64,
    "convnext_tiny": 64,
    "vit_b_16": 64,
    "swin_t": 64,
    "regnet_y_400mf": 64,
    "shufflenet_v2_x1_0": 64,
}
CLASSES = 11


def calibrated(model: Any, x: Any) -> Any:
    """The model with batch norms that measured `x` and drawn scales: its answer hangs on x.

    Most of what a ReLU is given is positive, or a rounding would grow from layer to layer.
    """
    random = torch.Generator().manual_seed(0)
    model.eval()  # but for the norms: dropout and the heads of training stay off
    with torch.no_grad():
        for norm in model.modules():
            if not isinstance(norm, torch.nn.BatchNorm2d):
                continue
            norm.weight.uniform_(0.5, 1.5, generator=random)
            norm.bias.normal_(1, 0.3, generator=random)
            norm.momentum = 1.0
            norm.train()
        model(x)
    return model.eval()


def model_of(name: str, x: Any) -> Any:
    torch.manual_seed(1)
    settings: dict[str, Any] = {"image_size": SIZES[name]} if name.startswith("vit") else {}
    if name == "inception_v3":
        settings = {"init_weights": False}
    model = getattr(torchvision.models, name)(num_classes=CLASSES, **settings)
    if name.startswith("vit"):
        torch.nn.init.normal_(model.heads[-1].weight)  # zeros otherwise
    return calibrated(model, x)


@pytest.mark.parametrize("name", SIZES)
def test_state_dicts_give_the_outputs_of_torch(name: str, tmp_path: Path) -> None:
    size = SIZES[name]
    x = np.random.default_rng(1).standard_normal((16, 3, size, size)).astype(np.float32)
    model = model_of(name, torch.from_numpy(x))
    x = x[:2]
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
    state = model.state_dict()
    torch.save(state, tmp_path / "new.pth")
    torch.save(state, tmp_path / "legacy.pth", _use_new_zipfile_serialization=False)
    torch.save({"epoch": 3, "model_state_dict": state}, tmp_path / "checkpoint.pt")
    safetensors.save_file(state, tmp_path / "m.safetensors")
    tolerance = 1e-4 * np.abs(expected).max()
    assert np.abs(expected[0] - expected[1]).max() > 10 * tolerance
    first = None
    for path in sorted(tmp_path.iterdir()):
        network = zoo.create(name, classes=CLASSES, size=size)
        loaded = network.load_weights(path)
        assert loaded.scheme == "torchvision"
        assert not loaded.left_out
        if first is None:
            first = network
            np.testing.assert_allclose(network(x), expected, rtol=0, atol=tolerance)
        for weight in network.weights:
            assert np.array_equal(network.weights[weight], first.weights[weight]), path.name

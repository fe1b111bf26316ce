"""Weights by other frameworks' names: which names are tried, what is said, what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from weights_files import VALUES, holds_values, network, sound_zip, written

import neuralsym
import neuralsym.layers as nn
from neuralsym import Network, zoo
from neuralsym.cli import main
from neuralsym.errors import FormatError, WeightsError
from neuralsym.layers import (
    conv2d,
    depthwise_conv2d,
    get_network,
    input,
    linear,
    lstm,
    normalisation,
)
from neuralsym.weights.names import ONES, Source, part, paths, total
from neuralsym.weights.schemes import of_family

RNG = np.random.default_rng(0)


def drawn(shapes: dict[str, tuple[int, ...]]) -> dict[str, NDArray[np.float32]]:
    return {k: RNG.standard_normal(s).astype(np.float32) for k, s in shapes.items()}


def foreign(given: Network, framework: str, architecture: str) -> dict[str, NDArray[Any]]:
    """Arrays for a network of the zoo as the framework has them, each full of its own number."""
    shapes = {name: given.weights.tensor(name).shape for name in given.weights}
    (scheme,) = (s for s in of_family(architecture) if s.name == framework and s.fits(architecture))
    made: dict[str, NDArray[Any]] = {}
    for i, (name, key) in enumerate(scheme.keys(architecture, shapes).items()):
        assert isinstance(key, str)
        shape = shapes[name]
        if len(shape) == 2 and framework != "keras":
            shape = shape[::-1]
        elif len(shape) == 4 and framework == "keras":
            shape = (*shape[2:], shape[1], shape[0])
        made[key] = np.full(shape, i, np.float32)
    return made


def took(given: Network) -> bool:
    """Whether each weight is full of its own number."""
    return all((given.weights[name] == i).all() for i, name in enumerate(given.weights))


def same(left: Network, right: Network) -> bool:
    return all(np.array_equal(left.weights[n], right.weights[n]) for n in left.weights)


# -- schemes -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("squeezenet1_1", "torchvision"),
        ("resnet18", "torchvision"),
        ("resnet18", "timm"),
        ("inception_v3_keras", "keras"),
    ],
)
def test_a_network_of_the_zoo_takes_weights_by_other_names(name: str, framework: str) -> None:
    target = zoo.create(name, classes=7)
    loaded = target.load_weights(foreign(target, framework, name), scheme=framework)
    assert took(target)
    assert loaded.scheme == framework
    assert not loaded.left_out
    assert set(loaded.loaded) == set(target.weights)


def test_prefixes_wrappers_counters_and_heads_of_training_are_no_matter(tmp_path: Path) -> None:
    target = zoo.create("resnet18", classes=7)
    held = foreign(target, "torchvision", "resnet18")
    held = {f"module.{key}": value for key, value in held.items()}
    held["module.bn1.num_batches_tracked"] = np.array(3)
    assert target.load_weights(held).scheme == "torchvision"
    assert took(target)
    inception = zoo.create("inception_v3", classes=7)
    keys = foreign(inception, "torchvision", "inception_v3")
    assert not inception.load_weights({**keys, "AuxLogits.fc.bias": np.zeros(3)}).left_out


def test_automatic_names_of_keras_may_begin_at_any_number() -> None:
    target = zoo.create("inception_v3_keras", classes=7)
    held = {}
    for key, value in foreign(target, "keras", "inception_v3_keras").items():
        layer, _, variable = key.partition("/")
        word, _, number = layer.rpartition("_")
        if word in ("conv2d", "batch_normalization") and number.isdigit():
            layer = f"{word}_{int(number) + 94}"
        elif layer in ("conv2d", "batch_normalization"):
            layer = f"{layer}_94"
        held[f"model/{layer}/{variable}:0"] = value
    target.load_weights(held, scheme="keras")
    assert took(target)


def test_an_exported_file_knows_what_it_is(tmp_path: Path) -> None:
    zoo.create("squeezenet1_1", classes=7).save(tmp_path / "m.onnx")
    target = neuralsym.load(tmp_path / "m.onnx")
    held = foreign(target, "torchvision", "squeezenet1_1")
    assert target.load_weights(held).scheme == "torchvision"
    assert took(target)


def test_layers_called_as_there_need_no_scheme() -> None:
    def made() -> Network:
        y = input((1, 3, 8, 8)) | conv2d(4, 3, name="c") | normalisation(name="n")
        y = y | depthwise_conv2d(3, depth_multiplier=2, name="d")
        return y | linear(5, name="l") | get_network()  # type: ignore[no-any-return]

    torch = drawn(
        {
            "c.weight": (4, 3, 3, 3), "c.bias": (4,), "n.weight": (4,), "n.bias": (4,),
            "n.running_mean": (4,), "n.running_var": (4,), "d.weight": (8, 1, 3, 3),
            "d.bias": (8,), "l.weight": (5, 8), "l.bias": (5,),
        }
    )  # fmt: skip
    given = made()
    assert given.load_weights(torch).scheme == "torch"
    np.testing.assert_array_equal(given.weights["l/kernel"], torch["l.weight"].T)
    np.testing.assert_array_equal(given.weights["n/variance"], torch["n.running_var"])
    keras = drawn(
        {
            "c/kernel": (3, 3, 3, 4), "c/bias": (4,), "n/gamma": (4,), "n/beta": (4,),
            "n/moving_mean": (4,), "n/moving_variance": (4,), "d/depthwise_kernel": (3, 3, 4, 2),
            "d/bias": (8,), "l/kernel": (8, 5), "l/bias": (5,),
        }
    )  # fmt: skip
    assert given.load_weights(keras, scheme="keras").scheme == "keras"
    kernel, depthwise = given.weights["c/kernel"], given.weights["d/kernel"]
    for i, o in np.ndindex(3, 4):
        np.testing.assert_array_equal(kernel[o, i], keras["c/kernel"][:, :, i, o])
    for c, m in np.ndindex(4, 2):
        np.testing.assert_array_equal(
            depthwise[2 * c + m, 0], keras["d/depthwise_kernel"][:, :, c, m]
        )


def test_gates_and_biases_of_a_recurrent_layer() -> None:
    given = input((1, 5, 3)) | lstm(2, name="a") | get_network()
    held = drawn(
        {
            "a.weight_ih_l0": (8, 3), "a.weight_hh_l0": (8, 2),
            "a.bias_ih_l0": (8,), "a.bias_hh_l0": (8,),
        }
    )  # fmt: skip
    given.load_weights(held)
    i, f, c, o = np.split(held["a.weight_ih_l0"], 4)
    np.testing.assert_array_equal(given.weights["a/kernel"][0], np.concatenate([i, o, f, c]))
    i, f, c, o = np.split(held["a.bias_ih_l0"] + held["a.bias_hh_l0"], 4)
    np.testing.assert_array_equal(given.weights["a/bias"][0], np.concatenate([i, o, f, c]))


def test_names_say_where_weights_are() -> None:
    stacked = np.stack([VALUES["fc.weight"].ravel(), VALUES["fc.weight"].ravel()])
    given = network()
    given.load_weights(
        {"both": np.concatenate([VALUES["fc.weight"], np.zeros((3, 4))]), "b": VALUES["fc.bias"]},
        scheme="torch",
        names={"fc/kernel": part("both", 0, 2), "fc/bias": "b"},
    )
    assert holds_values(given)
    given.load_weights(
        {"rows": stacked, "x": np.zeros(3), "y": VALUES["fc.bias"]},
        names={
            "fc/kernel": Source(("rows",), lambda a: a[0].reshape(3, 4).T, layout=False),
            "fc/bias": total("x", "y"),
        },
    )
    assert holds_values(given)
    given.load_weights({"fc/kernel": np.zeros((4, 3))}, names={"fc/bias": ONES})
    np.testing.assert_array_equal(given.weights["fc/bias"], [1, 1, 1])
    with pytest.raises(WeightsError, match="no weight 'fc/biass'; did you mean 'fc/bias'"):
        given.load_weights({}, names={"fc/biass": "b"})


def test_an_array_that_changes_later_changes_no_weight() -> None:
    given = network()
    held = {"fc/kernel": VALUES["fc.weight"].T.copy(), "fc/bias": VALUES["fc.bias"].copy()}
    given.load_weights(held)
    held["fc/bias"][:] = 9
    assert holds_values(given)
    given.set_weight("fc/bias", held["fc/bias"])
    held["fc/bias"][:] = 7
    np.testing.assert_array_equal(given.weights["fc/bias"], [9, 9, 9])


def test_templates_compute_and_name() -> None:
    keys = paths(
        "torch",
        {
            "stage{s}/block{_b}/{kind:conv|proj}": "layer{s*2-1}.{b+1}.{kind}{_b}",
            "part/{rest:.+}": "{rest}",
            "token": "cls",
            "attn/qkv": "self.in_proj_{param}",
        },
    )
    shapes = {
        "stage2/block/conv/kernel": (1,), "stage2/block_3/proj/gamma": (1,), "part/a/b/mean": (1,),
        "token": (1,), "attn/qkv/bias": (1,), "other/kernel": (1,),
    }  # fmt: skip
    assert keys("any", shapes) == {
        "stage2/block/conv/kernel": "layer3.1.conv.weight",
        "stage2/block_3/proj/gamma": "layer3.4.proj_3.weight",
        "part/a/b/mean": "a.b.running_mean",
        "token": "cls",
        "attn/qkv/bias": "self.in_proj_bias",
    }


# -- what does not fit ---------------------------------------------------------------------
def test_all_that_does_not_fit_is_said_at_once() -> None:
    given = zoo.create("resnet18", classes=7)
    held = foreign(given, "torchvision", "resnet18")
    held["layer1.0.conv1.wieght"] = held.pop("layer1.0.conv1.weight")
    held["fc.bias"] = np.zeros(9)
    with pytest.raises(WeightsError) as caught:
        given.load_weights(held)
    text = str(caught.value)
    assert "torchvision names" in text
    assert "'fc/bias' has shape (7,), came (9,) from 'fc.bias'" in text
    assert (
        "missing 'stage1/block1/conv_bn/conv2d/kernel' (layer1.0.conv1.weight); "
        "did you mean 'layer1.0.conv1.wieght'?" in text
    )
    assert "unexpected 'layer1.0.conv1.wieght'" in text
    assert "strict=False" in text


def test_other_classes_are_left_out_by_name(tmp_path: Path) -> None:
    source = zoo.create("squeezenet1_1", classes=10, seed=3)
    source.save_weights(tmp_path / "w.safetensors")
    target = zoo.create("squeezenet1_1", classes=7)
    before = target.weights["classifier/kernel"].copy()
    with pytest.raises(WeightsError, match="classifier/kernel"):
        target.load_weights(tmp_path / "w.safetensors")
    with pytest.warns(UserWarning, match="classifier/kernel"):
        found = target.load_weights(tmp_path / "w.safetensors", strict=False)
    assert found.mismatched == ("classifier/kernel", "classifier/bias")
    assert not found.missing
    assert not found.unexpected
    np.testing.assert_array_equal(target.weights["classifier/kernel"], before)
    np.testing.assert_array_equal(target.weights["stem/kernel"], source.weights["stem/kernel"])


def test_weights_of_the_other_form_of_a_network_are_pointed_out() -> None:
    held = foreign(zoo.create("resnet50_keras", classes=7), "keras", "resnet50_keras")
    with pytest.raises(WeightsError, match=r"keras's for resnet\*_keras, which computes something"):
        zoo.create("resnet50", classes=7).load_weights(held)


def test_weights_that_fit_nothing_are_never_taken() -> None:
    with pytest.raises(WeightsError, match="missing"):
        network().load_weights({"a": np.zeros(3)}, strict=False)
    with pytest.raises(WeightsError, match="no scheme 'torchvison'"):
        network().load_weights({"a": np.zeros(3)}, scheme="torchvison")
    with pytest.raises(WeightsError, match=r"complex64"):
        network().load_weights({**VALUES, "fc.bias": np.zeros(3, np.complex64)})
    with pytest.raises(WeightsError, match=r"\.pht.*did you mean .*'\.pth'"):
        network().load_weights("w.pht")


# -- files ---------------------------------------------------------------------------------
def of_type(dtype: str) -> Network:
    made: Network = input((2, 4), dtype=dtype) | linear(3, name="fc") | get_network("n", seed=5)
    return made


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_saved_weights_come_back_byte_for_byte(tmp_path: Path, suffix: str, dtype: str) -> None:
    source = of_type(dtype)
    path = source.save_weights(tmp_path / f"w{suffix}")
    again = of_type(dtype)
    for name in again.weights:
        again.set_weight(name, np.zeros(again.weights.tensor(name).shape))
    again.load_weights(path)
    for name in source.weights:
        assert source.weights[name].tobytes() == again.weights[name].tobytes()
    first = path.read_bytes()
    again.save_weights(path)
    assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_numbers_that_a_type_cannot_hold_are_refused() -> None:
    given = of_type("float16")
    given.set_weight("fc/bias", np.array([1e-9, np.inf, 3.0]))
    np.testing.assert_array_equal(given.weights["fc/bias"], np.array([0, np.inf, 3], np.float16))
    with pytest.raises(WeightsError, match="float16, which cannot hold"):
        given.set_weight("fc/bias", np.array([1e9, 0, 0]))


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"\.npz or \.safetensors, not '\.pth'"):
        network().save_weights(tmp_path / "w.pth")
    with pytest.raises(FormatError, match="no folder"):
        network().save_weights(tmp_path / "absent" / "w.npz")


def test_numpy_packs_and_orders_arrays_as_it_likes(tmp_path: Path) -> None:
    np.savez_compressed(
        tmp_path / "w.npz",
        **{
            "fc/kernel": np.asfortranarray(VALUES["fc.weight"].T.astype(">f8")),
            "fc/bias": VALUES["fc.bias"].astype(np.int16),
        },
    )
    given = network()
    given.load_weights(tmp_path / "w.npz")
    assert holds_values(given)


def test_a_published_file_is_compared_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"SHA-256 begins with [0-9a-f]{8}, .* 0676ba61"):
        network().load_weights(written(tmp_path, "resnet50-0676ba61.pth", sound_zip()))
    given = network()
    given.load_weights(written(tmp_path, "mine-20261130.pth", sound_zip()))
    assert holds_values(given)


def test_the_command_exports_with_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = zoo.create("squeezenet1_1", classes=7, seed=3)
    source.save_weights(tmp_path / "w.npz")
    output = str(tmp_path / "m.onnx")
    call = ["export", "squeezenet1_1", "--classes", "7", "-o", output, "--weights"]
    assert main([*call, str(tmp_path / "w.npz")]) == 0
    assert "52 weights loaded by own names" in capsys.readouterr().out
    assert same(source, neuralsym.load(output))
    assert main([*call, str(tmp_path / "absent.npz")]) == 1
    assert "there is no file" in capsys.readouterr().err


@pytest.mark.parametrize("given", [None, 3, b"x.npz", [], np.ones(3)])
def test_what_is_no_file_and_no_dict(given: Any) -> None:
    net = nn.input(("N", 4)) | nn.dense(3, name="fc") | nn.get_network()
    here = r"\n  at .*test_weights_match.py:"
    with pytest.raises(TypeError, match="load_weights takes a file or a dict of arrays.*" + here):
        net.load_weights(given)
    with pytest.raises(TypeError, match="save_weights takes the path of a file, not.*" + here):
        net.save_weights(given)


def test_names_that_are_none() -> None:
    net = nn.input(("N", 4)) | nn.dense(3, name="fc") | nn.get_network()
    arrays: dict[Any, Any] = {"fc/kernel": np.ones((4, 3)), "fc/bias": np.ones(3)}
    with pytest.raises(WeightsError, match="'fc/bias' is found by a key or a Source, not by None"):
        net.load_weights(arrays, names={"fc/bias": None})  # type: ignore[dict-item]
    with pytest.raises(WeightsError, match="names is a dict of keys by our names, not int"):
        net.load_weights(arrays, names=3)  # type: ignore[arg-type]
    with pytest.raises(WeightsError, match="names as its keys, not 1"):
        net.load_weights({**arrays, 1: np.ones(3)})
    with pytest.raises(FormatError, match="it holds a zero byte"):
        net.save_weights("a\0.npz")


def test_a_device_without_an_end_is_not_read() -> None:
    with pytest.raises(FormatError, match="/dev/zero is a device"):
        neuralsym.load("/dev/zero")


def flattened(last: bool) -> Network:
    """A map of a flattened picture, which comes with its channels last where `last` says so."""
    x = nn.input(("N", 2, 4, 5)) | nn.max_pool2d(1) | nn.relu
    return (
        (x | nn.permute((2, 3, 1)) if last else x)
        | nn.flatten
        | nn.dense(3, name="fc")
        | nn.get_network()
    )


def test_keras_flattens_pictures_with_the_channels_last() -> None:
    rng = np.random.default_rng(0)
    kernel, bias = rng.normal(size=(40, 3)).astype("f4"), rng.normal(size=3).astype("f4")
    x = rng.normal(size=(2, 2, 4, 5)).astype("f4")
    wanted = np.maximum(x, 0).transpose(0, 2, 3, 1).reshape(2, -1) @ kernel + bias
    for last in (False, True):
        net = flattened(last)
        net.load_weights({"fc/kernel": kernel, "fc/bias": bias}, scheme="keras")
        np.testing.assert_allclose(net(x), wanted, rtol=1e-5, atol=1e-5)
    net = flattened(False)
    net.load_weights({"fc/kernel": kernel, "fc/bias": bias})  # by our names: ours as they are
    np.testing.assert_array_equal(net.weights["fc/kernel"], kernel)

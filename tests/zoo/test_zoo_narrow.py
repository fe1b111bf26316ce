"""Families whose smallest network is too large for every run of the tests, with less of all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from zoo_networks import agree, draw_statistics

from neuralsym import Network, load
from neuralsym.zoo import convnext, maxvit, nasnet, swin, vgg, vit
from neuralsym.zoo.alexnet import build as alexnet
from neuralsym.zoo.inception_resnet_v2 import build as inception_resnet_v2

NARROW: dict[str, Callable[[], Network]] = {
    "alexnet": lambda: alexnet("alexnet", 32, {"size": (75, 83)}),
    "convnext": lambda: convnext.convnext(
        "convnext_tiny", convnext.Config((8, 16), (2, 1)), {"size": (32, 43)}
    ),
    "convnext_keras": lambda: convnext.convnext(
        "convnext_tiny_keras", convnext.Config((8, 16), (1, 1), scales=True), {"size": 32}
    ),
    "inception_resnet_v2": lambda: inception_resnet_v2(
        "inception_resnet_v2", (1, 1, 2), {"size": (75, 83), "classes": 10}
    ),
    "maxvit": lambda: maxvit.maxvit(
        "maxvit_t", maxvit.Config(16, (16, 32), (1, 1), head=8), {"size": (56, 112)}
    ),
    "nasnet": lambda: nasnet.build(
        "nasnet_mobile", nasnet.Config(1, 96, 8, skip=False), {"size": (64, 75), "classes": 10}
    ),
    "nasnet_skip": lambda: nasnet.build(
        "nasnet_large", nasnet.Config(1, 96, 8, skip=True), {"size": 64, "classes": 10}
    ),
    "swin": lambda: swin.swin("swin_t", swin.Config(16, (2, 2), (2, 4)), {"size": (60, 75)}),
    "swin_v2": lambda: swin.swin(
        "swin_v2_t", swin.Config(16, (2, 2), (2, 4), 8, second=True), {"size": (60, 75)}
    ),
    "vgg": lambda: vgg.vgg(
        "vgg11", vgg.Config((1, 1, 1, 1, 1), hidden=32), {"size": (64, 75), "classes": 10}
    ),
    "vgg_bn": lambda: vgg.vgg(
        "vgg11_bn", vgg.Config((1, 1, 1, 1, 1), norm=True, hidden=32), {"size": 32, "classes": 10}
    ),
    "vit": lambda: vit.vit("vit_b_16", vit.Config(2, 32, 64, 4, 16), {"size": (64, 80)}),
}
ATTENTIONS = {"maxvit": 4, "swin": 4, "swin_v2": 4, "vit": 2}


def narrow(family: str) -> Network:
    """Drawn so that every weight shows, tables of positions and small scales included."""
    network = draw_statistics(NARROW[family]())
    rng = np.random.default_rng(2)
    kinds = ("position", "class_token", "relative_position_bias", "layer_scale", "logit_scale")
    for name in network.weights:
        if name.rpartition("/")[2] in kinds:
            shape = network.weights.tensor(name).shape
            network.set_weight(name, rng.uniform(0.2, 1.0, shape).astype(np.float32))
    return network


@pytest.mark.parametrize("family", NARROW)
def test_narrow_answers(family: str, tmp_path: Path) -> None:
    """Ours equals onnxruntime's at two batch sizes, and hangs on the picture."""
    network = narrow(family)
    shape = tuple(network.inputs[0].shape or ())[1:]
    pictures = 64 * np.random.default_rng(0).standard_normal((3, *shape)).astype(np.float32)
    (path,) = network.save(tmp_path / "m.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"input": pictures})
    agree(network(pictures), expected)
    agree(load(path)(pictures), expected)
    np.testing.assert_allclose(
        network(pictures[:1]), expected[:1], rtol=0, atol=1e-4 * np.abs(expected).max()
    )


@pytest.mark.parametrize("family", ["convnext", "nasnet", *ATTENTIONS])
def test_narrow_exports_are_byte_equal(family: str, tmp_path: Path) -> None:
    (again,) = NARROW[family]().save(tmp_path / "again.onnx")
    (twice,) = NARROW[family]().save(tmp_path / "twice.onnx")
    assert again.read_bytes() == twice.read_bytes()


@pytest.mark.parametrize("family", ATTENTIONS)
def test_attention_is_one_operator(family: str) -> None:
    """No matrix of scores is kept, whatever is added to it."""
    assert NARROW[family]().explain().count("FusedAttention ->") == ATTENTIONS[family]

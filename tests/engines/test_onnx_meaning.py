"""Versions that changed what a node means: each row of the table, below and at its version.

A node that a row speaks of is said otherwise below the version and computes the same, or is
refused; one of the same operator that the row leaves alone is written as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lowering import Array, F, agree, floats, lowered, made

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Symbol
from neuralsym.engines.onnx.meaning import CHANGED
from neuralsym.engines.onnx.opsets import lowest
from neuralsym.errors import FormatError

X = floats(2, 3, 4)
IMAGE = floats(1, 2, 4, 4)
Build = Callable[[], Symbol]
FEED: dict[str, Array] = {
    "x": X,
    "image": IMAGE,
    "row": floats(4),
    "grid": np.clip(floats(1, 3, 3, 2), -1, 1),
    "deep": floats(1, 1, 2, 3, 3),
    "places": np.clip(floats(1, 2, 2, 2, 3), -1, 1),
    "indices": np.array([[0, -1, 2]]),
    "signal": floats(1, 4, 1),
    "rois": np.array([[0, 0, 3, 3]], F),
    "whole": np.array([[-7, 7, 5]]),
    "updates": floats(1, 3),
}


def v(name: str) -> Symbol:
    return ops.variable(name, FEED[name].shape, FEED[name].dtype)


def pool(op: str, **attrs: Any) -> Symbol:
    return made(op, v("image"), kernel_shape=(1, 1), strides=(2, 2), **attrs)[0]


def scan() -> Symbol:
    result: tuple[Symbol, ...] = ops.scan(lambda s, e: (s + e, s * e), np.zeros((3, 4), F), v("x"))
    return result[1]


def quantized(axis_scale: bool) -> Symbol:
    scale, zero = (floats(4) ** 2 + F(0.5), np.zeros(4, np.uint8))
    if not axis_scale:
        scale, zero = scale[0].reshape(()), zero[0].reshape(())
    return made("QuantizeLinear", v("x"), scale, zero, axis=2)[0]


def dequantized(axis_scale: bool) -> Symbol:
    scale = floats(4) ** 2 + F(0.5)
    x = made("QuantizeLinear", v("x"), np.array(0.1, F), np.array(7, np.uint8))[0]
    zero = np.full(4, 7, np.uint8)
    if not axis_scale:
        scale, zero = scale[0].reshape(()), zero[0].reshape(())
    return made("DequantizeLinear", x, scale, zero, axis=2)[0]


def resized(**attrs: Any) -> Symbol:
    # A vector of no elements is no region: what may be left out since 13.
    return made("Resize", v("image"), np.zeros(0, F), np.array([1, 1, 2, 2], F), **attrs)[0]


def scattered(op: str, reduction: str) -> Symbol:
    data = ops.constant(np.ones((2, 3), F))
    if op == "ScatterND":
        return made(op, data, np.array([[0]]), v("updates"), reduction=reduction)[0]
    return made(op, data, np.array([[0, 1, 0]]), v("updates"), reduction=reduction)[0]


def aligned(mode: str) -> Symbol:
    attrs = {"coordinate_transformation_mode": mode, "output_height": 2, "output_width": 3}
    return made("RoiAlign", v("image"), v("rois"), np.array([0]), **attrs)[0]


def sliced(step: int) -> Symbol:
    ends = 9 if step > 0 else -9
    rows = (np.array([i]) for i in (0 if step > 0 else -1, ends, 1, step))
    return made("Slice", v("x"), *rows)[0]


ROWS: dict[tuple[str, int], tuple[Build, Build | None]] = {
    # a node that the row concerns, and one that it does not
    **{
        (op, 22): (lambda op=op: pool(op, ceil_mode=1), lambda op=op: pool(op))
        for op in ("AveragePool", "LpPool", "MaxPool")
    },
    **{
        (op, 13): (
            lambda op=op: made(op, v("x"), axis=1)[0],
            lambda op=op: made(op, v("x"), axis=2)[0],
        )
        for op in ("Hardmax", "LogSoftmax", "Softmax")
    },
    **{
        (op, 8): (
            lambda op=op: made(op, v("x"), v("row"))[0],
            lambda op=op: (lambda x: made(op, x, made("Neg", x)[0])[0])(v("x")),
        )
        for op in ("Max", "Mean", "Min", "Sum")
    },
    ("DFT", 20): (lambda: made("DFT", v("signal"), None, np.array(1))[0], None),
    ("DequantizeLinear", 13): (lambda: dequantized(True), lambda: dequantized(False)),
    ("QuantizeLinear", 13): (lambda: quantized(True), lambda: quantized(False)),
    ("Dropout", 10): (
        lambda: made("Dropout", v("x"), outputs=2)[1],
        lambda: made("Dropout", v("x"))[0],
    ),
    ("Gather", 11): (
        lambda: made("Gather", v("x"), np.array([-1, 0]), axis=1)[0],
        lambda: made("Gather", v("x"), np.array([1, 0]), axis=1)[0],
    ),
    ("GridSample", 20): (
        lambda: made("GridSample", v("image"), v("grid"))[0],
        lambda: made("GridSample", v("image"), v("grid"), mode="nearest")[0],
    ),
    ("GroupNormalization", 21): (
        lambda: made("GroupNormalization", v("image"), floats(2), floats(2), num_groups=2)[0],
        None,
    ),
    ("Mod", 28): (
        lambda: made("Mod", v("x"), F(0.7), fmod=0)[0],
        lambda: made("Mod", v("x"), F(0.7), fmod=1)[0],
    ),
    ("OneHot", 11): (
        lambda: made("OneHot", v("indices"), np.array(3), np.array([0, 1], F))[0],
        None,
    ),
    ("Pad", 19): (
        lambda: made("Pad", v("x"), np.array([0, 1, 2, 1, 0, 3]), mode="wrap")[0],
        lambda: made("Pad", v("x"), np.array([0, 1, 2, 1, 0, 3]), mode="edge")[0],
    ),
    ("Resize", 11): (lambda: resized(mode="linear"), None),
    ("Resize", 19): (
        lambda: resized(mode="linear", coordinate_transformation_mode="half_pixel_symmetric"),
        lambda: resized(mode="linear"),
    ),
    ("RoiAlign", 16): (
        lambda: made("RoiAlign", v("image"), v("rois"), np.array([0]))[0],
        lambda: aligned("output_half_pixel"),
    ),
    ("Scan", 9): (scan, None),
    **{
        (op, 18): (lambda op=op: scattered(op, "max"), lambda op=op: scattered(op, "add"))
        for op in ("ScatterElements", "ScatterND")
    },
    ("Slice", 11): (lambda: sliced(-2), None),
}
SAID_NOWHERE = {("RoiAlign", 16), ("Scan", 9), ("ScatterElements", 18), ("ScatterND", 18)}
"""What no older version has a way to say."""


def test_every_row_has_its_nodes() -> None:
    assert set(ROWS) == set(CHANGED)


@pytest.mark.oracle
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_node_that_a_row_concerns(row: tuple[str, int]) -> None:
    op, version = row
    symbol = ROWS[row][0]()
    good, reason = lowest(symbol.node)
    assert good >= version
    assert f"version {version} of {op}" in reason
    graph = Graph(symbol)
    if row in SAID_NOWHERE:
        with pytest.raises(FormatError, match=f"{op} .*cannot be written in opset {version - 1}"):
            lowered(graph, version - 1)
    else:
        feed = {name: FEED[name] for name in graph.input_names}
        # onnxruntime has not the version of 28 yet.
        wanted = [np.mod(X, F(0.7))] if op == "Mod" else None
        agree(graph, feed, (version - 1,), wanted)


@pytest.mark.parametrize("row", [r for r in ROWS if ROWS[r][1]], ids=str)
def test_a_node_that_a_row_leaves_alone(row: tuple[str, int]) -> None:
    build = ROWS[row][1]
    assert build is not None
    assert CHANGED[row](build().node) == ""


@pytest.mark.oracle
def test_regions_as_before_16() -> None:
    agree(Graph(aligned("output_half_pixel")), FEED, (10, 12, 15))

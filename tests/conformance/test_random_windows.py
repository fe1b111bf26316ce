"""Convolutions and pools drawn with every form of padding, strides, dilations, groups and ranks,
against onnxruntime, or the reference evaluator where that has no such form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_models import by_onnxruntime, by_reference, feed_of, one_node

from neuralsym import load
from neuralsym.errors import OpError


@st.composite
def windows(draw: Any, rank: int, *, ceil: bool, transpose: bool = False) -> dict[str, Any]:
    """Attributes of a window over `rank` axes."""
    few = st.lists(st.integers(1, 3), min_size=rank, max_size=rank)
    attrs: dict[str, Any] = {"kernel_shape": draw(few, label="kernel")}
    if draw(st.booleans()):
        attrs["strides"] = draw(few, label="strides")
    if draw(st.booleans()):
        attrs["dilations"] = draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    pad = draw(st.sampled_from(["NOTSET", "explicit", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if pad == "explicit":
        # A pool's window holds at least one pixel, so borders are narrower than windows.
        most = 1 if min(attrs["kernel_shape"]) > 1 else 0
        attrs["pads"] = draw(st.lists(st.integers(0, most), min_size=2 * rank, max_size=2 * rank))
    elif pad != "NOTSET":
        attrs["auto_pad"] = pad
    if pad.startswith("SAME"):
        # onnxruntime leaves dilations out of the border, and cuts where strides pass the window.
        attrs.pop("dilations", None)
        strides = attrs.get("strides", [1] * rank)
        pairs = zip(attrs["kernel_shape"], strides, strict=True)
        attrs["kernel_shape"] = [max(k, s) for k, s in pairs]
    if ceil and draw(st.booleans()):
        attrs["ceil_mode"] = 1
    return attrs


def data_of(draw: Any, shape: tuple[int, ...], *, extreme: bool = False) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = rng.normal(size=shape).astype(np.float32)
    if extreme:
        made = np.where(rng.random(shape) < 0.1, -3e38, made).astype(np.float32)
    return made


def check(op: str, arrays: list[Any], attrs: dict[str, Any], terms: int, outputs: int = 1) -> None:
    feed = feed_of(arrays)
    model = one_node(op, arrays, attrs, outputs=outputs)
    wanted = by_onnxruntime(one_node(op, arrays, attrs, outputs=outputs, opset=21), feed)
    wanted = by_reference(model, feed) if wanted is None else wanted
    try:
        results = load(model).run(feed)
    except OpError:
        assume(wanted is not None and 0 not in np.shape(wanted[0]))
        raise
    assume(wanted is not None)
    assert wanted is not None
    size = max(float(np.abs(a[np.isfinite(a)]).max(initial=1)) for a in arrays if a is not None)
    for value, exact in zip(results.values(), wanted, strict=True):
        assert value.shape == np.shape(exact), (attrs, value.shape, np.shape(exact))
        # Both sides round each of `terms` products and sums once, in some order.
        np.testing.assert_allclose(
            value,
            exact,
            rtol=1e-5 * bool(terms),
            atol=2 * terms * 2.0**-24 * size**2,
            err_msg=str(attrs),
        )


@pytest.mark.parametrize("rank", [1, 2, 3])
@settings(max_examples=25)
@given(data=st.data())
def test_conv(rank: int, data: st.DataObject) -> None:
    attrs = data.draw(windows(rank, ceil=False))
    group = data.draw(st.sampled_from([1, 2, 3]))
    inner, outer = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 20))
    if group > 1:
        attrs["group"] = group
    shape = (data.draw(st.integers(0, 2)), inner * group)
    shape += tuple(data.draw(st.lists(st.integers(5, 9), min_size=rank, max_size=rank)))
    x = data_of(data.draw, shape)
    w = data_of(data.draw, (outer * group, inner, *attrs["kernel_shape"]))
    b = data_of(data.draw, (outer * group,)) if data.draw(st.booleans()) else None
    check("Conv", [x, w, b], attrs, inner * int(np.prod(attrs["kernel_shape"])) + 1)


@pytest.mark.parametrize("rank", [1, 2, 3])
@settings(max_examples=20)
@given(data=st.data())
def test_conv_transpose(rank: int, data: st.DataObject) -> None:
    attrs = data.draw(windows(rank, ceil=False))
    group = data.draw(st.sampled_from([1, 2]))
    inner, outer = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9))
    attrs["group"] = group
    strides = attrs.get("strides", [1] * rank)
    if data.draw(st.booleans()) and "auto_pad" not in attrs:
        attrs["output_padding"] = [data.draw(st.integers(0, s - 1)) for s in strides]
    shape = (data.draw(st.integers(1, 2)), inner * group)
    shape += tuple(data.draw(st.lists(st.integers(3, 6), min_size=rank, max_size=rank)))
    x = data_of(data.draw, shape)
    w = data_of(data.draw, (inner * group, outer, *attrs["kernel_shape"]))
    b = data_of(data.draw, (outer * group,)) if data.draw(st.booleans()) else None
    check("ConvTranspose", [x, w, b], attrs, inner * int(np.prod(attrs["kernel_shape"])) + 1)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@settings(max_examples=20)
@given(data=st.data())
def test_pool(op: str, rank: int, data: st.DataObject) -> None:
    attrs = data.draw(windows(rank, ceil=True))
    if op == "AveragePool" and data.draw(st.booleans()):
        attrs["count_include_pad"] = 1
    if op == "LpPool":
        attrs["p"] = data.draw(st.integers(1, 3))
    shape = (data.draw(st.integers(0, 2)), data.draw(st.sampled_from([1, 3, 17])))
    shape += tuple(data.draw(st.lists(st.integers(5, 9), min_size=rank, max_size=rank)))
    x = data_of(data.draw, shape, extreme=op == "MaxPool")
    check(op, [x], attrs, 0 if op == "MaxPool" else int(np.prod(attrs["kernel_shape"])))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("op", ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
@settings(max_examples=6)
@given(data=st.data())
def test_global_pool(op: str, rank: int, data: st.DataObject) -> None:
    shape = (2, data.draw(st.sampled_from([1, 3, 17])))
    shape += tuple(data.draw(st.lists(st.integers(1, 9), min_size=rank, max_size=rank)))
    x = data_of(data.draw, shape)
    axes = tuple(range(2, len(shape)))
    wide = x.astype(np.float64)
    wanted = {
        "GlobalMaxPool": lambda: wide.max(axes, keepdims=True),
        "GlobalAveragePool": lambda: wide.mean(axes, keepdims=True),
        "GlobalLpPool": lambda: np.sqrt((wide**2).sum(axes, keepdims=True)),
    }[op]()
    (value,) = load(one_node(op, [x])).run(feed_of([x])).values()
    assert value.shape == wanted.shape
    np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)

"""Transposed convolutions, and wide windows of channels of their own, against float64 sums."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import SETS, close, run_op
from test_kernels_conv import exact_conv

from neuralsym.core.op import find_op
from neuralsym.cpu.options import Isa

CONV, TRANSPOSE = find_op("Conv"), find_op("ConvTranspose")


def exact_transpose(x, w, b, attrs):
    """Every input spread over the window that it reaches, in float64; and the magnitudes."""
    axes = x.ndim - 2
    groups, strides, dilations = attrs["group"], attrs["strides"], attrs["dilations"]
    pads, more = attrs["pads"], attrs["output_padding"]
    each, per = x.shape[1] // groups, w.shape[1]
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True)]
    whole = [
        s * (n - 1) + r + p for s, n, r, p in zip(strides, x.shape[2:], reach, more, strict=True)
    ]
    results = []
    for source, filters in ((x, w), (abs(x), abs(w))):
        source = source.astype(np.float64).reshape(len(x), groups, each, *x.shape[2:])
        filters = filters.astype(np.float64).reshape(groups, each, per, *w.shape[2:])
        y = np.zeros((len(x), groups, per, *whole))
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = tuple(
                slice(t * d, t * d + s * (n - 1) + 1, s)
                for t, d, s, n in zip(tap, dilations, strides, x.shape[2:], strict=True)
            )
            taken = filters[(slice(None), slice(None), slice(None), *tap)]
            y[(..., *at)] += np.einsum("gco,ngc...->ngo...", taken, source)
        y = y.reshape(len(x), groups * per, *whole)
        inside = tuple(slice(pads[i], whole[i] - pads[axes + i]) for i in range(axes))
        results.append(y[(slice(None), slice(None), *inside)])
    if b is not None:
        shape = (1, -1) + (1,) * axes
        results = [
            y + c.astype(np.float64).reshape(shape)
            for y, c in zip(results, (b, abs(b)), strict=True)
        ]
    return results


@st.composite
def transposed(draw: Any) -> dict[str, Any]:
    axes = draw(st.integers(1, 3))
    groups, each, per = draw(
        st.sampled_from([(1, 3, 5), (1, 16, 20), (1, 33, 16), (2, 8, 4), (3, 5, 7), (18, 1, 1)])
    )
    kernel, strides, dilations = (
        [draw(st.integers(1, most)) for _ in range(axes)] for most in (4, 3, 2)
    )
    pads = [0] * (2 * axes)
    size, more = [], []
    for i in range(axes):
        reach = (kernel[i] - 1) * dilations[i] + 1
        size.append(draw(st.integers(1, 9 if i == axes - 1 else 4)))
        more.append(draw(st.integers(0, max(strides[i], dilations[i]) - 1)))
        room = strides[i] * (size[i] - 1) + reach + more[i] - 1
        pads[i] = draw(st.integers(0, min(2, room)))
        pads[axes + i] = draw(st.integers(0, min(2, room - pads[i])))
    return {
        "shapes": ((draw(st.integers(1, 3)), groups * each, *size), (groups * each, per, *kernel)),
        "bias": groups * per if draw(st.booleans()) else 0,
        "attrs": {
            "group": groups,
            "strides": strides,
            "dilations": dilations,
            "pads": pads,
            "output_padding": more,
        },
        "stored": draw(st.sampled_from([(1, 2), ()])),
        "free": draw(st.sampled_from([(), (0,), (0, 2)])),
        "threads": draw(st.sampled_from([1, 2])),
        "isa": draw(st.sampled_from(SETS)),
    }


def drawn(case: dict[str, Any], dtype: Any = np.float32) -> list[Any]:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in case["shapes"]]
    bias = rng.standard_normal(case["bias"]).astype(dtype) if case["bias"] else None
    return [*arrays, bias]


@settings(max_examples=20)
@given(transposed())
def test_any_transposed_geometry(case: dict[str, Any]) -> None:
    arrays = drawn(case)
    exact, size = exact_transpose(*arrays, case["attrs"])
    how = {k: case[k] for k in ("stored", "threads", "isa")}
    (got,) = run_op(TRANSPOSE, arrays, case["attrs"], free={0: case["free"]}, **how)
    close(got, exact, size, terms=arrays[1].size // case["attrs"]["group"] + 1)


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_transposed_in_other_types(dtype: str, isa: Isa | None) -> None:
    attrs = {
        "group": 2,
        "strides": [2, 3],
        "dilations": [1, 2],
        "pads": [1, 0, 0, 2],
        "output_padding": [1, 0],
    }
    arrays = drawn({"shapes": ((2, 6, 5, 4), (6, 3, 3, 2)), "bias": 6}, dtype)
    exact, size = exact_transpose(*arrays, attrs)
    (got,) = run_op(TRANSPOSE, arrays, attrs, stored=(1, 2), isa=isa)
    assert got.dtype == dtype
    close(got, exact, size, dtype=dtype, terms=19)


@st.composite
def channelwise(draw: Any) -> dict[str, Any]:
    """Each channel by itself, or pairs of them: long windows, wide gaps, odd strides."""
    axes = draw(st.integers(1, 2))
    groups, each, per = draw(
        st.sampled_from([(1, 1, 1), (7, 1, 1), (16, 1, 1), (36, 1, 1), (16, 1, 2), (9, 2, 2)])
    )
    kernel = [draw(st.sampled_from([1, 2, 3, 5, 7])) for _ in range(axes)]
    strides = [draw(st.sampled_from([1, 2, 3, 5])) for _ in range(axes)]
    dilations = [draw(st.integers(1, 4)) for _ in range(axes)]
    pads = [draw(st.integers(0, 6)) for _ in range(2 * axes)]
    size = []
    for i in range(axes):
        least = max(1, (kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[axes + i])
        size.append(draw(st.integers(least, least + 13)))
    shape = (draw(st.integers(1, 3)), groups * each, *size)
    return {
        "shapes": (shape, (groups * per, each, *kernel)),
        "bias": groups * per if draw(st.booleans()) else 0,
        "attrs": {"group": groups, "strides": strides, "dilations": dilations, "pads": pads},
        "free": draw(st.sampled_from([(), (0,), (2,)])),
        "threads": draw(st.sampled_from([1, 2])),
        "isa": draw(st.sampled_from(SETS)),
    }


@settings(max_examples=20)
@given(channelwise())
def test_any_geometry_of_channels_of_their_own(case: dict[str, Any]) -> None:
    arrays, attrs = drawn(case), case["attrs"]
    exact, size = exact_conv(
        *arrays, attrs["group"], attrs["strides"], attrs["dilations"], attrs["pads"]
    )
    how = {k: case[k] for k in ("threads", "isa")}
    (got,) = run_op(CONV, arrays, attrs, stored=(1, 2), free={0: case["free"]}, **how)
    close(got, exact, size, terms=arrays[1][0].size + 1)

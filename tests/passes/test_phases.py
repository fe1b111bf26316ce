"""Transposed convolutions by phases: the same values, and which are left as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import assert_same, drawn, ops_of

from neuralsym import Network, ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.passes.phases import PHASES
from neuralsym.rewrite.driver import rewrite


def case(rng, w, attributes, x="[N, 8, H, W]"):
    groups = 2 if "group" in attributes else 1
    head = f"input x: float32{x}\nweight w: float32{w}\nweight b: float32[{w[1] * groups}]\n"
    return drawn(f"{head}y = ConvTranspose(x, w, b; {attributes})\noutput y", rng)


@pytest.mark.parametrize(
    ("kernel", "attributes", "left"),
    [
        ((2, 2), "strides=(2, 2)", ["Conv", "DepthToSpace"]),
        ((3, 3), "pads=(1, 1, 1, 1)", ["Conv"]),
        ((4, 4), "strides=(2, 2), pads=(1, 1, 1, 1)", ["Conv", "DepthToSpace", "Slice"]),
        ((4, 4), "strides=(2, 2), pads=(2, 2, 2, 2)", ["Conv", "DepthToSpace"]),
        ((5, 4), "strides=(2, 2), pads=(2, 0, 1, 3)", ["Conv", "DepthToSpace", "Slice"]),
        ((3, 3), "strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1)", None),
        ((6, 6), "strides=(3, 3), pads=(1, 2, 3, 0)", ["Conv", "DepthToSpace", "Slice"]),
    ],
)
def test_phases(kernel, attributes, left):
    rng = np.random.default_rng(0)
    before = case(rng, [8, 8, *kernel], attributes)
    after = rewrite(before, PHASES)
    assert_same(before, after, rng)
    if left is not None:
        assert ops_of(after) == left


@pytest.mark.parametrize(
    ("w", "attributes"),
    [
        ([4, 6, 3, 3], "group=2"),
        ([8, 8, 3, 3], "dilations=(2, 2)"),
        ([8, 8, 3, 3], "strides=(1, 2)"),
        ([8, 8, 2, 2], "strides=(3, 3)"),
        ([8, 8, 3, 3], 'auto_pad="SAME_UPPER"'),
        ([8, 8, 3, 3], "output_shape=(9, 9)"),
        ([8, 8, 2, 2], "pads=(2, 0, 0, 0)"),
    ],
)
def test_what_is_left(w, attributes):
    rng = np.random.default_rng(1)
    x = "[N, 4, 9, 9]" if w[0] == 4 else "[N, 8, 9, 9]"
    before = case(rng, w, attributes, x)
    assert ops_of(rewrite(before, PHASES)) == ["ConvTranspose"]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_form_by_the_engine(data):
    """Whatever becomes of it, the engine computes what the sum over taps is in float64."""
    stride = data.draw(st.integers(1, 3))
    kernel = [data.draw(st.integers(1, 5)) for _ in range(2)]
    pads = [data.draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    extra = [data.draw(st.integers(0, stride - 1)) for _ in range(2)]
    size = [data.draw(st.integers(3, 6)) for _ in range(2)]
    made = [
        (n - 1) * stride + k + e - a - b
        for n, k, e, a, b in zip(size, kernel, extra, pads[:2], pads[2:], strict=True)
    ]
    if min(made) < 1:
        return
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, 8, *size)).astype(np.float32)
    w = rng.standard_normal((8, 8, *kernel)).astype(np.float32)
    full = np.zeros((8, *(m + a + b for m, a, b in zip(made, pads[:2], pads[2:], strict=True))))
    for i in range(size[0]):
        for j in range(size[1]):
            part = np.tensordot(x[0, :, i, j].astype(np.float64), w, (0, 0))
            rows, columns = (
                slice(stride * at, stride * at + k) for at, k in ((i, kernel[0]), (j, kernel[1]))
            )
            full[:, rows, columns] += part
    wanted = full[:, pads[0] : pads[0] + made[0], pads[1] : pads[1] + made[1]]
    symbol = variable("x", x.shape, "float32")
    y = ops.conv_transpose(symbol, w, strides=[stride] * 2, pads=pads, output_padding=extra)
    found = Network(Graph({"y": y})).run({"x": x})["y"][0]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())

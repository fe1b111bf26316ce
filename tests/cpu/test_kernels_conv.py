"""Convolutions through the compiler against float64 sums, over many geometries."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import SETS, cell_of, close, leaves, run_cell, run_op

from neuralsym import ops
from neuralsym.core import scalar as s
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.core.scalar import argument
from neuralsym.cpu.machine import Target
from neuralsym.passes.fused import FusedConv

CONV = find_op("Conv")
X = argument(0)


def exact_conv(x, w, b, groups, strides, dilations, pads):
    """The sum in float64, and the sum of magnitudes."""
    axes = x.ndim - 2
    x, w = x.astype(np.float64), w.astype(np.float64)
    width = [(0, 0), (0, 0), *zip(pads[:axes], pads[axes:], strict=True)]
    x = np.pad(x, width)
    size = [
        (x.shape[i + 2] - dilations[i] * (w.shape[i + 2] - 1) - 1) // strides[i] + 1
        for i in range(axes)
    ]
    outputs, each = w.shape[:2]
    results = []
    for source, filters in ((x, w), (abs(x), abs(w))):
        y = np.zeros((x.shape[0], outputs, *size))
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = tuple(
                slice(t * d, t * d + (n - 1) * st_ + 1, st_)
                for t, d, n, st_ in zip(tap, dilations, size, strides, strict=True)
            )
            part = source[(slice(None), slice(None), *at)]
            part = part.reshape(x.shape[0], groups, each, -1)
            taken = filters[(slice(None), slice(None), *tap)]
            taken = taken.reshape(groups, outputs // groups, each)
            y += np.einsum("goc,ngcp->ngop", taken, part).reshape(y.shape)
        results.append(y)
    y, total = results
    if b is not None:
        shape = (1, -1) + (1,) * axes
        y = y + b.astype(np.float64).reshape(shape)
        total = total + abs(b.astype(np.float64)).reshape(shape)
    return y, total


GROUPS = (
    *((1, 3, 16), (1, 1, 5), (1, 17, 20), (1, 32, 48), (2, 16, 16), (1, 4, 100)),
    *(
        (5, 1, 1),
        (32, 1, 1),
        (3, 2, 4),
        (1, 64, 33),
        (40, 1, 1),
        (2, 32, 16),
        (8, 4, 4),
        (3, 24, 20),
        (3, 24, 20),
    ),
)
"""Groups, input channels of a group, outputs of a group."""


@st.composite
def cases(draw):
    axes = draw(st.integers(1, 3))
    groups, each, per = draw(st.sampled_from(GROUPS))
    kernel = [draw(st.integers(1, 3)) for _ in range(axes)]
    strides = [draw(st.integers(1, 3)) for _ in range(axes)]
    dilations = [draw(st.integers(1, 2)) for _ in range(axes)]
    pads = [draw(st.integers(0, 2)) for _ in range(2 * axes)]
    size = []
    for i in range(axes):
        least = max(1, (kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[axes + i])
        size.append(draw(st.integers(least, least + (20 if i == axes - 1 else 4))))
    return {
        "batch": draw(st.integers(1, 2)),
        "groups": groups,
        "each": each,
        "outputs": groups * per,
        "kernel": kernel,
        "size": size,
        "attrs": {
            "group": groups,
            "strides": strides,
            "dilations": dilations,
            "pads": pads,
        },
        "bias": draw(st.booleans()),
        "stored": draw(st.sampled_from([(1, 2), (1, 2), (), (1,)])),
        "free": draw(st.sampled_from([(), (0,), (0, 2)])),
        "threads": draw(st.sampled_from([1, 2])),
        "isa": draw(st.sampled_from(SETS)),
    }


def arrays_of(case, dtype=np.float32):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((case["batch"], case["groups"] * case["each"], *case["size"]))
    w = rng.standard_normal((case["outputs"], case["each"], *case["kernel"]))
    b = rng.standard_normal(case["outputs"]) if case["bias"] else None
    return [None if a is None else a.astype(dtype) for a in (x, w, b)]


def exact_of(case, x, w, b):
    a = case["attrs"]
    return exact_conv(x, w, b, a["group"], a["strides"], a["dilations"], a["pads"])


def terms(w):
    return w[0].size + 1


@settings(max_examples=40, deadline=None)
@given(cases())
def test_any_geometry(case):
    x, w, b = arrays_of(case)
    (got,) = run_op(
        CONV,
        [x, w, b],
        case["attrs"],
        stored=case["stored"],
        free={0: case["free"]},
        threads=case["threads"],
        isa=case["isa"],
    )
    exact, size = exact_of(case, x, w, b)
    close(got, exact, size, terms=terms(w))


ACTIVATIONS = {
    "relu": (s.maximum(X, 0), lambda v: np.maximum(v, 0)),
    "relu6": (s.minimum(s.maximum(X, 0.0), 6.0), lambda v: np.clip(v, 0, 6)),
    "leaky": (s.where(X < 0, 0.1 * X, X), lambda v: np.where(v < 0, 0.1 * v, v)),
    "hard_swish": (
        X * s.maximum(s.minimum(X * (1 / 6) + 0.5, 1), 0),
        lambda v: v * np.clip(v / 6 + 0.5, 0, 1),
    ),
    "hard_sigmoid": (
        s.maximum(s.minimum(0.25 * X + 0.5, 1), 0),
        lambda v: np.clip(0.25 * v + 0.5, 0, 1),
    ),
    "sigmoid": (s.sigmoid(X), lambda v: 1 / (1 + np.exp(-v))),
    "silu": (X * s.sigmoid(X), lambda v: v / (1 + np.exp(-v))),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("groups", [1, 24, 3])
def test_residual_and_activation(name, groups):
    expr, function = ACTIVATIONS[name]
    case = {
        "batch": 2,
        "groups": groups,
        "each": 24 // groups,
        "outputs": 24,
        "kernel": [3, 3],
        "size": [6, 9],
        "bias": True,
        "attrs": {"group": groups, "strides": [1, 2], "dilations": [1, 1], "pads": [1, 1, 1, 1]},
    }
    x, w, b = arrays_of(case)
    exact, size = exact_of(case, x, w, b)
    z = np.random.default_rng(1).standard_normal(exact.shape).astype(np.float32)
    attrs = {**case["attrs"], "activation": expr}
    (got,) = run_op(FusedConv, [x, w, b, z], attrs, stored=(1, 2))
    # No activation here is steeper than 1.5.
    close(got, function(exact + z), 1.5 * (size + abs(z)) + 1, terms=terms(w))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("free", [(), (2, 3)])
def test_auto_pad_follows_the_size(auto_pad, free):
    rng = np.random.default_rng(0)
    w = rng.standard_normal((20, 5, 4, 3)).astype(np.float32)
    x = rng.standard_normal((1, 5, 11, 9)).astype(np.float32)
    attrs = {"auto_pad": auto_pad, "strides": [2, 1]}
    (got,) = run_op(CONV, [x, w], attrs, stored=(1,), free={0: free}, kernel="conv")
    # 11 rows by stride 2: 6 windows of 4 span 14, 3 more than there are; 3 columns need 2 more.
    pads = {"SAME_UPPER": (1, 1, 2, 1), "SAME_LOWER": (2, 1, 1, 1), "VALID": (0, 0, 0, 0)}
    exact, size = exact_conv(x, w, None, 1, (2, 1), (1, 1), pads[auto_pad])
    close(got, exact, size, terms=terms(w))


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_number_types(dtype, isa):
    from neuralsym.dtypes import number_type

    kind = number_type(dtype).numpy
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(n).astype(kind) for n in ((2, 6, 7, 8), (4, 3, 3, 3), (4,)))
    attrs = {"group": 2, "pads": [1, 0, 1, 2], "strides": [1, 2]}
    (got,) = run_op(CONV, [x, w, b], attrs, stored=(1,), kernel="conv loop", isa=isa)
    assert got.dtype == kind
    exact, size = exact_conv(x, w, b, 2, (1, 2), (1, 1), (1, 0, 1, 2))
    units = {"float64": 2.3e-16, "float16": 1e-3, "bfloat16": 8e-3}
    assert np.all(abs(got.astype(np.float64) - exact) <= units[dtype] * 9 * size)


def test_other_sizes_need_no_new_code():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((32, 16, 3, 3)).astype(np.float32)
    x = rng.standard_normal((1, 16, 12, 12)).astype(np.float32)
    made, _ = leaves([x, w], stored=(1,), free={0: (0,)})
    cell = cell_of(apply(CONV, made, {"pads": [1] * 4}), made[:1])
    before = len(cell.codes())
    for batch in (1, 3):
        x = rng.standard_normal((batch, 16, 12, 12)).astype(np.float32)
        (got,) = run_cell(cell, {"x0": x})
        exact, size = exact_conv(x, w, None, 1, (1, 1), (1, 1), (1,) * 4)
        close(got, exact, size, terms=terms(w))
    assert len(cell.codes()) == before


def test_a_chain_stays_blocked_with_padding_between():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 15, 15)).astype(np.float32)
    ws = [rng.standard_normal(n).astype(np.float32) / 6 for n in ((24, 3, 3, 3), (40, 24, 3, 3))]
    made, fed = leaves([x])
    first = ops.conv(made[0], ws[0], strides=[2, 2])
    second = ops.conv(ops.relu(first), ws[1], pads=[1, 1, 1, 1])
    cell = cell_of([second], made)
    names = [step.kernel.name for step in cell.program.steps]
    start, end = (i for i, name in enumerate(names) if name.endswith("conv"))
    assert "reorder" not in names[start:end], names
    assert names.count("reorder") <= 2  # where vectors are short, three channels lie in blocks too
    (got,) = run_cell(cell, fed)
    inner, _ = exact_conv(x, ws[0], None, 1, (2, 2), (1, 1), (0,) * 4)
    exact, size = exact_conv(np.maximum(inner, 0), ws[1], None, 1, (1, 1), (1, 1), (1,) * 4)
    close(got, exact, size + 1, terms=300)


@pytest.mark.parametrize("expr", [None, s.maximum(X, 0), s.sigmoid(X)])
@pytest.mark.parametrize("residual", [False, True])
def test_groups_that_fill_no_vectors_are_padded(expr, residual):
    width = Target.of().width("float32")
    case = {
        "batch": 2,
        "groups": 3,
        "each": width + width // 4,
        "outputs": 3 * (width + width // 2),
        "kernel": [3, 3],
        "size": [7, 9],
        "bias": True,
        "attrs": {"group": 3, "strides": [1, 1], "dilations": [1, 1], "pads": [1, 1, 1, 1]},
    }
    x, w, b = arrays_of(case)
    exact, size = exact_of(case, x, w, b)
    z = np.random.default_rng(1).standard_normal(exact.shape).astype(np.float32)
    attrs = {**case["attrs"], "activation": expr}
    arrays = [x, w, b, z] if residual else [x, w, b]
    (got,) = run_op(FusedConv, arrays, attrs, stored=(1, 2), kernel="conv of padded groups")
    if residual:
        exact, size = exact + z, size + abs(z)
    if expr is not None:
        exact = np.maximum(exact, 0) if expr.function == "max" else 1 / (1 + np.exp(-exact))
    close(got, exact, size + 1, terms=terms(w))

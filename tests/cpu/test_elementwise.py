"""Compiled loops over elements: accuracy, broadcasting, types, special values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.core.registry import apply
from neuralsym.core.scalar import apply as call
from neuralsym.core.scalar import argument, cast, where
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options
from neuralsym.dtypes import NumberType, number_type
from neuralsym.ops.values import compute
from neuralsym.passes.fused import Calculate

ONE = Options(threads=1)


def run(expr, *arrays, dtype=None, options=ONE, shapes=None):
    """A Calculate of the expression over arrays, compiled."""
    dtype = number_type(dtype or arrays[0].dtype)
    inputs = [
        variable(f"x{i}", shapes[i] if shapes else a.shape, a.dtype) for i, a in enumerate(arrays)
    ]
    made = apply(Calculate, inputs, {"expr": expr, "dtype": dtype})
    cell = compile_graph(Graph({"y": made[0]}, inputs), options)
    assert all(s.kernel.name == "loop" for s in cell.program.steps)
    instance = cell.instance()
    for i, array in enumerate(arrays):
        instance[f"x{i}"] = array
    instance.compute()
    return np.array(instance["y"])


def ulps(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units of the last place of the exact value."""
    finite = np.isfinite(exact) & (np.abs(exact) >= np.finfo(got.dtype).tiny)
    assert np.array_equal(np.isnan(got), np.isnan(exact))
    infinite = np.isinf(exact)
    assert np.array_equal(got[infinite], exact[infinite])
    unit = np.spacing(np.abs(exact[finite]).astype(got.dtype)).astype(np.float64)
    return float(np.max(np.abs(got[finite].astype(np.float64) - exact[finite]) / unit, initial=0))


RANGES = {
    "exp": (-103, 88.7),
    "expm1": (-20, 88),
    "log": (1e-38, 3e38),
    "log1p": (-0.999, 1e6),
    "sigmoid": (-87, 87),
    "erf": (-5, 5),
    "tanh": (-12, 12),
    "sin": (-1e5, 1e5),
    "cos": (-1e5, 1e5),
    "tan": (-1e3, 1e3),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": (-1e4, 1e4),
    "sinh": (-80, 80),
    "cosh": (-80, 80),
    "asinh": (-1e8, 1e8),
    "acosh": (1, 1e8),
    "atanh": (-0.999999, 0.999999),
    "sqrt": (0, 1e30),
    "rsqrt": (1e-30, 1e30),
    "reciprocal": (-1e30, 1e30),
}
EXACT = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    **{f"a{n}": getattr(np, f"arc{n}") for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}


@pytest.mark.parametrize("name", RANGES)
def test_float32_functions_are_within_two_ulp(name):
    low, high = RANGES[name]
    rng = np.random.default_rng(1)
    x = rng.uniform(low, high, 20_000)
    near = rng.uniform(-1, 1, 5_000) * 10.0 ** rng.uniform(-30, 0, 5_000)
    if name == "log":
        x = 10.0 ** rng.uniform(-37, 38, 20_000)
        near = 1 + near
    near = near[(near >= low) & (near <= high)]
    x = np.concatenate([x, near]).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = EXACT.get(name, getattr(np, name, None))(x.astype(np.float64))
    assert ulps(run(call(name, argument(0)), x), exact) <= 2.0


@pytest.mark.parametrize("name", sorted(set(RANGES) - {"erf"}))
def test_float64_functions(name):
    low, high = RANGES[name]
    x = np.random.default_rng(2).uniform(low, min(high, 1e6), 2_000)
    with np.errstate(all="ignore"):
        exact = EXACT.get(name, getattr(np, name, None))(x)
    np.testing.assert_allclose(run(call(name, argument(0)), x), exact, rtol=2e-15)


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    1e-45,
    -1e-40,
    3e38,
    -3e38,
    0.5,
    2.0,
]
SPECIAL += [-0.5, -2.0, 88.8, -104.5, 1e10]


@pytest.mark.parametrize("name", [*RANGES, "floor", "ceil", "round", "trunc", "sign", "abs", "neg"])
def test_special_values_follow_numpy(name):
    x = np.array(SPECIAL, np.float32)
    with np.errstate(all="ignore"):
        exact = compute(call(name, argument(0)), [x.astype(np.float64)], NumberType.FLOAT64)
        rounded = exact.astype(np.float32)
    got = run(call(name, argument(0)), x)
    tolerance = 1e-5 if name in ("sin", "cos", "tan") else 3e-7
    np.testing.assert_allclose(got, rounded, rtol=tolerance, atol=2e-45)
    zero = rounded == 0
    if name not in ("cos", "acos", "sin", "tan", "sign"):
        assert np.array_equal(np.signbit(got[zero]), np.signbit(rounded[zero]))


def test_power_follows_numpy():
    values = np.array([*SPECIAL, 3.0, -3.0, 2.5, -7.0, 0.1], np.float32)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    got = run(call("pow", argument(0), argument(1)), x, y)
    np.testing.assert_allclose(got, exact, rtol=3e-7, atol=2e-45)


@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_keep_nan(name):
    x, y = (a.ravel() for a in np.meshgrid(*[np.array(SPECIAL, np.float32)] * 2))
    expected = getattr(np, f"{name}imum")(x, y)
    np.testing.assert_array_equal(run(call(name, argument(0), argument(1)), x, y), expected)
    relu = run(call("max", argument(0), 0), x)
    np.testing.assert_array_equal(relu, np.maximum(x, 0))
    np.testing.assert_array_equal(run(call("min", 1.5, argument(0)), x), np.minimum(x, 1.5))


INTEGERS = [f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)]
BINARY = ["add", "sub", "mul", "div", "mod", "fmod", "pow", "min", "max"]
BINARY += ["bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "lt", "le", "eq", "ne"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic_follows_numpy(dtype):
    info = np.iinfo(dtype)
    values = np.array(
        [0, 1, 2, 3, 5, 7, 100, info.max, info.max - 1, info.min, info.min // 2], dtype
    )
    if info.min:
        values = np.concatenate([values, np.array([-1, -2, -3, -7, -100], dtype)])
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    for name in BINARY:
        if name.startswith("shift"):
            wanted_y = np.abs(y.astype(object)).astype(np.uint64) % 70
            right = wanted_y.astype(dtype)
        else:
            right = y
        expr = call(name, argument(0), argument(1))
        logical = name in ("lt", "le", "eq", "ne")
        kind = NumberType.BOOL if logical else number_type(dtype)
        with np.errstate(all="ignore"):
            expected = compute(expr, [x, right], kind)
        got = run(expr, x, right, dtype=kind)
        overflow = np.zeros(x.shape, bool)
        if name in ("div", "mod", "fmod") and info.min:
            overflow = (x == info.min) & (right == -1)
        np.testing.assert_array_equal(got[~overflow], expected[~overflow], err_msg=name)


KINDS = ["bool", "float32", "float64", *INTEGERS]


@pytest.mark.parametrize("source", KINDS)
def test_casts_follow_numpy(source):
    if source == "bool":
        x = np.array([True, False, True])
    elif source.startswith("float"):
        x = np.array([0, -0.0, 1.5, -1.5, 100.7, 3.999, 0.1], source)
    else:
        info = np.iinfo(source)
        x = np.array([0, 1, 5, 100, info.max, info.min, info.max // 3], source)
    for target in KINDS:
        if target.startswith("u") and source.startswith("float"):
            given_x = np.abs(x)
        else:
            given_x = x
        got = run(cast(argument(0), target), given_x, dtype=target)
        np.testing.assert_array_equal(got, given_x.astype(target), err_msg=target)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32_and_rounded_once(kind):
    dtype = number_type(kind)
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=1000).astype(dtype.numpy) for _ in range(2))
    x[:4] = [np.nan, np.inf, -np.inf, 0]
    expr = call("exp", argument(0) * 0.5) + argument(1)
    got = run(expr, x, y, dtype=kind)
    wide = [a.astype(np.float32) for a in (x, y)]
    exact = (np.exp(wide[0].astype(np.float64) * 0.5) + wide[1]).astype(np.float32)
    expected = exact.astype(dtype.numpy).astype(np.float32)
    np.testing.assert_allclose(got.astype(np.float32), expected, rtol=2.0**-8)
    same = got.astype(np.float32)[4:] == expected[4:]
    assert same.mean() > 0.99
    through = run(cast(cast(argument(0), kind), "float32"), wide[0], dtype="float32")
    np.testing.assert_array_equal(through, wide[0])


def test_where_and_logic():
    x = np.random.default_rng(4).normal(size=(3, 70)).astype(np.float32)
    flags = x > 0.3
    expr = where(argument(1), argument(0), -argument(0))
    np.testing.assert_array_equal(run(expr, x, flags), np.where(flags, x, -x))
    both = call("and", argument(0) > 0, call("not", argument(1)))
    np.testing.assert_array_equal(run(both, x, flags, dtype="bool"), (x > 0) & ~flags)
    np.testing.assert_array_equal(run(call("isnan", argument(0)), x, dtype="bool"), np.isnan(x))


SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.data())
def test_broadcasting_follows_numpy(shape, data):
    def part():
        kept = [d if data.draw(st.booleans()) else 1 for d in shape]
        return tuple(kept[data.draw(st.integers(0, len(kept))) :])

    rng = np.random.default_rng(5)
    shapes = [part(), part(), shape]
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    expr = argument(0) * argument(1) + argument(2)
    np.testing.assert_array_equal(run(expr, *arrays), arrays[0] * arrays[1] + arrays[2])


@pytest.mark.parametrize("count", [1, 7, 15, 16, 17, 100, 1000])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_length_and_two_workers(count, threads):
    x = np.arange(count, dtype=np.float32)
    got = run(argument(0) * 2 + 1, x, options=Options(threads=threads))
    np.testing.assert_array_equal(got, x * 2 + 1)


@pytest.mark.parametrize("isa", ["sse2", "avx2"])
def test_smaller_instruction_sets(isa):
    from neuralsym.cpu.machine import host_isas

    if isa not in host_isas():
        pytest.skip(f"this machine has no {isa}")
    x = np.random.default_rng(6).normal(size=1003).astype(np.float32)
    expr = call("tanh", argument(0)) * call("sin", argument(0)) + call("round", argument(0))
    exact = np.tanh(x.astype(np.float64)) * np.sin(x.astype(np.float64)) + np.rint(x)
    got = run(expr, x, options=Options(threads=1, isa=isa))
    np.testing.assert_allclose(got, exact, rtol=1e-6, atol=1e-6)


def test_another_batch_compiles_nothing():
    x = variable("x", ("N", 8))
    y = variable("y", (8,))
    made = apply(
        Calculate, [x, y], {"expr": argument(0) + argument(1), "dtype": NumberType.FLOAT32}
    )
    cell = compile_graph(Graph({"z": made[0]}), ONE)
    instance = cell.instance()
    known = len(cell.codes())
    for n in (1, 5, 3):
        a = np.random.default_rng(n).normal(size=(n, 8)).astype(np.float32)
        instance["x"], instance["y"] = a, a[0]
        instance.compute()
        np.testing.assert_array_equal(instance["z"], a + a[0])
    assert len(cell.codes()) == known

"""Cast, CastLike and BitCast between all number types: compiled, rounded once, saturated as asked.

The answers for narrow floats come from the list of all their values: the nearest one, of two that
are equally near the one with the even bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from kernel_cases import SETS, cell_of, leaves, run_cell
from run_graph import assert_compiled

from neuralsym.core.leaves import variable
from neuralsym.core.registry import call
from neuralsym.cpu.narrow_ir import FORMATS
from neuralsym.dtypes import NumberType
from neuralsym.ops.evaluate import evaluate

KINDS = [k for k in NumberType if k not in ("string", "complex64", "complex128")]
NARROW = [k for k in KINDS if k.is_float and k not in ("float32", "float64", "float8e8m0")]
FLOAT8 = [k for k in NARROW if k.startswith("float8")]
EXTREMES = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e38, -1e38, 1e-45, 464.0, 248.0, 61440.0, 5e-324)


def doubles(x: Any) -> Any:
    with np.errstate(invalid="ignore"):  # not every NaN is a quiet one
        return x.astype(np.float64)


def bits_of(kind: NumberType) -> int:
    if kind in FORMATS:
        return FORMATS[kind].sign.bit_length()
    return {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}.get(kind, 8 * kind.itemsize)


def values_of(kind: NumberType, count: int = 203, seed: int = 0) -> Any:
    """Values all over the type's range, with its extremes."""
    rng, dtype = np.random.default_rng(seed), kind.numpy
    if kind == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if kind.itemsize <= 2:  # any bits
        raw = rng.integers(0, 1 << bits_of(kind), count)
        return raw.astype(f"u{kind.itemsize}").view(dtype)
    if kind.is_integer:
        info = np.iinfo(dtype)
        made = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        shifts = rng.integers(0, 8 * kind.itemsize, count).astype(dtype)
        made[::2] >>= shifts[::2]
        made[:2] = info.min, info.max
        return made
    made = rng.normal(size=count) * 10.0 ** rng.uniform(-12, 12, count)
    made[::2] = rng.normal(size=made[::2].size) * 10
    made[: len(EXTREMES)] = EXTREMES
    made[20:22] = 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40
    with np.errstate(all="ignore"):
        return made.astype(dtype)


@cache
def positive_values(kind: NumberType) -> Any:
    """The finite values of a narrow float that are not negative, in the order of their bits."""
    if kind == "bfloat16":
        count = 0x7F80
    else:
        count = FORMATS[kind].largest + 1
    raw = np.arange(count).astype(f"u{kind.itemsize}")
    return raw.view(kind.numpy).astype(np.float64)


def nearest(x: Any, kind: NumberType, saturate: bool) -> Any:
    """The narrow float nearest to each element, as float64."""
    table = positive_values(kind)
    exact = np.longdouble if x.dtype.kind in "iu" else np.float64
    size = np.abs(x.astype(exact) if x.dtype.kind in "iu" else doubles(x))
    step = table[-1] - table[-2]
    middles = (table + np.append(table[1:], table[-1] + step)) / 2
    place = np.searchsorted(middles.astype(exact), size, "left")
    tie = (place < table.size) & (middles[np.minimum(place, table.size - 1)] == size)
    place = place + (tie & (place % 2 == 1))
    beyond = place >= table.size
    made = table[np.minimum(place, table.size - 1)]
    has_infinity = kind == "bfloat16" or FORMATS[kind].infinity is not None
    no_choice = kind in ("float4e2m1", "float6e2m3", "float6e3m2")
    if not (saturate and kind in FLOAT8) and not no_choice:
        made = np.where(beyond, np.inf if has_infinity else np.nan, made)
    made = np.where(np.isnan(doubles(x)), 0.0 if no_choice else np.nan, made)
    return made * np.where(doubles(x) < 0, -1.0, 1.0)


def converted(x: Any, kind: NumberType, saturate: bool = True) -> Any:
    """The answer for any type but float8e8m0, as float64 or as the integers that they are."""
    if kind in NARROW:
        return nearest(x, kind, saturate)
    with np.errstate(all="ignore"):
        wide = doubles(x) if x.dtype.isbuiltin == 2 else x
        if kind.numpy.isbuiltin == 2:  # int4 and the like wrap
            bits = bits_of(kind)
            low = wide.astype(np.int64) & ((1 << bits) - 1)
            signed = low - ((low >> (bits - 1)) << bits)
            return low if kind.startswith("u") else signed
        return wide.astype(kind.numpy)


def fits(x: Any, kind: NumberType) -> Any:
    """Where ONNX says what a cast gives: floats that are outside of an integer type are not."""
    source = doubles(x) if x.dtype.kind not in "iu" else x
    if not kind.is_integer or x.dtype.kind in "iub":
        return np.ones(x.shape, bool)
    bits = bits_of(kind)
    low, high = (
        (0, 2.0**bits) if kind.startswith("u") else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))
    )
    with np.errstate(all="ignore"):
        return (np.trunc(source) >= low) & (np.trunc(source) < high)


def assert_casts(x: Any, source: NumberType, targets: list[Any], **options: Any) -> None:
    """One program that casts x to each (type, saturate) gives the answers, in compiled steps."""
    v = variable("x0", x.shape, source)
    outs = [
        call("Cast", v, to=k, saturate=int(s)) if s is not None else call("Cast", v, to=k)
        for k, s in targets
    ]
    cell = cell_of(outs, [v], **options)
    assert_compiled(cell)
    for (kind, saturate), made in zip(targets, run_cell(cell, {"x0": x}), strict=True):
        assert made.dtype == kind.numpy
        where = fits(x, kind)
        wanted = converted(x, kind, saturate is not False)
        if kind not in NARROW and made.dtype.isbuiltin == 2:
            made = made.astype(np.int64)
        elif kind in NARROW:
            made = doubles(made)
        np.testing.assert_array_equal(made[where], wanted[where], err_msg=f"{source} to {kind}")


WIDE = [NumberType("float32"), NumberType("int8"), NumberType("uint16"), NumberType("bool")]


def targets_of(source: NumberType, kinds: list[NumberType]) -> list[Any]:
    kinds = [k for k in kinds if k is not source and k != "float8e8m0"]
    return [(k, None) for k in kinds] + [(k, False) for k in kinds if k in FLOAT8]


@pytest.mark.parametrize("source", KINDS)
def test_every_type_to_some(source):
    kinds = [*WIDE, NumberType("float8e4m3fn"), NumberType("int4"), NumberType("bfloat16")]
    assert_casts(values_of(source), source, targets_of(source, kinds))


@pytest.mark.parametrize("source", ["float32", "float64", "int64", "float16"])
def test_some_types_to_every(source):
    source = NumberType(source)
    assert_casts(values_of(source), source, targets_of(source, KINDS))


@pytest.mark.slow
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("source", KINDS)
def test_every_pair_on_every_instruction_set(source, isa):
    assert_casts(values_of(source, 301, 1), source, targets_of(source, KINDS), isa=isa)


@pytest.mark.parametrize("isa", SETS[1:])
def test_halves_on_smaller_instruction_sets(isa):
    half = NumberType("float16")
    assert_casts(values_of(half), half, [(NumberType("float32"), None)], isa=isa)
    single = NumberType("float32")
    assert_casts(values_of(single), single, [(half, None)], isa=isa)


@given(arrays(np.float64, (37,), elements=st.floats(width=64, allow_subnormal=True)))
@settings(max_examples=60, deadline=None)
def test_doubles_are_rounded_once(x):
    assert_casts(x, NumberType("float64"), [(k, None) for k in NARROW])


@given(arrays(np.int64, (37,), elements=st.integers(-(2**63), 2**63 - 1)))
@settings(max_examples=40, deadline=None)
def test_integers_are_rounded_once(x):
    kinds = [NumberType(k) for k in ("float16", "bfloat16", "float8e5m2", "float32", "int4")]
    assert_casts(x, NumberType("int64"), [(k, None) for k in kinds])


def test_what_rounding_twice_would_get_wrong():
    doubles = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-40, 2.0**-25 * (1 + 2.0**-30)])
    v = variable("x0", (3,), "float64")
    outs = [call("Cast", v, to=k) for k in ("float16", "bfloat16")]
    half, bfloat = run_cell(cell_of(outs, [v]), {"x0": doubles})
    assert half.tolist() == [1 + 2.0**-10, 1 + 2.0**-8, 2.0**-24]
    assert bfloat.astype(float).tolist() == [1.0, 1 + 2.0**-7, 2.0**-25]
    whole = np.array([2**40 + 2**32 + 1, -(2**62) - 2**54 - 1])
    (w,), fed = leaves([whole])
    (made,) = run_cell(cell_of([call("Cast", w, to="bfloat16")], [w]), fed)
    assert made.astype(float).tolist() == [2.0**40 + 2.0**33, -(2.0**62) - 2.0**55]


# -- what ONNX writes out ----------------------------------------------------------------------
def test_the_tables_of_float8():
    x = np.array([0, -0.0, np.nan, np.inf, -np.inf, 1e9, -1e9], np.float32)
    v = variable("x0", x.shape, "float32")
    outs = [call("Cast", v, to=k, saturate=s) for s in (1, 0) for k in FLOAT8]
    cell = cell_of(outs, [v])
    made = run_cell(cell, {"x0": x})
    for i, kind in enumerate(FLOAT8):
        largest = positive_values(kind)[-1]
        wanted = np.array([0, -0.0, np.nan, largest, -largest, largest, -largest])
        given_values = made[i].astype(np.float64)
        np.testing.assert_array_equal(given_values, wanted)
        assert np.signbit(given_values[1]) == (not kind.endswith("uz"))
    over = {"float8e5m2": np.inf}
    for kind, result in zip(FLOAT8, made[4:], strict=True):
        end = over.get(kind, np.nan)
        wanted = np.array([0, -0.0, np.nan, end, -end, end, -end])
        np.testing.assert_array_equal(result.astype(np.float64), wanted)


E8M0 = [2.0**-127, 2.0**-126, 1.0, 1.25, 1.5, 1.75, 3e38, 3.4e38, np.inf, 2.0**-130, 1.5 * 2**-127]
E8M0_ANSWERS = {
    # round_mode, saturate: the exponents; 128 stands for NaN
    ("up", 1): [-127, -126, 0, 1, 1, 1, 127, 127, 127, -127, -126],
    ("down", 1): [-127, -126, 0, 0, 0, 0, 127, 127, 127, -127, -127],
    ("nearest", 1): [-127, -126, 0, 0, 1, 1, 127, 127, 127, -127, -126],
    ("up", 0): [-127, -126, 0, 1, 1, 1, 128, 128, 128, 128, -126],
    ("down", 0): [-127, -126, 0, 0, 0, 0, 127, 127, 128, 128, -127],
    ("nearest", 0): [-127, -126, 0, 0, 1, 1, 128, 128, 128, 128, -126],
}


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_powers_of_two(source):
    """float8e8m0: onnx's own helper takes 2^-127, a value of the type, to the next one."""
    with np.errstate(all="ignore"):
        x = np.array([*E8M0, np.nan, 0.0]).astype(source)
    v = variable("x0", x.shape, source)
    outs = [call("Cast", v, to="float8e8m0", round_mode=m, saturate=s) for m, s in E8M0_ANSWERS]
    cell = cell_of(outs, [v])
    assert_compiled(cell)
    for made, ((_, saturate), exponents) in zip(
        run_cell(cell, {"x0": x}), E8M0_ANSWERS.items(), strict=True
    ):
        bits = [e + 127 for e in exponents] + [255, 0 if saturate else 255]
        assert made.view(np.uint8).tolist() == bits
    default = run_cell(cell_of([call("Cast", v, to="float8e8m0")], [v]), {"x0": x})[0]
    assert default.view(np.uint8).tolist() == run_cell(cell, {"x0": x})[0].view(np.uint8).tolist()


def test_powers_of_two_as_other_types():
    x = np.arange(256).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    v = variable("x0", x.shape, "float8e8m0")
    single, double, half = run_cell(
        cell_of([call("Cast", v, to=k) for k in ("float32", "float64", "float16")], [v]), {"x0": x}
    )
    wanted = np.append(2.0 ** np.arange(-127, 128), np.nan)
    np.testing.assert_array_equal(double, wanted)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(single, wanted.astype(np.float32))
        np.testing.assert_array_equal(half, wanted.astype(np.float16))


def test_integers_wrap_and_floats_truncate():
    (v,), fed = leaves([np.array([200, -200, 17, 36], np.int16)])
    outs = [call("Cast", v, to=k) for k in ("int8", "uint4", "int2", "bool")]
    made = [a.astype(int).tolist() for a in run_cell(cell_of(outs, [v]), fed)]
    assert made == [[-56, 56, 17, 36], [8, 8, 1, 4], [0, 0, 1, 0], [1, 1, 1, 1]]
    (v,), fed = leaves([np.array([1.9, -1.9, -0.0, np.nan], np.float32)])
    outs = [call("Cast", v, to=k) for k in ("int32", "int4", "bool")]
    made = [a.astype(int).tolist() for a in run_cell(cell_of(outs, [v]), fed)]
    assert made[0][:3] == [1, -1, 0] and made[1][:3] == [1, -1, 0] and made[2] == [1, 1, 0, 1]


# -- the other operators -----------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 7)])
def test_cast_like_reads_no_values(shape):
    x = np.full(shape, 500.7, np.float32)
    v, like = variable("x0", shape, "float32"), variable("x1", (2, 0), "float8e4m3fn")
    cell = cell_of([call("CastLike", v, like), call("CastLike", v, like, saturate=0)], [v, like])
    assert_compiled(cell)
    fed = {"x0": x, "x1": np.zeros((2, 0), ml_dtypes.float8_e4m3fn)}
    near, far = run_cell(cell, fed)
    assert near.shape == far.shape == shape and near.dtype == ml_dtypes.float8_e4m3fn
    assert np.all(near.astype(float) == 448) and np.all(np.isnan(far.astype(float)))


def test_bit_cast_between_all_types_of_one_size():
    every = [*KINDS, NumberType("complex64"), NumberType("complex128")]
    allowed = {k for k in every if not k.startswith("float6")}
    for source in sorted(allowed):
        kinds = [k for k in allowed if bits_of(k) == bits_of(source)]
        if source == "bool":
            x = np.array([[True], [False]])
        else:
            raw = np.random.default_rng(0).integers(0, 256, (2, 5 * source.itemsize))
            mask = (1 << bits_of(source)) - 1 if bits_of(source) < 8 else 255
            x = (raw.astype(np.uint8) & np.uint8(mask)).view(source.numpy)
        v = variable("x0", x.shape, source)
        outs = [call("BitCast", v, to=k) for k in kinds]
        cell = cell_of(outs, [v])
        assert_compiled(cell)
        for kind, made in zip(kinds, run_cell(cell, {"x0": x}), strict=True):
            assert made.dtype == kind.numpy and made.shape == x.shape
            assert made.tobytes() == x.tobytes()


def test_bit_cast_of_a_scalar_and_of_a_result():
    v = variable("x0", (), "float32")
    cell = cell_of([call("BitCast", call("Neg", v), to="uint32")], [v])
    assert_compiled(cell)
    (made,) = run_cell(cell, {"x0": np.float32(1)})
    assert made.shape == () and made == 0xBF800000


# -- inside larger loops -----------------------------------------------------------------------
def test_casts_there_and_back_are_one_loop():
    x = values_of(NumberType("float32"))[30:]
    v = variable("x0", x.shape, "float32")
    narrow = call("Cast", call("Mul", v, np.float32(3)), to="float16")
    back = call("Add", call("Cast", narrow, to="float32"), np.float32(1))
    cell = cell_of([back], [v], threads=2)
    assert [s.kernel.name for s in cell.program.steps] == ["loop"]
    (made,) = run_cell(cell, {"x0": x})
    with np.errstate(over="ignore"):
        wanted = (x * np.float32(3)).astype(np.float16).astype(np.float32) + np.float32(1)
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("source", ["float64", "int64", "float16", "float8e5m2", "uint4"])
def test_folded_casts_are_those_of_a_run(source):
    source = NumberType(source)
    x = values_of(source)
    v = variable("x0", x.shape, source)
    modes = [{"round_mode": m, "saturate": s} for m in ("up", "down", "nearest") for s in (0, 1)]
    outs = [call("Cast", v, to=k) for k in KINDS if k is not source]
    outs += [call("Cast", v, to="float8e8m0", **how) for how in modes]
    for symbol, made in zip(outs, run_cell(cell_of(outs, [v]), {"x0": x}), strict=True):
        (folded,) = evaluate(symbol.node, [x])
        where = fits(x, symbol.dtype)
        pair = [doubles(a[where]) for a in (made, folded)]
        np.testing.assert_array_equal(*pair, err_msg=str(symbol.dtype))


def test_complex_numbers_are_moved_and_chosen():
    rng = np.random.default_rng(0)
    for dtype in (np.complex64, np.complex128):
        x, y = (rng.normal(size=(2, 3, 4)) + 1j * rng.normal(size=(2, 3, 4)) for _ in range(2))
        x, y, mask = x.astype(dtype), y.astype(dtype)[:, :1], rng.integers(0, 2, (3, 1)) == 1
        (c, a, b), fed = leaves([mask, x, y])
        outs = [call("Where", c, a, b), call("Concat", a, b, axis=1), call("Concat", b, b, axis=0)]
        cell = cell_of(outs, [c, a, b])
        assert_compiled(cell)
        chosen, joined, stacked = run_cell(cell, fed)
        np.testing.assert_array_equal(chosen, np.where(mask, x, y))
        np.testing.assert_array_equal(joined, np.concatenate([x, y], 1))
        np.testing.assert_array_equal(stacked, np.concatenate([y, y], 0))

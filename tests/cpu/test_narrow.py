"""The narrow floats against numpy and ml_dtypes, as plain Python and as compiled kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from neuralsym.cpu import narrow
from neuralsym.cpu.driver import Kernel
from neuralsym.cpu.emit import array_kernel, compile_one
from neuralsym.cpu.machine import Target
from neuralsym.cpu.store import Store

Floats = NDArray[np.float32]

FORMATS: dict[str, tuple[str, Any]] = {
    "half": ("float16", np.float16),
    "bfloat": ("bfloat16", ml_dtypes.bfloat16),
    "e4m3fn": ("float8e4m3fn", ml_dtypes.float8_e4m3fn),
    "e4m3fnuz": ("float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
    "e5m2": ("float8e5m2", ml_dtypes.float8_e5m2),
    "e5m2fnuz": ("float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
}
LARGEST = {"e4m3fn": 448.0, "e4m3fnuz": 240.0, "e5m2": 57344.0, "e5m2fnuz": 57344.0}


def widening(name: str) -> Callable[..., Any]:
    convert = getattr(narrow, f"{name}_to_float")

    def widen(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = convert(x[i])

    return widen


def narrowing(name: str) -> Callable[..., Any]:
    convert = getattr(narrow, f"float_to_{name}")
    if name in ("half", "bfloat"):

        def narrow_(x: Any, out: Any, saturate: bool) -> None:
            for i in range(x.size):
                out[i] = convert(x[i])

    else:

        def narrow_(x: Any, out: Any, saturate: bool) -> None:
            for i in range(x.size):
                out[i] = convert(x[i], saturate)

    return narrow_


def run(code: Any, words: list[int], cache_dir: Path) -> None:
    kernel = Kernel(compile_one(code, Target.of(), Store.of(str(cache_dir))))
    desc = np.array(words, np.int64)
    assert kernel(None, desc.ctypes.data, 0, 1) == 0


def all_values(name: str) -> tuple[NDArray[Any], Floats]:
    """Every bit pattern of a format, and its value."""
    dtype = np.dtype(FORMATS[name][1])
    unsigned = np.uint16 if dtype.itemsize == 2 else np.uint8
    bits = np.arange(2 ** (8 * dtype.itemsize), dtype=np.uint32).astype(unsigned)
    return bits, cast(bits.view(dtype), np.float32)


def cast(x: NDArray[Any], dtype: Any) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NaN and overflow are part of the test
        return x.astype(dtype)


def interesting(name: str, rng: np.random.Generator) -> Floats:
    """Any bits, all sizes, the format's own values, the midpoints between them and next to them."""
    own = all_values(name)[1]
    finite = np.unique(own[np.isfinite(own)])
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(middle, np.float32(side)) for side in (-np.inf, np.inf)]
    anything = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    sizes = (rng.standard_normal(20_000) * np.exp(rng.uniform(-25, 12, 20_000))).astype(np.float32)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30], np.float32)
    return np.concatenate([own, middle, *beside, anything, sizes, special])


def assert_same(got: Floats, expected: Floats) -> None:
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("name", FORMATS)
def test_compiled_widening_of_every_pattern(name: str, cache_dir: Path) -> None:
    bits, values = all_values(name)
    out = np.empty(bits.size, np.float32)
    code = array_kernel(
        widening(name), [(FORMATS[name][0], 1, "in"), ("float32", 1, "out")], name=f"widen_{name}"
    )
    run(code, [bits.ctypes.data, bits.size, out.ctypes.data, bits.size], cache_dir)
    assert_same(out, values)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_compiled_narrowing(
    name: str, saturate: bool, rng: np.random.Generator, cache_dir: Path
) -> None:
    x = interesting(name, rng)
    dtype = np.dtype(FORMATS[name][1])
    out = np.empty(x.size, dtype)
    code = array_kernel(
        narrowing(name),
        [("float32", 1, "in"), (FORMATS[name][0], 1, "out")],
        ["bool"],
        name=f"narrow_{name}",
    )
    words = [x.ctypes.data, x.size, out.ctypes.data, x.size, int(saturate)]
    run(code, words, cache_dir)
    expected = cast(cast(x, dtype), np.float32)
    if saturate and name in LARGEST:
        # What the plain cast takes for too large, after rounding, becomes the largest value.
        over = ~np.isnan(x) & ~np.isfinite(expected)
        expected[over] = np.copysign(np.float32(LARGEST[name]), x[over])
    assert_same(cast(out, np.float32), expected)


@pytest.mark.parametrize("name", FORMATS)
def test_plain_python_is_the_same(name: str, rng: np.random.Generator) -> None:
    x = rng.choice(interesting(name, rng), 300)
    convert = getattr(narrow, f"float_to_{name}")
    more = () if name in ("half", "bfloat") else (False,)
    out = np.array([convert(value, *more) for value in x]).view(FORMATS[name][1])
    assert_same(cast(out, np.float32), cast(cast(x, FORMATS[name][1]), np.float32))
    widen = getattr(narrow, f"{name}_to_float")
    bits, values = all_values(name)
    some = slice(None, None, max(1, bits.size // 256))
    assert_same(np.array([widen(b) for b in bits[some]]), values[some])


def test_doubles_are_rounded_once(rng: np.random.Generator) -> None:
    # Halfway between two float16, and off it by less than a float32 can tell.
    base = rng.integers(0x0001, 0x7BFF, 300).astype(np.uint16)
    low, high = (b.view(np.float16).astype(np.float64) for b in (base, base + np.uint16(1)))
    middle = (low + high) / 2
    x = np.concatenate([middle, *(middle * (1 + s * 2.0**-40) for s in (-1, 1)), -middle])
    x = np.concatenate([x, [np.inf, -np.inf, np.nan, 0.0, -0.0, 65519.99999999, 1e300, 5e-324]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        got = [narrow.float_to_half(narrow.double_to_float_odd(v)) for v in x]
    assert_same(np.array(got).view(np.float16), cast(x, np.float16))  # type: ignore[arg-type]

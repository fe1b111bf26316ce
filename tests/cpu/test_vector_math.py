"""Transcendental functions over all of float32: how far they are from float64, bit patterns drawn
from every exponent, subnormals, infinities and NaN among them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.core.registry import apply
from neuralsym.core.scalar import apply as call
from neuralsym.core.scalar import argument
from neuralsym.core.symbol import Symbol
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.machine import host_isas
from neuralsym.cpu.options import Options
from neuralsym.dtypes import NumberType
from neuralsym.passes.fused import Calculate

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

LIMIT = 2.0**128
FEW, MANY = 256, 1 << 13
"""Patterns of each exponent and sign: in the quick test, and in the slow one."""


def _sigmoid(x: Doubles) -> Doubles:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _each(function: Callable[[float], float]) -> Callable[[Doubles], Doubles]:
    made = np.frompyfunc(function, 1, 1)
    return lambda x: made(x).astype(np.float64)


_erfc = _each(math.erfc)

FUNCTIONS: dict[str, tuple[Callable[[Doubles], Doubles], float]] = {
    "exp": (np.exp, 1.1),
    "expm1": (np.expm1, 1.9),
    "log": (np.log, 0.6),
    "log1p": (np.log1p, 0.6),
    "sigmoid": (_sigmoid, 1.8),
    "erf": (_each(math.erf), 1.5),
    "tanh": (np.tanh, 1.7),
    "sin": (np.sin, 0.6),
    "cos": (np.cos, 0.6),
    "tan": (np.tan, 1.6),
    "asin": (np.arcsin, 0.6),
    "acos": (np.arccos, 0.6),
    "atan": (np.arctan, 0.6),
    "sinh": (np.sinh, 0.6),
    "cosh": (np.cosh, 0.6),
    "asinh": (np.arcsinh, 0.6),
    "acosh": (np.arccosh, 0.6),
    "atanh": (np.arctanh, 0.6),
    "sqrt": (np.sqrt, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
    "reciprocal": (lambda x: 1 / x, 0.5),
}
"""In float64, and the bound that `vector_math` states, in units in the last place."""

CHAINS: dict[str, tuple[Callable[[Symbol], Symbol], Callable[[Doubles], Doubles], str, float]] = {
    "softplus": (ops.softplus, lambda x: np.logaddexp(0, x), "result", 1.5),
    "softsign": (ops.softsign, lambda x: x / (1 + np.abs(x)), "result", 1.6),
    "elu": (ops.elu, lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x), "result", 1.7),
    "swish": (ops.swish, lambda x: x * _sigmoid(x), "input", 2.0),
    "gelu": (ops.gelu, lambda x: x * 0.5 * _erfc(-x * math.sqrt(0.5)), "input", 2.0),
    "gelu by tanh": (
        lambda x: ops.gelu(x, approximate="tanh"),
        lambda x: x * _sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)),
        "input",
        2.0,
    ),
    "mish": (ops.mish, lambda x: x * np.tanh(np.logaddexp(0, x)), "input", 2.0),
}
"""Activations made of them; the unit is that of the result or, for x times a gate, of x."""


@lru_cache(maxsize=2)
def patterns(count: int) -> Floats:
    """`count` numbers of each exponent and sign: the first, the last and drawn ones."""
    fractions = np.random.default_rng(0).integers(0, 1 << 23, (512, count), np.uint32)
    fractions[:, :3] = 0, 1, (1 << 23) - 1
    return (np.arange(512, dtype=np.uint32)[:, None] << 23 | fractions).ravel().view(np.float32)


def computed(x: Floats, make: Callable[[Symbol], Symbol], isa: str | None) -> Floats:
    given = variable("x", x.shape, x.dtype)
    cell = compile_graph(Graph({"y": make(given)}, [given]), Options(threads=1, isa=isa))
    instance = cell.instance()
    instance["x"] = x
    instance.compute()
    return np.array(instance["y"])


def elementwise(name: str) -> Callable[[Symbol], Symbol]:
    attrs = {"expr": call(name, argument(0)), "dtype": NumberType.FLOAT32}
    return lambda x: apply(Calculate, [x], attrs)[0]


def unit(values: Doubles) -> Doubles:
    """The distance of neighbouring float32 about these values, which need not be float32."""
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.where(np.isfinite(values), values, 1))[1] - 24
    return np.ldexp(1.0, np.clip(exponent, -149, 104))


def errors(got: Floats, exact: Doubles, of: Doubles) -> Doubles:
    """In units in the last place of `of`; NaN must be where it belongs.

    Infinity counts as 2^128, the number that it stands for where the exact result is finite.
    """
    assert np.array_equal(np.isnan(got), np.isnan(exact))
    sides = [np.clip(np.nan_to_num(v.astype(np.float64)), -LIMIT, LIMIT) for v in (got, exact)]
    return np.abs(sides[0] - sides[1]) / unit(of)


def check(name: str, count: int, isa: str | None) -> None:
    x = patterns(count)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        exact, bound = FUNCTIONS[name][0](wide), FUNCTIONS[name][1]
    got = computed(x, elementwise(name), isa)
    worst = errors(got, exact, exact)
    at = int(np.argmax(worst))
    assert worst[at] <= bound < 2, (x[at], got[at], exact[at])
    zero = exact == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(exact[zero]))
    assert np.isinf(got[np.isinf(exact)]).all()


@pytest.mark.parametrize("isa", host_isas())
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds(name: str, isa: str) -> None:
    check(name, FEW, isa)


@pytest.mark.slow
@pytest.mark.parametrize("isa", host_isas())
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds_at_many_more(name: str, isa: str) -> None:
    check(name, MANY, isa)


@pytest.mark.parametrize("isa", host_isas())
@pytest.mark.parametrize("name", CHAINS)
def test_bounds_of_activations(name: str, isa: str) -> None:
    make, exact_of, relative, bound = CHAINS[name]
    x = patterns(FEW)
    x = x[np.isfinite(x)]
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        exact = exact_of(wide)
    got = computed(x, make, isa)
    worst = errors(got, exact, exact if relative == "result" else wide)
    at = int(np.argmax(worst))
    assert worst[at] <= bound, (x[at], got[at], exact[at])
    limits = computed(np.array([np.nan, np.inf], np.float32), make, isa)
    assert np.isnan(limits[0])
    assert limits[1] == np.inf or name == "softsign"  # which is a quotient of infinities there

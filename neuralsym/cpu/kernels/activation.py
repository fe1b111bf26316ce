"""The activation of a fused operator: from its expression to what a template's epilogue takes."""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache

from neuralsym.core.scalar import Expr, Scalar, argument
from neuralsym.cpu.ir import Function
from neuralsym.cpu.scalar_ir import emit_expr, supported
from neuralsym.cpu.templates.epilogue import (
    Activation,
    clip,
    hard_sigmoid,
    hard_swish,
    identity,
    leaky_relu,
    relu,
)
from neuralsym.dtypes import number_type

X = argument(0)


@lru_cache(maxsize=256)
def activation_of(
    expr: Scalar | None, element: str = "float", scales: bool = False
) -> Activation | None:
    """The activation that computes `expr` of argument 0; None if no vector code is known for it.

    scales: whether the machine multiplies by powers of two (`Target.scales`).
    """
    if expr is None or expr == X:
        return identity()
    if not isinstance(expr, Expr):
        return None
    return (
        _clip(expr, element)
        or _leaky(expr, element)
        or (_hard(expr) if element == "float" else None)
        or _any(expr, element, scales)
    )


def _number(value: Scalar) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _with_number(expr: Scalar, function: str) -> tuple[Scalar, float] | None:
    """(operand, number) of a function with two operands, one of them a number."""
    if not isinstance(expr, Expr) or expr.function != function:
        return None
    for a, b in (expr.operands, expr.operands[::-1]):
        number = _number(b)
        if number is not None:
            return a, number
    return None


def _clip(expr: Expr, element: str) -> Activation | None:
    """max(x, low), min(x, high), or one after the other."""
    low, high = -math.inf, math.inf
    inside: Scalar = expr
    upper = _with_number(inside, "min")
    if upper is not None:
        inside, high = upper
    lower = _with_number(inside, "max")
    if lower is not None:
        inside, low = lower
    if inside != X or (upper is None and lower is None):
        return None
    if math.isnan(low) or math.isnan(high):
        return None
    return relu(element) if (low, high) == (0.0, math.inf) else clip(low, high, element)


def _leaky(expr: Expr, element: str) -> Activation | None:
    """where(x < 0, alpha * x, x)."""
    if expr.function != "where":
        return None
    condition, below, above = expr.operands
    scaled = _with_number(below, "mul")
    if condition != Expr("lt", (X, 0)) or above != X or scaled is None or scaled[0] != X:
        return None
    return leaky_relu(scaled[1], element)


def _hard(expr: Expr) -> Activation | None:
    """hard_sigmoid, max(0, min(1, alpha * x + beta)), and hard_swish, x times it."""
    found = _hard_sigmoid(expr)
    if found is not None:
        return hard_sigmoid(*found)
    if expr.function == "mul" and X in expr.operands:
        other = expr.operands[1 if expr.operands[0] == X else 0]
        if isinstance(other, Expr) and _hard_sigmoid(other) == (1 / 6, 0.5):
            return hard_swish()
    return None


def _hard_sigmoid(expr: Expr) -> tuple[float, float] | None:
    for first, second, bounds in (("max", "min", (0, 1)), ("min", "max", (1, 0))):
        outer = _with_number(expr, first)
        inner = _with_number(outer[0], second) if outer is not None else None
        if outer is None or inner is None or (outer[1], inner[1]) != bounds:
            continue
        line = _with_number(inner[0], "add")
        scaled = _with_number(line[0], "mul") if line is not None else None
        if line is not None and scaled is not None and scaled[0] == X:
            return scaled[1], line[1]
    return None


def _any(expr: Expr, element: str, scales: bool) -> Activation | None:
    """Any expression, by the vector code of the fused element loops."""
    name = "float32" if element == "float" else "float64"
    if supported(expr, [number_type(name)]) is not True:
        return None

    def emit(f: Function, value: str, width: int) -> str:
        f.module.scales = scales
        return emit_expr(f, expr, [value], name, width)

    digest = hashlib.sha256(repr(expr).encode()).hexdigest()[:16]
    return Activation(f"expr {digest}{' scaled' if scales else ''}", emit, costly=True)

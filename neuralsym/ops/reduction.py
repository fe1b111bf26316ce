"""Reductions over axes, and running sums along one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.op import Call
from neuralsym.core.types import Shape, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import Reduction, bad, check_axis, check_choice, same_type
from neuralsym.ops.shapes import axes_of, foldable, length, scalar_of, tidy, typed, unknown


class Reduce(Reduction, abstract=True):
    """One value for each row over `axes`; over all axes without them."""

    combine: ClassVar[np.ufunc | None] = None
    """The same on known sizes, where it is exact for expressions too."""

    @classmethod
    def check(cls, call: Call) -> None:
        for name in ("keepdims", "noop_with_empty_axes"):
            if name in call.attrs:
                check_choice(call, name, (0, 1))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return typed(call, reduced(call))

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value = foldable(call)
        if value is None or cls.combine is None or not call.dtype(0).is_integer:
            return None
        axes = reduced_axes(call, value.ndim)
        if axes is None:
            return None
        keep = bool(call.attr("keepdims"))
        kind = call.dtype(0)
        dtype = object if value.dtype == object else kind.numpy
        made = cls.combine.reduce(value, axis=tuple(axes), keepdims=keep, dtype=dtype)
        if not isinstance(made, np.ndarray):
            boxed = np.empty((), dtype=dtype)
            boxed[()] = made
            made = boxed
        return [tidy(made, kind)]


class ReduceSum(Reduce):
    """Sum over axes."""

    combine = np.add


class ReduceMean(Reduce):
    """Mean over axes."""


class ReduceMax(Reduce):
    """Largest element over axes."""


class ReduceMin(Reduce):
    """Smallest element over axes."""


class ReduceProd(Reduce):
    """Product over axes."""

    combine = np.multiply


class ReduceL1(Reduce):
    """Sum of absolute values over axes."""


class ReduceL2(Reduce):
    """Square root of the sum of squares over axes."""


class ReduceLogSum(Reduce):
    """Logarithm of the sum over axes."""


class ReduceLogSumExp(Reduce):
    """Logarithm of the sum of exponentials over axes."""


class ReduceSumSquare(Reduce):
    """Sum of squares over axes."""


class Arg(Reduction, abstract=True):
    """The place of an element along one axis, as int64."""

    @classmethod
    def check(cls, call: Call) -> None:
        x = call.shape(0)
        axis = check_axis(call, call.attr("axis"), None if x is None else len(x))
        for name in ("keepdims", "select_last_index"):
            if name in call.attrs:
                check_choice(call, name, (0, 1))
        if x is not None and axis is not None and x[axis] == 0:
            call.fail(f"axis {axis} of data is empty: it has no such element")

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is None:
            return [TensorType(NumberType.INT64, None)]
        axis = call.attr("axis") % len(x)
        kept: Shape = (1,) if call.attr("keepdims") else ()
        return [TensorType(NumberType.INT64, (*x[:axis], *kept, *x[axis + 1 :]))]


class ArgMax(Arg):
    """Where the largest element along an axis is."""


class ArgMin(Arg):
    """Where the smallest element along an axis is."""


class Running(Reduction, abstract=True):
    """As many elements as before, each of those up to its place along one axis."""

    @classmethod
    def check(cls, call: Call) -> None:
        for name in ("exclusive", "reverse"):
            if name in call.attrs:
                check_choice(call, name, (0, 1))
        if call.shape(0) == ():
            call.fail("it runs along an axis, a scalar has none")
        entries = call.shape(1)
        if entries is not None and (len(entries) > 1 or length(call, 1) not in (None, 1)):
            call.fail(f"axis is a tensor of shape {list(entries)}, one number is needed")

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        value = call.known(1)
        x = call.shape(0)
        if value is not None and x is not None:
            check_axis(call, int(scalar_of(value)), len(x))
        return [same_type(call)]


class CumSum(Running):
    """Running sum along an axis."""


class CumProd(Running):
    """Running product along an axis."""


# -- what they share ---------------------------------------------------------------------------
def reduced_axes(call: Call, rank: int) -> list[int] | None:
    """The axes that are reduced, counted from the left; None when they are not known."""
    if call.has(1):
        given = call.known_dims(1)
        if given is None:
            if length(call, 1) != 0:
                return None
            given = []
        if given:
            return axes_of(call, given, rank)
    return [] if call.attr("noop_with_empty_axes") else list(range(rank))


def reduced(call: Call) -> Shape | None:
    """The shape of the result of a reduction."""
    x = call.shape(0)
    entries = call.shape(1) if call.has(1) else None
    if entries is not None and len(entries) != 1:
        call.fail(f"axes is a tensor of {len(entries)} axes, a vector is needed", bad)
    if x is None:
        if not call.has(1) and not call.attr("keepdims"):
            return None if call.attr("noop_with_empty_axes") else ()
        return None
    axes = reduced_axes(call, len(x))
    keep = call.attr("keepdims")
    if axes is None:
        if keep:
            return unknown(len(x))
        count = length(call, 1)
        return None if count is None or count > len(x) else unknown(len(x) - count)
    if keep:
        return tuple(1 if i in axes else d for i, d in enumerate(x))
    return tuple(d for i, d in enumerate(x) if i not in axes)

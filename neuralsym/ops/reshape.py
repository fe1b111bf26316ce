"""The same elements under another shape, or in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.dim import certainly_differ, floor_div, product
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node
from neuralsym.core.types import Shape, Size, Type
from neuralsym.errors import ExecutionError, at_line
from neuralsym.ops.base import Movement, bad, check_axis, check_choice, check_range, check_rank
from neuralsym.ops.shapes import (
    axes_of,
    bounded,
    exact_quotient,
    foldable,
    length,
    partial_dims,
    total,
    typed,
    unknown,
)


class Reshape(Movement):
    """The same elements in order, in another shape.

    0 stands for the size of that axis of the input (unless `allowzero`), -1 for what is left.
    """

    @classmethod
    def check(cls, call: Call) -> None:
        if "allowzero" in call.attrs:
            check_choice(call, "allowzero", (0, 1))
        entries = call.shape(1)
        if entries is not None and len(entries) != 1:
            call.fail(f"shape is a tensor of {len(entries)} axes, a vector is needed")

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        asked = partial_dims(call, 1)
        if asked is None:
            return typed(call, None)
        return typed(call, reshaped(call, call.shape(0), asked, bool(call.attrs.get("allowzero"))))

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value, asked = foldable(call), call.known_dims(1)
        if value is None or asked is None:
            return None
        shape = reshaped(call, value.shape, asked, bool(call.attrs.get("allowzero")))
        sizes = [d for d in shape if isinstance(d, int)]
        return [value.reshape(sizes)] if len(sizes) == len(shape) else None

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any] | None:
        asked = list(map(int, values[1]))
        if min(asked, default=0) < -1:  # numpy takes any negative number for -1
            raise ExecutionError(
                f"{node.describe()}: shape={asked} has a size below -1{at_line(node.where)}"
            )
        return None


class Flatten(Movement):
    """A matrix: the axes before `axis` as rows, the others as columns."""

    @classmethod
    def check(cls, call: Call) -> None:
        x = call.shape(0)
        check_axis(call, call.attr("axis"), None if x is None else len(x), end=True)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is None:
            return typed(call, (None, None))
        axis = call.attr("axis")
        axis = axis + len(x) if axis < 0 else axis
        return typed(call, bounded(call, (total(x[:axis]), total(x[axis:]))))


class Transpose(Movement):
    """The axes in another order; reversed without `perm`."""

    @classmethod
    def check(cls, call: Call) -> None:
        perm = call.attrs.get("perm")
        if perm is None:
            return
        x = call.shape(0)
        rank = len(perm) if x is None else len(x)
        if sorted(perm) != list(range(rank)):
            call.fail(f"perm={list(perm)} must name each of the axes 0 to {rank - 1} once", bad)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        perm = call.attrs.get("perm")
        if x is None:
            return typed(call, None if perm is None else unknown(len(perm)))
        return typed(call, x[::-1] if perm is None else tuple(x[p] for p in perm))

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value = foldable(call)
        return None if value is None else [np.transpose(value, call.attrs.get("perm"))]


class Squeeze(Movement):
    """Without the axes of size 1, all of them or those given."""

    @classmethod
    def axes(cls, call: Call, x: Shape) -> list[int] | None:
        """The axes that go; None where that is not known."""
        if call.has(1):
            given = call.known_dims(1)
            return None if given is None else axes_of(call, given, len(x))
        if not all(isinstance(d, int) for d in x):
            return None
        return [i for i, d in enumerate(x) if d == 1]

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is None:
            return typed(call, None)
        axes = cls.axes(call, x)
        if axes is None:
            count = length(call, 1) if call.has(1) else None
            known = count is not None and count <= len(x)
            return typed(call, unknown(len(x) - count) if known and count is not None else None)
        for axis in axes:
            size = x[axis]
            if size is not None and size != 1 and certainly_differ(size, 1):
                call.fail(f"axis {axis} has size {size}: only axes of size 1 can go")
        return typed(call, tuple(d for i, d in enumerate(x) if i not in axes))

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value = foldable(call)
        axes = None if value is None else cls.axes(call, value.shape)
        if value is None or axes is None or any(value.shape[a] != 1 for a in axes):
            return None
        return [value.reshape([d for i, d in enumerate(value.shape) if i not in axes])]


class Unsqueeze(Movement):
    """With axes of size 1 inserted."""

    @classmethod
    def shape(cls, call: Call, x: Sequence[Size]) -> Shape | None:
        """The shape with the new axes, which are counted in the result."""
        given = call.known_dims(1)
        if given is None:
            count = length(call, 1)
            return None if count is None or count > 64 else unknown(len(x) + count)
        axes = axes_of(call, given, len(x) + len(given))
        old = iter(x)
        return tuple(1 if i in axes else next(old) for i in range(len(x) + len(axes)))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        return typed(call, None if x is None else cls.shape(call, x))

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value = foldable(call)
        if value is None or call.known(1) is None:
            return None
        shape = cls.shape(call, value.shape)
        return None if shape is None else [value.reshape([d for d in shape if isinstance(d, int)])]


class DepthToSpace(Movement):
    """Blocks of channels rearranged into blocks of space."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 0, 4, 4)
        check_range(call, "blocksize", 1, 2**31)
        check_choice(call, "mode", ("DCR", "CRD"))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, block = call.shape(0), call.attrs["blocksize"]
        if x is None:
            return typed(call, unknown(4))
        n, c, h, w = x
        depth = _divided(call, c, block * block, "the channels", "blocksize squared")
        made = (n, depth, None if h is None else h * block, None if w is None else w * block)
        return typed(call, bounded(call, made))


class SpaceToDepth(Movement):
    """Blocks of space rearranged into channels."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 0, 4, 4)
        check_range(call, "blocksize", 1, 2**31)
        check_choice(call, "mode", ("DCR", "CRD"))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, block = call.shape(0), call.attrs["blocksize"]
        if x is None:
            return typed(call, unknown(4))
        n, c, h, w = x
        height = _divided(call, h, block, "the height", "blocksize")
        width = _divided(call, w, block, "the width", "blocksize")
        return typed(call, (n, None if c is None else c * (block * block), height, width))


# -- what they share ---------------------------------------------------------------------------
def _divided(call: Call, size: Size, by: int, what: str, name: str) -> Size:
    if size is None:
        return None
    if isinstance(size, int) and size % by:
        call.fail(f"{what}, {size}, must be a multiple of {name}, {by}")
    return floor_div(size, by)


def reshaped(call: Call, x: Shape | None, asked: Sequence[Size], allow_zero: bool) -> Shape:
    """The shape that Reshape gives, 0 and -1 resolved; None is a size that only the run tells.

    Sizes on both sides are cancelled before dividing, so `(N, C, H, W)` to `(N, -1)` is `C*H*W`.
    """
    text = f"shape={_listed(asked)}"
    made: list[Size] = []
    copied: set[int] = set()
    free: int | None = None
    untold = 0
    for i, d in enumerate(asked):
        if not isinstance(d, int) or d > 0 or (d == 0 and allow_zero):
            made.append(d)
            untold += d is None
        elif d == 0:
            if x is not None and i >= len(x):
                call.fail(f"{text}: 0 at place {i} copies an axis, but the input has {len(x)}", bad)
            copied.add(i)
            made.append(None if x is None else x[i])
        elif d == -1:
            if free is not None:
                call.fail(f"{text}: only one size can be -1", bad)
            free = i
            made.append(None)
        else:
            call.fail(f"{text}: {d} is no size", bad)
    if free is not None and any(d == 0 for i, d in enumerate(made) if i != free):
        call.fail(f"{text}: beside a size of 0, -1 could be anything", bad)
    if x is None or untold > 1 or (untold and free is not None):
        return bounded(call, made)
    if untold:  # whatever it turns out to be, 0 and -1 too, it is what is left
        free = asked.index(None)
    have: list[Size] = [d for i, d in enumerate(x) if i not in copied]
    want: list[Size] = [d for i, d in enumerate(made) if i != free and i not in copied]
    for size in list(want):
        if size in have and size is not None and size != 0:
            have.remove(size)
            want.remove(size)
    source, divisor = total(have), total(want)
    if source is None or divisor is None:
        return bounded(call, made)
    if free is None:
        if source != divisor and certainly_differ(source, divisor):
            call.fail(f"{text} holds {total(made)} elements, the input {_listed(x)} {total(x)}")
    else:
        quotient = exact_quotient(source, divisor)
        if quotient is None:
            if isinstance(source, int) and isinstance(divisor, int):
                if untold:
                    return bounded(call, made)
                call.fail(
                    f"{text}: the {total(x)} elements of the input {_listed(x)} are no multiple "
                    f"of {product(d for i, d in enumerate(made) if i != free and d is not None)}"
                )
            quotient = floor_div(source, divisor)
        made[free] = quotient
    return bounded(call, made)


def _listed(shape: Sequence[Size]) -> str:
    return str(["?" if d is None else d if isinstance(d, int) else str(d) for d in shape])

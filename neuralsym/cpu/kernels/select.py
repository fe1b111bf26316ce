"""Elements chosen by their values: TopK, Hardmax, NonZero, Compress, Unique."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.arrays import Direction
from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.host import ArrayStep
from neuralsym.cpu.kernels.indexed import one_hot_code
from neuralsym.cpu.kernels.movement import View, copy_rows, view
from neuralsym.cpu.kernels.radix import DIGITS, WORTH, radix_group, radix_rows
from neuralsym.cpu.kernels.reduce import scan_code
from neuralsym.cpu.kernels.sort import STACK, group, order_of, top_k, top_k_rows
from neuralsym.cpu.kernels.units import REALS, UNITS, are_tensors, units
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Operand, Row, Sizes, Step, Word
from neuralsym.cpu.templates.scan import ScanText
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import ShapeMismatch

COMPLEX = (NumberType.COMPLEX64, NumberType.COMPLEX128)
BY_ROWS = (
    *(NumberType.FLOAT32, NumberType.FLOAT64, NumberType.FLOAT16),
    *(NumberType.INT32, NumberType.INT64),
)
"""The types for which TopK has a loop of its own over rows."""


SOME = 8
"""For more than this part of a line, all of it is sorted."""


def around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """A shape seen as [outer, axis, inner]."""
    axis %= len(shape)
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


class TopK(Kernel):
    """The k best of each line, in order; of equals the lower index. NaN is the largest."""

    def supports(self, step: Step) -> bool | str:
        x = step.inputs[0]
        assert x is not None
        return x.dtype in REALS or f"no order of {x.dtype}"

    def needs(self, step: Step) -> Sequence[int]:
        return [0]

    def settings(self, step: Step) -> Sequence[int]:
        return [1]

    def adjust(self, step: Step) -> None:
        step.need_scratch("stacks", lambda sizes: 8 * STACK * sizes.workers)
        x, values = step.inputs[0], step.outputs[0]
        assert x is not None

        def room(sizes: Sizes) -> int:
            """Two lines of keys and of places, and the digits."""
            if step.attr("axis") % x.rank != x.rank - 1:
                return 0
            n, k = (sizes.shape(b)[-1] for b in (x, values))
            return 8 * (4 * n + DIGITS) * sizes.workers if _by_digits(n, k) else 0

        step.need_scratch("digits", room)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, (values, indices) = step.inputs[0], step.outputs
        assert x is not None
        if 0 in sizes.shape(values):
            return []
        axis = step.attr("axis")
        given: tuple[int, ...] = around(sizes.shape(x), axis)
        made: tuple[int, ...] = around(sizes.shape(values), axis)
        if made[1] > given[1]:
            raise ShapeMismatch(
                f"{step.describe()}: K={made[1]}, but axis {axis} has only {given[1]} elements here"
            )
        kind = _seen(x.dtype)
        rows = axis % x.rank == x.rank - 1 and x.dtype in BY_ROWS
        if rows and _by_digits(given[1], made[1]):
            return [self._sorted(step, sizes, given[:2], made[:2])]
        if rows:
            given, made = given[:2], made[:2]
        sides = [
            Side(x, kind, given),
            Side(values, kind, made, "out"),
            Side(indices, "int64", made, "out"),
        ]
        loop = top_k(order_of(x.dtype))
        if rows:
            loop = top_k_rows(order_of(x.dtype))
            stacks = step.scratch["stacks"].buffer
            sides.append(Side(stacks, "int64", (sizes.workers, STACK), "out"))
        return [
            array_row(step, sizes, loop, sides, [int(bool(step.attr("largest")))], name="top_k")
        ]

    def _sorted(
        self, step: Step, sizes: Sizes, given: tuple[int, ...], made: tuple[int, ...]
    ) -> Row:
        """So many of a line are wanted that all of it is sorted."""
        x, (values, indices) = step.inputs[0], step.outputs
        assert x is not None
        kind, memory = UNITS[x.dtype.itemsize], step.scratch["digits"].buffer
        lines = (sizes.workers, 2, given[1])
        sides = [
            Side(x, kind, given),
            Side(values, kind, made, "out"),
            Side(indices, "int64", made, "out"),
            Side(memory, "uint64", lines, "out"),
            Side(Operand(memory, 8 * prod(lines)), "int64", lines, "out"),
            Side(Operand(memory, 16 * prod(lines)), "int64", (sizes.workers, DIGITS), "out"),
        ]
        largest = [int(bool(step.attr("largest")))]
        return array_row(step, sizes, radix_rows(x.dtype), sides, largest, name="sort")


def _by_digits(n: int, k: int) -> bool:
    """Whether the k first of n are found soonest by sorting all of them."""
    return n >= WORTH and SOME * k >= n


class Hardmax(Kernel):
    """One at the first largest element of each line, found as ArgMax finds it."""

    def supports(self, step: Step) -> bool | str:
        x = step.inputs[0]
        assert x is not None
        return x.dtype in REALS or f"no order of {x.dtype}"

    def adjust(self, step: Step) -> None:
        y = step.outputs[0]
        step.pack("values", lambda: np.array([0, 1]).astype(y.dtype.numpy))
        step.need_scratch("places", lambda sizes: 8 * self._lines(step, sizes))

    def _lines(self, step: Step, sizes: Sizes) -> int:
        outer, _, inner = self._around(step, sizes)
        return outer * inner

    def _around(self, step: Step, sizes: Sizes) -> tuple[int, int, int]:
        shape = sizes.shape(step.outputs[0])
        return around(shape, step.attr("axis")) if shape else (1, 1, 1)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        shape, lines = sizes.shape(y), self._around(step, sizes)
        if 0 in lines:
            return []
        places = Operand(step.scratch["places"].buffer)
        text = ScanText(
            "arg_max", x.dtype, self.target.vector_bytes, converts_halves=self.target.fma
        )
        rows = [Row(scan_code(text), [places, Operand(x), *lines])]
        values = step.constants["values"]
        nothing = View(values, 0, (0,) * len(shape))
        rows += copy_rows(self.target, view(y, shape), nothing, shape, sizes.workers)
        item = y.dtype.itemsize
        words: list[Word] = [Operand(y), Operand(values, item), places, *lines]
        return [*rows, Row(one_hot_code(item, NumberType.INT64), words)]


def _seen(kind: NumberType) -> str:
    """The name of the type that loops see elements of `kind` as, where they compare them."""
    return "uint8" if kind is NumberType.BOOL else kind.value


# -- sizes that depend on the data ----------------------------------------------------------------
class Chosen(ArrayStep):
    """What they share: they take numbers."""

    def supports(self, step: Step) -> bool | str:
        return are_tensors(step) or "not a tensor of numbers"


class NonZero(Chosen):
    """The places of what is not zero: counted, then written. A scalar has places without axes."""

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        x = values[0]
        kind = number_type(x.dtype)
        parts = 2 if kind in COMPLEX else 1
        size = x.dtype.itemsize // parts
        flat = self.ordered(x).reshape(-1).view(UNITS[size]).reshape(x.size, parts)
        # The sign bit of a float does not count.
        ignored = 0 if kind.is_integer or kind is NumberType.BOOL else 1
        mask = int(np.array(2 ** (8 * size - ignored) - 1, np.uint64).view(np.int64))
        count = np.zeros(1, np.int64)
        self.call(_count, [(flat, "in"), (count, "out")], [mask])
        found = np.empty((x.ndim, int(count[0])), np.int64)
        shape = np.array(x.shape, np.int64)
        self.call(_places, [(flat, "in"), (shape, "in"), (found, "out")], [mask])
        return [found]


def _counts(x: Any, i: int, mask: int) -> bool:
    """Whether an element has any bit of the mask in any of its parts."""
    bits = np.uint64(x[i, 0])
    for part in range(1, x.shape[1]):
        bits |= np.uint64(x[i, part])
    return bool(bits & np.uint64(mask))


def _count(x: Any, count: Any, mask: int) -> None:
    total = 0
    for i in range(x.shape[0]):
        total += _counts(x, i, mask)
    count[0] = total


def _places(x: Any, shape: Any, found: Any, mask: int) -> None:
    at = 0
    for i in range(x.shape[0]):
        if _counts(x, i, mask):
            rest = i
            for axis in range(shape.shape[0] - 1, -1, -1):
                found[axis, at] = rest % shape[axis]
                rest //= shape[axis]
            at += 1


class Compress(Chosen):
    """The entries along an axis, or of the flat input, where the condition is true.

    Entries without a condition are dropped; conditions without an entry count for nothing.
    """

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        x, condition = values
        axis = step.attr("axis")
        flat = axis is None
        outer, n, inner = (1, x.size, 1) if axis is None else around(x.shape, axis)
        kept = self.ordered(condition[:n]).view(np.uint8)
        count = np.zeros(1, np.int64)
        self.call(_count, [(kept.reshape(-1, 1), "in"), (count, "out")], [255])
        m = int(count[0])
        shape = (m,) if flat else (*x.shape[: axis % x.ndim], m, *x.shape[axis % x.ndim + 1 :])
        made = np.empty(shape, x.dtype)
        places = np.empty((1, m), np.int64)
        whole = np.array([len(kept)], np.int64)
        column = kept.reshape(-1, 1)
        self.call(_places, [(column, "in"), (whole, "in"), (places, "out")], [255])
        pick_slices(self, x, made, (outer, n, inner), places[0])
        return [made]


def pick_slices(
    kernel: ArrayStep,
    x: NDArray[Any],
    made: NDArray[Any],
    seen: tuple[int, int, int],
    places: NDArray[np.int64],
) -> None:
    """Copy the slices at those places of x, seen as [outer, axis, inner], into `made`."""
    outer, n, inner = seen
    if not made.size:
        return
    name, count = units(inner * x.dtype.itemsize)
    source = kernel.ordered(x).reshape(-1).view(name).reshape(outer, n, count)
    target = made.reshape(-1).view(name).reshape(outer, len(places), count)
    kernel.call(_pick, [(source, "in"), (places, "in"), (target, "out")])


def _pick(x: Any, places: Any, y: Any) -> None:
    for o in range(y.shape[0]):
        for i in range(y.shape[1]):
            source = x[o, places[i]]
            target = y[o, i]
            for s in range(y.shape[2]):
                target[s] = source[s]


class Unique(Chosen):
    """The groups of equal elements, or of equal slices along an axis: their first, places, sizes.

    NaN equals NaN. Sorted, or in the order in which they are met.
    """

    def supports(self, step: Step) -> bool | str:
        x = step.inputs[0]
        assert x is not None
        if not x.is_tensor or x.dtype not in (*REALS, *COMPLEX, NumberType.BOOL):
            return "it has no numbers to order"
        return True

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        x, axis = values[0], step.attr("axis")
        seen = (1, x.size, 1) if axis is None else around(x.shape, axis)
        n = seen[1]
        kind = number_type(x.dtype)
        whole = self.ordered(x).reshape(seen)
        first, inverse, counts = (np.empty(n, np.int64) for _ in range(3))
        found, places = np.zeros(1, np.int64), np.empty((2, n), np.int64)
        if x.size == n and kind not in COMPLEX:
            loop = radix_group(kind)
            whole = whole.view(UNITS[kind.itemsize]).reshape(n)
            room: tuple[NDArray[Any], ...] = (
                np.empty((2, n), np.uint64),
                places,
                np.empty(DIGITS, np.int64),
            )
        else:
            loop, room = group(order_of(kind)), (places[0], places[1])
            if kind is NumberType.BOOL:
                whole = whole.view(np.uint8)
        operands: list[tuple[NDArray[Any], Direction]] = [(whole, "in")]
        operands += [(a, "out") for a in (*room, first, inverse, counts, found)]
        self.call(loop, operands, [int(bool(step.attr("sorted")))])
        groups = int(found[0])
        first, counts = first[:groups].copy(), counts[:groups].copy()
        if axis is None:
            made = np.empty(groups, x.dtype)
        else:
            axis %= x.ndim
            made = np.empty((*x.shape[:axis], groups, *x.shape[axis + 1 :]), x.dtype)
        pick_slices(self, x, made, seen, first)
        return [made, first, inverse, counts][: len(step.outputs)]


def register(library: Library) -> None:
    """Register the kernels of this module."""
    for kind in (TopK, Hardmax, NonZero, Compress, Unique):
        library.kernel(kind.__name__, name=kind.__name__.lower())(kind)

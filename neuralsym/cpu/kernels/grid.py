"""GridSample over any number of axes and AffineGrid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from neuralsym.cpu.kernels import taps
from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.select import COMPLEX
from neuralsym.cpu.kernels.taps import denormalized, element, tap_weight, within
from neuralsym.cpu.kernels.units import UNITS, Function, are_tensors, decoder, encoder, same
from neuralsym.cpu.kernels.widen import finish, reserve, wide_place, widened
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Operand, Row, Sizes, Step
from neuralsym.cpu.scalar_ir import HALVES
from neuralsym.dtypes import NumberType

MODES = {"nearest": taps.NEAREST, "linear": taps.LINEAR, "cubic": taps.CUBIC}
PADDINGS = {"zeros": taps.ZEROS, "border": taps.BORDER, "reflection": taps.REFLECTION}

MOST_CORNERS = 4096
TILE = 64
"""How many points are prepared at a time where every channel samples them in turn."""


class GridSample(Kernel):
    """The corners around each point of the grid, then their weighted sum for every channel.

    Sums are float64; those of whole numbers are rounded and stay in range.
    """

    def supports(self, step: Step) -> bool | str:
        x = step.inputs[0]
        if x is not None and MODES[step.attr("mode")] ** (x.rank - 2) > MOST_CORNERS:
            return f"a point of {x.rank - 2} axes has over {MOST_CORNERS} corners"
        return are_tensors(step) or "not a tensor of numbers"

    def _is_wide(self, step: Step) -> bool:
        """Whether half-precision values are computed with as float32, in memory of their own."""
        return step.outputs[0].dtype in HALVES and step.attr("mode") != "nearest"

    def adjust(self, step: Step) -> None:
        x = step.inputs[0]
        assert x is not None
        if self._is_wide(step):
            reserve(step, 0, x)
            reserve(step, -1, step.outputs[0])
        corners = max(MODES[step.attr("mode")] ** (x.rank - 2), 4 * TILE)
        step.need_scratch("corners", lambda sizes: 16 * corners * sizes.workers)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, grid = step.inputs
        y = step.outputs[0]
        assert x is not None and grid is not None
        if 0 in sizes.shape(y):
            return []
        shape, points = sizes.shape(x), sizes.shape(grid)
        n, c, space = shape[0], shape[1], shape[2:]
        mode = MODES[step.attr("mode")]
        corners = mode ** len(space)
        rows: list[Row] = []
        source, target, computed = Operand(x), Operand(y), x.dtype
        if self._is_wide(step):
            source = widened(self.target, step, 0, x, sizes, rows)
            target, computed = wide_place(step, -1, y), NumberType.FLOAT32
        kind, loop = _loop(computed, grid.dtype, mode, len(space))
        bilinear = mode == taps.LINEAR and len(space) == 2
        if bilinear:
            corners *= TILE
        memory = step.scratch["corners"].buffer
        count = prod(points[1:-1])
        parts = 2 if kind == "pair" else 1
        kind = "uint64" if kind == "pair" else kind
        sides = [
            Side(source, kind, (n, c, prod(space), parts)),
            Side(grid, grid.dtype.value, (n, count, len(space))),
            Side(target, kind, (n, c, count, parts), "out"),
            Side(np.array(space, np.int64), "int64", (len(space),)),
            Side(memory, "int64", (sizes.workers, corners), "out"),
            Side(
                Operand(memory, 8 * corners * sizes.workers),
                "float32" if bilinear and computed is NumberType.FLOAT32 else "float64",
                (sizes.workers, corners),
                "out",
            ),
        ]
        attributes = [mode, PADDINGS[step.attr("padding_mode")], bool(step.attr("align_corners"))]
        rows.append(array_row(step, sizes, loop, sides, attributes, name="grid_sample"))
        if self._is_wide(step):
            rows += finish(self.target, step, target, y, None, sizes)
        return rows

    def complexity(self, step: Step, sizes: Sizes) -> int:
        y = step.outputs[0]
        corners = MODES[step.attr("mode")] ** (y.rank - 2)
        return 2 * corners * prod(sizes.shape(y)) if corners > 1 else 0


def _loop(
    kind: NumberType, grid: NumberType, mode: int, axes: int
) -> tuple[str, Callable[..., None]]:
    """The type to see the elements as ("pair": two of eight bytes), and the loop over them."""
    point = decoder(grid)
    if mode == taps.NEAREST:
        size = kind.itemsize
        return UNITS.get(size, "pair"), _sample(point, same, same, 0)
    if kind in COMPLEX:
        return kind.value, _sample(point, same, same, 2)
    seen = "uint8" if kind is NumberType.BOOL else kind.value
    if mode == taps.LINEAR and axes == 2:
        return seen, _bilinear(point, decoder(kind), encoder(kind))
    return seen, _sample(point, decoder(kind), encoder(kind), 1)


@cache
def _sample(
    point: Function, decode: Function, encode: Function, summed: int
) -> Callable[..., None]:
    """The loop of GridSample. summed: 0 for elements that are moved, 2 for complex sums."""
    zero = (0, 0.0, 0j)[summed]

    def corners_of(
        grid: Any,
        n: int,
        p: int,
        space: Any,
        offsets: Any,
        weights: Any,
        count: int,
        padding: int,
        edges: bool,
    ) -> None:
        """Write the corners of a point: an offset (-1 outside) and a weight for each."""
        offsets[0], weights[0] = 0, 1.0
        made = 1
        axes = space.shape[0]
        for axis in range(axes):
            size = space[axis]
            # Coordinates come last axis first.
            value = np.float64(point(grid[n, p, axes - 1 - axis]))
            place = denormalized(value, size, edges)
            if count == 1:
                place = np.rint(place)
            if count < 4:
                # Four taps meet the border one by one: the place itself would lose its weights.
                place = within(place, size, padding, edges)
            first = np.rint(place) if count == 1 else np.floor(place)
            part = place - first
            if count == 4:
                first -= 1
            for old in range(made - 1, -1, -1):
                offset, weight = offsets[old], weights[old]
                for tap in range(count):
                    index = element(first + tap, size, padding, edges)
                    at = old * count + tap
                    if offset < 0 or index < 0:
                        offsets[at] = -1
                    else:
                        offsets[at] = offset * size + index
                    weights[at] = weight * tap_weight(count, tap, part)
            made *= count

    def loop(
        x: Any,
        grid: Any,
        y: Any,
        space: Any,
        offsets: Any,
        weights: Any,
        count: int,
        padding: int,
        edges: bool,
        worker: int,
        workers: int,
    ) -> None:
        points = grid.shape[1]
        total = grid.shape[0] * points
        corner, weight = offsets[worker], weights[worker]
        for at in range(total * worker // workers, total * (worker + 1) // workers):
            n, p = at // points, at % points
            corners_of(grid, n, p, space, corner, weight, count, padding, edges)
            for c in range(x.shape[1]):
                for part in range(x.shape[3]):
                    if summed == 0:
                        y[n, c, p, part] = 0
                        if corner[0] >= 0:
                            y[n, c, p, part] = x[n, c, corner[0], part]
                    else:
                        value = zero
                        for k in range(corner.shape[0]):
                            if corner[k] >= 0:
                                value += weight[k] * decode(x[n, c, corner[k], part])
                        y[n, c, p, part] = encode(value)

    return loop


@cache
def _bilinear(point: Function, decode: Function, encode: Function) -> Callable[..., None]:
    """The loop for the most frequent case: two axes with two taps each, in registers."""

    def loop(
        x: Any,
        grid: Any,
        y: Any,
        space: Any,
        offsets: Any,
        weights: Any,
        count: int,
        padding: int,
        edges: bool,
        worker: int,
        workers: int,
    ) -> None:
        points, height, width = grid.shape[1], space[0], space[1]
        total = grid.shape[0] * points
        corner, weight = offsets[worker], weights[worker]
        stop = total * (worker + 1) // workers
        start = total * worker // workers
        while start < stop:
            # A few points of one batch entry, so that each channel is written in one go.
            n, first = start // points, start % points
            tile = min(TILE, stop - start, points - first)
            start += tile
            for t in range(tile):
                p = first + t
                row = denormalized(np.float64(point(grid[n, p, 1])), height, edges)
                column = denormalized(np.float64(point(grid[n, p, 0])), width, edges)
                row = within(row, height, padding, edges)
                column = within(column, width, padding, edges)
                top, left = np.floor(row), np.floor(column)
                down, right = row - top, column - left
                i0 = element(top, height, padding, edges)
                i1 = element(top + 1, height, padding, edges)
                j0 = element(left, width, padding, edges)
                j1 = element(left + 1, width, padding, edges)
                whole = i0 >= 0 and i1 >= 0 and j0 >= 0 and j1 >= 0
                for tap in range(4):
                    i, j = (i1 if tap > 1 else i0), (j1 if tap & 1 else j0)
                    part = down if tap > 1 else 1 - down
                    weight[4 * t + tap] = part * (right if tap & 1 else 1 - right)
                    corner[4 * t + tap] = i * width + j if i >= 0 and j >= 0 else -1
                if not whole:
                    for k in range(x.shape[1]):
                        value = 0.0
                        for tap in range(4 * t, 4 * t + 4):
                            if corner[tap] >= 0:
                                value += weight[tap] * decode(x[n, k, corner[tap], 0])
                        y[n, k, p, 0] = encode(value)
                    corner[4 * t] = -1
            for k in range(x.shape[1]):
                source, target = x[n, k], y[n, k]
                for t in range(tile):
                    at = 4 * t
                    if corner[at] >= 0:
                        # Unsigned: they do not count from the end.
                        a, b = np.uint64(corner[at]), np.uint64(corner[at + 1])
                        c, d = np.uint64(corner[at + 2]), np.uint64(corner[at + 3])
                        target[first + t, 0] = encode(
                            weight[at] * decode(source[a, 0])
                            + weight[at + 1] * decode(source[b, 0])
                            + weight[at + 2] * decode(source[c, 0])
                            + weight[at + 3] * decode(source[d, 0])
                        )

    return loop


class AffineGrid(Kernel):
    """The affine map of every place of an image, by its coordinates in [-1, 1].

    With `align_corners` an axis of one element lies in the middle, as in PyTorch.
    """

    def needs(self, step: Step) -> Sequence[int]:
        return [0]

    def settings(self, step: Step) -> Sequence[int]:
        return [1]

    def supports(self, step: Step) -> bool | str:
        theta = step.inputs[0]
        assert theta is not None
        return theta.dtype.is_float or f"no compiled loops over {theta.dtype}"

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        theta, y = step.inputs[0], step.outputs[0]
        assert theta is not None
        n, *space, axes = sizes.shape(y)
        if 0 in (n, *space):
            return []
        sides = [
            Side(theta, theta.dtype.value, (n, axes, axes + 1)),
            Side(y, y.dtype.value, (n, prod(space), axes), "out"),
            Side(np.array(space, np.int64), "int64", (axes,)),
        ]
        loop = _affine(decoder(theta.dtype), encoder(y.dtype))
        return [
            array_row(
                step, sizes, loop, sides, [bool(step.attr("align_corners"))], name="affine_grid"
            )
        ]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        shape = sizes.shape(step.outputs[0])
        return 2 * shape[-1] * prod(shape)


@cache
def _affine(decode: Function, encode: Function) -> Callable[..., None]:
    def coordinate(place: int, size: int, edges: bool) -> Any:
        if edges:
            return 2.0 * place / (size - 1) - 1.0 if size > 1 else 0.0
        return (2.0 * place + 1.0) / size - 1.0

    def loop(theta: Any, y: Any, space: Any, edges: bool, worker: int, workers: int) -> None:
        axes = y.shape[2]
        width = space[axes - 1]
        lines = y.shape[1] // width
        total = y.shape[0] * lines
        for unit in range(total * worker // workers, total * (worker + 1) // workers):
            n, line = unit // lines, unit % lines
            for row in range(axes):
                start = np.float64(decode(theta[n, row, axes]))
                rest = line
                for axis in range(axes - 2, -1, -1):
                    at = coordinate(rest % space[axis], space[axis], edges)
                    rest //= space[axis]
                    start += decode(theta[n, row, axes - 1 - axis]) * at
                slope = np.float64(decode(theta[n, row, 0]))
                for i in range(width):
                    value = start + slope * coordinate(i, width, edges)
                    y[n, line * width + i, row] = encode(value)

    return loop


def register(library: Library) -> None:
    """Register the kernels of this module."""
    library.kernel("GridSample", name="gridsample")(GridSample)
    library.kernel("AffineGrid", name="affinegrid")(AffineGrid)

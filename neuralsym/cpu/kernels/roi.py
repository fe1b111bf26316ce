"""Regions of feature maps: RoiAlign and MaxRoiPool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.movement import OUT_OF_RANGE
from neuralsym.cpu.kernels.units import Function, decoder, encoder, takes_floats
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step

FAR = 2.0**40
"""No place of a region's edge counts that lies further away."""


class RoiAlign(Kernel):
    """Regions resampled bilinearly to one size, averaged or the largest of weighted corners.

    The largest is taken over the four products of a corner and its weight at every sample, as the
    files' own expected values have it. Only samples that lie on the map are visited, so a region
    of any size takes no longer than one that covers it; a mean needs each row and column once.
    """

    failures: ClassVar = {OUT_OF_RANGE: "an index of batch_indices is not in the batch of X"}

    def supports(self, step: Step) -> bool | str:
        return takes_floats(step)

    def adjust(self, step: Step) -> None:
        step.need_scratch("weights", lambda sizes: 8 * sizes.workers * _room(step, sizes))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, boxes, places = step.inputs
        y = step.outputs[0]
        assert x is not None and boxes is not None and places is not None
        if 0 in sizes.shape(y):
            return []
        kind, count = x.dtype.value, sizes.shape(y)[0]
        weights = step.scratch["weights"].buffer
        sides = [
            Side(x, kind, sizes.shape(x)),
            Side(boxes, kind, (count, 4)),
            Side(places, "int64", (count,)),
            Side(y, kind, sizes.shape(y), "out"),
            Side(weights, "float64", (sizes.workers, _room(step, sizes)), "out"),
        ]
        attributes = [
            float(step.attr("spatial_scale")),
            int(step.attr("sampling_ratio")),
            step.attr("coordinate_transformation_mode") == "half_pixel",
        ]
        mean = step.attr("mode") == "avg"
        loop = _align(decoder(x.dtype), encoder(x.dtype), mean)
        return [array_row(step, sizes, loop, sides, attributes, name="roi_align")]


def _room(step: Step, sizes: Sizes) -> int:
    """How many weights a worker needs: of the rows for a row of cells, of the columns for all."""
    x, y = step.inputs[0], step.outputs[0]
    assert x is not None
    (*_, height, width), columns = sizes.shape(x), sizes.shape(y)[3]
    return height + columns * width


def _sample(place: Any, size: int) -> Any:
    """Where a sample lies on the map: its first element and the weight of the next; -1 if off."""
    if not -1.0 <= place <= size:
        return -1, 0.0
    place = max(place, 0.0)
    first = int(place)
    if first >= size - 1:
        return size - 1, 0.0
    return first, place - first


def _visited(start: Any, step: Any, count: Any, size: int) -> Any:
    """The samples of a cell, from the first to before the last, that may lie on the map."""
    if not count > 0:
        return 0, 0
    if step == 0 or start != start or step != step:
        return 0, np.int64(min(count, 1.0 if start != start or step != step else count))
    low, high = (-1.0 - start) / step - 0.5, (size - start) / step - 0.5
    if low > high:
        low, high = high, low
    first = min(max(np.floor(low) - 1, 0.0), count)
    last = min(max(np.ceil(high) + 2, first), count)
    return np.int64(first), np.int64(last)


def _spread(weights: Any, start: Any, step: Any, count: Any, size: int) -> Any:
    """Add up the weights that all samples of a cell give the elements of one axis.

    Those elements lie from the first to before the last of what it returns.
    """
    first, last = _visited(start, step, count, size)
    low, high = size, 0
    for i in range(first, last):
        at, part = _sample(start + (i + 0.5) * step, size)
        if at < 0:
            continue
        end = min(at + 2, size)
        if low > high:
            low, high = at, at
            weights[at] = 0.0
            high = at + 1
        while low > at:
            low -= 1
            weights[low] = 0.0
        while high < end:
            weights[high] = 0.0
            high += 1
        weights[at] += 1.0 - part
        if part > 0:
            weights[at + 1] += part
    return min(low, high), high


@cache
def _align(decode: Function, encode: Function, mean: bool) -> Callable[..., int]:
    def largest(
        plane: Any,
        y0: Any,
        y_step: Any,
        y_count: Any,
        x0: Any,
        x_step: Any,
        x_count: Any,
    ) -> Any:
        """The largest weighted corner of a cell's samples; a sample off the map counts as zero."""
        height, width = plane.shape
        y_first, y_last = _visited(y0, y_step, y_count, height)
        x_first, x_last = _visited(x0, x_step, x_count, width)
        best, met = 0.0, 0.0
        for i in range(y_first, y_last):
            row, low = _sample(y0 + (i + 0.5) * y_step, height)
            if row < 0:
                continue
            for j in range(x_first, x_last):
                column, right = _sample(x0 + (j + 0.5) * x_step, width)
                if column < 0:
                    continue
                below, beside = min(row + 1, height - 1), min(column + 1, width - 1)
                for corner in range(4):
                    r, c = (below if corner > 1 else row), (beside if corner & 1 else column)
                    weight = (low if corner > 1 else 1.0 - low) * (
                        right if corner & 1 else 1.0 - right
                    )
                    value = weight * decode(plane[r, c])
                    if (met == 0 and corner == 0) or value > best or value != value:
                        best = value
                met += 1.0
        if met < y_count * x_count and not best > 0:
            best = 0.0 if best == best else best
        return best

    def loop(
        x: Any,
        boxes: Any,
        places: Any,
        y: Any,
        memory: Any,
        scale: float,
        ratio: int,
        half_pixel: bool,
        worker: int,
        workers: int,
    ) -> int:
        height, width = x.shape[2], x.shape[3]
        rows, columns = y.shape[2], y.shape[3]
        down, across = memory[worker, :height], memory[worker, height:]
        shift = 0.5 if half_pixel else 0.0
        total = y.shape[0] * rows
        for unit in range(total * worker // workers, total * (worker + 1) // workers):
            box, row = unit // rows, unit % rows
            n = places[box]
            if n < 0 or n >= x.shape[0]:
                return 1
            left = decode(boxes[box, 0]) * scale - shift
            top = decode(boxes[box, 1]) * scale - shift
            wide = decode(boxes[box, 2]) * scale - shift - left
            high = decode(boxes[box, 3]) * scale - shift - top
            if not half_pixel:
                wide, high = max(wide, 1.0), max(high, 1.0)
            wide, high = wide / columns, high / rows
            y_count = float(ratio) if ratio > 0 else np.ceil(high)
            x_count = float(ratio) if ratio > 0 else np.ceil(wide)
            y_step, x_step = high / max(y_count, 1.0), wide / max(x_count, 1.0)
            y0 = top + row * high
            if not mean:
                for column in range(columns):
                    x0 = left + column * wide
                    for c in range(y.shape[1]):
                        found = largest(x[n, c], y0, y_step, y_count, x0, x_step, x_count)
                        y[box, c, row, column] = encode(found)
                continue
            first, last = _spread(down, y0, y_step, y_count, height)
            samples = max(y_count * x_count, 1.0)
            for column in range(columns):
                weights = across[column * width : (column + 1) * width]
                start, end = _spread(weights, left + column * wide, x_step, x_count, width)
                for c in range(y.shape[1]):
                    value = 0.0
                    for i in range(first, last):
                        line = 0.0
                        for j in range(start, end):
                            line += weights[j] * decode(x[n, c, i, j])
                        value += down[i] * line
                    y[box, c, row, column] = encode(value / samples)
        return 0

    return loop


class MaxRoiPool(Kernel):
    """The largest element in each cell of a grid over each region; zero where a cell is empty.

    The edges are rounded to whole elements; cells overlap where they do not divide evenly.
    Source: Fast R-CNN (arXiv 1504.08083), whose layer the operator is.
    """

    failures: ClassVar = {OUT_OF_RANGE: "the batch index of a region is not in the batch of X"}

    def supports(self, step: Step) -> bool | str:
        return takes_floats(step)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, boxes = step.inputs
        y = step.outputs[0]
        assert x is not None and boxes is not None
        if 0 in sizes.shape(y):
            return []
        kind = x.dtype.value
        sides = [
            Side(x, kind, sizes.shape(x)),
            Side(boxes, kind, (sizes.shape(y)[0], 5)),
            Side(y, kind, sizes.shape(y), "out"),
        ]
        loop = _max_pool(decoder(x.dtype))
        return [
            array_row(
                step, sizes, loop, sides, [float(step.attr("spatial_scale"))], name="max_roi_pool"
            )
        ]


def _edge(place: Any, scale: float) -> Any:
    """A corner in whole elements of the map, halves away from zero; far away ones are clamped."""
    scaled = np.float64(place) * scale
    rounded = np.floor(abs(scaled) + 0.5)
    if rounded != rounded:
        rounded = 0.0
    return np.int64(min(rounded, FAR) * (-1.0 if scaled < 0 else 1.0))


@cache
def _max_pool(decode: Function) -> Callable[..., int]:
    def loop(x: Any, boxes: Any, y: Any, scale: float, worker: int, workers: int) -> int:
        height, width = x.shape[2], x.shape[3]
        rows, columns = y.shape[2], y.shape[3]
        total = y.shape[0] * rows * columns
        for unit in range(total * worker // workers, total * (worker + 1) // workers):
            box, cell = unit // (rows * columns), unit % (rows * columns)
            row, column = cell // columns, cell % columns
            batch = decode(boxes[box, 0])
            if not 0 <= batch < x.shape[0]:
                return 1
            n = np.int64(batch)
            left, top = _edge(decode(boxes[box, 1]), scale), _edge(decode(boxes[box, 2]), scale)
            right, low = _edge(decode(boxes[box, 3]), scale), _edge(decode(boxes[box, 4]), scale)
            high = max(low - top + 1, 1) / rows
            wide = max(right - left + 1, 1) / columns
            i0 = min(max(np.int64(np.floor(row * high)) + top, 0), height)
            i1 = min(max(np.int64(np.ceil((row + 1) * high)) + top, 0), height)
            j0 = min(max(np.int64(np.floor(column * wide)) + left, 0), width)
            j1 = min(max(np.int64(np.ceil((column + 1) * wide)) + left, 0), width)
            for c in range(y.shape[1]):
                if i1 <= i0 or j1 <= j0:
                    y[box, c, row, column] = 0
                    continue
                best = x[n, c, i0, j0]
                for i in range(i0, i1):
                    for j in range(j0, j1):
                        value = decode(x[n, c, i, j])
                        if value > decode(best) or value != value:
                            best = x[n, c, i, j]
                y[box, c, row, column] = best
        return 0

    return loop


def register(library: Library) -> None:
    """Register the kernels of this module."""
    library.kernel("RoiAlign", name="roialign")(RoiAlign)
    library.kernel("MaxRoiPool", name="maxroipool")(MaxRoiPool)

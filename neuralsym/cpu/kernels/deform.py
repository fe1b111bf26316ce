"""DeformConv over any number of axes: displaced taps gathered into columns, then multiplied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.geometry import registers, stored_array, window
from neuralsym.cpu.kernels.movement import permuted_rows
from neuralsym.cpu.kernels.units import Function, decoder, takes_floats
from neuralsym.cpu.kernels.widen import finish, reserve, wide_kind, wide_place, widened
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Buffer, Operand, Role, Row, Sizes, Step
from neuralsym.cpu.templates.matmul import matmul_text
from neuralsym.cpu.templates.matmul_form import MatmulText
from neuralsym.cpu.templates.matmul_plan import (
    Matrix,
    matmul_words,
    pack_b,
    panel_bytes,
    plan_matmul,
    scratch_bytes,
)
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch


class DeformConv(Kernel):
    """Each tap reads between the elements where its offset points; outside the input lies zero.

    Source: "Deformable ConvNets v2" (arXiv 1811.11168). Channels come last while it works, so that
    what lies around a place is read and weighed in vectors: columns are [batch, places, parts,
    taps, channels of a part], the sums [batch, places, filters]. Both are float32, float64 for
    float64.
    """

    def supports(self, step: Step) -> bool | str:
        return takes_floats(step)

    def adjust(self, step: Step) -> None:
        x, w, y = step.inputs[0], step.inputs[1], step.outputs[0]
        assert x is not None and w is not None
        item, axes = _wide(step).itemsize, y.rank - 2
        for key, buffer in ((0, x), (1, w), (3, step.input(3)), (-1, y)):
            reserve(step, key, buffer)
        step.need_scratch("pixels", lambda sizes: item * prod(sizes.shape(x)))
        step.need_scratch("columns", lambda sizes: item * prod(_columns(step, sizes)))
        step.need_scratch("sums", lambda sizes: item * prod(sizes.shape(y)))
        # Of each corner of a cell where it lies, and how much it counts.
        step.need_scratch("corners", lambda sizes: 2 * 8 * 2**axes * sizes.workers)
        if w.role is not Role.CONSTANT:
            most = scratch_bytes(self._text(step))
            step.need_scratch("filters", lambda sizes: item * prod(sizes.shape(w)))
            step.need_scratch("panel", lambda sizes: most * sizes.workers)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        rows: list[Row] = []
        batch, channels, *space = sizes.shape(x)
        pixels = Operand(step.scratch["pixels"].buffer)
        source = widened(self.target, step, 0, x, sizes, rows)
        rows += self._turned(step, pixels, source, (batch, channels, prod(space)), sizes)
        rows.append(self._columns(step, sizes))
        sums = Operand(step.scratch["sums"].buffer)
        rows += self._product(step, sizes, sums)
        _, filters, *result = sizes.shape(y)
        place = wide_place(step, -1, y)
        rows += self._turned(step, place, sums, (batch, prod(result), filters), sizes)
        if y.dtype is not _wide(step):
            rows += finish(self.target, step, place, y, None, sizes)
        return rows

    def _turned(
        self,
        step: Step,
        target: Operand,
        source: Operand,
        shape: Sequence[int],
        sizes: Sizes,
    ) -> list[Row]:
        """Matrices of a batch transposed."""
        kind, named = _wide(step), (True,) * 3
        return permuted_rows(self.target, target, source, kind, shape, (0, 2, 1), sizes, named)

    def _columns(self, step: Step, sizes: Sizes) -> Row:
        """What each tap of each place reads."""
        x, w, offset = step.inputs[:3]
        mask, y = step.input(4), step.outputs[0]
        assert x is not None and w is not None and offset is not None
        batch, places, parts, taps, each = _columns(step, sizes)
        given, filters, channels = sizes.shape(x), sizes.shape(w), sizes.shape(x)[1]
        space, result = given[2:], sizes.shape(y)[2:]
        axes, groups = len(space), int(step.attr("offset_group") or 1)
        if channels != filters[1] * parts or channels % groups or filters[0] % parts:
            raise ShapeMismatch(
                f"{step.describe()}: X {list(given)} and W {list(filters)} do not fit "
                f"group={parts} and offset_group={groups}"
            )
        found = window(step, filters[2:], space)
        weights = (batch, groups, taps, places) if mask is not None else (0, 0, 0, 0)
        if mask is not None and sizes.shape(mask) != (batch, groups * taps, *result):
            expected = [batch, groups * taps, *result]
            raise ShapeMismatch(
                f"{step.describe()}: mask is {list(sizes.shape(mask))}, {expected} is needed: a "
                "weight for each batch entry, offset group and tap, and place of the output"
            )
        geometry = [space, result, filters[2:], found.strides, found.dilations, found.before]
        flat = np.array(geometry, np.int64).reshape(-1)
        kind, wide = x.dtype.value, _wide(step).value
        memory, corners = step.scratch["corners"].buffer, 2**axes
        sides = [
            Side(step.scratch["pixels"].buffer, wide, (batch, prod(space), channels)),
            Side(offset, kind, (batch, groups, taps, axes, places)),
            Side(offset if mask is None else mask, kind, weights),
            Side(step.scratch["columns"].buffer, wide, (batch * places, parts, taps, each), "out"),
            Side(flat, "int64", (len(geometry), axes)),
            Side(memory, "int64", (sizes.workers, corners), "out"),
            Side(
                Operand(memory, 8 * corners * sizes.workers), wide, (sizes.workers, corners), "out"
            ),
        ]
        loop = _gather(decoder(x.dtype))
        return array_row(step, sizes, loop, sides, name="deform_columns", fast=True)

    def _product(self, step: Step, sizes: Sizes, sums: Operand) -> list[Row]:
        """The columns times the filters, one product for each entry and group."""
        w, bias, y = step.inputs[1], step.input(3), step.outputs[0]
        assert w is not None
        batch, places, parts, taps, each = _columns(step, sizes)
        text, rows = self._text(step), list[Row]()
        filters, item = sizes.shape(y)[1], _wide(step).itemsize
        n, k = filters // parts, taps * each
        columns = Operand(step.scratch["columns"].buffer)
        if w.role is Role.CONSTANT:
            packed = step.pack("filters", lambda: pack_b(_matrices(w, parts, text), text))
            size = panel_bytes(k, text)
            b = Matrix(Operand(packed), size, 0, max(1, -(-n // text.panel)) * size)
        else:
            turned = Operand(step.scratch["filters"].buffer)
            source = widened(self.target, step, 1, w, sizes, rows)
            rows += self._turned(step, turned, source, (filters, each, taps), sizes)
            b = Matrix(turned, k * item, 0, n * k * item)
        beside = None
        if bias is not None:
            beside = Matrix(widened(self.target, step, 3, bias, sizes, rows), 0, 0, n * item)
        words = matmul_words(
            text,
            (places, n, k),
            Matrix(columns, parts * k * item, places * parts * k * item, k * item),
            b,
            Matrix(sums, filters * item, places * filters * item, n * item),
            residual=beside,
            batch=(batch, parts),
            scratch=Operand(step.scratch["panel"].buffer) if "panel" in step.scratch else None,
        )
        return [*rows, Row(_product_code(text), words)]

    def _text(self, step: Step) -> MatmulText:
        w, wide = step.inputs[1], _wide(step)
        assert w is not None
        return plan_matmul(
            None,
            width=self.target.width(wide.value),
            registers=registers(self.target),
            b="packed" if w.role is Role.CONSTANT else "columns",
            element="double" if wide is NumberType.FLOAT64 else "float",
            residual=step.input(3) is not None,
        )

    def complexity(self, step: Step, sizes: Sizes) -> int:
        _, _, _, taps, each = _columns(step, sizes)
        return 2 * prod(sizes.shape(step.outputs[0])) * each * taps


@cache
def _product_code(text: MatmulText) -> Code:
    return Code("matmul", "matmul", matmul_text(text, "matmul"))


def _matrices(w: Buffer, parts: int, text: MatmulText) -> NDArray[Any]:
    """The filters of each group as a matrix [taps and channels][filters]."""
    array = np.asarray(stored_array(w), np.float64 if text.element == "double" else np.float32)
    filters, each = array.shape[:2]
    turned = array.reshape(parts, filters // parts, each, -1).transpose(0, 3, 2, 1)
    return turned.reshape(parts, -1, filters // parts)


def _wide(step: Step) -> NumberType:
    return wide_kind(step.outputs[0].dtype)


def _columns(step: Step, sizes: Sizes) -> tuple[int, int, int, int, int]:
    """Batch, places of the output, groups, taps, channels of a group."""
    x, w = step.inputs[:2]
    assert x is not None and w is not None
    batch, channels = sizes.shape(x)[:2]
    parts, taps = int(step.attr("group") or 1), prod(sizes.shape(w)[2:])
    places = prod(sizes.shape(step.outputs[0])[2:])
    return batch, places, parts, taps, channels // parts


@cache
def _gather(decode: Function) -> Callable[..., None]:
    def corners_of(
        offset: Any,
        n: int,
        g: int,
        tap: int,
        p: int,
        geometry: Any,
        offsets: Any,
        weights: Any,
    ) -> int:
        """Write the corners around a displaced tap; how many there are, 0 outside the input."""
        axes = geometry.shape[1]
        made = 1
        offsets[0], weights[0] = 0, 1.0
        # From the last axis on, whose digits of the flat numbers come first.
        rest_p, rest_k = p, tap
        inner = 1
        for axis in range(axes - 1, -1, -1):
            size = geometry[0, axis]
            at, k = rest_p % geometry[1, axis], rest_k % geometry[2, axis]
            rest_p //= geometry[1, axis]
            rest_k //= geometry[2, axis]
            start = at * geometry[3, axis] + k * geometry[4, axis] - geometry[5, axis]
            place = np.float64(start) + np.float64(decode(offset[n, g, tap, axis, p]))
            if not (place > -1.0 and place < size):
                return 0
            first = np.int64(np.floor(place))
            part = place - first
            count = made
            made = 0
            # In place: what stays is never more than twice what was, written from the far end.
            low, high = first >= 0, first + 1 < size
            if high:
                for i in range(count):
                    offsets[count + i] = offsets[i] + (first + 1) * inner
                    weights[count + i] = weights[i] * part
            if low:
                for i in range(count):
                    offsets[i] += first * inner
                    weights[i] *= 1.0 - part
                made = 2 * count if high else count
            else:
                for i in range(count):
                    if high:
                        offsets[i], weights[i] = offsets[count + i], weights[count + i]
                made = count if high else 0
            if made == 0:
                return 0
            inner *= size
        return made

    def inside(
        shifts: Any, p: int, down: int, right: int, geometry: Any, offsets: Any, weights: Any
    ) -> bool:
        """The four corners around a tap of a picture, if all of them lie on it."""
        y = np.float64(down) + np.float64(decode(shifts[0, p]))
        x = np.float64(right) + np.float64(decode(shifts[1, p]))
        high, wide = geometry[0, 0], geometry[0, 1]
        if not (y >= 0.0 and x >= 0.0 and y < high - 1 and x < wide - 1):
            return False
        row, column = np.int64(y), np.int64(x)
        below, beside = y - row, x - column
        above, before = 1.0 - below, 1.0 - beside
        first = row * wide + column
        offsets[0], offsets[1], offsets[2], offsets[3] = (
            first,
            first + 1,
            first + wide,
            first + wide + 1,
        )
        weights[0], weights[1] = above * before, above * beside
        weights[2], weights[3] = below * before, below * beside
        return True

    def weighed(
        pixels: Any, corners: Any, weights: Any, count: int, start: int, target: Any
    ) -> None:
        """The sum of what the corners hold, for the channels from `start` on."""
        size = target.shape[0]
        stop = start + size
        if count == 4:
            a, b = pixels[corners[0], start:stop], pixels[corners[1], start:stop]
            c, d = pixels[corners[2], start:stop], pixels[corners[3], start:stop]
            e, f, g, h = weights[0], weights[1], weights[2], weights[3]
            for i in range(size):
                target[i] = e * a[i] + f * b[i] + g * c[i] + h * d[i]
            return
        for i in range(size):
            target[i] = 0
        for k in range(count):
            line, weight = pixels[corners[k], start:stop], weights[k]
            for i in range(size):
                target[i] += weight * line[i]

    def loop(
        pixels: Any,
        offset: Any,
        mask: Any,
        columns: Any,
        geometry: Any,
        corners: Any,
        weights: Any,
        worker: int,
        workers: int,
    ) -> None:
        taps, each, channels = columns.shape[2], columns.shape[3], pixels.shape[2]
        groups, places = offset.shape[1], offset.shape[4]
        shared = channels // groups  # so many channels are displaced alike
        around, parts = corners[worker], weights[worker]
        total, flat = columns.shape[0], geometry.shape[1] == 2
        for unit in range(total * worker // workers, total * (worker + 1) // workers):
            n, p = unit // places, unit % places
            top, left = 0, 0
            if flat:
                top = p // geometry[1, 1] * geometry[3, 0] - geometry[5, 0]
                left = p % geometry[1, 1] * geometry[3, 1] - geometry[5, 1]
            for g in range(groups):
                down, right, step = top, left, 0
                for tap in range(taps):
                    count = 4
                    if not (
                        flat and inside(offset[n, g, tap], p, down, right, geometry, around, parts)
                    ):
                        count = corners_of(offset, n, g, tap, p, geometry, around, parts)
                    if flat:
                        step += 1
                        right += geometry[4, 1]
                        if step == geometry[2, 1]:
                            down, right, step = down + geometry[4, 0], left, 0
                    if mask.shape[0]:
                        scale = decode(mask[n, g, tap, p])
                        for k in range(count):
                            parts[k] *= scale
                    start, stop = g * shared, (g + 1) * shared
                    while start < stop:
                        part = start // each
                        end = min(stop, (part + 1) * each)
                        line = columns[unit, part, tap]
                        target = line[start - part * each : end - part * each]
                        weighed(pixels[n], around, parts, count, start, target)
                        start = end

    return loop


def register(library: Library) -> None:
    """Register the kernels of this module."""
    library.kernel("DeformConv", name="deformconv")(DeformConv)

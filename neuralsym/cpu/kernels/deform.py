"""DeformConv over any number of axes: displaced taps gathered into columns, then multiplied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from neuralsym.core.scalar import argument
from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.geometry import registers, window
from neuralsym.cpu.kernels.loops import Strided, loop_row
from neuralsym.cpu.kernels.units import Function, decoder, encoder, takes_floats
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.machine import Target
from neuralsym.cpu.program import Operand, Row, Sizes, Step, row_strides
from neuralsym.cpu.templates.matmul import matmul_text
from neuralsym.cpu.templates.matmul_form import Element, MatmulText
from neuralsym.cpu.templates.matmul_plan import Matrix, matmul_words, plan_matmul, scratch_bytes
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch

TILE = 64
"""How many places are prepared at a time, for every channel to sample them in turn."""


class DeformConv(Kernel):
    """Each tap reads between the elements where its offset points; outside the input lies zero.

    Source: "Deformable ConvNets v2" (arXiv 1811.11168). Columns [batch, channels, taps, places]
    are float32, float64 for float64, and so are the sums.
    """

    def supports(self, step: Step) -> bool | str:
        return takes_floats(step)

    def adjust(self, step: Step) -> None:
        axes = step.outputs[0].rank - 2
        step.need_scratch("columns", lambda sizes: prod(_columns(step, sizes)) * _item(step))
        room = TILE * (2 * 2**axes + 1)
        step.need_scratch("corners", lambda sizes: 8 * room * sizes.workers)
        text = _product_text(self.target, step)
        if text is None:
            step.need_scratch(
                "sums", lambda sizes: sizes.workers * _places(step, sizes) * _item(step)
            )
        else:
            most = scratch_bytes(text)
            step.need_scratch("panel", lambda sizes: most * sizes.workers)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, w, offset = step.inputs[:3]
        bias, mask, y = step.input(3), step.input(4), step.outputs[0]
        assert x is not None and w is not None and offset is not None
        if 0 in sizes.shape(y):
            return []
        batch, channels, taps, places = columns = _columns(step, sizes)
        given, filters = sizes.shape(x), sizes.shape(w)
        space, result = given[2:], sizes.shape(y)[2:]
        axes, groups = len(space), int(step.attr("offset_group") or 1)
        parts = int(step.attr("group") or 1)
        if channels != filters[1] * parts or channels % groups or filters[0] % parts:
            raise ShapeMismatch(
                f"{step.describe()}: X {list(given)} and W {list(filters)} do not fit "
                f"group={parts} and offset_group={groups}"
            )
        found = window(step, filters[2:], space)
        kind, wide = x.dtype.value, _wide(step)
        decode, corners = decoder(x.dtype), TILE * 2**axes
        memory = step.scratch["corners"].buffer
        shifts = (batch, groups, taps, axes, places)
        weights = (batch, groups, taps, places) if mask is not None else (0, 0, 0, 0)
        if mask is not None and sizes.shape(mask) != (batch, groups * taps, *result):
            expected = [batch, groups * taps, *result]
            raise ShapeMismatch(
                f"{step.describe()}: mask is {list(sizes.shape(mask))}, {expected} is needed: a "
                "weight for each batch entry, offset group and tap, and place of the output"
            )
        geometry = [space, result, filters[2:], found.strides, found.dilations, found.before]
        flat = np.array(geometry, np.int64).reshape(-1)
        beside = Operand(memory, 8 * (corners + TILE) * sizes.workers)
        sides = [
            Side(x, kind, (batch, channels, prod(space))),
            Side(offset, kind, shifts),
            Side(offset if mask is None else mask, kind, weights),
            Side(step.scratch["columns"].buffer, wide, columns, "out"),
            Side(flat, "int64", (len(geometry), axes)),
            Side(memory, "int64", (sizes.workers, corners + TILE), "out"),
            Side(beside, "float64", (sizes.workers, corners), "out"),
        ]
        rows = [array_row(step, sizes, _gather(decode), sides, name="deform_columns")]
        text = _product_text(self.target, step)
        if text is not None:
            return rows + self._product_rows(step, sizes, text, parts)
        sides = [
            Side(step.scratch["columns"].buffer, wide, (batch, channels * taps, places)),
            Side(w, kind, (filters[0], filters[1] * taps)),
            Side(w if bias is None else bias, kind, (0 if bias is None else filters[0],)),
            Side(y, kind, (batch, filters[0], places), "out"),
            Side(step.scratch["sums"].buffer, wide, (sizes.workers, places), "out"),
        ]
        loop = _product(decode, encoder(x.dtype))
        rows.append(array_row(step, sizes, loop, sides, [parts], name="deform_product", fast=True))
        return rows

    def _product_rows(self, step: Step, sizes: Sizes, text: MatmulText, parts: int) -> list[Row]:
        """The filters times the columns as matrices, one product for each entry and group."""
        w, bias, y = step.inputs[1], step.input(3), step.outputs[0]
        assert w is not None
        batch, channels, taps, places = _columns(step, sizes)
        filters, item = sizes.shape(y)[1], y.dtype.itemsize
        m, k = filters // parts, channels // parts * taps
        columns = Operand(step.scratch["columns"].buffer)
        words = matmul_words(
            text,
            (m, places, k),
            Matrix(Operand(w), k * item, 0, m * k * item),
            Matrix(columns, places * item, channels * taps * places * item, k * places * item),
            Matrix(Operand(y), places * item, filters * places * item, m * places * item),
            batch=(batch, parts),
            scratch=Operand(step.scratch["panel"].buffer),
        )
        rows = [Row(_product_code(text), words)]
        if bias is not None:
            shape, flat = (batch, filters, places), (False,) * 3
            steps = row_strides(shape, item)
            ours = [Strided(Operand(y), y.dtype, steps, (False,) * 3)] * 2
            beside = Strided(Operand(bias), y.dtype, (0, item, 0), (True, False, True))
            value = argument(0) + argument(1)
            rows.append(loop_row(self.target, value, shape, [*ours, beside], flat, "bias"))
        return rows

    def complexity(self, step: Step, sizes: Sizes) -> int:
        _, channels, taps, _ = _columns(step, sizes)
        groups = int(step.attr("group") or 1)
        return 2 * prod(sizes.shape(step.outputs[0])) * (channels // groups) * taps


def _product_text(target: Target, step: Step) -> MatmulText | None:
    """The matrix product of the sums; None for types that it does not read as they are."""
    y = step.outputs[0]
    if y.dtype not in (NumberType.FLOAT32, NumberType.FLOAT64):
        return None
    element: Element = "double" if y.dtype is NumberType.FLOAT64 else "float"
    width = target.width(element)
    return plan_matmul(None, width=width, registers=registers(target), b="rows", element=element)


@cache
def _product_code(text: MatmulText) -> Code:
    return Code("matmul", "matmul", matmul_text(text, "matmul"))


def _wide(step: Step) -> str:
    return "float64" if step.outputs[0].dtype is NumberType.FLOAT64 else "float32"


def _item(step: Step) -> int:
    return 8 if _wide(step) == "float64" else 4


def _places(step: Step, sizes: Sizes) -> int:
    return prod(sizes.shape(step.outputs[0])[2:])


def _columns(step: Step, sizes: Sizes) -> tuple[int, int, int, int]:
    x, w = step.inputs[:2]
    assert x is not None and w is not None
    batch, channels = sizes.shape(x)[:2]
    return batch, channels, prod(sizes.shape(w)[2:]), _places(step, sizes)


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

    def loop(
        x: Any,
        offset: Any,
        mask: Any,
        columns: Any,
        geometry: Any,
        offsets: Any,
        weights: Any,
        worker: int,
        workers: int,
    ) -> None:
        channels, taps, places = columns.shape[1], columns.shape[2], columns.shape[3]
        groups = offset.shape[1]
        each = channels // groups
        most = 1 << geometry.shape[1]
        corner, weight = offsets[worker, : most * TILE], weights[worker]
        counts = offsets[worker, most * TILE :]
        total = columns.shape[0] * groups * taps
        for unit in range(total * worker // workers, total * (worker + 1) // workers):
            tap, rest = unit % taps, unit // taps
            g, n = rest % groups, rest // groups
            for start in range(0, places, TILE):
                # A few places, so that each channel is written in one go.
                tile = min(TILE, places - start)
                for t in range(tile):
                    low, high = t * most, (t + 1) * most
                    around, parts = corner[low:high], weight[low:high]
                    count = corners_of(offset, n, g, tap, start + t, geometry, around, parts)
                    counts[t] = count
                    if mask.shape[0]:
                        scale = np.float64(decode(mask[n, g, tap, start + t]))
                        for k in range(count):
                            parts[k] *= scale
                for c in range(g * each, (g + 1) * each):
                    source, target = x[n, c], columns[n, c, tap]
                    for t in range(tile):
                        k = t * most
                        if counts[t] == 4:
                            target[start + t] = (
                                weight[k] * decode(source[corner[k]])
                                + weight[k + 1] * decode(source[corner[k + 1]])
                                + weight[k + 2] * decode(source[corner[k + 2]])
                                + weight[k + 3] * decode(source[corner[k + 3]])
                            )
                            continue
                        value = 0.0
                        for at in range(k, k + counts[t]):
                            value += weight[at] * decode(source[corner[at]])
                        target[start + t] = value

    return loop


@cache
def _product(decode: Function, encode: Function) -> Callable[..., None]:
    def loop(
        columns: Any,
        w: Any,
        bias: Any,
        y: Any,
        sums: Any,
        groups: int,
        worker: int,
        workers: int,
    ) -> None:
        filters, places, each = y.shape[1], y.shape[2], w.shape[1]
        line = sums[worker]
        total = y.shape[0] * filters
        for unit in range(total * worker // workers, total * (worker + 1) // workers):
            n, f = unit // filters, unit % filters
            start = f // (filters // groups) * each
            first = sums.dtype.type(decode(bias[f]) if bias.shape[0] else 0.0)
            for p in range(places):
                line[p] = first
            k = 0
            while k + 4 <= each:
                # Four at a time, so that the sums are not loaded and stored for each.
                a = sums.dtype.type(decode(w[f, k]))
                b = sums.dtype.type(decode(w[f, k + 1]))
                c = sums.dtype.type(decode(w[f, k + 2]))
                d = sums.dtype.type(decode(w[f, k + 3]))
                s, t = columns[n, start + k], columns[n, start + k + 1]
                u, v = columns[n, start + k + 2], columns[n, start + k + 3]
                for p in range(places):
                    line[p] += a * s[p] + b * t[p] + c * u[p] + d * v[p]
                k += 4
            while k < each:
                factor = sums.dtype.type(decode(w[f, k]))
                source = columns[n, start + k]
                for p in range(places):
                    line[p] += factor * source[p]
                k += 1
            for p in range(places):
                y[n, f, p] = encode(line[p])

    return loop


def register(library: Library) -> None:
    """Register the kernels of this module."""
    library.kernel("DeformConv", name="deformconv")(DeformConv)

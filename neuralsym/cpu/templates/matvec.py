"""A matrix times one column, as IR: the dot product of each row with it.

    y[i] = alpha * sum over k of a[i][k] b[k] + bias

Four rows go together, so that the column is read once for them; each row has two running vectors,
however the rows are shared out. Descriptor: y, a, b, rows, their length, then alpha and bias as
the bits of the element's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neuralsym.cpu.ir import Module
from neuralsym.cpu.templates.lanes import horizontal
from neuralsym.cpu.vector_lanes import Lanes

ROWS = 4
STREAMS = 2


@dataclass(frozen=True)
class MatvecText:
    """What the text depends on: lanes of a vector, float or double."""

    width: int
    element: str


def matvec_text(text: MatvecText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    module = Module()
    f = module.function(name)
    v, single = Lanes(f, text.element, text.width), Lanes(f, text.element, 1)
    item = 4 if text.element == "float" else 8
    target, matrix, column = (f.operand(i) for i in range(3))
    rows, length = f.word(3), f.word(4)
    alpha, bias = (f.load(text.element, f.at("%desc", 8 * i), 8) for i in (5, 6))
    stride = f.mul(length, item)
    many = STREAMS * text.width
    whole = f.value(f"and i64 {length}, {-many}")

    def products(places: Sequence[str]) -> list[str]:
        zero = (v.kind, v.number(0.0))
        with f.loop(whole, *[zero] * (STREAMS * len(places)), step=many) as at:
            made = []
            for i in range(STREAMS):
                offset = f.mul(f.add(at.index, i * text.width), item)
                factor = f.load(v.kind, f.at(column, offset), item)
                for r, place in enumerate(places):
                    value = f.load(v.kind, f.at(place, offset), item)
                    made.append(v.fma(value, factor, at.values[i * len(places) + r]))
            at.next(*made)
        first, second = at.values[: len(places)], at.values[len(places) :]
        sums = [v.add(a, b) for a, b in zip(first, second, strict=True)]
        with f.loop(length, *((v.kind, s) for s in sums), start=whole, step=text.width) as at:
            mask = f.lane_mask(f.sub(length, at.index), text.width)
            offset = f.mul(at.index, item)
            factor = f.masked_load(v.kind, f.at(column, offset), mask, item)
            made = []
            for place, before in zip(places, at.values, strict=True):
                value = f.masked_load(v.kind, f.at(place, offset), mask, item)
                made.append(v.fma(value, factor, before))
            at.next(*made)
        return list(at.values)

    def finish(row: str, sums: Sequence[str]) -> None:
        for r, name_ in enumerate(sums):
            total = horizontal(
                f,
                name_,
                text.element,
                text.width,
                lambda a, b, n: Lanes(f, text.element, n).add(a, b),
            )
            value = single.add(single.mul(total, alpha), bias)
            f.store(text.element, value, f.at(target, f.mul(f.add(row, r), item)), item)

    low, high = f.share(rows)
    done: str = low
    for count in (ROWS, 1):
        end = f.sub(high, f.srem(f.sub(high, done), count)) if count > 1 else high
        with f.loop(end, start=done, step=count) as row:
            place = f.at(matrix, f.mul(row.index, stride))
            places = [place]
            for _ in range(count - 1):
                places.append(f.at(places[-1], stride))
            finish(row.index, products(places))
        done = end
    f.do("ret i32 0")
    return str(module)

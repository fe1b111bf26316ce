"""A matrix times one of few columns, as IR: a dot product for each element of the result.

    y[i][j] = activation(alpha * sum over k of a[i][k] b[k][j] + bias[j])

Tiles of whole vectors of columns would multiply by the zeros that fill them up; here the lanes lie
along k. B comes packed: for each vector of k one vector of each column, one behind the other, so
that it is read from front to back. Descriptor: y, a, b, bias, rows, k, then alpha as the bits of
the element's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.element import Element, InVectors
from neuralsym.cpu.templates.epilogue import Activation, identity
from neuralsym.cpu.templates.layout import Array, aligned
from neuralsym.cpu.templates.matmul_tile import LATENCY


@dataclass(frozen=True)
class FewText(InVectors):
    """What the text depends on: lanes of a vector, and what is computed with how many columns."""

    width: int
    columns: int
    element: Element = "float"
    scaled: bool = False
    bias: bool = False
    activation: Activation = field(default_factory=identity)

    @property
    def streams(self) -> int:
        """How many sums each element is split into, so that few columns wait less."""
        return max(1, -(-LATENCY // self.columns))


def most_columns(width: int) -> int:
    """With more than these, vectors of columns have few zeros."""
    return 3 * width // 4


def pack_few(b: Array, text: FewText) -> Array:
    """B [k, columns] as [vectors of k][columns][lanes], missing k zero."""
    k, columns = b.shape
    padded = np.zeros((-(-k // text.width) * text.width, columns), b.dtype)
    padded[:k] = b
    return aligned(padded.reshape(-1, text.width, columns).transpose(0, 2, 1))


def few_text(text: FewText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    module = Module()
    f = module.function(name)
    target, matrix, packed, bias = (f.operand(i) for i in range(4))
    rows, k = f.word(4), f.word(5)
    mask = f.lane_mask(text.columns, text.width)
    low, high = f.share(rows)
    with f.loop(high, start=low) as row:
        place = f.at(matrix, f.mul(row.index, f.mul(k, text.bytes)))
        value = gathered(f, _sums(f, text, place, packed, k), text.width, text.element)
        if text.scaled:
            alpha = f.splat(f.load(text.element, f.at("%desc", 8 * 6), 8), text.element, text.width)
            value = f.value(f"fmul {text.kind} {value}, {alpha}")
        if text.bias:
            value = f.value(f"fadd {text.kind} {value}, {f.load(text.kind, bias, text.bytes)}")
        value = text.activation.emit(f, value, text.width)
        there = f.at(target, f.mul(row.index, text.columns * text.bytes))
        f.masked_store(text.kind, value, there, mask, text.bytes)
    f.do("ret i32 0")
    return str(module)


def _sums(f: Function, text: FewText, row: str, packed: str, k: str) -> list[str]:
    """The products of a row with each column, not yet summed over the lanes."""
    block = text.columns * text.vector_bytes
    zero = (text.kind, "zeroinitializer")
    many = text.streams * text.width

    def add(sums: Sequence[str], value: str, weights: str) -> list[str]:
        return [
            f.call(
                "fmuladd",
                text.kind,
                value,
                f.load(text.kind, f.at(weights, j * text.vector_bytes), text.bytes),
                before,
            )
            for j, before in enumerate(sums)
        ]

    whole = f.value(f"and i64 {k}, {-text.width}")
    most = f.sub(whole, f.srem(whole, many))
    zeros = [zero] * (text.streams * text.columns)
    with f.loop(most, ("ptr", packed), *zeros, step=many) as at:
        weights, *sums = at.values
        made: list[str] = []
        for s in range(text.streams):
            place = f.at(row, f.mul(f.add(at.index, s * text.width), text.bytes))
            value = f.load(text.kind, place, text.bytes)
            part = sums[s * text.columns : (s + 1) * text.columns]
            made += add(part, value, f.at(weights, s * block))
        at.next(f.at(weights, text.streams * block), *made)
    weights, *sums = at.values
    first = sums[: text.columns]
    for s in range(1, text.streams):
        part = sums[s * text.columns : (s + 1) * text.columns]
        first = [f.value(f"fadd {text.kind} {a}, {b}") for a, b in zip(first, part, strict=True)]
    carried = [("ptr", weights), *((text.kind, v) for v in first)]
    if text.streams > 1:
        with f.loop(whole, *carried, start=most, step=text.width) as at:
            value = f.load(text.kind, f.at(row, f.mul(at.index, text.bytes)), text.bytes)
            at.next(f.at(at.values[0], block), *add(at.values[1:], value, at.values[0]))
        carried = [("ptr", at.values[0]), *((text.kind, v) for v in at.values[1:])]
    with f.loop(k, *carried, start=whole, step=text.width) as at:
        mask = f.lane_mask(f.sub(k, at.index), text.width)
        place = f.at(row, f.mul(at.index, text.bytes))
        value = f.masked_load(text.kind, place, mask, text.bytes)
        at.next(at.values[0], *add(at.values[1:], value, at.values[0]))
    return list(at.values[1:])


def gathered(f: Function, vectors: Sequence[str], width: int, element: str) -> str:
    """One vector with the sum over the lanes of each of up to `width` vectors; zeros behind.

    In the step of distance d, lane i of two vectors' joined sum belongs to the second one where i
    has the bit d: so at the end lane i holds the sum of vector i.
    """
    kind, zero = f"<{width} x {element}>", "zeroinitializer"
    left: list[str | None] = [*vectors, *[None] * (width - len(vectors))]
    distance = 1
    while distance < width:
        joined: list[str | None] = []
        for a, b in zip(left[::2], left[1::2], strict=True):
            if a is None:
                joined.append(None)
                continue
            own = [i + width if i & distance else i for i in range(width)]
            other = [(i ^ distance) + width if i & distance else i ^ distance for i in range(width)]
            parts = []
            for lanes in (own, other):
                places = ", ".join(f"i32 {i}" for i in lanes)
                parts.append(
                    f.value(
                        f"shufflevector {kind} {a}, {kind} {b or zero}, <{width} x i32> <{places}>"
                    )
                )
            joined.append(f.value(f"fadd {kind} {parts[0]}, {parts[1]}"))
        left = joined
        distance *= 2
    (found,) = left
    return found or zero

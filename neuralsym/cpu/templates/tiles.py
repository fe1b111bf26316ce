"""What the tiled kernels share: walking the tables of tiles and sharing them among workers.

A convolution is a set of output tiles (a few pixels of one batch entry) times a set of channel
blocks. Both stand in tables, so a kernel's text holds the shapes of tiles and nothing else: sizes,
strides and batch are data. One unit of work is one tile of one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from neuralsym.cpu.ir import Function


@contextmanager
def span(
    f: Function, low: str, high: str, outer: str, inner: str | int
) -> Iterator[tuple[str, str]]:
    """Of the flat range [low, high) over (outer, inner), the part at the given `outer` index."""
    start = f.mul(outer, inner)
    first = f.maximum(f.sub(low, start), 0)
    last = f.minimum(f.sub(high, start), inner)
    yield first, last


@contextmanager
def outer_loop(f: Function, low: str, high: str, inner: str) -> Iterator[tuple[str, str, str]]:
    """Loop over the outer index of a flat range [low, high); yields it and the inner range."""
    first = f.sdiv(low, inner)
    past = f.sdiv(f.add(high, f.sub(inner, 1)), inner)
    with f.loop(past, start=first) as loop, span(f, low, high, loop.index, inner) as (a, b):
        yield loop.index, a, b


def row_of(f: Function, table: str, index: str, columns: int, wanted: int) -> list[str]:
    """The first `wanted` int64 words of row `index` of a table."""
    row = f.at(table, f.mul(index, 8 * columns))
    return [f.load("i64", f.at(row, 8 * i), 8) for i in range(wanted)]


def tile_places(
    f: Function,
    base: str,
    tile: tuple[int, int, int],
    row_stride: str,
    column_stride: int,
    block_stride: str,
) -> list[str]:
    """Addresses of the vectors of a tile of (rows, columns, vectors), place after place."""
    rows, columns, vectors = tile
    bases = [base]
    for _ in range(1, vectors):
        bases.append(f.at(bases[-1], block_stride))
    starts = [bases]
    for _ in range(1, rows):
        starts.append([f.at(b, row_stride) for b in starts[-1]])
    return [
        f.at(starts[i][j], c * column_stride)
        for i in range(rows)
        for c in range(columns)
        for j in range(vectors)
    ]


def dispatch(f: Function, slot: str, cases: int, emit: Callable[[int], None]) -> None:
    """Run the code of case `slot`, one of range(cases)."""
    if cases == 1:
        emit(0)
        return
    labels = [f.new_label("case") for _ in range(cases)]
    after = f.new_label("chosen")
    table = " ".join(f"i64 {i}, label %{label}" for i, label in enumerate(labels[1:], 1))
    f.do(f"switch i64 {slot}, label %{labels[0]} [{table}]")
    for index, label in enumerate(labels):
        f.start(label)
        emit(index)
        f.do(f"br label %{after}")
    f.start(after)

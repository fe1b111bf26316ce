"""Matrix multiplication as one kernel of the kernel ABI.

    for each matrix of the batch, block of rows of A, panel of columns of B:
        for each chunk of k:
            pack the panel's chunk of B, unless it came packed
            for each tile of rows:  C[tile][panel] += A[tile][chunk] * B[chunk][panel]

One turn of the first three loops is one unit of work. A is read in place. Each chunk is summed
from zero and added to C, so the rounding error grows with CHUNK + K / CHUNK and not with K.
The descriptor is described in `matmul_form`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.matmul_form import MatmulText, MatmulWord
from neuralsym.cpu.templates.matmul_tile import (
    FIRST,
    LAST,
    SHARERS,
    TILE_PARAMETERS,
    emit_matmul_tile,
)
from neuralsym.cpu.templates.reorder import transpose
from neuralsym.cpu.templates.tiles import dispatch


def matmul_text(text: MatmulText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`, a whole (batched) matrix multiplication."""
    module = Module()
    kernel = module.function(name)
    for height in text.heights:
        emit_matmul_tile(module, text, height, f"tile_{height}")
    if text.b == "rows":
        _pack_rows(module, text)
    elif text.b == "columns":
        _pack_columns(module, text)
    splits = best_heights(text.heights, text.vectors)
    numbers = ", ".join(f"i64 {text.heights.index(h)}" for h in splits)
    module.globals.append(f"@next = internal constant [{len(splits)} x i64] [{numbers}]")
    sizes = ", ".join(f"i64 {h}" for h in text.heights)
    module.globals.append(f"@height = internal constant [{len(text.heights)} x i64] [{sizes}]")
    _Walker(kernel, text, {w: kernel.word(w) for w in MatmulWord}, len(splits) - 1).walk()
    kernel.do("ret i32 0")
    return str(module)


def best_heights(heights: Sequence[int], vectors: int) -> list[int]:
    """For each count of rows left, up to twice the tallest, the height of the best next tile.

    A tile costs its products at two a cycle, at least four cycles, and one for its loads.
    """
    tallest = max(heights)
    cost, choice = [0.0], [min(heights)]
    for left in range(1, 2 * tallest + 1):
        options = [
            (cost[left - h] + max(h * vectors / 2, (h + vectors) / 2, 4.0) + 1.0, -h)
            for h in heights
            if h <= left
        ]
        # Counts that no heights add up to do not occur: `plan_matmul` sees to it.
        least, height = min(options, default=(math.inf, -min(heights)))
        cost.append(least)
        choice.append(-height)
    return choice


@dataclass(frozen=True)
class _Walker:
    f: Function
    text: MatmulText
    word: dict[MatmulWord, str]
    most: int

    def walk(self) -> None:
        f, word, text = self.f, self.word, self.text
        block_rows, m, n = word[MatmulWord.BLOCK_ROWS], word[MatmulWord.M], word[MatmulWord.N]
        blocks = f.sdiv(f.add(m, f.sub(block_rows, 1)), block_rows)
        panels = f.sdiv(f.add(n, text.panel - 1), text.panel)
        units = f.mul(blocks, panels)
        matrices = f.mul(word[MatmulWord.BATCH_0], word[MatmulWord.BATCH_1])
        low, high = f.share(f.mul(matrices, units))
        scratch = self._scratch()
        with f.loop(high, start=low) as each:
            matrix, unit = f.sdiv(each.index, units), f.srem(each.index, units)
            block, panel = f.sdiv(unit, panels), f.srem(unit, panels)
            outer = f.sdiv(matrix, word[MatmulWord.BATCH_1])
            inner = f.srem(matrix, word[MatmulWord.BATCH_1])
            a, b, c, residual = (
                f.at(f.at(f.operand(base), f.mul(outer, word[first])), f.mul(inner, word[second]))
                for base, first, second in (
                    (MatmulWord.A, MatmulWord.A_0, MatmulWord.A_1),
                    (MatmulWord.B, MatmulWord.B_0, MatmulWord.B_1),
                    (MatmulWord.C, MatmulWord.C_0, MatmulWord.C_1),
                    (MatmulWord.RESIDUAL, MatmulWord.RESIDUAL_0, MatmulWord.RESIDUAL_1),
                )
            )
            row = f.mul(block, block_rows)
            column = f.mul(panel, text.panel)
            along = f.mul(column, text.bytes)
            by_rows = text.a == "rows"
            a = f.at(a, f.mul(row, word[MatmulWord.A_STRIDE] if by_rows else text.bytes))
            c = f.at(f.at(c, f.mul(row, word[MatmulWord.C_STRIDE])), along)
            residual = f.at(f.at(residual, f.mul(row, word[MatmulWord.RESIDUAL_STRIDE])), along)
            bias = f.at(f.operand(MatmulWord.BIAS), along)
            rows = f.minimum(block_rows, f.sub(m, row))
            columns = f.sub(n, column)
            b_stride = word[MatmulWord.B_STRIDE]
            if text.b == "rows":
                b = f.at(b, along)
            else:
                b = f.at(b, f.mul(panel if text.b == "packed" else column, b_stride))
            self._unit(a, b, c, bias, residual, rows, columns, scratch)

    def _scratch(self) -> str:
        f = self.f
        worker = f.value("sext i32 %worker to i64")
        offset = f.mul(worker, self.word[MatmulWord.SCRATCH_BYTES])
        return f.at(f.operand(MatmulWord.SCRATCH), offset)

    def _unit(
        self,
        a: str,
        b: str,
        c: str,
        bias: str,
        residual: str,
        rows: str,
        columns: str,
        scratch: str,
    ) -> None:
        """All chunks of k of one block of rows and one panel."""
        f, text, word = self.f, self.text, self.word
        k, step = word[MatmulWord.K], word[MatmulWord.CHUNK]
        # An empty sum still has a bias, so there is always one chunk.
        chunks = f.maximum(f.sdiv(f.add(k, f.sub(step, 1)), step), 1)
        a_stride, b_stride = word[MatmulWord.A_STRIDE], word[MatmulWord.B_STRIDE]
        with f.loop(chunks) as chunk:
            start = f.mul(chunk.index, step)
            left = f.sub(k, start)
            count = f.minimum(step, left)
            is_first = f.value(f"zext i1 {f.compare('eq', start, 0)} to i64")
            is_last = f.value(f"zext i1 {f.compare('sle', left, step)} to i64")
            part = f.add(f.mul(is_first, FIRST), f.mul(is_last, LAST))
            a_here = f.at(a, f.mul(start, text.bytes if text.a == "rows" else a_stride))
            if text.b == "packed":
                b_here = f.at(b, f.mul(start, text.vectors * text.vector_bytes))
            else:
                at = f.at(b, f.mul(start, b_stride if text.b == "rows" else text.bytes))
                arguments = f"ptr {at}, ptr {scratch}, i64 {b_stride}, i64 {count}, i64 {columns}"
                f.do(f"call void @pack({arguments})")
                b_here = scratch
            self._tiles(a_here, b_here, c, bias, residual, rows, columns, count, part)

    def _tiles(
        self,
        a: str,
        b: str,
        c: str,
        bias: str,
        residual: str,
        rows: str,
        columns: str,
        count: str,
        part: str,
    ) -> None:
        """Walk the rows of a block in tiles of the heights that suit what is left."""
        f, text, word = self.f, self.text, self.word
        size = f.mul(count, text.vectors * text.vector_bytes)
        beyond, share = f.at(b, size), f.sdiv(size, SHARERS)
        with f.loop(rows) as tile:
            row = tile.index
            left = f.minimum(f.sub(rows, row), self.most)
            slot = f.load("i64", f.value(f"getelementptr i64, ptr @next, i64 {left}"), 8)
            tile.step = f.load("i64", f.value(f"getelementptr i64, ptr @height, i64 {slot}"), 8)
            by_rows = text.a == "rows"
            tallest = max(text.heights)
            turn = f.srem(f.sdiv(f.add(row, tallest - 1), tallest), SHARERS)
            values = (
                "%desc",
                f.at(a, f.mul(row, word[MatmulWord.A_STRIDE] if by_rows else text.bytes)),
                b,
                f.at(c, f.mul(row, word[MatmulWord.C_STRIDE])),
                bias,
                f.at(residual, f.mul(row, word[MatmulWord.RESIDUAL_STRIDE])),
                count,
                columns,
                part,
                f.at(beyond, f.mul(turn, share)),
            )
            pairs = zip(TILE_PARAMETERS, values, strict=True)
            arguments = ", ".join(f"{kind} {value}" for (_, kind), value in pairs)
            names = [f"tile_{h}" for h in text.heights]
            dispatch(f, slot, len(names), lambda i: f.do(f"call void @{names[i]}({arguments})"))


PACK_PARAMETERS = (
    ("from", "ptr"),
    ("to", "ptr"),
    ("stride", "i64"),
    ("count", "i64"),
    ("columns", "i64"),
)


def _pack_rows(module: Module, text: MatmulText) -> None:
    """void @pack: `count` rows of a panel side by side, missing columns zero."""
    f = module.function("pack", PACK_PARAMETERS, "void", True, "noinline")
    masks = [
        f.lane_mask(f.sub("%columns", j * text.width), text.width) for j in range(text.vectors)
    ]
    whole = f.compare("sge", "%columns", text.panel)

    def copy(masked: bool) -> list[str]:
        with f.loop("%count", ("ptr", "%from"), ("ptr", "%to")) as row:
            source, target = row.values
            for j in range(text.vectors):
                at, offset = f.at(source, j * text.vector_bytes), j * text.vector_bytes
                value = (
                    f.masked_load(text.kind, at, masks[j], text.bytes)
                    if masked
                    else f.load(text.kind, at, text.bytes)
                )
                f.store(text.kind, value, f.at(target, offset), text.bytes)
            row.next(f.at(source, "%stride"), f.at(target, text.vectors * text.vector_bytes))
        return []

    f.choose(whole, [], lambda: copy(False), lambda: copy(True))
    f.do("ret void")


def _pack_columns(module: Module, text: MatmulText) -> None:
    """void @pack: the same from a B whose columns are stored one after another, by transposing."""
    f = module.function("pack", PACK_PARAMETERS, "void", True, "noinline")
    width, row_bytes = text.width, text.vectors * text.vector_bytes
    square = f.value(f"alloca [{width} x {text.kind}], align 64")
    whole = f.value(f"and i64 %count, {-width}")
    whole = f.select(f.compare("sge", "%columns", text.panel), "i64", whole, 0)

    def columns(at: str, j: int) -> list[str]:
        first = f.at(f.at("%from", f.mul("%stride", j * width)), f.mul(at, text.bytes))
        starts = [first]
        for _ in range(1, width):
            starts.append(f.at(starts[-1], "%stride"))
        return starts

    with f.loop(whole, step=width) as at:
        for j in range(text.vectors):
            loaded = [f.load(text.kind, p, text.bytes) for p in columns(at.index, j)]
            target = f.at(f.at("%to", f.mul(at.index, row_bytes)), j * text.vector_bytes)
            for i, value in enumerate(transpose(f, loaded, width, text.element)):
                f.store(text.kind, value, f.at(target, i * row_bytes), text.bytes)
    with f.loop("%count", start=whole, step=width) as at:
        rows = f.minimum(f.sub("%count", at.index), width)
        for j in range(text.vectors):
            loaded = []
            for i, place in enumerate(columns(at.index, j)):
                there = f.compare("sgt", "%columns", j * width + i)
                mask = f.lane_mask(f.select(there, "i64", rows, 0), width)
                loaded.append(f.masked_load(text.kind, place, mask, text.bytes))
            for i, value in enumerate(transpose(f, loaded, width, text.element)):
                f.store(text.kind, value, f.at(square, i * text.vector_bytes), text.bytes)
            target = f.at(f.at("%to", f.mul(at.index, row_bytes)), j * text.vector_bytes)
            with f.loop(rows) as each:
                value = f.load(
                    text.kind, f.at(square, f.mul(each.index, text.vector_bytes)), text.bytes
                )
                f.store(text.kind, value, f.at(target, f.mul(each.index, row_bytes)), text.bytes)
    f.do("ret void")

"""The innermost function of a matrix multiplication: one tile of C, its sums kept in registers."""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.matmul_form import MatmulText, MatmulWord

TILE_PARAMETERS = (
    ("desc", "ptr"),
    ("a", "ptr"),
    ("b", "ptr"),
    ("c", "ptr"),
    ("bias", "ptr"),
    ("residual", "ptr"),
    ("count", "i64"),
    ("columns", "i64"),
    ("part", "i64"),
    ("ahead", "ptr"),
)
FIRST, LAST = 1, 2  # bits of `part`: whether these k are the first, the last
UNROLL = 4
LATENCY = 8  # sums that must be under way at once to keep two FMA units of four cycles busy
AHEAD = 2048  # few rows are as fast as B is read: so far before its use each line is asked for
FEW = 8  # rows; tiles of more ask for a part of the next chunk of B, which so many fetch together
SHARERS = 4
SHARED_BASE = 3  # rows of A that are reached from one pointer: p, p + stride, p + 2 * stride


def emit_matmul_tile(module: Module, text: MatmulText, height: int, name: str) -> None:
    """Add the function `name`: `height` rows of C by one panel, `count` values of k."""
    _Tile(text, height).emit(module, name)


@dataclass(frozen=True)
class _Tile:
    text: MatmulText
    height: int

    @property
    def sums(self) -> int:
        return self.height * self.text.vectors

    @property
    def streams(self) -> int:
        """How many sums each element is split into, so that few rows wait less."""
        return max(1, min(UNROLL, LATENCY // self.sums))

    def emit(self, module: Module, name: str) -> None:
        f = module.function(name, TILE_PARAMETERS, "void", True, "noinline")
        text = self.text
        square = f.value(f"alloca [{self.sums} x {text.kind}], align 64")
        stride = f.word(MatmulWord.C_STRIDE)
        places = [
            f.at(row, j * text.vector_bytes)
            for row in self._rows(f, "%c", stride)
            for j in range(text.vectors)
        ]
        sums = self._reduce(f)
        first = f.compare("ne", f.value(f"and i64 %part, {FIRST}"), 0)
        last = f.compare("ne", f.value(f"and i64 %part, {LAST}"), 0)
        whole = f.compare("sge", "%columns", text.panel)

        def full() -> list[str]:
            kinds = [text.kind] * self.sums
            joined = list(
                f.choose(first, kinds, lambda: sums, lambda: self._added(f, sums, places))
            )
            f.choose(
                last,
                [],
                lambda: self._finish(f, joined, places),
                lambda: self._store(f, joined, places),
            )
            return []

        f.choose(whole, [], full, lambda: self._cut(f, sums, square, stride, first, last))
        f.do("ret void")

    def _rows(self, f: Function, base: str, stride: str) -> list[str]:
        rows = [base]
        for _ in range(1, self.height):
            rows.append(f.at(rows[-1], stride))
        return rows

    # -- sums ------------------------------------------------------------------------------
    def _reduce(self, f: Function) -> list[str]:
        """The sums over k of all elements, `streams` of each joined pairwise."""
        text = self.text
        total = self.sums * self.streams
        stride = f.word(MatmulWord.A_STRIDE)
        bases = ["%a"]
        if text.a == "rows":
            jump = f.mul(stride, SHARED_BASE)
            for _ in range(SHARED_BASE, self.height, SHARED_BASE):
                bases.append(f.at(bases[-1], jump))
        start = [("ptr", p) for p in ["%b", "%ahead", *bases]]
        zeros = [(text.kind, "zeroinitializer")] * total
        whole = f.value(f"and i64 %count, {-UNROLL}")
        with f.loop(whole, *start, *zeros, step=UNROLL) as many:
            many.next(*self._steps(f, many.values, UNROLL))
        pointers, values = many.values[: len(start)], many.values[len(start) :]
        carried = [("ptr", p) for p in pointers] + [(text.kind, v) for v in values]
        with f.loop("%count", *carried, start=whole) as rest:
            rest.next(*self._steps(f, rest.values, 1))
        values = rest.values[len(start) :]
        streams = [list(values[i * self.sums : (i + 1) * self.sums]) for i in range(self.streams)]
        while len(streams) > 1:
            streams = [
                [f.value(f"fadd {text.kind} {x}, {y}") for x, y in zip(a, b, strict=True)]
                for a, b in zip(streams[::2], streams[1::2], strict=True)
            ]
        return streams[0]

    def _steps(self, f: Function, values: tuple[str, ...], steps: int) -> list[str]:
        """`steps` values of k: the pointers moved on, then the sums."""
        text = self.text
        # Read again in every turn, so that LLVM does not take it for a constant of the loop and
        # replace base + stride by a pointer for every row, of which there would be too many.
        stride = f.word(MatmulWord.A_STRIDE)
        bases_count = 1 if text.a == "columns" else -(-self.height // SHARED_BASE)
        b, ahead, *rest = values
        bases, sums = rest[:bases_count], rest[bases_count:]
        size = steps * text.vectors * text.vector_bytes
        fetched = max(size // SHARERS, 1) if text.b == "packed" and steps > 1 else 0
        for line in range(0, fetched if self.height > FEW else 0, 64):
            f.prefetch(f.at(ahead, line), 2)
        for u in range(steps):
            first = (u % self.streams) * self.sums
            loaded = [
                f.load(text.kind, f.at(b, (u * text.vectors + j) * text.vector_bytes), text.bytes)
                for j in range(text.vectors)
            ]
            if self.height == 1 or (self.height <= FEW and text.b == "packed"):
                for j in range(text.vectors):
                    offset = (u * text.vectors + j) * text.vector_bytes + AHEAD
                    f.prefetch(f.at(b, offset))
            for row in range(self.height):
                at = self._element(f, bases, row, u, stride)
                value = f.splat(f.load(text.element, at, text.bytes), text.element, text.width)
                for j, weight in enumerate(loaded):
                    index = first + row * text.vectors + j
                    sums[index] = f.call("fmuladd", text.kind, value, weight, sums[index])
            if text.a == "columns":
                bases = [f.at(bases[0], stride)]
        if text.a == "rows":
            bases = [f.at(p, steps * text.bytes) for p in bases]
        return [f.at(b, size), f.at(ahead, fetched), *bases, *sums]

    def _element(self, f: Function, bases: list[str], row: int, u: int, stride: str) -> str:
        """The address of A at a row of the tile and the u-th k from here."""
        text = self.text
        if text.a == "columns":
            return f.at(bases[0], row * text.bytes)
        group, inside = divmod(row, SHARED_BASE)
        base = bases[group]
        if inside:
            base = f.at(base, stride if inside == 1 else f.mul(stride, inside))
        return f.at(base, u * text.bytes)

    # -- results ---------------------------------------------------------------------------
    def _added(self, f: Function, sums: list[str], places: list[str]) -> list[str]:
        """The sums plus the partial sums that stand in C."""
        kind = self.text.kind
        return [
            f.value(f"fadd {kind} {v}, {f.load(kind, p, self.text.bytes)}")
            for v, p in zip(sums, places, strict=True)
        ]

    def _store(self, f: Function, values: list[str], places: list[str]) -> list[str]:
        for value, place in zip(values, places, strict=True):
            f.store(self.text.kind, value, place, self.text.bytes)
        return []

    def _finish(self, f: Function, sums: list[str], places: list[str]) -> list[str]:
        text = self.text
        residuals: list[str | None] = [None] * self.sums
        if text.residual:
            stride = f.word(MatmulWord.RESIDUAL_STRIDE)
            residuals = [
                f.load(text.kind, f.at(row, j * text.vector_bytes), text.bytes)
                for row in self._rows(f, "%residual", stride)
                for j in range(text.vectors)
            ]
        biases = self._biases(f)
        values = [
            self._result(f, v, biases[i % text.vectors], r)
            for i, (v, r) in enumerate(zip(sums, residuals, strict=True))
        ]
        if text.activation.costly:
            self._store(f, values, places)
            stride = f.word(MatmulWord.C_STRIDE)
            with f.loop(self.height) as row:
                at = f.at("%c", f.mul(row.index, stride))
                for j in range(text.vectors):
                    place = f.at(at, j * text.vector_bytes)
                    value = text.activation.emit(
                        f, f.load(text.kind, place, text.bytes), text.width
                    )
                    f.store(text.kind, value, place, text.bytes)
            return []
        return self._store(f, [text.activation.emit(f, v, text.width) for v in values], places)

    def _biases(self, f: Function) -> list[str | None]:
        text = self.text
        if not text.bias:
            return [None] * text.vectors
        places = [f.at("%bias", j * text.vector_bytes) for j in range(text.vectors)]
        return [f.load(text.kind, p, text.bytes) for p in places]

    def _result(self, f: Function, value: str, bias: str | None, residual: str | None) -> str:
        """alpha * value + bias + beta * residual, before the activation."""
        kind = self.text.kind
        if self.text.scaled:
            value = f.value(f"fmul {kind} {value}, {self._number(f, MatmulWord.ALPHA)}")
        if bias is not None:
            value = f.value(f"fadd {kind} {value}, {bias}")
        if residual is not None and self.text.scaled:
            beta = self._number(f, MatmulWord.BETA)
            return f.call("fmuladd", kind, residual, beta, value)
        return value if residual is None else f.value(f"fadd {kind} {value}, {residual}")

    def _number(self, f: Function, word: MatmulWord) -> str:
        text = self.text
        scalar = f.load(text.element, f.at("%desc", 8 * word), 8)
        return f.splat(scalar, text.element, text.width)

    def _cut(
        self, f: Function, sums: list[str], square: str, stride: str, first: str, last: str
    ) -> list[str]:
        """The last columns, fewer than a panel: row by row through memory, with masks."""
        text = self.text
        for i, value in enumerate(sums):
            f.store(text.kind, value, f.at(square, i * text.vector_bytes), text.bytes)
        residual_stride = f.word(MatmulWord.RESIDUAL_STRIDE)
        earlier = f.value(f"xor i1 {first}, true")
        biases = self._biases(f)
        with f.loop(self.height) as row:
            c = f.at("%c", f.mul(row.index, stride))
            r = f.at("%residual", f.mul(row.index, residual_stride))
            kept = f.at(square, f.mul(row.index, text.vectors * text.vector_bytes))
            for j in range(text.vectors):
                mask = f.lane_mask(f.sub("%columns", j * text.width), text.width)
                offset = j * text.vector_bytes
                sum_ = f.load(text.kind, f.at(kept, offset), text.bytes)
                before = f.value(
                    f"and <{text.width} x i1> {mask}, {f.splat(earlier, 'i1', text.width)}"
                )
                part = f.masked_load(text.kind, f.at(c, offset), before, text.bytes)
                value = f.value(f"fadd {text.kind} {sum_}, {part}")

                def ended(
                    value: str = value, mask: str = mask, offset: int = offset, j: int = j
                ) -> list[str]:
                    residual = (
                        f.masked_load(text.kind, f.at(r, offset), mask, text.bytes)
                        if text.residual
                        else None
                    )
                    result = self._result(f, value, biases[j], residual)
                    return [text.activation.emit(f, result, text.width)]

                def partial(value: str = value) -> list[str]:
                    return [value]

                (value,) = f.choose(last, [text.kind], ended, partial)
                f.masked_store(text.kind, value, f.at(c, offset), mask, text.bytes)
        return []

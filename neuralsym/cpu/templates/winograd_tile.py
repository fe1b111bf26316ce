"""The three inner functions of a Winograd convolution: tile in, products of a panel, tile out."""

from __future__ import annotations

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.winograd_form import WinogradText, WinogradWord

INPUT_PARAMETERS = (
    ("desc", "ptr"),
    ("source", "ptr"),
    ("target", "ptr"),
    ("spare", "ptr"),
    ("rows", "i64"),
    ("columns", "i64"),
)
PRODUCT_PARAMETERS = (
    ("inputs", "ptr"),
    ("weights", "ptr"),
    ("products", "ptr"),
    ("ahead", "ptr"),
    ("blocks", "i64"),
)
OUTPUT_PARAMETERS = (
    ("desc", "ptr"),
    ("products", "ptr"),
    ("bias", "ptr"),
    ("output", "ptr"),
    ("residual", "ptr"),
    ("spare", "ptr"),
    ("vectors", "i64"),
    ("lanes", "i64"),
    ("rows", "i64"),
    ("columns", "i64"),
)


def emit_input(module: Module, text: WinogradText, name: str, edge: bool) -> None:
    """B^T d B of one tile and all its channels; past `rows` and `columns` an `edge` reads zeros."""
    f = module.function(name, INPUT_PARAMETERS, "void", True, "noinline")
    height, length = text.rows.size, text.columns.size
    row = f.word(WinogradWord.INPUT_ROW)
    place = f.word(WinogradWord.INPUT_PLACE)
    block = f.word(WinogradWord.INPUT_BLOCK)
    step = text.tiles[0] * text.vector_bytes
    inside = _inside(f, height, length) if edge else []
    carried = (("ptr", "%source"), ("ptr", "%target"))
    with f.loop(f.word(WinogradWord.INPUT_BLOCKS), *carried) as loop:
        source, target = loop.values
        bases = [source]
        for _ in range(1, height):
            bases.append(f.at(bases[-1], row))
        columns = []
        for c in range(length):
            addresses = [f.at(base, c * text.vector_bytes) for base in bases]
            if edge:
                addresses = [
                    f.select(inside[r][c], "ptr", address, "%spare")
                    for r, address in enumerate(addresses)
                ]
            loaded = [f.load(text.kind, address) for address in addresses]
            columns.append(text.rows.transform(f, loaded, text.width))
        at = target
        for r in range(height):
            line = [column[r] for column in columns]
            for value in text.columns.transform(f, line, text.width):
                f.store(text.kind, value, at)
                at = f.at(at, place)
        loop.next(f.at(source, block), f.at(target, step))
    f.do("ret void")


def emit_product(module: Module, text: WinogradText, tiles: int, vectors: int, name: str) -> None:
    """Sums over all input channels of one place of `tiles` tiles and `vectors` output vectors."""
    f = module.function(name, PRODUCT_PARAMETERS, "void", True, "noinline")
    width, size, kind = text.width, text.vector_bytes, text.kind
    chunk = width * vectors * size
    lines = text.fetched_lines(vectors)
    carried = [("ptr", "%inputs"), ("ptr", "%weights"), ("ptr", "%ahead")]
    zeros = [(kind, "zeroinitializer")] * (tiles * vectors)
    with f.loop("%blocks", *carried, *zeros) as loop:
        inputs, weights, ahead, *sums = loop.values
        for u in range(width):
            loaded = [f.load(kind, f.at(weights, (u * vectors + j) * size)) for j in range(vectors)]
            after: list[str] = []
            for tile in range(tiles):
                value = f.load("float", f.at(inputs, tile * size + 4 * u))
                value = f.splat(value, "float", width)
                for weight in loaded:
                    after.append(f.call("fmuladd", kind, value, weight, sums[len(after)]))
            sums = after
            for line in range(u * lines // width, (u + 1) * lines // width):
                f.prefetch(f.at(ahead, 64 * line), 2)
        loop.next(
            f.at(inputs, text.tiles[0] * size), f.at(weights, chunk), f.at(ahead, chunk), *sums
        )
    for i, value in enumerate(loop.values[3:]):
        f.store(kind, value, f.at("%products", i * size))
    f.do("ret void")


def emit_output(module: Module, text: WinogradText, name: str, edge: bool) -> None:
    """A^T m A of one tile, with its epilogue; an `edge` stores only `rows` and `columns`."""
    f = module.function(name, OUTPUT_PARAMETERS, "void", True, "noinline")
    size = text.vector_bytes
    inside = _inside(f, text.rows.outputs, text.columns.outputs) if edge else []
    place = f.word(WinogradWord.PRODUCT_PLACE)
    block = f.word(WinogradWord.OUTPUT_BLOCK)
    beside = f.word(WinogradWord.RESIDUAL_BLOCK) if text.residual else "0"
    carried = (
        *(("ptr", "%products"), ("ptr", "%bias"), ("ptr", "%output"), ("ptr", "%residual")),
        ("i64", "%lanes"),
    )
    with f.loop("%vectors", *carried) as loop:
        products, bias, output, residual, lanes = loop.values
        values = _gathered(f, text, products, place)
        offset = f.load(text.kind, bias)
        places = _pixels(f, text, output, WinogradWord.OUTPUT_ROW)
        values = [[f.value(f"fadd {text.kind} {v}, {offset}") for v in line] for line in values]
        if text.residual:
            others = _pixels(f, text, residual, WinogradWord.RESIDUAL_ROW)
            if edge:
                others = _chosen(f, inside, others, bias)
            values = _added(f, text, values, others)
        if edge:
            places = _chosen(f, inside, places, f.at("%spare", size))
        _finish(f, text, values, places, output, lanes, edge)
        loop.next(
            f.at(products, size),
            f.at(bias, size),
            f.at(output, block),
            f.at(residual, beside),
            f.sub(lanes, text.width),
        )
    f.do("ret void")


def _inside(f: Function, height: int, length: int) -> list[list[str]]:
    """For each pixel whether it is one of the `rows` and `columns` that there are."""
    rows = [f.compare("slt", r, "%rows") for r in range(height)]
    columns = [f.compare("slt", c, "%columns") for c in range(length)]
    return [[f.value(f"and i1 {r}, {c}") for c in columns] for r in rows]


def _gathered(f: Function, text: WinogradText, products: str, place: str) -> list[list[str]]:
    """The sums of all pixels of a tile, [row][column]."""
    lines, at = [], products
    for _ in range(text.rows.size):
        line = []
        for _ in range(text.columns.size):
            line.append(f.load(text.kind, at))
            at = f.at(at, place)
        lines.append(text.columns.gather(f, line, text.width))
    columns = [
        text.rows.gather(f, [line[c] for line in lines], text.width)
        for c in range(text.columns.outputs)
    ]
    return [[column[r] for column in columns] for r in range(text.rows.outputs)]


def _pixels(f: Function, text: WinogradText, base: str, row: WinogradWord) -> list[list[str]]:
    """The addresses of a tile's pixels."""
    bases = [base]
    stride = f.word(row) if text.rows.outputs > 1 else "0"
    for _ in range(1, text.rows.outputs):
        bases.append(f.at(bases[-1], stride))
    return [[f.at(b, c * text.vector_bytes) for c in range(text.columns.outputs)] for b in bases]


def _chosen(
    f: Function, inside: list[list[str]], addresses: list[list[str]], other: str
) -> list[list[str]]:
    """The addresses inside, `other` for the rest."""
    return [
        [f.select(i, "ptr", a, other) for i, a in zip(flags, line, strict=True)]
        for flags, line in zip(inside, addresses, strict=True)
    ]


def _added(
    f: Function, text: WinogradText, values: list[list[str]], addresses: list[list[str]]
) -> list[list[str]]:
    """The values plus what stands at the addresses."""
    return [
        [
            f.value(f"fadd {text.kind} {v}, {f.load(text.kind, a)}")
            for v, a in zip(line, places, strict=True)
        ]
        for line, places in zip(values, addresses, strict=True)
    ]


def _finish(
    f: Function,
    text: WinogradText,
    values: list[list[str]],
    places: list[list[str]],
    output: str,
    lanes: str,
    edge: bool,
) -> None:
    """Apply the activation, clear the lanes past the channels, store."""
    mask = f.lane_mask(lanes, text.width) if text.ragged else ""

    def put(value: str, address: str) -> None:
        if mask:
            zero = f"{text.kind} zeroinitializer"
            value = f.value(f"select <{text.width} x i1> {mask}, {text.kind} {value}, {zero}")
        f.store(text.kind, value, address)

    pairs = [p for v, a in zip(values, places, strict=True) for p in zip(v, a, strict=True)]
    if not text.activation.costly:
        for value, address in pairs:
            put(text.activation.emit(f, value, text.width), address)
        return
    for value, address in pairs:
        f.store(text.kind, value, address)
    stride = f.word(WinogradWord.OUTPUT_ROW)
    rows, columns = (
        ("%rows", "%columns") if edge else (str(text.rows.outputs), str(text.columns.outputs))
    )
    with f.loop(rows) as row, f.loop(columns) as column:
        offset = f.add(f.mul(row.index, stride), f.mul(column.index, text.vector_bytes))
        address = f.at(output, offset)
        put(text.activation.emit(f, f.load(text.kind, address), text.width), address)

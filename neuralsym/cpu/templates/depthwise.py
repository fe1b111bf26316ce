"""Convolution whose groups lie within a vector: depthwise, or a few channels in and out each.

    for each channel block, batch entry, tile of pixels:
        sums[pixel] = bias
        for each row of taps, place that its pixels read, channel j of a group:
            value = spread_j(input[place])
            for each pixel and tap of that place:
                sums[pixel] += value * weights[tap][j]

spread_j puts channel j of its own group into every lane; for depthwise it is the vector itself.
Walk, tables and descriptor are those of the dense convolution (`conv`, `conv_form`), with one
input block for each output vector. Weights are packed [channel block][tap][j][lane].
"""

from __future__ import annotations

import numpy as np

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.conv_form import ConvText, ConvWord
from neuralsym.cpu.templates.conv_plan import ConvPlan, ConvShape, extent, tile_list
from neuralsym.cpu.templates.epilogue import Activation, identity
from neuralsym.cpu.templates.layout import Array, Plane, aligned
from neuralsym.cpu.templates.output_tile import TILE_PARAMETERS, OutputTile

MOST_PIXELS = 14


def emit_depthwise_tile(module: Module, text: ConvText, shape: tuple[int, int], name: str) -> None:
    """Add the function `name`: one tile of `shape` pixels of one channel block."""
    out = OutputTile(text, *shape, 1)
    f = module.function(name, TILE_PARAMETERS, "void", True, "noinline")
    outputs, residuals = out.outputs(f), out.residuals(f)
    sums = _reduce(f, out, out.biases(f) * out.pixels)
    out.finish(f, sums, outputs, residuals)
    f.do("ret void")


def _reduce(f: Function, out: OutputTile, sums: list[str]) -> list[str]:
    """sums + input * weights over all taps, those of a row together."""
    taps, count = f.operand(ConvWord.TAPS), f.word(ConvWord.TAP_COUNT)
    row_stride = f.word(ConvWord.INPUT_ROW) if out.rows > 1 else "0"
    text = out.text
    each, run = text.each, text.run
    # By the place that is read: the pixels that need it, and by which tap.
    needed: dict[int, list[tuple[int, int]]] = {}
    for column in range(out.columns):
        for tap in range(run):
            needed.setdefault(column * text.step + tap * text.apart, []).append((column, tap))
    with f.loop(count, *((out.kind, s) for s in sums)) as loop:
        offset = f.load("i64", f.value(f"getelementptr i64, ptr {taps}, i64 {loop.index}"), 8)
        first = f.at("%weights", f.mul(loop.index, each * out.vector_bytes))
        weights = [f.load(out.kind, f.at(first, j * out.vector_bytes)) for j in range(each * run)]
        bases = [f.at("%input", offset)]
        for _ in range(1, out.rows):
            bases.append(f.at(bases[-1], row_stride))
        after = list(loop.values)
        for row, base in enumerate(bases):
            for place, users in sorted(needed.items()):
                loaded = f.load(out.kind, f.at(base, place))
                for j in range(each):
                    spread = _spread(f, loaded, j, each, text.width)
                    for column, tap in users:
                        at = row * out.columns + column
                        weight = weights[tap * each + j]
                        after[at] = f.call("fmuladd", out.kind, spread, weight, after[at])
        loop.step = run
        loop.next(*after)
    return list(loop.values)


def _spread(f: Function, value: str, j: int, each: int, width: int) -> str:
    """Channel j of its group in every lane."""
    if each == 1:
        return value
    kind = f"<{width} x float>"
    lanes = ", ".join(f"i32 {lane // each * each + j}" for lane in range(width))
    return f.value(f"shufflevector {kind} {value}, {kind} poison, <{width} x i32> <{lanes}>")


def is_depthwise(shape: ConvShape) -> bool:
    """Whether each channel is convolved with one filter of its own."""
    return shape.groups == shape.channels == shape.outputs


def is_within_vectors(shape: ConvShape, width: int) -> bool:
    """Whether groups have as many inputs as outputs and some of them fill a vector."""
    each = shape.channels // shape.groups
    return shape.channels == shape.outputs and each < width and width % max(each, 1) == 0


def plan_depthwise(
    shape: ConvShape,
    source: Plane,
    target: Plane,
    residual: Plane | None = None,
    *,
    width: int,
    registers: int,
    activation: Activation | None = None,
) -> ConvPlan:
    """Choose tiles for groups that lie within vectors, over these blocked buffers."""
    rows, length = extent(shape, source, target, residual)
    rows = min(rows, target.size[1])  # a tile never crosses from one depth to the next
    each = shape.channels // shape.groups
    # Half the registers hide the sums' latency; beside them stay a row of taps and what is read.
    pixels = min(registers - 2 - shape.kernel[2] * each, MOST_PIXELS)
    run = shape.kernel[2] if 2 * pixels >= registers // 2 else 1
    tiles = tile_list(rows, length, pixels if run > 1 else min(registers - 2, MOST_PIXELS))
    blocks = -(-shape.channels // width)
    text = ConvText(
        width=width,
        tiles=tuple(sorted(set(tiles), reverse=True)),
        vectors=(1,),
        step=shape.strides[2] * source.pixel,
        unroll=1,
        order="weights",
        residual=residual is not None,
        ragged=shape.channels % width != 0,
        activation=activation or identity(),
        depthwise=True,
        each=each,
        run=run,
        apart=shape.dilations[2] * source.pixel,
    )
    return ConvPlan(shape, text, False, tuple((i, 1, i) for i in range(blocks)), 1)


def pack_depthwise_weights(weights: Array, plan: ConvPlan) -> Array:
    """Weights [channels][each][d][h][w] as float32 [channel block][tap][each][lane]."""
    width, shape, each = plan.text.width, plan.shape, plan.text.each
    padded = np.zeros((len(plan.blocks) * width, each, shape.taps), np.float32)
    padded[: shape.channels] = np.asarray(weights).reshape(shape.channels, each, shape.taps)
    return aligned(padded.reshape(-1, width, each, shape.taps).transpose(0, 3, 2, 1))

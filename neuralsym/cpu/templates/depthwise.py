"""Convolution whose groups lie within a vector: depthwise, or a few channels in and out each.

    for each channel block, batch entry, tile of pixels:
        sums[pixel] = bias
        for each tap, channel j of a group:
            sums[pixel] += spread_j(input[pixel * step + tap]) * weights[tap][j]

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


def emit_depthwise_tile(module: Module, text: ConvText, shape: tuple[int, int], name: str) -> None:
    """Add the function `name`: one tile of `shape` pixels of one channel block."""
    out = OutputTile(text, *shape, 1)
    f = module.function(name, TILE_PARAMETERS, "void", True, "noinline")
    outputs, residuals = out.outputs(f), out.residuals(f)
    sums = _reduce(f, out, out.biases(f) * out.pixels)
    out.finish(f, sums, outputs, residuals)
    f.do("ret void")


def _reduce(f: Function, out: OutputTile, sums: list[str]) -> list[str]:
    """sums + input * weights over all taps."""
    taps, count = f.operand(ConvWord.TAPS), f.word(ConvWord.TAP_COUNT)
    row_stride = f.word(ConvWord.INPUT_ROW) if out.rows > 1 else "0"
    each, width = out.text.each, out.text.width
    with f.loop(count, *((out.kind, s) for s in sums)) as loop:
        offset = f.load("i64", f.value(f"getelementptr i64, ptr {taps}, i64 {loop.index}"), 8)
        first = f.at("%weights", f.mul(loop.index, each * out.vector_bytes))
        weights = [f.load(out.kind, f.at(first, j * out.vector_bytes)) for j in range(each)]
        bases = [f.at("%input", offset)]
        for _ in range(1, out.rows):
            bases.append(f.at(bases[-1], row_stride))
        places = [f.at(b, c * out.text.step) for b in bases for c in range(out.columns)]
        after = []
        for place, value in zip(places, loop.values, strict=True):
            loaded = f.load(out.kind, place)
            for j, weight in enumerate(weights):
                spread = _spread(f, loaded, j, each, width)
                value = f.call("fmuladd", out.kind, spread, weight, value)
            after.append(value)
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
    # Inputs are read by the products themselves; half the registers hide the sums' latency.
    tiles = tile_list(rows, length, min(registers - 2, 14))
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
        each=shape.channels // shape.groups,
    )
    return ConvPlan(shape, text, False, tuple((i, 1, i) for i in range(blocks)), 1)


def pack_depthwise_weights(weights: Array, plan: ConvPlan) -> Array:
    """Weights [channels][each][d][h][w] as float32 [channel block][tap][each][lane]."""
    width, shape, each = plan.text.width, plan.shape, plan.text.each
    padded = np.zeros((len(plan.blocks) * width, each, shape.taps), np.float32)
    padded[: shape.channels] = np.asarray(weights).reshape(shape.channels, each, shape.taps)
    return aligned(padded.reshape(-1, width, each, shape.taps).transpose(0, 3, 2, 1))

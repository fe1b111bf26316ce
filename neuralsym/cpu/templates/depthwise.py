"""Depthwise convolution over blocks of channels: every channel has a filter of its own.

    for each channel block, batch entry, tile of pixels:
        sums[pixel] = bias;  for each tap:  sums[pixel] += input[pixel * step + tap] * weights[tap]

Walk, tables and descriptor are those of the dense convolution (`conv`, `conv_form`), with one
input block for each output vector. Weights are packed [channel block][tap][lane].
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
    with f.loop(count, *((out.kind, s) for s in sums)) as loop:
        offset = f.load("i64", f.value(f"getelementptr i64, ptr {taps}, i64 {loop.index}"), 8)
        weight = f.load(out.kind, f.at("%weights", f.mul(loop.index, out.vector_bytes)))
        bases = [f.at("%input", offset)]
        for _ in range(1, out.rows):
            bases.append(f.at(bases[-1], row_stride))
        places = [f.at(b, c * out.text.step) for b in bases for c in range(out.columns)]
        loop.next(
            *(
                f.call("fmuladd", out.kind, f.load(out.kind, place), weight, value)
                for place, value in zip(places, loop.values, strict=True)
            )
        )
    return list(loop.values)


def is_depthwise(shape: ConvShape) -> bool:
    """Whether each channel is convolved with one filter of its own."""
    return shape.groups == shape.channels == shape.outputs


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
    """Choose tiles for a depthwise convolution over these blocked buffers."""
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
    )
    return ConvPlan(shape, text, False, tuple((i, 1, i) for i in range(blocks)), 1)


def pack_depthwise_weights(weights: Array, plan: ConvPlan) -> Array:
    """Weights [channels][1][d][h][w] as float32 [channel block][tap][lane], padded with zeros."""
    width, shape = plan.text.width, plan.shape
    padded = np.zeros((len(plan.blocks) * width, shape.taps), np.float32)
    padded[: shape.channels] = np.asarray(weights).reshape(shape.channels, shape.taps)
    return aligned(padded.reshape(-1, width, shape.taps).transpose(0, 2, 1))

"""Weights and biases that are no constants: brought into the templates' order at every run."""

from __future__ import annotations

from functools import cache
from typing import Any

from neuralsym.cpu.emit import Code, array_kernel
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step
from neuralsym.cpu.templates.conv_plan import ConvPlan, ConvShape, block_table


def need_room(step: Step, shape: ConvShape, width: int, unroll: int, within: bool) -> None:
    """Ask for the memory that `pack_at_run_time` and `padded_bias` write to.

    within: groups lie within vectors, and `unroll` is the channels of one.
    """
    vectors = shape.groups * -(-shape.outputs // shape.groups // width)
    if within:
        vectors = -(-shape.outputs // width)
    each = -(-(shape.channels // shape.groups) // unroll) * unroll
    step.need_scratch("weights", lambda sizes: 4 * vectors * width * each * shape.taps)
    step.need_scratch("bias", lambda sizes: 4 * vectors * width)


def pack_at_run_time(step: Step, w: Buffer, plan: ConvPlan, sizes: Sizes) -> tuple[Buffer, Row]:
    """Where the packed weights will be, and the row that packs them."""
    buffer = step.scratch["weights"].buffer
    outputs, each, *kernel = sizes.shape(w)
    taps = 1
    for k in kernel:
        taps *= k
    table = block_table(plan)
    room = sum(int(size) // 4 * plan.input_blocks for size in table[:, 3])
    words = [
        *(Operand(w), outputs, each, taps),
        *(table.reshape(-1), len(table), table.shape[1]),
        *(Operand(buffer), room),
        *(plan.input_blocks, plan.text.each * plan.text.unroll, plan.text.width),
    ]
    return buffer, Row(_pack_code(), words)


def padded_bias(step: Step, b: Buffer, plan: ConvPlan, sizes: Sizes) -> tuple[Buffer, Row]:
    """Where the bias, padded to whole vectors, will be, and the row that writes it."""
    buffer = step.scratch["bias"].buffer
    (count,) = sizes.shape(b)
    room = -(-count // plan.text.width) * plan.text.width
    return buffer, Row(_bias_code(), [Operand(b), count, Operand(buffer), room], serial=True)


@cache
def _pack_code() -> Code:
    operands = [("float32", 3, "in"), ("int64", 2, "in"), ("float32", 1, "out")]
    return array_kernel(_pack, operands, ["int64"] * 3, "pack_weights")


@cache
def _bias_code() -> Code:
    return array_kernel(_pad, [("float32", 1, "in"), ("float32", 1, "out")], (), "pad_bias")


def _pack(
    w: Any, blocks: Any, out: Any, inputs: int, unroll: int, width: int, worker: int, workers: int
) -> None:
    outputs, each, taps = w.shape
    units = blocks.shape[0] * inputs
    for unit in range(units * worker // workers, units * (worker + 1) // workers):
        b, i = unit // inputs, unit % inputs
        first, count = blocks[b, 2] * width, blocks[b, 3] // (taps * unroll * 4)
        at = blocks[b, 1] // 4 + i * taps * unroll * count
        for tap in range(taps):
            for u in range(unroll):
                c = i * unroll + u
                for lane in range(count):
                    inside = first + lane < outputs and c < each
                    out[at] = w[first + lane, c, tap] if inside else 0
                    at += 1


def _pad(b: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i] = b[i] if i < b.shape[0] else 0

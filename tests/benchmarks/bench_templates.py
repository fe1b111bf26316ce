"""Speed of the convolution kernels on layers of known networks, one thread, batch 1.

Run as a script, with part of a layer's name to choose: prints the rate of the best and the median
of several timings, the time, and what the plan chose.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "cpu"))
from run_text import compile_text, fill, plane_buffer

from neuralsym.cpu.templates.conv import conv_text
from neuralsym.cpu.templates.conv_plan import (
    ConvAddresses,
    ConvPlan,
    ConvShape,
    conv_tables,
    conv_words,
    pack_conv_bias,
    pack_conv_weights,
    plan_conv,
)
from neuralsym.cpu.templates.depthwise import (
    is_depthwise,
    pack_depthwise_weights,
    plan_depthwise,
)
from neuralsym.cpu.templates.epilogue import relu
from neuralsym.cpu.templates.layout import Plane


def square(channels, outputs, kernel, size, stride=1, pad=0, **more):
    """(shape, input size, options) of a square convolution."""
    shape = ConvShape(
        channels,
        outputs,
        (1, kernel, kernel),
        (1, stride, stride),
        before=(0, pad, pad),
        after=(0, pad, pad),
    )
    return shape, (1, size, size), more


def depthwise(channels, kernel, size, stride=1):
    edge = (0, kernel // 2, kernel // 2)
    shape = ConvShape(
        channels,
        channels,
        (1, kernel, kernel),
        (1, stride, stride),
        before=edge,
        after=edge,
        groups=channels,
    )
    return shape, (1, size, size), {}


def line(channels, size, rows, columns):
    pads = (0, rows // 2, columns // 2)
    shape = ConvShape(channels, channels, (1, rows, columns), before=pads, after=pads)
    return shape, (1, size, size), {}


LAYERS = {
    "resnet 3x3 64 56": square(64, 64, 3, 56, pad=1),
    "resnet 1x1 256-64 56": square(256, 64, 1, 56),
    "resnet 1x1 256-64 56 halo": square(256, 64, 1, 56, halo=1),
    "resnet 1x1 64-256 56 add": square(64, 256, 1, 56, residual=True),
    "resnet 3x3 128 28": square(128, 128, 3, 28, pad=1),
    "resnet 3x3 256 14": square(256, 256, 3, 14, pad=1),
    "resnet 3x3 512 7": square(512, 512, 3, 7, pad=1),
    "resnet 1x1 2048-512 7": square(2048, 512, 1, 7),
    "resnet 1x1 512-2048 7 add": square(512, 2048, 1, 7, residual=True),
    "resnet 1x1 1024-256 14": square(1024, 256, 1, 14),
    "resnet 1x1 256-1024 14 add": square(256, 1024, 1, 14, residual=True),
    "resnet 1x1 512-1024 28 /2": square(512, 1024, 1, 28, 2),
    "resnet stem 7x7 /2": square(3, 64, 7, 224, 2, 3, planar=True),
    "resnet stem 7x7 /2 halo": square(3, 64, 7, 224, 2, 3, planar=True, halo=1),
    "squeezenet 1.0 stem 7x7 /2": square(3, 96, 7, 224, 2, planar=True),
    "squeezenet 1.1 stem 3x3 /2": square(3, 64, 3, 224, 2, planar=True),
    "squeezenet 1x1 64-16 55": square(64, 16, 1, 55),
    "squeezenet 1x1 16-64 55": square(16, 64, 1, 55),
    "squeezenet 3x3 16-64 55": square(16, 64, 3, 55, pad=1),
    "squeezenet 3x3 48-192 27": square(48, 192, 3, 27, pad=1),
    "squeezenet 1x1 384-48 13": square(384, 48, 1, 13),
    "squeezenet 3x3 64-256 13": square(64, 256, 3, 13, pad=1),
    "squeezenet 1x1 512-1000 13": square(512, 1000, 1, 13),
    "inception 3x3 32-32 149": square(32, 32, 3, 149),
    "inception 3x3 64-96 35": square(64, 96, 3, 35, pad=1),
    "inception 5x5 48-64 35": square(48, 64, 5, 35, pad=2),
    "inception 1x7 192 17": line(192, 17, 1, 7),
    "inception 7x1 192 17": line(192, 17, 7, 1),
    "inception 1x3 384 8": line(384, 8, 1, 3),
    "mobilenet 3x3 32 112": depthwise(32, 3, 112),
    "mobilenet 3x3 96 112 /2": depthwise(96, 3, 112, 2),
    "mobilenet 3x3 384 14": depthwise(384, 3, 14),
    "mobilenet 3x3 960 7": depthwise(960, 3, 7),
    "efficientnet 5x5 240 28": depthwise(240, 5, 28),
}


def prepare(shape, size, width=16, registers=32, batch=1, residual=False, halo=0, planar=False):
    """(plan, descriptor, output, everything to be kept alive)."""
    rng = np.random.default_rng(0)
    before, after = shape.halo(size)
    edge = (0, halo, halo)
    source = Plane(shape.channels, size, 1 if planar else width, before, after)
    target = Plane(shape.outputs, shape.output(size), width, edge, edge)
    beside = target if residual else None
    options = {"width": width, "registers": registers, "activation": relu()}
    weights = rng.standard_normal((shape.outputs, shape.channels // shape.groups, *shape.kernel))
    if is_depthwise(shape):
        plan = plan_depthwise(shape, source, target, beside, **options)
        packed = pack_depthwise_weights(weights, plan)
    else:
        plan = plan_conv(shape, source, target, beside, **options)
        packed = pack_conv_weights(weights, plan)
    buffers = [plane_buffer(p, batch) for p in (source, target, target)]
    fill(buffers[0], source, rng.standard_normal((batch, shape.channels, *size)))
    bias = pack_conv_bias(None, plan)
    tables = conv_tables(plan, source, target, beside)
    addresses = ConvAddresses(
        buffers[0].ctypes.data + source.origin,
        packed.ctypes.data,
        bias.ctypes.data,
        buffers[1].ctypes.data + target.origin,
        tables.tiles.ctypes.data,
        tables.blocks.ctypes.data,
        tables.taps.ctypes.data,
        buffers[2].ctypes.data + target.origin,
    )
    words = conv_words(plan, addresses, batch, tables, source, target, beside)
    return plan, np.array(words, np.int64), target, (buffers, packed, bias, tables)


def measure(plan: ConvPlan, desc, repeats=9, batch=1, pixels=1):
    """(best seconds, median seconds, operations) of one call."""
    kernel = compile_text(conv_text(plan.text))
    shape = plan.shape
    work = 2 * batch * pixels * shape.outputs * shape.channels // shape.groups * shape.taps
    count = max(1, int(2e8 / work))
    kernel(None, desc.ctypes.data, 0, 1)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(count):
            kernel(None, desc.ctypes.data, 0, 1)
        times.append((time.perf_counter() - start) / count)
    return min(times), float(np.median(times)), work


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, (shape, size, options) in LAYERS.items():
        if wanted not in name:
            continue
        plan, desc, target, keep = prepare(shape, size, **options)
        best, median, work = measure(plan, desc, pixels=int(np.prod(target.size)))
        text = plan.text
        tiles = " ".join(f"{r}x{c}" for r, c in text.tiles)
        print(
            f"{name:28s} {work / best / 1e9:6.1f} {work / median / 1e9:6.1f} GFLOP/s"
            f" {best * 1e6:8.1f} us  {tiles} x {text.vectors} {text.order}"
            f" {plan.chunk}/{plan.input_blocks} fetch {text.prefetch}"
        )
        del keep


if __name__ == "__main__":
    main()

"""Whether a convolution is summed directly or by Winograd's filtering, and in which tiles.

The error of a result y of C input channels by Winograd's filtering stays under

    (C + 24) u (|A|^T ((|G| |g| |G|^T) * (|B^T| |d| |B|)) |A| + |y| + |bias|),   u = 2^-24,

since every transform is at most five roundings deep on each axis, the weights are rounded once,
and one sum has C terms. For even values what stands in the bracket is up to `amplification` times
the sum of |g| |d|: 7 for tiles of 2 x 2 outputs of 3 x 3 taps, 63 for 4 x 4, 45 for 2 x 2 of
5 x 5, 16 for 2 of 1 x 7. Tiles beyond `MOST_AMPLIFICATION` are not taken: 6 x 6 of 3 x 3 would
save a tenth of the products of 4 x 4 and stands at 510. Measured errors are near the direct sum's,
whose chains are as many times longer as there are taps: rectified normal inputs, 64 to 512
channels, largest error over largest result: direct 0.7e-6 to 1e-6, 2 x 2 0.2e-6, 4 x 4 0.7e-6 to
2e-6. An infinity or NaN in the input reaches all outputs of the tiles that it lies in.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from neuralsym.cpu.templates.conv_plan import ConvShape
from neuralsym.cpu.templates.winograd_axis import Axis

OUTPUTS = {(1, 1): (1,), (3, 1): (2, 4, 6), (5, 1): (2, 4), (7, 1): (2,), (3, 2): (2, 3, 4)}
"""Outputs of a tile, by taps and stride of its axis."""
MOST_AMPLIFICATION = 100.0
GAIN = 0.9
"""What part of the direct sum's time Winograd's may take at most."""


def candidates(shape: ConvShape) -> tuple[tuple[Axis, Axis], ...]:
    """The transforms (rows, columns) of bounded error that serve a filter."""
    first, second = zip(shape.kernel[1:], shape.strides[1:], strict=True)
    return _candidates(first, second)


@lru_cache(maxsize=256)
def _candidates(first: tuple[int, int], second: tuple[int, int]) -> tuple[tuple[Axis, Axis], ...]:
    """Those for filters of these (taps, stride)."""
    return tuple(
        (rows, columns)
        for rows in (Axis(m, *first) for m in OUTPUTS.get(first, ()))
        for columns in (Axis(m, *second) for m in OUTPUTS.get(second, ()))
        if not (rows.is_plain and columns.is_plain)
        and rows.amplification * columns.amplification <= MOST_AMPLIFICATION
    )


def choose_axes(
    shape: ConvShape, images: int, size: Sequence[int], width: int
) -> tuple[Axis, Axis] | None:
    """The fastest transforms for an output of this size (height, width), None for direct sums.

    Times are estimated in cycles of a machine with two FMA units from three terms: the products;
    the time to read weights, which do not stay in a cache from one run to the next; what the
    transforms move. In 24 layers of ResNet, SqueezeNet and Inception the estimates named the
    fastest tile of those measured. Some of them, on an AVX-512 core of 280 GFLOP/s with cold
    weights, in microseconds (* the choice):

        channels    size    taps      direct   2 x 2   4 x 4   others
        64 -> 64    56      3 x 3        887     499    *294   2 x 4: 398
        128 -> 128  28      3 x 3        893     471    *301   2 x 4: 372
        256 -> 256  14      3 x 3        898     488    *422   2 x 4: 431
        512 -> 512  7       3 x 3        926    *586    1650
        512 -> 512  4       3 x 3       *430     682     760
        64 -> 256   13      3 x 3        194     118     *97   2 x 4: 108
        48 -> 64    35      5 x 5        713    *349
        192 -> 192  17      1 x 7        568                   *1 x 2: 380
        384 -> 384  8       1 x 3        230                   *1 x 4: 140, 1 x 2: 175
        128 -> 128  28      3 x 3 by 2   904     710    *663   3 x 3: 748
        256 -> 256  14      3 x 3 by 2   902    *714     832   3 x 3: 800
        512 -> 512  7       3 x 3 by 2 *1208    1411
    """
    if 0 in (images, *size):
        return None
    inputs, outputs = -(-shape.channels // width), -(-shape.outputs // width)
    pixels = images * size[0] * size[1]
    direct = _products(shape.taps, inputs * width, outputs, pixels, width)
    best, chosen = GAIN * direct, None
    for axes in candidates(shape):
        cycles = winograd_cycles(axes, images, size, inputs, outputs, width)
        if cycles < best:
            best, chosen = cycles, axes
    return chosen


def winograd_cycles(
    axes: tuple[Axis, Axis],
    images: int,
    size: Sequence[int],
    inputs: int,
    outputs: int,
    width: int,
) -> float:
    """Estimated cycles with so many blocks of input and output channels."""
    rows, columns = axes
    tiles = images * -(-size[0] // rows.outputs) * -(-size[1] // columns.outputs)
    places = rows.size * columns.size
    moved = tiles * places * (inputs + outputs) * TRANSFORM
    return moved + _products(places, inputs * width, outputs, tiles, width)


TRANSFORM = 6.0
"""Cycles for one vector of a transformed tile, with what it waits for memory."""


def _products(places: int, channels: int, outputs: int, count: int, width: int) -> float:
    """Cycles of `count` results of all places: two products in each, or waiting for weights."""
    vectors = places * channels * outputs
    size = 4 * width * vectors
    wait = next(cycles for limit, cycles in WAITS if size <= limit) * width / 16
    return vectors * max(count / 2, wait)


WAITS = ((1 << 20, 4.0), (1 << 24, 7.0), (1 << 62, 11.0))
"""Up to so many bytes of weights, the cycles until 64 of them are read."""

"""Weights of a few bits packed into bytes, block by block, and what multiplies or gathers them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import bad, check_axis, check_choice, check_range
from neuralsym.ops.contrib.base import (
    Contrib,
    Given,
    cast,
    flipped,
    numbers,
    op,
    part,
    reshape,
    scalar,
    shape_of,
    size,
    sizes,
    unsqueeze,
    whole,
)
from neuralsym.ops.contrib.declare import FLOATS, INT32, declare, needed
from neuralsym.ops.contrib.heads import width

_LARGEST = 2**31


def unpacked(x: Symbol, bits: int) -> Symbol:
    """Bytes as the numbers of `bits` bits that they hold, the lowest bits first."""
    if bits == 8:
        return x
    shifts = numbers(np.arange(0, 8, bits), "uint8")
    spread = op("BitShift", unsqueeze(x, -1), shifts, direction="RIGHT")
    kept = op("BitwiseAnd", spread, numbers((1 << bits) - 1, "uint8"))
    rest = [size(x, i) for i in range(len(shape_of(x)) - 1)]
    return reshape(kept, *rest, width(x) * (8 // bits))


class MatMulNBits(Contrib):
    """A times the transpose of weights [N, K] that are packed in blocks along K.

    A weight is (its number - the block's zero point) * the block's scale; without zero points they
    are in the middle of the range. A weight tensor without elements counts as zeros.
    """

    schema = declare(
        "MatMulNBits",
        "A:T1 B:T2 scales:T1 zero_points:T3? g_idx:T4? bias:T1?",
        "Y:T1",
        {"T1": FLOATS, "T2": ("uint8",), "T3": ("uint8", *FLOATS), "T4": INT32},
        {
            "K": needed("INT"),
            "N": needed("INT"),
            "accuracy_level": 0,
            "bits": 4,
            "block_size": needed("INT"),
            "weight_prepacked": 0,
        },
    )

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "bits", (2, 4, 8))
        for name in ("K", "N", "block_size"):
            check_range(call, name, 1, _LARGEST)
        if call.attr("weight_prepacked"):
            call.fail("weight_prepacked: a layout of one graphics processor is not supported", bad)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        a, dtype = given[0], given[0].dtype
        k, n = given.attr("K"), given.attr("N")
        if 0 in given.shape(1):
            # The projection is left out.
            lead = [size(a, i) for i in range(given.rank(0) - 1)]
            y = op("Expand", numbers(0, dtype), sizes(*lead, n))
        else:
            weights = part(_dequantised(given), 1, 0, k)
            y = op("MatMul", a, flipped(cast(weights, dtype)))
        return [y + given[5] if given.has(5) else y]


def _dequantised(given: Given) -> Symbol:
    """The weights as float32: [N, blocks * block size]."""
    n, bits, block = given.attr("N"), given.attr("bits"), given.attr("block_size")
    blocks = -(-given.attr("K") // block)
    scales = reshape(cast(given[2], "float32"), n, blocks)
    if not given.has(3):
        zeros = numbers(float(1 << (bits - 1)), "float32")
    elif given[3].dtype == "uint8":
        row = -(-blocks * bits // 8)
        zeros = part(unpacked(reshape(given[3], n, row), bits), 1, 0, blocks)
        zeros = cast(zeros, "float32")
    else:
        zeros = reshape(cast(given[3], "float32"), n, blocks)
    packed = reshape(given[1], n, blocks, block * bits // 8)
    values = cast(unpacked(packed, bits), "float32")
    if given.has(4):
        # Each column names its block itself.
        index = part(given[4], 0, 0, given.attr("K"))
        columns = part(reshape(values, n, blocks * block), 1, 0, given.attr("K"))
        if zeros.shape != ():
            zeros = op("Gather", zeros, index, axis=1)
        return (columns - zeros) * op("Gather", scales, index, axis=1)
    if zeros.shape != ():
        zeros = unsqueeze(zeros, 2)
    return reshape((values - zeros) * unsqueeze(scales, 2), n, blocks * block)


FP4 = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25)
"""The magnitudes of a four-bit float with 2 bits of exponent, over the largest; then a sign bit."""
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""Quantiles of a normal distribution, which four bits stand for (arXiv 2305.14314, appendix E)."""


class MatMulBnb4(Contrib):
    """A times weights [N, K], or their transpose, of four bits by a table and a scale for a block.

    Blocks run through the weights row by row; the first of two weights is in the high bits.
    """

    schema = declare(
        "MatMulBnb4",
        "A:T1 B:T2 absmax:T1",
        "Y:T1",
        {"T1": FLOATS, "T2": ("uint8",)},
        {
            "K": needed("INT"),
            "N": needed("INT"),
            "block_size": needed("INT"),
            "quant_type": needed("INT"),
            "training_mode": 0,
            "transB": 1,
        },
    )
    ranks = "B:1 absmax:1"

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "quant_type", (0, 1))
        check_choice(call, "transB", (0, 1))
        for name in ("K", "N", "block_size"):
            check_range(call, name, 1, _LARGEST)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        k, n, block = (given.attr(name) for name in ("K", "N", "block_size"))
        table = NF4 if given.attr("quant_type") else (*FP4, *(-v for v in FP4))
        wide = unsqueeze(given[1], 1)
        shifted = op("BitShift", wide, numbers([4, 0], "uint8"), direction="RIGHT")
        index = op("BitwiseAnd", shifted, numbers(15, "uint8"))
        values = op("Gather", numbers(table, "float32"), cast(index, "int32"), axis=0)
        blocks = -(-n * k // block)
        missing = blocks * block - 2 * (-(-n * k // 2))
        flat = reshape(values, -1)
        if missing > 0:
            flat = op("Pad", flat, whole(0, missing))
        scaled = reshape(part(flat, 0, 0, blocks * block), blocks, block)
        scaled = scaled * unsqueeze(cast(given[2], "float32"), 1)
        weights = reshape(part(reshape(scaled, -1), 0, 0, n * k), n, k)
        weights = cast(weights, given[0].dtype)
        return [op("MatMul", given[0], flipped(weights) if given.attr("transB") else weights)]


_EIGHTS = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1")
_FOURS = ("int4", "uint4")


class GatherBlockQuantized(Contrib):
    """Rows of a table that is quantised in blocks, as real numbers.

    uint8 holds `bits` bits for a number, packed along the last axis; the numbers of floats of eight
    or four bits are scaled alone. An index out of range gives zeros.
    """

    schema = declare(
        "GatherBlockQuantized",
        "data:T1 indices:Tind scales:T2 zero_points:T1?",
        "output:T2",
        {"T1": ("uint8", *_FOURS, *_EIGHTS), "Tind": ("int32", "int64"), "T2": FLOATS},
        {"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1},
    )

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "bits", (2, 4, 8))
        check_range(call, "block_size", 0, _LARGEST)
        rank = call.type(0).rank
        gathered = check_axis(call, call.attr("gather_axis"), rank, what="gather_axis")
        along = check_axis(call, call.attr("quantize_axis"), rank, what="quantize_axis")
        if call.dtype(0) is NumberType.UINT8 and rank is not None:
            if gathered:
                call.fail("gather_axis must be 0 where data is uint8", bad)
            if gathered == along and call.attr("bits") < 8:
                call.fail("gather_axis and quantize_axis must differ where bits are packed", bad)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        rank = given.rank(0)
        gathered = given.attr("gather_axis") % rank
        along = given.attr("quantize_axis") % rank
        data, scales = _gatherable(given[0]), given[2]
        zeros = _gatherable(given[3]) if given.has(3) else None
        index, inside = _clipped(given, gathered)
        extra = len(shape_of(given[1])) - 1
        total = width(_spread(given, data), along)
        if gathered == along:
            table = _real(given, data, scales, zeros, along, total)
            made = op("Gather", table, index, axis=gathered)
        else:
            data, scales = _taken(data, index, gathered), _taken(scales, index, gathered)
            zeros = None if zeros is None else _taken(zeros, index, gathered)
            made = _real(given, data, scales, zeros, along + extra * (along > gathered), total)
        after = rank - 1 - gathered
        kept = reshape(inside, *([0] * (extra + 1)), *([1] * after)) if after else inside
        return [op("Where", kept, made, numbers(0, made.dtype))]


def _gatherable(x: Symbol) -> Symbol:
    """A table in a type that Gather takes and that holds the same numbers."""
    if x.dtype == "uint8":
        return x
    return cast(x, "int8" if x.dtype in _FOURS else "float16")


def _clipped(given: Given, axis: int) -> tuple[Symbol, Symbol]:
    """The indices moved into range, and which were in it."""
    index = cast(given[1], "int64")
    count = scalar(size(given[0], axis))
    zero, one = numbers(0, "int64"), numbers(1, "int64")
    inside = op("And", op("GreaterOrEqual", index, zero - count), op("Less", index, count))
    positive = op("Where", op("Less", index, zero), index + count, index)
    return op("Clip", positive, zero, count - one), inside


def _taken(table: Symbol, index: Symbol, axis: int) -> Symbol:
    """The rows of a table; a table of one row is that of all."""
    if shape_of(table)[axis] == 1:
        index = index * numbers(0, "int64")
    return op("Gather", table, index, axis=axis)


def _spread(given: Given, x: Symbol) -> Symbol:
    return unpacked(x, given.attr("bits")) if x.dtype == "uint8" else x


def _real(
    given: Given, data: Symbol, scales: Symbol, zeros: Symbol | None, along: int, total: int
) -> Symbol:
    """The numbers behind `data`, whose blocks lie along an axis of `total` numbers."""
    block = given.attr("block_size") or total
    blocks = width(scales, along)
    repeat = numbers(np.arange(total) // block, "int64")
    values = cast(_spread(given, data), "float32")
    if zeros is not None:
        levels = _spread(given, zeros)
        if shape_of(levels)[along] != blocks:
            levels = part(levels, along, 0, blocks)
        values = values - op("Gather", cast(levels, "float32"), repeat, axis=along)
    elif data.dtype == "uint8":
        values = values - numbers(float(1 << (given.attr("bits") - 1)), "float32")
    factors = op("Gather", cast(scales, "float32"), repeat, axis=along)
    return cast(values * factors, scales.dtype)

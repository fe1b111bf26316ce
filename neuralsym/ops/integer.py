"""Products of quantised tensors written with products of floats that are exact.

    sum (a - za) * (b - zb)        of 8-bit integers, in int32

A float32 sum of integers is exact, in any order, while no partial sum passes 2^24; a float64 one up
to 2^53. How large a sum may become is known from the number types, zero points and, where they are
constant, the weights. So the products run on the fastest loops that there are, and still give every
bit. Where float32 does not suffice, the sums are cut into parts that are added as integers, or else
they are taken in float64. (No algorithm that is inexact on integers, such as Winograd's with its
thirds, may take them.)

Where the weights are constant bytes there are integer kernels; this serves the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.leaves import constant, is_stored, stored
from neuralsym.core.registry import call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.dtypes import NumberType
from neuralsym.ops.expansions import converted, known_sizes, whole

EXACT = 2**24
"""Float32 holds all integers up to here."""
INT32 = 2**31
MOST_PARTS = 8
EIGHT_BITS = (NumberType.INT8, NumberType.UINT8)

Symbols = Sequence[Symbol]


# -- operators ---------------------------------------------------------------------------------
def expand_matmul(node: Node) -> Symbols | None:
    """MatMulInteger by MatMul."""
    a, b, za, zb = (*node.inputs, None, None)[:4]
    assert a is not None and b is not None
    return None if a.rank is None or b.rank is None else [exact_matmul(a, b, za, zb)]


def expand_qlinear_matmul(node: Node) -> Symbols | None:
    """QLinearMatMul by MatMul, rescaled."""
    a, sa, za, b, sb, zb, sy, zy = node.inputs
    assert a is not None and b is not None and sy is not None and zy is not None
    if a.rank is None or b.rank is None:
        return None
    if a.dtype in EIGHT_BITS and b.dtype in EIGHT_BITS:
        sums = exact_matmul(a, b, za, zb)
    else:
        sums = call("MatMul", _less(a, _rows(za, a.rank), FLOAT), _less(b, _single(zb), FLOAT))
    # The product with a vector lacks the vector's axis, and so do the scales.
    rows = _rows(sa, a.rank) if b.rank > 1 else _without(_single(sa), -1)
    columns = _single(sb) if a.rank > 1 else _without(_single(sb), -2)
    return [_rescaled(sums, rows, columns, _single(sy), zy)]


def expand_gemm(node: Node) -> Symbols | None:
    """Gemm of integers by MatMul; factors that are no whole numbers multiply in double."""
    a, b, c = (*node.inputs, None)[:3]
    assert a is not None and b is not None
    kind = a.dtype
    sides = [
        call("Transpose", x, perm=(1, 0)) if node.attr(name) else x
        for x, name in ((a, "transA"), (b, "transB"))
    ]
    terms = [(call("MatMul", *sides), float(node.attr("alpha")))]
    if c is not None:
        terms.append((c, float(node.attr("beta"))))
    if not all(factor.is_integer() for _, factor in terms):
        terms = [(converted(x, DOUBLE), factor) for x, factor in terms]
    made: Symbol | None = None
    for x, factor in terms:
        exact = int(factor) if factor.is_integer() else factor
        number = constant(np.array(exact).astype(x.dtype.numpy))
        scaled = x if factor == 1 else call("Mul", x, number)
        made = scaled if made is None else call("Add", made, scaled)
    assert made is not None
    return [converted(made, kind)]


def expand_conv(node: Node) -> Symbols | None:
    """ConvInteger by Conv."""
    x, w, zx, zw = (*node.inputs, None, None)[:4]
    assert x is not None and w is not None
    return None if w.shape is None else [exact_conv(node, x, w, zx, zw)]


def expand_qlinear_conv(node: Node) -> Symbols | None:
    """QLinearConv by Conv, rescaled."""
    x, sx, zx, w, sw, zw, sy, zy, bias = (*node.inputs, None)[:9]
    assert x is not None and w is not None and sw is not None and zy is not None
    if w.shape is None:
        return None
    sums = exact_conv(node, x, w, zx, zw)
    if bias is not None:
        sums = call("Add", sums, _channels(bias, len(w.shape), 1))
    scale = _channels(sw, len(w.shape), 1)
    return [_rescaled(sums, _single(sx), scale, _single(sy), zy)]


def expand_dynamic_quantize(node: Node) -> Symbols | None:
    """DynamicQuantizeLinear by reductions and QuantizeLinear."""
    (x,) = node.inputs
    assert x is not None
    zero, steps = constant(np.float32(0)), constant(np.float32(255))
    high = call("Max", call("ReduceMax", x, keepdims=0), zero)
    low = call("Min", call("ReduceMin", x, keepdims=0), zero)
    # Of nothing but zeros, any scale is right.
    spread = call(
        "Where", call("Equal", high, low), constant(np.float32(1)), call("Sub", high, low)
    )
    scale = call("Div", spread, steps)
    level = call("Round", call("Neg", call("Div", low, scale)))
    offset = converted(call("Clip", level, zero, steps), NumberType.UINT8)
    return [call("QuantizeLinear", x, scale, offset), scale, offset]


# -- exact products ----------------------------------------------------------------------------
FLOAT, DOUBLE = NumberType.FLOAT32, NumberType.FLOAT64


def exact_matmul(a: Symbol, b: Symbol, za: Symbol | None, zb: Symbol | None) -> Symbol:
    """The product of 8-bit matrices less their zero points, int32."""
    assert a.rank is not None and b.shape is not None
    axis = -2 if len(b.shape) > 1 else 0
    inner, weights = b.shape[axis], _values(b, zb, 0)
    each: NDArray[Any] | None = None
    if weights is not None:
        matrix = weights if weights.ndim > 1 else weights[:, None]
        columns = np.swapaxes(np.abs(matrix), -1, -2).reshape(-1, matrix.shape[-2])
        each = _largest(a, za) * columns
    elif isinstance(inner, int):
        each = np.full((1, inner), float(_largest(a, za) * _largest(b, zb)))
    left, right = (a, _rows(za, a.rank)), (b, _single(zb))
    return _exact(lambda x, y: call("MatMul", x, y), (left, right), (-1, axis), each)


def exact_conv(node: Node, x: Symbol, w: Symbol, zx: Symbol | None, zw: Symbol | None) -> Symbol:
    """The convolution of 8-bit tensors less their zero points, int32; `node` has its settings."""
    assert w.shape is not None
    rank = len(w.shape)
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    settings = {k: v for k, v in node.attrs.items() if k in names}
    weights, known = _values(w, zw, rank), known_sizes(w.shape[1:])
    each: NDArray[Any] | None = None
    if weights is not None:
        each = _largest(x, zx) * np.abs(weights).sum(tuple(range(2, rank)))
    elif known is not None:
        channels, *taps = known
        largest = _largest(x, zx) * _largest(w, zw)
        each = np.full((1, channels), float(largest * math.prod(taps)))
    left, right = (x, _single(zx)), (w, None if zw is None else _channels(zw, rank, 0))
    axes = (1, 1) if int(node.attr("group") or 1) == 1 else None
    return _exact(lambda x, y: call("Conv", x, y, **settings), (left, right), axes, each)


def _exact(
    make: Callable[[Symbol, Symbol], Symbol],
    sides: Sequence[tuple[Symbol, Symbol | None]],
    axes: tuple[int, int] | None,
    each: NDArray[Any] | None,
) -> Symbol:
    """`make` of both sides less their zero points, int32.

    axes: along which of each side the sums run, if they may be cut into parts. each: for every
    result (or one, for all) how much each place of that axis may add; None if that is not known.
    """
    total = math.inf if each is None else _most(each.sum(1))
    cuts = [] if axes is None or each is None or total <= EXACT else _cuts(each)
    kind = FLOAT if total <= EXACT or cuts else DOUBLE
    left, right = (_less(x, zero, kind) for x, zero in sides)
    if axes is None or not cuts:
        return _as_int32(make(left, right), total)
    made: Symbol | None = None
    for start, end in cuts:
        pair = (
            call("Slice", x, whole(start), whole(end), whole(axis))
            for x, axis in zip((left, right), axes, strict=True)
        )
        sums = _as_int32(make(*pair), EXACT)
        made = sums if made is None else call("Add", made, sums)
    assert made is not None
    return made


def _cuts(each: NDArray[Any]) -> list[tuple[int, int]]:
    """How to cut an axis so that float32 sums of each part are exact; [] for not at all."""
    size = each.shape[1]
    for count in range(2, min(MOST_PARTS, size) + 1):
        cuts = list(pairwise(size * i // count for i in range(count + 1)))
        if all(_most(each[:, start:end].sum(1)) <= EXACT for start, end in cuts):
            return cuts
    return []


def _largest(x: Symbol, zero: Symbol | None) -> int:
    """The largest size of x less its zero point."""
    low, high = (-128, 127) if x.dtype is NumberType.INT8 else (0, 255)
    if zero is None:
        return max(-low, high)
    if not is_stored(zero):
        return high - low
    value = stored(zero).value.astype(np.int64)
    return int(max(high - value.min(initial=high), value.max(initial=low) - low, 1))


def _values(w: Symbol, zero: Symbol | None, rank: int) -> NDArray[Any] | None:
    """Constant weights less their zero points; zero points of channels broadcast to `rank` axes."""
    if not is_stored(w) or not (zero is None or is_stored(zero)):
        return None
    value = stored(w).value.astype(np.float64)
    if zero is None:
        return value
    offset = stored(zero).value.astype(np.float64)
    if offset.size == 1:
        return value - offset.reshape(())
    return value - offset.reshape([-1, *[1] * (rank - 1)] if rank else offset.shape)


def _most(sums: NDArray[Any]) -> float:
    return float(sums.max(initial=0))


def _as_int32(sums: Symbol, total: float) -> Symbol:
    """Integers in floats, of at most `total`, as int32; what is beyond wraps around."""
    if total >= INT32:
        sums = converted(sums, NumberType.INT64)
    return converted(sums, NumberType.INT32)


# -- scales and zero points --------------------------------------------------------------------
def _less(x: Symbol, zero: Symbol | None, kind: NumberType) -> Symbol:
    """x less its zero point, as floats."""
    wide = converted(x, kind)
    return wide if zero is None else call("Sub", wide, converted(zero, kind))


def _is_single(x: Symbol) -> bool:
    return x.shape is not None and all(d == 1 for d in x.shape)


def _single(x: Symbol | None) -> Symbol | None:
    """A tensor of one element as a scalar, which changes no rank; any other as it is."""
    if x is None or not x.rank or not _is_single(x):
        return x
    return call("Reshape", x, constant(np.zeros(0, np.int64)))


def _rows(x: Symbol | None, rank: int) -> Symbol | None:
    """One value for all, or one for each row of a matrix: as a column, if it is a vector."""
    x = _single(x)
    return x if x is None or x.rank != 1 or rank < 2 else call("Unsqueeze", x, whole(1))


def _without(x: Symbol | None, axis: int) -> Symbol | None:
    """x without an axis of size 1, if it has two or more axes."""
    if x is None or x.rank is None or x.rank < 2:
        return x
    return call("Squeeze", x, whole(axis))


def _channels(x: Symbol, rank: int, before: int) -> Symbol:
    """One value for all, or one for each channel, of an array of `rank` axes: `before` come first.

    Axes before the channels need no mention, as arrays broadcast; those behind do.
    """
    made = _single(x)
    assert made is not None
    behind = rank - 1 - before
    return made if made.rank != 1 else call("Unsqueeze", made, whole(*range(1, behind + 1)))


def _rescaled(
    sums: Symbol, sa: Symbol | None, sb: Symbol | None, sy: Symbol | None, zy: Symbol
) -> Symbol:
    """The sums in the result's scale and type: round(sums * sa * sb / sy) + zy, saturated.

    ONNX rounds before the zero point is added, and onnxruntime with it; onnx's evaluator after,
    which differs for ties with an odd zero point.
    """
    assert sa is not None and sb is not None and sy is not None
    scale = call("Mul", converted(sa, FLOAT), converted(sb, FLOAT))
    scale = converted(call("Div", scale, converted(sy, FLOAT)), DOUBLE)
    real = call("Mul", converted(sums, DOUBLE), scale)
    offset = _single(zy)
    assert offset is not None
    if zy.dtype not in EIGHT_BITS:
        return call("Cast", call("Add", real, converted(offset, DOUBLE)), to=zy.dtype)
    low, high = (-128.0, 127.0) if zy.dtype is NumberType.INT8 else (0.0, 255.0)
    levels = call("Add", call("Round", real), converted(offset, DOUBLE))
    bounds = (constant(np.float64(v)) for v in (low, high))
    return converted(call("Clip", levels, *bounds), zy.dtype)

"""Rules of differentiation of products, reductions, windows, and what moves elements about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuralsym.core.leaves import constant
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply, call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.errors import GraphError, at_line
from neuralsym.ops.derivatives import (
    Given,
    ints,
    number,
    ones_like,
    operand,
    reshaped_like,
    rule,
    sizes_of,
    summed_to,
    the,
    zeros_like,
)


# -- products ----------------------------------------------------------------------------------
@rule("MatMul")
def _matmul(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    a, b, g = operand(node, 0), operand(node, 1), the(given)
    if a.rank is None or b.rank is None:
        raise GraphError(f"{node.describe()} has operands of unknown rank{at_line(node.where)}")
    # A vector is a matrix of one row or one column.
    if b.rank == 1:
        b, g = call("Unsqueeze", b, ints(1)), call("Unsqueeze", g, ints(-1))
    if a.rank == 1:
        a, g = call("Unsqueeze", a, ints(0)), call("Unsqueeze", g, ints(-2))
    made = summed_to(g @ _turned(b), a), summed_to(_turned(a) @ g, b)
    return [reshaped_like(m, operand(node, i)) if m.rank != operand(node, i).rank else m
            for i, m in enumerate(made)]  # fmt: skip


def _turned(x: Symbol) -> Symbol:
    rank = x.rank or 2
    return call("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


@rule("Gemm")
def _gemm(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    a, b, g = operand(node, 0), operand(node, 1), the(given)
    across, down = node.attr("transA"), node.attr("transB")
    scaled = g * number(node.attr("alpha"), g)
    by_a = b if down else _turned(b)
    by_b = a if across else _turned(a)
    by_first, by_second = scaled @ by_a, by_b @ scaled
    made: list[Given] = [
        _turned(by_first) if across else by_first,
        _turned(by_second) if down else by_second,
    ]
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        made.append(summed_to(g * number(node.attr("beta"), g), operand(node, 2)))
    return made


# -- the same elements elsewhere ---------------------------------------------------------------
@rule("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _reshape(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    return [reshaped_like(the(given), operand(node, 0)), *[None] * (len(node.inputs) - 1)]


@rule("Transpose")
def _transpose(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    perm = node.attr("perm")
    if perm is None:
        return [call("Transpose", the(given))]
    back = [int(i) for i in np.argsort(perm)]
    return [call("Transpose", the(given), perm=back)]


@rule("Expand")
def _expand(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    return [summed_to(the(given), operand(node, 0)), None]


@rule("Concat")
def _concat(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    axis, g = node.attr("axis"), the(given)
    if len(node.inputs) == 1:
        return [g]
    rank = g.rank or 1
    start = axis % rank
    sizes = [
        call("Shape", operand(node, i), start=start, end=start + 1) for i in range(len(node.inputs))
    ]
    parts = call("Concat", *sizes, axis=0)
    return apply(find_op("Split"), [g, parts], {"axis": axis}, outputs=len(sizes))


@rule("Slice", "Gather", "GatherElements", "GatherND", "Tile", "DepthToSpace", "SpaceToDepth")
def _picked(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    made = _scattered(node, [the(given)], list(node.outputs[:1]))
    return [made, *[None] * (len(node.inputs) - 1)]


@rule("Split")
def _split(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    return [_scattered(node, given, list(node.outputs)), *[None] * (len(node.inputs) - 1)]


def _scattered(node: Node, given: Sequence[Given], outputs: Sequence[Symbol]) -> Symbol:
    """Each derivative added where its element came from: the node is applied to numbered places."""
    x = operand(node, 0)
    count = call("Size", x)
    numbers = call("Range", _scalar(0), count, _scalar(1))
    places = call("Reshape", numbers, sizes_of(x), allowzero=1)
    picked = apply(node.op, [places, *node.inputs[1:]], node.attrs, outputs=len(outputs))
    flat = call("Expand", number(0, x), call("Reshape", count, ints(1)))
    for place, derivative in zip(picked, given, strict=True):
        if derivative is not None:
            flat = _added(flat, place, derivative)
    return reshaped_like(flat, x)


def _added(flat: Symbol, places: Symbol, values: Symbol) -> Symbol:
    return call(
        "ScatterElements", flat, call("Reshape", places, ints(-1)),
        call("Reshape", values, ints(-1)), axis=0, reduction="add",
    )  # fmt: skip


@rule("Pad")
def _pad(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    """What was added is taken away, and the other way round."""
    if node.attr("mode") != "constant":
        raise GraphError(
            f"{node.describe()} of mode {node.attr('mode')!r} has no rule of differentiation"
            f"{at_line(node.where)}"
        )
    x, g, pads = operand(node, 0), the(given), operand(node, 1)
    value, axes = [*node.inputs[2:], None, None][:2]
    made: list[Given] = [_unpadded(g, pads, axes), *[None] * (len(node.inputs) - 1)]
    if value is not None:
        kept = call("Pad", ones_like(x), pads, None, axes)
        made[2] = call("ReduceSum", g - g * kept, keepdims=0)
    return made


def _unpadded(g: Symbol, pads: Symbol, axes: Given) -> Symbol:
    """Cut off at the ends where pads are positive, zeros added where they are negative."""
    zero = ints(0)
    half = call("Div", call("Shape", pads), ints(2))
    count = call("Shape", pads)
    first, last = call("Slice", pads, zero, half), call("Slice", pads, half, count)
    where = call("Range", _scalar(0), call("Squeeze", half), _scalar(1)) if axes is None else axes
    stops = call("Gather", sizes_of(g), where) - call("Max", last, zero)
    cut = call("Slice", g, call("Max", first, zero), stops, where)
    return call("Pad", cut, call("Max", -pads, zero), None, axes)


def _scalar(value: int) -> Symbol:
    return constant(np.int64(value))


@rule("Trilu")
def _triangle(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    made = call("Trilu", the(given), *node.inputs[1:], upper=node.attr("upper"))
    return [made, *[None] * (len(node.inputs) - 1)]


@rule("CumSum")
def _cumulated(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    way = {"exclusive": node.attr("exclusive"), "reverse": 1 - node.attr("reverse")}
    return [call("CumSum", the(given), operand(node, 1), **way), None]


@rule("TopK")
def _top(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    zeros, axis = zeros_like(operand(node, 0)), node.attr("axis")
    return [call("ScatterElements", zeros, node.outputs[1], the(given), axis=axis), None]


# -- reductions --------------------------------------------------------------------------------
def _stretched(node: Node, value: Symbol) -> Symbol:
    """What has a reduction's result's shape, over the elements that were reduced."""
    x = operand(node, 0)
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    if not node.attr("keepdims"):
        if axes is None:
            value = call("Reshape", value, ints(*[1] * (x.rank or 0)))
        else:
            value = call("Unsqueeze", value, axes)
    return call("Expand", value, sizes_of(x))


def _keeps_all(node: Node) -> bool:
    """Whether the reduction is over no axis at all."""
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    none = axes is None or (axes.shape is not None and axes.shape == (0,))
    return bool(node.attr("noop_with_empty_axes")) and none


@rule(
    "ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMin",
)  # fmt: skip
def _reduce(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    x, y, g = operand(node, 0), node.outputs[0], the(given)
    wide = (lambda v: v) if _keeps_all(node) else (lambda v: _stretched(node, v))
    kind = node.op_type.removeprefix("Reduce")
    each = wide(g)
    if kind == "Mean":
        counts = call("Div", call("Size", x), call("Size", y))
        each = each / call("CastLike", counts, x)
    elif kind == "SumSquare":
        each = each * (x + x)
    elif kind == "L1":
        each = each * call("Sign", x)
    elif kind == "L2":
        each = each * x / wide(y)
    elif kind == "LogSum":
        each = each / call("Exp", wide(y))
    elif kind == "LogSumExp":
        each = each * call("Exp", x - wide(y))
    elif kind in ("Max", "Min"):
        hits = call("CastLike", call("Equal", x, wide(y)), x)
        axes = node.inputs[1:2]
        total = hits if _keeps_all(node) else call("ReduceSum", hits, *axes, **_flags(node))
        each = each * hits / wide(total)  # elements that are equal share the derivative
    return [each, *[None] * (len(node.inputs) - 1)]


def _flags(node: Node) -> dict[str, int]:
    return {name: node.attr(name) for name in ("keepdims", "noop_with_empty_axes")}


@rule("Softmax", "LogSoftmax")
def _softmax(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    y, g, axis = node.outputs[0], the(given), ints(node.attr("axis"))
    if node.op_type == "Softmax":
        return [y * (g - call("ReduceSum", g * y, axis, keepdims=1))]
    return [g - call("Exp", y) * call("ReduceSum", g, axis, keepdims=1)]


# -- windows -----------------------------------------------------------------------------------
@rule("GlobalAveragePool")
def _global_average(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    x, y = operand(node, 0), node.outputs[0]
    counts = call("CastLike", call("Div", call("Size", x), call("Size", y)), x)
    return [call("Expand", the(given) / counts, sizes_of(x))]


@rule("GlobalMaxPool")
def _global_max(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    x = operand(node, 0)
    hits = call("CastLike", call("Equal", x, node.outputs[0]), x)
    total = call("ReduceSum", hits, ints(*range(2, x.rank or 2)), keepdims=1)
    return [the(given) * hits / total]


@rule("MaxPool")
def _max_pool(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    x = operand(node, 0)
    places = apply(node.op, [x], {**node.attrs, "storage_order": 0}, outputs=2)[1]
    flat = call("Expand", number(0, x), call("Reshape", call("Size", x), ints(1)))
    return [reshaped_like(_added(flat, places, the(given)), x)]


@rule("Conv")
def _conv(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    x, w, g = operand(node, 0), operand(node, 1), the(given)
    sizes = [*(x.shape or (None,))[2:], *(w.shape or (None,))[2:], *(g.shape or (None,))[2:]]
    if not all(isinstance(s, int) for s in sizes) or x.rank is None:
        raise GraphError(
            f"{node.describe()} is differentiated only over known sizes, not over {x.type}"
            f"{at_line(node.where)}"
        )
    if node.attr("auto_pad") not in (None, "NOTSET") or node.attr("group") != 1:
        raise GraphError(
            f"{node.describe()} is differentiated only with explicit pads and one group"
            f"{at_line(node.where)}"
        )
    rank = x.rank - 2
    size, kernel, out = (sizes[i * rank : (i + 1) * rank] for i in range(3))
    strides = list(node.attr("strides") or [1] * rank)
    dilations = list(node.attr("dilations") or [1] * rank)
    pads = list(node.attr("pads") or [0] * 2 * rank)
    # What the last window leaves over at the end.
    rest = [
        size[i] + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1  # type: ignore[operator]
        - strides[i] * (out[i] - 1)  # type: ignore[operator]
        for i in range(rank)
    ]  # fmt: skip
    by_x = call(
        "ConvTranspose", g, w, strides=strides, dilations=dilations, pads=pads,
        output_padding=rest,
    )  # fmt: skip
    swap = [1, 0, *range(2, rank + 2)]
    ends = [pads[i + rank] - rest[i] for i in range(rank)]
    inner = call("Transpose", x, perm=swap)
    if min(ends) < 0:  # rows that no window reaches are cut off
        stops = [s + min(e, 0) for s, e in zip(size, ends, strict=True)]
        inner = call("Slice", inner, ints(*[0] * rank), ints(*stops), ints(*range(2, rank + 2)))
    by_w = call(
        "Conv", inner, call("Transpose", g, perm=swap), strides=dilations, dilations=strides,
        pads=[*pads[:rank], *(max(e, 0) for e in ends)],
    )  # fmt: skip
    made: list[Given] = [by_x, call("Transpose", by_w, perm=swap)]
    if len(node.inputs) > 2:
        made.append(call("ReduceSum", g, ints(0, *range(2, rank + 2)), keepdims=0))
    return made

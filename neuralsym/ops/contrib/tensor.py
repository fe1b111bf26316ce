"""Older or wider forms of ONNX's operators on tensors, and a few that ONNX does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Type
from neuralsym.ops.base import bad, check_axis, check_choice, check_range, same_type
from neuralsym.ops.contrib.base import (
    Contrib,
    Given,
    RankUnknown,
    cast,
    flipped,
    numbers,
    op,
    part,
    rank_of,
    reshape,
    scalar,
    several,
    size,
    transpose,
    unsqueeze,
    whole,
)
from neuralsym.ops.contrib.declare import (
    ANY,
    INT32,
    INT64,
    NUMBERS,
    WIDE,
    declare,
    needed,
    optional,
)

_ANY = {"T": ANY}
_REAL = {"T": WIDE}


class Trilu(Contrib):
    """The upper or the lower triangle of matrices, zeros elsewhere."""

    schema = declare(
        "Trilu", "X:T k:I?", "Y:T", {"T": (*NUMBERS, "bool"), "I": INT64}, {"upper": 1}
    )

    on_sizes = True

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        k = scalar(given[1]) if given.has(1) else None
        return [op("Trilu", given[0], k, upper=given.attr("upper"))]


class Range(Contrib):
    """start, start + delta, ... before limit; each a scalar or a vector of one."""

    schema = declare(
        "Range",
        "start:T limit:T delta:T?",
        "Y:T",
        {"T": ("float", "double", "int16", "int32", "int64")},
    )

    on_sizes = True

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        delta = scalar(given[2]) if given.has(2) else numbers(1, given[0].dtype)
        return [op("Range", scalar(given[0]), scalar(given[1]), delta)]


class ExpandDims(Contrib):
    """x with an axis of size 1 more, at a place that a scalar tells."""

    schema = declare("ExpandDims", "X:T axis:I", "Y:T", _ANY | {"I": INT32})

    on_sizes = True

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        return [op("Unsqueeze", given[0], reshape(cast(given[1], "int64"), 1))]


class Pad(Contrib):
    """x with elements added, or taken away where negative, before and after each axis."""

    schema = declare(
        "Pad", "data:T pads:I value:T?", "output:T", _REAL | {"I": INT64}, {"mode": "constant"}
    )

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "mode", ("constant", "reflect", "edge"))

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        value = scalar(given[2]) if given.has(2) else None
        pads = given[1] if given.rank(1) == 1 else reshape(given[1], -1)
        return [op("Pad", given[0], pads, value, mode=given.attr("mode"))]


class Unique(Contrib):
    """The different elements in the order in which they come, where each went, how many of each."""

    schema = declare("Unique", "x:T", "y:T idx:I counts:I", _ANY | {"I": INT64})
    ranks = "x:1"

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        values, _, inverse, counts = several("Unique", [given[0]], 4, sorted=0)
        return [values, inverse, counts]


class GatherND(Contrib):
    """Slices of data at index tuples along the last axis of indices."""

    schema = declare("GatherND", "data:T indices:I", "output:T", _ANY | {"I": (*INT32, *INT64)})

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        return [op("GatherND", given[0], cast(given[1], "int64"))]


class GridSample(Contrib):
    """Values of images between their pixels, at places that a grid tells from -1 to 1."""

    schema = declare(
        "GridSample",
        "X:T Grid:T",
        "Y:T",
        _REAL,
        {"align_corners": 0, "mode": "bilinear", "padding_mode": "zeros"},
    )
    ranks = "X:4 Grid:4"

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "mode", tuple(_MODES))
        check_choice(call, "padding_mode", ("zeros", "border", "reflection"))

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        return [
            op(
                "GridSample",
                given[0],
                given[1],
                align_corners=given.attr("align_corners"),
                mode=_MODES[given.attr("mode")],
                padding_mode=given.attr("padding_mode"),
            )
        ]


_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


class CDist(Contrib):
    """The distances between the rows of A and those of B, squared or not."""

    schema = declare(
        "CDist", "A:T B:T", "C:T", {"T": ("float", "double")}, {"metric": "sqeuclidean"}
    )
    ranks = "A:2 B:2"

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "metric", ("euclidean", "sqeuclidean"))

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        # Distances do not change when all rows are moved; near the origin they lose less.
        middle = op("ReduceMean", given[1], whole(0), keepdims=1)
        a, b = given[0] - middle, given[1] - middle
        rows = op("ReduceSumSquare", a, whole(1), keepdims=1)
        columns = flipped(op("ReduceSumSquare", b, whole(1), keepdims=1))
        squares = rows + columns - op("MatMul", a, flipped(b)) * 2.0
        squares = op("Max", squares, numbers(0, squares.dtype))
        return [op("Sqrt", squares) if given.attr("metric") == "euclidean" else squares]


class ConvTransposeWithDynamicPads(Contrib):
    """ConvTranspose whose pads are an input."""

    schema = declare(
        "ConvTransposeWithDynamicPads",
        "X:T W:T Pads:I? B:T?",
        "Y:T",
        _REAL | {"I": INT64},
        {
            "auto_pad": "NOTSET",
            "dilations": optional("INTS"),
            "group": 1,
            "kernel_shape": optional("INTS"),
            "output_padding": optional("INTS"),
            "strides": optional("INTS"),
        },
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        attrs = {name: given.attr(name) for name in cls.schema.attributes}
        inputs = [given[0], given[1], given.optional(3)]
        pads = given.optional(2)
        if pads is None or given.attr("auto_pad") != "NOTSET":
            return [op("ConvTranspose", *inputs, **attrs)]
        if pads.known is not None:
            attrs["pads"] = tuple(int(p) for p in np.asarray(pads.known).tolist())
            return [op("ConvTranspose", *inputs, **attrs)]
        # Pads of a transposed convolution are what is cut off its result.
        full = op("ConvTranspose", *inputs, **attrs)
        spatial = rank_of(full) - 2
        before, after = part(pads, 0, 0, spatial), part(pads, 0, spatial, 2 * spatial)
        ends = op("Shape", full, start=2) - after
        return [op("Slice", full, before, ends, whole(*range(2, 2 + spatial)))]


class Inverse(Contrib):
    """The inverses of square matrices; a kernel of its own computes them."""

    schema = declare("Inverse", "X:T", "Y:T", {"T": ("float", "double", "float16")})

    @classmethod
    def check(cls, call: Call) -> None:
        shape = call.shape(0)
        if shape is None:
            return
        if len(shape) < 2:
            call.fail(f"X has {len(shape)} axes, a matrix has two")
        rows, columns = shape[-2:]
        if isinstance(rows, int) and isinstance(columns, int) and rows != columns:
            call.fail(f"only square matrices have inverses, these are of {rows} times {columns}")

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [same_type(call)]

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        raise RankUnknown  # no operator of ONNX inverts a matrix

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        x = values[0]
        return [np.linalg.inv(x.astype(np.float64)).astype(x.dtype)]


class TorchEmbedding(Contrib):
    """Rows of weight, by their indices; the other inputs matter to training only."""

    schema = declare(
        "TorchEmbedding",
        "weight:T indices:I padding_idx:I? scale_grad_by_freq:B?",
        "Y:T",
        {"T": (*NUMBERS, "bool"), "I": INT64, "B": ("bool",)},
    )
    ranks = "weight:2"

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        return [op("Gather", given[0], given[1], axis=0)]


class UnfoldTensor(Contrib):
    """All slices of `size` along an axis, `step` apart, as a new last axis."""

    schema = declare(
        "UnfoldTensor", "input:T", "output:T", _ANY, {"dim": -1, "size": needed("INT"), "step": 1}
    )

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_range(call, "size", 1, 2**31)
        check_range(call, "step", 1, 2**31)
        shape = call.shape(0)
        axis = check_axis(call, call.attr("dim"), call.type(0).rank, what="dim")
        if shape is None or axis is None:
            return
        length = shape[axis]
        if isinstance(length, int) and length < call.attr("size"):
            call.fail(f"size={call.attr('size')} is more than the axis has: {length}", bad)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        x, window, step = given[0], given.attr("size"), given.attr("step")
        rank = rank_of(x)
        axis = given.attr("dim") % rank
        first = op("Range", numbers(0, "int64"), scalar(size(x, axis)) - (window - 1), step)
        index = unsqueeze(first, 1) + numbers(np.arange(window), "int64")
        made = op("Gather", x, index, axis=axis)
        axes = [a for a in range(rank + 1) if a != axis + 1]
        return [transpose(made, *axes, axis + 1)]


class IsAllFinite(Contrib):
    """Whether no element of any input is infinite, nor NaN; or only one of these is looked for."""

    schema = declare(
        "IsAllFinite",
        "input:V*",
        "output:B",
        {"V": WIDE, "B": ("bool",)},
        {"isinf_only": 0, "isnan_only": 0},
    )

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        if call.attr("isinf_only") and call.attr("isnan_only"):
            call.fail("isinf_only and isnan_only exclude each other", bad)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        found = []
        for x in given.inputs:
            assert x is not None
            wide = cast(x, "float32") if x.dtype in ("float16", "bfloat16") else x
            infinite, missing = op("IsInf", wide), op("IsNaN", wide)
            if given.attr("isinf_only"):
                seen = infinite
            else:
                seen = missing if given.attr("isnan_only") else op("Or", infinite, missing)
            found.append(op("ReduceMax", cast(seen, "int32"), keepdims=0))
        worst = op("Max", *found) if len(found) > 1 else found[0]
        return [op("Equal", worst, numbers(0, "int32"))]

"""Normalisations, which keep the shape of their input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuralsym.core import registry
from neuralsym.core.leaves import constant
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType, from_onnx
from neuralsym.errors import TypeMismatch
from neuralsym.ops.base import (
    Normalisation,
    bad,
    check_axis,
    check_choice,
    check_range,
    check_rank,
    same_type,
)
from neuralsym.ops.expansions import HALVES, converted, reshaped, whole
from neuralsym.ops.shapes import axes_of, check_vector, merged


class BatchNormalization(Normalisation):
    """(X - mean) / sqrt(var + epsilon) * scale + B, for each channel.

    In training it also gives the running mean and variance.
    """

    @classmethod
    def check(cls, call: Call) -> None:
        check_epsilon(call)
        if "training_mode" in call.attrs:
            check_choice(call, "training_mode", (0, 1))
        if call.count not in (1, 3) or (call.count == 3) != bool(call.attr("training_mode")):
            call.fail(
                f"{call.count} outputs with training_mode={call.attr('training_mode')}: it has 1 "
                "in inference and 3 in training",
                bad,
            )

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        channels: Size = None
        if x is not None:
            channels = x[1] if len(x) > 1 else 1
        for i in (1, 2, 3, 4):
            given = call.shape(i)
            if given != (channels,):
                which = "each channel" if channels is None else f"each of the {channels} channels"
                check_vector(call, i, channels, f"{which} of X")
            if channels is None and given:
                channels = given[0]
        if call.count == 1:
            return [same_type(call)]
        statistics = TensorType(call.dtype(3), (channels,))
        return [same_type(call), statistics, statistics]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        x, *given = (s for s in node.inputs if s is not None)
        if not node.attr("training_mode"):
            return by_given_statistics(node, x, given)
        if x.rank is None:
            return None
        work = NumberType.FLOAT32 if x.dtype in HALVES else x.dtype
        wide = converted(x, work)
        others = whole(*(i for i in range(x.rank) if i != 1))
        mean = registry.call("ReduceMean", wide, others)
        centred = wide - mean
        variance = registry.call("ReduceMean", centred * centred, others)
        scale, bias = (
            reshaped(converted(s, work), *(-1 if i == 1 else 1 for i in range(x.rank)))
            for s in given[:2]
        )
        y = centred / registry.call("Sqrt", variance + node.attr("epsilon")) * scale + bias
        momentum = node.attr("momentum")
        running = [
            converted(
                converted(old, work) * momentum + reshaped(new, -1) * (1 - momentum), old.dtype
            )
            for old, new in zip(given[2:], (mean, variance), strict=True)
        ]
        return [converted(y, x.dtype), *running]


class InstanceNormalization(Normalisation):
    """Each channel of each entry less its mean, over its deviation."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_epsilon(call)
        check_rank(call, 0, 3)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is not None:
            for i in (1, 2):
                check_vector(call, i, x[1], f"each of the {x[1]} channels of input")
        return [same_type(call)]


class GroupNormalization(Normalisation):
    """Groups of channels less their mean, over their deviation."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_epsilon(call)
        check_rank(call, 0, 2)
        check_range(call, "num_groups", 1)
        check_stash(call)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is not None:
            groups = call.attrs["num_groups"]
            if isinstance(x[1], int) and x[1] % groups:
                call.fail(f"num_groups={groups} does not divide the {x[1]} channels of X", bad)
            for i in (1, 2):
                check_vector(call, i, x[1], f"each of the {x[1]} channels of X")
        return [same_type(call)]


class LayerNormalization(Normalisation):
    """The axes from `axis` on less their mean, over their deviation.

    The further outputs are the mean and the reciprocal of the deviation, the axes kept as 1.
    """

    @classmethod
    def check(cls, call: Call) -> None:
        check_epsilon(call)
        check_from_axis(call)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        check_scale(call, x)
        if call.count == 1:
            return [same_type(call)]
        kept: Shape | None = None
        if x is not None:
            axis = call.attr("axis") % len(x)
            kept = (*x[:axis], *((1,) * (len(x) - axis)))
        statistics = TensorType(from_onnx(call.attr("stash_type")), kept)
        return [same_type(call), statistics, statistics]


class RMSNormalization(Normalisation):
    """The axes from `axis` on over their root mean square."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_epsilon(call)
        check_from_axis(call)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        check_scale(call, call.shape(0))
        return [TensorType(call.dtype(1), call.shape(0))]


class LRN(Normalisation):
    """Each element over a power of the sum of squares of its neighbouring channels."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_range(call, "size", 1)
        check_rank(call, 0, 2)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [same_type(call)]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        (x,) = node.inputs
        assert x is not None
        if x.dtype in HALVES:
            return [widely(node, x)]
        if x.shape is None or not 2 <= len(x.shape) <= 4:
            return None
        if 0 in x.shape:  # pools have no windows over nothing
            return [registry.call("Identity", x)]
        size = node.attr("size")
        # The mean over a window of channels, as over the first axis of images of one channel.
        before, after, none = (size - 1) // 2, size // 2, [0] * (len(x.shape) - 2)
        images = registry.call("Unsqueeze", x * x, whole(1))
        mean = registry.call(
            "AveragePool",
            images,
            kernel_shape=[size, *(1 for _ in none)],
            pads=[before, *none, after, *none],
            count_include_pad=1,
        )
        near = registry.call("Squeeze", mean, whole(1)) * node.attr("alpha") + node.attr("bias")
        beta = constant(np.array(node.attr("beta"), x.dtype.numpy))
        return [x / registry.call("Pow", near, beta)]


class MeanVarianceNormalization(Normalisation):
    """(X - mean) / deviation over some axes."""

    @classmethod
    def check(cls, call: Call) -> None:
        x = call.shape(0)
        if x is not None:
            axes_of(call, call.attr("axes"), len(x))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [same_type(call)]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        (x,) = node.inputs
        assert x is not None
        if x.dtype in HALVES:
            return [widely(node, x)]
        axes = whole(*node.attr("axes"))
        centred = x - registry.call("ReduceMean", x, axes)
        variance = registry.call("ReduceMean", centred * centred, axes)
        return [centred / (registry.call("Sqrt", variance) + 1e-9)]


class LpNormalization(Normalisation):
    """The input over its Lp norm along an axis; zero where the norm is."""

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol]:
        (x,) = node.inputs
        assert x is not None
        norm = registry.call(f"ReduceL{node.attr('p')}", x, whole(node.attr("axis")))
        zero = constant(np.zeros((), x.dtype.numpy))
        empty = registry.call("Equal", norm, zero)
        return [registry.call("Where", empty, zero, x / norm)]

    @classmethod
    def check(cls, call: Call) -> None:
        x = call.shape(0)
        check_axis(call, call.attr("axis"), None if x is None else len(x))
        check_choice(call, "p", (1, 2))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [same_type(call)]


# -- what they share ---------------------------------------------------------------------------
def check_epsilon(call: Call) -> None:
    """Epsilon is a number of at least 0."""
    if "epsilon" in call.attrs:
        check_range(call, "epsilon", 0.0)


def check_stash(call: Call) -> None:
    """`stash_type` names a float type."""
    if "stash_type" not in call.attrs:
        return
    try:
        kind = from_onnx(call.attrs["stash_type"])
    except TypeMismatch as error:
        call.fail(f"stash_type: {error}", bad)
    if not kind.is_float or kind not in (
        NumberType.FLOAT32,
        NumberType.FLOAT64,
        NumberType.FLOAT16,
        NumberType.BFLOAT16,
    ):
        call.fail(f"stash_type is {kind}; it must be a float type such as float32", bad)


def check_from_axis(call: Call) -> None:
    """`axis` is one of X, and `stash_type` a float type."""
    x = call.shape(0)
    check_axis(call, call.attr("axis"), None if x is None else len(x))
    check_stash(call)


def check_scale(call: Call, x: Shape | None) -> None:
    """Scale and bias broadcast to X, as a rule from its last axes on."""
    if x is None:
        return
    row = x[call.attr("axis") % len(x) :]
    for i in range(1, len(call.inputs)):
        given = call.shape(i) if call.has(i) else None
        if given is None or given == row:
            continue
        name = call.op.schema.formal_input(i).name
        if len(given) > len(x):
            call.fail(f"{name} has {len(given)} axes, X has {len(x)}")
        for k in range(1, len(given) + 1):
            if given[-k] != 1:
                merged(call, given[-k], x[-k], f"{name} and X, axis {-k}")


def widely(node: Node, x: Symbol) -> Symbol:
    """A node of one half-precision input, computed in float32 and rounded once."""
    wide = registry.call(node.op.__name__, converted(x, NumberType.FLOAT32), **node.attrs)
    return converted(wide, x.dtype)


def by_given_statistics(node: Node, x: Symbol, given: list[Symbol]) -> list[Symbol] | None:
    """BatchNormalization of inputs of several types in double, of a vector as one channel."""
    kinds = {x.dtype, *(s.dtype for s in given)}
    if NumberType.FLOAT64 in kinds and len(kinds) > 1:
        wide = (converted(s, NumberType.FLOAT64) for s in (x, *given))
        return [converted(registry.call("BatchNormalization", *wide, **node.attrs), x.dtype)]
    if x.rank == 1:
        column = registry.call("Unsqueeze", x, whole(1))
        made = registry.call("BatchNormalization", column, *given, **node.attrs)
        return [registry.call("Squeeze", made, whole(1))]
    return None

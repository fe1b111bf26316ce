"""Convolutions: what they accept and the shapes that they give."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.dim import DimLike, minimum
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import Contraction, bad, check_choice, check_range, check_rank
from neuralsym.ops.integer import expand_conv, expand_qlinear_conv
from neuralsym.ops.shapes import (
    bounded,
    check_vector,
    exact_quotient,
    length,
    merged,
    total,
    typed,
    unknown,
)
from neuralsym.ops.windows import Frame, check_frame, extent, frame, slid


class Conv(Contraction):
    """Sliding-window product of X with the filters W, plus bias B."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_convolution(call, 0)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return typed(call, convolved(call, 0, 1, 2))


class ConvInteger(Contraction):
    """Conv of 8-bit integers less their zero points, summed in int32."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_convolution(call, 0)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [TensorType(NumberType.INT32, convolved(call, 0, 1, None))]

    @classmethod
    def expansion(cls, node: Node) -> Sequence[Symbol] | None:
        return expand_conv(node)


class QLinearConv(Contraction):
    """Conv of quantized tensors, with a quantized result."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_convolution(call, 0)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return typed(call, convolved(call, 0, 3, 8), 7)

    @classmethod
    def expansion(cls, node: Node) -> Sequence[Symbol] | None:
        return expand_qlinear_conv(node)


class DeformConv(Contraction):
    """Conv whose filter taps are displaced by `offset` and weighted by `mask`."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_convolution(call, 0)
        check_range(call, "offset_group", 1)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, offset = call.shape(0), call.shape(2)
        groups = call.attr("offset_group") or 1
        if x is not None and isinstance(x[1], int) and x[1] % groups:
            call.fail(f"offset_group={groups} does not divide the {x[1]} channels of X", bad)
        shape = convolved(call, 0, 1, 3)
        if shape is None or offset is None:
            return typed(call, shape)
        if len(offset) != len(shape):
            call.fail(f"offset has {len(offset)} axes, {len(shape)} are needed")
        w = call.shape(1)
        taps = total(w[2:]) if w is not None else None
        if taps is not None:
            entries = taps * (groups * (len(shape) - 2))
            merged(call, offset[1], entries, "offset, axis 1: offset_group * taps * axes")
        spatial = [
            merged(call, a, b, f"offset and the output, axis {i + 2}")
            for i, (a, b) in enumerate(zip(shape[2:], offset[2:], strict=True))
        ]
        return typed(call, (merged(call, shape[0], offset[0], "batch"), shape[1], *spatial))


class ConvTranspose(Contraction):
    """The transpose of Conv: each element of X spreads a filter of W over the output."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_convolution(call, 0)
        x = call.shape(0)
        for name, low in (("output_padding", 0), ("output_shape", 1)):
            check_range(call, name, low, 2**40)
            values = call.attrs.get(name)
            if values and x is not None and len(values) != len(x) - 2:
                entries = f"{len(x) - 2} entries, one for a spatial axis"
                call.fail(f"{name}={list(values)} needs {entries}", bad)
        extra = call.attrs.get("output_padding")
        if extra:
            f = frame(call, len(extra))
            for e, stride, dilation in zip(extra, f.strides, f.dilations, strict=True):
                if e >= max(stride, dilation):
                    call.fail(
                        f"output_padding={list(extra)} must be below the stride or the dilation, "
                        f"here {stride} and {dilation}",
                        bad,
                    )

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, w = call.shape(0), call.shape(1)
        if x is None or w is None:
            return typed(call, None)
        group = call.attr("group")
        _same_rank(call, x, w, "W")
        merged(call, x[1], w[0], "channels of X and first axis of W, which is (in, out/group, ...)")
        if isinstance(w[0], int) and w[0] % group:
            call.fail(f"group={group} does not divide the {w[0]} channels of X", bad)
        channels = None if w[1] is None else w[1] * group
        check_vector(call, 2, channels, "an output channel")
        kernel = kernel_of(call, w)
        f = frame(call, len(x) - 2)
        extra = call.attrs.get("output_padding") or (0,) * (len(x) - 2)
        asked = call.attrs.get("output_shape")
        spatial: list[Size] = []
        for i, size in enumerate(x[2:]):
            full = _spread(size, kernel[i], f, i, extra[i])
            if asked:
                most = None if full is None else full + (f.strides[i] - 1)
                if isinstance(most, int) and asked[i] > most:
                    call.fail(f"output_shape={list(asked)}: axis {i} has at most {most} elements")
                spatial.append(asked[i])
            elif size is None or full is None:
                spatial.append(None)
            elif f.same:
                # The padding brings it down to size * stride, but cannot bring it up.
                spatial.append(minimum(full, size * f.strides[i]))
            else:
                out = full - (f.before[i] + f.after[i])
                if isinstance(out, int) and out < 1:
                    call.fail(f"the padding removes all {full} elements along spatial axis {i}")
                spatial.append(out)
        return typed(call, bounded(call, (x[0], channels, *spatial)))


def _spread(size: Size, kernel: Size, f: Frame, axis: int, extra: int) -> DimLike | None:
    """The extent of a transposed convolution before padding is taken off."""
    if size is None or kernel is None:
        return None
    return (size - 1) * f.strides[axis] + extent(kernel, f.dilations[axis]) + extra


class CausalConvWithState(Contraction):
    """1-D depthwise convolution over the past only, carrying the last inputs as state."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "activation", ("silu", "swish", "none"))
        for i in (0, 1, 3):
            if call.has(i):
                check_rank(call, i, 3, 3)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, w = call.shape(0) or unknown(3), call.shape(1) or unknown(3)
        channels = merged(call, x[1], w[0], "channels of input and weight")
        merged(call, w[1], 1, "weight is (channels, 1, k): its axis 1")
        check_vector(call, 2, channels, "a channel")
        carried = None if w[2] is None else w[2] - 1
        state: Shape = (x[0], channels, carried)
        past = call.shape(3) if call.has(3) else None
        if past is not None:
            state = tuple(
                merged(call, a, b, f"past_state is (batch, channels, k - 1): axis {i}")
                for i, (a, b) in enumerate(zip(state, past, strict=True))
            )
        out = TensorType(call.dtype(0), (x[0], channels, x[2]))
        return [out, TensorType(call.dtype(0), state)]


class Col2Im(Contraction):
    """Sum blocks, the columns of a matrix, back into the image that they were taken from."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 0, 3, 3)
        image, block = call.known_dims(1), call.known_dims(2)
        axes = len(image) if image is not None else len(block) if block is not None else None
        check_frame(call, axes)
        if image is not None and block is not None and len(image) != len(block):
            call.fail(f"image_shape has {len(image)} entries, block_shape {len(block)}")
        for name, sizes in (("image_shape", image), ("block_shape", block)):
            if any(isinstance(s, int) and s < 1 for s in sizes or ()):
                call.fail(f"{name}={[str(s) for s in sizes or ()]} must be of at least 1", bad)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, block, axes = call.shape(0), call.known_dims(2), cls._axes(call)
        if axes is None:
            return typed(call, None)
        image: Sequence[Size] = call.known_dims(1) or unknown(axes)
        channels: Size = None
        if x is not None and block is not None:
            taps = total(block)
            if x[1] is not None and taps is not None:
                channels = exact_quotient(x[1], taps)
                if channels is None and isinstance(x[1], int) and isinstance(taps, int):
                    call.fail(f"axis 1 of input, {x[1]}, is no multiple of the block's {taps}")
            windows = total(slid(call, image, block, frame(call, len(image))))
            merged(call, x[2], windows, "axis 2 of input and the number of blocks")
        return typed(call, bounded(call, (None if x is None else x[0], channels, *image)))

    @classmethod
    def _axes(cls, call: Call) -> int | None:
        """The number of spatial axes, which each of its settings tells."""
        given = [call.attr(name) for name in ("strides", "dilations")]
        pads = call.attr("pads")
        counts = [length(call, i) for i in (1, 2)]
        counts += [len(values) for values in (*given, (pads or ())[::2]) if values]
        told = {count for count in counts if count is not None}
        if len(told) > 1:
            call.fail(f"image_shape, block_shape and attributes are of {sorted(told)} axes", bad)
        return told.pop() if told and max(told) <= 64 else None


# -- what they share ---------------------------------------------------------------------------
def check_convolution(call: Call, x_index: int) -> None:
    """The attributes of a convolution are in range."""
    x = call.shape(x_index)
    if x is not None and len(x) < 3:
        missing = 3 - len(x)
        axes = "a spatial axis" if missing == 1 else "spatial axes"
        call.fail(f"X has {len(x)} axes: batch, channels and {axes} are needed, as (N, C, H, W)")
    if "group" in call.attrs and call.attrs["group"] < 1:
        call.fail(f"group={call.attrs['group']} must be at least 1", bad)
    check_frame(call, None if x is None else len(x) - 2)


def kernel_of(call: Call, w: Shape) -> list[Size]:
    """The window's sizes by `kernel_shape`, which has to agree with the filters."""
    kernel = list(w[2:])
    asked = call.attrs.get("kernel_shape")
    if not asked:
        return kernel
    return [
        merged(call, a, b, f"kernel_shape={list(asked)} and the shape of W, spatial axis {i}")
        for i, (a, b) in enumerate(zip(asked, kernel, strict=True))
    ]


def convolved(call: Call, x_at: int, w_at: int, bias_at: int | None) -> Shape | None:
    """The output of a convolution, all channels and sizes compared."""
    x, w = call.shape(x_at), call.shape(w_at)
    if x is None or w is None:
        return None
    _same_rank(call, x, w, "W")
    group = call.attrs.get("group", 1)
    channels, taken, filters = x[1], w[1], w[0]
    if taken is not None:
        wanted = taken * group
        if channels != wanted:
            hint = ""
            if type(channels) is int and type(wanted) is int:
                hint = _channel_hint(x, w, channels, wanted, group)
            merged(call, channels, wanted, "channels of X and those that W takes", hint)
    for count, what in ((channels, "channels of X"), (filters, "filters of W")):
        if group != 1 and type(count) is int and count % group:
            call.fail(f"group={group} does not divide the {count} {what}", bad)
    if bias_at is not None:
        check_vector(call, bias_at, filters, "a filter")
    sizes = slid(call, x[2:], kernel_of(call, w), frame(call, len(x) - 2))
    return bounded(call, (x[0], filters, *sizes))


def _same_rank(call: Call, x: Shape, w: Shape, name: str) -> None:
    if len(x) == len(w):
        return
    hint = ""
    if len(x) + 1 == len(w):
        hint = "; is the batch axis missing? ops.unsqueeze(x, [0]) adds it"
    call.fail(f"X has {len(x)} axes, {name} {len(w)}: they must have the same number{hint}")


def _channel_hint(x: Shape, w: Shape, channels: int, wanted: int, group: int) -> str:
    """What has probably been forgotten."""
    spatial = len(x) - 2
    if x[-1] == wanted:
        perm = (0, spatial + 1, *range(1, spatial + 1))
        return f"; X looks channels-last: ops.transpose(x, perm={perm}) puts the channels first"
    if group == 1 and w[-2] == channels:
        perm = (spatial + 1, spatial, *range(spatial))
        return (
            f"; W looks like (..., in, out): ops.transpose(w, perm={perm}) makes it (out, in, ...)"
        )
    if group == 1 and w[1] == 1:
        return f"; for a depthwise convolution give group={channels}"
    return f"; W is (filters, channels/group, ...), here with group={group}"

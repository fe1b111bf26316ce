"""Operators that carry a state along the sequence, which ONNX has taken over in plainer form."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.ops.base import bad, check_choice, check_range
from neuralsym.ops.contrib.base import (
    Contrib,
    Given,
    op,
    part,
    reshape,
    several,
    size,
    transpose,
    unsqueeze,
)
from neuralsym.ops.contrib.declare import FLOATS, declare, needed
from neuralsym.ops.contrib.heads import width


def _refuse(call: Call, **plain: int) -> None:
    """BadAttribute where an attribute asks for what only other kernels of onnxruntime do."""
    for name, value in plain.items():
        if call.attr(name) != value:
            call.fail(f"{name}={call.attr(name)} is not supported, only {value}", bad)


class LinearAttention(Contrib):
    """Attention by a recurrent state instead of a softmax; the state is the second output."""

    schema = declare(
        "LinearAttention",
        "query:T key:T value:T past_state:S? decay:T? beta:T?",
        "output:T present_state:S",
        {"T": FLOATS, "S": FLOATS},
        {
            "chunk_size": 64,
            "kv_num_heads": needed("INT"),
            "q_num_heads": needed("INT"),
            "scale": 0.0,
            "state_window": 0,
            "update_rule": "gated_delta",
        },
    )
    ranks = "query:3 key:3 value:3 past_state:4 decay:3 beta:3"

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "update_rule", ("linear", "gated", "delta", "gated_delta"))
        _refuse(call, state_window=0)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        names = ("chunk_size", "kv_num_heads", "scale", "update_rule")
        attrs = {name: given.attr(name) for name in names}
        q, heads, kv_heads = given[0], given.attr("q_num_heads"), given.attr("kv_num_heads")
        if heads < kv_heads and not kv_heads % heads:
            # Several heads of keys share one of queries, which ONNX does not know.
            one = width(q) // heads
            wide = op(
                "Expand",
                unsqueeze(reshape(q, 0, 0, heads, one), 3),
                [1, 1, 1, kv_heads // heads, 1],
            )
            q, heads = reshape(wide, 0, 0, kv_heads * one), kv_heads
            if not attrs["scale"]:
                attrs["scale"] = one**-0.5
        inputs = [q, *given.inputs[1:]]
        return several("LinearAttention", inputs, 2, q_num_heads=heads, **attrs)


class CausalConvWithState(Contrib):
    """A convolution of each channel with the places before it; those last seen are the state."""

    schema = declare(
        "CausalConvWithState",
        "input:T weight:T bias:T? past_state:T?",
        "output:T present_state:T state_update:T?",
        {"T": FLOATS},
        {
            "activation": "none",
            "channels_last": 0,
            "dilation": 1,
            "input_channel_offset": 0,
            "input_channels": 0,
            "ndim": 1,
            "state_channels_last": -1,
            "state_length": 0,
            "state_update_capacity": 0,
            "state_window": 0,
        },
    )

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "activation", ("none", "silu", "swish"))
        check_choice(call, "channels_last", (0, 1))
        check_range(call, "dilation", 1, 2**20)
        _refuse(
            call,
            input_channel_offset=0,
            input_channels=0,
            ndim=1,
            state_channels_last=-1,
            state_length=0,
            state_update_capacity=0,
            state_window=0,
        )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        x, past = given[0], given.optional(3)
        shape = op("Shape", x)
        last = given.attr("channels_last")
        if last:
            x = transpose(reshape(x, 0, 0, -1), 0, 2, 1)
            past = None if past is None else transpose(reshape(past, 0, 0, -1), 0, 2, 1)
        weight = given[1]
        kernel = width(weight)
        held = (kernel - 1) * given.attr("dilation")
        if past is None:
            seen = op("Pad", x, [0, 0, held, 0, 0, 0])
        else:
            seen = op("Concat", past, x, axis=2)
        channels = width(weight, 0)
        dilations = (given.attr("dilation"),)
        y = op("Conv", seen, weight, given.optional(2), group=channels, dilations=dilations)
        if given.attr("activation") != "none":
            y = y * op("Sigmoid", y)
        total = size(seen, 2)
        state = part(seen, 2, total - [held], total)
        if last:
            y = op("Reshape", transpose(y, 0, 2, 1), shape)
            rest = op("Slice", shape, [2], [2**31], [0])
            ends = op("Concat", size(x, 0), [held], rest, axis=0)
            state = op("Reshape", transpose(state, 0, 2, 1), ends)
        return [y, state]

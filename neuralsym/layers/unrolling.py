"""How a recurrence runs over a sequence: layers, directions, masks and states around the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch, TypeMismatch, did_you_mean
from neuralsym.layers.base import Result, require_between, require_shape
from neuralsym.layers.gates import GRU, LSTM, RNN, Recurrence, Weights
from neuralsym.layers.masks import Packed, checked_mask
from neuralsym.layers.window import LARGEST_STACK

MERGES = ("concat", "sum", "ave", "mul")
_OPERATORS = {LSTM: ops.lstm, GRU: ops.gru, RNN: ops.rnn}


@dataclass(frozen=True)
class Unfolding:
    """The settings of a recurrent layer that are not about its step."""

    num_layers: int
    bidirectional: bool
    merge_mode: str | None
    return_sequences: bool
    return_state: bool
    go_backwards: bool
    zero_output_for_mask: bool

    def __post_init__(self) -> None:
        mode = self.merge_mode
        require_between("num_layers", self.num_layers, 1, LARGEST_STACK)
        if mode is not None and mode not in MERGES:
            known = ", ".join(map(repr, MERGES))
            raise BadAttribute(
                f"merge_mode={mode!r} is none of {known} and None{did_you_mean(str(mode), MERGES)}"
            )
        if mode is None and self.bidirectional and self.num_layers > 1:
            raise BadAttribute("merge_mode=None gives two outputs, of which a stack feeds one on")
        if self.bidirectional and self.go_backwards:
            raise BadAttribute("a bidirectional layer goes both ways; leave go_backwards out")

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def direction(self) -> str:
        if self.bidirectional:
            return "bidirectional"
        return "reverse" if self.go_backwards else "forward"


def unfold(
    given: Symbol | Sequence[Symbol],
    recurrence: Recurrence,
    how: Unfolding,
    *,
    mask: Symbol | None,
    lengths: Symbol | None,
    initial_state: Symbol | Sequence[Symbol] | None,
) -> Result:
    """What a recurrent layer gives for x [N, T, F], or for (x, mask), (x, h, c) and the like."""
    x, mask, lengths, states = _sorted(given, mask, lengths, initial_state)
    require_shape(x, rank=3, axis=2)
    packed = None
    if mask is not None:
        if lengths is not None:
            raise BadAttribute("mask and lengths say the same twice; give one of them")
        packed = Packed.of(x, checked_mask(mask, x))
        x, lengths = packed.values, packed.lengths
    if lengths is not None:
        _check_lengths(lengths)
        lengths = lengths if lengths.dtype == "int32" else ops.cast(lengths, to="int32")
    firsts = _initial(states, x, recurrence, how)
    flow = ops.transpose(x, perm=(1, 0, 2))
    ends: list[Symbol] = []
    for number in range(how.num_layers):
        suffix = f"_{number}" if number else ""
        features = require_shape(flow, axis=2)[2]
        made = recurrence.weights(features, how.directions, x.dtype, suffix)
        last = number == how.num_layers - 1
        count = recurrence.kind.states
        first = firsts[number * count : (number + 1) * count]
        y, *final = _layer(flow, recurrence, how, made, first, lengths)
        shown = final[0]
        if lengths is not None and first[0] is not None:
            shown, final = _without_steps(final, first, lengths)
        ends += final
        if not last:
            (flow,) = _merged(y, how, batch_first=False)
    if how.return_sequences:
        outputs = [_settled(o, packed, how) for o in _merged(y, how, batch_first=True)]
    else:
        outputs = _last(shown, how)
    if not how.return_state:
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
    count = recurrence.kind.states
    for number in range(how.num_layers):
        own = ends[number * count : (number + 1) * count]
        for direction in range(how.directions):
            outputs += [_one_direction(state, direction, how) for state in own]
    return tuple(outputs)


# -- what comes in -----------------------------------------------------------------------------
def _sorted(
    given: Symbol | Sequence[Symbol],
    mask: Symbol | None,
    lengths: Symbol | None,
    initial_state: Symbol | Sequence[Symbol] | None,
) -> tuple[Symbol, Symbol | None, Symbol | None, list[Symbol]]:
    """x, mask, lengths and states, wherever they were given."""
    x, *rest = [given] if isinstance(given, Symbol) else list(given)
    states = [s for s in rest if s.dtype.is_float]
    others = [s for s in rest if not s.dtype.is_float]
    if len(others) > 1 or (others and (mask is not None or lengths is not None)):
        raise BadAttribute("takes one mask or one vector of lengths beside the sequence")
    for other in others:
        if other.dtype == "bool":
            mask = other
        else:
            lengths = other
    if initial_state is not None:
        if states:
            raise BadAttribute("initial states came through the pipe and in initial_state; once")
        one = isinstance(initial_state, Symbol)
        states = [initial_state] if one else list(initial_state)  # type: ignore[list-item]
    return x, mask, lengths, states


def _check_lengths(lengths: Symbol) -> None:
    if not lengths.dtype.is_integer:
        raise TypeMismatch(f"lengths are integers [N], came {lengths.type}")
    if lengths.rank not in (None, 1):
        raise ShapeMismatch(f"lengths are integers [N], came {lengths.type}")


def _initial(
    states: list[Symbol], x: Symbol, recurrence: Recurrence, how: Unfolding
) -> list[Symbol | None]:
    """Each layer's first states [directions, N, units], h then c; None where there are none."""
    count = recurrence.kind.states
    wanted = how.num_layers * how.directions * count
    if not states:
        return [None] * (how.num_layers * count)
    if len(states) != wanted:
        raise BadAttribute(
            f"takes {wanted} initial states of [N, {recurrence.units}], {len(states)} came"
        )
    for state in states:
        if require_shape(state, rank=2)[1] != recurrence.units:
            raise ShapeMismatch(f"an initial state is [N, {recurrence.units}], came {state.type}")
        if state.dtype != x.dtype:
            raise TypeMismatch(f"an initial state is {x.dtype} as its sequence, came {state.type}")
    found: list[Symbol | None] = []
    per = how.directions * count
    for number in range(how.num_layers):
        own = states[number * per : (number + 1) * per]
        for i in range(count):
            parts = [ops.unsqueeze(s, [0]) for s in own[i::count]]
            found.append(parts[0] if len(parts) == 1 else ops.concat(parts, axis=0))
    return found


# -- one layer, time first ---------------------------------------------------------------------
def _layer(
    x: Symbol,
    recurrence: Recurrence,
    how: Unfolding,
    made: Weights,
    first: list[Symbol | None],
    lengths: Symbol | None,
) -> list[Symbol]:
    """Y [T, directions, N, units] and the final states [directions, N, units]."""
    said = recurrence.fused()
    if said is None:
        return _scanned(x, recurrence, how, made, first, lengths)
    kind = recurrence.kind
    settings: dict[str, Any] = {"hidden_size": recurrence.units, "direction": how.direction}
    settings |= {key: _doubled(value, how) for key, value in said.items()}
    if kind is GRU:
        settings["linear_before_reset"] = int(recurrence.reset_after)
    states = {"initial_h": first[0]} | ({"initial_c": first[1]} if kind is LSTM else {})
    bias = made.onnx_bias(kind.gates * recurrence.units)
    run: Any = _OPERATORS[kind]
    return list(
        run(
            x,
            made.kernel,
            made.recurrent,
            bias,
            lengths,
            **states,
            **settings,
            outputs=1 + kind.states,
        )
    )


def _without_steps(
    final: list[Symbol], first: list[Symbol | None], lengths: Symbol
) -> tuple[Symbol, list[Symbol]]:
    """The output and the final states, where an entry may have no step at all.

    Such an entry keeps its first states and its output is zeros, as in Keras; runtimes differ in
    what their operator gives for it.
    """
    some = ops.unsqueeze(lengths > 0, [0, 2])
    kept = [ops.where(some, a, b) for a, b in zip(final, first, strict=True) if b is not None]
    return ops.where(some, final[0], 0.0), kept


def _doubled(values: list[Any] | None, how: Unfolding) -> list[Any] | None:
    return None if values is None else values * how.directions


def _scanned(
    x: Symbol,
    recurrence: Recurrence,
    how: Unfolding,
    made: Weights,
    first: list[Symbol | None],
    lengths: Symbol | None,
) -> list[Symbol]:
    """The same by a Scan for each direction, for activations that the operators do not know."""
    results = [
        _one_way(x, recurrence, _slice(made, d, how), first, d, how, lengths)
        for d in range(how.directions)
    ]
    axes = [1, *[0] * recurrence.kind.states]
    return [
        ops.unsqueeze(parts[0], [axis])
        if len(parts) == 1
        else ops.concat([ops.unsqueeze(p, [axis]) for p in parts], axis=axis)
        for axis, parts in zip(axes, zip(*results, strict=True), strict=True)
    ]


def _one_way(
    x: Symbol,
    recurrence: Recurrence,
    made: Weights,
    first: list[Symbol | None],
    number: int,
    how: Unfolding,
    lengths: Symbol | None,
) -> list[Symbol]:
    count = recurrence.kind.states
    zeros = None
    states: list[Symbol] = []
    for state in first:
        if state is not None:
            states.append(ops.gather(state, constant(np.int64(number)), axis=0))
            continue
        if zeros is None:
            batch = ops.shape(x, start=1, end=2)
            size = ops.concat([batch, constant(np.array([recurrence.units], np.int64))], axis=0)
            zeros = ops.expand(constant(np.zeros((1, 1)), str(x.dtype)), size)
        states.append(zeros)
    inputs = [x]
    if lengths is not None:
        steps = ops.range(0, ops.squeeze(ops.shape(x, start=0, end=1), [0]), 1)
        wide = ops.cast(ops.unsqueeze(lengths, [0]), to="int64")
        inputs.append(ops.unsqueeze(ops.unsqueeze(steps, [1]) < wide, [2]))

    def body(*given: Symbol) -> tuple[Symbol, ...]:
        old, here = given[:count], given[count:]
        new = recurrence.step(here[0], old, made)
        if len(here) == 1:
            return (*new, new[0])
        kept = tuple(ops.where(here[1], a, b) for a, b in zip(new, old, strict=True))
        return (*kept, ops.where(here[1], new[0], 0.0))

    back = int(how.go_backwards or number == 1)
    *final, y = ops.scan(
        body,
        states,
        inputs,
        input_directions=[back] * len(inputs),
        output_directions=[back],
    )
    return [y, *final]


def _slice(made: Weights, direction: int, how: Unfolding) -> Weights:
    """The weights of one direction, still with their first axis."""
    if how.directions == 1:
        return made
    parts = (ops.split(w, None, axis=0, num_outputs=2) for w in (made.kernel, made.recurrent))
    kernel, recurrent = (p[direction] for p in parts)
    bias = made.bias
    if bias is not None:
        bias = ops.split(bias, None, axis=0, num_outputs=2)[direction]
    return Weights(kernel, recurrent, bias)


# -- what goes out -----------------------------------------------------------------------------
def _merged(y: Symbol, how: Unfolding, *, batch_first: bool) -> list[Symbol]:
    """Y [T, directions, N, units] as the layer gives it: [N, T, ...], or [T, N, ...]."""
    if how.directions == 1:
        flat = ops.squeeze(y, [1])
        return [ops.transpose(flat, perm=(1, 0, 2)) if batch_first else flat]
    if how.merge_mode == "concat":
        order = (2, 0, 1, 3) if batch_first else (0, 2, 1, 3)
        wide = 2 * require_shape(y, axis=3)[3]
        return [ops.reshape(ops.transpose(y, perm=order), [0, 0, wide])]
    joined = _joined(y, how.merge_mode, 1)
    return [ops.transpose(j, perm=(1, 0, 2)) if batch_first else j for j in joined]


def _joined(y: Symbol, mode: str | None, axis: int) -> list[Symbol]:
    if mode == "sum":
        return [ops.reduce_sum(y, [axis], keepdims=0)]
    if mode == "ave":
        return [ops.reduce_mean(y, [axis], keepdims=0)]
    if mode == "mul":
        return [ops.reduce_prod(y, [axis], keepdims=0)]
    return [ops.squeeze(p, [axis]) for p in ops.split(y, None, axis=axis, num_outputs=2)]


def _last(h: Symbol, how: Unfolding) -> list[Symbol]:
    """The final h [directions, N, units] as the output of a layer that returns no sequence."""
    if how.directions == 1:
        return [ops.squeeze(h, [0])]
    if how.merge_mode == "concat":
        wide = 2 * require_shape(h, axis=2)[2]
        return [ops.reshape(ops.transpose(h, perm=(1, 0, 2)), [0, wide])]
    return _joined(h, how.merge_mode, 0)


def _one_direction(state: Symbol, direction: int, how: Unfolding) -> Symbol:
    if how.directions == 1:
        return ops.squeeze(state, [0])
    return ops.squeeze(ops.split(state, None, axis=0, num_outputs=2)[direction], [0])


def _settled(y: Symbol, packed: Packed | None, how: Unfolding) -> Symbol:
    """A sequence [N, T, units] with masked steps in their places, backwards where asked."""
    if packed is not None:
        zero = how.zero_output_for_mask or how.bidirectional
        y = packed.back(y, zero=zero, reverse=how.go_backwards)
    if how.go_backwards:
        y = ops.slice(y, [-1], [-(2**63) + 1], [1], [-1])
    return y

"""The values of RNN, GRU and LSTM by numpy: what constants are folded to, where no kernel runs.

onnx's reference evaluator takes no notice of `sequence_lens`, `clip` or reversed sequences of
different lengths; here all of the specification holds. Computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.scalar import Scalar
from neuralsym.core.symbol import Node
from neuralsym.dtypes import NumberType
from neuralsym.errors import ExecutionError
from neuralsym.ops.values import compute

Array = NDArray[Any]
Function = Callable[[Array], Array]


def recurrent_values(
    node: Node, values: Sequence[Any], gates: int, functions: Sequence[Sequence[Scalar]]
) -> list[Array]:
    """Y, Y_h and Y_c for values of the inputs; `functions` are those of each direction."""
    given = [None if v is None else np.asarray(v) for v in values]
    given += [None] * (8 - len(given))
    x, w, r = (_wide(v) for v in given[:3])
    by_batch = bool(node.attr("layout"))
    if by_batch:
        x = x.swapaxes(0, 1)
    steps, batch, _ = x.shape
    directions, _, units = r.shape
    lengths = np.full(batch, steps) if given[4] is None else given[4]
    if ((lengths < 0) | (lengths > steps)).any():
        raise ExecutionError(f"sequence_lens={lengths.tolist()} goes outside 0 to {steps}")
    y = np.zeros((steps, directions, batch, units))
    last = np.zeros((2, directions, batch, units))
    for i, first in enumerate(given[5:7]):
        if first is not None:
            last[i] = _wide(first).swapaxes(0, 1) if by_batch else _wide(first)
    for d in range(directions):
        backwards = d == 1 or node.attr("direction") == "reverse"
        bias = np.zeros((2, gates, units))
        if given[3] is not None:
            bias = _wide(given[3])[d].reshape(2, gates, units)
        peepholes = np.zeros((3, units))
        if given[7] is not None:
            peepholes = _wide(given[7])[d].reshape(3, units)
        applied = [_function(expr) for expr in functions[d]]
        matrices = (w[d].reshape(gates, units, -1), r[d].reshape(gates, units, units))
        cell = _CELLS[node.op.__name__]
        h, c = last[0, d], last[1, d]
        for step in range(steps):
            running = step < lengths
            place = np.where(running & backwards, lengths - 1 - step, step)
            here = x[place, np.arange(batch)]
            into = np.einsum("bi,gui->bgu", here, matrices[0]) + bias[0]
            new_h, new_c = cell(node, applied, into, matrices[1], bias[1], peepholes, h, c)
            h = np.where(running[:, None], new_h, h)
            c = np.where(running[:, None], new_c, c)
            y[place[running], d, np.flatnonzero(running)] = h[running]
        last[0, d], last[1, d] = h, c
    results = [y, last[0], last[1]]
    if by_batch:
        results = [y.transpose(2, 0, 1, 3), last[0].swapaxes(0, 1), last[1].swapaxes(0, 1)]
    kinds = [symbol.dtype.numpy for symbol in node.outputs]
    return [v.astype(kind) for v, kind in zip(results, kinds, strict=False)]


def _wide(value: Any) -> Array:
    return np.asarray(value).astype(np.float64)


def _function(expr: Scalar) -> Function:
    return lambda x: np.asarray(compute(expr, [x], NumberType.FLOAT64))


def _product(h: Array, r: Array) -> Array:
    made: Array = np.einsum("bk,guk->bgu", h, r)
    return made


def _rnn(
    node: Node, f: list[Function], into: Array, r: Array, b: Array, p: Array, h: Array, c: Array
) -> tuple[Array, Array]:
    return f[0]((into + _product(h, r) + b)[:, 0]), c


def _gru(
    node: Node, f: list[Function], into: Array, r: Array, b: Array, p: Array, h: Array, c: Array
) -> tuple[Array, Array]:
    gated = f[0]((into + _product(h, r) + b)[:, :2])
    update, reset = gated[:, 0], gated[:, 1]
    if node.attr("linear_before_reset"):
        inner = reset * (_product(h, r[2:])[:, 0] + b[2])
    else:
        inner = _product(reset * h, r[2:])[:, 0] + b[2]
    return (1 - update) * f[1](into[:, 2] + inner) + update * h, c


def _lstm(
    node: Node, f: list[Function], into: Array, r: Array, b: Array, p: Array, h: Array, c: Array
) -> tuple[Array, Array]:
    enter, leave, forget, new = (into + _product(h, r) + b).swapaxes(0, 1)
    enter = f[0](enter + p[0] * c)
    forget = 1 - enter if node.attr("input_forget") else f[0](forget + p[2] * c)
    state = forget * c + enter * f[1](new)
    return f[0](leave + p[1] * state) * f[2](state), state


_CELLS: dict[str, Callable[..., tuple[Array, Array]]] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}

"""The values of operators with bodies: If, Loop, Scan and SequenceMap walk their graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Node
from neuralsym.core.types import TensorType
from neuralsym.errors import ExecutionError, at_line
from neuralsym.ops.evaluate import Value, evaluate_graph

Run = Callable[[Graph, Sequence[Value]], list[Value]]


def run_body(body: Graph, values: Sequence[Value]) -> list[Value]:
    """A body on values of its parameters, the captures last, node by node."""
    return evaluate_graph(body, dict(zip(body.inputs, values, strict=True)))


def _truth(value: Value, default: bool) -> bool:
    return default if value is None else bool(np.asarray(value).reshape(-1)[0])


def evaluate_if(
    node: Node, values: Sequence[Value], captured: Sequence[Value], run: Run = run_body
) -> Sequence[Value]:
    """The outputs of the branch that the condition chooses."""
    branch = "then_branch" if _truth(values[0], False) else "else_branch"
    return run(node.attrs[branch], captured)


def evaluate_loop(
    node: Node, values: Sequence[Value], captured: Sequence[Value], run: Run = run_body
) -> Sequence[Value]:
    """body(i, condition, states...) -> (condition, states..., items...) while it holds."""
    body: Graph = node.attrs["body"]
    limit = None if values[0] is None else int(np.asarray(values[0]).reshape(-1)[0])
    condition = _truth(values[1] if len(values) > 1 else None, True)
    states = list(values[2:])
    items: list[list[Value]] = [[] for _ in range(len(body.outputs) - 1 - len(states))]
    step = 0
    while condition and (limit is None or step < limit):
        given = (np.array(step, np.int64), np.array(condition), *states, *captured)
        ongoing, *made = run(body, given)
        condition = _truth(ongoing, True)
        states = made[: len(states)]
        for kept, item in zip(items, made[len(states) :], strict=True):
            kept.append(item)
        step += 1
    types = [symbol.type for symbol in body.outputs[1 + len(states) :]]
    return [*states, *(_stacked(i, t, 0) for i, t in zip(items, types, strict=True))]


def _stacked(items: Sequence[Value], type: Any, axis: int) -> NDArray[Any]:
    if items:
        return np.stack([np.asarray(i) for i in items], axis)
    assert isinstance(type, TensorType)
    sizes = [d if isinstance(d, int) else 0 for d in type.shape or ()]
    sizes.insert(axis, 0)
    return np.empty(sizes, type.dtype.numpy)


def evaluate_scan(
    node: Node, values: Sequence[Value], captured: Sequence[Value], run: Run = run_body
) -> Sequence[Value]:
    """body(states..., slices...) -> (states..., items...) along the axes of the scanned inputs."""
    body: Graph = node.attrs["body"]
    scanned = node.attrs["num_scan_inputs"]
    count = len(values) - scanned
    states, sequences = list(values[:count]), [np.asarray(v) for v in values[count:]]
    results = len(body.outputs) - count
    axes = node.attrs.get("scan_input_axes") or (0,) * scanned
    reverse = node.attrs.get("scan_input_directions") or (0,) * scanned
    out_axes = node.attrs.get("scan_output_axes") or (0,) * results
    out_reverse = node.attrs.get("scan_output_directions") or (0,) * results
    lengths = {s.shape[a] for s, a in zip(sequences, axes, strict=True)}
    if len(lengths) != 1:
        raise ExecutionError(
            f"{node.describe()}: the scanned inputs have lengths {sorted(lengths)}, which must "
            f"agree{at_line(node.where)}"
        )
    (length,) = lengths
    items: list[list[Value]] = [[] for _ in range(results)]
    for step in range(length):
        slices = [
            np.take(s, length - 1 - step if r else step, axis=a)
            for s, a, r in zip(sequences, axes, reverse, strict=True)
        ]
        made = run(body, [*states, *slices, *captured])
        states = made[:count]
        for kept, item in zip(items, made[count:], strict=True):
            kept.append(item)
    stacked = []
    for symbol, kept, axis, back in zip(
        body.outputs[count:], items, out_axes, out_reverse, strict=True
    ):
        rank = np.asarray(kept[0]).ndim + 1 if kept else (symbol.tensor.rank or 0) + 1
        place = axis + rank if axis < 0 else axis
        stacked.append(_stacked(kept[::-1] if back else kept, symbol.type, place))
    return [*states, *stacked]


def evaluate_sequence_map(
    node: Node, values: Sequence[Value], captured: Sequence[Value], run: Run = run_body
) -> Sequence[Value]:
    """The body on each element; a further input is a sequence of as many, or one value for all."""
    body: Graph = node.attrs["body"]
    first, *others = values
    assert isinstance(first, list)
    results: list[list[Value]] = [[] for _ in body.outputs]
    for place, element in enumerate(first):
        given = [o[place] if isinstance(o, list) else o for o in others]
        for kept, item in zip(results, run(body, [element, *given, *captured]), strict=True):
            kept.append(item)
    return results


BODIES: dict[str, Callable[..., Sequence[Value]]] = {
    "If": evaluate_if,
    "Loop": evaluate_loop,
    "Scan": evaluate_scan,
    "SequenceMap": evaluate_sequence_map,
}
"""Operator -> how its bodies are walked; a last argument says how a body is run."""

"""The functions that take Python functions as bodies: if_, loop, scan, sequence_map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from neuralsym.core.body import Traced, close, parameter_names, refitted, trace
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import constant
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Symbol, SymbolLike
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import BadAttribute, TypeMismatch, Where, at_line, user_line
from neuralsym.ops.control import If, Loop, Scan, SequenceMap, element


def if_(
    condition: SymbolLike,
    then: Callable[[], Any],
    else_: Callable[[], Any],
    *,
    name: str | None = None,
) -> Any:
    """What `then()` gives where the condition holds, else what `else_()` gives.

    condition: one bool. then, else_: functions without parameters that give a symbol, or as many
    as one another in a tuple; only the one chosen is computed. They may use any symbol around.
    Sizes in which the two differ are unknown in the result. Raises TypeMismatch when the number
    types differ. (ONNX: If)
    """
    where = user_line()
    branches = [trace(then, (), "then of if_", where), trace(else_, (), "else_ of if_", where)]
    (then_graph, else_graph), captures = close(branches)
    attrs = {"then_branch": then_graph, "else_branch": else_graph}
    count = len(then_graph.outputs)
    made = apply(If, [condition], attrs, outputs=count, name=name, captures=captures, where=where)
    return made[0] if branches[0].single else made


def loop(
    max_trips: SymbolLike | None,
    condition: SymbolLike | None,
    body: Callable[..., Any],
    *state: SymbolLike,
    name: str | None = None,
) -> Any:
    """Repeat `body(i, *state)` and give the last states, then the stacked items.

    max_trips: how often at most, None for no limit. condition: None, or one bool that says
    whether to begin. body: gives the new states, then items of which each trip adds one to a
    stack along a new first axis; with a condition, it gives first of all whether to go on. A
    single result is a Symbol, several are a tuple. State whose shape changes from trip to trip
    has unknown sizes. Raises TypeMismatch when a state changes its number type. (ONNX: Loop)
    """
    where = user_line()
    if max_trips is None and condition is None:
        raise BadAttribute(f"loop needs max_trips or a condition, or never ends{at_line(where)}")
    states = [_symbol(s) for s in state]
    asked = condition is not None

    def step(i: Symbol, ongoing: Symbol, *given: Symbol) -> list[Any]:
        result = body(i, *given)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        return results if asked else [ongoing, *results]

    head: list[Type] = [TensorType(NumberType.INT64, ()), TensorType(NumberType.BOOL, ())]
    traced = trace(step, [*head, *(s.type for s in states)], "the body of loop", where)
    traced = _renamed(traced, ["i", "condition"], body, 1)
    _check_count(traced, 1 + len(states), "loop", where)
    (graph,), captures = close([traced])
    graph = _settled(traced, graph, captures, slice(2, 2 + len(states)), 1)
    inputs = [_whole(max_trips), _flag(condition), *states]
    count = len(graph.outputs) - 1
    if count == 0:
        raise BadAttribute(f"loop gives nothing: its body has no results{at_line(where)}")
    made = apply(
        Loop, inputs, {"body": graph}, outputs=count, name=name, captures=captures, where=where
    )
    return made[0] if count == 1 else made


def scan(
    body: Callable[..., Any],
    state: SymbolLike | Sequence[SymbolLike] = (),
    inputs: SymbolLike | Sequence[SymbolLike] = (),
    *,
    input_axes: Sequence[int] | None = None,
    input_directions: Sequence[int] | None = None,
    output_axes: Sequence[int] | None = None,
    output_directions: Sequence[int] | None = None,
    name: str | None = None,
) -> Any:
    """Take `body(*state, *slices)` along the inputs and give the last states, then stacked items.

    state, inputs: a symbol or several in a tuple or list. body: gives the new states, then items,
    each stacked. Axes default to the first; a direction of 1 goes backwards. A single result is a
    Symbol, several are a tuple. Raises ShapeMismatch when the inputs' lengths differ. (ONNX: Scan)
    """
    where = user_line()
    states, scanned = [_symbol(s) for s in _list(state)], [_symbol(s) for s in _list(inputs)]
    if not scanned:
        raise BadAttribute(f"scan needs inputs to go along{at_line(where)}")
    axes = tuple(input_axes or (0,) * len(scanned))
    slices = []
    for symbol, axis in zip(scanned, axes, strict=False):
        shape = symbol.shape
        if shape is not None and -len(shape) <= axis < len(shape):
            shape = tuple(d for i, d in enumerate(shape) if i != axis % len(shape))
        slices.append(TensorType(symbol.dtype, shape))
    types = [*(s.type for s in states), *slices]
    traced = trace(body, types, "the body of scan", where)
    _check_count(traced, len(states), "scan", where)
    (graph,), captures = close([traced])
    graph = _settled(traced, graph, captures, slice(0, len(states)), 0)
    attrs = {
        "body": graph,
        "num_scan_inputs": len(scanned),
        "scan_input_axes": input_axes,
        "scan_input_directions": input_directions,
        "scan_output_axes": output_axes,
        "scan_output_directions": output_directions,
    }
    count = len(graph.outputs)
    made = apply(
        Scan, [*states, *scanned], attrs, outputs=count, name=name, captures=captures, where=where
    )
    return made[0] if count == 1 else made


def sequence_map(
    body: Callable[..., Any],
    sequence: Symbol,
    *additional: SymbolLike,
    name: str | None = None,
) -> Any:
    """The sequence of what `body(element, *additional)` gives for each element.

    additional: sequences of the same length, of which the body gets an element, or tensors that
    it gets as they are. Several results are a tuple of sequences. (ONNX: SequenceMap)
    """
    where = user_line()
    symbols = [_symbol(s) for s in (sequence, *additional)]
    traced = trace(body, [element(s) for s in symbols], "the body of sequence_map", where)
    (graph,), captures = close([traced])
    made = apply(
        SequenceMap,
        symbols,
        {"body": graph},
        outputs=len(graph.outputs),
        name=name,
        captures=captures,
        where=where,
    )
    return made[0] if traced.single else made


# -- what they share ----------------------------------------------------------------------------
def _list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (tuple, list)) else [given]


def _symbol(given: SymbolLike) -> Symbol:
    return given if isinstance(given, Symbol) else constant(Tensor.of(given))


def _whole(given: SymbolLike | None) -> Symbol | None:
    if given is None or isinstance(given, Symbol):
        return given
    return constant(np.asarray(given), "int64")


def _flag(given: SymbolLike | None) -> Symbol | None:
    if given is None or isinstance(given, Symbol):
        return given
    return constant(np.asarray(given), "bool")


def _renamed(traced: Traced, head: list[str], body: Callable[..., Any], skip: int) -> Traced:
    """The traced body with the parameters called as in the user's function."""
    own = parameter_names(body, len(traced.parameters))
    return replace(traced, names=(*own[:skip], *head[skip:], *own[skip:]))


def _check_count(traced: Traced, least: int, function: str, where: Where | None) -> None:
    if len(traced.outputs) < least:
        raise BadAttribute(
            f"the body of {function} gives {len(traced.outputs)} results, {least} are needed: "
            f"one new state for each{at_line(where)}"
        )


def _settled(
    traced: Traced, graph: Graph, captures: Sequence[Symbol], states: slice, results: int
) -> Graph:
    """The body with states of types that hold in every trip; an error names the user's line."""
    types = [s.type for s in traced.parameters]
    try:
        return refitted(graph, types, captures, states, results)
    except TypeMismatch as error:
        raise TypeMismatch(f"{traced.title}: {error}{at_line(traced.where)}") from None


CONTROL_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "if_": if_,
    "loop": loop,
    "scan": scan,
    "sequence_map": sequence_map,
}
"""The functions that take Python functions as bodies."""

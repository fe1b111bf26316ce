"""Bodies: Python functions on symbols, traced once into closed graphs.

What a function uses of the graph around it becomes a capture: a further operand of the node, with
one parameter inside of each of its bodies. Small constants are used as they are. Weights are
captured wherever they are made, so that a whole graph holds them all, once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from neuralsym.core.check import agree
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Variable, Weight, constant, make_variable
from neuralsym.core.naming import Kept
from neuralsym.core.op import KNOWN_LIMIT
from neuralsym.core.scope import CURRENT
from neuralsym.core.symbol import LEVEL, Level, Node, Symbol, body_level
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import alike, renewed
from neuralsym.core.types import OptionalType, SequenceType, TensorType, Type
from neuralsym.errors import GraphError, NeuralsymError, TypeMismatch, Where, at_line


@dataclass(frozen=True)
class Traced:
    """A function's symbols before its captures are settled."""

    title: str
    level: Level
    parameters: tuple[Symbol, ...]
    names: tuple[str, ...]
    outputs: tuple[Symbol, ...]
    single: bool
    captured: tuple[Symbol, ...]
    where: Where | None


def trace(
    function: Callable[..., Any], types: Sequence[Type], title: str, where: Where | None
) -> Traced:
    """Call `function` on parameters of these types, and find what it uses from outside.

    `title` names the body in messages (`the body of loop`). Raises TypeMismatch when the function
    gives anything but symbols, numbers and arrays, GraphError when it makes a variable.
    """
    if not callable(function):
        raise TypeMismatch(f"{title} is a function, not {function!r}{at_line(where)}")
    token = CURRENT.set(None)
    try:
        with body_level() as level:
            parameters = tuple(make_variable(None, t) for t in types)
            result = function(*parameters)
            single = not isinstance(result, (tuple, list))
            outputs = tuple(
                _lifted(r, title, where) for r in ([result] if single else list(result))
            )
    finally:
        CURRENT.reset(token)
    captured = tuple(_captured(outputs, level, set(parameters), title, where))
    names = parameter_names(function, len(types))
    return Traced(title, level, parameters, names, outputs, single, captured, where)


def close(traced: Sequence[Traced]) -> tuple[list[Graph], tuple[Symbol, ...]]:
    """The closed graphs of some bodies of one node, and the captures that they all take."""
    captures = tuple(dict.fromkeys(s for each in traced for s in each.captured))
    return [_closed(each, captures) for each in traced], captures


def _lifted(given: Any, title: str, where: Where | None) -> Symbol:
    if isinstance(given, Symbol):
        return given
    try:
        return constant(Tensor.of(given))
    except (NeuralsymError, ValueError, TypeError):
        raise TypeMismatch(
            f"{title} gives {type(given).__name__}, not symbols{at_line(where)}"
        ) from None


def _captured(
    outputs: Sequence[Symbol],
    level: Level,
    parameters: set[Symbol],
    title: str,
    where: Where | None,
) -> Iterator[Symbol]:
    """The symbols of other levels behind the outputs, in order of first use."""
    seen: set[Symbol] = set()
    stack = list(reversed(outputs))
    while stack:
        symbol = stack.pop()
        if symbol in seen:
            continue
        seen.add(symbol)
        node = symbol.node
        if node.op is Constant and node.attrs["value"].size <= KNOWN_LIMIT:
            continue
        if node.op is Weight or node.level is not level:
            yield symbol
        elif node.op is Variable and symbol not in parameters:
            raise GraphError(
                f"{title} makes {node.describe()}: what a run feeds is made outside"
                f"{at_line(node.where or where)}"
            )
        else:
            stack.extend(reversed(node.operands))


def _closed(traced: Traced, captures: Sequence[Symbol]) -> Graph:
    """The graph of a body, with a parameter in the place of each capture."""
    new: dict[Symbol, Symbol] = {}
    with _inside(traced.level):
        for symbol in captures:
            new[symbol] = standing_for(symbol)
        _substitute(traced.outputs, new)
    inputs = [*traced.parameters, *(new[s] for s in captures)]
    wanted: dict[Node, str] = {}
    for symbol, name in zip(inputs, traced.names, strict=False):
        wanted[symbol.node] = name
    for symbol in captures:
        outer = symbol.node.name or symbol.node.label
        if outer is not None:
            wanted[new[symbol].node] = outer
    return Graph(
        [new.get(s, s) for s in traced.outputs],
        inputs,
        "body",
        keep=Kept({}, wanted),
    )


@contextmanager
def _inside(level: Level) -> Iterator[None]:
    token = LEVEL.set(level)
    try:
        yield
    finally:
        LEVEL.reset(token)


def standing_for(symbol: Symbol) -> Symbol:
    """A parameter of the type of an outer symbol, whose value is no less known inside."""
    attrs: Mapping[str, Any] = {"type": symbol.type}
    known = (symbol.known,) if isinstance(symbol.type, TensorType) else None
    return Node(Variable, (), attrs, (symbol.type,), known=known, where=symbol.node.where).outputs[
        0
    ]


def _substitute(outputs: Sequence[Symbol], new: dict[Symbol, Symbol]) -> None:
    """Rebuild what lies between the outputs and the keys of `new`, and add it there."""
    done: set[Node] = set()
    for output in outputs:
        stack: list[tuple[Node, Iterator[Symbol]]] = []
        if output not in new:
            stack.append((output.node, iter(output.node.operands)))
        while stack:
            node, rest = stack[-1]
            for symbol in rest:
                if symbol not in new and symbol.node not in done:
                    stack.append((symbol.node, iter(symbol.node.operands)))
                    break
            else:
                stack.pop()
                if node in done:
                    continue
                done.add(node)
                made = renewed(node, new)
                if made is not node:
                    new.update(zip(node.outputs, made.outputs, strict=True))
                    if node.scope is not None and node.scope.result is node:
                        node.scope.result = made


def parameter_names(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """The names of a function's parameters, as far as they are told one by one."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()
    names = []
    for parameter in parameters[:count]:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            break
        names.append(parameter.name)
    return tuple(names)


# -- types at the seams ------------------------------------------------------------------------
def common_type(a: Type, b: Type) -> Type | None:
    """The type of a value that is of one type or the other; None if they have nothing in common.

    Sizes that differ are unknown, as are shapes of different rank.
    """
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        if a.dtype is not b.dtype:
            return None
        if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
            return TensorType(a.dtype)
        sizes = zip(a.shape, b.shape, strict=True)
        return TensorType(a.dtype, tuple(x if x == y else None for x, y in sizes))
    for kind in (SequenceType, OptionalType):
        if isinstance(a, kind) and isinstance(b, kind):
            element = common_type(a.element, b.element)
            return None if element is None else kind(element)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, OptionalType):  # a loop may begin without the value that it builds
            element = common_type(one.element, other)
            return None if element is None else OptionalType(element)
    return a if a == b else None


def refitted(
    body: Graph,
    types: Sequence[Type],
    captures: Sequence[Symbol],
    states: slice = slice(0, 0),
    results: int = 0,
    join: Callable[[Type, Type], Type | None] = common_type,
) -> Graph:
    """The body for parameters of these types and these captures, all inside inferred anew.

    Those of `states` are carried from trip to trip, and come back from result `results` on: `join`
    gives the type of what begins as one and comes back as the other. The body itself where nothing
    differs. Raises TypeMismatch for a state that changes its number type.
    """
    given = list(types)
    while True:
        body = _retyped(body, given, captures)
        wider = list(given)
        count = len(given[states])
        back = body.outputs[results : results + count]
        for i, symbol in zip(range(len(given))[states], back, strict=False):
            both = join(given[i], symbol.type)
            if both is None:
                raise TypeMismatch(
                    f"state {i - (states.start or 0)} begins as {given[i]} and becomes "
                    f"{symbol.type}: it must keep its number type; use ops.cast"
                )
            wider[i] = both
        if wider == given:
            return body
        given = wider


def _retyped(body: Graph, types: Sequence[Type], captures: Sequence[Symbol]) -> Graph:
    changes: dict[Symbol, Symbol] = {}
    for parameter, type_ in zip(body.inputs, types, strict=False):
        # A file may declare one number as float[] or float[1]; its word stands.
        if parameter.type != type_ and agree(parameter.type, type_):
            changes[parameter] = make_variable(None, type_)
    for parameter, outer in zip(body.inputs[len(types) :], captures, strict=False):
        if not alike(parameter, outer) and agree(parameter.type, outer.type):
            changes[parameter] = standing_for(outer)
    return body.replace(changes)

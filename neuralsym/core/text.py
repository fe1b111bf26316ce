"""A graph as text and back: one line a node, for reading, dumps and golden tests.

    graph tiny
    input x: float32[N, 4]
    weight w: float32[4, 2]
    y: float32[N, 2] = MatMul(x, w)
    probs: float32[N, 2] = Softmax(y; axis=1)
    output probs

An omitted input is `_`, captures stand after `|`, bodies are indented under their node, an output
that has a name of its own is `output name = value`. Names of other than letters, digits and
`_./:-` are quoted. Values of small weights and constants are shown, never drawn for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralsym.core.leaves import Constant, Variable, Weight
from neuralsym.core.scalar import Expr
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType

if TYPE_CHECKING:
    from neuralsym.core.graph import Graph

SHOWN = 8
"""Values of at most so many elements are shown."""
_BARE = re.compile(r"[\w./:\-]*[\w./\-]", re.ASCII)
_WORDS = ("_", "graph", "input", "weight", "constant", "output", "update", "inf", "nan")


def print_graph(graph: Graph) -> str:
    """The text of a graph."""
    return "\n".join([f"graph {name_text(graph.name)}", *_lines(graph)])


def _lines(graph: Graph) -> Iterator[str]:
    words = {s: name_text(graph.value_name(s)) for n in graph.nodes for s in n.outputs}
    for symbol in graph.inputs:
        init = symbol.node.attrs.get("init")
        shown = f" = {tensor_text(init)}" if init is not None else ""
        yield f"input {words[symbol]}: {symbol.type}{shown}"
    for kind, op in (("weight", Weight), ("constant", Constant)):
        for node in graph.nodes:
            if node.op is op:
                yield _stored_line(kind, words[node.outputs[0]], node)
    for node in graph.nodes:
        if node.op in (Variable, Weight, Constant):
            continue
        results = ", ".join(f"{words[s]}: {s.type}" for s in node.outputs)
        yield f"{results} = {_application(node, words)}"
        for attribute, body in graph.bodies.get(node, {}).items():
            yield f"  {attribute} {name_text(body.name)}"
            yield from (f"    {line}" for line in _lines(body))
    for symbol, name in zip(graph.outputs, graph.output_names, strict=True):
        shown = "" if name_text(name) == words[symbol] else f" = {words[symbol]}"
        yield f"output {name_text(name)}{shown}"
    for symbol, value in graph.updates.items():
        yield f"update {words[symbol]} = {words[value]}"


def _stored_line(kind: str, name: str, node: Node) -> str:
    value: Tensor = node.attrs["value"]
    frozen = "; trainable=0" if node.op is Weight and not node.attr("trainable") else ""
    shown = ""
    if value.is_drawn and value.size <= SHOWN:
        shown = f" = {tensor_text(value)}"
    return f"{kind} {name}: {node.outputs[0].type}{shown}{frozen}"


def _application(node: Node, words: dict[Symbol, str]) -> str:
    inside = ", ".join("_" if s is None else words[s] for s in node.inputs)
    if node.captures:
        inside = f"{inside} | {', '.join(words[s] for s in node.captures)}".lstrip()
    attrs = [
        f"{name}={attribute_text(value)}"
        for name, value in sorted(node.attrs.items())
        if name not in node.op.body_attributes
    ]
    settings = "; " + ", ".join(attrs) if attrs else ""
    return f"{op_text(node)}({inside}{settings})"


def op_text(node: Node) -> str:
    """The operator, with its domain unless that is ONNX's own or ours."""
    domain = node.op.domain
    return node.op_type if domain in ("", "neuralsym") else f"{domain}::{node.op_type}"


def name_text(name: str) -> str:
    """A name, quoted unless it is plain."""
    if _BARE.fullmatch(name) and name not in _WORDS and not _number(name):
        return name
    return json.dumps(name, ensure_ascii=False)


def _number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def attribute_text(value: Any) -> str:
    """An attribute's value: Python's literals, `tensor(...)`, an expression or a type."""
    if isinstance(value, Tensor):
        return f"tensor({value.dtype}{list(value.shape)}, {tensor_text(value)})"
    if isinstance(value, Expr):
        return expression_text(value)
    if isinstance(value, NumberType):
        return str(value)
    if isinstance(value, tuple):
        inside = ", ".join(attribute_text(v) for v in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float)):
        return repr(value)
    return str(value)


def tensor_text(value: Tensor) -> str:
    """The elements of a tensor as nested lists, to the last bit; `...` when it is not drawn."""
    if not value.is_drawn:
        return "..."
    return _nested(value.value.tolist() if value.dtype.numpy.kind in "biufcO" else _wide(value))


def _wide(value: Tensor) -> Any:
    return np.asarray(value.value, dtype=np.float64).tolist()


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_nested(v) for v in value)}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def expression_text(expr: Expr) -> str:
    """An expression as nested calls over x0, x1, ...; what is used twice is named first.

    `where(lt(x0, 0), mul(x0, 0.1), x0)`; `[t0 = exp(x0)] div(t0, add(t0, 1))`.
    """
    uses: dict[Expr, int] = {}
    order: list[Expr] = []
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        item, done = stack.pop()
        if done:
            order.append(item)
            continue
        uses[item] = uses.get(item, 0) + 1
        if uses[item] > 1:
            continue
        stack.append((item, True))
        stack.extend((o, False) for o in reversed(item.operands) if isinstance(o, Expr))
    words: dict[Expr, str] = {}
    lets: list[str] = []
    for item in order:
        operands = [words[o] if isinstance(o, Expr) else repr(o) for o in item.operands]
        if item.function == "input":
            words[item] = f"x{item.detail}"
            continue
        function = item.detail if item.function == "cast" else item.function
        text = f"{function}({', '.join(operands)})"
        if uses[item] > 1:
            lets.append(f"t{len(lets)} = {text}")
            text = f"t{len(lets) - 1}"
        words[item] = text
    return (f"[{'; '.join(lets)}] " if lets else "") + words[expr]

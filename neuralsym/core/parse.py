"""Reading the text form of a graph (core/text.py), for golden tests.

Types of results may be left out; those given must agree with what is inferred. A weight without a
value is zeros. Lines that start with # are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from neuralsym.core import scalar
from neuralsym.core.check import agree
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import OWN, constant, make_variable, make_weight
from neuralsym.core.op import OPS, Op, find_op
from neuralsym.core.registry import apply, load_operators
from neuralsym.core.scalar import Expr, Scalar
from neuralsym.core.schema import AttributeSpec
from neuralsym.core.symbol import Node, OutputNames, Symbol, output_name
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import MapType, OptionalType, SequenceType, TensorType, Type, as_shape
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import FormatError, TypeMismatch


def parse_graph(text: str) -> Graph:
    """The graph of a text; raises FormatError that names the line."""
    load_operators()
    lines: list[_Line] = []
    open_lines: list[_Line] = []
    for number, raw in enumerate(text.splitlines(), 1):
        bare = raw.strip()
        if not bare or bare.startswith("#"):
            continue
        line = _Line(bare, number, len(raw) - len(raw.lstrip()))
        while open_lines and open_lines[-1].indent >= line.indent:
            open_lines.pop()
        (open_lines[-1].inner if open_lines else lines).append(line)
        open_lines.append(line)
    # The header may be left out, and a text that is indented as a whole has it as any other line.
    name = "graph"
    if lines and lines[0].text.startswith("graph "):
        header = lines.pop(0)
        name = _Reader(header, start=len("graph ")).name()
        lines = header.inner + lines
    return _Body(name).read(lines)


@dataclass
class _Line:
    text: str
    number: int
    indent: int
    inner: list[_Line] = field(default_factory=list)


class _Body:
    """The symbols of one graph, by name, as its lines are read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.symbols: dict[str, Symbol] = {}
        self.keep: dict[Node, str] = {}
        self.inputs: list[Symbol] = []
        self.outputs: list[tuple[str, Symbol]] = []
        self.updates: dict[Symbol, Symbol] = {}

    def read(self, lines: Sequence[_Line]) -> Graph:
        for line in lines:
            reader = _Reader(line)
            word = reader.take(r"(input|weight|constant|output|update) ")
            if word == "output ":
                name = reader.name()
                self.outputs.append((name, self._find(reader, reader.name_after("=", name))))
                reader.end()
            elif word == "update ":
                variable = self._find(reader, reader.name())
                reader.expect("=")
                self.updates[variable] = self._find(reader, reader.name())
                reader.end()
            elif word:
                self._leaf(reader, word.strip())
            else:
                self._node(reader)
        return Graph(
            [symbol for _, symbol in self.outputs],
            self.inputs,
            self.name,
            self.updates,
            keep=self.keep,
            output_names=[name for name, _ in self.outputs],
        )

    def _find(self, reader: _Reader, name: str) -> Symbol:
        if name not in self.symbols:
            reader.fail(f"nothing is called {name!r}")
        return self.symbols[name]

    def _define(self, reader: _Reader, name: str, symbol: Symbol) -> None:
        if name in self.symbols:
            reader.fail(f"{name!r} is given twice")
        self.symbols[name] = symbol
        if symbol.index == 0:
            self.keep[symbol.node] = name
        elif name != output_name(self.keep[symbol.node], symbol.index):
            # An output of the graph may be called as it likes; its node keeps its own name.
            self.symbols[output_name(self.keep[symbol.node], symbol.index)] = symbol

    def _leaf(self, reader: _Reader, kind: str) -> None:
        name = reader.name()
        reader.expect(":")
        type_ = reader.value_type()
        value: Tensor | None = None
        if reader.take("="):
            value = reader.tensor(type_)
        if kind == "input":
            symbol = make_variable(None, type_, {} if value is None else {"init": value})
            self.inputs.append(symbol)
        else:
            frozen = reader.take(r"; trainable=0") is not None
            if value is None:
                value = _zeros(reader, type_)
            symbol = constant(value) if kind == "constant" else make_weight(value)
            if frozen:
                symbol = make_weight(value, trainable=False)
        reader.end()
        self._define(reader, name, symbol)

    def _node(self, reader: _Reader) -> None:
        results: list[tuple[str, Type | None]] = []
        while True:
            name = reader.name()
            results.append((name, reader.value_type() if reader.take(":") else None))
            if not reader.take(","):
                break
        reader.expect("=")
        op = _operator(reader)
        reader.expect("(")
        inputs, captures = self._operands(reader)
        attrs = reader.attributes(op) if reader.take(";") else {}
        reader.expect(")")
        reader.end()
        for line in reader.line.inner:
            inner = _Reader(line)
            attribute = inner.name()
            attrs[attribute] = _Body(inner.name()).read(line.inner)
        made = apply(op, inputs, attrs, outputs=len(results), captures=captures)
        symbols = _declared(reader, made, [type_ for _, type_ in results])
        names = [name for name, _ in results]
        if any(n != output_name(names[0], i) for i, n in enumerate(names)):
            names[0] = OutputNames.of(names[0], tuple(names[1:]))
        for name, symbol in zip(names, symbols, strict=True):
            self._define(reader, name, symbol)

    def _operands(self, reader: _Reader) -> tuple[list[Symbol | None], tuple[Symbol, ...]]:
        inputs: list[Symbol | None] = []
        captures: list[Symbol] = []
        into: list[Any] = inputs
        while not reader.at(r"[;)]"):
            if reader.take(r"\|"):
                into = captures
            elif reader.take(r"_(?=[,;)\s])"):
                into.append(None)
            else:
                into.append(self._find(reader, reader.name()))
            reader.take(",")
        return inputs, tuple(captures)


def _operator(reader: _Reader) -> type[Op]:
    words = reader.must(r"[\w.:]+", "an operator").split("::")
    domain = words[0] if len(words) == 2 else ""
    if not domain and (OWN, words[-1]) in OPS and ("", words[-1]) not in OPS:
        domain = OWN
    return find_op(words[-1], domain)


def _declared(
    reader: _Reader, symbols: Sequence[Symbol], types: Sequence[Type | None]
) -> Sequence[Symbol]:
    """The symbols with the types that the text declares, which may know more."""
    node = symbols[0].node
    declared = [s.type if t is None else t for s, t in zip(symbols, types, strict=True)]
    for symbol, type_ in zip(symbols, declared, strict=True):
        if not agree(symbol.type, type_):
            reader.fail(f"{type_} is declared, {symbol.type} is inferred")
    if declared == [s.type for s in symbols]:
        return symbols
    made = Node(
        node.op,
        node.inputs,
        node.attrs,
        tuple(declared),
        known=tuple(s.known for s in symbols),
        where=node.where,
        captures=node.captures,
    )
    return made.outputs


def _zeros(reader: _Reader, type_: Type) -> Tensor:
    if not isinstance(type_, TensorType) or not type_.is_static or type_.shape is None:
        reader.fail(f"a stored value needs a known shape, not {type_}")
    shape = tuple(int(d) for d in type_.shape)  # type: ignore[arg-type]
    dtype = type_.dtype.numpy
    return Tensor(type_.dtype, shape, lambda: np.zeros(shape, dtype))


class _Reader:
    """One line, read from the left."""

    def __init__(self, line: _Line, start: int = 0) -> None:
        self.line = line
        self.text = line.text
        self.at_char = start

    def fail(self, reason: str) -> NoReturn:
        raise FormatError(f"graph text, line {self.line.number}: {reason}: {self.text}")

    def at(self, pattern: str) -> re.Match[str] | None:
        while self.text[self.at_char : self.at_char + 1] == " ":
            self.at_char += 1
        return re.compile(pattern).match(self.text, self.at_char)

    def take(self, pattern: str) -> str | None:
        found = self.at(pattern)
        if found is None:
            return None
        self.at_char = found.end()
        return found.group()

    def must(self, pattern: str, what: str) -> str:
        found = self.take(pattern)
        if found is None:
            self.fail(f"{what} is missing at column {self.at_char + 1}")
        return found

    def expect(self, sign: str) -> None:
        self.must(re.escape(sign), repr(sign))

    def end(self) -> None:
        if self.text[self.at_char :].strip():
            self.fail(f"nothing more should follow column {self.at_char + 1}")

    def string(self) -> str | None:
        found = self.take(r'"(?:[^"\\]|\\.)*"')
        return None if found is None else str(json.loads(found))

    def name(self) -> str:
        quoted = self.string()
        return quoted if quoted is not None else self.must(r"[\w./:\-]*[\w./\-]", "a name")

    def name_after(self, sign: str, default: str) -> str:
        return self.name() if self.take(re.escape(sign)) else default

    def value_type(self) -> Type:
        kind = self.must(r"\w+", "a type")
        if kind in ("sequence", "optional"):
            self.expect("(")
            inner = self.value_type()
            self.expect(")")
            return SequenceType(inner) if kind == "sequence" else OptionalType(inner)
        if kind == "map":
            self.expect("(")
            key = number_type(self.must(r"\w+", "a number type"))
            self.expect(",")
            value = self.value_type()
            self.expect(")")
            return MapType(key, value)
        try:
            dtype = number_type(kind)
        except TypeMismatch as error:
            self.fail(str(error))
        sizes = self.must(r"\[[^\]]*\]", "a shape in [ ]")[1:-1].strip()
        if sizes == "...":
            return TensorType(dtype)
        parts = _top_level(sizes)
        return TensorType(
            dtype, as_shape([None if p == "?" else int(p) if p.isdigit() else p for p in parts])
        )

    def tensor(self, type_: Type) -> Tensor:
        if not isinstance(type_, TensorType):
            self.fail(f"{type_} has no value in the text")
        if self.take(r"\.\.\."):
            return _zeros(self, type_)
        numpy_type = type_.dtype.numpy
        value = np.array(self.literal(), dtype=numpy_type)
        shape = tuple(d for d in type_.shape or () if isinstance(d, int))
        if value.size != int(np.prod(shape)) or (value.size and value.shape != shape):
            self.fail(f"the value has shape {value.shape}, {type_} is declared")
        return Tensor.of(value.reshape(shape), type_.dtype)

    def literal(self) -> Any:
        """Nested lists or tuples of numbers and strings."""
        for opening, closing, make in (("[", "]", list), ("(", ")", tuple)):
            if self.at(r"\([^(),]*j\)") or not self.take(re.escape(opening)):
                continue
            items = []
            while not self.take(re.escape(closing)):
                items.append(self.literal())
                self.take(",")
            return make(items)
        quoted = self.string()
        if quoted is not None:
            return quoted
        word = self.must(r"\([^(),]*j\)|[^\s,;()\[\]]+", "a value")
        if word in ("True", "False"):
            return word == "True"
        for kind in (int, float, complex):
            try:
                return kind(word)
            except ValueError:
                continue
        self.fail(f"{word!r} is no value")

    def attributes(self, op: type[Op]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        while not self.at(r"\)"):
            name = self.must(r"\w+", "an attribute")
            self.expect("=")
            spec = op.schema.attributes.get(name)
            if spec is None:
                self.fail(f"{op.__name__} has no attribute {name!r}")
            made[name] = self.attribute(spec)
            self.take(",")
        return made

    def attribute(self, spec: AttributeSpec) -> Any:
        if spec.kind == "TENSOR":
            self.expect("tensor(")
            type_ = self.value_type()
            self.expect(",")
            value = self.tensor(type_)
            self.expect(")")
            return value
        if spec.kind == "EXPR":
            return self.expression()
        if spec.kind == "NUMBER_TYPE":
            return NumberType(self.must(r"\w+", "a number type"))
        if spec.kind == "TYPE_PROTO":
            return self.value_type()
        return self.literal()

    def expression(self) -> Expr:
        words: dict[str, Scalar] = {}
        if self.take(r"\["):
            while not self.take(r"\]"):
                name = self.must(r"t\d+", "a name")
                self.expect("=")
                words[name] = self.operand(words)
                self.take(";")
        made = self.operand(words)
        if not isinstance(made, Expr):
            self.fail("an expression is needed")
        return made

    def operand(self, words: dict[str, Scalar]) -> Scalar:
        word = self.must(r"[\w.+\-]+", "an operand")
        if word in words:
            return words[word]
        if re.fullmatch(r"x\d+", word):
            return scalar.argument(int(word[1:]))
        if self.take(r"\("):
            operands: list[Scalar] = []
            while not self.take(r"\)"):
                operands.append(self.operand(words))
                self.take(",")
            if word in scalar.FUNCTIONS:
                return scalar.apply(word, *operands)
            return scalar.cast(operands[0], str(number_type(word)))
        if word in ("True", "False"):
            return word == "True"
        return int(word) if re.fullmatch(r"-?\d+", word) else float(word)


def _top_level(text: str) -> list[str]:
    """The parts between commas that no bracket holds."""
    parts: list[str] = []
    depth = 0
    start = 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()] if text else []

"""From a graph to lines `name = expression`: what is used more than once gets a name of its own."""

from __future__ import annotations

import re
from typing import Any

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Variable, Weight
from neuralsym.core.symbol import Node, Symbol
from neuralsym.engines.latex.forms import FORMS, Binds, Text, default, escape, number

_DEEPEST = 12
"""An expression of more levels is cut in two."""
_LONGEST = 400
"""An expression of more characters is cut in two."""
_SHOWN = 6
"""A constant vector of so many elements is written out."""
_GREEK = frozenset(
    (
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"),
        *("lambda", "mu", "nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi"),
        "omega",
    )
)


def lines_of(graph: Graph) -> list[tuple[str, str]]:
    """The definitions of a graph, in order: left side and right side of each."""
    return _Printer(graph, _Names()).lines()


class _Names:
    """Names for values and bodies, counted over a graph and all its bodies."""

    def __init__(self) -> None:
        self.values = 0
        self.bodies = 0

    def value(self) -> str:
        self.values += 1
        return f"t_{{{self.values}}}"

    def body(self) -> str:
        self.bodies += 1
        return f"f_{{{self.bodies}}}"


class _Printer:
    """One graph on its way to lines."""

    def __init__(self, graph: Graph, names: _Names) -> None:
        self.graph = graph
        self.names = names
        self.made: list[tuple[str, str]] = []
        self.texts: dict[Symbol, Text] = {}
        self.levels: dict[Symbol, int] = {}

    def lines(self) -> list[tuple[str, str]]:
        results: dict[Symbol, str] = {}
        for name, symbol in zip(self.graph.output_names, self.graph.outputs, strict=True):
            results.setdefault(symbol, name_of(name))
        for node in self.graph.nodes:
            self.node(node, results)
        for name, symbol in zip(self.graph.output_names, self.graph.outputs, strict=True):
            if results[symbol] != name_of(name) or self.texts[symbol].text != name_of(name):
                self.made.append((name_of(name), self.operand(symbol, Binds.CASES)))
        for target, value in self.graph.updates.items():
            self.made.append((self.texts[target].text, self.operand(value, Binds.CASES)))
        return self.made

    def node(self, node: Node, results: dict[Symbol, str]) -> None:
        if node.op in (Variable, Weight, Constant):
            self.texts[node.outputs[0]] = self.leaf(node)
            return
        form = FORMS.get(node.op_type, default) if not node.op.domain else default
        made = form(self, node)
        level = 1 + max((self.levels.get(s, 0) for s in node.operands), default=0)
        one = len(node.outputs) == 1
        symbol = node.outputs[0]
        wanted = results.get(symbol)
        long = level >= _DEEPEST or len(made.text) > _LONGEST
        if one and wanted is None and not long and self.uses(symbol) < 2:
            self.texts[symbol], self.levels[symbol] = made, level
            return
        names = [results.get(s) or self.names.value() for s in node.outputs]
        left = names[0] if one else rf"\left({', '.join(names)}\right)"
        self.made.append((left, made.text))
        self.texts.update((s, Text(n)) for s, n in zip(node.outputs, names, strict=True))

    def uses(self, symbol: Symbol) -> int:
        """How often a value would be written out."""
        return sum(user.operands.count(symbol) for user in self.graph.users[symbol])

    def leaf(self, node: Node) -> Text:
        value = self.number_of(node.outputs[0])
        if value is None or value.dtype.kind not in "biuf" or value.ndim > 1:
            return Text(name_of(self.graph.names[node]))
        texts = [number(v) for v in value.reshape(-1).tolist()]
        if len(texts) != 1:
            return Text(rf"\begin{{pmatrix}} {' & '.join(texts)} \end{{pmatrix}}")
        powered = "^" in texts[0]
        binds = Binds.SIGN if texts[0].startswith("-") else Binds.PRODUCT if powered else Binds.ATOM
        return Text(texts[0], binds)

    # -- what forms ask ------------------------------------------------------------------------
    def operand(self, symbol: Symbol | None, least: Binds) -> str:
        if symbol is None:
            return "-"
        made = self.texts[symbol]
        return rf"\left({made.text}\right)" if made.binds < least else made.text

    def number_of(self, symbol: Symbol | None) -> Any:
        if symbol is None:
            return None
        if symbol.node.op is Constant:
            tensor = symbol.node.attrs["value"]
            return tensor.value if tensor.size <= _SHOWN else None
        return None

    def body(self, graph: Graph) -> str:
        """A body is a function of its inputs: its lines come before the line that names it."""
        name = self.names.body()
        inner = _Printer(graph, self.names)
        made = inner.lines()
        given = ", ".join(name_of(n) for n in graph.input_names)
        results = ", ".join(name_of(n) for n in graph.output_names)
        self.made += made
        self.made.append((rf"{name}\left({given}\right)", rf"\left({results}\right)"))
        return name


def name_of(name: str) -> str:
    """A name as it is set: x, x_{1}, \\alpha, and longer ones upright."""
    found = re.fullmatch(r"([A-Za-z]+?)_?([0-9]+)?", name)
    if found is not None:
        word, index = found.groups()
        sub = f"_{{{index}}}" if index else ""
        if word in _GREEK:
            return f"\\{word}{sub}"
        if len(word) == 1:
            return f"{word}{sub}"
    return rf"\mathrm{{{escape(name)}}}"

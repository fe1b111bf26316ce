"""Patterns: the shape of a small piece of graph, with names for its parts.

    P.BatchNormalization(P.Conv("x", P.const("w"), P.optional("b")).named("conv"), ...)

Patterns are not built with the operators' functions, which would want types: the namespace `P`
only checks that the operator exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from neuralsym.core.leaves import OWN, is_stored, stored
from neuralsym.core.op import OPS, Op, find_op
from neuralsym.core.registry import load_operators
from neuralsym.core.symbol import Node, Symbol

Bindings = Mapping[str, Symbol | Node | None]
DOUBLE = 1e-15
"""The largest tolerance between numbers of float64."""
PatternLike = "Pattern | str | int | float"


@dataclass(frozen=True)
class Match:
    """What a pattern was found to be: its named parts, and the nodes that its operators stand for.

    `nodes` lists the root first; a node that two parts of the pattern share is in it once.
    """

    parts: Bindings = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()

    def bind(self, name: str | None, part: Symbol | Node | None) -> Match | None:
        """The match with one more named part; None if the name stands for something else."""
        if name is None:
            return self
        if name in self.parts:
            return self if self.parts[name] is part else None
        return Match({**self.parts, name: part}, self.nodes)

    def with_node(self, node: Node) -> Match:
        return self if node in self.nodes else Match(self.parts, (*self.nodes, node))


class Pattern:
    """The base of patterns."""

    def matches(self, symbol: Symbol | None, match: Match) -> Iterator[Match]:
        """Every way in which the pattern fits the symbol, beside what is matched already."""
        raise NotImplementedError

    def __call__(self, node: Node) -> Match | None:
        """The first match with `node` as its root, so that `graph.find(pattern)` works."""
        return next(self.matches(node.outputs[0], Match()), None)


@dataclass(frozen=True)
class Anything(Pattern):
    """Any given symbol, for which `test` holds."""

    name: str | None = None
    test: Callable[[Symbol], bool] | None = None

    def matches(self, symbol: Symbol | None, match: Match) -> Iterator[Match]:
        if symbol is None or (self.test is not None and not self.test(symbol)):
            return
        bound = match.bind(self.name, symbol)
        if bound is not None:
            yield bound


@dataclass(frozen=True)
class Stored(Pattern):
    """A weight or a constant; with `value`, a drawn one whose elements all equal it."""

    name: str | None = None
    value: float | None = None
    tolerance: float = 0.0

    def matches(self, symbol: Symbol | None, match: Match) -> Iterator[Match]:
        if symbol is None or not is_stored(symbol):
            return
        if self.value is not None and not self._is_value(symbol):
            return
        bound = match.bind(self.name, symbol)
        if bound is not None:
            yield bound

    def _is_value(self, symbol: Symbol) -> bool:
        tensor = stored(symbol)
        if not tensor.is_drawn or tensor.size != 1 or not tensor.dtype.is_numeric:
            return False
        assert self.value is not None
        own = tensor.value.reshape(())
        # The nearest number that the tensor's type has counts as the value itself.
        wanted = np.asarray(self.value).astype(own.dtype)
        # A file that computes in float64 has its formulas' constants in float64 too.
        tolerance = min(self.tolerance, DOUBLE) if own.dtype == np.float64 else self.tolerance
        return bool(abs(own - wanted) <= tolerance * abs(self.value))


@dataclass(frozen=True)
class Optional(Pattern):
    """An optional input: what it matches where it is given, None where it is omitted."""

    inner: Pattern

    def matches(self, symbol: Symbol | None, match: Match) -> Iterator[Match]:
        if symbol is not None:
            yield from self.inner.matches(symbol, match)
            return
        bound = match.bind(getattr(self.inner, "name", None), None)
        if bound is not None:
            yield bound


@dataclass(frozen=True)
class Choice(Pattern):
    """The first of some patterns that fits."""

    patterns: tuple[Pattern, ...]

    def matches(self, symbol: Symbol | None, match: Match) -> Iterator[Match]:
        for pattern in self.patterns:
            yield from pattern.matches(symbol, match)


@dataclass(frozen=True)
class Applied(Pattern):
    """One output of an operator applied to what other patterns match.

    `attrs` holds the values that attributes must have, or functions that must hold for them. The
    two inputs of a commutative operator match in either order.
    """

    ops: tuple[type[Op], ...]
    inputs: tuple[Pattern, ...] | None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    output: int = 0

    def named(self, name: str) -> Applied:
        """The pattern whose node is called `name`."""
        return replace(self, name=name)

    def at(self, output: int) -> Applied:
        """The pattern of another output of the node."""
        return replace(self, output=output)

    def matches(self, symbol: Symbol | None, match: Match) -> Iterator[Match]:
        if symbol is None or symbol.index != self.output:
            return
        node = symbol.node
        if node.op not in self.ops or not self._attributes_fit(node):
            return
        bound = match.bind(self.name, node)
        if bound is None:
            return
        bound = bound.with_node(node)
        if self.inputs is None:
            yield bound
            return
        for inputs in _orders(node):
            yield from _match_all(self.inputs, inputs, bound)

    def _attributes_fit(self, node: Node) -> bool:
        for name, wanted in self.attrs.items():
            value = node.attr(name)
            if not (wanted(value) if callable(wanted) else value == wanted):
                return False
        return True


def _orders(node: Node) -> Iterator[tuple[Symbol | None, ...]]:
    yield node.inputs
    if node.op.commutative and len(node.inputs) == 2:
        yield node.inputs[::-1]


def _match_all(
    patterns: Sequence[Pattern], inputs: Sequence[Symbol | None], match: Match
) -> Iterator[Match]:
    """Every match of patterns and inputs place by place; trailing inputs must be omitted ones."""
    if not patterns:
        if all(s is None for s in inputs):
            yield match
        return
    first = inputs[0] if inputs else None
    for found in patterns[0].matches(first, match):
        yield from _match_all(patterns[1:], inputs[1:], found)


def as_pattern(given: Pattern | str | int | float) -> Pattern:
    """A pattern from its short form: a name for any symbol, a number for a constant."""
    if isinstance(given, Pattern):
        return given
    if isinstance(given, str):
        return Anything(given)
    return Stored(None, given)


class Namespace:
    """`P`: patterns of operators by their ONNX names, and the few general ones."""

    def __getattr__(self, name: str) -> Callable[..., Applied]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.op(name)

    def op(self, *names: str) -> Callable[..., Applied]:
        """The pattern of an operator that is any of `names`; GraphError for one unknown.

        It is called with patterns of the inputs and the attributes' values; without inputs, it
        fits whatever they are.
        """
        load_operators()
        ops = tuple(
            OPS[OWN, n] if (OWN, n) in OPS and ("", n) not in OPS else find_op(n) for n in names
        )

        def pattern(*inputs: Pattern | str | int | float, **attrs: Any) -> Applied:
            parts = tuple(map(as_pattern, inputs)) if inputs else None
            return Applied(ops, parts, attrs)

        return pattern

    def any(self, name: str | None = None, test: Callable[[Symbol], bool] | None = None) -> Pattern:
        """Any symbol for which `test` holds."""
        return Anything(name, test)

    def const(
        self, name: str | None = None, value: float | None = None, tolerance: float = 0.0
    ) -> Pattern:
        """A weight or constant; with `value`, a single number equal to it, to a relative error.

        Numbers of float64 may differ by a rounding only, whatever `tolerance` is.
        """
        return Stored(name, value, tolerance)

    def optional(self, given: Pattern | str) -> Pattern:
        """An input that may be omitted: its name is then None."""
        return Optional(as_pattern(given))

    def either(self, *patterns: Pattern) -> Pattern:
        """Any of some patterns, the first that fits."""
        return Choice(patterns)


P = Namespace()

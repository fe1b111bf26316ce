"""Equations of Einsum: parsing, the sizes that the labels stand for, and other operators for it.

The expansion takes diagonals, sums what only one operand has, and contracts operands in pairs, the
cheapest first: transposed and reshaped so that a MatMul, or a product and a sum, is what is left.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from neuralsym.core import registry
from neuralsym.core.broadcast import broadcast_shapes, broadcast_sizes
from neuralsym.core.locks import cached_property
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Shape, Size
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch
from neuralsym.ops.base import bad
from neuralsym.ops.expansions import (
    HALVES,
    converted,
    reshaped,
    same_size,
    size_of,
    sizes_of,
    whole,
)
from neuralsym.ops.shapes import bounded, merged


@dataclass(frozen=True)
class Term:
    """The labels of one operand; `dots` is where `...` stands among them, or None."""

    labels: str
    dots: int | None

    @staticmethod
    def parse(text: str) -> Term:
        """ValueError for anything but letters and at most one `...`."""
        labels, found, rest = text.partition("...")
        letters = labels + rest
        if "." in letters:
            raise ValueError(f"{text!r} has a dot that is no part of one '...'")
        if letters and not (letters.isascii() and letters.isalpha()):
            raise ValueError(f"{text!r} has a label that is no letter")
        return Term(letters, len(labels) if found else None)

    def named(self, extra: int) -> list[str]:
        """The label of each axis where `...` stands for so many."""
        if self.dots is None:
            return list(self.labels)
        middle = [f".{k}" for k in range(extra)][::-1]
        return [*self.labels[: self.dots], *middle, *self.labels[self.dots :]]


@dataclass(frozen=True)
class Equation:
    """`ij,jk->ik` as its operands and its result, the implicit result written out."""

    operands: tuple[Term, ...]
    result: Term

    @staticmethod
    def parse(call: Call) -> Equation:
        """The equation of a call; BadAttribute for what is none, or has a wrong count."""
        text = call.attrs["equation"].replace(" ", "")
        left, arrow, right = text.partition("->")
        try:
            operands = tuple(Term.parse(t) for t in left.split(","))
            result = Term.parse(right) if arrow else _implicit(operands)
        except ValueError as error:
            call.fail(f"equation {text!r}: {error}", bad)
        if len(operands) != len(call.inputs):
            call.fail(
                f"equation {text!r} has {len(operands)} operands, not {len(call.inputs)}", bad
            )
        letters = {c for t in operands for c in t.labels}
        for c in result.labels:
            if c not in letters:
                call.fail(f"equation {text!r}: the result's {c!r} is in no operand", bad)
            if result.labels.count(c) > 1:
                call.fail(f"equation {text!r}: {c!r} is twice in the result", bad)
        dotted = any(t.dots is not None for t in operands)
        if result.dots is not None and not dotted:
            call.fail(f"equation {text!r}: no operand has the '...' of the result", bad)
        return Equation(operands, result)

    @cached_property
    def labels(self) -> str:
        """All labels, in the order in which they first appear."""
        return "".join(dict.fromkeys("".join(t.labels for t in self.operands)))

    def names(self, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
        """The label of each axis of each operand and of the result.

        What `...` stands for is named `.0`, `.1`, ... from its last axis, since it broadcasts.
        """
        extras = [rank - len(t.labels) for rank, t in zip(ranks, self.operands, strict=True)]
        most = max(
            (e for e, t in zip(extras, self.operands, strict=True) if t.dots is not None), default=0
        )
        operands = [t.named(e) for t, e in zip(self.operands, extras, strict=True)]
        return operands, self.result.named(most)

    def shape(self, call: Call) -> Shape | None:
        """The shape of the result; ShapeMismatch where a label has two sizes."""
        sizes: dict[str, Size] = {}
        middles: list[Shape] = []
        for i, term in enumerate(self.operands):
            shape = call.shape(i)
            if shape is None:
                return None
            named = len(term.labels)
            if len(shape) < named or (term.dots is None and len(shape) != named):
                more = " or more" if term.dots is not None else ""
                call.fail(f"operand {i} has {len(shape)} axes, its labels need {named}{more}")
            extra = len(shape) - named
            at = term.dots or 0
            if term.dots is not None:
                middles.append(shape[at : at + extra])
                shape = (*shape[:at], *shape[at + extra :])
            own: dict[str, Size] = {}
            for label, size in zip(term.labels, shape, strict=True):
                own[label] = merged(call, own.get(label), size, f"operand {i}, label {label!r}")
                try:
                    sizes[label] = broadcast_sizes(sizes.get(label, 1), size)
                except ShapeMismatch:
                    call.fail(f"label {label!r} stands for {sizes[label]} and {size}")
        made = [sizes[c] for c in self.result.labels]
        if self.result.dots is not None:
            try:
                middle = broadcast_shapes(middles)
            except ShapeMismatch as error:
                call.fail(f"what '...' stands for must broadcast: {error}")
            made[self.result.dots : self.result.dots] = middle or ()
        return bounded(call, made)


def _implicit(operands: tuple[Term, ...]) -> Term:
    """Without `->`: the dots, then the labels that appear once, in alphabetical order."""
    joined = "".join(t.labels for t in operands)
    once = "".join(sorted(c for c in joined if joined.count(c) == 1))
    return Term(once, 0 if any(t.dots is not None for t in operands) else None)


# -- with other operators ----------------------------------------------------------------------
SMALL = ("int8", "int16", "uint8", "uint16")
"""Integers that neither MatMul nor ReduceSum takes: int32 gives the same, wrapped around."""
_TYPICAL = 8
"""What a size that is not known counts for when the cheapest pair is sought."""


@dataclass(frozen=True)
class Labelled:
    """A symbol with a different label for each of its axes."""

    x: Symbol
    labels: tuple[str, ...]

    def size(self, label: str) -> Size:
        shape = self.x.shape
        assert shape is not None
        return shape[self.labels.index(label)]

    def sizes(self, labels: Sequence[str]) -> list[Symbol]:
        """The sizes of some axes, each an int64[1]."""
        return [size_of(self.x, self.labels.index(label)) for label in labels]

    def ordered(self, labels: Sequence[str]) -> Labelled:
        """With its axes in that order."""
        perm = tuple(self.labels.index(label) for label in labels)
        if perm == tuple(range(len(perm))):
            return self
        return Labelled(registry.call("Transpose", self.x, perm=perm), tuple(labels))

    def without(self, labels: Iterable[str], how: str) -> Labelled:
        """Without some axes: `how` is ReduceSum, or Squeeze for those of size 1."""
        axes = [self.labels.index(label) for label in labels]
        if not axes:
            return self
        rest = {"keepdims": 0} if how == "ReduceSum" else {}
        made = registry.call(how, self.x, whole(*axes), **rest)
        return Labelled(made, tuple(c for i, c in enumerate(self.labels) if i not in axes))

    def spread(self, labels: Sequence[str]) -> Symbol:
        """For broadcasting: its axes in the order of `labels`, with size 1 for those it has not."""
        made = self.ordered([c for c in labels if c in self.labels]).x
        missing = [i for i, c in enumerate(labels) if c not in self.labels]
        return registry.call("Unsqueeze", made, whole(*missing)) if missing else made


def expand_einsum(node: Node, equation: Equation) -> list[Symbol] | None:
    """The result of an Einsum by other operators; None where a rank is not known."""
    given = [s for s in node.inputs if s is not None]
    if any(s.shape is None for s in given):
        return None
    own = given[0].dtype
    wide = own
    if own in HALVES:
        wide = NumberType.FLOAT32  # rounded once, at the end
    elif own in SMALL:
        wide = NumberType.INT32
    labels, result = equation.names([s.rank or 0 for s in given])
    terms = [_diagonals(converted(s, wide), c) for s, c in zip(given, labels, strict=True)]
    terms = _without_ones(terms)
    while True:
        terms = [_summed(t, i, terms, result) for i, t in enumerate(terms)]
        if len(terms) == 1:
            break
        i, j = _cheapest(terms)
        others = [t for k, t in enumerate(terms) if k not in (i, j)]
        needed = {*result, *(c for t in others for c in t.labels)}
        terms = [*others, _contracted(terms[i], terms[j], needed)]
    return [converted(terms[0].ordered(result).x, own)]


def _diagonals(x: Symbol, labels: Sequence[str]) -> Labelled:
    """Each label once: of axes that share one, only the places where they agree are kept."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            axes = [i for i, c in enumerate(labels) if c == label][:2]
            rest = [i for i in range(len(labels)) if i not in axes]
            x = registry.call("Transpose", x, perm=(*rest, *axes))
            labels = [*(labels[i] for i in rest), label]
            # Of the n*n elements of the two axes every (n + 1)th is on the diagonal.
            before, n = sizes_of(x, 0, len(rest)), size_of(x, len(rest))
            flat = reshaped(x, before, n * n)
            steps = registry.call("Slice", flat, whole(0), n * n, whole(len(rest)), n + 1)
            x = reshaped(steps, before, n)
    return Labelled(x, tuple(labels))


def _without_ones(terms: Sequence[Labelled]) -> list[Labelled]:
    """Without the axes of size 1 that stand for more: the others broadcast over them."""
    most: dict[str, Size] = {}
    for term in terms:
        for label in term.labels:
            if term.size(label) != 1:
                most[label] = term.size(label)
    # A size that is not known may be 1 too; then one axis of those is as good as the other.
    return [
        t.without([c for c in t.labels if t.size(c) == 1 and c in most], "Squeeze") for t in terms
    ]


def _summed(
    term: Labelled, index: int, terms: Sequence[Labelled], result: Sequence[str]
) -> Labelled:
    """Summed over what neither another operand nor the result has."""
    kept = {*result, *(c for k, t in enumerate(terms) if k != index for c in t.labels)}
    return term.without([c for c in term.labels if c not in kept], "ReduceSum")


def _cheapest(terms: Sequence[Labelled]) -> tuple[int, int]:
    """The pair whose product has the fewest multiplications; the first among equals."""

    def cost(pair: tuple[int, int]) -> int:
        sizes: dict[str, int] = {}
        for term in (terms[k] for k in pair):
            for label in term.labels:
                size = term.size(label)
                sizes[label] = size if isinstance(size, int) else _TYPICAL
        return math.prod(sizes.values())

    return min(itertools.combinations(range(len(terms)), 2), key=cost)


def _contracted(a: Labelled, b: Labelled, needed: set[str]) -> Labelled:
    """The product of two operands, summed over what is not needed any more."""
    shared = [c for c in a.labels if c in b.labels]
    batch = [c for c in shared if c in needed]
    inner = [c for c in shared if c not in needed]
    left = [c for c in a.labels if c not in shared]
    right = [c for c in b.labels if c not in shared]
    sure = all(same_size(a.size(c), b.size(c)) for c in inner)
    if not inner or not sure or not (left or right):
        labels = [*batch, *left, *right, *inner]
        product = Labelled(a.spread(labels) * b.spread(labels), tuple(labels))
        return product.without(inner, "ReduceSum")
    rows, columns = a.ordered([*batch, *left, *inner]), b.ordered([*batch, *inner, *right])
    one = len(left) == len(inner) == len(right) == 1
    if one:
        return Labelled(registry.call("MatMul", rows.x, columns.x), (*batch, *left, *right))
    made = registry.call(
        "MatMul",
        reshaped(rows.x, *rows.sizes(batch), _total(rows, left), _total(rows, inner)),
        reshaped(columns.x, *columns.sizes(batch), _total(columns, inner), _total(columns, right)),
    )
    around = sizes_of(made, 0, len(batch))
    made = reshaped(made, around, *rows.sizes(left), *columns.sizes(right))
    return Labelled(made, (*batch, *left, *right))


def _total(term: Labelled, labels: Sequence[str]) -> Symbol:
    """The product of the sizes of some axes, int64[1]."""
    made = whole(1)
    for size in term.sizes(labels):
        made = made * size
    return made

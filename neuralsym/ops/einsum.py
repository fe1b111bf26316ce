"""Equations of Einsum: parsing, and the sizes that the labels stand for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from neuralsym.core.broadcast import broadcast_shapes, broadcast_sizes
from neuralsym.core.op import Call
from neuralsym.core.types import Shape, Size
from neuralsym.errors import ShapeMismatch
from neuralsym.ops.base import bad
from neuralsym.ops.shapes import bounded


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
            for label, size in zip(term.labels, shape, strict=True):
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

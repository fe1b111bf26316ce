"""Recipes: the text in which Myelin's `Calculate` operations say what they compute.

    $0=Sigmoid(Add(%0,%1));@0=Mul($0,Sub(_1,$0))

assigns terms one after another: %n is an input, #n a constant input, @n an output, $n and !n hold
intermediate values, _n is a constant of Myelin's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from neuralsym.errors import FormatError

Value = TypeVar("Value")

OUTPUT = "@"
_TOKEN = re.compile(r"\s*(?:([A-Za-z][A-Za-z0-9]*)\(|([%#@$!_])([0-9]{1,9})|([(),;=]))")
_DEEPEST = 200
SYSTEM: Mapping[int, float] = {0: 0.0, 1: 1.0}
"""The numbers that _n stand for, as far as recipes in files are known to use them."""


@dataclass(frozen=True)
class Ref:
    """A value by its kind, one of % # @ $ ! _, and its number."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind}{self.number}"


@dataclass(frozen=True)
class Call:
    """An operation applied to terms."""

    op: str
    args: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.op}({','.join(map(str, self.args))})"


Term = Ref | Call


@dataclass(frozen=True)
class Assignment:
    """One step of a recipe: an output or an intermediate value and the term that it gets."""

    target: Ref
    value: Term

    def __str__(self) -> str:
        return f"{self.target}={self.value}"


def show(recipe: Sequence[Assignment]) -> str:
    """The recipe as text, as Myelin writes it."""
    return ";".join(map(str, recipe))


def parse(text: str) -> tuple[Assignment, ...]:
    """The steps of a recipe. Raises FormatError, with the place, for text that is none."""
    return _Parser(text).recipe()


class _Parser:
    """A recipe and how far it has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def wrong(self, what: str) -> FormatError:
        return FormatError(f"recipe {self.text[:200]!r}: at character {self.at}, {what}")

    def next(self) -> re.Match[str]:
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            rest = self.text[self.at : self.at + 20]
            raise self.wrong(f"{rest!r} is no operation, value or sign" if rest else "it ends")
        self.at = found.end()
        return found

    def sign(self, signs: str) -> str:
        found = self.next()[4]
        if found is None or found not in signs:
            raise self.wrong(f"one of {' '.join(signs)} should stand")
        return found

    def recipe(self) -> tuple[Assignment, ...]:
        made: list[Assignment] = []
        while True:
            token = self.next()
            if token[2] is None or token[2] not in "@$!":
                raise self.wrong("a step assigns to @n, $n or !n")
            target = Ref(token[2], int(token[3]))
            self.sign("=")
            made.append(Assignment(target, self.term(0)))
            if not self.text[self.at :].strip():
                return tuple(made)
            self.sign(";")
            if not self.text[self.at :].strip():
                return tuple(made)

    def term(self, depth: int) -> Term:
        if depth > _DEEPEST:
            raise self.wrong(f"terms are nested more than {_DEEPEST} deep")
        token = self.next()
        if token[2]:
            return Ref(token[2], int(token[3]))
        if not token[1]:
            raise self.wrong("an operation or a value should stand")
        args = [self.term(depth + 1)]
        while self.sign(",)") == ",":
            args.append(self.term(depth + 1))
        return Call(token[1], tuple(args))


def evaluate(
    recipe: Sequence[Assignment],
    inputs: Sequence[Value],
    apply: Callable[[str, Sequence[Value]], Value],
    number: Callable[[float], Value],
) -> dict[int, Value]:
    """The outputs by number: `apply` does an operation by its name, `number` makes a constant.

    Raises FormatError for a value that is not there.
    """
    values: dict[Ref, Value] = {}

    def value_of(term: Term) -> Value:
        if isinstance(term, Call):
            return apply(term.op, [value_of(a) for a in term.args])
        if term.kind in "%#":
            if term.number >= len(inputs):
                raise FormatError(
                    f"recipe {show(recipe)!r} reads {term}, it has {len(inputs)} inputs"
                )
            return inputs[term.number]
        if term.kind == "_":
            if term.number not in SYSTEM:
                raise FormatError(f"recipe {show(recipe)!r}: the constant {term} is not known")
            return number(SYSTEM[term.number])
        if term not in values:
            raise FormatError(f"recipe {show(recipe)!r} reads {term} before it is assigned")
        return values[term]

    for step in recipe:
        values[step.target] = value_of(step.value)
    return {ref.number: value for ref, value in values.items() if ref.kind == OUTPUT}

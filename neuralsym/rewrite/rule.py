"""Rules: a pattern, and the function that gives what stands in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neuralsym.core.symbol import Symbol
from neuralsym.rewrite.pattern import Applied, Match


@dataclass(frozen=True)
class Rejected:
    """Why a rule leaves a match alone."""

    reason: str


Result = Symbol | Sequence[Symbol] | Rejected
RuleFunction = Callable[..., Result]


@dataclass(frozen=True)
class Rule:
    """One rewrite. `shared` allows inner nodes that are used elsewhere too."""

    name: str
    pattern: Applied
    function: RuleFunction
    shared: bool = False

    def __call__(self, match: Match) -> Result:
        return self.function(**match.parts)

    @property
    def doc(self) -> str:
        """What the rule says about itself: the algebra, in one line."""
        text = self.function.__doc__ or ""
        return text.strip().splitlines()[0] if text.strip() else ""


def rule(pattern: Applied, *, shared: bool = False) -> Callable[[RuleFunction], Rule]:
    """Make a rule of a function that takes the named parts of `pattern`.

    The function gives the symbol (or symbols, of a root with several outputs) that stand in the
    place of the match's root, or `reject(reason)`. The driver refuses by itself a match with an
    inner node that is used elsewhere, unless `shared`.
    """

    def make(function: RuleFunction) -> Rule:
        return Rule(function.__name__, pattern, function, shared)

    return make


def reject(reason: str) -> Rejected:
    """The answer of a rule that does not apply after all; `explain` shows the reason."""
    return Rejected(reason)

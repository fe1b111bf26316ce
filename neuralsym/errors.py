"""What can go wrong, and how it is said.

Every error of neuralsym is a `NeuralsymError`. A message says which op or layer, at which line of
the user's own code, what was expected, what came, and how to mend it.
"""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

PACKAGE = str(Path(__file__).resolve().parent) + os.sep
ZOO = str(Path(__file__).resolve().parent.parent / "zoo") + os.sep
COMMAND = str(Path(__file__).resolve().parent / "cli" / "__init__.py")


class NeuralsymError(Exception):
    """The base of all errors of neuralsym."""


class OpError(NeuralsymError):
    """An operator was given what it cannot take."""


class TypeMismatch(OpError, TypeError):
    """A value has another number type than the operator, layer or input takes."""


class ShapeMismatch(OpError, ValueError):
    """A value has another shape than the operator, layer or input takes."""


class BadAttribute(OpError, ValueError):
    """An attribute or setting is unknown, missing or out of range."""


class GraphError(NeuralsymError, ValueError):
    """A graph is not well formed: a duplicate name, a cycle, an unknown symbol."""


class FormatError(NeuralsymError, ValueError):
    """A file cannot be read or written in the format asked for."""


class NoKernel(NeuralsymError, NotImplementedError):
    """Nothing on this machine can run an operator."""


class ExecutionError(NeuralsymError, RuntimeError):
    """A step of a compiled program failed while it ran."""


class InputError(NeuralsymError, ValueError):
    """A run was given a missing, extra or unknown input."""


class WeightsError(NeuralsymError, ValueError):
    """Weights do not fit the network that they are loaded into."""


class Where(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


ORIGIN: ContextVar[Where | None] = ContextVar("origin", default=None)


@contextmanager
def acting_for(where: Where | None) -> Iterator[None]:
    """Count what is made inside as made at `where`: a pass acts for the user's original line."""
    token = ORIGIN.set(where)
    try:
        yield
    finally:
        ORIGIN.reset(token)


def user_line() -> Where | None:
    """The innermost line on the stack that is not neuralsym's own; None under its command."""
    origin = ORIGIN.get()
    if origin is not None:
        return origin
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name == COMMAND:
            return None  # what calls it is a script that the user has not written
        if not _is_ours(name):
            return Where(name, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _is_ours(file: str) -> bool:
    return file.startswith((PACKAGE, ZOO, "<frozen", "<string>")) or "contextlib" in file


def warn(message: str) -> None:
    """A UserWarning at the innermost line that is not neuralsym's own."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def counted(number: int, noun: str) -> str:
    """`1 input`, `2 inputs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def at_line(where: Where | None) -> str:
    """The words that end a message with the user's line, or nothing."""
    return f"\n  at {where}" if where else ""


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """The words that name the nearest of `choices`, or nothing; what is no text is near to none."""
    if not isinstance(word, str):
        return ""
    choices = list(choices)
    near = [c for c in choices if c.lower() == word.lower()]
    near = near or difflib.get_close_matches(word, choices, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def which(word: object, choices: Iterable[str]) -> str:
    """The words that name the nearest of `choices`, or all of them where none is near."""
    choices = list(choices)
    return did_you_mean(word, choices) or f"; it has {', '.join(map(repr, choices)) or 'none'}"

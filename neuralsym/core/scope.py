"""Scopes: where in the naming tree a node was made.

A scope is a layer or a named block. Its own name is settled when a Graph is made: the user's, or
its kind counted within the parent (`conv2d`, `conv2d_1`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from neuralsym.errors import BadAttribute

if TYPE_CHECKING:
    from neuralsym.core.symbol import Node


class Scope:
    """One level of names; `result` is the node that carries the scope's own name."""

    __slots__ = ("kind", "name", "parent", "result")

    def __init__(self, kind: str, name: str | None = None, parent: Scope | None = None) -> None:
        check_name(name)
        self.kind = kind
        self.name = name
        self.parent = parent
        self.result: Node | None = None

    def path(self) -> list[Scope]:
        """The scopes from the outermost to this one."""
        found: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            found.append(scope)
            scope = scope.parent
        return found[::-1]


CURRENT: ContextVar[Scope | None] = ContextVar("scope", default=None)


@contextmanager
def scope(name: str | None = None, kind: str = "block") -> Iterator[Scope]:
    """Name what is built inside `name/...`; without a name, `kind` is counted."""
    made = Scope(kind, name, CURRENT.get())
    token = CURRENT.set(made)
    try:
        yield made
    finally:
        CURRENT.reset(token)


def check_name(name: str | None) -> None:
    """Raise BadAttribute for a name that no file or message could carry."""
    if name is None:
        return
    text: object = name
    if not isinstance(text, str) or not text or not text.isprintable():
        raise BadAttribute(f"{name!r} is no name: a name is printable text and not empty")

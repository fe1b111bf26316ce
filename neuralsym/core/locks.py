"""Locks and values kept once that a forked child can use.

A child has one thread. A lock that another thread of the parent held at the fork stays taken in it
for ever, and whatever it guarded would wait.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """Python's `cached_property` without the lock that it has until Python 3.12.

    Two threads may both compute a value; they get the same one.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Self | T:
        if instance is None:
            return self
        # As an ordinary descriptor it is asked only until the instance has the value.
        assert self.attrname is not None
        made: T = instance.__dict__.setdefault(self.attrname, self.func(instance))
        return made


def Lock() -> Any:
    """A re-entrant lock that a forked child finds free, unless its own thread holds it.

    For what is whole at every moment, such as a dict to which finished values are added. It is
    Python's own: an interrupt between taking one written here and `with` would leave it taken.
    """
    made = threading.RLock()
    _all.add(made)
    return made


_all: weakref.WeakSet[Any] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in list(_all):
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""Compiled programs on disk: what `warmup` stores (`imaging`), and what a later process runs.

An image holds one plan of a program, its descriptor words, its packed constants and its code:
linked where that can be, and the names of its kernels' objects. Running it needs neither the model
file's reader nor the compiler, and where the code is linked not even LLVM.

    JSON: sizes, inputs, outputs, kernels      constants   words   table   arrays   code
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.constants import ALIGNMENT, aligned_bytes
from neuralsym.cpu.driver import Driver
from neuralsym.cpu.loader import loaded, placed
from neuralsym.cpu.machine import Target
from neuralsym.cpu.quick import Answer, Feed, Pool, answering
from neuralsym.cpu.rows import aligned_words, make_table, unpack_failure
from neuralsym.cpu.store import HEADER, Store
from neuralsym.errors import ExecutionError

Array = NDArray[Any]

SECTIONS = ("constants", "words", "table", "arrays", "code")


class Place(NamedTuple):
    """An input or output in the block of a run."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Image:
    """A mapped image, ready to run; safe for several threads."""

    def __init__(self, data: memoryview, target: Target, store: Store) -> None:
        """Raises LookupError where a kernel that it needs is not in the store any more."""
        length = int.from_bytes(data[:8], "little")
        head = json.loads(bytes(data[8 : 8 + length]))
        self.name: str = head["name"]
        self.workers: int = head["workers"]
        self.inputs = [_place_of(p) for p in head["inputs"]]
        self.outputs = [_place_of(p) for p in head["outputs"]]
        self._rows: list[str] = head["rows"]
        self._nbytes: int = head["nbytes"]
        self._block = np.array(head["block"], np.int64)
        sections: dict[str, memoryview] = {}
        at = 8 + length
        for name, size in zip(SECTIONS, head["bytes"], strict=True):
            at += -(at + HEADER) % ALIGNMENT
            sections[name] = data[at : at + size]
            at += size
        self._constants = np.frombuffer(sections["constants"], np.uint8)
        self._arrays = aligned_words(max(len(sections["arrays"]) // 8, 1))
        self._arrays[: len(sections["arrays"]) // 8] = np.frombuffer(sections["arrays"], np.int64)
        self._words = np.frombuffer(sections["words"], np.int64).copy()
        self._words[head["constants"]] += self._constants.ctypes.data
        self._words[head["arrays"]] += self._arrays.ctypes.data
        kernels, parts = _code(head, sections["code"], store)
        self._driver = Driver(target, store, parts)
        table = np.frombuffer(sections["table"], np.int64).reshape(len(self._rows), -1)
        self._table = make_table(len(table))
        self._table[:] = table
        self._table[:, 0] = np.array([*kernels, 0], np.int64)[table[:, 0]]
        self.run = Pool(self._new_run).run

    def _new_run(self) -> _Run:
        block = aligned_bytes(self._nbytes)
        words = aligned_words(len(self._words))
        words[:] = self._words
        words[self._block] += block.ctypes.data
        table = make_table(len(self._table))
        table[:] = self._table
        table[:, 1] += words.ctypes.data
        frame, first, count = int(block.ctypes.data), int(table.ctypes.data), len(table)
        if self.workers == 1:
            call = self._driver.bind(frame, first, count)
        else:
            from neuralsym.cpu.threads import shared_team

            call = shared_team(self.workers, self._driver).bind(frame, first, count)
        feeds = [Feed(p.name, *_seen(block, p)) for p in self.inputs]
        results = [(p.name, _seen(block, p)[0]) for p in self.outputs]
        return _Run(answering(feeds, call, self._fail, results), (block, words, table))

    def _fail(self, status: int) -> None:
        failure = unpack_failure(status)
        assert failure is not None
        raise ExecutionError(f"{self._rows[failure.row]} failed (status {failure.status})")


@dataclass(eq=False)
class _Run:
    answer: Answer | None
    kept: tuple[Any, ...]


def _seen(block: Array, place: Place) -> tuple[Array, np.dtype[Any], tuple[int, ...]]:
    from neuralsym.dtypes import number_type

    dtype = number_type(place.dtype).numpy
    if 0 in place.shape:
        return np.empty(place.shape, dtype), dtype, place.shape
    view = np.ndarray(place.shape, dtype, block.data, place.offset)
    return view, dtype, place.shape


def _place_of(parts: list[Any]) -> Place:
    name, dtype, shape, offset = parts
    return Place(name, dtype, tuple(shape), offset)


def _code(
    head: Mapping[str, Any], code: memoryview, store: Store
) -> tuple[list[int], dict[str, int]]:
    """The addresses of the kernels, and of the driver's parts where the code is linked."""
    linked = head["linked"]
    start = linked and placed(linked["key"], code, linked["inner"], linked["outer"])
    if not start:
        return [_kernel(key, symbol, store) for key, symbol in head["kernels"]], {}
    entries = [start + entry for entry in linked["entries"]]
    count = len(head["kernels"])
    return entries[:count], dict(zip(linked["parts"], entries[count:], strict=True))


def _kernel(key: str, symbol: str, store: Store) -> int:
    known = loaded(key)
    if known is not None:
        return known
    data = store.get(key)
    if data is None:
        raise LookupError(key)
    try:
        return loaded(key, symbol, data)
    except RuntimeError:
        store.discard(key)
        raise LookupError(key) from None

"""Compiled programs on disk: what `warmup` stores, and what a later process maps and runs.

An image holds one plan of a program, its descriptor words, its packed constants and the names of
its kernels' objects. Running it needs neither the model file's reader nor the compiler.

    JSON: sizes, inputs, outputs, kernels      constants      words      table      arrays
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.constants import ALIGNMENT, aligned_bytes
from neuralsym.cpu.driver import Driver, aligned_words, make_table, unpack_failure
from neuralsym.cpu.emit import Code
from neuralsym.cpu.loader import loaded
from neuralsym.cpu.machine import Target
from neuralsym.cpu.plan import Plan
from neuralsym.cpu.program import Buffer, owner
from neuralsym.cpu.runtime import Cell
from neuralsym.cpu.store import HEADER, Store
from neuralsym.cpu.threads import shared_team
from neuralsym.errors import ExecutionError

Array = NDArray[Any]

SECTIONS = ("constants", "words", "table", "arrays")


class Place(NamedTuple):
    """An input or output in the block of a run."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


def image_of(cell: Cell, plan: Plan) -> bytes | None:
    """The image of a cell's plan; None for a program that needs more than its table.

    That is one in several segments, with host steps, variables, defaults or Python objects.
    """
    program = cell.program
    ports = [*program.inputs.values(), *program.outputs.values()]
    if len(program.segments) > 1 or plan.has_host or program.updates:
        return None
    if any(b.constant is not None or not b.is_tensor for b in ports):
        return None
    if any(owner(b) not in plan.places or b.layout.block for b in ports):
        return None
    blob, words = _constants(cell, plan)
    words[plan.table_uses] -= plan.tables.ctypes.data
    codes = [code for code in dict.fromkeys(plan.codes) if isinstance(code, Code)]
    numbers = {code: i for i, code in enumerate(codes)}
    table = plan.rows.copy()
    table[:, 0] = [numbers[code] for code in plan.codes if isinstance(code, Code)]
    parts: list[Array] = [blob, words, table, plan.tables]  # as SECTIONS
    head = {
        "name": program.name,
        "workers": cell.workers,
        "nbytes": plan.nbytes,
        "inputs": [_place(n, b, plan) for n, b in program.inputs.items()],
        "outputs": [_place(n, b, plan) for n, b in program.outputs.items()],
        "kernels": [(code.key(cell.target), code.symbol) for code in codes],
        "rows": [step.describe() for step in plan.row_steps],
        "block": plan.relocations.get(0, np.zeros(0, np.int64)).tolist(),
        "constants": [position for position, _ in plan.constant_uses],
        "arrays": plan.table_uses.tolist(),
        "bytes": [part.nbytes for part in parts],
    }
    return _joined(json.dumps(head).encode(), [part.tobytes() for part in parts])


def _constants(cell: Cell, plan: Plan) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The constants end to end, and the words with places among them for addresses."""
    words = plan.words.copy()
    starts: dict[Buffer, int] = {}
    parts: list[bytes] = []
    length = 0
    for position, buffer in plan.constant_uses:
        if buffer not in starts:
            data = np.ascontiguousarray(buffer.value).tobytes()
            starts[buffer] = length
            parts.append(data + bytes(-len(data) % ALIGNMENT))
            length += len(parts[-1])
        words[position] += starts[buffer] - cell.constant_address(buffer)
    return np.frombuffer(b"".join(parts), np.uint8), words


def _place(name: str, buffer: Buffer, plan: Plan) -> Place:
    offset = plan.places[owner(buffer)] + plan.sizes.offset(buffer)
    return Place(name, str(buffer.dtype), plan.sizes.shape(buffer), offset)


def _joined(head: bytes, parts: list[bytes]) -> bytes:
    """The parts one behind the other, each aligned in the file that the store writes."""
    made = [len(head).to_bytes(8, "little"), head]
    length = HEADER + 8 + len(head)
    for part in parts:
        made.append(bytes(-length % ALIGNMENT))
        length += len(made[-1])
        made.append(part)
        length += len(part)
    return b"".join(made)


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
        self._driver = Driver(target, store)
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
        addresses = [_kernel(key, symbol, store) for key, symbol in head["kernels"]]
        table = np.frombuffer(sections["table"], np.int64).reshape(len(self._rows), -1)
        self._table = make_table(len(table))
        self._table[:] = table
        self._table[:, 0] = np.array([*addresses, 0], np.int64)[table[:, 0]]
        self._free: list[_Run] = []

    def run(self, feed: Mapping[str, Any]) -> dict[str, Array] | None:
        """The outputs; None where the feed is not exactly the inputs that the image is for."""
        if len(feed) != len(self.inputs):
            return None
        try:
            run = self._free.pop()  # atomic
        except IndexError:
            run = self._new_run()
        try:
            for name, place, dtype, shape in run.feeds:
                array = feed.get(name)
                if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                    return None
                place[...] = array
            status = run.call()
            if status:
                failure = unpack_failure(status)
                assert failure is not None
                raise ExecutionError(f"{self._rows[failure.row]} failed (status {failure.status})")
            return {name: view.copy() for name, view in run.results}
        finally:
            self._free.append(run)

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
            call = shared_team(self.workers, self._driver).bind(frame, first, count)
        feeds = [(p.name, *_seen(block, p)) for p in self.inputs]
        results = [(p.name, _seen(block, p)[0]) for p in self.outputs]
        return _Run(feeds, call, results, (block, words, table))


class _Run(NamedTuple):
    feeds: list[tuple[str, Array, np.dtype[Any], tuple[int, ...]]]
    call: Any
    results: list[tuple[str, Array]]
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

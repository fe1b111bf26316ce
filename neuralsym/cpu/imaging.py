"""Writing images: what `warmup` stores of a compiled program; `image` says what is in it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.constants import ALIGNMENT
from neuralsym.cpu.driver import driver_codes
from neuralsym.cpu.elf import link
from neuralsym.cpu.emit import KEY_LENGTH, Code, compile_object, compiling
from neuralsym.cpu.image import Place
from neuralsym.cpu.plan import Plan
from neuralsym.cpu.program import Buffer, owner
from neuralsym.cpu.runtime import Cell
from neuralsym.cpu.store import HEADER

Array = NDArray[Any]


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
    linked, code = _linked(cell, codes)
    parts: list[Array] = [blob, words, table, plan.tables, code]  # as SECTIONS
    head = {
        "name": program.name,
        "workers": cell.workers,
        "nbytes": plan.nbytes,
        "inputs": [_place(n, b, plan) for n, b in program.inputs.items()],
        "outputs": [_place(n, b, plan) for n, b in program.outputs.items()],
        "kernels": [(code.key(cell.target), code.symbol) for code in codes],
        "linked": linked,
        "rows": [step.describe() for step in plan.row_steps],
        "block": plan.relocations.get(0, np.zeros(0, np.int64)).tolist(),
        "constants": [position for position, _ in plan.constant_uses],
        "arrays": plan.table_uses.tolist(),
        "bytes": [part.nbytes for part in parts],
    }
    return _joined(json.dumps(head).encode(), [part.tobytes() for part in parts])


def _linked(cell: Cell, codes: list[Code]) -> tuple[dict[str, Any] | None, NDArray[np.uint8]]:
    """The kernels and the driver's parts as one block, and where in it they are; or nothing."""
    parts = driver_codes(cell.target, cell.workers)
    objects = [(_object(code, cell), code.symbol) for code in (*codes, *parts.values())]
    made = link(objects)
    if made is None:
        return None, np.zeros(0, np.uint8)
    slots = json.dumps([made.inner, made.outer]).encode()
    where = {
        "key": hashlib.sha256(made.code + slots).hexdigest()[:KEY_LENGTH],
        "entries": made.entries,
        "parts": list(parts),
        "inner": made.inner,
        "outer": made.outer,
    }
    return where, np.frombuffer(made.code, np.uint8)


def _object(code: Code, cell: Cell) -> bytes:
    """The object of a kernel, from the store if it is there."""
    stored = cell.store.get(code.key(cell.target))
    if stored is not None:
        return stored
    with compiling:
        return compile_object(code, cell.target)


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

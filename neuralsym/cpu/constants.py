"""Memory for the constants of a cell: each held once, 64-byte aligned, small ones side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from neuralsym.cpu.program import Buffer

ALIGNMENT = 64
SMALL = 4096
CHUNK = 1 << 16


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """`size` bytes, zero, at an address that is a multiple of 64; at least 64 of them."""
    room = np.zeros(max(size, ALIGNMENT) + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + max(size, ALIGNMENT)]


class Constants:
    """The arrays of constant buffers by address; an aligned array of the caller's stays in place.

    Safe for use by one thread at a time; the cell holds a lock.
    """

    def __init__(self) -> None:
        self.arrays: dict[Buffer, NDArray[Any]] = {}
        self._addresses: dict[Buffer, int] = {}
        self._chunk = aligned_bytes(CHUNK)
        self._chunk_address = int(self._chunk.ctypes.data)
        self._used = 0
        self._kept: list[Any] = [self._chunk]

    def address(self, buffer: Buffer) -> int:
        """Where the value of a constant buffer lies, for as long as this lives."""
        found = self._addresses.get(buffer)
        if found is None:
            found = self._addresses[buffer] = self._hold(buffer)
        return found

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.arrays.values())

    def _hold(self, buffer: Buffer) -> int:
        array = np.asarray(buffer.value)
        self.arrays[buffer] = array
        if array.nbytes <= SMALL:
            return self._small(array)
        if array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0:
            return int(array.ctypes.data)
        room = aligned_bytes(array.nbytes)
        copy: NDArray[Any] = room.view(array.dtype).reshape(-1)[: array.size].reshape(array.shape)
        copy[...] = array
        self.arrays[buffer] = copy
        return int(copy.ctypes.data)

    def _small(self, array: NDArray[Any]) -> int:
        size = -(-max(array.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        if self._used + size > CHUNK:
            self._chunk = aligned_bytes(CHUNK)
            self._chunk_address = int(self._chunk.ctypes.data)
            self._kept.append(self._chunk)
            self._used = 0
        at = self._used
        self._used += size
        if array.size:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self._chunk[at : at + data.size] = data
        return self._chunk_address + at

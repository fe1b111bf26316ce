"""Changes of order by numpy, for the types and ranks that no compiled kernel takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralsym.core.leaves import OWN
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.cpu.library import Form, Library, Take
from neuralsym.cpu.program import Buffer, Step


class ReorderOnHost(HostKernel):
    """Any layout into any other; operands come and go as their inner pixels lie in memory."""

    name = "reorder on host"

    def forms(self, step: Step) -> Sequence[Form]:
        return [Form((None,), (Take(step.outputs[0].layout.block),))]

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        source, target = step.inputs[0], step.outputs[0]
        assert source is not None
        return [blocked(plain(values[0], source), target)]


def plain(array: Any, buffer: Buffer) -> Any:
    """The row-major array of what lies in blocks."""
    if not buffer.layout.block:
        return array
    moved = np.moveaxis(array, -1, 2)
    whole = moved.reshape(moved.shape[0], -1, *moved.shape[3:])
    channels = buffer.tensor.shape[1] if buffer.tensor.shape else None
    assert isinstance(channels, int)
    return whole[:, :channels]


def blocked(array: Any, buffer: Buffer) -> Any:
    """An array in blocks, lanes beyond the last channel zero."""
    block = buffer.layout.block
    if not block:
        return np.ascontiguousarray(array)
    count = -(-array.shape[1] // block)
    room = np.zeros((array.shape[0], count * block, *array.shape[2:]), array.dtype)
    room[:, : array.shape[1]] = array
    split = room.reshape(array.shape[0], count, block, *array.shape[2:])
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    library.kernel("Reorder", domain=OWN)(ReorderOnHost)

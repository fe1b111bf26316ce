"""Operators that only rename the axes or the type of a plain tensor: its memory stays."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step, View

OPERATORS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "BitCast")


class ViewKernel(Kernel):
    """No work at all: the bytes are the same, in the same order."""

    name = "view"

    def supports(self, step: Step) -> bool | str:
        return True

    def needs(self, step: Step) -> Sequence[int]:
        return (0,)

    def settings(self, step: Step) -> Sequence[int]:
        return range(1, len(step.inputs))

    def adjust(self, step: Step) -> None:
        whole = step.inputs[0]
        assert whole is not None
        step.outputs[0].view = View(whole)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        return []

    def is_apart(self, step: Step) -> bool:
        return True


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    for op in OPERATORS:
        library.kernel(op)(ViewKernel)

"""Numeric work is compiled: only strings, images and the bookkeeping of sequences and optionals run
in Python, in any case of onnx's suite."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import onnx_cases
import pytest

from neuralsym import load
from neuralsym.cpu.kernels.host import LastResort
from neuralsym.cpu.program import Role, Step
from neuralsym.cpu.runtime import Cell

BOOKKEEPING = {
    *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"),
    *("SequenceInsert", "SequenceLength", "SplitToSequence", "Optional", "OptionalGetElement"),
    *("OptionalHasElement", "ImageDecoder", "RegexFullMatch"),
}


def steps_of(cell: Cell) -> Iterator[Step]:
    """The steps of a program and of the bodies of its control flow."""
    for step in cell.program.steps:
        yield step
        for note in step.notes.values():
            if isinstance(note, Cell):
                yield from steps_of(note)


def may_be_python(step: Step) -> bool:
    strings = any(b.role is Role.HOST for b in (*step.operands, *step.outputs))
    # Without axes, how many axes a Squeeze leaves depends on the sizes: it only renames them.
    renames = step.op.__name__ == "Squeeze" and step.outputs[0].tensor.shape is None
    return strings or renames or step.op.__name__ in BOOKKEEPING


@pytest.mark.parametrize("name", onnx_cases.sampled(onnx_cases.names(), 16))
def test_no_numeric_step_is_python(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = load(onnx_cases.find(name).model)
    steps = steps_of(network._compile(()).cell)
    python = [s for s in steps if isinstance(s.kernel, LastResort)]
    assert not [s.describe() for s in python if not may_be_python(s)]

"""Settings that a run computes (axes, pads, shapes, counts) and the sizes that they tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from neuralsym.core.traverse import rebuild
from neuralsym.core.types import TensorType
from neuralsym.cpu.agreement import operand
from neuralsym.cpu.program import Buffer, Segment, Sizes, Step
from neuralsym.errors import ExecutionError, NeuralsymError


def with_settings(segment: Segment, sizes: Sizes, read: Mapping[Buffer, NDArray[Any]]) -> Sizes:
    """The sizes with those that follow from the values read, step by step.

    Raises ExecutionError, naming the step, for values that its operator refuses.
    """
    made = sizes.copy()
    made.read.update(read)
    for step in segment.late:
        for buffer, shape in zip(step.outputs, _shapes(step, made), strict=True):
            made.bind(buffer, shape)
    return made


def _shapes(step: Step, sizes: Sizes) -> list[tuple[int, ...]]:
    """The shapes of the step's outputs by the operator's own rule, for the sizes of the run."""
    node = step.node
    assert node is not None
    pairs = zip(node.inputs, step.inputs, strict=True)
    inputs = tuple(None if s is None else operand(s, b, sizes) for s, b in pairs)
    try:
        outputs = rebuild(node, inputs).outputs
    except NeuralsymError as error:
        raise ExecutionError(f"{step.describe()} cannot run: {error}") from error
    shapes = []
    for symbol in outputs:
        assert isinstance(symbol.type, TensorType)
        shape = symbol.type.shape
        if shape is None or not all(isinstance(d, int) for d in shape):
            raise ExecutionError(
                f"{step.describe()}: its settings leave the shape of {symbol.type} open"
            )
        shapes.append(tuple(int(d) for d in shape if isinstance(d, int)))
    return shapes

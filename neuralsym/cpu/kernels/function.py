"""Kernels from plain Python functions over arrays: what `Library.kernel` makes of a function.

    @library.kernel("MyScale")
    def my_scale(x, y, *, factor):            # inputs, then outputs, then attributes
        for i in range(x.size):
            y.flat[i] = factor * x.flat[i]

The function is compiled by numba for the types and ranks of a step, and may end its parameters
with `worker, workers` to share its work.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from neuralsym.cpu.arrays import RAISED, VIEWS
from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.library import Kernel
from neuralsym.cpu.program import Buffer, Row, Sizes, Step
from neuralsym.errors import BadAttribute

WORKERS = ("worker", "workers")


class FunctionKernel(Kernel):
    """A kernel that one Python function states; made by `kernel_of_function`."""

    function: ClassVar[Callable[..., Any]]
    failures: ClassVar[Mapping[int, str]] = {
        RAISED: "the function raised an exception, such as an index out of range"
    }
    places: ClassVar[int]
    attributes: ClassVar[tuple[str, ...]]
    shares: ClassVar[bool]

    def supports(self, step: Step) -> bool | str:
        if None in step.inputs:
            return "an optional input is left out"
        buffers = _operands(step)
        if len(buffers) != self.places:
            return (
                f"the function takes {self.places} arrays, the step has {len(step.inputs)} inputs "
                f"and {len(step.outputs)} outputs"
            )
        for buffer in buffers:
            if buffer.dtype not in VIEWS:
                return f"functions take no arrays of {buffer.dtype}"
        for name in self.attributes:
            value = step.attr(name)
            if not isinstance(value, (bool, int, float)):
                return f"the attribute {name}={value!r} is no number"
        return True

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        buffers = _operands(step)
        inputs = len(buffers) - len(step.outputs)
        sides = [
            Side(b, b.dtype.value, sizes.shape(b), "in" if i < inputs else "out")
            for i, b in enumerate(buffers)
        ]
        values = [step.attr(name) for name in self.attributes]
        function = type(self).function
        serial = not self.shares
        return [
            array_row(
                *(step, sizes, function, sides, values),
                name=self.name,
                serial=serial,
                checked=True,
            )
        ]


def kernel_of_function(function: Callable[..., Any]) -> type[FunctionKernel]:
    """The Kernel class of a plain function: inputs, outputs, then keyword attributes.

    Raises BadAttribute for a signature with *args, **kwargs or defaults of arrays.
    """
    parameters = list(inspect.signature(function).parameters.values())
    arrays = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    attributes = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    if len(arrays) + len(attributes) < len(parameters):
        raise BadAttribute(f"kernel {function.__name__}: it must name its arrays, without * and **")
    shares = tuple(p.name for p in arrays[-2:]) == WORKERS
    if shares:
        arrays = arrays[:-2]

    class Made(FunctionKernel):
        name = function.__name__

    Made.__name__ = Made.__qualname__ = function.__name__
    Made.__doc__ = function.__doc__
    Made.function = staticmethod(_positional(function, len(arrays), len(attributes), shares))
    Made.places = len(arrays)
    Made.attributes = tuple(p.name for p in attributes)
    Made.shares = shares
    return Made


def _positional(
    function: Callable[..., Any], arrays: int, attributes: int, shares: bool
) -> Callable[..., Any]:
    """The function with its attributes as positional parameters behind the arrays."""
    if not attributes:
        return function
    plain: Any = getattr(function, "py_func", function)
    code = plain.__code__
    if shares:
        raise BadAttribute(
            f"kernel {function.__name__}: a function with attributes and workers is written "
            "with all its parameters positional, as emit.array_kernel takes it"
        )
    changed = code.replace(co_argcount=arrays + attributes, co_kwonlyargcount=0)
    return types.FunctionType(changed, plain.__globals__, plain.__name__, None, plain.__closure__)


def _operands(step: Step) -> list[Buffer]:
    return [*(b for b in step.inputs if b is not None), *step.outputs]

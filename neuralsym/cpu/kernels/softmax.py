"""Softmax and LogSoftmax along any axis (templates/softmax.py).

In half precision Softmax rounds x - m, the exponentials and their sum to the type of the tensor:
ONNX defines it as a function of operators on that type, and attention in float16 is compared with
just that. It costs a unit in the last place. LogSoftmax computes in float32 up to its result: what
is near zero there would lose all of its digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.widen import finish, reserve, wide_place, widened
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step, Word
from neuralsym.cpu.scalar_ir import HALVES
from neuralsym.cpu.templates.softmax import SoftmaxText, softmax_text
from neuralsym.dtypes import NumberType

FLOATS = (NumberType.FLOAT32, NumberType.FLOAT64, *HALVES)


class Softmax(Kernel):
    """Exponentials over their sum; the largest element is taken off first, so none overflows."""

    name = "softmax"

    def supports(self, step: Step) -> bool | str:
        y = step.outputs[0]
        if y.dtype not in FLOATS:
            return f"there are loops over floats, not over {y.dtype.value}"
        return True if y.rank else f"{y.name} has no axis"

    def adjust(self, step: Step) -> None:
        reserve(step, 0, step.inputs[0])
        reserve(step, -1, step.outputs[0])
        if step.outputs[0].dtype not in HALVES:
            step.in_place.append((0, 0))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        shape = sizes.shape(y)
        if 0 in shape:
            return []
        axis = int(step.attr("axis")) % len(shape)
        element = "double" if y.dtype is NumberType.FLOAT64 else "float"
        rows: list[Row] = []
        source = widened(self.target, step, 0, x, sizes, rows)
        place = wide_place(step, -1, y)
        text = SoftmaxText(
            self.target.width(element),
            element,
            axis == len(shape) - 1,
            step.op.__name__ == "LogSoftmax",
            y.dtype if y.dtype in HALVES and step.op.__name__ == "Softmax" else None,
            self.target.scales,
            self.target.fma,
        )
        behind = math.prod(shape[axis + 1 :])
        words: list[Word] = [source, place, math.prod(shape[:axis]), shape[axis], behind]
        return [*rows, Row(_code(text), words), *finish(self.target, step, place, y, None, sizes)]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        return 4 * math.prod(sizes.shape(step.outputs[0]))


@lru_cache(maxsize=16)
def _code(text: SoftmaxText) -> Code:
    return Code("softmax", "softmax", softmax_text(text, "softmax"))


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    for op in ("Softmax", "LogSoftmax"):
        library.kernel(op)(Softmax)

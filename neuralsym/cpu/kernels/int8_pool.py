"""Pooling of bytes over blocks of channels: MaxPool as ONNX has it, our averages rescaled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from neuralsym.core.leaves import OWN
from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.geometry import channels, inner, plane, window
from neuralsym.cpu.library import Form, Kernel, Library, Take
from neuralsym.cpu.program import Role, Row, Sizes, Step
from neuralsym.cpu.templates.int8_pool import (
    Int8PoolText,
    Mean,
    Windows,
    int8_pool_text,
    int8_pool_words,
)
from neuralsym.cpu.templates.layout import triple
from neuralsym.dtypes import NumberType

BYTES = (NumberType.INT8, NumberType.UINT8)


class Int8Pool(Kernel):
    """One vector of bytes for each pixel of a block."""

    name = "int8 pool"

    def supports(self, step: Step) -> bool | str:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if len(step.outputs) > 1:
            return "the indices of maxima are wanted"
        if x.dtype not in BYTES or y.dtype is not x.dtype:
            return f"{x.name} is {x.dtype.value}, the kernel takes 8 bits"
        if x.role is Role.CONSTANT or x.known is not None:
            return f"{x.name} is a constant, which stays row-major"
        count = channels(x) if 3 <= x.rank <= 5 else None
        if not isinstance(count, int):
            return f"{x.name} is no image of a fixed number of channels"
        width = self.target.width("int32")
        if 2 * count < width and step.op.__name__ == "MaxPool":
            return f"{count} channels fill no vector of {width}"
        return True

    def forms(self, step: Step) -> Sequence[Form]:
        take = Take(self.target.width("int32"))
        return [Form((take,), (take,))]

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        spatial = sizes.shape(x)[2:]
        is_max = step.op.__name__ == "MaxPool"
        if step.attr("kernel_shape"):
            found = window(step, step.attr("kernel_shape"), spatial)
            windows = Windows(*found.triples(), bool(step.attr("count_include_pad")))
        else:
            ones, none = triple((), 1), triple((), 0)
            windows = Windows(triple(spatial, 1), ones, ones, none, none)
        mean = None
        if not is_max:
            numbers = {name: step.attr(name) for name in ("x_zero", "zero", "low", "high")}
            mean = Mean(float(step.attr("ratio")), **numbers)
        width = self.target.width("int32")
        ragged = sizes.shape(y)[1] % width != 0 and not is_max
        text = Int8PoolText(width, "max" if is_max else "average", x.dtype, ragged)
        places = inner(x, sizes), inner(y, sizes)
        words = int8_pool_words(
            windows, plane(x, sizes), plane(y, sizes), sizes.shape(x)[0], places, mean
        )
        return [Row(_code(text), words)]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        taps = step.attr("kernel_shape")
        x = step.inputs[0]
        assert x is not None
        if not taps:
            return math.prod(sizes.shape(x))
        return math.prod((*sizes.shape(step.outputs[0]), *taps))


@cache
def _code(text: Int8PoolText) -> Code:
    return Code(f"int8 {text.reduce} pool", "pool", int8_pool_text(text, "pool"))


def register(library: Library) -> None:
    """Enter the kernel for maxima and for averages of our own."""
    library.kernel("MaxPool")(Int8Pool)
    library.kernel("IntegerAveragePool", domain=OWN)(Int8Pool)

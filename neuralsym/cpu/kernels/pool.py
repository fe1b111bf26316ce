"""Pooling: windows in blocks of channels, global pooling, and loops for what is left.

The loops serve other number types, indices of maxima, Lp norms and inputs that are constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.geometry import blockable, channels, inner, plane, window
from neuralsym.cpu.kernels.pool_loop import GlobalPoolLoop, PoolLoop
from neuralsym.cpu.kernels.reduce import reduce_code, reduce_words
from neuralsym.cpu.library import ROWS, Form, Kernel, Library, Take
from neuralsym.cpu.program import Operand, Row, Sizes, Step
from neuralsym.cpu.templates.global_pool import (
    GlobalPoolText,
    global_pool_text,
    global_pool_words,
)
from neuralsym.cpu.templates.pool import (
    PoolShape,
    PoolText,
    Reduce,
    plan_pool,
    pool_text,
    pool_words,
    run_table,
)
from neuralsym.cpu.templates.reduce import How, ReduceText

REDUCE: dict[str, Reduce] = {
    "MaxPool": "max",
    "AveragePool": "average",
    "GlobalMaxPool": "max",
    "GlobalAveragePool": "average",
}


class BlockedPool(Kernel):
    """MaxPool and AveragePool over blocks of channels; borders are cut, so no halo is needed."""

    name = "pool"

    def supports(self, step: Step) -> bool | str:
        if len(step.outputs) > 1:
            return "the indices of maxima are wanted"
        # Lanes may stay empty: maxima of one channel alone still take less time than a loop over
        # its elements, averages from two channels on.
        y = step.outputs[0]
        answer = blockable([step.inputs[0], y])
        if answer is True and channels(y) == 1 and step.op.__name__ == "AveragePool":
            return "averages of one channel fill one lane of its vectors"
        return answer

    def forms(self, step: Step) -> Sequence[Form]:
        take = Take(self.target.width("float32"))
        return [Form((take,), (take,))]

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        source, target = plane(x, sizes), plane(y, sizes)
        found = window(step, step.attr("kernel_shape"), sizes.shape(x)[2:])
        shape = PoolShape(*found.triples(), bool(step.attr("count_include_pad")))
        text = plan_pool(shape, source, REDUCE[step.op.__name__])
        runs = run_table(text, shape, source, target)
        batch = sizes.shape(x)[0]
        places = inner(x, sizes), inner(y, sizes)
        words = pool_words(shape, *places, runs, runs, batch, source, target)
        return [Row(_code(text), words)]

    def is_apart(self, step: Step) -> bool:
        return True

    def complexity(self, step: Step, sizes: Sizes) -> int:
        taps: tuple[int, ...] = step.attr("kernel_shape")
        return math.prod(sizes.shape(step.outputs[0])) * math.prod(taps)


class BlockedGlobalPool(Kernel):
    """GlobalAveragePool and GlobalMaxPool to a plain row of values.

    What comes in blocks of channels stays so; planes that come row-major are reduced as they lie.
    """

    name = "global pool"

    def supports(self, step: Step) -> bool | str:
        return blockable([step.inputs[0], step.outputs[0]])

    def forms(self, step: Step) -> Sequence[Form]:
        blocks = Take(self.target.width("float32"))
        return [Form((blocks,), (ROWS,)), Form((ROWS,), (ROWS,))]

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if not x.layout.block:
            return self._planes(step, sizes)
        source = plane(x, sizes)
        batch = sizes.shape(x)[0]
        words = global_pool_words(
            inner(x, sizes), Operand(y), batch, source, 4 * source.channels, source.channels
        )
        text = GlobalPoolText(source.lanes, REDUCE[step.op.__name__])
        return [Row(_global_code(text), words)]

    def _planes(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        """The reduction over all axes but the first two."""
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        flags = [False, False, *[True] * (x.rank - 2)]
        how: How = "max" if REDUCE[step.op.__name__] == "max" else "mean"
        text = ReduceText(how, x.dtype, self.target.vector_bytes)
        words = reduce_words(sizes.shape(x), sizes.strides(x), flags)
        return [Row(reduce_code(text), [Operand(y), Operand(x), *words])]

    def is_apart(self, step: Step) -> bool:
        return True

    def complexity(self, step: Step, sizes: Sizes) -> int:
        x = step.inputs[0]
        assert x is not None
        return math.prod(sizes.shape(x))


@lru_cache(maxsize=64)
def _code(text: PoolText) -> Code:
    return Code(f"{text.reduce} pool", "pool", pool_text(text, "pool"))


@lru_cache(maxsize=8)
def _global_code(text: GlobalPoolText) -> Code:
    return Code(f"global {text.reduce} pool", "pool", global_pool_text(text, "pool"))


def register(library: Library) -> None:
    """Enter the kernels of this module, the loops to be tried last."""
    for op in ("MaxPool", "AveragePool", "LpPool"):
        library.kernel(op)(PoolLoop)
    for op in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"):
        library.kernel(op)(GlobalPoolLoop)
    for op in ("MaxPool", "AveragePool"):
        library.kernel(op)(BlockedPool)
    for op in ("GlobalMaxPool", "GlobalAveragePool"):
        library.kernel(op)(BlockedGlobalPool)

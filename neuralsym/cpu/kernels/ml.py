"""Compiled loops of classical machine learning: tables, trees, n-grams, probabilities.

The loops stand in `ops.ml_loops`; rows of the input are shared among workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any, ClassVar

from neuralsym.core.leaves import OWN
from neuralsym.cpu.emit import Code, array_kernel
from neuralsym.cpu.kernels.array_row import array_row
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Operand, Row, Sizes, Step, Word
from neuralsym.dtypes import NumberType
from neuralsym.ops import grams, ml_loops, ml_parts


class FindKey(Kernel):
    """A search among sorted keys for each element."""

    name = "find key"
    failures: ClassVar = {
        ml_loops.UNKNOWN_KEY: "a value is none of the categories, which zeros=0 forbids"
    }

    def supports(self, step: Step) -> bool | str:
        kind = step.attrs["keys"].dtype
        if kind not in (NumberType.INT64, NumberType.FLOAT64):
            return f"keys of type {kind.value} are found in Python"
        return True

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None and step.node is not None
        count = prod(sizes.shape(x))
        if not count:
            return []
        keys, places = ml_parts.sorted_keys(step.node)
        tables = [step.pack("keys", lambda: keys), step.pack("places", lambda: places)]
        operands: list[Any] = [(x, (count,), "in"), *((t, (len(keys),), "in") for t in tables)]
        numbers = [step.attrs["keys"].size, int(step.attr("strict"))]
        operands.append((y, (count,), "out"))
        return [array_row(ml_loops.find_key, operands, numbers, serial=False)]


class TreeScores(Kernel):
    """Each row of the input walks all trees."""

    name = "trees"
    failures: ClassVar = {
        ml_loops.TOO_FEW_FEATURES: "a node tests a feature that the input does not have"
    }

    def supports(self, step: Step) -> bool | str:
        x = step.inputs[0]
        assert x is not None
        if x.dtype not in (NumberType.FLOAT32, NumberType.FLOAT64):
            return f"it walks by floats, not by {x.dtype.value}"
        return True

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        operands = _operands(step, sizes, ml_parts.TABLES)
        numbers = [step.attr(name) for name in ml_parts.TreeScores.numbers]
        return [array_row(ml_loops.tree_scores, operands, numbers, serial=False)]


class GramScores(Kernel):
    """Each row is walked through the tree of n-grams."""

    name = "n-grams"

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        numbers = [step.attrs[name] for name in grams.GramScores.numbers]
        operands = _operands(step, sizes, grams.TABLES)
        return [array_row(ml_loops.gram_scores, operands, numbers, serial=False)]


class PairProbabilities(Kernel):
    """An iteration for each row."""

    name = "pair probabilities"

    def adjust(self, step: Step) -> None:
        y, k = step.outputs[0], step.attrs["classes"]
        step.need_scratch("pairs", lambda sizes: 8 * k * k * sizes.shape(y)[0])
        step.need_scratch("change", lambda sizes: 8 * k * sizes.shape(y)[0])

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        count, k = sizes.shape(y)
        if not count or not k:
            return []
        words: list[Word] = [Operand(x), *sizes.shape(x)]
        for name in ("slopes", "offsets"):
            table = step.attrs[name].value
            words += [Operand(step.pack(name, lambda table=table: table)), *table.shape]  # type: ignore[misc]
        words += [Operand(step.scratch["pairs"].buffer), count, k, k]
        words += [Operand(step.scratch["change"].buffer), count, k]
        return [Row(_pair_code(), [*words, Operand(y), count, k])]


def _operands(step: Step, sizes: Sizes, names: Sequence[str]) -> list[Any]:
    """The input, the tables that the attributes hold, the output."""
    x, y = step.inputs[0], step.outputs[0]
    assert x is not None
    operands: list[Any] = [(x, sizes.shape(x), "in")]
    for name in names:
        table = step.attrs[name].value
        buffer = step.pack(name, lambda table=table: table)  # type: ignore[misc]
        operands.append((buffer, table.shape, "in"))
    return [*operands, (y, sizes.shape(y), "out")]


@cache
def _pair_code() -> Code:
    kinds = [("float64", rank, "in") for rank in (2, 1, 1)]
    kinds += [("float64", rank, "out") for rank in (3, 2, 2)]
    return array_kernel(ml_loops.pair_probabilities, kinds)


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    for kernel in (FindKey, TreeScores, GramScores, PairProbabilities):
        library.kernel(kernel.__name__, domain=OWN)(kernel)

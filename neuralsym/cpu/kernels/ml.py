"""Compiled loops of classical machine learning: tables, trees, n-grams, probabilities.

The loops stand in `ops.ml_loops`; rows of the input are shared among workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from neuralsym.core.leaves import OWN
from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step
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
        sides = [Side(x, x.dtype.value, (count,))]
        sides += [Side(t, t.dtype.value, (len(keys),)) for t in tables]
        sides.append(Side(y, y.dtype.value, (count,), "out"))
        numbers = [step.attrs["keys"].size, int(step.attr("strict"))]
        return [array_row(step, sizes, ml_loops.find_key, sides, numbers)]


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
        sides = _sides(step, sizes, ml_parts.TABLES)
        numbers = [step.attr(name) for name in ml_parts.TreeScores.numbers]
        return [array_row(step, sizes, ml_loops.tree_scores, sides, numbers)]


class GramScores(Kernel):
    """Each row is walked through the tree of n-grams."""

    name = "n-grams"

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        numbers = [step.attrs[name] for name in grams.GramScores.numbers]
        sides = _sides(step, sizes, grams.TABLES)
        return [array_row(step, sizes, ml_loops.gram_scores, sides, numbers)]


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
        sides = [Side(x, "float64", sizes.shape(x))]
        for name in ("slopes", "offsets"):
            table = step.attrs[name].value
            buffer = step.pack(name, lambda table=table: table)  # type: ignore[misc]
            sides.append(Side(buffer, "float64", table.shape))
        sides.append(Side(step.scratch["pairs"].buffer, "float64", (count, k, k), "out"))
        sides.append(Side(step.scratch["change"].buffer, "float64", (count, k), "out"))
        sides.append(Side(y, "float64", (count, k), "out"))
        return [array_row(step, sizes, ml_loops.pair_probabilities, sides)]


def _sides(step: Step, sizes: Sizes, names: Sequence[str]) -> list[Side]:
    """The input, the tables that the attributes hold, the output."""
    x, y = step.inputs[0], step.outputs[0]
    assert x is not None
    sides = [Side(x, x.dtype.value, sizes.shape(x))]
    for name in names:
        table = step.attrs[name].value
        buffer = step.pack(name, lambda table=table: table)  # type: ignore[misc]
        sides.append(Side(buffer, buffer.dtype.value, table.shape))
    return [*sides, Side(y, y.dtype.value, sizes.shape(y), "out")]


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    for kernel in (FindKey, TreeScores, GramScores, PairProbabilities):
        library.kernel(kernel.__name__, domain=OWN)(kernel)

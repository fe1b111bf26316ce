"""Nodes whose inputs are all stored, or whose values are known, become stored values themselves.

What depends on weights that are not drawn yet is computed when it is first needed, so folding
draws nothing. Random operators are never folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import constant, is_stored, make_weight, stored
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import LEAVES, rebuild
from neuralsym.core.types import TensorType
from neuralsym.errors import ExecutionError, NoKernel
from neuralsym.ops.evaluate import evaluate
from neuralsym.passes.derived import Derived

EAGER = 1 << 16
"""Up to so many elements are computed while folding; more are left until they are needed."""
LARGEST = 1 << 28
"""Larger results are folded only if they are no larger than what they are made of."""


def fold_constants(graph: Graph) -> Graph:
    """Replace what is the same in every run by its value."""
    return graph.map(_folded)


def _folded(node: Node, inputs: tuple[Symbol | None, ...]) -> Sequence[Symbol] | None:
    if node.op in LEAVES or not node.op.deterministic or node.op.body_attributes:
        return None
    if all(_is_known(s) for s in node.outputs):
        return [constant(Tensor.of(_plain(s), s.dtype)) for s in node.outputs]
    if not all(s is None or is_stored(s) for s in inputs) or not _worth_it(node, inputs):
        return None
    sources = [stored(s) for s in inputs if s is not None]
    same = rebuild(node, inputs)
    small = all(t.is_drawn for t in sources) and sum(t.size for t in sources) <= EAGER
    if small and all(_elements(s) <= EAGER for s in node.outputs):
        try:
            values = evaluate(same, [None if s is None else stored(s).value for s in inputs])
        except (ExecutionError, NoKernel):
            return None  # the run will say what is wrong, if it comes to it
        made = []
        for symbol, value in zip(node.outputs, values, strict=True):
            assert isinstance(value, np.ndarray)
            made.append(constant(Tensor.of(value, symbol.dtype)))
        return made
    if not all(s.tensor.is_static for s in node.outputs):
        return None
    return [_later(same, s, inputs, sources) for s in node.outputs]


def _later(
    node: Node, output: Symbol, inputs: Sequence[Symbol | None], sources: Sequence[Tensor]
) -> Symbol:
    """The weight that one output of a node is, computed when it is needed."""
    given = [s is not None for s in inputs]

    def compute(*arrays: NDArray[Any]) -> NDArray[Any]:
        rest = iter(arrays)
        values = evaluate(node, [next(rest) if there else None for there in given])
        return np.asarray(values[output.index])

    shape = tuple(int(d) for d in output.shape or () if isinstance(d, int))
    return make_weight(Derived(output.dtype, shape, sources, compute))


def _is_known(symbol: Symbol) -> bool:
    """Whether the value is known, without a name in it."""
    if not isinstance(symbol.type, TensorType):
        return False
    known = symbol.known
    return known is not None and (known.dtype != object or symbol.dtype == "string")


def _plain(symbol: Symbol) -> NDArray[Any]:
    known = symbol.known
    assert known is not None
    return known


def _worth_it(node: Node, inputs: Sequence[Symbol | None]) -> bool:
    """Whether the results are tensors of a size that a program may hold."""
    if not inputs or not all(isinstance(s.type, TensorType) for s in node.outputs):
        return False
    limit = max(LARGEST, sum(stored(s).size for s in inputs if s is not None))
    return all(_elements(s) <= limit for s in node.outputs)


def _elements(symbol: Symbol) -> int:
    """The number of elements, as far as the shape tells."""
    count = 1
    for size in symbol.shape or ():
        count *= size if isinstance(size, int) else 1
    return count

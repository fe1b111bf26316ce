"""TfIdfVectorizer: the n-grams of a vocabulary counted in each row.

Tokens become numbers by a search among those of the vocabulary (compiled for numbers, in Python for
strings); `GramScores` walks a tree of the vocabulary's n-grams from each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core import registry
from neuralsym.core.leaves import OWN
from neuralsym.core.op import Call, Op
from neuralsym.core.schema import AttributeSpec, Formal, Schema
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops import ml_loops
from neuralsym.ops.base import Text, bad, check_choice, check_range, check_rank
from neuralsym.ops.expansions import converted
from neuralsym.ops.ml_parts import ANY, FindKey

TABLES = ("edges", "targets", "grams", "places", "weights")
MODES = ("TF", "IDF", "TFIDF")


class GramScores(Op):
    """float32[rows, width]: counts, marks or weighted counts of n-grams in rows of token numbers.

    edges: node * tokens + token of each edge of the tree of n-grams, ascending; targets: the node
    that it leads to; grams: which n-gram ends at a node, -1 for none; places and weights: the
    column of each n-gram and what it counts.
    """

    domain = OWN
    schema = Schema(
        "GramScores",
        OWN,
        inputs=(Formal("X", "single", "T", ANY),),
        outputs=(Formal("Y", "single", "T", ANY),),
        attributes={
            **{name: AttributeSpec(name, "TENSOR", required=True) for name in TABLES},
            **{
                name: AttributeSpec(name, "INT", required=True)
                for name in ("width", "tokens", "shortest", "longest", "skips", "once")
            },
        },
        minimum_inputs=1,
        maximum_inputs=1,
        doc=__doc__ or "",
    )
    numbers = ("tokens", "shortest", "longest", "skips", "once")

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        shape = call.shape(0)
        rows = None if shape is None else shape[0]
        return [TensorType(NumberType.FLOAT32, (rows, call.attrs["width"]))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        (x,) = values
        out = np.zeros((len(x), node.attrs["width"]), np.float32)
        tables = [node.attrs[name].value for name in TABLES]
        numbers = [node.attrs[name] for name in cls.numbers]
        loop: Callable[..., None] = ml_loops.gram_scores
        loop(x, *tables, out, *numbers, 0, 1)
        return [out]


class TfIdfVectorizer(Text):
    """Counts or weights of the n-grams of a vocabulary in each row.

    The weights are those of the n-grams in the order of the vocabulary, as the specification says;
    onnx's reference takes them in the order of the output's columns.
    """

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "mode", MODES)
        for name in ("min_gram_length", "max_gram_length"):
            check_range(call, name, 1)
        check_range(call, "max_skip_count", 0)
        check_range(call, "ngram_indexes", 0, 2**31 - 1)
        check_rank(call, 0, 0, 2)
        texts, numbers = call.attr("pool_strings"), call.attr("pool_int64s")
        if bool(texts) == bool(numbers):
            call.fail("one of pool_strings and pool_int64s must be given", bad)
        if bool(texts) != (call.dtype(0) is NumberType.STRING):
            call.fail(f"its pool does not hold {call.dtype(0)}", bad)
        grams, columns = len(_grams(call)), len(call.attr("ngram_indexes"))
        weights = call.attr("weights") or ()
        if columns != grams:
            call.fail(f"ngram_indexes has {columns} entries for {grams} n-grams", bad)
        if weights and len(weights) != grams:
            call.fail(f"weights has {len(weights)} entries for {grams} n-grams", bad)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        shape = call.shape(0)
        out = None if shape is None else (*shape[:-1], _width(call))
        return [TensorType(NumberType.FLOAT32, out)]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        (x,), call = node.inputs, registry.call
        assert x is not None
        rank = x.tensor.rank
        if rank is None:
            return None
        tokens, edges, targets, ends = _tree(node)
        if x.dtype is not NumberType.STRING:
            x = converted(x, NumberType.INT64)
        (ids,) = registry.apply(FindKey, [x], {"keys": tokens})
        if rank < 2:
            ids = call("Reshape", ids, np.array([1, -1]))
        places = np.array(node.attr("ngram_indexes"), np.int64)
        weights = np.array(node.attr("weights") or (1.0,) * len(places), np.float32)
        if node.attr("mode") == "TF":
            weights = np.ones_like(weights)
        attrs: dict[str, Any] = {
            "edges": edges,
            "targets": targets,
            "grams": ends,
            "places": places,
            "weights": weights,
            "width": _width(node),
            "tokens": tokens.size,
            "shortest": node.attr("min_gram_length"),
            "longest": node.attr("max_gram_length"),
            "skips": node.attr("max_skip_count"),
            "once": int(node.attr("mode") == "IDF"),
        }
        (made,) = registry.apply(GramScores, [ids], attrs)
        return [made] if rank == 2 else [call("Squeeze", made, np.array([0]))]


def _width(node: Call | Node) -> int:
    return max(node.attr("ngram_indexes"), default=-1) + 1


def _grams(node: Call | Node) -> list[tuple[Any, ...]]:
    """The n-grams of the vocabulary, in its order."""
    pool = node.attr("pool_int64s") or node.attr("pool_strings") or ()
    starts = [*node.attr("ngram_counts"), len(pool)]
    made = []
    for size, (start, end) in enumerate(pairwise(starts), 1):
        if not 0 <= start <= end <= len(pool) or (end - start) % size:
            raise bad(f"ngram_counts={starts[:-1]} does not cut a pool of {len(pool)} into n-grams")
        made += [tuple(pool[i : i + size]) for i in range(start, end, size)]
    return made


def _tree(node: Node) -> tuple[Tensor, NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The tokens, and the edges, their targets and the n-grams that end at the nodes."""
    grams = _grams(node)
    numbers = {token: i for i, token in enumerate(dict.fromkeys(t for g in grams for t in g))}
    first = node.attr("pool_strings")
    tokens = np.array(list(numbers), dtype=object if first else np.int64)
    least, most = node.attr("min_gram_length"), node.attr("max_gram_length")
    edges: dict[int, int] = {}
    ends = [-1]
    for index, gram in enumerate(grams):
        if not least <= len(gram) <= most:
            continue
        at = 0
        for token in gram:
            key = at * len(numbers) + numbers[token]
            if key not in edges:
                edges[key] = len(ends)
                ends.append(-1)
            at = edges[key]
        ends[at] = index
    order = sorted(edges)
    lists = (order, [edges[key] for key in order], ends)
    return Tensor.of(tokens), *(np.array(values, np.int64) for values in lists)  # type: ignore[return-value]

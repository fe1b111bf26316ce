"""Parts of a graph whose ranks only a run tells: put aside, to be compiled for the ranks that come.

    Deferred(x0, x1, ...) = body(x0, x1, ...)

Whatever depends on a tensor of unknown rank becomes one Deferred node. Its kernel
(kernels/deferred.py) compiles the body once for each combination of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.dim import Dim
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import OWN, Variable, is_stored
from neuralsym.core.op import Call, Op
from neuralsym.core.schema import AttributeSpec, Formal, Schema
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import TensorType, Type, is_numeric
from neuralsym.dtypes import NumberType

_MANY = Formal("X", "variadic", "T", frozenset(), 0, homogeneous=False)


class Deferred(Op):
    """A part of the graph as one operation; `lengths` are inputs whose very length is a rank."""

    domain = OWN
    deterministic = False  # what is inside may draw
    schema = Schema(
        "Deferred",
        OWN,
        inputs=(_MANY,),
        outputs=(_MANY,),
        # Not of kind GRAPH: no pass can do anything before the ranks are known.
        attributes={
            "body": AttributeSpec("body", "PART", required=True),
            "lengths": AttributeSpec("lengths", "INTS", required=True),
        },
        minimum_inputs=0,
        maximum_inputs=2**31 - 1,
        maximum_outputs=2**31 - 1,
        doc=__doc__ or "",
    )

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        return [s.type for s in call.attrs["body"].outputs]


def defer(graph: Graph) -> Graph:
    """The graph with all that depends on unknown ranks in one node; itself if there is no such."""
    seeds = [node for node in graph.nodes if _waits(node) or _vectors_of_unknown_length(node)]
    if not seeds:
        return graph
    part = set(seeds)
    for node in graph.nodes:
        if any(s.node in part for s in node.operands):
            part.add(node)
    live: dict[Symbol, None] = {}
    for node in graph.nodes:
        if node in part:
            outside = (s for s in node.operands if s.node not in part and not is_stored(s))
            live.update(dict.fromkeys(outside))
    wanted = (*graph.outputs, *graph.updates.values())
    results = [s for s in dict.fromkeys(wanted) if s.node in part]
    # What nothing needs is in no graph, so every node of the part leads to a result.
    body = graph.subgraph(results, list(live))
    inputs = tuple(live)
    vectors = {s for node in seeds for s in _vectors_of_unknown_length(node)}
    lengths = tuple(i for i, s in enumerate(inputs) if s in vectors)
    node = Node(
        Deferred,
        inputs,
        {"body": body, "lengths": lengths},
        tuple(s.type for s in results),
        where=seeds[0].where,
    )
    return graph.rewired(dict(zip(results, node.outputs, strict=True)))


def ranked(type_: Type, shape: Sequence[int], index: int, *, length: bool) -> Type:
    """The type of an input of a body for a value of this shape: its rank is told, sizes have names.

    No dimension of a user's can be named like them.
    length: its size is told too.
    """
    if not isinstance(type_, TensorType):
        return type_
    if length:
        return TensorType(type_.dtype, tuple(shape))
    if type_.shape is not None:
        return type_
    return TensorType(type_.dtype, tuple(Dim.name(f"?{index}.{i}") for i in range(len(shape))))


def _waits(node: Node) -> bool:
    """Whether the node computes with numbers, and the rank of an operand is not known."""
    if node.op in (Variable, Deferred) or is_stored(node.outputs[0]):
        return False  # what is put aside already waits by itself
    numbers = all(is_numeric(s.type) for s in (*node.operands, *node.outputs))
    if not numbers and not node.op.body_attributes:
        return False
    return any(is_numeric(s.type) and s.tensor.shape is None for s in node.operands)


def _vectors_of_unknown_length(node: Node) -> list[Symbol]:
    """The whole-number vectors whose lengths would tell the rank of the node's result."""
    if node.op.body_attributes or node.op is Deferred:
        return []
    if not all(is_numeric(s.type) for s in node.operands):
        return []
    if not any(is_numeric(s.type) and s.tensor.shape is None for s in node.outputs):
        return []
    return [s for s in node.inputs if s is not None and _is_vector_of_unknown_length(s)]


def _is_vector_of_unknown_length(symbol: Symbol) -> bool:
    shape = symbol.tensor.shape
    whole = symbol.dtype in (NumberType.INT32, NumberType.INT64)
    return whole and shape is not None and len(shape) == 1 and not isinstance(shape[0], int)

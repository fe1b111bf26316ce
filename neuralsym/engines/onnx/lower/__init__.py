"""A graph in terms of what an older opset has.

A node that the opset cannot say is a constant where its inputs are; else it is rewritten by the
rules of its operator, then by what holds for all: other number types, axes counted from the start,
the operator's own expansion or ONNX's body of it. What comes out is lowered in turn. A node that
nothing can say is refused by name, with the lowest opset that can.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import OWN
from neuralsym.core.schema import OPSET
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import LEAVES, renewed, topological
from neuralsym.engines.onnx import opsets
from neuralsym.engines.onnx.lower import (
    elementwise,
    indexing,
    network,
    resizing,
    sampling,
    settings,
)
from neuralsym.engines.onnx.lower.target import Cannot, Rule, Target
from neuralsym.engines.onnx.older_op import is_older
from neuralsym.errors import FormatError, OpError, at_line
from neuralsym.ops.expanded import expand

_DEEPEST = 40


def lowered(graph: Graph, opset: int) -> Graph:
    """The graph with every node in a form that the opset has.

    Raises FormatError that names the operator, the node, the line that made it, the reason, and
    the lowest opset that can say it.
    """

    if not opsets.LOWEST <= opset <= OPSET:
        return graph  # which is refused where the versions are chosen

    def change(node: Node, inputs: tuple[Symbol | None, ...]) -> Sequence[Symbol] | None:
        if _fits(node, opset):
            return None
        made = node if inputs == node.inputs else _with_inputs(node, inputs)
        try:
            return _lower(made, opset, 0)
        except Cannot as reason:
            raise _refusal(node, opset, str(reason)) from None

    return graph.map(change)


def _fits(node: Node, opset: int) -> bool:
    if node.op in LEAVES or node.op.domain or is_older(node):
        return True
    return opsets.lowest(node, opset)[0] <= opset


def _with_inputs(node: Node, inputs: tuple[Symbol | None, ...]) -> Node:
    """The node with other inputs of the same types."""
    return Node(
        node.op,
        inputs,
        node.attrs,
        tuple(s.type for s in node.outputs),
        known=tuple(s._known for s in node.outputs),
        name=node.name,
        scope=node.scope,
        where=node.where,
        captures=node.captures,
    )


def _refusal(node: Node, opset: int, reason: str) -> FormatError:
    lowest = opsets.lowest(node)[0]
    for other in range(opset + 1, OPSET + 1):
        try:
            if not _fits(node, other):
                _lower(node, other, 0)
        except Cannot:
            continue
        lowest = other
        break
    return FormatError(
        f"{node.describe()} cannot be written in opset {opset}: {reason}; the lowest that can say "
        f"it is {lowest}: give opset={lowest}, or none for the lowest that is sufficient"
        f"{at_line(node.where)}"
    )


def _lower(node: Node, opset: int, depth: int) -> Sequence[Symbol]:
    """The outputs of a node that does not fit, in terms of what does; Cannot where none does."""
    if depth > _DEEPEST:
        raise Cannot("what it is made of has no end")
    reason = ""
    for rule in (settings.folded, *RULES.get(node.op_type, ()), *GENERAL):
        try:
            made = rule(Target(node, opset))
            if made is not None:
                return _settled(made, node, opset, depth)
        except Cannot as error:
            reason = reason or str(error)
        except OpError as error:
            reason = reason or str(error).splitlines()[0]
    raise Cannot(reason or opsets.lowest(node, opset)[1])


def _settled(made: Sequence[Symbol], node: Node, opset: int, depth: int) -> list[Symbol]:
    """What a rule made, with those of its nodes lowered that do not fit either."""
    new: dict[Symbol, Symbol] = {}
    before = set(node.operands)
    for inner in topological((s.node for s in made if s not in before), stop=before):
        if inner.op not in LEAVES and inner.op.domain.partition(".")[0] == OWN:
            raise Cannot  # an expansion for our own engine
        if is_older(inner):
            inputs = tuple(None if s is None else new.get(s, s) for s in inner.inputs)
            here = inner if inputs == inner.inputs else _with_inputs(inner, inputs)
        else:
            here = renewed(inner, new)
        outputs: Sequence[Symbol] = here.outputs
        if not _fits(here, opset):
            outputs = _lower(here, opset, depth + 1)
        new.update((a, b) for a, b in zip(inner.outputs, outputs, strict=True) if a is not b)
    return _typed([new.get(s, s) for s in made], node, before)


def _typed(made: Sequence[Symbol], node: Node, before: Container[Symbol]) -> list[Symbol]:
    """The symbols with the types that the node tells, which may know more sizes."""
    changed: dict[Node, Node] = {}
    for a, b in zip(made, node.outputs, strict=True):
        inner = a.node
        if a.type == b.type or a in before or inner.op in LEAVES or inner in changed:
            continue
        told = {s: o.type for s, o in zip(made, node.outputs, strict=True)}
        own = [told.get(s, s.type) for s in inner.outputs]
        changed[inner] = Node(
            inner.op,
            inner.inputs,
            inner.attrs,
            tuple(own),
            known=tuple(s._known for s in inner.outputs),
            name=inner.name,
            scope=inner.scope,
            where=inner.where,
            captures=inner.captures,
        )
    return [changed[s.node].outputs[s.index] if s.node in changed else s for s in made]


def _expanded(t: Target) -> Sequence[Symbol] | None:
    return expand(t.node)


_REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare"]


def _below(opset: int, rule: Rule) -> Rule:
    """The rule in opsets below one."""
    return lambda t: rule(t) if t.opset < opset else None


GENERAL: tuple[Rule, ...] = (
    elementwise.other_types,
    settings.counted_from_the_start,
    _expanded,
)
"""What is tried for every operator, after its own rules."""

RULES: dict[str, tuple[Callable[[Target], Sequence[Symbol] | None], ...]] = {
    **{f"Reduce{name}": (_below(18, settings.axes),) for name in _REDUCTIONS},
    **dict.fromkeys(("ReduceSum", "Squeeze", "Unsqueeze"), (_below(13, settings.axes),)),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), (_below(13, network.softmax),)),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), (_below(22, network.pool),)),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (network.batch_first,)),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), (elementwise.several,)),
    **dict.fromkeys(("ArgMax", "ArgMin"), (settings.chosen_last,)),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), (network.depth_to_space,)),
    "BatchNormalization": (network.batch_norm,),
    "CastLike": (_below(15, settings.cast_like),),
    "Clip": (settings.clip,),
    "DequantizeLinear": (_below(13, elementwise.dequantize),),
    "DFT": (_below(20, settings.dft),),
    "Dropout": (settings.dropout,),
    "Equal": (elementwise.equal,),
    "Expand": (_below(8, elementwise.expand),),
    "Gather": (settings.gather,),
    "GatherElements": (_below(11, indexing.gather_elements),),
    "GatherND": (_below(12, indexing.gather_nd),),
    "Gemm": (_below(11, settings.gemm),),
    "GreaterOrEqual": (_below(12, elementwise.or_equal),),
    "GridSample": (_below(20, network.grid_sample), _below(16, sampling.grid_sample)),
    "IsInf": (_below(10, elementwise.is_infinite),),
    "IsNaN": (_below(9, elementwise.is_nan),),
    "LessOrEqual": (_below(12, elementwise.or_equal),),
    "Mod": (elementwise.modulo,),
    "OneHot": (settings.one_hot,),
    "Pad": (settings.pad,),
    "Pow": (elementwise.power,),
    "QuantizeLinear": (_below(13, elementwise.quantize),),
    "Reshape": (settings.reshape,),
    "Resize": (resizing.resize,),
    "RoiAlign": (_below(16, resizing.roi_align),),
    "Round": (_below(11, elementwise.rounded),),
    "ScatterElements": (_below(11, settings.scatter),),
    "ScatterND": (_below(11, indexing.scatter_nd),),
    "Shape": (_below(15, settings.shape),),
    "Sign": (_below(9, elementwise.sign),),
    "Slice": (_below(11, settings.slices),),
    "Split": (_below(18, settings.split),),
    "TopK": (settings.top,),
    "Trilu": (_below(14, elementwise.triangle),),
    "Where": (elementwise.where,),
}
"""For each operator the rules that are tried, in order."""

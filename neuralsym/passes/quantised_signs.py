"""Signed quantised values made unsigned: 128 higher, as are their zero points.

    DQ(Q(x; scale, zero); scale, zero)  ->  the same with zero + 128, of unsigned bytes

No real number changes, and unsigned bytes are what the integer products multiply best.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import constant, stored
from neuralsym.core.registry import apply
from neuralsym.core.scope import CURRENT
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import renewed
from neuralsym.dtypes import NumberType
from neuralsym.errors import acting_for
from neuralsym.passes.quantised_parts import Uses, scale_of


def make_unsigned(graph: Graph) -> Graph:
    """Quantised values as unsigned bytes, wherever only DequantizeLinear reads them."""
    uses = Uses(graph)
    new: dict[Symbol, Symbol] = {}
    raised: set[Symbol] = set()
    for node in graph.nodes:
        source = node.inputs[0] if node.inputs else None
        if node.op_type == "DequantizeLinear" and source is not None and source in raised:
            made = _raised(node, new[source])
        elif node.op_type == "QuantizeLinear" and _becomes_unsigned(node, uses):
            raised.add(node.outputs[0])
            assert source is not None
            made = _raised(node, new.get(source, source))
        else:
            made = renewed(node, new)
        if made is not node:
            new.update(zip(node.outputs, made.outputs, strict=True))
    return graph.rewired(new)


def _becomes_unsigned(node: Node, uses: Uses) -> bool:
    """Whether a QuantizeLinear to signed bytes is read by DequantizeLinear alone."""
    own, value = scale_of(node), node.outputs[0]
    readers = uses.all(value)
    signed = own is not None and own.dtype is NumberType.INT8
    return signed and bool(readers) and all(_reads_signed(r, value) for r in readers or ())


def _reads_signed(reader: Node, value: Symbol) -> bool:
    return (
        reader.op_type == "DequantizeLinear"
        and reader.inputs[0] is value
        and scale_of(reader) is not None
    )


def _raised(node: Node, source: Symbol) -> Node:
    """A QuantizeLinear or DequantizeLinear whose zero point is 128 higher, unsigned."""
    scale, zero = (*node.inputs, None)[1:3]
    assert scale is not None
    if zero is None:
        zeros: NDArray[Any] = np.zeros(stored(scale).shape, np.int16)
    else:
        zeros = stored(zero).value.astype(np.int16)
    attrs = dict(node.attrs)
    if node.op_type == "QuantizeLinear":
        attrs.pop("output_dtype", None)  # the zero point tells it
    raised = constant((zeros + 128).astype(np.uint8))
    token = CURRENT.set(node.scope)
    try:
        with acting_for(node.where):
            return apply(node.op, [source, scale, raised], attrs)[0].node
    finally:
        CURRENT.reset(token)

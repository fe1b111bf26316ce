"""Sizes that operators need to agree and that a graph leaves open: checked when a run tells them.

Inference takes `MatMul(float32[m, k], float32[j, n])`, since k may be j. A kernel would read beyond
its operands if they differ, so such a step is noted when lowering, and its operator's own rule is
asked again for the sizes of each plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from neuralsym.core.dim import Dim, substitute
from neuralsym.core.graph import Graph
from neuralsym.core.infer import infer
from neuralsym.core.leaves import constant, make_variable
from neuralsym.core.op import KNOWN_LIMIT, Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import rebuild
from neuralsym.core.types import TensorType
from neuralsym.errors import NeuralsymError, ShapeMismatch, at_line

if TYPE_CHECKING:
    from neuralsym.cpu.program import Buffer, Sizes, Step

_PROBES = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191)
"""Sizes that no two names share and that hardly divide each other."""


def relies_on_sizes(node: Node) -> bool:
    """Whether there are sizes of the names in its operands that the operator refuses.

    Told by trying sizes that have nothing in common. Sizes that are merely too small are refused
    elsewhere: they leave a negative size somewhere.
    """
    names = sorted({n for s in node.inputs if s is not None for n in _names(s)})
    if not names or any(isinstance(v, Graph) for v in node.attrs.values()):
        return False  # bodies are cells, which check what they are given
    if len(names) > len(_PROBES):
        return True
    trial = dict(zip(names, _PROBES, strict=False))
    try:
        rebuild(node, tuple(None if s is None else _probe(s, trial) for s in node.inputs))
    except NeuralsymError:
        return _is_accepted(node)
    return False


def _is_accepted(node: Node) -> bool:
    """Whether the rule takes the node as it is: not so a Split that lost its unused parts."""
    try:
        infer(Call(node.op, node.inputs, node.attrs, len(node.outputs), node.where, node.captures))
    except NeuralsymError:
        return False
    return True


def check_sizes(step: Step, sizes: Sizes, open_: Sequence[Buffer]) -> None:
    """Ask the operator whether it takes its operands at these sizes.

    open_: the outputs whose shapes the step itself will tell.

    Raises ShapeMismatch, naming the step, if it refuses them or would give another shape than the
    one the step was compiled for.
    """
    node = step.node
    assert node is not None
    pairs = zip(node.inputs, step.inputs, strict=True)
    try:
        made = rebuild(node, tuple(None if s is None else operand(s, b, sizes) for s, b in pairs))
    except NeuralsymError as error:
        raise ShapeMismatch(f"{step.describe()} cannot run at these sizes: {error}") from error
    for symbol, buffer in zip(made.outputs, step.outputs, strict=True):
        shape = symbol.type.shape if isinstance(symbol.type, TensorType) else None
        if (
            shape is None
            or buffer in open_
            or not buffer.is_tensor
            or not all(isinstance(d, int) for d in shape)
        ):
            continue
        if shape != sizes.shape(buffer):
            raise ShapeMismatch(
                f"{step.describe()} gives {symbol.type} at these sizes, but {buffer.name} is "
                f"{buffer.type}, here {list(sizes.shape(buffer))}{at_line(step.where)}"
            )


def operand(symbol: Symbol, buffer: Buffer | None, sizes: Sizes) -> Symbol:
    """The input as the operator's rule sees it: its value where that is at hand, else its shape."""
    if buffer is None:
        return _probe(symbol, sizes.names)
    if not buffer.is_tensor:
        return symbol
    shape = sizes.shape(buffer)
    if buffer in sizes.read or buffer.is_settled:
        value = sizes.setting(buffer)
        if value.size <= KNOWN_LIMIT:
            return constant(Tensor.of(value.reshape(shape)))
    return make_variable(None, TensorType(buffer.dtype, shape))


def _probe(symbol: Symbol, sizes: Mapping[str, int]) -> Symbol:
    """The symbol with sizes in the place of names, in its shape and in what is known of it."""
    type_, known = symbol.type, symbol.known
    if not isinstance(type_, TensorType) or type_.shape is None:
        return symbol
    values = [] if known is None else known.reshape(-1).tolist()
    if not any(isinstance(d, Dim) for d in (*type_.shape, *values)):
        return symbol
    shape = tuple(d if d is None else substitute(d, sizes) for d in type_.shape)
    if known is not None:
        values = [substitute(v, sizes) for v in values]
        if all(isinstance(v, int) for v in values):
            return constant(Tensor.of(np.array(values, type_.dtype.numpy).reshape(known.shape)))
    return make_variable(None, TensorType(type_.dtype, shape))


def _names(symbol: Symbol) -> set[str]:
    """The names in the shape and in what is known of the value."""
    shape = symbol.type.shape if isinstance(symbol.type, TensorType) else None
    known = () if symbol.known is None else symbol.known.reshape(-1).tolist()
    return {n for d in (*(shape or ()), *known) if isinstance(d, Dim) for n in d.names}

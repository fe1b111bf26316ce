"""Padding as a node of its own, folded into the convolution or pool that follows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.registry import call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.rewrite.pattern import P
from neuralsym.rewrite.rule import Rejected, Result, Rule, reject, rule

_PADDING = P.Pad("x", *[P.optional(P.any())] * 3).named("pad")
_NOT_NEGATIVE = {
    *("Relu", "Sigmoid", "HardSigmoid", "Softmax", "Exp", "Abs", "Softplus", "Sqrt"),
}
"""Operators whose results are never below zero: for their maximum, zeros around add nothing."""


@rule(P.Conv(_PADDING, "w", P.optional("b")).named("conv"))
def pad_into_convolution(x: Symbol, w: Symbol, b: Symbol | None, pad: Node, conv: Node) -> Result:
    """conv(pad(x, zeros), pads) = conv(x, pads + zeros)"""
    added = _spatial_pads(pad, 0.0)
    if isinstance(added, Rejected):
        return added
    own = _own_pads(conv, len(added))
    if isinstance(own, Rejected):
        return own
    return ops.conv(x, w, b, **_with_pads(conv, added, own))


@rule(P.AveragePool(_PADDING).named("pool"))
def pad_into_average(x: Symbol, pad: Node, pool: Node) -> Result:
    """average(pad(x, zeros)) = average(x, pads = zeros, counting them)"""
    added = _spatial_pads(pad, 0.0)
    if isinstance(added, Rejected):
        return added
    own = _own_pads(pool, len(added))
    if isinstance(own, Rejected):
        return own
    if any(own) and not pool.attr("count_include_pad"):
        return reject("the pool pads too, and does not count its own padding")
    refusal = _unfit_for_pool(pool, added, own)
    if refusal is not None:
        return refusal
    attrs = {**_with_pads(pool, added, own), "count_include_pad": 1}
    return ops.average_pool(x, **attrs)


@rule(P.MaxPool(_PADDING).named("pool"))  # its indices, where used, would count the padding
def pad_into_maximum(x: Symbol, pad: Node, pool: Node) -> Result:
    """max(pad(x, -infinity)) = max(x, pads); the same for zeros around what is never negative"""
    lowest = -np.inf
    if x.node.op_type in _NOT_NEGATIVE or _clipped_above_zero(x.node):
        lowest = 0.0
    added = _spatial_pads(pad, lowest)
    if isinstance(added, Rejected):
        return added
    own = _own_pads(pool, len(added))
    if isinstance(own, Rejected):
        return own
    refusal = _unfit_for_pool(pool, added, own)
    if refusal is not None:
        return refusal
    return call("MaxPool", x, **_with_pads(pool, added, own))


FOLD_PADS: tuple[Rule, ...] = (pad_into_convolution, pad_into_average, pad_into_maximum)


def _spatial_pads(pad: Node, most: float) -> tuple[int, ...] | Rejected:
    """What a Pad adds to the spatial axes, beginnings then ends; its value is at most `most`."""
    if pad.attr("mode") != "constant":
        return reject(f"its mode is {pad.attr('mode')}")
    rank = pad.outputs[0].rank
    pads = _known(pad, 1)
    if rank is None or pads is None:
        return reject("its pads are not known")
    given = pad.inputs[3] if len(pad.inputs) > 3 else None
    axes = list(range(rank)) if given is None else _known(pad, 3)
    if axes is None:
        return reject("its axes are not known")
    value = 0.0
    given = pad.inputs[2] if len(pad.inputs) > 2 else None
    if given is not None:
        if given.known is None or given.known.size != 1:
            return reject("its value is not known")
        value = float(given.known.reshape(()))
    if not value <= most or (most == 0.0 and value != 0.0):
        return reject(f"it pads with {value}")
    wide = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        wide[axis % rank] = pads[i]
        wide[rank + axis % rank] = pads[len(axes) + i]
    if any(p < 0 for p in wide):
        return reject("it cuts elements off")
    if wide[0] or wide[1] or wide[rank] or wide[rank + 1]:
        return reject("it pads the batch or the channels")
    return (*wide[2:rank], *wide[rank + 2 :])


def _known(node: Node, index: int) -> list[int] | None:
    symbol = node.inputs[index]
    value = None if symbol is None else symbol.known
    if value is None or value.dtype == object:
        return None
    return [int(v) for v in value.reshape(-1)]


def _own_pads(node: Node, count: int) -> tuple[int, ...] | Rejected:
    """The explicit pads of a convolution or pool."""
    if node.attr("auto_pad") not in (None, "NOTSET", "VALID"):
        return reject(f"auto_pad={node.attr('auto_pad')} depends on the padded size")
    pads = node.attr("pads")
    return tuple(pads) if pads and node.attr("auto_pad") != "VALID" else (0,) * count


def _with_pads(node: Node, added: Sequence[int], own: Sequence[int]) -> dict[str, Any]:
    attrs = {k: v for k, v in node.attrs.items() if k != "auto_pad"}
    return {**attrs, "pads": tuple(a + b for a, b in zip(added, own, strict=True))}


def _unfit_for_pool(node: Node, added: Sequence[int], own: Sequence[int]) -> Rejected | None:
    """A pool's window must always hold an element, and its size be that of the padded input."""
    if node.attr("ceil_mode"):
        return reject("with ceil_mode windows may hang over the padded edge")
    if any(d != 1 for d in node.attr("dilations") or ()):
        return reject("its window is dilated")
    kernel = (*node.attr("kernel_shape"), *node.attr("kernel_shape"))
    if any(a + b >= k for a, b, k in zip(added, own, kernel, strict=True)):
        return reject("a window could lie in the padding alone")
    return None


def _clipped_above_zero(node: Node) -> bool:
    if node.op_type != "Clip" or len(node.inputs) < 2 or node.inputs[1] is None:
        return False
    low = node.inputs[1].known
    return low is not None and bool(np.all(low >= 0))

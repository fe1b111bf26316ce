"""One form for what can be written in several ways, so that kernels and fusing meet only that."""

from __future__ import annotations

import numpy as np

from neuralsym import ops
from neuralsym.core.registry import apply, call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.passes.activations import ACTIVATIONS
from neuralsym.passes.norms import NORMS
from neuralsym.passes.views import VIEWS
from neuralsym.rewrite.pattern import P
from neuralsym.rewrite.rule import Result, Rule, reject, rule


# -- windows -----------------------------------------------------------------------------------
@rule(P.ReduceMean("x", P.optional("axes")).named("mean"))
def global_average(x: Symbol, axes: Symbol | None, mean: Node) -> Result:
    """mean(x) over all spatial axes = global_average_pool(x)"""
    rank = x.rank
    known = None if axes is None else axes.known
    if rank is None or rank < 4 or known is None or not x.dtype.is_float:
        # The last of three axes is a layer norm's or a sequence's as often as a picture's.
        return reject("its axes are not known to be spatial")
    if sorted(int(a) % rank for a in known.reshape(-1)) != list(range(2, rank)):
        return reject("it takes the mean over other axes than the spatial ones")
    made = ops.global_average_pool(x)
    if mean.attr("keepdims"):
        return made
    return call("Squeeze", made, np.arange(2, rank, dtype=np.int64))


@rule(P.op("Conv", "MaxPool", "AveragePool")().named("window"))
def explicit_pads(window: Node) -> Result:
    """auto_pad over a known size = pads"""
    x = window.inputs[0]
    assert x is not None
    mode = window.attr("auto_pad")
    if mode in ("NOTSET", None):
        return reject("its pads are explicit")
    sizes = [s for s in (x.shape or ())[2:] if isinstance(s, int)]
    if x.shape is None or len(sizes) != len(x.shape) - 2:
        return reject("its padding depends on sizes of the run")
    kernel = window.attr("kernel_shape")
    if kernel is None:
        w = window.inputs[1]
        kernel = None if w is None or w.shape is None else w.shape[2:]
    if kernel is None or not all(isinstance(k, int) for k in kernel):
        return reject("the size of its window is not known")
    ones = (1,) * len(sizes)
    strides, dilations = window.attr("strides") or ones, window.attr("dilations") or ones
    begins: list[int] = []
    ends: list[int] = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        steps = -(-size // stride)
        total = (steps - 1) * stride + (k - 1) * dilation + 1 - size if mode != "VALID" else 0
        if total < 0:
            return reject("its strides leave out elements, which runtimes see differently")
        small, large = total // 2, total - total // 2
        begins.append(large if mode == "SAME_LOWER" else small)
        ends.append(small if mode == "SAME_LOWER" else large)
    attrs = {k: v for k, v in window.attrs.items() if k != "auto_pad"}
    if mode != "VALID":
        attrs["pads"] = (*begins, *ends)
    else:
        attrs.pop("pads", None)
    return apply(window.op, window.inputs, attrs, outputs=len(window.outputs))


CANONICAL: tuple[Rule, ...] = (*ACTIVATIONS, *NORMS, *VIEWS, global_average, explicit_pads)

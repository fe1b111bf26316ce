"""Quantised graphs (QDQ) made integer: DequantizeLinear -> operator -> QuantizeLinear as one.

    Q(activation(Conv(DQ(x), DQ(w)) + b))                    ->  IntegerConv(x, w, scales, b)
    Q(activation(DQ(Q(Conv(...))) + DQ(z)))                  ->  IntegerConv(x, w, scales, b, z)
    Q(Gemm(DQ(a), DQ(b), c)),  Q(MatMul(DQ(a), DQ(b)) + c)   ->  IntegerMatMul(a, b, scales, c)
    Q(AveragePool(DQ(x))), Q(GlobalAveragePool(DQ(x)))        ->  IntegerAveragePool(x)
    Q(MaxPool(DQ(x))), Reshape, Transpose, Concat, ...       ->  MaxPool(x) of integers

Products that are not quantised again give real numbers. Signed values are made unsigned first, 128
higher like their zero points, which changes no real number.

The sums are exact; real numbers would be rounded on the way. A product's result is that of the
float32 graph, or its neighbour where the real value is within its rounding errors of the middle
between two levels: never more than one unit away. With a residual, a product that is one unit off
moves the sum by `keep` (its scale over the sum's) levels more. A bias of real numbers is taken only
where rounding it to the unit of the sums moves the result by at most a 64th of a level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import constant, is_stored, stored
from neuralsym.core.registry import apply, call
from neuralsym.core.scope import CURRENT
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import renewed
from neuralsym.dtypes import NumberType
from neuralsym.errors import acting_for
from neuralsym.passes.derived import derived_weight
from neuralsym.passes.quantised_ops import (
    CONV,
    POOL,
    IntegerAveragePool,
    IntegerConv,
    IntegerMatMul,
)
from neuralsym.passes.quantised_parts import (
    BYTES,
    Scale,
    Uses,
    all_same,
    bounded,
    dequantised,
    scale_of,
)
from neuralsym.passes.quantised_signs import make_unsigned

PRODUCTS = ("Conv", "Gemm", "MatMul")
AVERAGES = ("AveragePool", "GlobalAveragePool")
MOVES = (
    *("MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Concat"),
    *("Identity", "DepthToSpace", "SpaceToDepth", "Expand", "Tile"),
)
CLOSE = 1e-6
MOST_BIAS_ERROR = 1 / 64
INT32 = 2**31

Symbols = Mapping[Symbol, Symbol]


def make_integer(graph: Graph) -> Graph:
    """The graph with integer operators for quantised ones, bodies included."""
    graph = graph.map_bodies(make_integer)
    if not any(n.op_type == "DequantizeLinear" for n in graph.nodes):
        return graph
    graph = make_unsigned(graph)
    work = _Work(Uses(graph))
    new: dict[Symbol, Symbol] = {}
    for node in graph.nodes:
        token = CURRENT.set(node.scope)
        try:
            with acting_for(node.where):
                found = work.replace(node, new)
        finally:
            CURRENT.reset(token)
        if found is not None:
            new[node.outputs[0]] = found
            continue
        made = renewed(node, new)
        if made is not node:
            new.update(zip(node.outputs, made.outputs, strict=True))
    return graph.rewired(new)


# -- operators ---------------------------------------------------------------------------------
class _Work:
    """The rewriting of one graph; `replace` gives what stands for a node's output."""

    def __init__(self, uses: Uses) -> None:
        self.uses = uses

    def replace(self, node: Node, new: Symbols) -> Symbol | None:
        if node.op_type == "QuantizeLinear":
            return self._quantised(node, new)
        if node.op_type in PRODUCTS and not self._is_quantised_later(node):
            return self._product(node, new, None, (0, 0))
        return None

    def _is_quantised_later(self, node: Node) -> bool:
        """Whether the QuantizeLinear behind a product will take it."""
        value = node.outputs[0]
        user = self.uses.sole(value)
        if user is not None and self._with_bias(user)[0] is node:
            value = user.outputs[0]
            user = self.uses.sole(value)
        while user is not None and user.op_type in ("Relu", "Clip"):
            user = self.uses.sole(user.outputs[0])
        if user is None or user.op_type != "QuantizeLinear" or _byte_scale(user) is None:
            return False
        return bounded(user, self.uses).value is value

    def _with_bias(self, node: Node) -> tuple[Node, Symbol | None]:
        """The product that a stored bias is added to, and the bias; else the node itself."""
        if node.op_type in ("Add", "Sum") and len(node.inputs) == 2:
            for a, b in (node.inputs, node.inputs[::-1]):
                if a is None or b is None or not is_stored(b) or b.dtype is not a.dtype:
                    continue
                plain = a.node.op_type in PRODUCTS and len(a.node.inputs) == 2
                if plain and self.uses.sole(a) is node and _is_bias(a.node, b):
                    return a.node, b
        return node, None

    def _quantised(self, node: Node, new: Symbols) -> Symbol | None:
        own = _byte_scale(node)
        if own is None:
            return None
        found = bounded(node, self.uses)
        source, bias = self._with_bias(found.value.node)
        if self.uses.sole(found.value) is None:
            return None
        levels = found.levels(own)
        if source.op_type in PRODUCTS:
            made = self._product(source, new, own, levels, bias)
            if made is not None:
                return made
            real = self._product(source, new, None, levels, bias)
            return None if real is None else _quantise(_clipped(real, found.low, found.high), own)
        if source.op_type in ("Add", "Sum"):
            return self._sum(source, new, own, levels)
        if source.op_type in AVERAGES:
            return self._average(source, new, own, levels)
        if source.op_type in MOVES and levels == _bounds(own):
            return self._moved(source, new, own)
        return None

    # -- products --------------------------------------------------------------------------
    def _product(
        self,
        node: Node,
        new: Symbols,
        own: Scale | None,
        levels: tuple[int, int],
        added: Symbol | None = None,
    ) -> Symbol | None:
        """A product of integers; of the scale `own`, or as real numbers. `added` is its bias."""
        sides = [dequantised(s) for s in node.inputs[:2]]
        if sides[0] is None or sides[1] is None or not _fits(node):
            return None
        (x, sx), (w, sw) = sides[0], sides[1]
        if x.dtype not in BYTES or w.dtype not in BYTES or not sx.is_single or is_stored(x):
            return None
        if not is_stored(w) or np.unique(sw.zeros).size > 1:
            return None
        if not sw.is_single and sw.axis != _axis(node):
            return None
        outputs = node.outputs[0].shape
        assert outputs is not None
        channels = w.shape[_axis(node)] if w.shape is not None else None
        if not isinstance(channels, int):
            return None
        unit = sx.scales.astype(np.float64) * sw.scales.astype(np.float64)
        scales = sx.scales * sw.scales if own is None else sx.scales * sw.scales / own.scale
        if not np.isfinite(scales).all() or scales.min() <= 0:
            return None
        given = added if added is not None else (*node.inputs, None)[2]
        bias, rest = self._bias(given, unit, channels, None if own is None else scales)
        if rest is not None and own is not None:
            return None
        attrs: dict[str, Any] = {"x_zero": sx.zero, "w_zero": int(sw.zeros[0])}
        attrs["output"] = NumberType.FLOAT32
        if own is not None:
            attrs.update(output=own.dtype, zero=own.zero, low=levels[0], high=levels[1])
        inputs = [new.get(x, x), w, constant(np.asarray(scales, np.float32)), bias]
        if node.op_type == "Conv":
            attrs.update({k: v for k, v in node.attrs.items() if k in CONV})
            made = apply(IntegerConv, inputs, attrs)[0]
        else:
            inputs[1] = _columns(node, w)
            made = apply(IntegerMatMul, inputs, attrs)[0]
        if rest is None:
            return made
        if node.op_type == "Conv" and rest is not added:
            rank = len(outputs) - 2
            rest = call("Unsqueeze", rest, constant(np.arange(1, rank + 1)))
        return call("Add", made, rest)

    def _bias(
        self, given: Symbol | None, unit: NDArray[Any], channels: int, scales: NDArray[Any] | None
    ) -> tuple[Symbol | None, Symbol | None]:
        """The bias in units of the sums, or else as it is: what cannot be rounded to them."""
        if given is None:
            return None, None
        found = dequantised(given)
        if found is not None and is_stored(found[0]) and found[0].dtype is NumberType.INT32:
            values, scale = stored(found[0]).value.reshape(-1), found[1]
            wide = np.broadcast_to(
                scale.scales.astype(np.float64),
                unit.shape if scale.is_single else scale.scales.shape,
            )
            if not scale.zeros.any() and np.allclose(wide, unit, rtol=CLOSE, atol=0):
                return constant(np.broadcast_to(values, (channels,)).copy()), None
            real = values * scale.scales.astype(np.float64)
        elif is_stored(given):
            real = stored(given).value.astype(np.float64).reshape(-1)
        else:
            return None, given
        levels = np.broadcast_to(real / unit, (channels,))
        exact = bool((levels == np.rint(levels)).all())
        fine = scales is not None and scales.max() / 2 <= MOST_BIAS_ERROR
        if np.abs(levels).max(initial=0) >= INT32 or not (exact or fine):
            return None, given
        return constant(np.rint(levels).astype(np.int32)), None

    # -- sums ------------------------------------------------------------------------------
    def _sum(self, node: Node, new: Symbols, own: Scale, levels: tuple[int, int]) -> Symbol | None:
        """The sum of a convolution and another value, done by the convolution."""
        sides = [dequantised(s) for s in node.inputs]
        if len(sides) != 2 or sides[0] is None or sides[1] is None:
            return None
        for (q, sq), (z, sz) in ((sides[0], sides[1]), (sides[1], sides[0])):
            made = new.get(q)
            if (
                made is None
                or made.node.op is not IntegerConv
                or not (sq.is_single and sz.is_single)
            ):
                continue
            reader = self.uses.sole(q)
            if reader is None or self.uses.sole(reader.outputs[0]) is not node or q is z:
                continue
            plain = len(made.node.inputs) < 5 or made.node.inputs[4] is None
            same = q.shape is not None and q.shape == z.shape and None not in q.shape
            if (
                not plain
                or not same
                or z.dtype not in BYTES
                or is_stored(z)
                or sq.zero != made.node.attr("zero")
            ):
                continue
            attrs = dict(made.node.attrs)
            attrs.update(
                output=own.dtype,
                keep=float(sq.scale / own.scale),
                other=float(sz.scale / own.scale),
                z_zero=sz.zero,
                sum_zero=own.zero,
                sum_low=levels[0],
                sum_high=levels[1],
            )
            inputs = [*made.node.inputs, None, None][:4]
            return apply(IntegerConv, [*inputs, new.get(z, z)], attrs)[0]
        return None

    def _average(
        self, node: Node, new: Symbols, own: Scale, levels: tuple[int, int]
    ) -> Symbol | None:
        """A mean of integers of the result's type."""
        found = dequantised(node.inputs[0])
        if found is None or not found[1].is_single or found[0].dtype is not own.dtype:
            return None
        (x, scale), shape = found, found[0].shape
        if is_stored(x) or shape is None or not 3 <= len(shape) <= 5:
            return None
        if not isinstance(shape[1], int):
            return None
        attrs = {k: v for k, v in node.attrs.items() if k in POOL}
        attrs.update(ratio=float(scale.scale / own.scale), x_zero=scale.zero, zero=own.zero)
        attrs.update(low=levels[0], high=levels[1])
        return apply(IntegerAveragePool, [new.get(x, x)], attrs)[0]

    # -- operators that only move ----------------------------------------------------------
    def _moved(self, node: Node, new: Symbols, own: Scale) -> Symbol | None:
        """An operator that moves values, of the integers themselves."""
        count = len(node.inputs) if node.op_type == "Concat" else 1
        sides = [dequantised(s) for s in node.inputs[:count]]
        found = [s for s in sides if s is not None]
        if len(found) < count or any(self.uses.all(o) for o in node.outputs[1:]):
            return None
        if node.op_type != "Concat" and not all_same([s for _, s in found], own):
            return None
        values = []
        for (x, scale), real in zip(found, node.inputs, strict=False):
            value = new.get(x, x)
            if not scale.same(own):
                if not scale.is_single or real is None:
                    return None
                value = _quantise(new.get(real, real), own)
            values.append(value)
        rest = [None if s is None else new.get(s, s) for s in node.inputs[count:]]
        return apply(node.op, [*values, *rest], dict(node.attrs))[0]


def _quantise(real: Symbol, own: Scale) -> Symbol:
    zero = constant(np.array(own.zero).astype(own.dtype.numpy))
    return call("QuantizeLinear", real, constant(np.float32(own.scale)), zero)


def _clipped(real: Symbol, low: float, high: float) -> Symbol:
    if low == -np.inf and high == np.inf:
        return real
    return call("Clip", real, constant(np.float32(low)), constant(np.float32(high)))


def _is_bias(node: Node, given: Symbol) -> bool:
    """Whether what is added to a product is one number, or one for each channel."""
    result, shape = node.outputs[0].shape, stored(given).shape
    if result is None or len(shape) > len(result):
        return False
    axis = 1 if node.op_type == "Conv" else len(result) - 1
    wide = (1,) * (len(result) - len(shape)) + shape
    return all(d == 1 or (i == axis and d == result[axis]) for i, d in enumerate(wide))


def _byte_scale(node: Node) -> Scale | None:
    """The scale of a QuantizeLinear to 8 bits with one scale for all."""
    own = scale_of(node)
    return own if own is not None and own.is_single and own.dtype in BYTES else None


def _bounds(own: Scale) -> tuple[int, int]:
    return (-128, 127) if own.dtype is NumberType.INT8 else (0, 255)


def _fits(node: Node) -> bool:
    """Whether a product is of a form that the integer operators have."""
    shapes = [s.shape for s in (node.inputs[0], node.inputs[1], node.outputs[0]) if s is not None]
    if any(s is None for s in shapes):
        return False
    x, w, _ = shapes
    assert x is not None and w is not None
    if node.op_type == "Conv":
        return 3 <= len(x) <= 5 and all(isinstance(d, int) and d > 0 for d in (*w, x[1]))
    if len(w) != 2 or not all(isinstance(d, int) and d > 0 for d in w):
        return False
    if node.op_type == "MatMul":
        return len(x) > 0
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    columns = w[_axis(node)]
    alone = bias is None or (
        node.attr("beta") == 1 and bias.shape in ((), (1,), (columns,), (1, 1), (1, columns))
    )
    return len(x) == 2 and not node.attr("transA") and node.attr("alpha") == 1 and alone


def _axis(node: Node) -> int:
    """The axis of the weights that runs over the output channels."""
    return 0 if node.op_type == "Conv" or (node.op_type == "Gemm" and node.attr("transB")) else 1


def _columns(node: Node, w: Symbol) -> Symbol:
    """The weights with a column for each output."""
    if node.op_type != "Gemm" or not node.attr("transB"):
        return w
    assert w.shape is not None
    rows, inner = w.shape
    source: Sequence[Tensor] = [stored(w)]
    return derived_weight(w, (int(inner), int(rows)), source, lambda a: a.T)  # type: ignore[arg-type]

"""Other frameworks' axes brought into ours, by the operator that uses a weight.

operator        ours, as ONNX                torch              Keras
Conv            (out, in/groups, *k)         the same           (*k, in/groups, out);
                                                                depthwise (*k, in, multiplier)
ConvTranspose   (in, out/groups, *k)         the same           (*k, out, in)
MatMul, Gemm    (in, out), or transposed     (out, in)          (in, out), (in, heads, size)
                                                                of a flattened picture: rows by
                                                                (*space, channel), ours the reverse
all others      the same, but for axes of length 1; biases of Keras may be (heads, size)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Node, Symbol
from neuralsym.weights.names import Framework

Array = NDArray[Any]
Shape = tuple[int, ...]

_VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Identity", "Cast")
"""Operators between a weight and what computes with it, that numbers pass through one by one."""


@dataclass(frozen=True)
class Use:
    """What computes with a weight: the operator's node, which operand it is, and what lies between.

    views: the nodes that the weight passes first, from the weight on. shape: of the operand.
    """

    node: Node | None
    index: int
    shape: Shape
    views: tuple[Node, ...] = ()

    @property
    def kind(self) -> str:
        return self.node.op_type if self.node is not None else ""


def use_of(graph: Graph, symbol: Symbol) -> Use:
    """What computes with a weight, seen through reshapes and transpositions."""
    views: list[Node] = []
    while True:
        users = graph.users[symbol]
        node = next((n for n in users if n.op_type in _ARRANGE), users[0] if users else None)
        shape = tuple(d if isinstance(d, int) else -1 for d in symbol.shape or ())
        if node is None or symbol not in node.inputs:
            return Use(None, 0, shape, tuple(views))
        if node.op_type not in _VIEWS or node.inputs[0] is not symbol:
            return Use(node, node.inputs.index(symbol), shape, tuple(views))
        views.append(node)
        symbol = node.outputs[0]


def arrange(framework: Framework, use: Use, shape: Shape, array: Array) -> Array:
    """An array of the framework in the axes of a weight of ours, which has `shape`.

    It is a view where it can be. An array of other sizes comes back as near as its rank allows:
    the caller compares shapes.
    """
    convert = _ARRANGE.get(use.kind)
    if convert is not None:
        array = convert(framework, use, array)
    elif _bare(array.shape) == _bare(use.shape):
        array = array.reshape(use.shape)
    for node in reversed(use.views):
        before = _shape_of(node.inputs[0])
        if node.op_type == "Transpose":
            perm = node.attr("perm") or tuple(reversed(range(len(before))))
            if len(perm) == array.ndim:
                array = array.transpose(np.argsort(perm))
        elif array.shape == _shape_of(node.outputs[0]):
            array = array.reshape(before)
    heads = framework == "keras" and len(shape) == 1 and math.prod(array.shape) == shape[0]
    if array.shape != shape and (heads or _bare(array.shape) == _bare(shape)):
        array = array.reshape(shape)
    return array


def _shape_of(symbol: Symbol | None) -> Shape:
    shape = symbol.shape if symbol is not None else None
    return tuple(d if isinstance(d, int) else -1 for d in shape or ())


def _bare(shape: Shape) -> Shape:
    """The shape without axes of length 1."""
    return tuple(d for d in shape if d != 1)


def _conv(framework: Framework, use: Use, array: Array) -> Array:
    if use.index != 1:
        return array
    spatial = len(use.shape) - 2
    if framework == "keras":
        if array.ndim == 2:  # a Dense where ours is a 1x1 convolution
            array = array.reshape(*[1] * spatial, *array.shape)
        if array.ndim != spatial + 2:
            return array
        outputs, inputs = use.shape[:2]
        depthwise = inputs == 1 and array.shape[-2] > 1 and math.prod(array.shape[-2:]) == outputs
        if depthwise:
            array = array.reshape(*array.shape[:spatial], 1, outputs)
        return np.moveaxis(array, (-1, -2), (0, 1))
    if array.ndim == 2 and spatial:
        return array.reshape(*array.shape, *[1] * spatial)
    return array


def _conv_transpose(framework: Framework, use: Use, array: Array) -> Array:
    if use.index != 1 or framework != "keras" or array.ndim != len(use.shape):
        return array
    return np.moveaxis(array, (-1, -2), (0, 1))


def _product(framework: Framework, use: Use, array: Array) -> Array:
    """A matrix multiplied: (in, out) on the right side, (out, in) on the left."""
    if use.node is None or use.index > 1 or len(use.shape) != 2:
        return array
    swapped = use.index == 0
    if use.kind == "Gemm":
        swapped ^= bool(use.node.attr("transB" if use.index else "transA"))
    if framework == "torch":
        if array.ndim > 2 and set(array.shape[2:]) == {1}:  # a 1x1 convolution
            array = array.reshape(array.shape[:2])
        return array.T if array.ndim == 2 and not swapped else array
    if array.ndim > 2:
        if set(array.shape[:-2]) == {1}:
            array = array.reshape(array.shape[-2:])
        else:  # heads and their size as axes of their own
            shape = use.shape[::-1] if swapped else use.shape
            array = array.reshape(shape) if array.size == math.prod(shape) else array
            return array.T if array.ndim == 2 and swapped else array
    picture = _flattened(use.node.inputs[0]) if use.index == 1 else ()
    if array.ndim == 2 and picture and array.shape[0] == math.prod(picture):
        channels, *space = picture
        rows = np.moveaxis(array.reshape(*space, channels, -1), -2, 0)
        array = rows.reshape(array.shape)
    return array.T if array.ndim == 2 and swapped else array


_CHANNELS_FIRST = (
    *("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "BatchNormalization"),
    *("InstanceNormalization", "GroupNormalization", "DepthToSpace", "SpaceToDepth", "LRN"),
)
_ALONG = ("Concat", "Pad", "Slice", "Resize")
"""What keeps the order of the axes, and not their sizes."""


def _flattened(symbol: Symbol | None) -> Shape:
    """(C, *space) of the picture that a matrix is, row by row; () where it is none of ours."""
    node = symbol.node if symbol is not None else None
    while node is not None and node.inputs and node.op_type not in ("Flatten", "Reshape"):
        before = node.inputs[0]
        if before is None or before.shape != node.outputs[0].shape:
            return ()
        node = before.node
    before = node.inputs[0] if node is not None and node.inputs else None
    shape = _shape_of(before)[1:]
    if before is None or node is None or node.outputs[0].rank != 2 or len(shape) < 2:
        return ()
    if min(shape) < 1 or _shape_of(node.outputs[0])[1] != math.prod(shape):
        return ()
    return shape if _has_channels_first(before) else ()


def _has_channels_first(symbol: Symbol) -> bool:
    """Whether the axes are certainly [N, C, *space]: an operator on the way here says so."""
    while True:
        node = symbol.node
        if node.op_type in _CHANNELS_FIRST:
            return True
        if node.op_type == "Transpose":  # of channels that were last
            rank = symbol.rank or 0
            return tuple(node.attr("perm") or ()) == (0, rank - 1, *range(1, rank - 1))
        before = node.inputs[0] if node.inputs else None
        if before is None or not (node.op_type in _ALONG or before.shape == symbol.shape):
            return False
        symbol = before


_ARRANGE: dict[str, Callable[[Framework, Use, Array], Array]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MatMul": _product,
    "Gemm": _product,
}

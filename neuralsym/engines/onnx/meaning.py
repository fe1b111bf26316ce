"""Versions of operators that changed what the same node means, and for which nodes.

`lowest` does not go below such a version. A row gives the words that say why, or nothing where
the node at hand means the same before and after. Versions that only added types, attributes or
inputs need no row: their schemas tell.
"""

from __future__ import annotations

from collections.abc import Callable

from neuralsym.core.symbol import Node
from neuralsym.core.types import TensorType

Change = Callable[[Node], str]


def _always(reason: str) -> Change:
    return lambda node: reason


def _rank(node: Node, index: int = 0) -> int | None:
    symbol = node.inputs[index] if index < len(node.inputs) else None
    return None if symbol is None or not isinstance(symbol.type, TensorType) else symbol.type.rank


def _coerced(node: Node) -> str:
    """Before 13 the axes from `axis` on are one."""
    rank = _rank(node)
    axis = node.attr("axis")
    if axis == -1 or (rank is not None and axis == rank - 1):
        return ""
    return "works on one axis, lower ones on all from it on"


def _ceil(node: Node) -> str:
    """From 22 on, a window that would start in the padding at the end is left out."""
    if not node.attr("ceil_mode"):
        return ""
    before = _ceil_sizes(node)
    shape = node.outputs[0].shape
    if before is not None and shape is not None and list(shape[2:]) == before:
        return ""
    return "leaves out windows that start in the padding at the end"


def _ceil_sizes(node: Node) -> list[int] | None:
    """The output's spatial sizes as versions before 22 have them; None where a size is free."""
    symbol = node.inputs[0]
    assert symbol is not None
    if symbol.shape is None or node.attr("auto_pad") not in (None, "NOTSET"):
        return None
    kernel = node.attr("kernel_shape")
    rank = len(kernel)
    strides = node.attr("strides") or (1,) * rank
    dilations = node.attr("dilations") or (1,) * rank
    pads = node.attr("pads") or (0,) * (2 * rank)
    sizes = []
    for i, size in enumerate(symbol.shape[2:]):
        if not isinstance(size, int):
            return None
        room = size + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1
        sizes.append(-(-room // strides[i]) + 1)
    return sizes


def _mode(name: str, *new: str) -> Change:
    """A version that gave an attribute further values."""

    def change(node: Node) -> str:
        value = node.attr(name)
        return f"brought {name}={value!r}" if value in new else ""

    return change


def _mod(node: Node) -> str:
    symbol = node.inputs[0]
    assert symbol is not None
    floating, fmod = symbol.dtype.is_float, bool(node.attr("fmod"))
    return "" if floating == fmod else "brought this fmod for this type"


def _grid(node: Node) -> str:
    if node.attr("mode") == "nearest" and _rank(node) == 4:
        return ""
    return "renamed the modes"


def _aligned(node: Node) -> str:
    plain = node.attr("coordinate_transformation_mode") == "output_half_pixel"
    return "" if plain else "aligns by half a pixel"


def _per_axis(node: Node) -> str:
    return "" if _rank(node, 1) == 0 else "brought scales for each channel"


def _broadcasts(node: Node) -> str:
    shapes = {s.shape for s in node.inputs if s is not None}
    return "" if len(shapes) == 1 and None not in shapes else "brought broadcasting"


def _from_the_end(index: int) -> Change:
    """From 11 on an index may count from the end; one that nobody knows is taken to be plain."""

    def change(node: Node) -> str:
        symbol = node.inputs[index]
        value = None if symbol is None else symbol.known
        if value is None or value.dtype == object or not (value < 0).any():
            return ""
        return "brought indices that count from the end"

    return change


def _one_hot(node: Node) -> str:
    """What was of no class before 11 counts from the end since."""
    symbol = node.inputs[0]
    assert symbol is not None
    value = symbol.known
    unsigned = symbol.dtype.is_integer and symbol.dtype.startswith("u")
    plain = value is not None and value.dtype != object and bool((value >= 0).all())
    return "" if unsigned or plain else "brought indices that count from the end"


def _mask(node: Node) -> str:
    return "made the mask boolean" if len(node.outputs) > 1 else ""


CHANGED: dict[tuple[str, int], Change] = {
    ("AveragePool", 22): _ceil,
    ("LpPool", 22): _ceil,
    ("MaxPool", 22): _ceil,
    ("DFT", 20): _always("made axis an input with another default"),
    ("DequantizeLinear", 13): _per_axis,
    ("QuantizeLinear", 13): _per_axis,
    ("Dropout", 10): _mask,
    ("Gather", 11): _from_the_end(1),
    ("GridSample", 20): _grid,
    ("GroupNormalization", 21): _always("has a scale for each channel, lower ones for each group"),
    ("Hardmax", 13): _coerced,
    ("LogSoftmax", 13): _coerced,
    ("Softmax", 13): _coerced,
    ("Max", 8): _broadcasts,
    ("Mean", 8): _broadcasts,
    ("Min", 8): _broadcasts,
    ("Sum", 8): _broadcasts,
    ("Mod", 28): _mod,
    ("OneHot", 11): _one_hot,
    ("Pad", 19): _mode("mode", "wrap"),
    ("Resize", 11): _always("computes coordinates in another way"),
    ("Resize", 19): _mode("coordinate_transformation_mode", "half_pixel_symmetric"),
    ("RoiAlign", 16): _aligned,
    ("Scan", 9): _always("has no sequence lengths"),
    ("ScatterElements", 18): _mode("reduction", "max", "min"),
    ("ScatterND", 18): _mode("reduction", "max", "min"),
    ("Slice", 11): _always("brought negative axes and steps"),
}
"""(operator, version): what that version changed, for a node that it concerns."""

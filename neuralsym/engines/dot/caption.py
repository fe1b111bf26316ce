"""What a picture says of an operator: its kind, its settings in short, its stored operands.

Shared by the DOT engine and by drawings, so that both say the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neuralsym.core.dim import Dim
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Weight, is_stored, stored
from neuralsym.core.scalar import Expr
from neuralsym.core.schema import Formal
from neuralsym.core.symbol import Node
from neuralsym.core.tensor import Tensor
from neuralsym.core.text import attribute_text, op_text, tensor_text
from neuralsym.core.types import Shape, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops import base

LONGEST = 40
"""Letters of one setting; longer ones lose their end."""

LONGEST_NAME = 24
"""Letters of a name that stands in a box; a longer one is told on pointing."""

SHOWN = 8
"""Constants of at most so many elements are shown by their values."""

TITLE = 26
"""Letters of a title up to which the first setting stands in it."""

DETAIL = 120
"""Letters of one line of what a reader sees who points at a box."""


@dataclass(frozen=True)
class Kind:
    """A family of operators, and how its boxes are coloured: the ground, and border and accent.

    Dark text on each ground has a contrast over 10 to 1.
    """

    name: str
    fill: str
    line: str


INPUT = Kind("input", "#d9ecd0", "#4f7f35")
OUTPUT = Kind("output", "#d6e0f2", "#3f5e94")
SCOPE = Kind("scope", "#eceff4", "#5d6b82")
OTHER = Kind("other", "#f1f1f1", "#777777")
_LINEAR = Kind("linear", "#d5e6f7", "#2569a8")
_NORMALISE = Kind("normalisation", "#d3efe7", "#1f7a63")
_ACTIVATION = Kind("activation", "#fde2cf", "#b8530f")
_REDUCE = Kind("pooling and reduction", "#e6dcf8", "#6a45b0")
_ARITHMETIC = Kind("arithmetic", "#faf0c0", "#8c6d00")
_MOVE = Kind("movement", "#e6e6e6", "#6b6b6b")
_SEQUENCE = Kind("recurrence and attention", "#fad9e8", "#ad2c72")
_CONTROL = Kind("control", "#dcdcf7", "#4a46b5")
_QUANTISE = Kind("quantisation", "#dff0c8", "#56791a")

# The first that holds counts: an activation is elementwise too, a pooling is a window too.
_BY_MODULE = {"activation": _ACTIVATION, "pool": _REDUCE, "attention": _SEQUENCE}
_DERIVING = (base.Movement, base.Quantised)
_BY_BASE: tuple[tuple[type, Kind], ...] = (
    (base.Control, _CONTROL),
    (base.Recurrence, _SEQUENCE),
    (base.Contraction, _LINEAR),
    (base.Window, _LINEAR),
    (base.Normalisation, _NORMALISE),
    (base.Reduction, _REDUCE),
    (base.Quantised, _QUANTISE),
    (base.Movement, _MOVE),
    (base.Generator, _MOVE),
    (base.SequenceOp, _MOVE),
    (base.Elementwise, _ARITHMETIC),
)


@dataclass(frozen=True)
class Caption:
    """The text of a box: a title, short lines under it, and all there is to say on pointing."""

    title: str
    lines: tuple[str, ...] = ()
    detail: tuple[str, ...] = ()


def kind_of(node: Node) -> Kind:
    """The family of an operator, by where it is defined and what it is derived from."""
    found = _BY_MODULE.get(node.op.__module__.rpartition(".")[2])
    if found is not None:
        return found
    return next((kind for of, kind in _BY_BASE if issubclass(node.op, of)), OTHER)


def derived(graph: Graph) -> frozenset[Node]:
    """The nodes that only move or rescale stored values: dequantised weights, transposed kernels.

    They are lines in the boxes that take them, as weights are; not where an output or a body does.
    """
    taken = {s.node for s in (*graph.outputs, *graph.updates.values())}
    taken.update(s.node for node in graph.nodes for s in node.captures)
    found: set[Node] = set()
    for node in graph.nodes:
        if node in taken or not node.operands or not issubclass(node.op, _DERIVING):
            continue
        if all(is_stored(s) or s.node in found for s in node.operands):
            found.add(node)
    return frozenset(found)


def caption(graph: Graph, node: Node, beside: frozenset[Node] = frozenset()) -> Caption:
    """The text of an operator's box. beside: nodes that are no boxes, as `derived` gives them."""
    title, words = op_text(node), settings(node)
    if words and len(title) + len(words[0]) <= TITLE:
        title = f"{title} {words.pop(0)}"
    lines = [*_filled(words), *stored_lines(graph, node, beside)]
    said = tuple(short(line) for line in lines)
    return Caption(short(title), said, tuple(_detail(graph, node, beside)))


def _filled(words: Sequence[str]) -> Iterator[str]:
    """Words with commas between them, as many in a line as it holds."""
    line = ""
    for word in words:
        if line and len(line) + len(word) + 2 > LONGEST:
            yield line
            line = ""
        line = f"{line}, {word}" if line else word
    if line:
        yield line


def _detail(graph: Graph, node: Node, beside: frozenset[Node]) -> Iterator[str]:
    yield f"{op_text(node)} {graph.names[node]}"
    formals = node.op.schema.inputs
    for i, symbol in enumerate(node.inputs):
        if symbol is not None:
            yield short(
                f"{_formal(formals, i)} = {graph.value_name(symbol)}: {symbol.type}", DETAIL
            )
    for symbol in node.captures:
        yield short(f"uses {symbol.node.label or symbol.node.op_type}: {symbol.type}", DETAIL)
    for name, value in sorted(node.attrs.items()):
        if name not in node.op.body_attributes:
            yield short(f"{name}: {_attribute(value)}", DETAIL)
    for made in _walk(node, beside):
        if made in beside:
            what = " ".join([op_text(made), *settings(made)])
            yield short(f"{graph.names[made]} is made by {what}", DETAIL)
    for symbol in node.outputs:
        yield short(f"gives {graph.value_name(symbol)}: {symbol.type}", DETAIL)


def stored_lines(graph: Graph, node: Node, beside: frozenset[Node]) -> Iterator[str]:
    """The weights and constants that a node takes: `kernel 64×3×7×7`, `gamma, beta 64`."""
    found: dict[str, list[str]] = {}
    for name, said in _stored(graph, node, beside):
        found.setdefault(said, []).append(name)
    for said, names in found.items():
        yield f"{', '.join(names)} {said}"


def _stored(graph: Graph, node: Node, beside: frozenset[Node]) -> Iterator[tuple[str, str]]:
    formals = node.op.schema.inputs
    for i, symbol in enumerate(node.inputs):
        if symbol is None:
            continue
        name = _formal(formals, i)
        if symbol.node in beside:
            roots = [w for w in weights_of(symbol.node, beside) if w.outputs[0].shape]
            own = last_part(graph.names[roots[0]]) if len(roots) == 1 else name
            said = f"{type_text(symbol.type)} by {symbol.op_type}"
            yield (own if is_telling(own) else name), said
        elif is_stored(symbol):
            tensor, own = stored(symbol), last_part(graph.names[symbol.node])
            if symbol.node.op is Weight and is_telling(own):
                name = own
            small = tensor.is_drawn and tensor.size <= SHOWN
            if small and (symbol.node.op is Constant or tensor.shape == ()):
                yield name, _value(tensor)
            else:
                yield name, type_text(symbol.type)


def weights_of(node: Node, beside: frozenset[Node]) -> list[Node]:
    """The weights that a node takes, itself or by way of nodes in `beside`, in order."""
    return [at for at in _walk(node, beside) if at.op is Weight]


def _walk(node: Node, beside: frozenset[Node]) -> list[Node]:
    """What a node takes, and what those of it that are in `beside` take, each once."""
    found: dict[Node, None] = {}
    stack = [symbol.node for symbol in reversed(node.operands)]
    while stack:
        at = stack.pop()
        if at not in found:
            found[at] = None
            if at in beside:
                stack.extend(symbol.node for symbol in reversed(at.operands))
    return list(found)


def _value(tensor: Tensor) -> str:
    if tensor.shape == () and tensor.dtype.is_float:
        return f"{float(tensor.value):.6g}"
    return short(tensor_text(tensor))


def _formal(formals: Sequence[Formal], index: int) -> str:
    if not formals:
        return f"input {index}"
    formal = formals[min(index, len(formals) - 1)]
    return (
        f"{formal.name}[{index - len(formals) + 1}]" if formal.kind == "variadic" else formal.name
    )


def settings(node: Node) -> list[str]:
    """The attributes that are not their defaults, in short; of a window, its size comes first."""
    rest = {
        name: value
        for name, value in node.attrs.items()
        if name not in node.op.body_attributes and not _is_default(node, name, value)
    }
    windowed = "kernel_shape" in node.op.schema.attributes
    words = list(_window(node, rest)) if windowed else []
    return words + [short(f"{name} {_attribute(value)}") for name, value in sorted(rest.items())]


def _is_default(node: Node, name: str, value: Any) -> bool:
    spec = node.op.schema.attributes.get(name)
    return spec is not None and not spec.required and value == spec.default


def size_of(node: Node) -> str:
    """The size of a window, `3×3`, from the attribute or from the weights; "" of other nodes."""
    if "kernel_shape" not in node.op.schema.attributes:
        return ""
    kernel = node.attrs.get("kernel_shape")
    if kernel is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        shape = getattr(node.inputs[1].type, "shape", None)
        kernel = shape[2:] if shape else None
    return times(tuple(kernel)) if kernel else ""


def _window(node: Node, rest: dict[str, Any]) -> Iterator[str]:
    """`3×3`, `stride 2`, `pad 1`, `dilation 2`, `groups 32`; takes what it tells out of `rest`."""
    rest.pop("kernel_shape", None)
    size = size_of(node)
    if size:
        yield size
    for name, word, usual in (("strides", "stride", 1), ("dilations", "dilation", 1)):
        value = rest.pop(name, None)
        if value is not None and any(v != usual for v in value):
            yield f"{word} {_alike(value)}"
    pads = rest.pop("pads", None)
    if pads is not None and any(pads):
        half = len(pads) // 2
        same = pads[:half] == pads[half:]
        yield f"pad {_alike(pads[:half])}" if same else f"pad {_numbers(pads)}"
    group = rest.pop("group", 1)
    if group != 1:
        yield f"groups {group}"


def _alike(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else times(tuple(values))


def _numbers(values: Sequence[Any]) -> str:
    return f"({', '.join(map(str, values))})"


def _attribute(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Tensor):
        return _value(value) if value.is_drawn and value.size <= SHOWN else _tensor(value)
    if isinstance(value, tuple):
        return _numbers([_attribute(v) for v in value[:64]])
    if isinstance(value, Mapping):
        return f"{len(value)} entries"
    if isinstance(value, str):
        return value
    if isinstance(value, (int, Expr, NumberType)):
        return attribute_text(value)
    return str(value)


def _tensor(value: Tensor) -> str:
    return type_text(TensorType(value.dtype, value.shape))


# -- words ---------------------------------------------------------------------------------------
def times(shape: Shape) -> str:
    """`64×3×7×7`; with spaces where a size is an expression, ? for an unknown one."""
    words = ["?" if d is None else str(d) for d in shape]
    wide = any(isinstance(d, Dim) and len(str(d)) > 1 and not str(d).isalnum() for d in shape)
    return (" × " if wide else "×").join(words)


def type_text(type_: Type) -> str:
    """A type in short: the shape of a float32 tensor, with the number type in front of others."""
    if not isinstance(type_, TensorType):
        return str(type_)
    if type_.shape is None:
        shape = "any shape"
    else:
        shape = times(type_.shape) if type_.shape else "scalar"
    return shape if type_.dtype is NumberType.FLOAT32 else f"{type_.dtype} {shape}"


def last_part(name: str) -> str:
    """What comes after the last / of a name, or after its last dot where it has none."""
    mark = "/" if "/" in name else "."
    return name.rstrip(mark).rpartition(mark)[2] or name


def is_telling(name: str, of: str = "") -> bool:
    """Whether a name says more than what it is `of`: `fc` and `conv1` do; counts do not.

    Exporters make names such as `378`, `onnx::MatMul_378`, `Conv_output_0` of a Conv.
    """
    if "::" in name or name.isdigit() or len(name) > LONGEST_NAME:
        return False
    plain = re.sub(r"(_\d+)?(_output)?(_\d+)?$", "", name.lower())
    return plain.replace("_", "") != of.lower().replace("_", "")


def short(text: str, longest: int = LONGEST) -> str:
    """A line that ends with … where it is longer than `longest`; control characters are spaces."""
    text = "".join(c if c.isprintable() else " " for c in text[: 4 * longest])
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"

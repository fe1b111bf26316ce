"""Writing an operator with others: by its own expansion, else by the body that ONNX gives it.

The body comes from the onnx package: a function of the schema, or one built for the attributes and
types at hand. Either stands in for the node only if it tells as much about the shapes of the
results; a body also only if all its operators still mean what they meant at its opset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuralsym.core import proto
from neuralsym.core.leaves import constant
from neuralsym.core.op import OPS, Op
from neuralsym.core.registry import apply
from neuralsym.core.schema import VERSIONS, plain_attribute
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Shape, TensorType, Type
from neuralsym.errors import NeuralsymError
from neuralsym.ops.evaluate import one_node_model

MEANS_THE_SAME_SINCE = 18
"""Bodies written for this opset or a later one use no operator that has changed its meaning."""

OLD_BUT_SAME = frozenset(
    {
        *("Abs", "Add", "Cast", "CastLike", "Clip", "Concat", "Constant", "ConstantOfShape", "Cos"),
        *("Div", "Equal", "Exp", "Expand", "Flatten", "Gather", "Greater", "Identity", "Less"),
        *("Log", "MatMul", "Max", "Min", "Mul", "Neg", "Not", "Pow", "Range", "Reciprocal"),
        *("Reshape", "Shape", "Sigmoid", "Size", "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose"),
        *("Unsqueeze", "Where"),
    }
)
"""Operators that in opsets 13 to 17 were the same but for the types that they take."""

CONTRADICTED = frozenset({"Bernoulli"})
"""Operators whose body is not what their text says: Bernoulli's gives 1 with probability 1 - p."""


def may_expand(op: type[Op]) -> bool:
    """Whether the operator has an expansion of its own or a body of ONNX's."""
    return op.expansion.__func__ is not Op.expansion.__func__ or has_usable_body(op)  # type: ignore[attr-defined]


def has_usable_body(op: type[Op]) -> bool:
    """Whether ONNX defines the operator by others, in a way that can be taken over."""
    return op.schema.has_body and not op.body_attributes and op.__name__ not in CONTRADICTED


def expand(node: Node) -> list[Symbol] | None:
    """The outputs of the node by its expansion or body; None where it has none that fits."""
    try:
        own = node.op.expansion(node)
        if own is not None:
            made = _declared(node, own)
        else:
            body = function_of(node) if has_usable_body(node.op) else None
            if body is None:
                return None
            made = _walk(node, body)
    except NeuralsymError:
        return None
    if len(made) != len(node.outputs):
        return None  # a body made for an unknown rank may be cut short
    for old, new in zip(node.outputs, made, strict=True):
        if not _tells_as_much(old, new):
            return None
    return made


def function_of(node: Node) -> Any:
    """The FunctionProto that defines the node, or None."""
    import onnx
    import onnx.defs

    op = node.op
    schema: Any = onnx.defs.get_schema(op.__name__, VERSIONS.get(op.domain, 1), op.domain)
    if schema.has_function:
        body = schema.function_body
    elif schema.has_context_dependent_function:
        model = one_node_model(node)
        types = [
            (proto.type_to_proto(s.type) if s is not None else onnx.TypeProto()).SerializeToString()
            for s in node.inputs
        ]
        text = model.graph.node[0].SerializeToString()
        version = max(schema.context_dependent_function_opset_versions)
        made = schema.get_context_dependent_function_with_opset_version(version, text, types)
        body = onnx.FunctionProto()
        body.ParseFromString(made)
    else:
        return None
    versions = {o.domain: o.version for o in body.opset_import}
    own = versions.get("", MEANS_THE_SAME_SINCE)
    for inner in body.node:
        if (inner.domain, inner.op_type) not in OPS:
            return None
        if own < MEANS_THE_SAME_SINCE and inner.op_type not in OLD_BUT_SAME:
            return None
    return body


def _walk(node: Node, body: Any) -> list[Symbol]:
    """Apply the body's operators to the node's inputs."""
    values: dict[str, Symbol | None] = {"": None}
    for i, name in enumerate(body.input):
        values[name] = node.inputs[i] if i < len(node.inputs) else None
    for inner in body.node:
        op = OPS[inner.domain, inner.op_type]
        attrs = _attributes(node, body, inner)
        outputs = list(inner.output)
        if inner.op_type == "Constant":
            values[outputs[0]] = constant(_constant_of(attrs))
            continue
        inputs = [values[name] for name in inner.input]
        made = apply(op, inputs, attrs, outputs=len(outputs), where=node.where)
        values.update(zip(outputs, made, strict=True))
    results = [values[name] for name in body.output[: len(node.outputs)]]
    return [s for s in results if s is not None]


def _attributes(node: Node, body: Any, inner: Any) -> dict[str, Any]:
    """An inner node's attributes; those that refer to the function's take the outer node's."""
    import onnx.helper

    defaults = {a.name: a for a in body.attribute_proto}
    made: dict[str, Any] = {}
    for attribute in inner.attribute:
        value: Any = None
        if attribute.ref_attr_name:
            value = node.attr(attribute.ref_attr_name)
            if value is None and attribute.ref_attr_name in defaults:
                found = onnx.helper.get_attribute_value(defaults[attribute.ref_attr_name])
                value = plain_attribute(found)
        elif attribute.type == attribute.TENSOR:
            value = proto.tensor_from_proto(attribute.t)
        else:
            value = plain_attribute(onnx.helper.get_attribute_value(attribute))
        if value is not None:
            made[attribute.name] = value
    return made


def _constant_of(attrs: dict[str, Any]) -> Any:
    """The tensor that a Constant of any spelling holds."""
    import numpy as np

    from neuralsym.core.tensor import Tensor

    ((kind, value),) = attrs.items()
    if kind == "value":
        return value
    dtype = {"f": np.float32, "i": np.int64, "s": object}[kind.removeprefix("value_")[0]]
    return Tensor.of(np.array(value, dtype))


def _declared(node: Node, made: Sequence[Symbol]) -> list[Symbol]:
    """The symbols with sizes that only the node's file declares, in copies of what gives them."""
    types: dict[Node, list[Type]] = {}
    for old, new in zip(node.outputs, made, strict=True):
        fresh = new.node not in {s.node for s in node.operands}
        if fresh and not _tells_as_much(old, new):
            shape = _both(old.type, new.type)
            if shape is not None:
                told = types.setdefault(new.node, [s.type for s in new.node.outputs])
                told[new.index] = TensorType(new.dtype, shape)
    copies: dict[Node, Node] = {}
    for source, told in types.items():
        copies[source] = Node(
            source.op,
            source.inputs,
            source.attrs,
            tuple(told),
            known=tuple(s.known for s in source.outputs),
            name=source.name,
            scope=source.scope,
            where=source.where,
            captures=source.captures,
        )
    return [copies[s.node].outputs[s.index] if s.node in copies else s for s in made]


def _both(a: Type, b: Type) -> Shape | None:
    """The sizes that one type or the other tells; None where they are not of one rank and kind."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.dtype != b.dtype:
        return None
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return a.shape if b.shape is None else None
    return tuple(x if y is None else y for x, y in zip(a.shape, b.shape, strict=True))


def _tells_as_much(old: Symbol, new: Symbol) -> bool:
    """Whether the new symbol has the old one's type, and sizes wherever the old one has."""
    a, b = old.type, new.type
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a == b
    if a.dtype != b.dtype or a.shape is None or b.shape is None:
        return a.dtype == b.dtype and a.shape is None
    pairs = zip(a.shape, b.shape, strict=False)
    return len(a.shape) == len(b.shape) and all(y is not None or x is None for x, y in pairs)

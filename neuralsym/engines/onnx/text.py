"""Whether the names in a model are text: protobuf hands over bytes that are no UTF-8 as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TypeProto

from neuralsym.errors import FormatError


def check_text(model: ModelProto, label: str) -> None:
    """FormatError if a name, a domain or the name of a dimension is not UTF-8."""
    for text in _texts(model):
        if type(text) is not str:
            raise FormatError(
                f"{label} is no ONNX model: the name {text!r} in it is not UTF-8; "
                "the file is broken, so get or export it again"
            )


def readable(text: Any) -> str:
    """A description, of which nothing depends: bytes that are no UTF-8 become question marks."""
    return text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")


def _texts(model: ModelProto) -> Iterator[Any]:
    yield from (model.producer_name, model.domain)
    yield from (opset.domain for opset in model.opset_import)
    for entry in model.metadata_props:
        yield from (entry.key, entry.value)
    graphs: list[GraphProto] = [model.graph]
    for function in model.functions:
        yield from (function.name, function.domain, function.overload)
        yield from function.input
        yield from function.output
        yield from function.attribute
        yield from (opset.domain for opset in function.opset_import)
        yield from (a.name for a in function.attribute_proto)
        yield from _declared(function.value_info)
        for node in function.node:
            yield from _of_node(node, graphs)
    while graphs:
        graph = graphs.pop()
        yield graph.name
        yield from (tensor.name for tensor in graph.initializer)
        yield from (tensor.values.name for tensor in graph.sparse_initializer)
        for values in (graph.input, graph.output, graph.value_info):
            yield from _declared(values)
        for node in graph.node:
            yield from _of_node(node, graphs)


def _of_node(node: NodeProto, graphs: list[GraphProto]) -> Iterator[Any]:
    """The texts of a node; its bodies are added to `graphs`."""
    yield from (node.op_type, node.name, node.domain, node.overload)
    yield from node.input
    yield from node.output
    for attribute in node.attribute:
        yield from (attribute.name, attribute.ref_attr_name)
        for type in (attribute.tp, *attribute.type_protos):
            yield from _of_type(type)
        graphs += attribute.graphs
        if attribute.HasField("g"):
            graphs.append(attribute.g)


def _declared(values: Any) -> Iterator[Any]:
    for value in values:
        yield value.name
        yield from _of_type(value.type)


def _of_type(type: TypeProto) -> Iterator[Any]:
    """The names of a type's dimensions."""
    kinds: list[Any] = [type]
    while kinds:
        kind = kinds.pop()
        which = kind.WhichOneof("value")
        if which in ("tensor_type", "sparse_tensor_type"):
            yield from (d.dim_param for d in getattr(kind, which).shape.dim)
        elif which == "map_type":
            kinds.append(kind.map_type.value_type)
        elif which in ("sequence_type", "optional_type"):
            kinds.append(getattr(kind, which).elem_type)

"""onnx's own checker over what is about to be written."""

from __future__ import annotations

import onnx.checker
from onnx import GraphProto, TensorProto, ValueInfoProto
from onnx.shape_inference import InferenceError

from neuralsym.core.op import KNOWN_LIMIT
from neuralsym.core.tensor import Tensor
from neuralsym.engines.onnx.write import Draft, tensor_proto
from neuralsym.errors import FormatError
from neuralsym.ops.functions import FROM_FILES

APART = "com.microsoft"
"""Where the checker finds what files hold in the domain of ONNX though ONNX does not have it."""


def check_draft(draft: Draft) -> None:
    """Raise FormatError unless the checker, with strict shape inference, passes the model.

    Tensors that are large or not made yet stand in as inputs of their type: the checker copies
    what it is given, and no shape follows from weights.
    """
    small: list[TensorProto] = []
    model = draft.whole(())
    # The checker has no way to say an unknown rank, though runtimes take it.
    if any(_is_rankless(value) for value in model.graph.input):
        return
    rankless = [value for value in model.graph.output if _is_rankless(value)]
    for value in rankless:
        model.graph.value_info.append(value)
        model.graph.output.remove(value)
    inputs = {value.name for value in model.graph.input}
    for stored in draft.stored:
        dims, kind = _signature(stored.tensor)
        size = 1
        for dim in dims:
            size *= dim
        made = not isinstance(stored.tensor, Tensor) or stored.tensor.is_drawn
        if made and size <= KNOWN_LIMIT:
            small.append(tensor_proto(stored))
        elif stored.name not in inputs:
            value = model.graph.input.add(name=stored.name)
            value.type.tensor_type.elem_type = kind
            value.type.tensor_type.shape.SetInParent()
            for dim in dims:
                value.type.tensor_type.shape.dim.add(dim_value=dim)
    model.graph.initializer.extend(small)
    if _set_apart(model.graph) and all(i.domain != APART for i in model.opset_import):
        model.opset_import.add(domain=APART, version=1)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, InferenceError) as error:
        raise FormatError(f"onnx's checker refuses what would be written: {error}") from error


def _set_apart(graph: GraphProto) -> bool:
    """Move operators that are not ONNX's out of its domain, where the checker would refuse them."""
    found = False
    for node in graph.node:
        if not node.domain and node.op_type in FROM_FILES:
            node.domain = APART
            found = True
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                found = _set_apart(body) or found
    return found


def _is_rankless(value: ValueInfoProto) -> bool:
    kind = value.type.WhichOneof("value")
    return kind == "tensor_type" and not value.type.tensor_type.HasField("shape")


def _signature(tensor: Tensor | TensorProto) -> tuple[tuple[int, ...], int]:
    if isinstance(tensor, Tensor):
        return tensor.shape, tensor.dtype.onnx
    return tuple(tensor.dims), tensor.data_type

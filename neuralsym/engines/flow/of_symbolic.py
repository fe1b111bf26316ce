"""From graphs to a flow: each graph becomes a function, and weights of one name are shared.

What Myelin has is written in its words (MatMul, Add, SoftMax, Assign), the rest as ONNX's operators
by their full names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.dim import Dim
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Variable, Weight
from neuralsym.core.model import Model
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType
from neuralsym.dtypes import NumberType
from neuralsym.engines.flow.elementwise import OF_OPERATOR
from neuralsym.engines.flow.flow import Flow
from neuralsym.engines.flow.notes import FlowNotes
from neuralsym.engines.flow.parts import BATCH, Function, Operation
from neuralsym.engines.flow.parts import Variable as FlowVariable
from neuralsym.engines.flow.spelling import (
    DIMS,
    METADATA,
    METADATA_TYPE,
    OMITTED,
    UNKNOWN_WORD,
    type_of,
    write_attributes,
)
from neuralsym.engines.flow.write import lowest_version
from neuralsym.errors import FormatError

UNKNOWN = 0
"""A size of a shape that is not known."""


def write_flow(given: Graph | Model) -> Flow:
    """The flow of a graph, or of a model: a function for each graph.

    Raises FormatError for what a flow cannot hold: bodies of If and Loop, sequences, texts, and
    number types that Myelin has no word for.
    """
    model = Model.of(given)
    notes = model.notes.engine.get("flow")
    return _Writer(model, notes if isinstance(notes, FlowNotes) else FlowNotes()).write()


class _Writer:
    """A model on its way to a flow."""

    def __init__(self, model: Model, notes: FlowNotes) -> None:
        self.model = model
        self.notes = notes
        self.flow = Flow()
        self.flow.version = notes.version
        self.stored: dict[str, Tensor] = {}

    def write(self) -> Flow:
        shared = _shared_names(self.model.graphs.values())
        for name, graph in self.model.graphs.items():
            func = self.flow.func(name)
            func.flags = self.notes.functions.get(name, 0)
            _GraphWriter(self, graph, func, shared).write()
        for name, variable in self.notes.variables.items():
            var = self.flow.vars.get(name)
            if var is not None:
                var.aliases = list(variable.aliases)
                var.attrs.update(variable.attrs)
                var.flags |= variable.flags
        for name, links in self.notes.connectors.items():
            cnx = self.flow.cnx(name)
            for link in links:
                if link in self.flow.vars:
                    cnx.add(self.flow.vars[link])
        if self.model.metadata:
            self.flow.blob(METADATA).attrs = dict(self.model.metadata)
            self.flow.blob(METADATA).type = METADATA_TYPE
        for name, noted in self.notes.blobs.items():
            blob = self.flow.blob(name)
            blob.type, blob.data, blob.flags = noted.type, noted.data, noted.flags
            blob.attrs = dict(noted.attrs)
        if self.flow.version is not None:
            self.flow.version = max(self.flow.version, lowest_version(self.flow))
        return self.flow


def _shared_names(graphs: Iterable[Graph]) -> set[str]:
    """Names that values of several graphs have and that are not of one weight or state."""
    first: dict[str, Tensor | None] = {}
    clashing: set[str] = set()
    for graph in graphs:
        for node in graph:
            for symbol in node.outputs:
                name, tensor = graph.value_name(symbol), _stored(node)
                if name in first and (tensor is None or first[name] is not tensor):
                    clashing.add(name)
                first.setdefault(name, tensor)
    return clashing


def _stored(node: Node) -> Tensor | None:
    """The value of a weight, a constant, or a variable that begins with one."""
    if node.op in (Weight, Constant):
        found = node.attrs["value"]
    else:
        found = node.attrs.get("init") if node.op is Variable else None
    return found if isinstance(found, Tensor) else None


class _GraphWriter:
    """One graph on its way to a function."""

    def __init__(self, writer: _Writer, graph: Graph, func: Function, clashing: set[str]) -> None:
        self.writer = writer
        self.flow = writer.flow
        self.graph = graph
        self.func = func
        self.clashing = clashing
        self.vars: dict[Symbol, FlowVariable] = {}
        self.batch = _batch_name(graph)

    def write(self) -> None:
        for node in self.graph:
            if node.op is Variable or _stored(node) is not None:
                self.leaf(node)
            else:
                self.node(node)
        for name, symbol in zip(self.graph.output_names, self.graph.outputs, strict=True):
            self.output(name, symbol)
        for target, value in self.graph.updates.items():
            op = self.operation(f"{self.graph.value_name(target)}/assign", "Assign")
            op.add_input(self.vars[target])
            op.add_input(self.vars[value])

    # -- variables ---------------------------------------------------------------------------
    def leaf(self, node: Node) -> None:
        symbol = node.outputs[0]
        tensor = _stored(node)
        var = self.variable(symbol, shared=tensor is not None)
        if node.op is Variable:
            var.input = tensor is None
        if tensor is not None:
            var.data = self.data_of(tensor, var.name)
            var.learnable = node.op is Variable or bool(
                node.op is Weight and node.attrs.get("trainable", 1)
            )

    def variable(self, symbol: Symbol, shared: bool = False) -> FlowVariable:
        name = self.graph.value_name(symbol)
        if name in self.clashing and not shared:
            name = f"{self.graph.name}/{name}"
        var = self.flow.var(name)
        self.vars[symbol] = var
        self.describe(var, symbol)
        return var

    def describe(self, var: FlowVariable, symbol: Symbol) -> None:
        """Its number type, and the sizes that are known; the batch as -1."""
        type_ = symbol.type
        if not isinstance(type_, TensorType):
            raise FormatError(
                f"{var.name!r} is {type_}, which a .flow file cannot hold; save it as .onnx"
            )
        var.type = _myelin(type_.dtype, var.name)
        if type_.shape is None:
            var.shape = [UNKNOWN]
            return
        var.shape = [self.size(d, axis) for axis, d in enumerate(type_.shape)]
        if any(isinstance(d, Dim) for d in type_.shape) and UNKNOWN in var.shape:
            words = (UNKNOWN_WORD if d is None else str(d) for d in type_.shape)
            var.attrs[DIMS] = ",".join(words)

    def size(self, dim: object, axis: int) -> int:
        if isinstance(dim, int):
            return dim
        return BATCH if axis == 0 and dim is not None and str(dim) == self.batch else UNKNOWN

    def data_of(self, tensor: Tensor, name: str) -> NDArray[Any]:
        if tensor.dtype is NumberType.STRING:
            raise FormatError(f"{name!r} holds texts, which a .flow file cannot; save it as .onnx")
        return tensor.value

    def constant(self, name: str, value: object, dtype: str) -> FlowVariable:
        """A constant that an operation of Myelin's takes as an input."""
        array = np.asarray(value, dtype)
        return self.flow.var(self.free(name), dtype, array.shape, array)

    def free(self, name: str) -> str:
        made, count = name, 0
        while made in self.flow.vars:
            count += 1
            made = f"{name}_{count}"
        return made

    def output(self, name: str, symbol: Symbol) -> None:
        """Mark a result; one that is an input or a second name of a value is copied."""
        var = self.vars[symbol]
        wanted = f"{self.graph.name}/{name}" if name in self.clashing else name
        if var.name != wanted or var.producer is None:
            op = self.operation(f"{wanted}/output", "Identity")
            op.add_input(var)
            made = self.flow.var(self.free(wanted), var.type, var.shape)
            op.add_output(made)
            var = made
        var.output = True

    # -- operations --------------------------------------------------------------------------
    def operation(self, name: str, type_: str) -> Operation:
        made, count = name, 0
        while made in self.flow.ops:
            count += 1
            made = f"{name}_{count}"
        op = self.flow.op(made, type_)
        self.func.add(op)
        return op

    def node(self, node: Node) -> None:
        name = self.graph.names[node]
        label = self.writer.notes.operations.get(name, name)
        if self.graph.bodies.get(node):
            raise FormatError(
                f"{node.op_type} {name!r} has a body, which a .flow file cannot hold; save the "
                "network as .onnx"
            )
        if node.op_type == "Gemm" and not node.op.domain and self.gemm(node, label):
            return
        type_, attrs, extra = self.spelled(node, name)
        op = self.operation(label, type_)
        for symbol in node.inputs:
            op.add_input(self.omitted() if symbol is None else self.vars[symbol])
        for var in extra:
            op.add_input(var)
        for symbol in node.outputs:
            op.add_output(self.variable(symbol))
        op.attrs = {**self.kept_attrs(name), **attrs}

    def kept_attrs(self, name: str) -> dict[str, str]:
        """The attributes of a file that say nothing of what is computed."""
        noted = self.writer.notes.attrs.get(name, {})
        return {
            k: v for k, v in noted.items() if k in ("task", "input", "output", "nomerge", "keep")
        }

    def omitted(self) -> FlowVariable:
        return self.flow.var(OMITTED, "void")

    def gemm(self, node: Node, label: str) -> bool:
        """A product and a sum in Myelin's words, where the Gemm scales nothing."""
        a, b, *rest = node.inputs
        if node.attrs.get("alpha", 1.0) != 1.0 or node.attrs.get("beta", 1.0) != 1.0:
            return False
        if a is None or b is None:
            return False
        op = self.operation(f"{label}/MatMul" if rest else label, "MatMul")
        op.add_input(self.vars[a])
        op.add_input(self.vars[b])
        for key, attr in (("transA", "transpose_a"), ("transB", "transpose_b")):
            if node.attrs.get(key, 0):
                op.add_attr(attr, True)
        result = self.variable(node.outputs[0])
        if not rest or rest[0] is None:
            op.add_output(result)
            return True
        between = self.flow.var(self.free(f"{result.name}/MatMul"), result.type, result.shape)
        op.add_output(between)
        add = self.operation(label, "Add")
        add.add_input(between)
        add.add_input(self.vars[rest[0]])
        add.add_output(result)
        return True

    def spelled(self, node: Node, name: str) -> tuple[str, dict[str, str], list[FlowVariable]]:
        """The type, attributes and further constant inputs of the operation for a node."""
        kind = node.op_type
        attrs = write_attributes(node.op, node.attrs, name)
        if not node.op.domain:
            if (
                kind in OF_OPERATOR
                and not attrs
                and (kind not in ("Min", "Max") or len(node.inputs) == 2)
            ):
                return OF_OPERATOR[kind], {}, []
            if kind == "MatMul" and all(s is not None and (s.rank or 0) >= 2 for s in node.inputs):
                return "MatMul", {}, []
            if kind == "Softmax":
                return "SoftMax", {"axis": str(node.attrs.get("axis", -1))}, []
            if kind == "Transpose" and node.attrs.get("perm") is not None:
                return "Transpose", {"perm": str(list(node.attrs["perm"]))}, []
            if kind == "Concat":
                axis = self.constant(f"{name}/axis", node.attrs["axis"], "int32")
                return "Concat", {"N": str(len(node.inputs))}, [axis]
            if kind == "Gelu" and node.attrs.get("approximate") == "tanh":
                return "Gelu", {}, []
        return type_of(node.op), attrs, []


def _batch_name(graph: Graph) -> str | None:
    """The size that is free on the first axis of inputs: what -1 stands for."""
    for symbol in graph.inputs:
        if symbol.shape and isinstance(symbol.shape[0], (Dim, str)):
            return str(symbol.shape[0])
    return None


def _myelin(dtype: NumberType, name: str) -> str:
    found = dtype.row.myelin
    if found is None:
        raise FormatError(
            f"{name!r} is of {dtype}, which a .flow file cannot hold; save it as .onnx"
        )
    return found

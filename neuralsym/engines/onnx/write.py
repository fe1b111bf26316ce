"""From symbols to an ONNX model.

A `Draft` is a model whose stored tensors are still apart, so that a file can be written with one
of them in memory at a time. Values keep their names; bodies of control flow see outer values by
their names, and what bodies store lies with the other initializers of the main graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnx.helper import find_min_ir_version_for, make_opsetid

import neuralsym
from neuralsym.core.custom import Custom
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Variable, Weight
from neuralsym.core.model import Model
from neuralsym.core.proto import attribute_to_proto, tensor_to_proto, type_to_proto
from neuralsym.core.schema import VERSIONS
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import LEAVES
from neuralsym.core.types import MapType, OptionalType, SequenceType, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx import opsets
from neuralsym.engines.onnx.choose import choose_opsets, copied_outputs
from neuralsym.engines.onnx.lower import lowered
from neuralsym.engines.onnx.notes import annotate, write_graph_notes, write_notes
from neuralsym.engines.onnx.origin import describe_origin, name_in_file
from neuralsym.errors import BadAttribute, FormatError

CONSTANT, STATISTICS = "constant", "statistics"
"""What the description of an initializer says that is no trainable parameter, of our files."""


class Stored(NamedTuple):
    """An initializer: its name, value, and description."""

    name: str
    tensor: Tensor | TensorProto
    doc: str = ""


# The format version that brought each of the newer element types.
_TYPE_IR = {
    **dict.fromkeys(("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"), 9),
    **dict.fromkeys(("int4", "uint4"), 10),
    "float4e2m1": 11,
    "float8e8m0": 12,
    **dict.fromkeys(("int2", "uint2"), 13),
    **dict.fromkeys(("float6e2m3", "float6e3m2"), 14),
}
# Defaults that are written out: onnx's checker fails on these operators without them.
_EXPLICIT = {"MeanVarianceNormalization": ("axes",), "STFT": ("onesided",)}
_LOWEST_IR = 4  # before it, every initializer had to be an input too


@dataclass
class Draft:
    """A model without its stored tensors.

    `head` has the graph's nodes and name, `tail` its inputs, outputs and value types; `stored`
    are the initializers in order.
    """

    model: ModelProto
    head: GraphProto
    tail: GraphProto
    stored: list[Stored]

    def whole(self, tensors: Iterable[TensorProto]) -> ModelProto:
        """The model with these initializers."""
        made = ModelProto()
        made.CopyFrom(self.model)
        made.graph.CopyFrom(self.head)
        made.graph.initializer.extend(tensors)
        made.graph.MergeFrom(self.tail)
        return made


def draft(
    given: Graph | Model,
    opset: int | None = None,
    metadata: Mapping[str, str] | None = None,
    doc: str | None = None,
) -> Draft:
    """Lay out a model; see `of_symbolic`."""
    model = Model.of(given)
    if len(model.graphs) != 1:
        raise FormatError(
            f"an ONNX file holds one graph, this model has {len(model.graphs)} "
            f"({', '.join(model.graphs)}); write each to a file of its own"
        )
    graph = model.graph
    if graph.updates:
        raise FormatError(
            f"graph {graph.name!r} writes values back into {len(graph.updates)} variables after a "
            "run, which ONNX cannot say; give the new values as outputs and feed them again"
        )
    if opset is not None:
        if not hasattr(opset, "__index__"):
            raise FormatError(f"opset={opset!r} is no whole number, such as opset=18")
        graph = lowered(graph, opset)
    imports = choose_opsets(graph, opset)
    writer = _Writer(imports)
    head, tail = writer.main(graph)
    write_graph_notes(model.notes, tail)
    for name, tensor in annotate(model.notes, tail, writer.used).items():
        writer.stored[name] = Stored(name, tensor)
    proto = ModelProto(producer_name="neuralsym", producer_version=neuralsym.__version__)
    if said := model.doc if doc is None else doc:
        proto.doc_string = said
    write_notes(model.notes, proto)
    ids = [make_opsetid(domain, version) for domain, version in sorted(imports.items())]
    proto.opset_import.extend(ids)
    types = [_TYPE_IR.get(str(t), 0) for t in writer.types]
    proto.ir_version = max(find_min_ir_version_for(ids, True), _LOWEST_IR, *types)
    for key, value in sorted({**model.metadata, **(metadata or {})}.items()):
        texts: tuple[object, ...] = (key, value)
        if not all(isinstance(text, str) for text in texts):
            raise BadAttribute(f"metadata is text by name, not {key!r}: {value!r}")
        proto.metadata_props.add(key=key, value=value)
    return Draft(proto, head, tail, list(writer.stored.values()))


def tensor_proto(stored: Stored) -> TensorProto:
    """A stored tensor with its data."""
    if isinstance(stored.tensor, TensorProto):
        return stored.tensor
    made = tensor_to_proto(stored.tensor.once(), stored.tensor.dtype, stored.name)
    if stored.doc:
        made.doc_string = stored.doc
    return made


def draft_of_proto(
    given: ModelProto,
    opset: int | None = None,
    metadata: Mapping[str, str] | None = None,
    doc: str | None = None,
) -> Draft:
    """The parts of a model that exists; its opset is what it is."""
    if opset is not None and opset not in {i.version for i in given.opset_import if not i.domain}:
        raise FormatError(
            f"a ModelProto is written in its own opset, not {opset}; use to_symbolic(model) and "
            "write the graph"
        )
    for tensor in given.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            raise FormatError(
                f"the data of {tensor.name!r} lies in another file; load the model with "
                "neuralsym.engines.onnx.load(path), which reads it"
            )
    rest = ModelProto()
    for entry, value in given.ListFields():
        if entry.name == "graph":
            continue
        if entry.is_repeated:
            getattr(rest, entry.name).extend(value)
        else:
            setattr(rest, entry.name, value)
    if doc is not None:
        rest.doc_string = doc
    for key, text in sorted((metadata or {}).items()):
        rest.metadata_props.add(key=key, value=text)
    head, tail = GraphProto(), GraphProto()
    for entry, value in given.graph.ListFields():
        if entry.name == "initializer":
            continue
        part = head if entry.number < _INITIALIZER else tail
        if entry.is_repeated:
            getattr(part, entry.name).extend(value)
        else:
            setattr(part, entry.name, value)
    return Draft(rest, head, tail, [Stored(t.name, t) for t in given.graph.initializer])


_INITIALIZER = 5  # the number of that field of GraphProto


# -- graphs ------------------------------------------------------------------------------------
@dataclass
class _Writer:
    """Writes the graphs of one model, with names unique across all of them."""

    imports: Mapping[str, int]
    names: dict[Symbol, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    node_names: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)
    types: set[NumberType] = field(default_factory=set)

    def main(self, graph: Graph) -> tuple[GraphProto, GraphProto]:
        head, tail = GraphProto(name=graph.name), GraphProto()
        for symbol in graph.inputs:
            name = self.formal(graph, symbol, tail)
            init = symbol.node.attrs.get("init")
            if init is not None:
                self.stored[name] = Stored(name, init)
        self.graph(graph, head, tail, main=True)
        return head, tail

    def body(self, graph: Graph, captures: tuple[Symbol, ...]) -> GraphProto:
        """A body: its captures are called as outside, all else by names of its own."""
        made = GraphProto(name=graph.name)
        count = len(graph.inputs) - len(captures)
        for symbol in graph.inputs[:count]:
            self.formal(graph, symbol, made)
        for parameter, outer in zip(graph.inputs[count:], captures, strict=True):
            self.names[parameter] = self.names[outer]
        self.graph(graph, made, made, main=False)
        return made

    def formal(self, graph: Graph, symbol: Symbol, made: GraphProto) -> str:
        name = self.names[symbol] = self.claim(graph.names[symbol.node])
        self.describe(made.input.add(), name, symbol.type)
        return name

    def graph(self, graph: Graph, head: GraphProto, tail: GraphProto, main: bool) -> None:
        """The nodes into `head`; the outputs and the types of all values into `tail`."""
        results = self.name_outputs(graph, main)
        direct = {symbol for symbol, _, copied in results if not copied}
        for node in graph.nodes:
            for symbol in node.outputs:
                kept = node.op is Variable or (node.op in LEAVES and symbol in self.names)
                if symbol not in direct and not kept:
                    self.names[symbol] = self.claim(graph.value_name(symbol))
        written = 0
        done: set[Node] = set()
        for node in graph.nodes:
            if node.op in (Weight, Constant):
                name = self.names[node.outputs[0]]
                self.stored.setdefault(name, Stored(name, node.attrs["value"], _said(node)))
                self.types.add(node.outputs[0].dtype)
            elif node.op is not Variable:
                self.node(graph, node, head.node.add())
                for symbol in node.outputs:
                    if symbol not in direct and not _untold(symbol):
                        self.describe(tail.value_info.add(), self.names[symbol], symbol.type)
            done.add(node)
            # A copy stands where it would if it were a node of the graph.
            while written < len(results) and results[written][0].node in done:
                self.output(*results[written], head, tail)
                written += 1

    def output(
        self, symbol: Symbol, name: str, copied: bool, head: GraphProto, tail: GraphProto
    ) -> None:
        if copied:
            made = head.node.add(op_type="Identity", name=self.node_name(name))
            made.input.append(self.names[symbol])
            made.output.append(name)
        self.describe(tail.output.add(), name, symbol.type)

    def name_outputs(self, graph: Graph, main: bool) -> list[tuple[Symbol, str, bool]]:
        """For each output its symbol, its name, and whether it has to be a copy."""
        results: list[tuple[Symbol, str, bool]] = []
        copies = copied_outputs(graph, main)
        for symbol, wanted, copied in zip(graph.outputs, graph.output_names, copies, strict=True):
            name = wanted
            if copied or symbol.node.op is not Variable:
                name = self.claim(wanted)
            if not copied:
                self.names[symbol] = name
            results.append((symbol, name, copied))
        return results

    def node(self, graph: Graph, node: Node, made: NodeProto) -> None:
        made.op_type = node.op_type
        if node.op.domain:
            made.domain = node.op.domain
        made.name = self.node_name(name_in_file(node.where) or graph.names[node])
        made.input.extend("" if s is None else self.names[s] for s in node.inputs)
        use = node.op.use if issubclass(node.op, Custom) else None
        omitted = use.omitted if use else ()
        made.output.extend("" if s.index in omitted else self.names[s] for s in node.outputs)
        describe_origin(node.where, made)
        attrs = {name: node.attr(name) for name in _EXPLICIT.get(node.op_type, ())}
        attrs.update(node.attrs)
        specs = node.op.schema.attributes
        have: Collection[str] = specs
        if node.op.domain in VERSIONS:
            schema = opsets.schema_at(node.op.domain, node.op_type, self.imports[node.op.domain])
            have = specs if schema is None else opsets.defaults(schema)
        named = graph.bodies.get(node, {})
        for name in sorted(attrs):
            if name in have:
                value = named.get(name, attrs[name])
                body = partial(self.body, captures=node.captures)
                made.attribute.append(attribute_to_proto(name, specs[name].kind, value, body))
        if use and use.lists:
            _gather_lists(use.lists, made)

    # -- names and types -----------------------------------------------------------------------
    def claim(self, name: str) -> str:
        """The name, or the first free one made of it."""
        made, n = name, self.counts.get(name, 0)
        while made in self.used:
            n += 1
            made = f"{name}_{n}"
        self.counts[name] = n
        self.used.add(made)
        return made

    def node_name(self, name: str) -> str:
        made, n = name, 0
        while made in self.node_names:
            n += 1
            made = f"{name}_{n}"
        self.node_names.add(made)
        return made

    def describe(self, made: ValueInfoProto, name: str, type: Type) -> None:
        made.name = name
        made.type.CopyFrom(type_to_proto(type))
        self.types.update(_element_types(type))


def _gather_lists(names: Collection[str], made: NodeProto) -> None:
    """Bodies that are held as `b[0]`, `b[1]`, ... as the list `b` that they were."""
    kept: list[AttributeProto] = []
    bodies: dict[str, dict[int, GraphProto]] = {name: {} for name in names}
    for attribute in made.attribute:
        name, _, rest = attribute.name.rpartition("[")
        number = rest.removesuffix("]")
        if name in bodies and number.isdecimal() and attribute.type == AttributeProto.GRAPH:
            bodies[name][int(number)] = attribute.g
        else:
            kept.append(attribute)
    for name, found in bodies.items():
        graphs = [found[i] for i in sorted(found)]
        kept.append(AttributeProto(name=name, type=AttributeProto.GRAPHS, graphs=graphs))
    del made.attribute[:]
    made.attribute.extend(sorted(kept, key=lambda a: a.name))


def _untold(symbol: Symbol) -> bool:
    """Whether the type of a value is only assumed, or the value has no name in the file."""
    op = symbol.node.op
    return issubclass(op, Custom) and symbol.index in (*op.use.guessed, *op.use.omitted)


def _said(node: Node) -> str:
    """The description of an initializer; nothing where reading tells a parameter anyway."""
    if node.op is Weight:
        return "" if node.attr("trainable") else STATISTICS
    tensor: Tensor = node.attrs["value"]
    return CONSTANT if tensor.dtype.is_float and tensor.shape else ""


def _element_types(type: Type) -> Iterable[NumberType]:
    if isinstance(type, TensorType):
        return (type.dtype,)
    if isinstance(type, (SequenceType, OptionalType)):
        return _element_types(type.element)
    assert isinstance(type, MapType)
    return _element_types(type.value)

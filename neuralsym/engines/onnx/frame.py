"""Reading one graph of a file: the main one, a body, or the inside of a function.

Nodes are made in order, older ones raised to the operators' newest version. What a body uses of
the graphs around it becomes its captures; a function is read anew at each of its calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Variable, Weight
from neuralsym.core.naming import Kept
from neuralsym.core.op import KNOWN_LIMIT, find_op
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Node, OutputNames, Symbol, body_level, output_name
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import topological
from neuralsym.core.types import TensorType, Type
from neuralsym.engines.onnx.attributes import constant_of, read_attribute
from neuralsym.engines.onnx.declared import body_types, declared_type, refined, retyped
from neuralsym.engines.onnx.opsets import history, schema_at
from neuralsym.engines.onnx.order import arrange, bodies_of, describe
from neuralsym.engines.onnx.origin import Origin
from neuralsym.engines.onnx.raise_older import Old, raise_node
from neuralsym.engines.onnx.tensors import Bytes, read_sparse, read_tensor
from neuralsym.engines.onnx.write import CONSTANT, STATISTICS
from neuralsym.errors import FormatError, GraphError, did_you_mean

if TYPE_CHECKING:
    from neuralsym.engines.onnx.read import Reader

Stored = tuple[TensorProto | SparseTensorProto, Bytes | None]
_DEEPEST = 100


class Frame:
    """One graph under construction.

    `outer` is the frame around a body. `bound` are the attributes of the call whose function
    this is; `prefix` is put before its inner names.
    """

    def __init__(
        self,
        reader: Reader,
        imports: Mapping[str, int],
        nodes: Sequence[NodeProto],
        outer: Frame | None = None,
        bound: Mapping[str, AttributeProto] | None = None,
        prefix: str = "",
    ) -> None:
        self.reader = reader
        self.label = reader.label
        self.imports = imports
        self.nodes = nodes
        self.outer = outer
        self.bound: Mapping[str, AttributeProto] = bound or {}
        if outer is not None:
            self.bound = outer.bound
        self.prefix = prefix
        self.values: dict[str, Symbol] = {}
        self.stored: dict[str, Stored] = {}
        self.declared: dict[str, TypeProto] = {}
        self.parameters: dict[Symbol, Symbol] = {}
        self.names: dict[Node, str] = {}
        self.absent: set[str] = set()
        self.renamed: dict[str, str] = {}
        self.statistics: set[str] = set()
        for node in nodes:
            if node.op_type == "BatchNormalization":
                self.statistics.update(node.input[3:5])

    # -- what a graph has besides nodes --------------------------------------------------------
    def declare(self, graph: GraphProto, raw: Mapping[int, Bytes]) -> None:
        """Note the stored tensors and the declared types."""
        for i, tensor in enumerate(graph.initializer):
            self._store(tensor.name, (tensor, raw.get(i)))
        for sparse in graph.sparse_initializer:
            self._store(sparse.values.name, (sparse, None))
        for value in (*graph.value_info, *graph.output):
            self.declared[value.name] = value.type

    def _store(self, name: str, stored: Stored) -> None:
        if not name:
            raise GraphError(f"{self.label}: an initializer has no name")
        if name in self.stored:
            raise GraphError(f"{self.label}: two initializers are called {name!r}")
        self.stored[name] = stored

    def inputs(self, values: Sequence[ValueInfoProto], overridable: bool) -> list[Symbol]:
        """The variables of a graph's inputs; those that are stored may be fed from IR 4 on."""
        made: list[Symbol] = []
        seen: set[str] = set()
        for value in values:
            name = value.name
            if not name or name in seen:
                said = f"two inputs are called {name!r}" if name else "an input has no name"
                raise GraphError(f"{self.label}: {said}")
            seen.add(name)
            attrs: dict[str, Any] = {}
            if name in self.stored:
                if not overridable:
                    continue
                tensor = self._tensor(*self.stored.pop(name))
                attrs["init"] = tensor
                own = TensorType(tensor.dtype, tensor.shape)
                given = declared_type(value.type, own)
                type_ = own if given is None or refined(own, given)[1] else given
            else:
                found = declared_type(value.type, None)
                if found is None:
                    raise FormatError(f"{self.label}: the input {name!r} has no type")
                type_ = found
            made.append(self.variable(name, type_, attrs))
        return made

    def variable(self, name: str | None, type: Type, attrs: Mapping[str, Any]) -> Symbol:
        symbol = Node(Variable, (), {"type": type, **attrs}, (type,), name=name).outputs[0]
        if name:
            self.values[name] = symbol
        return symbol

    def _tensor(self, proto: TensorProto | SparseTensorProto, raw: Bytes | None) -> Tensor:
        if isinstance(proto, SparseTensorProto):
            return read_sparse(proto, self.reader.source)
        return read_tensor(proto, self.reader.source, raw)

    def _leaf(self, name: str) -> Symbol:
        """The weight or constant that a stored tensor is."""
        proto, raw = self.stored.pop(name)
        tensor = self._tensor(proto, raw)
        said = proto.doc_string if self.reader.own and isinstance(proto, TensorProto) else ""
        parameter = tensor.dtype.is_float and tensor.shape and said != CONSTANT
        attrs: dict[str, Any] = {"value": tensor}
        if parameter:
            attrs["trainable"] = int(name not in self.statistics and said != STATISTICS)
        op = Weight if parameter else Constant
        type_ = TensorType(tensor.dtype, tensor.shape)
        return Node(op, (), attrs, (type_,), name=self.full(name)).outputs[0]

    def full(self, name: str) -> str:
        """What a name of this graph is called in the whole."""
        return self.renamed.get(name) or self.prefix + name

    # -- values --------------------------------------------------------------------------------
    def find(self, name: str) -> Symbol | None:
        """The value called `name`; one of the graph around comes as a parameter."""
        found = self.values.get(name)
        if found is not None:
            return found
        if name in self.stored:
            found = self._leaf(name)
        elif self.outer is not None:
            found = self.outer.find(name)
            if found is None:
                return None
            # A constant is no less known inside a body.
            if found.node.op is not Constant or found.node.attrs["value"].size > KNOWN_LIMIT:
                found = self.parameter(found)
        if found is not None:
            self.values[name] = found
        return found

    def parameter(self, outer: Symbol) -> Symbol:
        """The parameter of this body that stands for a value of the graph around it."""
        if outer not in self.parameters:
            self.parameters[outer] = self.variable(None, outer.type, {})
        return self.parameters[outer]

    def captured(self, outputs: Sequence[Symbol]) -> list[Symbol]:
        """What a body takes from around, in an order that its graph tells, not its file."""
        outer = {symbol.node: around for around, symbol in self.parameters.items()}
        return [outer[n] for n in topological(s.node for s in outputs) if n in outer]

    def value(self, name: str, user: str) -> Symbol:
        found = self.find(name)
        if found is None:
            hint = did_you_mean(name, [*self.values, *self.stored])
            raise GraphError(f"{self.label}: {user} uses {name!r}, which nothing gives{hint}")
        return found

    def run(self, outputs: Sequence[str]) -> list[Symbol]:
        """Make the nodes behind `outputs`; gives these."""
        given = {*self.values, *self.stored}
        for i in arrange(self.nodes, outputs, given, self.label):
            node = self.nodes[i]
            symbols = self.node(node, i)
            for name, symbol in zip(node.output, symbols, strict=False):
                if name and symbol is not None:
                    self.values[name] = symbol
        return [self.value(name, "the graph's output") for name in outputs]

    def close(
        self, proto: GraphProto, inputs: Sequence[Symbol], outputs: Sequence[Symbol]
    ) -> Graph:
        """The graph, with the names of the file."""
        names = [value.name for value in proto.output]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise GraphError(f"{self.label}: two outputs are called {min(twice)!r}")
        name = proto.name if proto.name.isprintable() else ""
        keep = Kept(self.names)
        return Graph(outputs, inputs, name or None, keep=keep, output_names=names)

    # -- nodes ---------------------------------------------------------------------------------
    def node(self, proto: NodeProto, number: int) -> Sequence[Symbol | None]:
        """The outputs of one node of the file."""
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        user = describe(proto, number)
        inputs = [
            self.value(name, user) if name and name not in self.absent else None
            for name in proto.input
        ]
        while inputs and inputs[-1] is None:
            inputs.pop()
        where = Origin.of(self.label, number + 1, proto.op_type, proto.name)
        function = self.reader.functions.get((proto.domain, proto.op_type, proto.overload))
        if function is not None:
            return self.call(function, proto, inputs, where)
        if (domain, proto.op_type) not in history():
            names = [n for d, n in history() if d == domain]
            there = f" of domain {domain!r}" if domain else ""
            raise FormatError(
                f"{self.label}: {user} is an operator{there} that ONNX does not have and the "
                f"file does not define{did_you_mean(proto.op_type, names)}"
            )
        opset = self.imports.get(domain)
        schema = None if opset is None else schema_at(domain, proto.op_type, opset)
        if schema is None:
            said = "the file names no version of it" if opset is None else f"not version {opset}"
            first = history()[domain, proto.op_type][0].since_version
            raise FormatError(
                f"{self.label}: {user} is an operator of {domain or 'ai.onnx'} from version "
                f"{first} on, but {said}"
            )
        attrs, captures = self.attributes(proto, inputs)
        outputs = list(proto.output)
        while len(outputs) > 1 and not outputs[-1]:
            outputs.pop()
        old = Old(
            proto.op_type, domain, schema, tuple(inputs), attrs, captures, len(outputs), where
        )
        symbols = raise_node(old)
        if symbols is not None:
            return self.named(symbols, outputs, old)
        if (domain, proto.op_type) == ("", "Constant"):
            return [self.constant(old, outputs[0])]
        op = find_op(proto.op_type, domain)
        count = max(old.count, 1)
        made = apply(op, inputs, attrs, outputs=count, captures=captures, where=where)
        return self.settled(made[0].node, outputs)

    def settled(self, node: Node, outputs: Sequence[str]) -> tuple[Symbol, ...]:
        """The outputs of a node that nothing uses yet, with the file's names and types."""
        name = self.full(outputs[0]) if outputs[0] else None
        if name and len(outputs) > 1:
            rest = tuple(self.full(o) if o else "" for o in outputs[1:])
            name = OutputNames.of(name, rest)
        made = retyped(node, self.types(node.outputs, outputs), name)
        if name:
            self.names[made] = name
        return made.outputs

    def named(self, symbols: Sequence[Symbol], outputs: Sequence[str], old: Old) -> list[Symbol]:
        """The symbols of a raised node under their names; copies of those that are used inside."""
        node = symbols[0].node
        free = node in old.made and not old.used.intersection(node.outputs)
        if free and tuple(symbols) == node.outputs and len(symbols) == len(outputs):
            return list(self.settled(node, outputs))
        made: list[Symbol] = []
        for symbol, name in zip(symbols, outputs, strict=False):
            node = symbol.node
            if node not in old.made or len(node.outputs) > 1 or symbol in old.used:
                node = apply(find_op("Identity"), [symbol], where=old.where)[0].node
            made.append(self.settled(node, [name])[0])
        return made

    def constant(self, old: Old, name: str) -> Symbol:
        tensor = constant_of(old.attrs, f"{self.label}: the constant {name!r}")
        type_ = TensorType(tensor.dtype, tensor.shape)
        made = Node(
            Constant, (), {"value": tensor}, (type_,), name=self.full(name), where=old.where
        )
        self.names[made] = self.full(name)
        return made.outputs[0]

    def declaration(self, name: str, own: Type) -> Type | None:
        """The type that the file declares for a value, if any."""
        proto = self.declared.get(name)
        if proto is None:
            return None
        known, key = self.reader.types, (proto.SerializeToString(deterministic=True), own)
        if key not in known:
            known[key] = declared_type(proto, own)
        return known[key]

    def types(self, symbols: Sequence[Symbol], outputs: Sequence[str]) -> tuple[Type, ...]:
        """The types of the symbols, with what the file declares of them and we cannot tell."""
        types: list[Type] = []
        for symbol, name in zip(symbols, outputs, strict=False):
            type_, given = symbol.type, self.declaration(name, symbol.type)
            if given is not None:
                type_, contradicts = refined(symbol.type, given)
                if contradicts:
                    self.reader.contradictions.append(f"{name!r} is {symbol.type}, not {given}")
            types.append(type_)
        return (*types, *(s.type for s in symbols[len(types) :]))

    # -- attributes, bodies and functions ------------------------------------------------------
    def attributes(
        self, proto: NodeProto, inputs: Sequence[Symbol | None]
    ) -> tuple[dict[str, Any], tuple[Symbol, ...]]:
        """The values of a node's attributes, and what their bodies capture."""
        plain: dict[str, Any] = {}
        graphs: dict[str, list[GraphProto]] = {}
        for given in proto.attribute:
            attribute = self.bound.get(given.ref_attr_name) if given.ref_attr_name else given
            if attribute is None:
                continue
            if given.name in plain or given.name in graphs:
                raise GraphError(
                    f"{self.label}: {proto.op_type} {proto.name!r} has {given.name} twice"
                )
            bodies = bodies_of(attribute)
            if bodies:
                graphs[given.name] = bodies
            else:
                plain[given.name] = read_attribute(given.name, attribute, self.reader.source)
        if not graphs:
            return plain, ()
        frames: list[tuple[str, GraphProto, Frame, list[Symbol], list[Symbol]]] = []
        for name, found in sorted(graphs.items()):
            for graph in found:
                types = body_types(proto.op_type, inputs, plain)
                frames.append((name, graph, *self.body(graph, types)))
        captures = tuple(dict.fromkeys(s for row in frames for s in row[2].captured(row[4])))
        for name, graph, frame, formals, outputs in frames:
            given_inputs = [*formals, *(frame.parameter(s) for s in captures)]
            plain[name] = frame.close(graph, given_inputs, outputs)
        return plain, captures

    def body(
        self, graph: GraphProto, types: Sequence[Type | None]
    ) -> tuple[Frame, list[Symbol], list[Symbol]]:
        """A body as far as its captures are known: its frame, formal inputs and outputs."""
        self.reader.enter()
        with body_level():
            frame = Frame(self.reader, self.imports, graph.node, self, prefix=self.prefix)
            frame.declare(graph, {})
            formals: list[Symbol] = []
            for i, value in enumerate(graph.input):
                own = types[i] if i < len(types) else None
                type_ = declared_type(value.type, own) or own
                if type_ is None:
                    raise FormatError(f"{self.label}: the body's input {value.name!r} has no type")
                if not value.name or value.name in frame.values:
                    raise GraphError(f"{self.label}: two inputs are called {value.name!r}")
                frame.stored.pop(value.name, None)
                formals.append(frame.variable(value.name, type_, {}))
            outputs = frame.run([value.name for value in graph.output])
        self.reader.depth -= 1
        return frame, formals, outputs

    def call(
        self,
        function: FunctionProto,
        proto: NodeProto,
        inputs: Sequence[Symbol | None],
        where: Origin,
    ) -> list[Symbol | None]:
        """The outputs of a call of one of the file's own functions."""
        self.reader.enter()
        bound = {a.name: a for a in function.attribute_proto}
        for given in proto.attribute:
            attribute = self.bound.get(given.ref_attr_name) if given.ref_attr_name else given
            if attribute is not None:
                bound[given.name] = attribute
        if len(inputs) > len(function.input) or len(proto.output) > len(function.output):
            raise GraphError(
                f"{where} has {len(inputs)} inputs and {len(proto.output)} outputs, "
                f"its function {len(function.input)} and {len(function.output)}"
            )
        imports = self.reader.versions(function.opset_import)
        first = next((name for name in proto.output if name), proto.name)
        prefix = self.reader.unique(self.prefix + (proto.name or first))
        frame = Frame(self.reader, imports, function.node, None, bound, prefix)
        for value in function.value_info:
            frame.declared[value.name] = value.type
        for formal, symbol in zip(function.input, inputs, strict=False):
            if symbol is not None:
                frame.values[formal] = symbol
        frame.absent = {*function.input} - {*frame.values}
        for formal, name in zip(function.output, proto.output, strict=False):
            if name:
                frame.renamed[formal] = self.full(name)
        wanted = [f for f, name in zip(function.output, proto.output, strict=False) if name]
        found = dict(zip(wanted, frame.run(wanted), strict=True))
        self.names.update(frame.names)
        self.reader.depth -= 1
        return [
            self.result(found[f], name, where) if name else None
            for f, name in zip(function.output, proto.output, strict=False)
        ]

    def result(self, symbol: Symbol, name: str, where: Origin) -> Symbol:
        """A function's result under the name that it has at the call."""
        node = symbol.node
        if output_name(node.name or "", symbol.index) == self.full(name):
            return symbol
        made = apply(find_op("Identity"), [symbol], where=where)[0].node
        made = retyped(made, (symbol.type,), self.full(name))
        self.names[made] = self.full(name)
        return made.outputs[0]

"""Reading one graph of a file: the main one, a body, or the inside of a function.

Nodes are made in order, older ones raised to the operators' newest version. What a body uses of
the graphs around it becomes its captures (bodies.py). Calls of functions are in calls.py, operators
that only the file knows in custom.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx import (
    AttributeProto,
    GraphProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

from neuralsym.core.body import standing_for
from neuralsym.core.files import Bytes
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Variable, Weight
from neuralsym.core.locks import cached_property
from neuralsym.core.naming import Kept
from neuralsym.core.op import KNOWN_LIMIT, find_op
from neuralsym.core.registry import apply
from neuralsym.core.symbol import LEVEL, Node, OutputNames, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import topological
from neuralsym.core.types import TensorType, Type
from neuralsym.engines.onnx.attributes import constant_of, read_attribute
from neuralsym.engines.onnx.bodies import Inner, read_bodies
from neuralsym.engines.onnx.calls import call
from neuralsym.engines.onnx.custom import beyond_onnx
from neuralsym.engines.onnx.declared import body_types, declared_type, refined, retyped
from neuralsym.engines.onnx.gradient import gradient_node
from neuralsym.engines.onnx.opsets import history, schema_at
from neuralsym.engines.onnx.order import GRADIENT, arrange, bodies_of, describe
from neuralsym.engines.onnx.origin import Origin
from neuralsym.engines.onnx.raise_older import Old, raise_node
from neuralsym.engines.onnx.tensors import Source, read_sparse, read_tensor
from neuralsym.engines.onnx.write import CONSTANT, STATISTICS
from neuralsym.errors import FormatError, GraphError, did_you_mean

if TYPE_CHECKING:
    from neuralsym.engines.onnx.read import Reader

Stored = tuple[TensorProto | SparseTensorProto, Bytes | None]


class Bound(NamedTuple):
    """An attribute, and the frame in which the names of its bodies mean something."""

    attribute: AttributeProto
    home: Frame


class Frame:
    """One graph under construction.

    `outer` is the frame around a body, `caller` the one that a function is called in. `bound` are
    the attributes of that call; `prefix` is put before inner names.
    """

    def __init__(
        self,
        reader: Reader,
        imports: Mapping[str, int],
        nodes: Sequence[NodeProto],
        outer: Frame | None = None,
        bound: Mapping[str, Bound] | None = None,
        prefix: str = "",
    ) -> None:
        self.reader = reader
        self.label = reader.label
        self.imports = imports
        self.nodes = nodes
        self.outer = outer
        self.caller: Frame | None = None
        self.bound: Mapping[str, Bound] = bound or {}
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

    @cached_property
    def readers(self) -> dict[str, list[tuple[NodeProto, int]]]:
        """The nodes of this graph that read each value, and where."""
        found: dict[str, list[tuple[NodeProto, int]]] = {}
        for node in self.nodes:
            for place, name in enumerate(node.input):
                found.setdefault(name, []).append((node, place))
        return found

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
                tensor = self.tensor(*self.stored.pop(name))
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

    def tensor(self, proto: TensorProto | SparseTensorProto, raw: Bytes | None) -> Tensor:
        if isinstance(proto, SparseTensorProto):
            return read_sparse(proto, self.reader.source)
        return read_tensor(proto, self.reader.source, raw)

    def _leaf(self, name: str) -> Symbol:
        """The weight or constant that a stored tensor is."""
        proto, raw = self.stored.pop(name)
        tensor = self.tensor(proto, raw)
        said = proto.doc_string if self.reader.own and isinstance(proto, TensorProto) else ""
        parameter = tensor.dtype.is_float and tensor.shape and said != CONSTANT
        attrs: dict[str, Any] = {"value": tensor}
        if parameter:
            attrs["trainable"] = int(name not in self.statistics and said != STATISTICS)
        op = Weight if parameter else Constant
        type_ = TensorType(tensor.dtype, tensor.shape)
        if not parameter or (self.outer is None and self.caller is None):
            return Node(op, (), attrs, (type_,), name=self.full(name)).outputs[0]
        # The whole graph holds all weights, those of bodies too.
        token = LEVEL.set(None)
        made = Node(op, (), attrs, (type_,), name=self.reader.weight_name(self.full(name)))
        LEVEL.reset(token)
        return self.lifted(made.outputs[0], None)

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
            self.parameters[outer] = standing_for(outer)
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
        where = Origin.of(self.label, number + 1, proto)
        function = self.reader.functions.get((domain, proto.op_type, proto.overload))
        if function is not None:
            return call(self, function, proto, inputs, where)
        if (domain, proto.op_type) not in history():
            return beyond_onnx(self, domain, proto, inputs, where)
        if (domain, proto.op_type) == GRADIENT:
            return gradient_node(self, proto, inputs, where)
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
        outputs = outputs_of(proto)
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
        names = [self.full(o) if o else "" for o in outputs]
        name: str | None = names[0] if names else ""
        if not name and any(names):
            name = f"{next(filter(None, names))}:omitted"
        if name and len(names) > 1:
            name = OutputNames.of(name, tuple(names[1:]))
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
        self,
        proto: NodeProto,
        inputs: Sequence[Symbol | None],
        read: Callable[[str, AttributeProto, Source], Any] = read_attribute,
    ) -> tuple[dict[str, Any], tuple[Symbol, ...]]:
        """The values of a node's attributes, and what their bodies capture.

        A list of bodies `b` comes as `b[0]`, `b[1]`, ...; the others go through `read`.
        """
        plain: dict[str, Any] = {}
        graphs: list[Inner] = []
        seen: set[str] = set()
        # By name, so that a list `b` comes before an attribute that is called `b[0]`.
        for name, attribute, home in sorted(self.given(proto), key=lambda given: given[0]):
            if name in seen:
                raise GraphError(f"{self.label}: {proto.op_type} {proto.name!r} has {name} twice")
            seen.add(name)
            bodies = bodies_of(attribute)
            if bodies and attribute.type == AttributeProto.GRAPHS:
                graphs += [Inner(f"{name}[{i}]", body, home) for i, body in enumerate(bodies)]
                seen.update(inner.name for inner in graphs)
            elif bodies:
                graphs.append(Inner(name, bodies[0], home))
            else:
                plain[name] = read(name, attribute, self.reader.source)
        if not graphs:
            return plain, ()
        known = proto.domain in ("", "ai.onnx")
        types = body_types(proto.op_type, inputs, plain) if known else []
        made, captures = read_bodies(self, graphs, types)
        return plain | made, captures

    def given(self, proto: NodeProto) -> Iterator[tuple[str, AttributeProto, Frame]]:
        """A node's attributes, those of the function's call in the place of references to them."""
        for attribute in proto.attribute:
            if not attribute.ref_attr_name:
                yield attribute.name, attribute, self
            elif attribute.ref_attr_name in self.bound:
                bound = self.bound[attribute.ref_attr_name]
                yield attribute.name, bound.attribute, bound.home

    def lifted(self, symbol: Symbol, home: Frame | None) -> Symbol:
        """What stands here for a symbol of a frame that this one lies in, None: the main one."""
        if self is home:
            return symbol
        if self.outer is not None:
            return self.parameter(self.outer.lifted(symbol, home))
        return symbol if self.caller is None else self.caller.lifted(symbol, home)

    def beneath(self, graph: GraphProto) -> Frame:
        """The frame of a body of this graph."""
        made = Frame(self.reader, self.imports, graph.node, self, prefix=self.prefix)
        made.declare(graph, {})
        return made

    def inside(
        self,
        nodes: Sequence[NodeProto],
        imports: Mapping[str, int],
        bound: Mapping[str, Bound],
        prefix: str,
    ) -> Frame:
        """The frame of a function that a node of this graph calls."""
        made = Frame(self.reader, imports, nodes, None, bound, prefix)
        made.caller = self
        return made

    def copied(self, symbol: Symbol, name: str, where: Origin) -> Symbol:
        """A copy of a symbol under a name of this graph."""
        made = apply(find_op("Identity"), [symbol], where=where)[0].node
        made = retyped(made, (symbol.type,), self.full(name))
        self.names[made] = self.full(name)
        return made.outputs[0]


def outputs_of(proto: NodeProto) -> list[str]:
    """The names of a node's outputs, without those left out at the end."""
    outputs = list(proto.output)
    while len(outputs) > 1 and not outputs[-1]:
        outputs.pop()
    return outputs

"""FlowBuilder: the part of a TensorFlow graph that computes some tensors, as a function of a flow.

The graph is walked backwards from the outputs to the inputs. Operations keep TensorFlow's names,
types and attributes; constants and variables become variables of the flow that have data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralsym.engines.flow import Flow, Function, Operation, Variable
from neuralsym.engines.flow.spelling import DIMS
from neuralsym.engines.tensorflow.attributes import sizes, texts, type_name
from neuralsym.engines.tensorflow.extra import load, tensorflow
from neuralsym.engines.tensorflow.sources import Source, open_source
from neuralsym.errors import FormatError, counted, did_you_mean

STORED = ("Variable", "VariableV2", "VarHandleOp")
CONSTANT = ("Const", "ConstV2")
PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
PASSED = ("Identity", "ReadVariableOp")
"""What gives a constant or a variable as it is: another name for it."""
FUNCTIONS = {
    "While": ("cond", "body"),
    "StatelessWhile": ("cond", "body"),
    "If": ("then_branch", "else_branch"),
    "StatelessIf": ("then_branch", "else_branch"),
    "PartitionedCall": ("f",),
    "StatefulPartitionedCall": ("f",),
}
"""The attributes of operations that name functions of the graph."""


class FlowBuilder:
    """Writes functions of a flow from a TensorFlow graph, as Myelin's class of this name does.

        builder = FlowBuilder(session, flow)
        builder.add(flow.func("classifier"), [x], [y])

    sess: a tf.compat.v1.Session, which has the values of variables; or what holds them itself: a
    frozen GraphDef, a tf.Graph without variables, a concrete function, a Keras model, or the folder
    of a SavedModel (`open_source` says which). `feed` is what `compute_shapes` runs the graph on.
    """

    def __init__(self, sess: Any, flow: Flow) -> None:
        self.flow = flow
        self.batch = "N"
        """The name of the first size of inputs that have further free sizes."""
        self.feed: Mapping[Any, Any] | None = None
        self.source = open_source(sess)
        self.sess = self.source.session

    def add(
        self,
        func: Function,
        inputs: Sequence[Any] | None = None,
        outputs: Sequence[Any] | None = None,
    ) -> Function:
        """Write what computes the outputs from the inputs as operations of a function.

        inputs, outputs: tensors of the graph, or their names ("x", "x:0"); those of the function or
        model unless given. Placeholders that are met on the way and not listed become inputs as
        well. Raises FormatError for a name that is none, and for values that the session lacks.
        """
        self.write(func, inputs, outputs)
        return func

    def write(
        self, func: Function, inputs: Sequence[Any] | None, outputs: Sequence[Any] | None
    ) -> tuple[list[Variable], list[Variable]]:
        """What `add` does; gives the variables of the inputs and of the outputs."""
        begins = list(self.source.inputs.values() if inputs is None else inputs)
        ends = list(self.source.outputs.values() if outputs is None else outputs)
        if not ends:
            raise FormatError(f"function {func.name!r} has no outputs, so there is nothing to do")
        walk = _Walk(self, func, "")
        given = [walk.placeholder(self._tensor(t)) for t in begins]
        made = walk.run([self._tensor(t) for t in ends])
        results = {var: walk.result(var) for var in dict.fromkeys(made)}
        # Files before version 5 have no marks: results are what nothing reads. Where that would be
        # others, all are marked.
        if set(self.flow.outputs(func)) != set(results.values()):
            for var in results.values():
                var.output = True
        return given, [results[var] for var in made]

    def compute_shapes(self) -> None:
        """Run the session on `feed` and write the shapes that its tensors have then."""
        if self.sess is None or self.feed is None:
            raise FormatError("compute_shapes needs a session, and builder.feed to run it on")
        graph = self.source.graph
        wanted = {}
        for name, var in self.flow.vars.items():
            if var.data is None and var.dtype is not None and not all(d > 0 for d in var.shape):
                try:
                    wanted[name] = graph.get_tensor_by_name(name)
                except (KeyError, ValueError):
                    continue
        for name, value in self.sess.run(wanted, self.feed).items():
            self.flow.vars[name].shape = list(np.shape(value))

    # -- of the source -----------------------------------------------------------------------
    def value_of(self, tensor: Any, name: str) -> np.ndarray[Any, Any]:
        """The value that a variable has in the session."""
        if self.sess is None:
            raise FormatError(
                f"variable {name!r} has its value in a session: give FlowBuilder the "
                "session, or a graph whose variables are constants"
            )
        try:
            return np.asarray(self.sess.run(tensor))
        except tensorflow().errors.FailedPreconditionError:
            raise FormatError(
                f"variable {name!r} has no value in the session: run the initializer, or "
                "restore a checkpoint"
            ) from None

    def _tensor(self, given: Any) -> Any:
        if not isinstance(given, str):
            return given if hasattr(given, "op") else tensorflow().convert_to_tensor(given)
        graph = self.source.graph
        try:
            return graph.get_tensor_by_name(given if ":" in given else f"{given}:0")
        except (KeyError, ValueError):
            hint = did_you_mean(given, [op.name for op in graph.get_operations()])
            raise FormatError(f"the graph has no tensor {given!r}{hint}") from None


class _Walk:
    """One graph, of a session or of a function in it, on its way to a function of the flow."""

    def __init__(self, builder: FlowBuilder, func: Function, prefix: str) -> None:
        self.builder = builder
        self.flow = builder.flow
        self.source: Source = builder.source
        self.func = func
        self.prefix = prefix
        """Before the names of a called function, which has a graph of its own."""
        self.vars: dict[str, Variable] = {}
        flow = self.flow
        self.words = {*flow.vars, *(a for v in flow.vars.values() for a in v.aliases)}

    def run(self, ends: Sequence[Any]) -> list[Variable]:
        """Write what the tensors need, the first needed first, and give their variables."""
        used: dict[Any, int] = {}
        order: list[Any] = []
        waiting = [(t.op, False) for t in reversed(ends) if t.name not in self.vars]
        for tensor in ends:
            used[tensor.op] = max(used.get(tensor.op, 0), tensor.value_index)
        done: set[Any] = set()
        while waiting:
            op, ready = waiting.pop()
            if ready:
                order.append(op)
            elif op not in done:
                done.add(op)
                waiting.append((op, True))
                for tensor in reversed(op.inputs):
                    used[tensor.op] = max(used.get(tensor.op, 0), tensor.value_index)
                    if tensor.name not in self.vars:
                        waiting.append((tensor.op, False))
        for op in order:
            self.operation(op, used[op] + 1)
        return [self.vars[t.name] for t in ends]

    def placeholder(self, tensor: Any) -> Variable:
        """A variable without data: an input."""
        var = self.variable(tensor)
        shape = tensor.shape.as_list() if tensor.shape.rank is not None else []
        if None in shape[1:]:
            # A flow has one word for a free size, the batch: the others are named beside it.
            base = re.sub(r"\W", "_", tensor.op.name)
            words = [str(d) if d is not None else f"{base}_{i}" for i, d in enumerate(shape)]
            if shape[0] is None:
                words[0] = self.builder.batch
            var.attrs[DIMS] = ",".join(words)
        return var

    def variable(self, tensor: Any) -> Variable:
        """The variable of a tensor: `x:0`, which is called `x` as well."""
        name = self.source.names.get(tensor.name, tensor.name) if not self.prefix else tensor.name
        name = self.prefix + name
        var = self.flow.vars.get(name) or self.flow.vars.setdefault(name, Variable(name))
        self.words.add(name)
        if var.data is None:
            var.type, var.shape = type_name(tensor.dtype), sizes(tensor.shape)
        if name.endswith(":0") and not self.prefix:
            self.alias(var, name[:-2])
        self.vars[tensor.name] = var
        return var

    def alias(self, var: Variable, name: str) -> None:
        if name not in self.words:
            self.words.add(name)
            var.aliases.append(name)

    def operation(self, op: Any, outputs: int) -> None:
        if op.type in CONSTANT:
            self.data(op, tensorflow().make_ndarray(op.get_attr("value")))
        elif op.type in STORED:
            if op.type != "VarHandleOp":
                self.data(op, self.builder.value_of(op.outputs[0], op.name))
        elif op.type in PLACEHOLDERS:
            self.placeholder(op.outputs[0])
        elif not self.passed(op):
            self.step(op, outputs)

    def data(self, op: Any, array: np.ndarray[Any, Any]) -> Variable:
        tensor = op.outputs[0]
        var = self.variable(tensor)
        if var.data is None:
            var.type = type_name(tensorflow().as_dtype(array.dtype))
            var.shape, var.data = list(array.shape), _stored(array)
            var.learnable = self.source.trainable.get(tensor.name, False)
        return var

    def passed(self, op: Any) -> bool:
        """Take what only gives a constant or a variable as another name for it."""
        if op.type not in PASSED or not op.inputs:
            return False
        given = op.inputs[0]
        if given.op.type == "VarHandleOp" and given.name not in self.vars:
            self.data(given.op, self.builder.value_of(op.outputs[0], given.op.name))
        var = self.vars[given.name]
        if var.data is None:
            return False
        if not self.prefix:
            self.alias(var, op.outputs[0].name)
        self.vars[op.outputs[0].name] = var
        return True

    def step(self, op: Any, outputs: int) -> Operation:
        name = self.prefix + op.name
        known = self.flow.ops.get(name)
        if known is not None:
            if known.func is not self.func:
                other = known.func.name if known.func else "none"
                raise FormatError(
                    f"operation {name!r} belongs to function {other!r} already, and a flow has it "
                    f"once: write {self.func.name!r} to a flow of its own, or list what it "
                    "computes as an input"
                )
            for tensor in op.outputs[:outputs]:
                self.variable(tensor)
            return known
        made = self.flow.op(name, op.type)
        self.func.add(made)
        for tensor in op.inputs:
            made.add_input(self.vars[tensor.name])
        made.attrs = texts(op.node_def)
        for role in FUNCTIONS.get(op.type, ()):
            self.called(op, made, role)
        for tensor in op.outputs[:outputs]:
            made.add_output(self.variable(tensor))
        return made

    def called(self, op: Any, step: Operation, role: str) -> None:
        """Write a function of the graph that an operation calls, its parameters in attributes."""
        graph = _graph_of(op, role)
        name = f"{self.prefix}{op.name}/{role}"
        func = self.flow.func(name)
        inner = _Walk(self.builder, func, f"{name}/")
        parameters = [inner.variable(t) for t in graph.inputs]
        results = inner.run(graph.outputs)
        step.attrs[role] = name
        step.attrs[f"{role}_inputs"] = ",".join(v.name for v in parameters)
        step.attrs[f"{role}_outputs"] = ",".join(v.name for v in results)

    def result(self, var: Variable) -> Variable:
        """Let a variable be a result of the function; an input or a constant is copied."""
        if var.producer is not None and var.producer.func is self.func:
            return var
        return copied(self.flow, self.func, var, f"{var.name.removesuffix(':0')}/output")


def copied(flow: Flow, func: Function, var: Variable, name: str) -> Variable:
    """A copy of a variable, made by an operation of a function."""
    op = flow.op(name, "Identity")
    func.add(op)
    op.add_input(var)
    made = flow.var(f"{name}:0", var.type, var.shape)
    op.add_output(made)
    return made


def _stored(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype == object:
        raise FormatError(
            f"a constant holds {counted(array.size, 'text')}, which a .flow file cannot have"
        )
    return np.ascontiguousarray(array)


def _graph_of(op: Any, role: str) -> Any:
    """The graph of the function that an attribute of an operation names."""
    name = op.get_attr(role).name
    found = [f for f in op.graph.as_graph_def().library.function if f.signature.name == name]
    if not found:
        raise FormatError(f"operation {op.name!r} ({op.type}) calls {name!r}, which is not there")
    given = op.inputs[1:] if role in ("then_branch", "else_branch") else op.inputs
    reader = load("tensorflow.python.framework.function_def_to_graph")
    with op.graph.as_default():
        return reader.function_def_to_graph(
            found[0], input_shapes=[t.shape for t in given], include_library_functions=True
        )

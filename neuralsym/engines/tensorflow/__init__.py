"""TensorFlow's graphs: to a flow as Myelin's FlowBuilder writes it, and on to a graph.

Sessions, frozen GraphDefs, functions, SavedModels and Keras models are read, none is written.
TensorFlow is needed to open them (`pip install 'neuralsym[tensorflow]'`); a flow that was made from
one is read without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, NoReturn

from neuralsym.core.graph import Graph
from neuralsym.core.naming import Kept
from neuralsym.engines.flow import Flow, read_model
from neuralsym.engines.tensorflow.builder import FlowBuilder, copied
from neuralsym.engines.tensorflow.names import rename
from neuralsym.engines.tensorflow.operations import TENSORFLOW
from neuralsym.engines.tensorflow.sources import Source, is_folder, open_source
from neuralsym.errors import FormatError

__all__ = [
    "TENSORFLOW",
    "FlowBuilder",
    "Source",
    "is_folder",
    "load",
    "of_symbolic",
    "open_source",
    "save",
    "to_symbolic",
]


def to_symbolic(
    model: Any,
    batch: int | str = "N",
    *,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    name: str | None = None,
) -> Graph:
    """The graph of a TensorFlow model, with its variables as weights of their own names.

    model: what `open_source` takes: a Keras model, a concrete function, a frozen GraphDef, the
    folder of a SavedModel, a session ...; batch: the first size where TensorFlow has None; inputs,
    outputs: tensors or their names where a graph does not say which they are, tf.TensorSpecs for a
    function or model that does not say what it takes. Raises FormatError, naming the operation, its
    type and what was tried, for one that is not known.
    """
    specs = inputs is not None and all(hasattr(i, "is_compatible_with") for i in inputs)
    specs = specs and not any(hasattr(i, "op") for i in inputs or ())
    source = open_source(model, inputs if specs else None)
    flow = Flow()
    builder = FlowBuilder(source, flow)
    builder.batch = str(batch)
    func = flow.func(name or source.name)
    begins, ends = builder.write(func, None if specs else inputs, outputs)
    names = list(source.outputs) if outputs is None else [v.name.removesuffix(":0") for v in ends]
    given = list(source.inputs) if specs or inputs is None else []
    given = given or [v.name.removesuffix(":0") for v in begins]
    for var in begins:
        if not var.consumers:  # an input stays one, though nothing uses it
            copied(flow, func, var, f"{var.name}/unused")
    rename(flow, [*zip(ends, names, strict=True), *zip(begins, given, strict=True)])
    made = read_model(flow, batch, TENSORFLOW).graphs[func.name]
    wanted = {n: made[v.name] for v, n in zip(ends, names, strict=True)}
    variables = [made[v.name] for v in begins]
    return Graph(wanted, variables, func.name, made.updates, keep=Kept(made.names))


def of_symbolic(graph: Graph) -> NoReturn:
    raise FormatError("neuralsym writes no TensorFlow graphs: save the network as .onnx or .flow")


def save(model: object, path: str | PathLike[str]) -> NoReturn:
    raise FormatError("neuralsym writes no TensorFlow graphs: save the network as .onnx or .flow")


def load(path: str | PathLike[str]) -> Source:
    """Open the folder of a SavedModel, or a frozen GraphDef in a .pb file."""
    return open_source(path)

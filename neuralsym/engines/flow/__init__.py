"""Myelin's .flow files: symbols to a Flow or a file, and back."""

from __future__ import annotations

from os import PathLike

from neuralsym.core.graph import Graph
from neuralsym.core.model import Model
from neuralsym.engines.flow.flow import Flow
from neuralsym.engines.flow.of_symbolic import write_flow
from neuralsym.engines.flow.parts import (
    BATCH,
    Blob,
    Connector,
    Function,
    FunctionFlag,
    Operation,
    OperationFlag,
    Variable,
    VariableFlag,
)
from neuralsym.engines.flow.to_symbolic import read_model

__all__ = [
    "BATCH",
    "Blob",
    "Connector",
    "Flow",
    "Function",
    "FunctionFlag",
    "Operation",
    "OperationFlag",
    "Variable",
    "VariableFlag",
    "load",
    "of_symbolic",
    "read_model",
    "save",
    "to_symbolic",
]


def of_symbolic(graph: Graph | Model) -> Flow:
    """The flow of a graph, or of a model: a function for each graph, which share weights by name.

    Operators that Myelin has are written in its words, others as `ai.onnx.Conv`. What a flow said
    when the model was read from one (blobs, connectors, aliases, attributes) is in it again. Raises
    FormatError for what a flow cannot hold: bodies of If and Loop, sequences, texts.
    """
    return write_flow(graph)


def to_symbolic(model: Flow, batch: int | str = "N") -> Graph | Model:
    """The graph of a flow, or a Model where it has several functions.

    batch: what sizes of -1 stand for: a number, or the name of a size that stays free. Raises
    FormatError, naming the operation, for one that is unknown or does not fit.
    """
    made = read_model(model, batch)
    return made.graph if len(made.graphs) == 1 else made


def save(
    model: Flow | Graph | Model, path: str | PathLike[str], version: int | None = None
) -> None:
    """Write a .flow file; version as in `Flow.save`."""
    flow = model if isinstance(model, Flow) else write_flow(model)
    flow.save(path, version)


def load(path: str | PathLike[str]) -> Flow:
    """Read a .flow file of version 3 to 6; FormatError, naming the place, for a broken one."""
    return Flow.load(path)

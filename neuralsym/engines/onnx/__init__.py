"""ONNX models: symbols to a ModelProto or a file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from onnx import ModelProto

from neuralsym.core.custom import FindTyper, no_typer
from neuralsym.core.graph import Graph
from neuralsym.core.model import Model
from neuralsym.engines.onnx import open_file
from neuralsym.engines.onnx.checking import check_draft
from neuralsym.engines.onnx.files import LIMIT, write_model
from neuralsym.engines.onnx.open_file import Given, complete, open_model
from neuralsym.engines.onnx.read import to_model
from neuralsym.engines.onnx.write import draft, draft_of_proto, tensor_proto

__all__ = ["load", "of_symbolic", "read_model", "save", "to_symbolic"]


def of_symbolic(
    graph: Graph | Model,
    *,
    opset: int | None = None,
    metadata: Mapping[str, str] | None = None,
    doc: str | None = None,
) -> ModelProto:
    """The ONNX model of a graph, or of a model of one graph, with all its values inside.

    `opset` is the version of ONNX's operators to write, 7 to 28; the default is the lowest from
    18 on that is sufficient. For an older one nodes are rewritten in terms of what it has.
    `metadata` adds to the model's own, `doc` replaces its description. Raises FormatError, naming
    the operator and the lowest opset for it, for what ONNX or that version cannot say.
    """
    made = draft(graph, opset, metadata, doc)
    return made.whole(map(tensor_proto, made.stored))


def save(
    model: ModelProto | Graph | Model,
    path: str | PathLike[str],
    *,
    opset: int | None = None,
    metadata: Mapping[str, str] | None = None,
    doc: str | None = None,
    limit: int = LIMIT,
) -> list[Path]:
    """Write an .onnx file, checked by onnx's own checker; gives the paths written.

    Weights of a graph are made one at a time while writing. A model of over `limit` bytes
    (protobuf's 2 GiB) is written with its weights in a second file, `NAME.onnx.data`. The files
    appear under their names when they are complete. Raises FormatError when the place cannot be
    written to, or for what ONNX or the opset asked for cannot say.
    """
    if isinstance(model, ModelProto):
        made = draft_of_proto(model, opset, metadata, doc)
    else:
        made = draft(model, opset, metadata, doc)
    check_draft(made)
    return write_model(made, Path(path), limit)


def load(source: Given) -> ModelProto:
    """The ModelProto of an .onnx file or its bytes, with its external data inside.

    Raises FormatError, naming the file, for what is no ONNX model.
    """
    return complete(open_model(source))


def has_external_data(source: Given) -> bool:
    """Whether a part of the model's data lies in other files. FormatError as for `load`."""
    return open_file.has_external_data(open_model(source))


def to_symbolic(model: ModelProto | Given) -> Graph:
    """The graph of an ONNX model of opset 1 to 28; its names are kept.

    Raises FormatError for what cannot be read, GraphError for a graph that is not well formed.
    """
    return read_model(model).graph


def read_model(source: Given, *, typers: FindTyper = no_typer) -> Model:
    """The graph of an .onnx file, its bytes, or a ModelProto, with its metadata.

    Initializers become weights (floating-point ones with dimensions) or constants; those that are
    listed as inputs too become variables with a default, from IR version 4 on. Large weights are
    mapped. Operators of domains that are not known are kept as they are; `typers(op, domain)`
    finds the typers of such. Raises FormatError and GraphError as `to_symbolic`.
    """
    return to_model(open_model(source), typers)

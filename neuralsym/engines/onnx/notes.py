"""What a file says beside the computation: kept when read, written back where it still fits."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from onnx import GraphProto, ModelProto, ValueInfoProto

from neuralsym.core.model import Notes, Parameter
from neuralsym.core.tensor import Tensor
from neuralsym.engines.onnx.text import readable
from neuralsym.errors import warn

if TYPE_CHECKING:
    from neuralsym.engines.onnx.frame import Frame


def read_notes(model: ModelProto, frame: Frame) -> Notes:
    """The notes of a model; `frame` is its main graph, read.

    Warns where the file holds steps of training, which are not read.
    """
    graph = model.graph
    if model.training_info:
        warn(
            f"{frame.label} holds {len(model.training_info)} training graphs, which are not read: "
            "its inference graph is"
        )
    return Notes(
        model.domain,
        model.model_version,
        readable(graph.doc_string),
        {readable(entry.key): readable(entry.value) for entry in graph.metadata_props},
        {v.name: readable(v.doc_string) for v in (*graph.input, *graph.output) if v.doc_string},
        _quantization(graph, frame),
    )


def _quantization(graph: GraphProto, frame: Frame) -> dict[str, dict[str, Parameter]]:
    found: dict[str, dict[str, Parameter]] = {}
    for note in graph.quantization_annotation:
        roles = found.setdefault(readable(note.tensor_name), {})
        for entry in note.quant_parameter_tensor_names:
            stored = frame.stored.get(entry.value)
            tensor = None if stored is None else frame.tensor(*stored)
            roles[readable(entry.key)] = Parameter(readable(entry.value), tensor)
    return found


def write_notes(notes: Notes, model: ModelProto) -> None:
    """What belongs to the model around the graph."""
    if notes.domain:
        model.domain = notes.domain
    if notes.version:
        model.model_version = notes.version


def write_graph_notes(notes: Notes, graph: GraphProto) -> None:
    """Descriptions of the graph, and of those inputs and outputs that it has."""
    if notes.doc:
        graph.doc_string = notes.doc
    for key, value in notes.metadata.items():
        graph.metadata_props.add(key=key, value=value)
    values: tuple[ValueInfoProto, ...] = (*graph.input, *graph.output)
    for value in values:
        if value.name in notes.values:
            value.doc_string = notes.values[value.name]


def annotate(notes: Notes, graph: GraphProto, values: Collection[str]) -> dict[str, Tensor]:
    """Write the annotations of values that the graph has; gives the tensors that they need."""
    needed: dict[str, Tensor] = {}
    for name, roles in notes.quantization.items():
        entries: list[tuple[str, str]] = []
        for role, given in roles.items() if name in values else ():
            if given.name not in values:
                if given.tensor is None:
                    continue
                needed[given.name] = given.tensor
            entries.append((role, given.name))
        if entries:
            made = graph.quantization_annotation.add(tensor_name=name)
            for role, called in entries:
                made.quant_parameter_tensor_names.add(key=role, value=called)
    return needed

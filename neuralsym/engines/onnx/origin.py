"""What a node was called in the file that it was read from, and what the file says of it."""

from __future__ import annotations

from onnx import NodeProto

from neuralsym.engines.onnx.text import readable
from neuralsym.errors import Where


class Origin(Where):
    """A node's place in a file, for messages and for writing back what was said of it.

    `line` is the number of the node in its graph, from 1; `node` its name there, often nothing;
    `doc` its description and `metadata` its further entries.
    """

    node: str
    doc: str
    metadata: tuple[tuple[str, str], ...]
    label: str

    @classmethod
    def of(cls, file: str, number: int, proto: NodeProto) -> Origin:
        made = cls(file, number)
        made.node = proto.name
        made.doc = readable(proto.doc_string)
        entries = proto.metadata_props
        made.metadata = tuple((readable(e.key), readable(e.value)) for e in entries)
        shown = f"{proto.op_type} {proto.name!r}" if proto.name else proto.op_type
        made.label = f"node {number} ({shown})"
        return made

    def __str__(self) -> str:
        return f"{self.label} of {self.file}"


def name_in_file(where: Where | None) -> str:
    """The name that a node had in its file; nothing for nodes that come from code."""
    return where.node if isinstance(where, Origin) else ""


def describe_origin(where: Where | None, made: NodeProto) -> None:
    """Write what a file said of a node into it."""
    if isinstance(where, Origin):
        if where.doc:
            made.doc_string = where.doc
        for key, value in where.metadata:
            made.metadata_props.add(key=key, value=value)

"""What a node was called in the file that it was read from."""

from __future__ import annotations

from neuralsym.errors import Where


class Origin(Where):
    """A node's place in a file, for messages and for writing the node's name back.

    `line` is the number of the node in its graph, from 1; `node` its name there, often nothing.
    """

    node: str

    @classmethod
    def of(cls, file: str, number: int, op_type: str, name: str) -> Origin:
        made = cls(file, number)
        made.node = name
        made.label = f"node {number} ({op_type} {name!r})" if name else f"node {number} ({op_type})"
        return made

    label: str

    def __str__(self) -> str:
        return f"{self.label} of {self.file}"


def name_in_file(where: Where | None) -> str:
    """The name that a node had in its file; nothing for nodes that come from code."""
    return where.node if isinstance(where, Origin) else ""

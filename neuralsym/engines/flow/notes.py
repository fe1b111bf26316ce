"""What a flow says beside its computation, kept with a Model so that it is written again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from neuralsym.engines.flow.parts import Data


@dataclass(frozen=True)
class VariableNotes:
    """Aliases, attributes and flags of a variable."""

    aliases: tuple[str, ...] = ()
    attrs: Mapping[str, str] = field(default_factory=dict)
    flags: int = 0


@dataclass(frozen=True)
class BlobNotes:
    """A blob as it was read."""

    type: str
    attrs: Mapping[str, str]
    data: Data
    flags: int = 0


@dataclass(frozen=True)
class FlowNotes:
    """Of a whole flow: blobs and connectors; of variables, operations and functions by name.

    `operations` has the names of operations by those of their first outputs, and `attrs` the
    attributes that operations have by the same names. `version` is that of the file.
    """

    version: int | None = None
    variables: Mapping[str, VariableNotes] = field(default_factory=dict)
    operations: Mapping[str, str] = field(default_factory=dict)
    attrs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    functions: Mapping[str, int] = field(default_factory=dict)
    connectors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    blobs: Mapping[str, BlobNotes] = field(default_factory=dict)

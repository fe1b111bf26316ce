"""Operators as an older version of ONNX has them, for graphs that are about to be written.

Graphs hold the newest operators alone; only what lowering makes of them, between a user's graph
and the file, has nodes of these classes.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from neuralsym.core.op import Op
from neuralsym.core.schema import schema_of
from neuralsym.core.symbol import Node


class OlderOp(Op, abstract=True):
    """The base of operators of one older version; `version` is the first that has it so."""

    version: ClassVar[int]


@cache
def older_op(name: str, version: int, domain: str = "") -> type[OlderOp]:
    """The class of an operator in its version of that number."""
    import onnx.defs

    schema = schema_of(onnx.defs.get_schema(name, version, domain))
    body = {"domain": domain, "schema": schema, "version": version, "function": name.lower()}

    class Made(OlderOp, abstract=True):
        pass

    for key, value in body.items():
        setattr(Made, key, value)
    Made.__name__ = Made.__qualname__ = name
    return Made


def is_older(node: Node) -> bool:
    """Whether a node is of an older version, and so in its final form."""
    return issubclass(node.op, OlderOp)

"""Operators as an older version of ONNX has them, for graphs that are about to be written.

Graphs hold the newest operators alone; only what lowering makes of them, between a user's graph
and the file, has nodes of these classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from neuralsym.core.infer import infer_with_onnx
from neuralsym.core.op import Call, Op
from neuralsym.core.schema import schema_of
from neuralsym.core.symbol import Node
from neuralsym.core.types import Type


class OlderOp(Op, abstract=True):
    """The base of operators of one older version; `version` is the first that has it so."""

    version: ClassVar[int]

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        return infer_with_onnx(call, cls.version)


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

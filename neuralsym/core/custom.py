"""Operators that only a file knows: of a domain that is not ours, kept as they came.

Nothing can be inferred of such an operator, so each use has a class that states its types: those
that the file declares, or what a typer of the user's gives. These classes are in no registry, so
that two files that mean different things by one name do not meet.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import new_class
from typing import Any, ClassVar

from neuralsym.core.graph import Graph
from neuralsym.core.op import Call, Op, snake_case
from neuralsym.core.schema import AttributeSpec, Formal, Schema
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import rebuild
from neuralsym.core.types import Type
from neuralsym.errors import NeuralsymError, TypeMismatch

Typer = Callable[[Call], Sequence[Type]]
"""Gives the types of the outputs of a call."""
FindTyper = Callable[[str, str], Typer | None]
"""The typer of an operator by name and domain, if there is one."""


def no_typer(op: str, domain: str) -> Typer | None:
    """Finds no typer."""
    return None


@dataclass(frozen=True)
class Use:
    """How a file uses an operator that is not known here.

    `kinds` are the ONNX kinds of its attributes; a list of bodies `b` is held as the attributes
    `b[0]`, `b[1]`, ..., and named in `lists`. `types` are those of the outputs, `omitted` the
    outputs that have no name in the file, `guessed` those whose types nothing tells.
    """

    domain: str
    name: str
    version: int
    kinds: Mapping[str, str]
    inputs: int
    types: tuple[Type, ...]
    omitted: Collection[int] = ()
    guessed: Collection[int] = ()
    lists: Collection[str] = ()


class _Kind(type):
    """The class of custom operators' classes, so that they are pickled by what they state."""


class Custom(Op, abstract=True, metaclass=_Kind):
    """The base of operators that only a file knows."""

    deterministic = False  # for all that we know
    use: ClassVar[Use]
    typer: ClassVar[Typer | None] = None

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        if cls.typer is None:
            return cls.use.types
        try:
            types: tuple[Any, ...] = tuple(cls.typer(call))
        except NeuralsymError:
            raise
        except Exception as error:
            call.fail(f"its typer failed: {type(error).__name__}: {error}", TypeMismatch)
        wrong = next((t for t in types if not isinstance(t, Type)), None)
        if wrong is not None:
            call.fail(f"its typer gives {wrong!r}, which is no type", TypeMismatch)
        return types


def custom_op(use: Use, typer: Typer | None = None) -> type[Custom]:
    """The class of an operator as it is used; its types are the typer's where there is one."""
    schema = Schema(
        use.name,
        use.domain,
        use.version,
        inputs=tuple(Formal(f"input {i}", "optional", "", frozenset()) for i in range(use.inputs)),
        outputs=tuple(Formal(f"output {i}", "optional", "", frozenset()) for i in _places(use)),
        attributes={name: AttributeSpec(name, kind) for name, kind in use.kinds.items()},
        minimum_inputs=0,
        maximum_inputs=use.inputs,
        minimum_outputs=len(use.types),
        maximum_outputs=len(use.types),
    )
    body: dict[str, Any] = {
        "__doc__": f"{use.name} of domain {use.domain}, as a file uses it.",
        "domain": use.domain,
        "schema": schema,
        "function": snake_case(use.name),
        "body_attributes": tuple(name for name, kind in use.kinds.items() if kind == "GRAPH"),
        "use": use,
        "typer": None if typer is None else staticmethod(typer),
    }
    made: type[Custom] = new_class(
        use.name, (Custom,), {"abstract": True}, lambda n: n.update(body)
    )
    return made


def _places(use: Use) -> range:
    return range(len(use.types))


def with_typers(graph: Graph, find: FindTyper) -> Graph:
    """The graph with the types that typers give to its custom operators, bodies included."""

    def change(node: Node, inputs: tuple[Symbol | None, ...]) -> Sequence[Symbol] | None:
        op = node.op
        if not issubclass(op, Custom) or op.typer is not None:
            return None
        typer = find(op.use.name, op.use.domain)
        if typer is None:
            return None
        made = Node(
            custom_op(op.use, typer), node.inputs, node.attrs, tuple(s.type for s in node.outputs),
            name=node.name, scope=node.scope, where=node.where, captures=node.captures,
        )  # fmt: skip
        return rebuild(made, inputs, attrs=made.attrs).outputs

    return graph.map(change)


def _pickled(cls: _Kind) -> str | tuple[Any, ...]:
    use = cls.__dict__.get("use")
    return cls.__qualname__ if use is None else (custom_op, (use,))


copyreg.pickle(_Kind, _pickled)

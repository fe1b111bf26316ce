"""What an operator is: a class that states its meaning once.

The name of the class is the ONNX name; its schema says inputs, outputs, attributes and types. A
class may add ranges for its attributes (`check`), its own inference (`infer`), the values that it
propagates while building (`fold`), and for elementwise operators the meaning of one element
(`scalar`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.dim import DimLike
from neuralsym.core.schema import Schema, onnx_schema
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Shape, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import GraphError, OpError, ShapeMismatch, Where, at_line, did_you_mean

KNOWN_LIMIT = 4096
"""Values of at most so many elements are propagated while building."""
SHOWN_INPUTS = 12
"""Messages list the types of at most so many inputs."""


@dataclass(frozen=True)
class Call:
    """An application of an operator that is being checked: what rules read."""

    op: type[Op]
    inputs: tuple[Symbol | None, ...]
    attrs: Mapping[str, Any]
    count: int
    where: Where | None = None
    captures: tuple[Symbol, ...] = ()

    def attr(self, name: str) -> Any:
        """The attribute, or its default; None where it has neither."""
        if name in self.attrs:
            return self.attrs[name]
        spec = self.op.schema.attributes.get(name)
        return spec.default if spec else None

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> Symbol:
        symbol = self.inputs[index] if index < len(self.inputs) else None
        assert symbol is not None
        return symbol

    def type(self, index: int) -> TensorType:
        return self.input(index).tensor

    def shape(self, index: int) -> Shape | None:
        return self.type(index).shape

    def dtype(self, index: int) -> NumberType:
        return self.type(index).dtype

    def known(self, index: int) -> NDArray[Any] | None:
        """The known value of an input; None when it is omitted or not known."""
        return self.input(index).known if self.has(index) else None

    def known_dims(self, index: int) -> list[DimLike] | None:
        """A known vector as dimensions."""
        value = self.known(index)
        if value is None or value.ndim > 1:
            return None
        return [d if not isinstance(d, np.integer) else int(d) for d in value.reshape(-1).tolist()]

    def label(self, index: int) -> str:
        """The name of an input in messages: `W`, or `inputs[2]` of a variadic one."""
        formals = self.op.schema.inputs
        if not formals:
            return str(index)
        formal = self.op.schema.formal_input(index)
        place = index - (len(formals) - 1)
        return f"{formal.name}[{place}]" if formal.kind == "variadic" else formal.name

    def signature(self) -> str:
        """`Conv(X: float32[1, 3, 32, 32], W: float64[16, 3, 3, 3])`."""
        given = [f"{self.label(i)}: {s.type}" for i, s in enumerate(self.inputs) if s is not None]
        if len(given) > SHOWN_INPUTS:
            given[SHOWN_INPUTS:] = [f"{len(given) - SHOWN_INPUTS} more"]
        return f"{self.op.__name__}({', '.join(given)})"

    def fail(self, reason: str, kind: Callable[[str], OpError] = ShapeMismatch) -> NoReturn:
        """Raise an error that names the op, its inputs and the user's line."""
        raise kind(f"{self.signature()}: {reason}{at_line(self.where)}")


class _Late:
    """A class attribute that is worked out when it is first read: ONNX's schemas load the onnx
    package, which a process that only runs a stored program does without."""

    def __init__(self, make: Callable[[type[Op]], Any], name: str) -> None:
        self.make, self.name = make, name

    def __get__(self, instance: object, owner: type[Op]) -> Any:
        made = self.make(owner)
        setattr(owner, self.name, made)
        return made


def _body_attributes(op: type[Op]) -> tuple[str, ...]:
    return tuple(name for name, spec in op.schema.attributes.items() if spec.kind == "GRAPH")


class Op:
    """The base of all operators. Operators are classes; nothing makes an instance of one."""

    domain: ClassVar[str] = ""
    schema: ClassVar[Schema]
    function: ClassVar[str] = ""
    """The name of the Python function, and the kind that automatic names count."""
    elementwise: ClassVar[bool] = False
    commutative: ClassVar[bool] = False
    deterministic: ClassVar[bool] = True
    """False for random operators, which no pass may fold or share."""
    body_attributes: ClassVar[tuple[str, ...]] = ()
    """The attributes that hold bodies, from the schema."""

    def __init_subclass__(cls, abstract: bool = False, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if abstract:
            return
        if "schema" not in cls.__dict__:
            schema: Any = _Late(lambda op: onnx_schema(op.__name__, op.domain), "schema")
            cls.schema = schema
        if "function" not in cls.__dict__:
            cls.function = snake_case(cls.__name__)
        names: Any = _Late(_body_attributes, "body_attributes")
        cls.body_attributes = names
        OPS[cls.domain, cls.__name__] = cls

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} is an operator class: call ops.{self.function}")

    @classmethod
    def check(cls, call: Call) -> None:
        """Raise BadAttribute for an attribute out of range, before any inference."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        """The types of the outputs by the operator's own rule; None leaves it to onnx's."""
        return None

    @classmethod
    def refit(cls, call: Call) -> Mapping[str, Any]:
        """The attributes when operands have come to be of other types: bodies follow them."""
        return call.attrs

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        """The values of the outputs, where the inputs' known values tell them."""
        return None

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any] | None:
        """The outputs' values by numpy, for operators that onnx's evaluator does not know or reads
        otherwise; None for others."""
        return None

    @classmethod
    def expansion(cls, node: Node) -> Sequence[Symbol] | None:
        """The node's outputs written with other operators, for an engine without a kernel for it.

        None where it has no such form. Applied to `node.inputs`; it may ask the known types and
        values of those, and must give the types that the node has.
        """
        return None

    @classmethod
    def constant_value(cls, node: Node) -> NDArray[Any] | None:
        """The small constant that a leaf holds; None for any other node."""
        return None


OPS: dict[tuple[str, str], type[Op]] = {}
"""Every operator by (domain, name); filled as the classes are defined."""


def snake_case(name: str) -> str:
    """`LeakyRelu` -> `leaky_relu`, `ReduceL2` -> `reduce_l2`, `LSTM` -> `lstm`."""
    for odd, plain in _ODD_WORDS.items():
        name = name.replace(odd, plain)
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return spaced.lower()


_ODD_WORDS = {
    "MatMul": "Matmul",
    "QLinear": "Qlinear",
    "PRelu": "Prelu",
    "IsNaN": "IsNan",
    "Col2Im": "Col2im",
    "SwiGLU": "Swiglu",
}
"""Words that ONNX writes with capitals inside and that everybody else writes as one."""


def find_op(name: str, domain: str = "") -> type[Op]:
    """The operator called `name`; GraphError with the nearest names if there is none."""
    found = OPS.get((domain, name))
    if found is None:
        hint = did_you_mean(name, [n for d, n in OPS if d == domain])
        raise GraphError(f"no operator {name!r} in domain {domain!r}{hint}")
    return found

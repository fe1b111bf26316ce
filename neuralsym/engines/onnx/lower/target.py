"""A node and the opset that cannot say it as it is: what the rules of lowering work with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from numpy.typing import NDArray

from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx import opsets
from neuralsym.engines.onnx.older_op import older_op

Given = Symbol | None


class Cannot(Exception):
    """An opset has no way to say a node; the reason is the message."""


@dataclass(frozen=True)
class Target:
    """A node of the newest operators that is to be said in an opset."""

    node: Node
    opset: int

    # -- reading -------------------------------------------------------------------------------
    @property
    def name(self) -> str:
        return self.node.op_type

    @property
    def x(self) -> Symbol:
        return self.input(0)

    def attr(self, name: str) -> Any:
        return self.node.attr(name)

    def has(self, index: int) -> bool:
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def input(self, index: int) -> Symbol:
        symbol = self.node.inputs[index]
        assert symbol is not None
        return symbol

    def optional(self, index: int) -> Given:
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def rank(self, index: int = 0) -> int:
        rank = self.input(index).rank
        if rank is None:
            self.refuse("it has no such settings for an input of unknown rank")
        return rank

    def sizes(self, index: int = 0) -> tuple[int, ...]:
        """The shape of an input, all of it known."""
        shape = self.input(index).shape
        if shape is None or not all(isinstance(size, int) for size in shape):
            self.refuse(f"it can be said only where all sizes are known, not for {shape}")
        return tuple(int(size) for size in shape if isinstance(size, int))

    def size(self, axis: int, index: int = 0) -> int:
        """The size along one axis, which has to be known."""
        shape = self.input(index).shape
        size = None if shape is None else shape[axis]
        if not isinstance(size, int):
            self.refuse(f"it can be said only where the size along axis {axis} is known")
        return size

    def known(self, index: int) -> NDArray[Any] | None:
        """The value of an input, where it is a constant of plain numbers."""
        value = self.input(index).known if self.has(index) else None
        return None if value is None or value.dtype == object else value

    def setting(self, index: int) -> NDArray[Any]:
        """The value of an input that is an attribute in that opset."""
        value = self.known(index)
        if value is None:
            formal = self.node.op.schema.formal_input(index).name
            self.refuse(f"{formal!r} has to be a constant there, and here it is none")
        return value

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the start."""
        return axis + rank if axis < 0 else axis

    def refuse(self, reason: str) -> NoReturn:
        raise Cannot(reason)

    # -- making --------------------------------------------------------------------------------
    def op(self, name: str, *inputs: Given, **attrs: Any) -> Symbol:
        """Apply an operator of the newest version."""
        return self.apply(name, inputs, attrs)[0]

    def apply(
        self, name: str, inputs: Sequence[Given], attrs: dict[str, Any], outputs: int = 1
    ) -> tuple[Symbol, ...]:
        return apply(find_op(name), inputs, attrs, outputs=outputs, where=self.node.where)

    def again(self, *inputs: Given, **changes: Any) -> tuple[Symbol, ...]:
        """The same operator with other inputs, and some attributes changed or (None) left out."""
        attrs = {**self.node.attrs, **changes}
        return self.apply(self.name, inputs, attrs, len(self.node.outputs))

    def older(
        self,
        *inputs: Given,
        op: str | None = None,
        types: Sequence[Type] | None = None,
        **attrs: Any,
    ) -> tuple[Symbol, ...]:
        """A node in the version that the opset has; the node's own attributes are not taken over.

        `op` is another operator than the node's; `types` the outputs' types if not the node's.
        """
        name = op or self.name
        schema = opsets.schema_at("", name, self.opset)
        if schema is None or schema.deprecated:
            self.refuse(f"there is no {name}")
        given = tuple(inputs)
        while given and given[-1] is None:
            given = given[:-1]
        kept = {k: v for k, v in attrs.items() if v is not None}
        unknown = kept.keys() - opsets.defaults(schema).keys()
        if unknown:
            self.refuse(f"version {schema.since_version} has no attribute {min(unknown)}")
        made = Node(
            older_op(name, schema.since_version),
            given,
            kept,
            tuple(s.type for s in self.node.outputs) if types is None else tuple(types),
            where=self.node.where,
            scope=self.node.scope,
        )
        refused = opsets.types_refused(made, schema)
        if refused:
            self.refuse(refused)
        return made.outputs

    def cast(self, symbol: Symbol, dtype: NumberType) -> Symbol:
        return symbol if symbol.dtype is dtype else self.op("Cast", symbol, to=dtype.onnx)


Rule = Callable[[Target], Sequence[Symbol] | None]


def plain(attrs: Any, *without: str) -> dict[str, Any]:
    return {k: v for k, v in attrs.items() if k not in without}


def tensor(symbol: Symbol, shape: Any = None) -> TensorType:
    return TensorType(symbol.dtype, shape)

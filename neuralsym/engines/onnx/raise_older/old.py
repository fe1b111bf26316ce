"""A node of a file in an older version, and what its adapter needs to say it anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import TensorType
from neuralsym.dtypes import NumberType
from neuralsym.errors import FormatError, Where, at_line

Given = Symbol | None


@dataclass
class Old:
    """A node as its file has it; `schema` is onnx's for that version of the operator."""

    op_type: str
    domain: str
    schema: Any
    inputs: tuple[Given, ...]
    attrs: dict[str, Any]
    captures: tuple[Symbol, ...]
    count: int
    where: Where
    made: set[Node] = field(default_factory=set)
    used: set[Symbol] = field(default_factory=set)

    @property
    def version(self) -> int:
        return int(self.schema.since_version)

    def op(self, name: str, *inputs: Given, **attrs: Any) -> Symbol:
        """Apply an operator of the newest version."""
        return self.apply(name, inputs, attrs)[0]

    def apply(
        self, name: str, inputs: Sequence[Given], attrs: dict[str, Any], outputs: int = 1
    ) -> tuple[Symbol, ...]:
        symbols = apply(
            find_op(name, self.domain), inputs, attrs, outputs=outputs, where=self.where
        )
        self.made.add(symbols[0].node)
        self.used.update(s for s in inputs if s is not None)
        return symbols

    def again(self, *inputs: Given) -> tuple[Symbol, ...]:
        """The same operator with other inputs and the attributes that are left."""
        return self.apply(self.op_type, inputs or self.inputs, self.attrs, self.count)

    def cast(self, symbol: Symbol, dtype: NumberType) -> Symbol:
        return symbol if symbol.dtype is dtype else self.op("Cast", symbol, to=dtype.onnx)

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int = 0) -> Symbol:
        symbol = self.inputs[index] if index < len(self.inputs) else None
        if symbol is None:
            self.refuse(f"its input {index} is missing")
        return symbol

    def tensor(self, index: int = 0) -> TensorType:
        return self.input(index).tensor

    def rank(self, index: int = 0) -> int:
        """The rank of an input that cannot be raised without it."""
        rank = self.input(index).rank
        if rank is None:
            self.refuse(f"the rank of its input {index} is unknown")
        return rank

    def take(self, name: str, default: Any = None) -> Any:
        """An attribute that the newest version does not have; it is removed."""
        return self.attrs.pop(name, default)

    def refuse(self, reason: str) -> NoReturn:
        raise FormatError(
            f"{self.op_type} of version {self.version} cannot be read: {reason}; export the model "
            f"in a newer opset{at_line(self.where)}"
        )


Adapter = Callable[[Old], Sequence[Symbol] | None]

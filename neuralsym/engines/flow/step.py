"""An operation of a flow under construction: its inputs as symbols, its attributes read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

import numpy as np

from neuralsym.core.symbol import Symbol
from neuralsym.engines.flow.parts import Function, Operation, Variable
from neuralsym.errors import FormatError

_LARGEST = 2**63 - 1


class Called(NamedTuple):
    """A function that an operation calls, with its parameters and results in order."""

    func: Function
    inputs: Sequence[Variable]
    outputs: Sequence[Variable]


Call = Callable[[Called, Sequence[Symbol], Sequence[Variable]], list[Symbol]]


@dataclass
class Step:
    """An operation under construction: its inputs as symbols, and what its variables declare.

    updates: the new values of variables that it assigns to, by their place among its inputs;
    calls: the functions that it calls, by the attribute that names them; call: computes variables
    of such a function for given inputs.
    """

    op: Operation
    inputs: list[Symbol]
    updates: dict[int, Symbol] = field(default_factory=dict)
    calls: dict[str, Called] = field(default_factory=dict)
    call: Call = lambda called, inputs, wanted: []

    def wrong(self, what: str) -> NoReturn:
        raise FormatError(f"operation {self.op.name!r} ({self.op.type}): {what}")

    def take(self, least: int, most: int | None = None) -> list[Symbol]:
        """The inputs, whose number is checked."""
        most = least if most is None else most
        if not least <= len(self.inputs) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            self.wrong(f"takes {wanted} inputs, it has {len(self.inputs)}")
        return self.inputs

    def integer(self, name: str, default: int | None = None) -> int | None:
        """An attribute that is a whole number."""
        text = self.op.attrs.get(name)
        if text is None or text == "":
            return default
        try:
            return self._held(int(text))
        except ValueError:
            self.wrong(f"attribute {name}={text!r} is no whole number")

    def number(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        text = self.op.attrs.get(name)
        try:
            return default if text is None else float(text)
        except ValueError:
            self.wrong(f"attribute {name}={text!r} is no number")

    def _held(self, number: int) -> int:
        """The number, which fits in 64 bits."""
        if abs(number) > _LARGEST:
            raise ValueError(number)
        return number

    def integers(self, name: str) -> list[int] | None:
        """An attribute that is a list such as "[1, 0]", "1,0" or "2x3"."""
        text = self.op.attrs.get(name)
        if text is None:
            return None
        words = text.strip("[]() ").replace("x", ",").split(",")
        try:
            return [self._held(int(w)) for w in words if w.strip()]
        except ValueError:
            self.wrong(f"attribute {name}={text!r} is no list of whole numbers")

    def known(self, index: int, what: str) -> list[int]:
        """The elements of an input that must be constant."""
        value = self.inputs[index].known
        if value is None:
            self.wrong(f"its {what} must be constant")
        try:
            return [self._held(int(v)) for v in np.asarray(value).reshape(-1)]
        except (ValueError, TypeError, OverflowError):
            self.wrong(f"its {what} must be whole numbers, they are {value}")

    def axes(self, given: int | None = 1) -> tuple[int, ...] | None:
        """The axis of a reduction: the attribute, or TensorFlow's second input; None is all."""
        axis = self.integers("axis")
        if axis is None and given is not None and len(self.inputs) > given:
            axis = self.known(given, "axes")
        return None if axis is None else tuple(axis)

    def keepdims(self) -> int:
        names = ("keepdims", "keep_dims")
        return int(any(self.op.flag_attr(name) for name in names))

    def declared(self, index: int = 0) -> Variable | None:
        """The variable of an output."""
        return self.op.outputs[index] if index < len(self.op.outputs) else None

"""The numbers that matrix products and recurrences compute with, and vectors of them."""

from __future__ import annotations

from typing import Literal

Element = Literal["float", "double"]

ELEMENT_BYTES: dict[Element, int] = {"float": 4, "double": 8}


class InVectors:
    """A text whose vectors have `width` lanes of `element`."""

    width: int
    element: Element

    @property
    def kind(self) -> str:
        return f"<{self.width} x {self.element}>"

    @property
    def bytes(self) -> int:
        return ELEMENT_BYTES[self.element]

    @property
    def vector_bytes(self) -> int:
        return self.width * self.bytes

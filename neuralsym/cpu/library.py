"""The Library: kernels, transformers and typers; what was registered last is tried first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from neuralsym.core.graph import Graph
from neuralsym.core.op import Call
from neuralsym.core.types import Type
from neuralsym.cpu.program import Row, Sizes, Step
from neuralsym.errors import BadAttribute

if TYPE_CHECKING:
    from neuralsym.cpu.machine import Target

KernelClass = TypeVar("KernelClass", bound="type[Kernel]")
Transformer = Callable[[Graph], Graph]
Typer = Callable[[Call], Sequence[Type]]


class Kernel:
    """A way to run an operator.

    `supports` says True, or why not. `adjust` states layouts, in-place pairs, packed constants
    and scratch; it runs once, with symbolic shapes. `rows` gives the table rows for the sizes of
    a run: code (equal text is compiled once) and descriptor words.
    """

    op: ClassVar[str] = ""
    domain: ClassVar[str] = ""
    name: ClassVar[str] = ""

    def __init__(self, target: Target) -> None:
        self.target = target

    def supports(self, step: Step) -> bool | str:
        """True, or the reason for a refusal."""
        return True

    def adjust(self, step: Step) -> None:
        """Fix what does not depend on sizes."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        """The table rows that run the step."""
        raise NotImplementedError

    def complexity(self, step: Step, sizes: Sizes) -> int:
        """Floating-point operations of a run, for the profile; 0 where that says nothing."""
        return 0


class Library:
    """Kernels by operator, graph transformers, and typers of custom operators.

    A library made with a `parent` sees the parent's entries after its own.
    """

    def __init__(self, parent: Library | None = None) -> None:
        self.parent = parent
        self._kernels: dict[tuple[str, str], list[type[Kernel]]] = {}
        self._transformers: list[tuple[Transformer, str]] = []
        self._typers: dict[str, Typer] = {}

    @staticmethod
    def default() -> Library:
        """A new library on top of neuralsym's own kernels: what users register into."""
        from neuralsym.cpu.kernels import standard_library

        return Library(standard_library())

    def kernel(self, op: str, *, name: str | None = None, domain: str = "") -> Callable[[Any], Any]:
        """Register a Kernel class, or a plain function over arrays, for an operator."""

        def register(given: Any) -> Any:
            if isinstance(given, type) and issubclass(given, Kernel):
                made = given
            elif callable(given):
                from neuralsym.cpu.kernels.function import kernel_of_function

                made = kernel_of_function(given)
            else:
                raise BadAttribute(f"a kernel is a Kernel class or a function, not {given!r}")
            made.name = name or made.name or given.__name__
            made.op = made.op or op
            self._kernels.setdefault((domain, op), []).append(made)
            return given

        return register

    def transformer(self, transform: Transformer, *, before: str = "") -> None:
        """Add a Graph -> Graph pass, run before the named pass, or first of all."""
        self._transformers.append((transform, before))

    def typer(self, op: str, infer: Typer) -> None:
        """The inference of a custom operator."""
        self._typers[op] = infer

    def kernels(self, op: str, domain: str = "") -> Iterator[type[Kernel]]:
        """The kernels of an operator, last registered first."""
        yield from reversed(self._kernels.get((domain, op), []))
        if self.parent is not None:
            yield from self.parent.kernels(op, domain)

    def transformers(self) -> Iterator[tuple[Transformer, str]]:
        yield from reversed(self._transformers)
        if self.parent is not None:
            yield from self.parent.transformers()

    def find_typer(self, op: str) -> Typer | None:
        found = self._typers.get(op)
        if found is None and self.parent is not None:
            return self.parent.find_typer(op)
        return found

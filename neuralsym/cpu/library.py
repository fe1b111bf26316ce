"""The Library: kernels, transformers and typers; what was registered last is tried first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from neuralsym.core.custom import Typer
from neuralsym.core.graph import Graph
from neuralsym.core.op import OPS
from neuralsym.cpu.options import Options
from neuralsym.cpu.program import Row, Sizes, Step
from neuralsym.errors import BadAttribute, at_line, did_you_mean, user_line, warn

if TYPE_CHECKING:
    from neuralsym.cpu.machine import Target

Transformer = Callable[[Graph], Graph]
ENTRY_POINTS = "neuralsym.library"
"""The group of entry points by which installed packages register."""


@dataclass(frozen=True)
class Take:
    """How a kernel takes an operand: row-major, or in blocks of channels with at least `halo`.

    block 0 is plain row-major; over 0 it is `Layout.block`, where 1 means plain order of channels
    but with room for a halo. `halo` is (before, after) for each spatial axis; more than asked for
    may come, so kernels go by `Sizes.strides` and `Sizes.origin`.
    """

    block: int = 0
    halo: tuple[tuple[int, int], ...] = ()


ROWS = Take()
"""Plain row-major."""


@dataclass(frozen=True)
class Form:
    """One set of layouts that a kernel works with: for each input and for each output.

    None for an input means as it is; constants are never reordered, kernels pack them. `joins`:
    the output is the inputs one after another along axis 1, so that inputs in the same layout may
    be written in place by their own producers; the kernel then does nothing at all.
    """

    inputs: tuple[Take | None, ...]
    outputs: tuple[Take, ...]
    joins: bool = False


class Kernel:
    """A way to run an operator.

    `supports` says True, or why not. `forms` are the layouts that it works with, the preferred
    first. `adjust` states in-place pairs, packed constants and scratch; it runs once, with symbolic
    shapes and settled layouts. `rows` gives the table rows for the sizes of a run: code (equal text
    is compiled once) and descriptor words.
    """

    op: ClassVar[str] = ""
    domain: ClassVar[str] = ""
    name: ClassVar[str] = ""
    failures: ClassVar[Mapping[int, str]] = {}
    """What a status of its code means to the user."""

    def __init__(self, target: Target, options: Options | None = None) -> None:
        self.target = target
        self.options = options or Options()

    def supports(self, step: Step) -> bool | str:
        """True, or the reason for a refusal."""
        return True

    def needs(self, step: Step) -> Sequence[int]:
        """The inputs whose values it reads; what only others need is not computed at all."""
        return [i for i, buffer in enumerate(step.inputs) if buffer is not None]

    def settings(self, step: Step) -> Sequence[int]:
        """The inputs whose values `rows` and the shapes of the outputs need when planning.

        Axes, pads, shapes, counts. Where they are computed in the run, the program is cut before
        the step, and `settled` (kernels/movement.py) gives what has come. The operator's `infer`
        must tell the shapes of its outputs from these values and the shapes of its inputs.
        """
        return ()

    def forms(self, step: Step) -> Sequence[Form]:
        """The layouts it works with, the preferred first; plain row-major unless it says more.

        Called when the layouts of the step's inputs are settled (`step.inputs[i].layout.block`).
        The form that needs the fewest changes of order is taken, among equals the first.
        """
        return [Form((ROWS,) * len(step.inputs), (ROWS,) * len(step.outputs))]

    def adjust(self, step: Step) -> None:
        """Fix what does not depend on sizes; the layouts of all operands are final."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        """The table rows that run the step."""
        raise NotImplementedError

    def is_apart(self, step: Step) -> bool:
        """Whether entries of a batch may be computed one after the other (cpu/turns.py).

        The batch is the first axis of the outputs and of all inputs but constants, and of no
        other; then each entry of the outputs must need no other entry, and `rows` must work for
        any part of it.
        """
        return False

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
        self._typers: dict[tuple[str, str], Typer] = {}

    @staticmethod
    def default() -> Library:
        """A new library to register into, on top of neuralsym's own and of installed packages'.

        A package adds to it by an entry point of the group "neuralsym.library": a function that
        takes a Library and registers there. It is called once in a process; one that fails is left
        out with a warning.
        """
        return Library(installed_library())

    def kernel(self, op: str, *, name: str | None = None, domain: str = "") -> Callable[[Any], Any]:
        """Register a Kernel class, or a plain function over arrays, for an operator.

        Warns of an operator that ONNX has not, where no other domain is given.
        """
        self._check(op, domain)

        def register(given: Any) -> Any:
            if isinstance(given, type) and issubclass(given, Kernel):
                made = given
            elif callable(given):
                from neuralsym.cpu.kernels.function import kernel_of_function

                made = kernel_of_function(given)
            else:
                raise BadAttribute(
                    f"a kernel is a Kernel class or a function, not {given!r}{at_line(user_line())}"
                )
            made.name = name or made.name or given.__name__
            made.op = made.op or op
            self._kernels.setdefault((domain, op), []).append(made)
            return given

        return register

    def _check(self, op: object, domain: object) -> None:
        if not isinstance(op, str) or not op or not isinstance(domain, str):
            raise BadAttribute(
                f"a kernel is for an operator and a domain by name, not {op!r} and {domain!r}"
                f"{at_line(user_line())}"
            )
        if self.parent is None or domain:  # all of neuralsym's own are right
            return
        import_module("neuralsym.ops")  # late: the standard library does without
        known = [name for place, name in OPS if not place]
        if op not in known:
            warn(f"a kernel is registered for {op!r}, which ONNX has not{did_you_mean(op, known)}")

    def transformer(self, transform: Transformer, *, before: str = "") -> None:
        """Add a Graph -> Graph pass, run before the named pass, or first of all."""
        self._transformers.append((transform, before))

    def typer(self, op: str, infer: Typer, *, domain: str = "") -> None:
        """The inference of a custom operator: `infer(call)` gives the types of its outputs."""
        if not callable(infer):
            raise BadAttribute(f"a typer is a function, not {infer!r}{at_line(user_line())}")
        self._typers[domain, op] = infer

    def own_operators(self) -> frozenset[tuple[str, str]]:
        """The operators, by (domain, name), that have kernels beside neuralsym's own."""
        if self.parent is None:
            return frozenset()
        return frozenset(self._kernels) | self.parent.own_operators()

    def kernels(self, op: str, domain: str = "") -> Iterator[type[Kernel]]:
        """The kernels of an operator, last registered first."""
        yield from reversed(self._kernels.get((domain, op), []))
        if self.parent is not None:
            yield from self.parent.kernels(op, domain)

    def transformers(self) -> Iterator[tuple[Transformer, str]]:
        yield from reversed(self._transformers)
        if self.parent is not None:
            yield from self.parent.transformers()

    def find_typer(self, op: str, domain: str = "") -> Typer | None:
        found = self._typers.get((domain, op))
        if found is None and self.parent is not None:
            return self.parent.find_typer(op, domain)
        return found


@cache
def installed_library() -> Library:
    """neuralsym's own kernels, and what installed packages add to them."""
    from importlib.metadata import entry_points

    from neuralsym.cpu.kernels import standard_library

    found = list(entry_points(group=ENTRY_POINTS))
    library = standard_library()
    if not found:
        return library
    library = Library(library)
    for entry in found:
        try:
            entry.load()(library)
        except Exception as error:  # whatever an installed package does must not stop others
            what = f"entry point {entry.name!r} ({entry.value}) of {ENTRY_POINTS}"
            warn(f"the {what} failed: {error!r}")
    return library

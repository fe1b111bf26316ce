"""What a layer is: settings bound, applied by `|`, with weights of its own.

`@layer` turns a function whose first parameter is what flows through the pipe into a factory:
`conv2d(32, 3)` binds the settings and gives a `Layer`; `x | conv2d(32, 3)` applies it. A Layer is
its weights: applied twice it shares them, while each call of the factory makes new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import (
    Any,
    Generic,
    NamedTuple,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
)

from neuralsym.core.scope import CURRENT, Scope
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, OpError, ShapeMismatch, at_line, user_line

P = ParamSpec("P")
A = TypeVar("A", contravariant=True)
B = TypeVar("B", covariant=True)
C = TypeVar("C")

Result: TypeAlias = Any
"""What a layer gives where its settings decide: a symbol, or a tuple of several. A union of the two
would have type checkers refuse every pipe that goes on from it."""


class State:
    """What one layer keeps: its weights by name, its scope, and the layers made inside it."""

    __slots__ = ("children", "scope", "weights")

    def __init__(self) -> None:
        self.scope: Scope | None = None
        self.weights: dict[str, Symbol] = {}
        self.children: list[State] = []


class Frame:
    """One application of a layer that is under way."""

    __slots__ = ("given", "next_child", "outer", "scoped", "state")

    def __init__(self, state: State, outer: Frame | None, scoped: bool) -> None:
        self.state = state
        self.outer = outer
        self.scoped = scoped
        self.given: dict[Layer[Any, Any], State] = {}
        self.next_child = 0

    def child(self, layer: Layer[Any, Any]) -> State:
        """The state of a layer made inside: the same at the same place of each application."""
        if layer not in self.given:
            children = self.state.children
            if self.next_child == len(children):
                children.append(State())
            self.given[layer] = children[self.next_child]
            self.next_child += 1
        return self.given[layer]


FRAME: ContextVar[Frame | None] = ContextVar("frame", default=None)


class Origin(NamedTuple):
    """What a layer was made by, for layers that make another of it (bidirectional, rnn)."""

    factory: Any
    args: tuple[Any, ...]
    settings: dict[str, Any]


class Layer(Generic[A, B]):
    """Something that a pipe applies: `x | layer`, or `layer(x)`; `f | g` is a layer again."""

    __array_ufunc__ = None  # so that `ndarray | layer` asks the layer

    def __init__(
        self,
        function: Callable[[A], B],
        kind: str,
        name: str | None = None,
        settings: str = "",
        *,
        scoped: bool = True,
        again: Callable[[], Layer[A, B]] | None = None,
        steps: tuple[Callable[[Any], Any], ...] = (),
    ) -> None:
        self.function = function
        self.kind = kind
        self.name = name
        self.settings = settings
        self.scoped = scoped
        self.again = again
        self.steps = steps
        self.origin: Origin | None = None
        self.state = State()
        self.made_in = FRAME.get()

    def __call__(self, x: A) -> B:
        outer = home = FRAME.get()
        while home is not None and home is not self.made_in:
            home = home.outer
        state = self.state if home is None else home.child(self)
        frame = FRAME.set(Frame(state, outer, self.scoped))
        try:
            return self._in_scope(state, x) if self.scoped else self.function(x)
        finally:
            FRAME.reset(frame)

    def _in_scope(self, state: State, x: A) -> B:
        if state.scope is None:
            state.scope = Scope(self.kind, self.name, CURRENT.get())
        scope = CURRENT.set(state.scope)
        try:
            result = self.function(x)
        except OpError as error:
            raise self._named(error) from None
        finally:
            CURRENT.reset(scope)
        shown: object = result[0] if isinstance(result, tuple) and result else result
        if isinstance(shown, Symbol) and state.scope.result is None:
            node = shown.node
            if node.scope is state.scope and node.name is None:
                state.scope.result = node
        return result

    def _named(self, error: OpError) -> OpError:
        """The error with this layer's name before it, once for each layer that it passes."""
        text = f"{self}: {error}"
        if "\n  at " not in text:
            text += at_line(user_line())
        made = type(error)(text)
        made.__cause__ = error.__cause__
        return made.with_traceback(error.__traceback__)

    def __ror__(self, x: A) -> B:
        return self(x)

    def __or__(self, after: Callable[[B], C]) -> Layer[A, C]:
        if not callable(after):
            return NotImplemented
        return sequence((*(self.steps or (self,)), after))

    def copy(self) -> Layer[A, B]:
        """The same settings with weights of its own, in the layers that it is made of too."""
        if self.again is not None:
            return self.again()
        return Layer(self.function, self.kind, self.name, self.settings, scoped=self.scoped)

    def __str__(self) -> str:
        if self.steps:
            return " | ".join(map(label, self.steps))
        name = f" {self.name!r}" if self.name else ""
        return f"{self.kind}({self.settings}){name}"

    def __repr__(self) -> str:
        return f"<Layer {self}>"

    def _no_operator(self, other: object) -> NoReturn:
        raise TypeError(not_a_value(str(self), f"{self.kind}(...)"))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_operator
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = _no_operator
    __pow__ = __rpow__ = _no_operator


def not_a_value(layer: str, applied: str) -> str:
    """What to say to `x | layer + y`."""
    return (
        f"{layer} is a layer, not a value: operators bind tighter than |, so put the pipe in "
        f"parentheses: (x | {applied}) + y{at_line(user_line())}"
    )


# -- layers made of layers ---------------------------------------------------------------------
def label(part: object) -> str:
    """How a part of a layer is called in messages."""
    return str(part) if isinstance(part, Layer) else getattr(part, "__name__", "function")


def fresh(part: Any) -> Any:
    """A layer with weights of its own; anything else as it is."""
    if isinstance(part, Layer):
        return part.copy()
    if isinstance(part, (tuple, list)):
        return type(part)(map(fresh, part)) if type(part) in (tuple, list) else part
    return part


def settled(part: Any, taker: str) -> Callable[[Any], Any]:
    """A part as something to call: `relu` without parentheses becomes a layer here, once.

    Raises TypeError where it is none: a value, or a layer whose settings are missing.
    """
    from neuralsym.layers.factory import Factory

    if isinstance(part, Factory):
        return part.bare()
    if isinstance(part, Symbol) or not callable(part):
        raise TypeError(
            f"{taker} takes layers or functions of a symbol, not {type(part).__name__}"
            f"{at_line(user_line())}"
        )
    found: Callable[[Any], Any] = part
    return found


def combine(
    kind: str,
    parts: Sequence[Callable[[Any], Any]],
    build: Callable[[tuple[Callable[[Any], Any], ...]], Callable[[Any], Any]],
) -> Layer[Any, Any]:
    """A layer made of others, without a name of its own; its copy has copies of the parts."""
    made = tuple(settled(p, kind) for p in parts)
    return Layer(
        build(made),
        kind,
        settings=", ".join(map(label, made)),
        scoped=False,
        again=lambda: combine(kind, [fresh(p) for p in made], build),
    )


def sequence(parts: Sequence[Callable[[Any], Any]]) -> Layer[Any, Any]:
    """The parts one after another; flat, so that a long pipe of layers is not a deep one."""
    steps = tuple(settled(p, "a pipe of layers") for p in parts)

    def run(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return Layer(
        run,
        "chain",
        scoped=False,
        again=lambda: sequence([fresh(s) for s in steps]),
        steps=steps,
    )


class Plain(Protocol[A, P, B]):
    """The type of a layer that needs no settings: `x | relu` as well as `x | relu()`."""

    __name__: str

    @overload
    def __call__(self, x: A, /, *args: P.args, **settings: P.kwargs) -> B: ...
    @overload
    def __call__(self, *args: P.args, **settings: P.kwargs) -> Layer[A, B]: ...

    def __ror__(self, x: A, /) -> B: ...

    def __or__(self, after: Callable[[B], C], /) -> Layer[A, C]: ...


# -- what authors of layers check --------------------------------------------------------------
def require_between(what: str, value: int, least: int, most: int) -> None:
    """Raise BadAttribute where a setting is below `least` or above `most`."""
    if not least <= value <= most:
        raise BadAttribute(f"{what}={value}: must be at least {least}, and not over {most}")


def require_shape(x: Symbol, rank: int | None = None, axis: int | None = None) -> tuple[Any, ...]:
    """The shape of x, of that rank, with a fixed size along `axis`; ShapeMismatch otherwise."""
    shape = x.shape
    if shape is None:
        raise ShapeMismatch(f"the rank of its input is unknown: {x.type}")
    if rank is not None and len(shape) != rank:
        hint = "; is the batch axis missing?" if len(shape) == rank - 1 else ""
        raise ShapeMismatch(f"takes an input of rank {rank}, came {x.type}{hint}")
    if axis is not None and not -len(shape) <= axis < len(shape):
        raise ShapeMismatch(f"its input has no axis {axis}, came {x.type}")
    if axis is not None and not isinstance(shape[axis], int):
        raise ShapeMismatch(
            f"needs a fixed size along axis {axis} for its weights, came {x.type}; give input() "
            "that size"
        )
    return shape

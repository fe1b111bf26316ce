"""What a layer is: settings bound, applied by `|`, with weights of its own.

`@layer` turns a function whose first parameter is what flows through the pipe into a factory:
`conv2d(32, 3)` binds the settings and gives a `Layer`; `x | conv2d(32, 3)` applies it. A Layer is
its weights: applied twice it shares them, while each call of the factory makes new ones.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar, cast, overload

from neuralsym.core.scope import CURRENT, Scope, check_name
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, OpError, ShapeMismatch, at_line, user_line

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class State:
    """What one layer keeps: its weights by name, its scope, and the layers made inside it."""

    __slots__ = ("children", "scope", "weights")

    def __init__(self) -> None:
        self.scope: Scope | None = None
        self.weights: dict[str, Symbol] = {}
        self.children: list[State] = []


class Frame:
    """One application of a layer that is under way."""

    __slots__ = ("given", "next_child", "outer", "state")

    def __init__(self, state: State, outer: Frame | None) -> None:
        self.state = state
        self.outer = outer
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


class Layer(Generic[A, B]):
    """Something that a pipe applies: `x | layer`, or `layer(x)`; `f | g` is a layer again."""

    __array_ufunc__ = None

    def __init__(
        self,
        function: Callable[[A], B],
        kind: str,
        name: str | None = None,
        settings: str = "",
        scoped: bool = True,
    ) -> None:
        self.function = function
        self.kind = kind
        self.name = name
        self.settings = settings
        self.scoped = scoped
        self.state = State()
        self.made_in = FRAME.get()

    def __call__(self, x: A) -> B:
        outer = FRAME.get()
        inside = outer is not None and self.made_in is outer
        state = outer.child(self) if inside and outer is not None else self.state
        if not self.scoped:
            return self.function(x)
        if state.scope is None:
            state.scope = Scope(self.kind, self.name, CURRENT.get())
        frame = FRAME.set(Frame(state, outer))
        scope = CURRENT.set(state.scope)
        try:
            result = self.function(x)
        except OpError as error:
            raise self._named(error) from None
        finally:
            FRAME.reset(frame)
            CURRENT.reset(scope)
        if isinstance(result, Symbol) and state.scope.result is None:
            node = result.node
            if node.scope is state.scope and node.name is None:
                state.scope.result = node
        return result

    def _named(self, error: OpError) -> OpError:
        """The error with this layer's name before it, once for each layer that it passes."""
        made = type(error)(f"{self}: {error}")
        made.__cause__ = error.__cause__
        return made.with_traceback(error.__traceback__)

    def __ror__(self, x: A) -> B:
        return self(x)

    def __or__(self, after: Callable[[B], C]) -> Layer[A, C]:
        if not callable(after):
            return NotImplemented
        label = str(after) if isinstance(after, Layer) else getattr(after, "__name__", "function")
        return Layer(lambda x: after(self(x)), f"{self} | {label}", scoped=False)

    def copy(self) -> Layer[A, B]:
        """The same settings with weights of its own."""
        return Layer(self.function, self.kind, self.name, self.settings, self.scoped)

    def __str__(self) -> str:
        if not self.scoped:
            return self.kind
        name = f" {self.name!r}" if self.name else ""
        return f"{self.kind}({self.settings}){name}"

    def __repr__(self) -> str:
        return f"<Layer {self}>"

    def _no_operator(self, other: object) -> NoReturn:
        raise TypeError(
            f"{self} is a layer, not a value: operators bind tighter than |, so put the pipe in "
            f"parentheses: (x | {self.kind}(...)) + y{at_line(user_line())}"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_operator
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = _no_operator


class Factory(Generic[A, P, B]):
    """A layer's function with its settings still open."""

    __array_ufunc__ = None

    def __init__(self, function: Callable[Concatenate[A, P], B]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.signature = inspect.signature(function)
        first, *rest = self.signature.parameters.values()
        self.__signature__ = self.signature.replace(parameters=rest)
        self.flows_many = "Sequence" in str(first.annotation)
        self.needed = [
            p.name
            for p in rest
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]

    @property
    def kind(self) -> str:
        return self.function.__name__.rstrip("_")

    def __call__(self, *args: Any, **settings: Any) -> Any:
        if len(args) == 1 and not settings and self._flows(args[0]):
            if self.needed:
                raise TypeError(
                    f"{self.kind}() takes settings, not a Symbol: write "
                    f"x | {self.kind}({', '.join(self.needed)}){at_line(user_line())}"
                )
            return self._make((), {})(args[0])
        return self._make(args, settings)

    def __ror__(self, x: Any) -> Any:
        return self(x)

    def __or__(self, after: Callable[[Any], Any]) -> Any:
        if self.needed:
            raise TypeError(f"{self.kind} needs settings: {self.kind}({', '.join(self.needed)})")
        return self._make((), {}) | after

    def _flows(self, x: object) -> bool:
        if isinstance(x, Symbol):
            return True
        many = isinstance(x, (tuple, list)) and bool(x)
        return many and all(isinstance(s, Symbol) for s in cast("Sequence[object]", x))

    def _make(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Layer[Any, Any]:
        hint = _refused_kernel(self.kind, args)
        if hint:
            raise BadAttribute(f"{hint}{at_line(user_line())}")
        try:
            bound = self.signature.bind(None, *args, **settings)
        except TypeError as error:
            raise TypeError(
                f"{self.kind}{self.__signature__}: {_settings_error(error, self, settings)}"
                f"{at_line(user_line())}"
            ) from None
        name = bound.arguments.get("name")
        check_name(name)
        words = [repr(a) for a in args] + [
            f"{k}={getattr(v, '__name__', None) or repr(v)}"
            for k, v in settings.items()
            if k != "name"
        ]

        def function(x: Any) -> Any:
            if self.flows_many and isinstance(x, Symbol):
                raise TypeError(
                    f"{self.kind} takes several symbols, not one: write "
                    f"(a, b) | {self.kind}(...) or x | fork(f, g) | {self.kind}(...)"
                    f"{at_line(user_line())}"
                )
            if not self.flows_many and isinstance(x, (tuple, list)):
                raise TypeError(
                    f"{self.kind} takes one symbol, not {len(x)}: join them by concat() or add(), "
                    f"or use parallel(f, g){at_line(user_line())}"
                )
            return self.function(x, *args, **settings)

        return Layer(function, self.kind, name, ", ".join(words))


def _settings_error(
    error: TypeError, factory: Factory[Any, Any, Any], given: dict[str, Any]
) -> str:
    from neuralsym.errors import did_you_mean

    names = list(factory.__signature__.parameters)
    for name in given:
        if name not in names:
            return f"it has no setting {name!r}{did_you_mean(name, names)}"
    return str(error)


def _refused_kernel(kind: str, args: tuple[Any, ...]) -> str:
    """The seed wrote conv2d [|o;i;h;w|] [|s;s|]; say what to write for it here."""
    window = kind.startswith(("conv", "transpose_conv")) and args
    if not window or not isinstance(args[0], (list, tuple)) or len(args[0]) < 3:
        return ""
    out, _, *sizes = args[0]
    strides = f", strides={tuple(args[1])}" if len(args) > 1 else ""
    return (
        f"{kind} takes filters and kernel_size, not a whole kernel shape: write "
        f"{kind}({out}, {tuple(sizes)}{strides}); input channels are known from the pipe"
    )


def layer(function: Callable[Concatenate[A, P], B]) -> Callable[P, Layer[A, B]]:
    """Make a layer of a function: its first parameter flows, the others are its settings.

    A parameter `name` of the function is the layer's name: `@layer` reads it and scopes by it.
    """
    return cast("Callable[P, Layer[A, B]]", Factory(function))


class Plain(Generic[A, P, B]):
    """The type of a layer that needs no settings: `x | relu` as well as `x | relu()`."""

    @overload
    def __call__(self, x: A, /) -> B: ...
    @overload
    def __call__(self, *args: P.args, **settings: P.kwargs) -> Layer[A, B]: ...
    def __call__(self, *args: Any, **settings: Any) -> Any:
        raise NotImplementedError

    def __ror__(self, x: A) -> B:
        raise NotImplementedError


def plain_layer(function: Callable[Concatenate[A, P], B]) -> Plain[A, P, B]:
    """`@layer` for a function whose settings all have defaults: usable without parentheses."""
    return cast("Plain[A, P, B]", Factory(function))


def require_shape(x: Symbol, rank: int | None = None, axis: int | None = None) -> tuple[Any, ...]:
    """The shape of x, of that rank, with a fixed size along `axis`; ShapeMismatch otherwise."""
    shape = x.shape
    if shape is None:
        raise ShapeMismatch(f"the rank of its input is unknown: {x.type}")
    if rank is not None and len(shape) != rank:
        hint = "; is the batch axis missing?" if len(shape) == rank - 1 else ""
        raise ShapeMismatch(f"takes an input of rank {rank}, came {x.type}{hint}")
    if axis is not None and not isinstance(shape[axis], int):
        raise ShapeMismatch(
            f"needs a fixed size along axis {axis} for its weights, came {x.type}; give input() "
            "that size"
        )
    return shape

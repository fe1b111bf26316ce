"""Factories: a layer's function with its settings still open, and the checks of these settings.

`layer` and `plain_layer` are what an author of layers writes before a function. The last paragraph
of its docstring is one list that says what others call it, in this order, what has no such layer
left out; docs/layers.md is made of it (page.py, whose `facts` reads it):

    Keras Dense; torch Linear (kernel transposed); Owl linear; ONNX Gemm, or MatMul and Add.

ONNX is always there ("ONNX nothing" for what emits no node). The first paragraph is the sentence
that the page shows. Within the list there is no other semicolon, and it ends with a full stop.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, NoReturn, cast

import numpy as np

from neuralsym.core.leaves import constant
from neuralsym.core.scope import check_name
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import is_whole
from neuralsym.errors import BadAttribute, at_line, did_you_mean, user_line
from neuralsym.layers.base import A, B, Layer, Origin, P, Plain, fresh, label, not_a_value


class Factory(Generic[A, P, B]):
    """A layer's function with its settings still open."""

    __array_ufunc__ = None

    def __init__(self, function: Callable[Concatenate[A, P], B]) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = function.__name__
        self.function = function
        self.signature = inspect.signature(function)
        first, *rest = self.signature.parameters.values()
        self.settings = {p.name: p for p in rest}
        flowing = _annotation(first)
        self.__signature__ = self.signature.replace(
            parameters=rest,
            return_annotation=f"Layer[{flowing}, {_text(self.signature.return_annotation)}]",
        )
        self.takes_symbols = "Symbol" in flowing
        self.takes_many = re.search(r"\b(Sequence|Iterable|tuple|list)\[", flowing) is not None
        self.takes_one = not self.takes_many or re.search(r"Symbol\s*\||\|\s*Symbol", flowing)
        self.needed = [
            p.name
            for p in rest
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]

    @property
    def kind(self) -> str:
        return self.function.__name__.rstrip("_")

    def __call__(self, *args: Any, **settings: Any) -> Any:
        if args and _is_flow(args[0]):
            if self.needed:
                raise TypeError(
                    f"{self.kind}() takes settings, not a Symbol: write "
                    f"x | {self.kind}({', '.join(self.needed)}){at_line(user_line())}"
                )
            return self.make(args[1:], settings)(args[0])
        return self.make(args, settings)

    def __ror__(self, x: Any) -> Any:
        return self.bare()(x)

    def __or__(self, after: Callable[[Any], Any]) -> Any:
        return self.bare() | after

    def _no_operator(self, other: object) -> NoReturn:
        raise TypeError(not_a_value(self.kind, self.kind))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_operator
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = _no_operator
    __pow__ = __rpow__ = _no_operator

    def bare(self) -> Layer[Any, Any]:
        """The layer without settings; TypeError where it needs some."""
        if self.needed:
            raise TypeError(
                f"{self.kind} needs its settings: write "
                f"{self.kind}({', '.join(self.needed)}){at_line(user_line())}"
            )
        return self.make((), {})

    def make(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Layer[Any, Any]:
        """The layer of these settings; TypeError or BadAttribute where they do not fit."""
        self.check(args, settings)
        words = [_short(a) for a in args]
        words += [f"{k}={_short(v)}" for k, v in settings.items() if k != "name"]

        def function(x: Any) -> Any:
            return self.function(self._flow(x), *args, **settings)

        def again() -> Layer[Any, Any]:
            return self.make(
                tuple(fresh(a) for a in args), {k: fresh(v) for k, v in settings.items()}
            )

        bound = self.signature.bind(None, *args, **settings)
        name = bound.arguments.get("name")
        made: Layer[Any, Any] = Layer(function, self.kind, name, ", ".join(words), again=again)
        made.origin = Origin(self, args, settings)
        return made

    def check(self, args: tuple[Any, ...], settings: dict[str, Any]) -> None:
        hint = _refused_kernel(self.kind, args)
        if hint:
            raise BadAttribute(f"{hint}{at_line(user_line())}")
        try:
            bound = self.signature.bind(None, *args, **settings)
        except TypeError as error:
            raise TypeError(
                f"{self.kind}{self._shown()}: {self._reason(error, settings)}{at_line(user_line())}"
            ) from None
        for key, value in bound.arguments.items():
            setting = self.settings.get(key)
            if setting is None or setting.kind in (setting.VAR_POSITIONAL, setting.VAR_KEYWORD):
                continue
            check_setting(self.kind, key, value, _annotation(setting))
        try:
            check_name(bound.arguments.get("name"))
        except BadAttribute as error:
            raise BadAttribute(f"{self.kind}: {error}{at_line(user_line())}") from None

    def __repr__(self) -> str:
        return f"<layers.{self.__name__}{self._shown()}>"

    def _shown(self) -> str:
        """The settings as a reader wants them: names and defaults."""
        words = []
        for p in self.settings.values():
            if p.kind is p.VAR_KEYWORD:
                continue
            words.append(p.name if p.default is p.empty else f"{p.name}={_short(p.default)}")
        return f"({', '.join(words)})"

    def _reason(self, error: TypeError, given: dict[str, Any]) -> str:
        for name in given:
            if name not in self.settings:
                return f"it has no setting {name!r}{did_you_mean(name, self.settings)}"
        return str(error)

    def _flow(self, x: Any) -> Any:
        """What came through the pipe, as the function takes it."""
        if not self.takes_symbols:
            return x
        many = isinstance(x, (tuple, list))
        if many and not self.takes_many:
            raise TypeError(
                f"{self.kind} takes one symbol, not {len(x)}: join them by concat() or add(), "
                f"or use parallel(f, g){at_line(user_line())}"
            )
        if not many and not self.takes_one:
            raise TypeError(
                f"{self.kind} takes several symbols, not one: write (a, b) | {self.kind}(...) or "
                f"x | fork(f, g) | {self.kind}(...){at_line(user_line())}"
            )
        return [self._symbol(s) for s in x] if many else self._symbol(x)

    def _symbol(self, x: Any) -> Any:
        if isinstance(x, (np.ndarray, np.generic)):
            return constant(x)
        if not isinstance(x, Symbol):
            hint = f": {label(x)} was not applied to one" if callable(x) else ""
            raise TypeError(
                f"{self.kind} takes a Symbol, not {type(x).__name__}{hint}{at_line(user_line())}"
            )
        return x


def _annotation(parameter: inspect.Parameter) -> str:
    return _text(parameter.annotation)


def _text(given: object) -> str:
    if isinstance(given, str):
        return given
    return given.__qualname__ if isinstance(given, type) else str(given)


def _is_flow(x: object) -> bool:
    if isinstance(x, Symbol):
        return True
    many = isinstance(x, (tuple, list)) and bool(x)
    return many and all(isinstance(s, Symbol) for s in cast("Sequence[object]", x))


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"array{list(value.shape)}"
    if isinstance(value, (Factory, Layer)) or inspect.isfunction(value):
        return label(value)
    return repr(value)


# -- types of settings -------------------------------------------------------------------------
def check_setting(kind: str, key: str, value: object, annotation: str) -> None:
    """Raise TypeError where a setting is not what its annotation, as text, says it is."""
    rule = CHECKS.get(annotation.removesuffix(" | None"))
    if rule is None and annotation.startswith(("Literal['", 'Literal["')):
        rule = CHECKS["str"]  # which words there are is for the layer to say
    if rule is None or (value is None and annotation.endswith(" | None")):
        return
    what, holds = rule
    if not holds(value):
        raise TypeError(f"{kind}: {key} is {what}, not {_short(value)}{at_line(user_line())}")


def _real(value: object) -> bool:
    return is_whole(value) or isinstance(value, (float, np.floating))


def _several(value: object) -> bool:
    if isinstance(value, (str, bytes, Symbol)) or not isinstance(value, (Sequence, np.ndarray)):
        return False
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "iu"
    return all(is_whole(v) for v in value)


def _reals(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "iuf"
    return isinstance(value, (list, tuple)) and all(_real(v) for v in value)


def _each(value: object, holds: Callable[[object], bool]) -> bool:
    """Whether it is a sequence or a vector whose elements all are such; text is none."""
    if isinstance(value, (str, bytes, Symbol)) or not isinstance(value, (Sequence, np.ndarray)):
        return False
    return not (isinstance(value, np.ndarray) and value.ndim != 1) and all(map(holds, value))


CHECKS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "int": ("an integer", is_whole),
    "float": ("a number", _real),
    "bool": ("True or False", lambda v: isinstance(v, (bool, np.bool_))),
    "str": ("text", lambda v: isinstance(v, str)),
    "Sizes": ("an integer or a sequence of integers", lambda v: is_whole(v) or _several(v)),
    "Sequence[int]": ("a sequence of integers", _several),
    "int | Sequence[int]": (
        "an integer or a sequence of integers",
        lambda v: is_whole(v) or _several(v),
    ),
    "Sequence[float]": ("a sequence of numbers", _reals),
    "float | Sequence[float]": (
        "a number or a sequence of numbers",
        lambda v: _real(v) or _reals(v),
    ),
    "int | Sequence[int | None]": (
        "an integer or a sequence of integers and None",
        lambda v: is_whole(v) or _each(v, lambda n: n is None or is_whole(n)),
    ),
    "Sequence[str]": ("a sequence of texts", lambda v: _each(v, lambda w: isinstance(w, str))),
    "Symbol": ("a Symbol", lambda v: isinstance(v, Symbol)),
    "Symbol | Sequence[Symbol]": (
        "a Symbol or a sequence of Symbols",
        lambda v: isinstance(v, Symbol) or _each(v, lambda s: isinstance(s, Symbol)),
    ),
    "Callable[[Any], Symbol]": ("a function of a symbol", callable),
    "Step | Sequence[Step]": (
        "a cell or a sequence of cells",
        lambda v: callable(v) or (_each(v, callable) and len(cast("Sequence[Any]", v)) > 0),
    ),
    "MergeMode": ("a name or None", lambda v: v is None or isinstance(v, str)),
    "bool | str": ("True, False or text", lambda v: isinstance(v, (bool, np.bool_, str))),
    "Activation": (
        "a name, a function of a symbol, or None",
        lambda v: v is None or isinstance(v, str) or callable(v),
    ),
    **dict.fromkeys(
        ("Interpolation", "Mode", "PaddingMode", "Encoding", "OutputMode"),
        ("text", lambda v: isinstance(v, str)),
    ),
}
"""What a setting with a plain annotation must be; checked when the layer is made."""


def _refused_kernel(kind: str, args: tuple[Any, ...]) -> str:
    """The seed wrote conv2d [|o;i;h;w|] [|s;s|]; say what to write for it here."""
    window = re.fullmatch(r"(transpose_)?conv\dd", kind) and args
    if not window or not isinstance(args[0], (list, tuple)) or len(args[0]) < 3:
        return ""
    first, second, *sizes = args[0]
    out = second if kind.startswith("transpose") else first
    strides = f", strides={tuple(args[1])}" if len(args) > 1 and _several(args[1]) else ""
    return (
        f"{kind} takes filters and kernel_size, not a whole kernel shape: write "
        f"{kind}({out}, {tuple(sizes)}{strides}); input channels are known from the pipe"
    )


def layer(function: Callable[Concatenate[A, P], B]) -> Callable[P, Layer[A, B]]:
    """Make a layer of a function: its first parameter flows, the others are its settings.

    A parameter `name` of the function is the layer's name: `@layer` reads it and scopes by it.
    """
    return cast("Callable[P, Layer[A, B]]", Factory(function))


def plain_layer(function: Callable[Concatenate[A, P], B]) -> Plain[A, P, B]:
    """`@layer` for a function whose settings all have defaults: usable without parentheses."""
    return cast("Plain[A, P, B]", Factory(function))

"""Layers made of layers: branches, skips, sequences, and functions as layers.

None of them has a name of its own: the layers inside are named as if they stood alone. A layer
inside is its weights here too, so the same object in two branches shares them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch, at_line, user_line
from neuralsym.layers.base import A, B, Layer, combine, label, sequence
from neuralsym.layers.factory import Factory, layer
from neuralsym.layers.merge import add

T = TypeVar("T")
Block = Callable[[Symbol], Symbol]


def fork(*branches: Callable[[A], B]) -> Layer[A, tuple[B, ...]]:
    """One input through several branches: a tuple, for `concat()`, `add()` or `parallel()`.

    `x | fork(conv2d(8, 1), conv2d(8, 3) | relu) | concat()`. A branch is a layer or a function.

    ONNX nothing of its own.
    """
    _some("fork", branches)
    return combine("fork", branches, lambda parts: lambda x: tuple(p(x) for p in parts))


def parallel(*layers: Callable[[A], B]) -> Layer[Sequence[A], tuple[B, ...]]:
    """Several inputs, each through its own layer: `(a, b) | parallel(f, g)` is (f(a), g(b)).

    TypeError when there are not as many inputs as layers.

    ONNX nothing of its own.
    """
    _some("parallel", layers)

    def build(parts: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
        def run(xs: Any) -> Any:
            if not isinstance(xs, (tuple, list)) or len(xs) != len(parts):
                came = len(xs) if isinstance(xs, (tuple, list)) else "one, not a tuple"
                raise TypeError(
                    f"parallel of {len(parts)} layers takes {len(parts)} inputs, {came} came"
                    f"{at_line(user_line())}"
                )
            return tuple(p(x) for p, x in zip(parts, xs, strict=True))

        return run

    return combine("parallel", layers, build)


def residual(
    branch: Block,
    *,
    join: Callable[[Symbol, Symbol], Symbol] | Callable[[Sequence[Symbol]], Symbol] = add,
    shortcut: Block | None = None,
) -> Layer[Symbol, Symbol]:
    """A skip: branch(x) + x.

    shortcut: what x passes on its way around, where the branch changes its shape. join: another
    function of two symbols (`ops.mul`), or a joining layer (`multiply`, `concat(axis=1)`).
    ShapeMismatch, naming both shapes, when they cannot be joined.

    ONNX Add, or what joins.
    """
    parts: list[Any] = [branch, _itself if shortcut is None else shortcut, join]

    def build(parts: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
        inner, around, join = parts

        def run(x: Symbol) -> Symbol:
            y, x = inner(x), around(x)
            joined: Any
            try:
                joined = join((y, x)) if isinstance(join, Layer) else join(y, x)  # type: ignore[call-arg]
            except ShapeMismatch as error:
                raise ShapeMismatch(
                    f"residual: the branch gives {y.type}, the way around {x.type}; shortcut=... "
                    f"can bring the input to the branch's shape\n{error}"
                ) from None
            result: Symbol = joined
            return result

        return run

    return combine("residual", parts, build)


def _itself(x: T) -> T:
    return x


def chain(*layers: Callable[[Any], Any]) -> Layer[Any, Any]:
    """The layers one after another: `chain(f, g)` is `f | g`; for lists, `chain(*layers)`.

    Without layers it gives its input.

    Keras Sequential; torch Sequential; ONNX nothing of its own.
    """
    return sequence(layers or (_itself,))


@layer
def lambda_(
    x: Symbol | Sequence[Symbol],
    function: Callable[[Any], Symbol],
    *,
    name: str | None = None,
) -> Symbol:
    """Any function of a symbol as a layer with a name: `lambda_(lambda x: x * 2.0, name="twice")`.

    Of several symbols, `(a, b) | lambda_(f)`, the function gets the list (Owl's lambda_array). It
    computes with symbols, not with arrays, so it becomes part of the graph. BadAttribute when it
    does not give a symbol.

    Keras Lambda; Owl lambda, lambda_array; ONNX what the function is made of.
    """
    result: object = function(x)
    if not isinstance(result, Symbol):
        raise BadAttribute(
            f"{label(function)} gave {type(result).__name__}, a layer's function gives a Symbol"
        )
    return result


def _some(kind: str, parts: Sequence[object]) -> None:
    if not parts:
        raise TypeError(f"{kind} needs at least one layer{at_line(user_line())}")
    if (
        len(parts) == 1
        and isinstance(parts[0], (list, tuple))
        and not isinstance(parts[0], Factory)
    ):
        raise TypeError(
            f"{kind} takes its layers one by one: {kind}(*layers){at_line(user_line())}"
        )

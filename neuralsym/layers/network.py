"""Where a pipe begins and ends: `input` and `get_network`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Variable
from neuralsym.core.model import Model
from neuralsym.core.scope import CURRENT, Scope, check_name
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import TensorType, as_shape
from neuralsym.dtypes import NumberType, is_whole, number_type
from neuralsym.errors import BadAttribute, ShapeMismatch, at_line, did_you_mean, user_line
from neuralsym.layers.factory import plain_layer
from neuralsym.network import Network

Layout = Literal["nchw", "nhwc"]
Outputs = str | Sequence[str | Symbol] | Mapping[str, Symbol]


def input(
    shape: Sequence[int | str | None],
    dtype: DTypeLike | NumberType = "float32",
    *,
    name: str | None = None,
    layout: Layout = "nchw",
) -> Symbol:
    """What a run feeds: the beginning of a pipe.

    shape: with the batch, as in the seed (Keras leaves it out): `input(("N", 3, 224, 224))`. A
    name makes a size free; the same name is the same size everywhere. None is "N" on the first
    axis; on another it is a size called after the input and the axis. name: "input" unless given,
    counted where there are several. layout: "nhwc" takes channels last, [N, *space, C], and puts
    one Transpose behind the input; everything else is channels first.

    Raises ShapeMismatch for what is no shape, TypeMismatch for no number type, BadAttribute for
    an unknown layout.
    """
    where = user_line()
    try:
        check_name(name)
    except BadAttribute as error:
        raise BadAttribute(f"input: {error}{at_line(where)}") from None
    said: object = layout  # whatever it is: an array knows no `in`
    if not isinstance(said, str) or said not in ("nchw", "nhwc"):
        hint = did_you_mean(str(layout), ("nchw", "nhwc"))
        raise BadAttribute(f"input: unknown layout {layout!r}{hint}{at_line(where)}")
    if isinstance(shape, (str, bytes)) or not np.iterable(shape):
        size = shape if is_whole(shape) else 3
        example = (shape, 3) if isinstance(shape, str) else ("N", size)
        raise ShapeMismatch(
            f"input takes one shape, a tuple that begins with the batch: input({example!r}), "
            f"came {shape!r}"
            f"{at_line(where)}"
        )
    sizes = [d if d is not None else _free(i, name) for i, d in enumerate(shape)]
    try:
        type_ = TensorType(number_type(dtype), as_shape(sizes))
    except (ShapeMismatch, TypeError) as error:
        raise type(error)(f"input: {error}{at_line(where)}") from None
    scope = Scope("input", None, CURRENT.get()) if name is None else None
    node = Node(Variable, (), {"type": type_}, (type_,), name=name, scope=scope, where=where)
    if scope is not None:
        scope.result = node  # it is named `input`, `input_1`, ... as the layers are
    x = node.outputs[0]
    if layout == "nchw":
        return x
    rank = len(sizes)
    if rank < 3:
        raise ShapeMismatch(
            f"input: layout='nhwc' is for [N, *space, C], came {type_}{at_line(where)}"
        )
    return ops.transpose(x, perm=(0, rank - 1, *range(1, rank - 1)))


def _free(axis: int, name: str | None) -> str:
    return "N" if axis == 0 else f"{name or 'input'}_{axis}"


@plain_layer
def get_network(
    x: Symbol | Sequence[Symbol],
    name: str | None = None,
    outputs: Outputs | None = None,
    seed: int = 0,
) -> Network:
    """The network that computes what is piped in: one symbol, or `(y, aux) | get_network()`.

    outputs: names for what is piped, in order; or further symbols, in a dict by name or in a
    sequence (a symbol that is piped and in the dict is only named by it). An output without a
    name has that of its layer. seed: what the weights are drawn from, each from a stream of its
    own; nothing is drawn here.

    Raises BadAttribute when there are not as many names as outputs, GraphError for a name that
    occurs twice.
    """
    where = user_line()
    piped = [x] if isinstance(x, Symbol) else list(x)
    if not is_whole(seed):
        raise BadAttribute(f"get_network: seed={seed!r} is not an integer{at_line(where)}")
    try:
        named = _named(piped, outputs, name)
    except BadAttribute as error:
        raise BadAttribute(f"get_network: {error}{at_line(where)}") from None
    graph = Graph(named, name=name)
    return Network(Model.of(graph.seeded(int(seed))))


def _named(
    piped: list[Symbol], outputs: Outputs | None, name: str | None
) -> list[Symbol] | dict[str, Symbol]:
    """All outputs, by name where some have one; the piped ones first, as they were piped."""
    if outputs is None:
        return piped
    if isinstance(outputs, str):
        outputs = [outputs]
    given = list(outputs.values() if isinstance(outputs, Mapping) else _listed(outputs))
    extra = [o for o in given if isinstance(o, Symbol)]
    symbols = [*piped, *(s for s in dict.fromkeys(extra) if s not in piped)]
    if isinstance(outputs, Mapping):
        if len(extra) != len(given) or not all(isinstance(key, str) for key in outputs):
            raise BadAttribute(f"outputs={outputs!r}: a dict holds symbols by name")
        own = Graph(symbols, name=name).output_names
        named: dict[str, Symbol] = {}
        for symbol, word in zip(symbols, own, strict=True):
            words = [key for key, s in outputs.items() if s is symbol] or [word]
            if any(w in named for w in words):
                raise BadAttribute(f"two outputs are called {words[0]!r}")
            named |= dict.fromkeys(words, symbol)
        return named
    names = [o for o in given if isinstance(o, str)]
    if len(names) + len(extra) != len(given):
        raise BadAttribute(f"outputs={outputs!r}: names, symbols, or a dict of symbols by name")
    if not names:
        return symbols
    if len(names) != len(symbols):
        raise BadAttribute(f"{len(names)} names ({', '.join(names)}) for {len(symbols)} outputs")
    if len(set(names)) != len(names):
        raise BadAttribute(f"two outputs have one name in {names}")
    return dict(zip(names, symbols, strict=True))


def _listed(outputs: Sequence[str | Symbol] | Symbol) -> Sequence[str | Symbol]:
    """What is given for outputs, a lone symbol being a list of itself."""
    if isinstance(outputs, Symbol):
        return [outputs]
    if not isinstance(outputs, (list, tuple)):
        raise BadAttribute(f"outputs={outputs!r}: names, symbols, or a dict of symbols by name")
    return outputs

"""Editing a model: cut a part out, pipe layers onto its outputs, put another head on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Weight
from neuralsym.core.model import Model
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import is_whole
from neuralsym.errors import BadAttribute, GraphError, at_line, counted, user_line

Head = Callable[[Any], Any]
"""What is piped onto a network: a layer, or a function of its output (a tuple of several)."""

_WEIGHTED = ("Gemm", "MatMul", "Conv", "ConvTranspose")
"""The operators that a head begins with, where they have a stored weight."""


def cut(model: Model, outputs: str | Sequence[str], inputs: str | Sequence[str] = ()) -> Model:
    """The part of a model that computes `outputs`, from new inputs in the place of `inputs`."""
    wanted = _listed("cut", "outputs", outputs)
    if not wanted:
        raise BadAttribute(f"cut: outputs names no value{at_line(user_line())}")
    try:
        return model.with_graph(model.graph.subgraph(wanted, _listed("cut", "inputs", inputs)))
    except GraphError as error:
        raise GraphError(f"cut: {error}{at_line(user_line())}") from None


def extend(
    model: Model,
    head: Head,
    *,
    outputs: str | Sequence[str] | None = None,
    seed: int = 0,
) -> Model:
    """A model with `head` piped onto its outputs; what it had keeps its names and weights."""
    graph = model.graph
    if not callable(head):
        raise TypeError(
            f"extend takes a layer or a function of a symbol, not {type(head).__name__}"
            f"{at_line(user_line())}"
        )
    if not is_whole(seed):
        raise BadAttribute(f"extend: seed={seed!r} is not an integer{at_line(user_line())}")
    made = head(piped(graph))
    symbols = [made] if isinstance(made, Symbol) else made
    if not isinstance(symbols, (list, tuple)) or not _are_symbols(symbols):
        raise BadAttribute(
            f"extend: {getattr(head, '__name__', head)} gave {_told(made)}; a layer or a function "
            f"gives a symbol, or a tuple of symbols{at_line(user_line())}"
        )
    names = _listed("extend", "outputs", outputs) if outputs is not None else None
    if names is not None and len(names) != len(symbols):
        raise BadAttribute(
            f"extend: {counted(len(names), 'name')} ({', '.join(names)}) for "
            f"{counted(len(symbols), 'output')}{at_line(user_line())}"
        )
    if names is None and any(s in graph.outputs for s in symbols):
        names = _as_before(graph, symbols)
    wanted = symbols if names is None else dict(zip(names, symbols, strict=True))
    try:
        return model.with_graph(graph.extended(wanted).seeded(int(seed)))
    except BadAttribute as error:  # a name that is none
        raise BadAttribute(f"extend: {error}{at_line(user_line())}") from None


def replace_head(
    model: Model,
    head: Head,
    *,
    at: str | None = None,
    outputs: str | Sequence[str] | None = None,
    seed: int = 0,
) -> Model:
    """A model whose last weighted operator, and what follows it, gives way to `head`."""
    graph = model.graph
    if len(graph.outputs) != 1 and at is None:
        raise GraphError(
            f"replace_head: {graph.name!r} has {len(graph.outputs)} outputs; say with at= where "
            f"its body ends{at_line(user_line())}"
        )
    if outputs is None and len(graph.outputs) == 1:
        outputs = graph.output_names
    ends = _listed("replace_head", "at", at) if at is not None else None
    body = cut(model, ends or graph.value_name(_body_end(graph)))
    return extend(body, head, outputs=outputs, seed=seed)


def piped(graph: Graph) -> Symbol | tuple[Symbol, ...]:
    """What flows on from a graph: its output, or a tuple of its outputs."""
    return graph.outputs[0] if len(graph.outputs) == 1 else graph.outputs


def _body_end(graph: Graph) -> Symbol:
    """What the last weighted operator before the output reads."""
    for node in reversed(graph.nodes):
        if node.op_type in _WEIGHTED and any(
            s is not None and s.node.op is Weight for s in node.inputs[1:2]
        ):
            source = node.inputs[0]
            assert source is not None
            return source
    raise GraphError(
        f"replace_head: {graph.name!r} has no {', '.join(_WEIGHTED)} with a weight; say with at= "
        f"where its body ends{at_line(user_line())}"
    )


def _listed(what: str, key: str, names: str | Sequence[str]) -> list[str]:
    """Names as a list; TypeError where they are none, BadAttribute where one occurs twice."""
    given: object = names
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, (list, tuple)) or not all(isinstance(n, str) for n in found):
        raise TypeError(
            f"{what}: {key} is a name or a sequence of names, not {given!r}{at_line(user_line())}"
        )
    twice = [n for n in found if found.count(n) > 1]
    if twice:
        raise BadAttribute(f"{what}: {key} names {twice[0]!r} twice{at_line(user_line())}")
    return list(found)


def _are_symbols(made: Sequence[object]) -> bool:
    return bool(made) and all(isinstance(s, Symbol) for s in made)


def _told(made: object) -> str:
    """What came instead of symbols."""
    if isinstance(made, (list, tuple)):
        return f"[{', '.join(type(s).__name__ for s in made)}]"
    return type(made).__name__


def _as_before(graph: Graph, symbols: Sequence[Symbol]) -> list[str]:
    """The names of new outputs, of which some were outputs already and keep their names."""
    made = graph.extended(symbols)
    before = dict(zip(graph.outputs, graph.output_names, strict=True))
    names: list[str] = []
    for symbol, own in zip(symbols, made.output_names, strict=True):
        name = before.get(symbol, own)
        names.append(own if name in names else name)
    return names


class Editable(ABC):
    """What can be edited: a network, whose edited forms are networks of their own."""

    @property
    @abstractmethod
    def model(self) -> Model:
        """The graphs and what is said of them."""

    @abstractmethod
    def _edited(self, model: Model) -> Self:
        """One of the same kind that holds another model."""

    def __or__(self, layer: object) -> Any:
        """`network | layer`: the layer applied to the output, or to a tuple of the outputs."""
        return layer(piped(self.model.graph)) if callable(layer) else NotImplemented

    def cut(self, outputs: str | Sequence[str], inputs: str | Sequence[str] = ()) -> Self:
        """The part that computes the values of these names, as a network of its own.

        inputs: values that are fed instead of computed. Names, weights and what the file says
        stay, and so do the updates of the variables that are read. Raises GraphError for a name
        that does not exist, BadAttribute for no name or one twice.
        """
        return self._edited(cut(self.model, outputs, inputs))

    def extend(
        self, head: Head, *, outputs: str | Sequence[str] | None = None, seed: int = 0
    ) -> Self:
        """The network with more layers behind its output: `net.extend(softmax())`.

        head: layers, or a function of the output (of a tuple where there are several). outputs:
        names for what comes out now; an output that stays one keeps its name. seed: of the new
        weights; those that were there stay. Raises BadAttribute where the names are not as many as
        the outputs, or where the head gives no symbol.
        """
        return self._edited(extend(self.model, head, outputs=outputs, seed=seed))

    def to_float16(self, *, keep_io: bool = True) -> Self:
        """The network with float16 weights and arithmetic, half as large.

        keep_io: inputs and outputs stay float32. Weights beyond 65504 become that, with a warning;
        what ONNX does not define for float16, and bodies of If and Loop, stay float32.
        """
        from neuralsym.passes.half import to_float16  # late: it needs all operators

        given: object = keep_io
        if not isinstance(given, bool):
            raise TypeError(
                f"to_float16: keep_io is True or False, not {given!r}{at_line(user_line())}"
            )
        graph = to_float16(self.model.graph, keep_io)
        return self._edited(self.model.with_graph(graph))

    def replace_head(
        self,
        head: Head,
        *,
        at: str | None = None,
        outputs: str | Sequence[str] | None = None,
        seed: int = 0,
    ) -> Self:
        """The network with `head` in the place of its last weighted operator and what follows.

        `net.replace_head(dense(5))` makes a classifier of five classes. at: the name of the value
        that the head takes instead of what the last Gemm, MatMul or Conv with a weight reads.
        outputs: names; that of the old output otherwise. Raises GraphError where there is no such
        operator or value.
        """
        return self._edited(replace_head(self.model, head, at=at, outputs=outputs, seed=seed))

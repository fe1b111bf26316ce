"""What a network consists of: a row for each layer with its output, parameters and work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from neuralsym.core.dim import Dim, DimLike, product, substitute
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Variable, Weight
from neuralsym.core.scope import Scope
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import TensorType


@dataclass
class Row:
    """One layer, or one operator that no layer made."""

    name: str
    kind: str
    output: str
    parameters: int = 0
    macs: DimLike | None = 0


@dataclass
class Summary:
    """The rows of a network and their totals.

    `trainable` and `statistics` together are the parameters; `constants` are numbers that the
    program needs beside them. `macs` are multiply-adds of a batch of one; an expression where
    other dimensions have names, None where data decides.
    """

    name: str
    rows: list[Row] = field(default_factory=list)
    trainable: int = 0
    statistics: int = 0
    constants: int = 0
    nbytes: int = 0
    macs: DimLike | None = 0

    @property
    def parameters(self) -> int:
        return self.trainable + self.statistics

    def __str__(self) -> str:
        head = ("Layer", "Kind", "Output shape", "Parameters", "MACs")
        body = [
            (r.name, r.kind, r.output, f"{r.parameters:,}" if r.parameters else "", _macs(r.macs))
            for r in self.rows
        ]
        lines = [f"Network {self.name!r}", *table(head, body, right=(3, 4))]
        lines.append(f"Parameters: {self.parameters:,} ({self.nbytes / 1e6:,.2f} MB)")
        lines.append(f"  trainable: {self.trainable:,}, statistics: {self.statistics:,}")
        if self.constants:
            lines.append(f"Constants: {self.constants:,}")
        lines.append(f"MACs, batch of one: {_macs(self.macs) or '0'}")
        return "\n".join(lines)


def summarize(graph: Graph) -> Summary:
    """Count a graph; no weight is drawn for it."""
    made = Summary(graph.name)
    batch = {
        dim: 1
        for symbol in graph.inputs
        if isinstance(symbol.type, TensorType) and symbol.type.shape
        for dim in _names(symbol.type.shape[0])
    }
    rows: dict[object, Row] = {}
    counted: set[Node] = set()
    settled: set[object] = set()
    for node in graph.nodes:
        if node.op is Variable:
            name = graph.names[node]
            rows[node] = Row(name, "input", str(node.outputs[0].type))
        elif node.op is Weight:
            tensor = node.attrs["value"]
            made.nbytes += tensor.nbytes
            if node.attr("trainable"):
                made.trainable += tensor.size
            else:
                made.statistics += tensor.size
        elif node.op is Constant:
            made.constants += node.attrs["value"].size
        else:
            key: object = node.scope or node
            row = rows.get(key)
            if row is None:
                name = graph.names[node] if key is node else _scope_name(graph, node, key)
                kind = key.kind if isinstance(key, Scope) else node.op_type
                row = rows[key] = Row(name, kind, "")
            if key not in settled:
                row.output = ", ".join(str(s.type) for s in node.outputs)
            if graph.names[node] == row.name:  # what the layer gives; a mask may come beside it
                settled.add(key)
            row.macs = _plus(row.macs, _at_batch(multiply_adds(node), batch))
            for symbol in node.operands:
                if symbol.node.op is Weight and symbol.node not in counted:
                    counted.add(symbol.node)
                    row.parameters += symbol.node.attrs["value"].size
    made.rows = list(rows.values())
    for row in made.rows:
        made.macs = _plus(made.macs, row.macs)
    return made


def _scope_name(graph: Graph, node: Node, scope: object) -> str:
    """The name of a layer: that of its result, or what comes before the last part of a name."""
    assert isinstance(scope, Scope)
    if scope.result is node:
        return graph.names[node]
    return graph.names[node].rpartition("/")[0] or graph.names[node]


def _names(dim: object) -> Iterable[str]:
    return dim.names if isinstance(dim, Dim) else ()


def _plus(a: DimLike | None, b: DimLike | None) -> DimLike | None:
    return None if a is None or b is None else a + b


def _at_batch(macs: DimLike | None, batch: dict[str, int]) -> DimLike | None:
    return None if macs is None else substitute(macs, dict(batch))


def _elements(symbol: Symbol) -> DimLike | None:
    shape = symbol.tensor.shape
    if shape is None or None in shape:
        return None
    return product(d for d in shape if d is not None)


def _window(node: Node) -> DimLike | None:
    weights = node.inputs[1]
    assert weights is not None
    shape = weights.tensor.shape
    if shape is None or None in shape:
        return None
    return product(d for d in shape[1:] if d is not None)


def _matmul(node: Node, inner: int) -> DimLike | None:
    a = node.inputs[0]
    assert a is not None
    shape = a.tensor.shape
    size = shape[inner] if shape else None
    elements = _elements(node.outputs[0])
    return None if size is None or elements is None else elements * size


def _conv(node: Node) -> DimLike | None:
    elements, window = _elements(node.outputs[0]), _window(node)
    return None if elements is None or window is None else elements * window


def _conv_transpose(node: Node) -> DimLike | None:
    x = node.inputs[0]
    assert x is not None
    elements, window = _elements(x), _window(node)
    return None if elements is None or window is None else elements * window


def _recurrent(node: Node) -> DimLike | None:
    x, w, r = node.inputs[:3]
    assert x is not None and w is not None and r is not None
    steps = x.tensor.shape
    sizes = _elements(w), _elements(r)
    if not steps or None in steps[:2] or sizes[0] is None or sizes[1] is None:
        return None
    return product(d for d in steps[:2] if d is not None) * (sizes[0] + sizes[1])


_COUNTS: dict[str, Callable[[Node], DimLike | None]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MatMul": lambda node: _matmul(node, -1),
    "Gemm": lambda node: _matmul(node, 0 if node.attr("transA") else -1),
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}


def multiply_adds(node: Node) -> DimLike | None:
    """The multiply-adds of a product or window; 0 for other operators, None if data decides."""
    count = _COUNTS.get(node.op_type)
    return count(node) if count else 0


def _macs(macs: DimLike | None) -> str:
    if macs is None:
        return "depends on data"
    if isinstance(macs, Dim):
        return str(macs)
    return f"{macs:,}" if macs else ""


def table(
    head: Sequence[str], body: Sequence[Sequence[str]], right: Sequence[int] = ()
) -> list[str]:
    """Lines of a plain table with aligned columns; those in `right` to the right."""
    widths = [max(len(row[i]) for row in (head, *body)) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = [
            text.rjust(w) if i in right else text.ljust(w)
            for i, (text, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * w for w in widths)
    return [line(head), rule, *map(line, body), rule]

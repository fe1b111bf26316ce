"""Comparing the com.microsoft operators with onnxruntime, on the file that we write of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import constant, variable
from neuralsym.core.op import OPS
from neuralsym.core.registry import apply, load_operators
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import TensorType
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.kernels.host import LastResort
from neuralsym.cpu.options import Options
from neuralsym.engines import onnx as engine

Array = NDArray[Any]
DOMAIN = "com.microsoft"


def applied(
    name: str,
    inputs: Sequence[Array | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    outputs: int = 1,
    constants: Collection[int] = (),
    dynamic: Collection[tuple[int, int]] = (),
    domain: str = DOMAIN,
) -> tuple[Symbol, ...]:
    """The operator on variables `x0`, `x1`, ...; those in `constants` are constants.

    dynamic: the axes (input, axis) that have no size but a name; equal sizes have one name.
    """
    load_operators()
    symbols: list[Symbol | None] = []
    for i, value in enumerate(inputs):
        if value is None:
            symbols.append(None)
        elif i in constants:
            symbols.append(constant(value))
        else:
            shape = [f"n{n}" if (i, a) in dynamic else n for a, n in enumerate(value.shape)]
            symbols.append(variable(f"x{i}", tuple(shape), value.dtype))
    return apply(OPS[domain, name], symbols, attrs or {}, outputs=outputs)


def fed(inputs: Sequence[Array | None], constants: Collection[int] = ()) -> dict[str, Array]:
    pairs = enumerate(inputs)
    return {f"x{i}": v for i, v in pairs if v is not None and i not in constants}


def computed(
    symbols: Sequence[Symbol], feeds: Mapping[str, Array], *, allowed: Collection[str] = ()
) -> list[Array]:
    """The values by the compiled program; only `allowed` steps are left to Python."""
    named = {f"y{i}": symbol for i, symbol in enumerate(symbols)}
    cell = compile_graph(Graph(named), Options(threads=1))
    host = [s.op.__name__ for s in cell.program.steps if isinstance(s.kernel, LastResort)]
    assert set(host) <= set(allowed), host
    instance = cell.instance()
    for name, value in feeds.items():
        instance[name] = value
    instance.compute()
    made = [np.array(instance[name]) for name in named]
    for symbol, value in zip(symbols, made, strict=True):
        assert isinstance(symbol.type, TensorType)
        assert symbol.dtype.numpy == value.dtype
        shape = symbol.shape
        assert shape is not None and len(shape) == value.ndim
        pairs = zip(shape, value.shape, strict=True)
        assert all(a == b for a, b in pairs if isinstance(a, int)), (shape, value.shape)
    return made


def expected(symbols: Sequence[Symbol], feeds: Mapping[str, Array]) -> list[Array]:
    """What onnxruntime computes from the file that we write."""
    import onnxruntime

    graph = Graph({f"y{i}": symbol for i, symbol in enumerate(symbols)})
    model = engine.of_symbolic(graph)
    again = engine.to_symbolic(model)
    kinds = [(n.op.domain, n.op_type) for n in graph.nodes]
    assert [(n.op.domain, n.op_type) for n in again.nodes] == kinds
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    made: list[Array] = session.run([f"y{i}" for i in range(len(symbols))], dict(feeds))
    return made


def agree(
    name: str,
    inputs: Sequence[Array | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    tolerance: float = 1e-5,
    units: int = 0,
    **how: Any,
) -> list[Array]:
    """Our values and onnxruntime's: integers within `units`, reals within a share and as much."""
    symbols = applied(name, inputs, attrs, **how)
    feeds = fed(inputs, how.get("constants", ()))
    got, want = computed(symbols, feeds), expected(symbols, feeds)
    for a, b in zip(got, want, strict=True):
        close(a, b, tolerance=tolerance, units=units)
    return got


def close(a: Array, b: Array, *, tolerance: float = 1e-5, units: int = 0) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, a.dtype, b.shape, b.dtype)
    if a.dtype.kind in "iub":
        assert np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0) <= units
    else:
        wide = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


class Drawn:
    """Random arrays of one seed."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def reals(self, *shape: int, dtype: Any = np.float32) -> Array:
        return self.rng.standard_normal(shape).astype(dtype)

    def bytes(self, *shape: int, signed: bool = False) -> Array:
        if signed:
            return self.rng.integers(-128, 128, shape).astype(np.int8)
        return self.rng.integers(0, 256, shape).astype(np.uint8)

    def whole(self, *shape: int, below: int = 2, dtype: Any = np.int32) -> Array:
        return self.rng.integers(0, below, shape).astype(dtype)


def number(value: Any, dtype: Any = np.float32) -> Array:
    return np.array(value, dtype)

"""What one draw of a layer is, and what must hold for the file that it makes.

A table maps the name of a layer to a strategy that draws a `Case`; `drawn_layers.py` joins them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from hypothesis import strategies as st

from neuralsym import Network, NeuralsymError, Symbol
from neuralsym import layers as nn
from neuralsym.core.dim import evaluate
from neuralsym.engines import onnx as engine

Strategy = st.SearchStrategy["Case"]


@dataclasses.dataclass(frozen=True)
class Given:
    """One input: what is fed, and which of its axes `input` leaves open."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    free: frozenset[int] = frozenset({0})
    least: int = 0
    """Integers are drawn from here ..."""
    most: int = 5
    """... to here."""

    def fed(self, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        if self.dtype == "bool":
            return rng.random(self.shape) < 0.5
        if self.dtype == "string":
            return rng.choice(["a", "b", "c", "", "other"], self.shape).astype(object)
        if np.dtype(self.dtype).kind in "iu":
            return rng.integers(self.least, self.most + 1, self.shape).astype(self.dtype)
        return rng.standard_normal(self.shape).astype(self.dtype)


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer's settings and the inputs that it is applied to; one input comes alone."""

    settings: dict[str, Any]
    inputs: tuple[Given, ...]
    alone: bool = True
    """Whether a single input comes as itself, not as a tuple of one."""


def network_of(name: str, case: Case) -> tuple[Network, dict[str, np.ndarray[Any, Any]]] | None:
    """The network of that layer and what it is fed; None where the layer refuses its settings.

    A refusal is an error of ours that names the layer and the line below.
    """
    shapes: list[tuple[int | str, ...]] = []
    for i, given in enumerate(case.inputs):
        own = [f"X{i}_{a}" if a in given.free else n for a, n in enumerate(given.shape)]
        if 0 in given.free:
            own[0] = "N"
        shapes.append(tuple(own))
    xs: list[Symbol] = [
        nn.input(shape, given.dtype, name=f"x{i}")
        for i, (shape, given) in enumerate(zip(shapes, case.inputs, strict=True))
    ]
    layer: Callable[..., Any] = getattr(nn, name)
    try:
        made = layer(**case.settings)(xs[0] if case.alone and len(xs) == 1 else tuple(xs))
    except NeuralsymError as error:
        text, kind = str(error), getattr(layer, "kind", name)
        if kind not in text or not re.search(r"drawn_case\.py:\d+", text):
            raise AssertionError("the refusal does not name the layer and the line") from error
        return None
    rng = np.random.default_rng(len(str(case)))
    feed = {f"x{i}": given.fed(rng) for i, given in enumerate(case.inputs)}
    # Two outputs of one name would be an input that passes through.
    outputs = [o if o not in xs else o + 0 for o in ([made] if isinstance(made, Symbol) else made)]
    return outputs | nn.get_network(), feed


def check(name: str, case: Case, *, values: bool = False) -> bool:
    """The checker takes the file, onnxruntime's shapes are those inferred; False if refused.

    `values`: our results must be onnxruntime's too.
    """
    found = network_of(name, case)
    if found is None:
        return False
    network, feed = found
    proto = engine.of_symbolic(network.model)
    onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return True  # it has no kernel of that operator for these ranks or types
    sizes: dict[str, int] = {}
    for port in network.inputs:
        assert port.shape is not None
        for size, n in zip(port.shape, feed[port.name].shape, strict=True):
            if not isinstance(size, int):
                sizes[str(size)] = n
    inferred = []
    for port in network.outputs:
        assert port.shape is not None, f"{port}: no shape was inferred"
        assert None not in port.shape, f"{port}: a size was not inferred"
        inferred.append(tuple(evaluate(d, sizes) for d in port.shape if d is not None))
    if any(n < 1 for shape in inferred for n in shape):
        return False  # a window that was to slide over an open size does not fit this one
    results = session.run(None, feed)
    for port, shape, result in zip(network.outputs, inferred, results, strict=True):
        assert shape == result.shape, f"{port}: inferred {shape}, got {result.shape}"
        assert np.dtype(str(port.dtype)) == result.dtype
    if values:
        for ours, theirs in zip(network.run(feed).values(), results, strict=True):
            assert ours.shape == theirs.shape
            scale = max(1.0, float(np.abs(theirs).max(initial=0.0)))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * scale)
    return True

"""Files of an older opset, checked and run: what the tests of lowering share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernelThere

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Symbol
from neuralsym.engines import onnx as engine
from neuralsym.engines.onnx.checking import check_draft
from neuralsym.engines.onnx.write import draft, tensor_proto

Array = np.ndarray[Any, Any]
F = np.float32


def lowered(graph: Graph, opset: int) -> onnx.ModelProto:
    """The model in that opset, passed by the checker with strict inference."""
    made = draft(graph, opset)
    check_draft(made)
    model = made.whole(map(tensor_proto, made.stored))
    assert [i.version for i in model.opset_import if not i.domain] == [opset]
    return model


def run(model: onnx.ModelProto, feed: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = {i.name for i in session.get_inputs()}
    values: list[Array] = session.run(None, {k: v for k, v in feed.items() if k in names})
    return values


def agree(
    graph: Graph,
    feed: dict[str, Array],
    opsets: Sequence[int],
    wanted: Sequence[Array] | None = None,
    rtol: float = 2e-5,
) -> None:
    """Each opset's file gives what is wanted, or what the file of the default opset gives."""
    if wanted is None:
        wanted = run(engine.of_symbolic(graph), feed)
    for opset in opsets:
        try:
            got = run(lowered(graph, opset), feed)
        except NoKernelThere:  # a type that onnxruntime leaves out of that version
            continue
        for a, b in zip(got, wanted, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), opset
            if a.dtype.kind in "biu":
                np.testing.assert_array_equal(a, b, err_msg=str(opset))
            else:
                np.testing.assert_allclose(a, b, rtol, 2e-6, err_msg=str(opset))


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(F)


def made(op: str, *inputs: Any, outputs: int = 1, **attrs: Any) -> tuple[Symbol, ...]:
    return apply(find_op(op), inputs, attrs, outputs=outputs)


def variable(array: Array, name: str = "x") -> Symbol:
    return ops.variable(name, array.shape, array.dtype)


ALL = range(7, 26)
"""The opsets from the lowest that can be asked for to the newest that onnxruntime runs."""
SOME = (7, 9, 10, 12, 14, 17, 20)

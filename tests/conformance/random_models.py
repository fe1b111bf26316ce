"""Models of one node for tests that draw them, and what other implementations make of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper

from neuralsym.core.schema import VERSIONS
from neuralsym.dtypes import NumberType

EXTREME = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    1e-40,
    3.4e38,
    -88.8,
    1e-3,
    -7.3,
    np.inf,
    -np.inf,
    np.nan,
)
"""Floats that kernels get wrong first."""
RUNTIME_OPSET = 22
"""An opset that onnxruntime has nearly all operators of."""


def one_node(
    op: str,
    arrays: Sequence[NDArray[Any] | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    outputs: int = 1,
    domain: str = "",
    opset: int = VERSIONS[""],
) -> onnx.ModelProto:
    """A model with an input i0, i1, ... for each array (None: omitted), outputs o0, o1, ..."""
    given = {f"i{k}": a for k, a in enumerate(arrays) if a is not None}
    names = [f"i{k}" if f"i{k}" in given else "" for k in range(len(arrays))]
    results = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **(attrs or {}))
    graph = helper.make_graph(
        [node],
        op,
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in given.items()
        ],
        [helper.make_empty_tensor_value_info(n) for n in results],
    )
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, VERSIONS.get(domain, 1)))
    ir_version = helper.find_min_ir_version_for(imports, ignore_unknown=True)
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def feed_of(arrays: Sequence[NDArray[Any] | None]) -> dict[str, NDArray[Any]]:
    return {f"i{k}": a for k, a in enumerate(arrays) if a is not None}


def by_reference(model: onnx.ModelProto, feed: Mapping[str, Any]) -> list[Any] | None:
    """What onnx's reference evaluator gives; None where it cannot."""
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(ReferenceEvaluator(model).run(None, dict(feed)))
        except Exception:  # whatever it raises, it has no answer
            return None


def by_onnxruntime(model: onnx.ModelProto, feed: Mapping[str, Any]) -> list[Any] | None:
    """What onnxruntime gives; None where it does not take the model."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, dict(feed)))
    except Exception:  # whatever it raises, it has no answer
        return None


def draw_array(draw: Any, kind: NumberType, shape: Sequence[int]) -> NDArray[Any]:
    """An array with a good share of extreme values."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="values"))
    shape = tuple(shape)
    if kind is NumberType.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    rare = rng.random(shape) < 0.4
    if kind.is_integer:
        limits = np.iinfo(kind.numpy)
        pool = [limits.min, limits.max, 0, 1, 2, limits.max - 1, limits.min + 1]
        plain = rng.integers(max(limits.min, -9), 10, shape).astype(kind.numpy)
        return np.where(rare, rng.choice(np.array(pool, kind.numpy), shape), plain)
    with np.errstate(over="ignore"):
        extreme = rng.choice(np.array(EXTREME), shape)
        return np.where(rare, extreme, rng.normal(size=shape) * 3).astype(kind.numpy)

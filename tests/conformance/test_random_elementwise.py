"""Elementwise operators drawn with types, broadcast and empty shapes, attributes and extremes.

The result must be that of onnx's reference evaluator or of onnxruntime: where they differ each has
its own slips (integer overflow, the sign of zero, denormals).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_models import (
    RUNTIME_OPSET,
    by_onnxruntime,
    by_reference,
    draw_array,
    feed_of,
    one_node,
)

from neuralsym import load
from neuralsym.core.op import OPS, Op
from neuralsym.core.schema import onnx_type_name
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import Elementwise

ELSEWHERE = {"Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "StringConcat"}
"""Operators with tests of their own, whose inputs do not broadcast freely."""
_erf = np.frompyfunc(math.erf, 1, 1)


def _gelu(x: NDArray[Any], approximate: str = "none") -> NDArray[Any]:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)).astype(np.float64))


EXACT: dict[str, Callable[..., NDArray[Any]]] = {
    "Erf": lambda x: np.asarray(_erf(x)).astype(np.float64),
    "Gelu": _gelu,
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
}
"""The formulas in float64, where the others compute with float32 constants."""
OPERATORS = sorted(
    name
    for (domain, name), op in OPS.items()
    if domain == "" and issubclass(op, Elementwise) and name not in ELSEWHERE
)
KINDS = tuple(
    kind
    for kind in NumberType
    if kind in ("bool", "float16", "float32", "float64") or kind.value.lstrip("uint") in "8163264"
)
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "BitShift": [{"direction": "LEFT"}, {"direction": "RIGHT"}],
    "Mod": [{"fmod": 0}, {"fmod": 1}],
    "IsInf": [{}, {"detect_negative": 0}, {"detect_positive": 0}],
    "Gelu": [{}, {"approximate": "tanh"}],
    "LeakyRelu": [{}, {"alpha": -0.5}],
    "Selu": [{}, {"alpha": 0.5, "gamma": 2.0}],
    "Shrink": [{}, {"lambd": 1.5, "bias": 0.25}],
    "HardSigmoid": [{}, {"alpha": 0.5, "beta": 0.25}],
}
ROUNDING = {2: 4 * 2.0**-11, 4: 16 * 2.0**-24, 8: 64 * 2.0**-53}
"""Relative: functions are exact to 2 units in the last place, formulas are several of them."""
ABSOLUTE = {2: 2.0**-14, 4: 2.0**-22, 8: 2.0**-51}
"""Of results near 0 that are differences of terms near 1, such as 1 + erf(x)."""


def kinds_of(op: type[Op], variable: str) -> list[NumberType]:
    allowed = next(f.allowed for f in op.schema.inputs if f.variable == variable)
    return [kind for kind in KINDS if onnx_type_name(kind) in allowed]


@st.composite
def applications(draw: Any, name: str) -> tuple[list[NDArray[Any]], dict[str, Any]]:
    """Inputs and attributes of one application."""
    op = OPS["", name]
    attrs = draw(st.sampled_from(ATTRIBUTES.get(name, [{}])), label="attributes")
    formals = list(op.schema.inputs)
    if formals[-1].kind == "variadic":
        formals = formals[:-1] + formals[-1:] * draw(st.integers(1, 3))
    variables = dict.fromkeys(f.variable for f in formals)
    kinds = {v: draw(st.sampled_from(kinds_of(op, v)), label=v) for v in variables}
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 17, 0]), max_size=3), label="shape")
    arrays = []
    for k, formal in enumerate(formals):
        own = list(shape)
        if len(formals) > 1 and name != "Clip":
            own = [1 if draw(st.booleans()) else d for d in own]
            if name != "PRelu" or k:
                own = own[draw(st.integers(0, len(own))) :]
        if k and name == "Clip":
            own = []
        arrays.append(draw_array(draw, kinds[formal.variable], own))
    if name == "SwiGLU":  # nothing is broadcast
        arrays = [draw_array(draw, kinds[f.variable], shape) for f in formals]
    if name == "PRelu":  # the slope broadcasts to the input, not the other way
        arrays[0] = draw_array(draw, kinds[formals[0].variable], shape)
    if name == "BitShift":
        arrays[1] = arrays[1] % arrays[1].dtype.type(8)
    if name == "Mod" and arrays[0].dtype.kind == "f":
        attrs = {"fmod": 1}
    return arrays, attrs


def agrees(value: NDArray[Any], wanted: Any) -> bool:
    wanted = np.asarray(wanted)
    assert value.dtype == wanted.dtype
    assert value.shape == wanted.shape
    if value.dtype.kind in "biu":
        return bool(np.all(value == wanted))
    size = value.dtype.itemsize
    a, b = value.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= ABSOLUTE[size] + ROUNDING[size] * np.abs(b)
    return bool(np.all((a == b) | (np.isnan(a) & np.isnan(b)) | near))


@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=6)
@given(data=st.data())
def test_elementwise(name: str, data: st.DataObject) -> None:
    arrays, attrs = data.draw(applications(name))
    if name == "Div" and arrays[0].dtype.kind in "iu":
        assume(np.all(arrays[1] != 0))  # undefined
    if name == "Mod" and arrays[0].dtype.kind in "iu":
        assume(np.all(arrays[1] != 0))
    if name == "Shrink" and arrays[0].dtype.kind in "iu":  # others go by way of float64
        arrays[0] = arrays[0] % arrays[0].dtype.type(100)
    if name == "SwiGLU":  # below, others' exp overflows and their sigmoid is 0 too early
        arrays[0] = np.maximum(arrays[0], -10)
    if name == "Pow" and arrays[0].dtype.kind == "i":
        arrays[0], arrays[1] = arrays[0] % 5, np.abs(arrays[1] % arrays[1].dtype.type(6))
    feed = feed_of(arrays)
    model = one_node(name, arrays, attrs)
    (value,) = load(model).run(feed).values()
    answers = [
        by_reference(model, feed),
        by_onnxruntime(one_node(name, arrays, attrs, opset=RUNTIME_OPSET), feed),
    ]
    known = [answer[0] for answer in answers if answer is not None]
    if name in EXACT and arrays[0].dtype == np.float64:
        with np.errstate(all="ignore"):
            known = [np.asarray(EXACT[name](arrays[0], **attrs))]
    assume(known)
    if not any(agrees(value, wanted) for wanted in known):
        wanted = np.asarray(known[0])
        np.testing.assert_allclose(value, wanted, rtol=0, atol=0, err_msg=f"{attrs}\n{feed}")

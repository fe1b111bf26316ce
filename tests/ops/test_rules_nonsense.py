"""No attribute, shape or value makes a rule crash, hang or claim memory: it answers or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_rules_conformance import OPERATORS

from neuralsym.core.infer import infer, type_name
from neuralsym.core.leaves import constant, variable
from neuralsym.core.op import OPS, Call
from neuralsym.core.types import TensorType
from neuralsym.dtypes import NumberType
from neuralsym.errors import NeuralsymError

SIZES = st.sampled_from([0, 1, 2, 3, 4, 6, 8, 2**20, "N", "H", "H*2 + 1", None])
SHAPES = st.lists(SIZES, max_size=5)
INTEGERS = st.integers(-4, 8) | st.sampled_from([2**31, 2**40, -(2**62), 2**63 - 1])
FLOATS = st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e30, float("nan"), float("inf")])
WORDS = [
    "SAME_UPPER",
    "VALID",
    "NOTSET",
    "linear",
    "reflect",
    "add",
    "ij,jk->ik",
    "...i",
    "DCR",
    "",
]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "INT": INTEGERS,
    "INTS": st.lists(INTEGERS, max_size=5).map(tuple),
    "FLOAT": FLOATS,
    "FLOATS": st.lists(FLOATS, max_size=4).map(tuple),
    "STRING": st.sampled_from(WORDS),
}
LIKELY = (NumberType.FLOAT32, NumberType.INT64, NumberType.UINT8, NumberType.BOOL)
LIKELY += (NumberType.INT32,)


@st.composite
def calls(draw, name):
    op = OPS["", name]
    schema = op.schema
    bound: dict[str, NumberType] = {}
    inputs = []
    for i in range(draw(st.integers(schema.minimum_inputs, min(schema.maximum_inputs, 9)))):
        formal = schema.formal_input(i)
        if formal.kind == "optional" and draw(st.booleans()):
            inputs.append(None)
            continue
        if formal.variable not in bound:
            allowed = [k for k in LIKELY if type_name(TensorType(k)) in formal.allowed]
            bound[formal.variable] = draw(st.sampled_from(allowed))
        kind = bound[formal.variable]
        if kind is NumberType.INT64 and draw(st.integers(0, 3)):
            entries = draw(st.lists(INTEGERS, max_size=5))
            value = np.array(entries, np.int64)
            inputs.append(
                constant(value[0] if len(entries) == 1 and draw(st.booleans()) else value)
            )
        else:
            # of several floats most have the first one's shape, so that rules are passed
            same = i and inputs[0] is not None and draw(st.booleans())
            shape = inputs[0].shape if same else tuple(draw(SHAPES))
            inputs.append(variable(f"i{i}", shape, kind))
    attrs = {}
    for spec in schema.attributes.values():
        if spec.kind in VALUES and (spec.required or draw(st.integers(0, 2)) == 0):
            attrs[spec.name] = draw(VALUES[spec.kind])
    low = max(schema.minimum_outputs, 1)
    count = draw(st.integers(low, max(low, min(schema.maximum_outputs, 4))))
    return Call(op, tuple(inputs), attrs, count)


@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_nonsense_is_answered_or_refused(name, data):
    call = data.draw(calls(name))
    try:
        types, known = infer(call)
    except NeuralsymError:
        return
    for type_, value in zip(types, known, strict=True):
        if isinstance(type_, TensorType) and type_.shape is not None:
            assert all(not isinstance(d, int) or d >= 0 for d in type_.shape)
            if value is not None:
                assert len(value.shape) == len(type_.shape)

"""Windows and the mel matrix against the reference evaluator, their sizes late or early."""

from __future__ import annotations

import numpy as np
import pytest
from host_free import fed, run
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from neuralsym import ops
from neuralsym.cpu.kernels.signal_windows import mel_edges
from neuralsym.dtypes import number_type
from neuralsym.errors import BadAttribute, ExecutionError

TYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint64")
WINDOWS = {
    "hann_window": lambda t: np.sin(t / 2) ** 2,
    "hamming_window": lambda t: 25 / 46 - 21 / 46 * np.cos(t),
    "blackman_window": lambda t: 0.42 - 0.5 * np.cos(t) + 0.08 * np.cos(2 * t),
}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(WINDOWS)),
    st.integers(0, 40),
    st.booleans(),
    st.sampled_from(TYPES),
    st.sampled_from(["int32", "int64"]),
)
def test_windows(name, size, periodic, dtype, index):
    arrays = {"size": np.array(size, index)}
    y = getattr(ops, name)(*fed(arrays), periodic=int(periodic), output_datatype=dtype)
    made = run(y, arrays)
    kind = number_type(dtype)
    with np.errstate(invalid="ignore"):
        turns = np.arange(size) * (2 * np.pi) / np.float64(size if periodic else size - 1)
    wanted = WINDOWS[name](turns)
    assert made.dtype == kind.numpy and made.shape == (size,)
    if kind.is_float:
        unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, 2.0**-22)
        np.testing.assert_allclose(made.astype(np.float64), wanted, rtol=unit, atol=1e-15)
    elif size > 1:  # a whole number is what is left of the weight when it is cut off
        assert np.all(np.abs(made - np.trunc(np.round(wanted, 12))) <= 0)
    if kind.is_float and size:
        whole = made if not periodic else made[1:]
        np.testing.assert_array_equal(whole, whole[::-1])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 20),
    st.integers(2, 64),
    st.sampled_from([8000, 16000, 44100]),
    st.floats(0, 0.2),
    st.floats(0.25, 0.45),
    st.booleans(),
    st.sampled_from(["float32", "float64", "float16"]),
)
def test_mel_matrices(bins, length, rate, low, high, computed, dtype):
    values = [np.array(v, np.int64) for v in (bins, length, rate)]
    values += [np.array(f * rate, np.float64) for f in (low, high)]
    arrays = dict(zip("blrfg", values, strict=True))
    given_inputs = fed(arrays) if computed else values
    y = ops.mel_weight_matrix(*given_inputs, output_datatype=dtype)
    if computed:
        made = run(y, arrays)
        assert made.dtype == dtype
        np.testing.assert_allclose(made, reference(values), rtol=1e-3, atol=1e-7)
    assert y.shape == (None, None) if computed else y.shape == (length // 2 + 1, bins)


def reference(values):
    node = helper.make_node("MelWeightMatrix", list("blrfg"), ["y"], output_datatype=11)
    kinds = [TensorProto.INT64] * 3 + [TensorProto.DOUBLE] * 2
    inputs = [helper.make_tensor_value_info(n, k, []) for n, k in zip("blrfg", kinds, strict=True)]
    output = helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)
    graph = helper.make_graph([node], "mel", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return ReferenceEvaluator(model).run(None, dict(zip("blrfg", values, strict=True)))[0]


def test_triangles_that_leave_the_spectrum_are_cut_off():
    edges = mel_edges(4, 16, 8000, 0.0, 16000.0)
    assert edges[-1] > 8
    values = [np.array(v) for v in (4, 16, 8000)] + [np.array(v, np.float64) for v in (0, 16000)]
    arrays = dict(zip("blrfg", values, strict=True))
    made = run(ops.mel_weight_matrix(*fed(arrays)), arrays)
    assert made.shape == (9, 4) and made.max() <= 1 and made.min() >= 0


def test_sizes_that_cannot_be_are_refused():
    with pytest.raises(BadAttribute, match="size=-1 is negative"):
        ops.hann_window(-1)
    arrays = {"size": np.array(-3)}
    with pytest.raises(ExecutionError, match="size=-3 is negative"):
        run(ops.hann_window(*fed(arrays)), arrays)
    with pytest.raises(BadAttribute, match="sample_rate=0"):
        ops.mel_weight_matrix(4, 16, 0, 0.0, 100.0)

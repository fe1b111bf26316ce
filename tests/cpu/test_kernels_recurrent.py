"""RNN, GRU and LSTM against a plain statement of the specification in float64, and onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_cases import SETS, cell_of, leaves, run_cell, run_op

from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.errors import ShapeMismatch
from neuralsym.ops.evaluate import evaluate

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
COUNT = {"RNN": 1, "GRU": 2, "LSTM": 3}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
FUNCTIONS = {
    "relu": (lambda x, a, b: np.maximum(x, 0), ()),
    "tanh": (lambda x, a, b: np.tanh(x), ()),
    "sigmoid": (lambda x, a, b: 1 / (1 + np.exp(-x)), ()),
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "leakyrelu": (lambda x, a, b: np.where(x >= 0, x, a * x), (0.01,)),
    "thresholdedrelu": (lambda x, a, b: np.where(x >= a, x, 0), (1.0,)),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), (1.0, 1.0)),
    "hardsigmoid": (lambda x, a, b: np.minimum(np.maximum(a * x + b, 0), 1), (0.2, 0.5)),
    "elu": (lambda x, a, b: np.where(x >= 0, x, a * (np.exp(np.minimum(x, 0)) - 1)), (1.0,)),
    "softsign": (lambda x, a, b: x / (1 + abs(x)), ()),
    "softplus": (lambda x, a, b: np.logaddexp(0, x), ()),
}


def functions_of(kind, attrs, directions):
    """Each takes the next alpha and the next beta that it has use for."""
    alphas = iter(attrs.get("activation_alpha", ()))
    betas = iter(attrs.get("activation_beta", ()))
    clip = attrs.get("clip")
    made = []
    for name in attrs.get("activations", DEFAULTS[kind] * directions):
        function, defaults = FUNCTIONS[name.lower()]
        a = next(alphas, defaults[0]) if defaults else 0
        b = next(betas, defaults[1]) if len(defaults) > 1 else 0

        def applied(x, function=function, a=a, b=b):
            return function(x if clip is None else np.clip(x, -clip, clip), a, b)

        made.append(applied)
    return made


def exact(kind, arrays, attrs):
    """Y, Y_h (and Y_c) by the equations of the specification, one batch entry after another."""
    x, w, r, b, lengths, h0, c0, p = (
        None if a is None else np.asarray(a).astype(np.float64) for a in [*arrays, *[None] * 8][:8]
    )
    layout = attrs.get("layout", 0)
    if layout:
        x = x.swapaxes(0, 1)
        h0, c0 = (None if s is None else s.swapaxes(0, 1) for s in (h0, c0))
    steps, batch, _ = x.shape
    directions, _, hidden = r.shape
    y = np.zeros((steps, directions, batch, hidden))
    last_h, last_c = np.zeros((2, directions, batch, hidden))
    functions = functions_of(kind, attrs, directions)
    for d in range(directions):
        f = functions[d * COUNT[kind] : (d + 1) * COUNT[kind]]
        wd, rd = (m[d].reshape(GATES[kind], hidden, -1) for m in (w, r))
        biases = np.zeros((2, GATES[kind], hidden))
        if b is not None:
            biases = b[d].reshape(2, GATES[kind], hidden)
        peep = np.zeros((3, hidden)) if p is None else p[d].reshape(3, hidden)
        for n in range(batch):
            length = steps if lengths is None else int(lengths[n])
            h = np.zeros(hidden) if h0 is None else h0[d, n]
            c = np.zeros(hidden) if c0 is None else c0[d, n]
            backwards = attrs.get("direction") == "reverse" or d == 1
            for t in range(length)[:: -1 if backwards else 1]:
                into = wd @ x[t, n] + biases[0]
                if kind == "RNN":
                    h = f[0]((into + rd @ h + biases[1])[0])
                elif kind == "GRU":
                    z, k = f[0]((into + rd @ h + biases[1])[:2])
                    if attrs.get("linear_before_reset"):
                        new = f[1](into[2] + k * (rd[2] @ h + biases[1, 2]))
                    else:
                        new = f[1](into[2] + rd[2] @ (k * h) + biases[1, 2])
                    h = (1 - z) * new + z * h
                else:
                    i, o, g, q = into + rd @ h + biases[1]
                    i = f[0](i + peep[0] * c)
                    g = 1 - i if attrs.get("input_forget") else f[0](g + peep[2] * c)
                    c = g * c + i * f[1](q)
                    h = f[0](o + peep[1] * c) * f[2](c)
                y[t, d, n] = h
            last_h[d, n], last_c[d, n] = h, c
    results = [y, last_h, last_c][: 3 if kind == "LSTM" else 2]
    if layout:
        results = [y.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in results[1:])]
    return results


def operands(draw, kind, dtype, rng):
    """Arrays and attributes of one application."""
    steps, batch = draw(st.integers(0, 5)), draw(st.integers(0, 9))
    features, hidden = draw(st.integers(0, 20)), draw(st.sampled_from([1, 2, 3, 5, 8, 16, 17, 33]))
    directions = draw(st.sampled_from([1, 2]))
    layout = draw(st.booleans())
    gates = GATES[kind]

    def numbers(*shape):
        return (rng.standard_normal(shape) / np.sqrt(max(shape[-1], 4))).astype(dtype)

    x = numbers(*((batch, steps) if layout else (steps, batch)), features) * 3
    state = (batch, directions, hidden) if layout else (directions, batch, hidden)
    arrays = [
        x.astype(dtype),
        numbers(directions, gates * hidden, features),
        numbers(directions, gates * hidden, hidden),
        numbers(directions, 2 * gates * hidden) * 3 if draw(st.booleans()) else None,
        rng.integers(0, steps + 1, batch).astype(np.int32) if draw(st.booleans()) else None,
        numbers(*state) if draw(st.booleans()) else None,
    ]
    attrs = {"hidden_size": hidden, "layout": int(layout)}
    attrs["direction"] = (
        "bidirectional" if directions == 2 else draw(st.sampled_from(["forward", "reverse"]))
    )
    if kind == "LSTM":
        arrays.append(numbers(*state) if draw(st.booleans()) else None)
        arrays.append(numbers(directions, 3 * hidden) if draw(st.booleans()) else None)
        attrs["input_forget"] = draw(st.integers(0, 1))
    if kind == "GRU":
        attrs["linear_before_reset"] = draw(st.integers(0, 1))
    if draw(st.booleans()):
        attrs["clip"] = 0.75
    if draw(st.integers(0, 2)) == 2:
        names = st.sampled_from(["Tanh", "sigmoid", "HARDSIGMOID", "Softsign", "ScaledTanh"])
        count = COUNT[kind] * directions
        attrs["activations"] = draw(st.lists(names, min_size=count, max_size=count))
        attrs["activation_alpha"] = draw(st.sampled_from([[], [0.5], [0.25, 0.5, 0.75]]))
        attrs["activation_beta"] = draw(st.sampled_from([[], [0.25, 0.5]]))
    return [None if a is None else np.ascontiguousarray(a.astype(a.dtype)) for a in arrays], attrs


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.data(),
    st.sampled_from(["RNN", "GRU", "LSTM"]),
    st.sampled_from(["float32", "float32", "float64", "float16"]),
    st.sampled_from(SETS),
)
def test_every_attribute(data, kind, dtype, isa):
    draw = data.draw
    arrays, attrs = operands(draw, kind, dtype, np.random.default_rng(draw(st.integers(0, 9))))
    stored = tuple(draw(st.sets(st.sampled_from([1, 2, 3, 7]))))
    stored = [i for i in stored if i < len(arrays) and arrays[i] is not None]
    free = {0: (0, 1)} if draw(st.booleans()) else {}
    outputs = draw(st.integers(1, 3 if kind == "LSTM" else 2))
    got = run_op(
        find_op(kind), arrays, attrs, stored=stored, free=free, outputs=outputs,
        kernel="recurrent", threads=draw(st.sampled_from([1, 1, 2])), isa=isa,
    )  # fmt: skip
    bound = {"float32": 1e-5, "float64": 1e-13, "float16": 2e-3}[dtype]
    for y, true in zip(got, exact(kind, arrays, attrs), strict=False):
        assert y.dtype == np.dtype(dtype) and y.shape == true.shape
        np.testing.assert_allclose(y.astype(np.float64), true, rtol=bound, atol=bound)


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from(["RNN", "GRU", "LSTM"]))
def test_values_of_constants(data, kind):
    """onnx's reference evaluator, which tells those of other operators, ignores lengths."""
    arrays, attrs = operands(data.draw, kind, "float64", np.random.default_rng(7))
    made, _ = leaves(arrays)
    count = 3 if kind == "LSTM" else 2
    node = apply(find_op(kind), made, attrs, outputs=count)[0].node
    for y, true in zip(evaluate(node, arrays), exact(kind, arrays, attrs), strict=True):
        assert y.shape == true.shape
        np.testing.assert_allclose(y, true, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_each_activation(name):
    rng = np.random.default_rng(1)
    arrays = [
        rng.standard_normal(s).astype(np.float32) * 2
        for s in ((4, 3, 5), (1, 7, 5), (1, 7, 7), (1, 14))
    ]
    arrays[2] /= 8
    for attrs in ({}, {"activation_alpha": [0.3], "activation_beta": [0.2]}):
        attrs = {**attrs, "activations": [name.upper()], "hidden_size": 7}
        (got,) = run_op(find_op("RNN"), arrays, attrs, stored=(1, 2, 3), kernel="recurrent")
        true = exact("RNN", arrays, attrs)[0]
        np.testing.assert_allclose(got, true, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", list(GATES))
def test_agrees_with_onnxruntime(kind):
    """All attributes that onnxruntime knows; it has neither layout 1 nor bfloat16.

    It does not clip what goes into the last activation of an LSTM, though the specification says
    that `clip` is applied to the input of activations: here the cell state stays below the bound.
    """
    import onnxruntime
    from onnx import helper

    rng = np.random.default_rng(2)
    steps, batch, features, hidden, gates = 3, 6, 7, 19, GATES[kind]
    shapes = {
        "X": (steps, batch, features),
        "W": (2, gates * hidden, features),
        "R": (2, gates * hidden, hidden),
        "B": (2, 2 * gates * hidden),
        "L": (batch,),
        "H": (2, batch, hidden),
        "C": (2, batch, hidden),
        "P": (2, 3 * hidden),
    }
    if kind != "LSTM":
        shapes.pop("C"), shapes.pop("P")
    feeds = {n: (rng.standard_normal(s) * 0.4).astype(np.float32) for n, s in shapes.items()}
    feeds["X"] *= 5
    feeds["L"] = np.array([3, 1, 3, 2, 2, 3], np.int32)
    attrs = {"direction": "bidirectional", "hidden_size": hidden, "clip": 3.0}
    if kind == "GRU":
        attrs["linear_before_reset"] = 1
    outputs = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(kind, list(feeds), outputs, **attrs)
    values = [
        helper.make_tensor_value_info(n, 6 if n == "L" else 1, a.shape) for n, a in feeds.items()
    ]
    results = [helper.make_tensor_value_info(n, 1, None) for n in outputs]
    model = helper.make_model(
        helper.make_graph([node], "g", values, results),
        opset_imports=[helper.make_opsetid("", 14)],
    )
    model.ir_version = 8
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, feeds)
    got = run_op(find_op(kind), list(feeds.values()), attrs, stored=(1, 2, 3), outputs=len(outputs))
    for y, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(y, other, rtol=1e-5, atol=1e-5)


def test_a_large_layer_and_batch():
    """Several tiles of batch entries, several blocks of units, more k than one chunk."""
    rng = np.random.default_rng(3)
    shapes = ((6, 11, 300), (1, 4 * 130, 300), (1, 4 * 130, 130), (1, 8 * 130))
    arrays = [(rng.standard_normal(s) * 0.1).astype(np.float32) for s in shapes]
    got = run_op(
        find_op("LSTM"), arrays, {"hidden_size": 130}, stored=(1, 2, 3), outputs=3, threads=2
    )
    for y, true in zip(got, exact("LSTM", arrays, {}), strict=True):
        np.testing.assert_allclose(y, true, rtol=1e-4, atol=2e-6)


def test_bfloat16():
    import ml_dtypes

    rng = np.random.default_rng(4)
    shapes = ((3, 2, 4), (1, 15, 4), (1, 15, 5), (1, 30))
    arrays = [(rng.standard_normal(s) * 0.5).astype(ml_dtypes.bfloat16) for s in shapes]
    got = run_op(find_op("GRU"), arrays, {"hidden_size": 5}, outputs=2, kernel="recurrent")
    for y, true in zip(got, exact("GRU", arrays, {}), strict=True):
        assert y.dtype == ml_dtypes.bfloat16
        np.testing.assert_allclose(y.astype(np.float64), true, rtol=8e-3, atol=4e-3)


def test_an_unset_middle_output_and_other_sizes_of_the_same_cell():
    rng = np.random.default_rng(5)
    w, r = (rng.standard_normal(s).astype(np.float32) * 0.3 for s in ((1, 12, 4), (1, 12, 3)))
    x = rng.standard_normal((5, 2, 4)).astype(np.float32)
    made, fed = leaves([x, w, r], stored=(1, 2), free={0: (0, 1)})
    outputs = apply(find_op("LSTM"), made, {"hidden_size": 3}, outputs=3)
    cell = cell_of([outputs[0], outputs[2]], [made[0]])
    for steps, batch in ((5, 2), (1, 7), (0, 3), (2, 0), (4, 1)):
        fed["x0"] = rng.standard_normal((steps, batch, 4)).astype(np.float32)
        true = exact("LSTM", [fed["x0"], w, r], {})
        for y, expected in zip(run_cell(cell, fed), (true[0], true[2]), strict=True):
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_operands_that_do_not_fit_are_refused_by_name():
    rng = np.random.default_rng(6)
    shapes = ((2, 3, 4), (1, 9, 4), (1, 9, 3), (1, 17))
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    with pytest.raises(ShapeMismatch, match="B "):
        run_op(find_op("GRU"), arrays, {"hidden_size": 3})

"""Odd and wrong operands of operators: an error of ours that names the node, or the right answer.

Found by changing the models of onnx's suite: sizes that do not agree and that only a run tells,
values of settings and indices outside their range, shapes that the rules had overlooked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

from neuralsym import ExecutionError, Network, NeuralsymError, ShapeMismatch, load

F32, I64, I32 = np.float32, np.int64, np.int32
RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(F32)


def model(
    op: str,
    inputs: list[Any],
    *,
    dims: list[Any] | None = None,
    constant: int | None = None,
    outputs: int = 1,
    opset: int = 24,
    **attrs: Any,
) -> onnx.ModelProto:
    """One node over these inputs, declared with `dims` (None: no shape), one of them stored."""
    names = [f"i{k}" if value is not None else "" for k, value in enumerate(inputs)]
    node = helper.make_node(op, names, [f"o{k}" for k in range(outputs)], **attrs)
    declared, stored = [], []
    for k, (name, value) in enumerate(zip(names, inputs, strict=True)):
        if value is None:
            continue
        if k == constant:
            stored.append(numpy_helper.from_array(value, name))
            continue
        shape = value.shape if dims is None else dims[k]
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        declared.append(helper.make_tensor_value_info(name, kind, shape))
    results = [onnx.ValueInfoProto(name=f"o{k}") for k in range(outputs)]
    graph = helper.make_graph([node], "attacked", declared, results, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def fed(network: Network, inputs: list[Any]) -> list[Any]:
    names = [port.name for port in network.inputs]
    given = {f"i{k}": value for k, value in enumerate(inputs)}
    return list(network.run({name: given[name] for name in names}).values())


def own(inputs: list[Any]) -> list[Any]:
    """A name for every dimension, none said twice."""
    return [
        None if v is None else [f"d{k}_{i}" for i in range(v.ndim)] for k, v in enumerate(inputs)
    ]


# -- sizes that a run tells --------------------------------------------------------------------
DISAGREEING = {
    "matmul": ("MatMul", [drawn(3, 4), drawn(4, 3)], [drawn(3, 4), drawn(3, 3)], {}),
    "batch of matmul": (
        "MatMul",
        [drawn(2, 3, 4), drawn(2, 4, 3)],
        [drawn(2, 3, 4), drawn(3, 4, 3)],
        {},
    ),
    "gemm": ("Gemm", [drawn(3, 4), drawn(4, 2)], [drawn(3, 4), drawn(5, 2)], {}),
    "conv": ("Conv", [drawn(1, 2, 5, 5), drawn(3, 2, 2, 2)], [drawn(1, 3, 5, 5)], {}),
    "deconv": ("ConvTranspose", [drawn(1, 1, 3, 3), drawn(1, 2, 3, 3)], [drawn(1, 2, 3, 3)], {}),
    "batch norm": (
        "BatchNormalization",
        [drawn(2, 3, 4), drawn(3), drawn(3), drawn(3), np.ones(3, F32)],
        [drawn(2, 3, 4), drawn(6)],
        {},
    ),
    "layer norm": (
        "LayerNormalization",
        [drawn(2, 3, 4), drawn(4), drawn(4)],
        [drawn(2, 3, 4), drawn(5)],
        {},
    ),
    "concat": ("Concat", [drawn(2, 3), drawn(2, 5)], [drawn(2, 3), drawn(3, 5)], {"axis": 1}),
    "gather": (
        "GatherElements",
        [drawn(3, 4), np.zeros((3, 4), I64)],
        [drawn(3, 4), np.zeros((5, 4), I64)],
        {"axis": 1},
    ),
    "scatter": (
        "ScatterElements",
        [drawn(3, 4), np.zeros((2, 2), I64), drawn(2, 2)],
        [drawn(3, 4), np.zeros((2, 2), I64), drawn(1, 2)],
        {"axis": 0},
    ),
    "attention": (
        "Attention",
        [drawn(2, 3, 4, 8), drawn(2, 3, 6, 8), drawn(2, 3, 6, 8)],
        [drawn(2, 3, 4, 8), drawn(2, 3, 6, 16)],
        {},
    ),
    "grouped attention": (
        "Attention",
        [drawn(2, 9, 4, 8), drawn(2, 3, 6, 8), drawn(2, 3, 6, 8)],
        [drawn(3, 10, 5, 9), drawn(3, 4, 7, 9), drawn(3, 4, 7, 9)],
        {},
    ),
    "add": ("Add", [drawn(2, 3), drawn(2, 3)], [drawn(2, 3), drawn(4, 3)], {}),
    "groups": ("Conv", [drawn(1, 4, 5), drawn(4, 1, 2)], [drawn(1, 3, 5)], {"group": 4}),
}


@pytest.mark.parametrize("known", ["names", "nothing"])
@pytest.mark.parametrize("case", sorted(DISAGREEING))
def test_sizes_that_do_not_agree_name_the_node(case: str, known: str) -> None:
    """A kernel would read beyond its operands: nothing but the run tells that they do not fit."""
    op, fitting, wrong, attrs = DISAGREEING[case]
    wrong = [*wrong, *fitting[len(wrong) :]]
    dims = own(fitting) if known == "names" else [None] * len(fitting)
    network = load(model(op, fitting, dims=dims, **attrs))
    before = fed(network, fitting)
    with pytest.raises(NeuralsymError, match=op):
        fed(network, wrong)
    for a, b in zip(before, fed(network, fitting), strict=True):
        np.testing.assert_array_equal(a, b)


def parsed(signature: str, body: str) -> Network:
    """A model of opset 21 in onnx's text form."""
    header = '<ir_version: 10, opset_import: ["": 21]>'
    return load(onnx.parser.parse_model(f"{header} g {signature} {{ {body} }}"))


def test_known_shapes_that_do_not_hold_the_elements_are_refused() -> None:
    network = parsed(
        "(float[a, b] x, float[c, d] y) => (float[e, f] z)",
        "s = Shape(y) r = Reshape(x, s) z = Add(r, y)",
    )
    np.testing.assert_array_equal(network([drawn(2, 6), drawn(3, 4)]).shape, (3, 4))
    with pytest.raises(ShapeMismatch, match="holds 16 elements"):
        network([drawn(2, 6), drawn(4, 4)])


def test_settings_of_a_step_that_told_its_own_shape() -> None:
    network = parsed(
        "(float[a, b] x, int64[n] repeats, bool[n] kept) => (float[e, f] y)",
        "some = Compress(repeats, kept) y = Tile(x, some)",
    )
    x = drawn(2, 3)
    for repeats in ([1, 9, 2], [3, 9, 1], [1, 9, 2]):
        found = network([x, np.array(repeats, I64), np.array([True, False, True])])
        np.testing.assert_array_equal(found, np.tile(x, (repeats[0], repeats[2])))


def test_names_like_those_of_deferred_parts() -> None:
    a, b = drawn(3), drawn(1)
    for name in ("d1_0", "d0_0"):
        network = load(model("Add", [a, b], dims=[[name], None]))
        np.testing.assert_array_equal(fed(network, [a, b])[0], a + b)


def test_half_a_size_inside_a_loop() -> None:
    network = parsed(
        "(float[n] x) => (float[m] y)",
        """
        size = Shape(x)
        two = Constant<value_ints = [2]>()
        zero = Constant<value_ints = [0]>()
        half = Div(size, two)
        start = Slice(x, zero, half)
        count = Constant<value_int = 3>()
        yes = Constant<value = bool {1}>()
        y = Loop(count, yes, start) <body = more (int64 i, bool go, float[] h)
            => (bool on, float[] twice) { on = Identity(go) twice = Add(h, h) }>
        """,
    )
    for size in (8, 5, 8):
        x = drawn(size)
        np.testing.assert_array_equal(network(x), x[: size // 2] * 8)


def test_strings_with_symbolic_sizes() -> None:
    x, y = np.array([["a"], ["b"]], object), np.array(["b", "a", "c"], object)
    network = load(model("Equal", [x, y], dims=[["n", 1], ["m"]]))
    found = fed(network, [x, y])[0]
    np.testing.assert_array_equal(found, [[False, True, False], [True, False, False]])


def test_scores_of_attention_have_their_rank_when_nothing_is_known() -> None:
    q, k = drawn(2, 3, 4, 8), drawn(2, 3, 6, 8)
    network = load(model("Attention", [q, k, k], dims=[None] * 3, outputs=4))
    scores = fed(network, [q, k, k])[3]
    np.testing.assert_allclose(scores, q @ k.swapaxes(2, 3) / np.sqrt(8), rtol=1e-4, atol=1e-5)


def test_statistics_of_empty_rows_are_written() -> None:
    """What a run before left in their memory is not shown."""
    x = drawn(2, 3)
    network = load(model("LayerNormalization", [x, drawn(3)], dims=[["n", "c"], ["c"]], outputs=3))
    fed(network, [x, np.ones(3, F32)])
    empty, mean, deviation = fed(network, [drawn(2, 0), drawn(0)])
    assert empty.shape == (2, 0)
    assert np.isnan(mean).all()
    assert np.isnan(deviation).all()


# -- operands that no rule may take ------------------------------------------------------------
X = drawn(3, 2, 2)
REFUSED = {
    "rank of a bias": ("GRU", [X, drawn(1, 6, 2), drawn(1, 6, 2), drawn(12)], {"hidden_size": 2}),
    "negative clip": (
        "RNN",
        [X, drawn(1, 2, 2), drawn(1, 2, 2)],
        {"hidden_size": 2, "clip": -1.0},
    ),
    "many diagonals": ("Trilu", [drawn(2, 3), np.array([1, 0], I64)], {}),
    "ranks of keys": ("Attention", [drawn(2, 3, 4, 8), drawn(2, 3, 6, 8), drawn(3, 6, 8)], {}),
    "precision": (
        "Attention",
        [drawn(2, 3, 4, 8)] * 3,
        {"softmax_precision": -2},
    ),
    "rank of a mask": ("Attention", [*[drawn(2, 3, 4, 8)] * 3, drawn()], {}),
    "lengths of keys": (
        "Attention",
        [*[drawn(2, 3, 4, 8)] * 3, None, None, None, np.array([3], I64)],
        {},
    ),
    "thresholds": (
        "NonMaxSuppression",
        [drawn(1, 2, 4), drawn(1, 1, 2), np.zeros(0, I64)],
        {},
    ),
    "rank of scales": ("Resize", [drawn(1, 1, 2, 2), None, np.ones((1, 4), F32)], {}),
    "half of nothing": (
        "DFT",
        [drawn(1, 0, 2), None, np.array(1, I64)],
        {"inverse": 1, "onesided": 1},
    ),
    "angles": (
        "RotaryEmbedding",
        [drawn(1, 2, 3, 8), drawn(4, 2), drawn(4, 2), np.zeros((1, 3), I64)],
        {"rotary_embedding_dim": 2},
    ),
    "heads": (
        "RotaryEmbedding",
        [drawn(1, 3, 8), drawn(4, 2), drawn(4, 2), np.zeros((1, 3), I64)],
        {},
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_operands_that_mean_nothing_are_refused(case: str) -> None:
    op, inputs, attrs = REFUSED[case]
    with pytest.raises(NeuralsymError, match=op):
        fed(load(model(op, inputs, **attrs)), inputs)


def test_older_versions_take_no_more_inputs_and_no_other_modes() -> None:
    x, scales = drawn(1, 1, 2, 2), np.ones(4, F32)
    with pytest.raises(NeuralsymError, match="takes 2 inputs, 3 were given"):
        load(model("Upsample", [x, scales, x], opset=9))
    with pytest.raises(NeuralsymError, match="nearestx"):
        load(model("Upsample", [x, scales], opset=9, mode="nearestx"))


# -- indices and lengths outside their range ---------------------------------------------------
OUTSIDE = {
    "Gather": ([drawn(4, 5), np.zeros(2, I64)], 1, (-5, 4), {}),
    "GatherElements": ([drawn(4, 5), np.zeros((4, 5), I64)], 1, (-6, 5), {"axis": 1}),
    "GatherND": ([drawn(4, 5), np.zeros((2, 1), I64)], 1, (-5, 4), {}),
    "ScatterElements": ([drawn(4, 5), np.zeros((2, 2), I64), drawn(2, 2)], 1, (-5, 4), {}),
    "ScatterND": ([drawn(4, 5), np.zeros((2, 1), I64), drawn(2, 5)], 1, (-5, 4), {}),
    "TensorScatter": (
        [drawn(2, 1, 4, 3), drawn(2, 1, 2, 3), np.zeros(2, I64)],
        2,
        (-1, 3),
        {},
    ),
    "MaxUnpool": (
        [drawn(1, 1, 2, 2), np.zeros((1, 1, 2, 2), I64)],
        1,
        (-1, 16),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "RoiAlign": ([drawn(2, 1, 6, 6), np.ones((1, 4), F32), np.zeros(1, I64)], 2, (-1, 2), {}),
    "ReverseSequence": ([drawn(3, 2, 2), np.ones(2, I64)], 1, (-1, 4), {}),
    "NegativeLogLikelihoodLoss": ([drawn(4, 5), np.zeros(4, I64)], 1, (-6, 5), {}),
    "SoftmaxCrossEntropyLoss": ([drawn(4, 5), np.zeros(4, I64)], 1, (-6, 5), {}),
    "TopK": ([drawn(4, 5), np.ones(1, I64)], 1, (-1, 6), {"outputs": 2}),
    "Split": ([drawn(4, 5), np.full(2, 2, I64)], 1, (-2, 3), {"outputs": 2}),
    "RNN": (
        [X, drawn(1, 2, 2), drawn(1, 2, 2), None, np.full(2, 3, I32)],
        4,
        (-1, 4),
        {"hidden_size": 2},
    ),
    "GRU": (
        [X, drawn(1, 6, 2), drawn(1, 6, 2), None, np.full(2, 3, I32)],
        4,
        (-1, 4),
        {"hidden_size": 2, "direction": "reverse"},
    ),
    "LSTM": (
        [X, drawn(1, 8, 2), drawn(1, 8, 2), None, np.full(2, 3, I32)],
        4,
        (-1, 4),
        {"hidden_size": 2},
    ),
}


@pytest.mark.parametrize("stored", [False, True], ids=["fed", "stored"])
@pytest.mark.parametrize("op", sorted(OUTSIDE))
def test_indices_outside_their_range_name_the_node(op: str, stored: bool) -> None:
    inputs, at, outside, attrs = OUTSIDE[op]
    huge = np.iinfo(inputs[at].dtype)
    network = None if stored else load(model(op, inputs, **attrs))
    for value in (*outside, huge.min, huge.max):
        wrong = inputs[at].copy()
        wrong.reshape(-1)[0] = value
        given = [*inputs[:at], wrong, *inputs[at + 1 :]]
        with pytest.raises(NeuralsymError, match=op):
            fed(network or load(model(op, given, constant=at, **attrs)), given)
    if network is not None:
        assert all(np.isfinite(v).all() for v in fed(network, inputs))


def test_lengths_of_recurrent_layers_are_said_to_be_wrong() -> None:
    inputs = [X, drawn(1, 2, 2), drawn(1, 2, 2), None, np.array([3, 4], I32)]
    with pytest.raises(ExecutionError, match="sequence_lens"):
        fed(load(model("RNN", inputs, hidden_size=2)), inputs)


def test_no_pieces_of_nothing() -> None:
    x, split = np.zeros((0, 2), F32), np.zeros(0, I64)
    assert fed(load(model("SplitToSequence", [x, split])), [x, split]) == [[]]


def test_strings_are_strings_of_the_declared_shape() -> None:
    x, y = np.array(["a", "b"], object), np.array(["b", "b"], object)
    network = load(model("Equal", [x, y]))
    for wrong in (None, np.array(["a", None], object), np.array(["a", "b", "c"], object)):
        with pytest.raises(NeuralsymError, match="i1"):
            fed(network, [x, wrong])


def test_more_memory_than_there_is() -> None:
    x, sizes = drawn(1, 1, 2, 2), np.array([1, 1, 2**39, 1], I64)
    network = load(model("Resize", [x, None, None, sizes], mode="linear"))
    with pytest.raises(NeuralsymError, match="memory"):
        network.run({"i0": x, "i3": sizes})


CONTRIB = {
    "missing": (
        "MultiHeadAttention",
        [*[drawn(1, 2, 4)] * 3, None, None, None, drawn(1, 2, 3, 2)],
        {"num_heads": 2},
    ),
    "no heads": (
        "LinearAttention",
        [drawn(1, 2, 4), drawn(1, 2, 4), drawn(1, 2, 4)],
        {"q_num_heads": 0, "kv_num_heads": 2, "update_rule": "linear"},
    ),
    "rank of scales": (
        "GatherBlockQuantized",
        [np.zeros((4, 32), np.uint8), np.zeros((2, 3), I64), drawn(4)],
        {"bits": 4, "block_size": 16},
    ),
    "axis": ("BiasSoftmax", [drawn(2, 3), drawn(2, 3)], {"axis": 2, "is_inner_broadcast": 0}),
}


@pytest.mark.parametrize("case", sorted(CONTRIB))
def test_com_microsoft_operands_that_do_not_fit(case: str) -> None:
    op, inputs, attrs = CONTRIB[case]
    graph = model(op, inputs, domain="com.microsoft", **attrs)
    graph.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(NeuralsymError, match=op):
        load(graph)

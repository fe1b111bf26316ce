"""Operators that onnx has no test cases for: classical models, random draws, sequences, ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import neuralsym.ops as ops
from neuralsym.core.dim import Dim
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import OptionalType, SequenceType, TensorType
from neuralsym.dtypes import NumberType
from neuralsym.errors import BadAttribute, ExecutionError, OpError, ShapeMismatch, TypeMismatch
from neuralsym.ops.evaluate import Value, evaluate, evaluate_graph
from neuralsym.ops.generator import Range

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [-1.0, 0.5]], np.float32)


def run(result: Any, **feeds: Any) -> tuple[Value, ...]:
    """The value of the last node for values of its inputs, by the names of variables."""
    symbol: Symbol = result[0] if isinstance(result, tuple) else result
    inputs = [None if s is None else feeds.get(s.node.name or "", s.known) for s in symbol.inputs]
    return evaluate(symbol.node, inputs)


@pytest.fixture
def x() -> Symbol:
    return ops.variable("x", ("N", 2))


# -- classical models --------------------------------------------------------------------------
def test_linear_regressor(x: Symbol) -> None:
    y = ops.linear_regressor(x, coefficients=[1.0, 2.0], intercepts=[0.5])
    assert y.shape == (Dim.name("N"), 1)
    (value,) = run(y, x=ROWS)
    np.testing.assert_allclose(value, ROWS @ [[1.0], [2.0]] + 0.5)


def test_linear_classifier(x: Symbol) -> None:
    made = ops.linear_classifier(
        x, coefficients=[1.0, 0.0, 0.0, 1.0], intercepts=[0.0, 0.0], classlabels_ints=[7, 9]
    )
    assert made._fields == ("y", "z")
    labels, scores = run(made, x=ROWS)
    assert np.asarray(labels).tolist() == [9, 9, 9]
    np.testing.assert_allclose(scores, ROWS)
    assert made.z.shape == (Dim.name("N"), 2)


def test_scaler_normalizer_imputer_binarizer(x: Symbol) -> None:
    (scaled,) = run(ops.scaler(x, offset=[1.0, 0.0], scale=[2.0, 1.0]), x=ROWS)
    np.testing.assert_allclose(scaled, (ROWS - [1, 0]) * [2, 1])
    (longest,) = run(ops.normalizer(x, norm="L2"), x=ROWS)
    np.testing.assert_allclose(np.linalg.norm(np.asarray(longest), axis=1), 1, rtol=1e-6)
    filled = ops.imputer(x, imputed_value_floats=[5.0], replaced_value_float=4.0)
    assert np.asarray(run(filled, x=ROWS)[0])[1].tolist() == [3, 5]
    whole = ops.variable("k", (3,), "int64")
    (bits,) = run(ops.binarizer(whole, threshold=-0.5), k=np.array([-1, 0, 1]))
    assert np.asarray(bits).tolist() == [0, 1, 1]


def test_feature_vectorizer(x: Symbol) -> None:
    y = ops.feature_vectorizer([x, x], inputdimensions=[2, 2])
    assert y.shape == (Dim.name("N"), 4)
    assert np.asarray(run(y, x=ROWS)[0]).shape == (3, 4)


def test_trees(x: Symbol) -> None:
    y = ops.tree_ensemble_regressor(
        x,
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_values=[0.0, 0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        nodes_hitrates=[1.0, 1.0, 1.0],
        nodes_missing_value_tracks_true=[0, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[10.0, 20.0],
    )
    (value,) = run(y, x=ROWS)
    assert np.asarray(value).ravel().tolist() == [20, 20, 10]
    with pytest.raises(BadAttribute, match="n_targets"):
        ops.tree_ensemble_regressor(x, n_targets=-3)


# -- random ------------------------------------------------------------------------------------
def test_draws_repeat_with_their_seed(x: Symbol) -> None:
    drawn = ops.random_normal((1000,), mean=3.0, scale=2.0, seed=1.0)
    (a,), (b,) = run(drawn), run(drawn)
    assert isinstance(a, np.ndarray)
    np.testing.assert_array_equal(a, b)
    assert abs(a.mean() - 3) < 0.3
    assert abs(a.std() - 2) < 0.2
    (even,) = run(ops.random_uniform((1000,), low=2.0, high=4.0, dtype="float64", seed=1.0))
    assert isinstance(even, np.ndarray)
    assert (even.dtype, even.min() >= 2, even.max() <= 4) == (np.float64, True, True)
    (like,) = run(ops.random_uniform_like(x, seed=2.0), x=ROWS)
    assert np.asarray(like).shape == (3, 2)
    assert ops.random_normal_like(x, dtype="float16").dtype == "float16"


def test_bernoulli_and_multinomial() -> None:
    p = ops.variable("p", ("N", 3))
    chances = np.array([[0.0, 1.0, 0.5]] * 50, np.float32)
    (drawn,) = run(ops.bernoulli(p, dtype="int32", seed=1.0), p=chances)
    assert isinstance(drawn, np.ndarray)
    assert drawn.dtype == np.int32
    assert (drawn[:, 0] == 0).all()
    assert (drawn[:, 1] == 1).all()
    made = ops.multinomial(p, sample_size=4, dtype="int64")
    assert (made.shape, made.dtype) == ((Dim.name("N"), 4), "int64")
    with pytest.raises(BadAttribute, match="sample_size"):
        ops.multinomial(p, sample_size=-1)


def test_dropout_is_the_identity_until_it_trains(x: Symbol) -> None:
    kept, mask = run(ops.dropout(x, outputs=2), x=ROWS)
    np.testing.assert_array_equal(kept, ROWS)
    assert np.asarray(mask).all()
    trained = ops.dropout(x, 0.5, True, seed=3)
    (value,) = run(trained, x=np.ones((100, 2), np.float32))
    assert isinstance(value, np.ndarray)
    assert set(np.unique(value)) == {0, 2}
    assert value.dtype == np.float32
    assert trained.known is None
    with pytest.raises(BadAttribute, match=r"ratio=1\.5"):
        ops.dropout(x, 1.5)


# -- sequences and optionals -------------------------------------------------------------------
def test_sequences(x: Symbol) -> None:
    y = ops.variable("y", ("N", 3))
    both = ops.sequence_construct([x, y])
    assert both.type == SequenceType(TensorType(NumberType.FLOAT32, (Dim.name("N"), None)))
    assert ops.sequence_at(both, 0).shape == (Dim.name("N"), None)
    assert ops.concat_from_sequence(both, axis=1).shape == (Dim.name("N"), None)
    assert ops.concat_from_sequence(ops.sequence_construct([x, x]), axis=0, new_axis=1).shape == (
        *(None, Dim.name("N"), 2),
    )
    made = ops.sequence_insert(ops.sequence_empty(dtype="float32"), x)
    assert made.type == SequenceType(x.type)
    assert ops.sequence_length(ops.sequence_erase(made)).shape == ()
    (pieces,) = run(ops.split_to_sequence(x, [1, 2]), x=ROWS)
    assert isinstance(pieces, list)
    assert [p.shape for p in pieces] == [(1, 2), (2, 2)]
    with pytest.raises(TypeMismatch, match="takes no int64"):
        ops.sequence_insert(made, ops.constant(1))
    with pytest.raises(BadAttribute, match="axis=3"):
        ops.split_to_sequence(x, axis=3)


def test_optionals(x: Symbol) -> None:
    full = ops.optional(x)
    assert full.type == OptionalType(x.type)
    assert ops.optional_get_element(full).type == x.type
    assert ops.optional_has_element(full).dtype == "bool"
    empty = ops.optional(type=TensorType(NumberType.FLOAT32, (2,)))
    assert run(ops.optional_has_element(empty))[0] == np.array(False)
    with pytest.raises(BadAttribute, match="type="):
        ops.optional()


# -- generators and shapes ---------------------------------------------------------------------
def test_ranges_of_names() -> None:
    n = ops.shape(ops.variable("x", ("N", 7)))[0]
    assert ops.range_(0, n, 1).shape == (Dim.name("N"),)
    assert str(ops.range_(0, n, 2).shape[0]) == str((Dim.name("N") + 1) // 2)
    assert ops.range_(2, 11, 3).known.tolist() == [2, 5, 8]
    assert ops.range_(3, -3, -2).known.tolist() == [3, 1, -1]
    assert ops.range_(5, 1, 1).shape == (0,)
    assert ops.range_(0.0, 1.0, 0.25).shape == (4,)
    with pytest.raises(OpError, match="delta is zero"):
        ops.range_(0, 4, 0)
    assert Range.elementwise is False


def test_shape_arithmetic_keeps_names() -> None:
    x = ops.variable("x", ("N", 6, "H"))
    size = ops.shape(x)
    n, h = size[0], size[2]
    assert ops.constant_of_shape(ops.concat([ops.unsqueeze(n * 2 + 1, [0]), [3]], 0)).shape == (
        Dim.name("N") * 2 + 1,
        3,
    )
    assert ops.where(ops.equal(n, n), h, n).known.tolist() == Dim.name("H")
    assert (h // 2).known.tolist() == Dim.name("H") // 2
    assert ops.max([n, 0]).known.tolist() == Dim.name("N")
    assert ops.less(n, n + 1).known.tolist() is True
    assert (n < h).known is None


def test_sizes_as_real_numbers_keep_only_what_is_exact() -> None:
    n = ops.cast(ops.shape(ops.variable("x", ("N",)))[0], "float32")
    twice = n * 2.0
    assert ops.cast(twice, "int64").known.tolist() == Dim.name("N") * 2
    assert ops.floor(twice / 2.0).known.tolist() == Dim.name("N")
    assert (n / 2.0).known is None  # a half may be left, which a ceiling would count
    assert (n * 1.5).known is None
    nothing = n - n
    assert (nothing + 0.5).known.tolist() == 0.5


def test_broadcast_of_names() -> None:
    a = ops.variable("a", ("N", 1, "H"))
    b = ops.variable("b", ("N", 5, 4))
    c = ops.variable("c", ("M", 1, 1))
    assert (a + b).shape == (Dim.name("N"), 5, 4)
    assert str((a + c).shape[0]) == "broadcast(M, N)"
    with pytest.raises(ShapeMismatch, match="sizes 5 and 3 on axis -2"):
        b + ops.variable("d", (3, 1))
    with pytest.raises(ShapeMismatch, match="N\\*2"):
        ops.variable("e", (2 * Dim.name("N"),)) + ops.variable("f", (3,))


def test_recurrent_layers_over_names() -> None:
    t, n = Dim.name("T"), Dim.name("N")
    x = ops.variable("x", ("T", "N", 4))
    w, r = ops.variable("w", (2, 15, 4)), ops.variable("r", (2, 15, 5))
    made = ops.gru(x, w, r, hidden_size=5, direction="bidirectional", outputs=2)
    assert made.y.shape == (t, 2, n, 5)
    assert made.y_h.shape == (2, n, 5)
    first = ops.variable("x", ("N", "T", 4))
    batch = ops.rnn(first, ops.zeros((1, 5, 4)), ops.zeros((1, 5, 5)), layout=1)
    assert batch.shape == (n, t, 1, 5)
    with pytest.raises(ShapeMismatch, match="15 rows for 3 gates of 6"):
        ops.gru(x, w, r, hidden_size=6, direction="bidirectional")
    with pytest.raises(BadAttribute, match="activations must name 4"):
        ops.gru(x, w, r, direction="bidirectional", activations=["Relu", "Tanh"])
    with pytest.raises(BadAttribute, match="'Reluu'"):
        ops.rnn(x, ops.zeros((1, 5, 4)), ops.zeros((1, 5, 5)), activations=["Reluu"])


# -- evaluating graphs -------------------------------------------------------------------------
def test_graphs_are_evaluated_node_by_node(x: Symbol) -> None:
    from neuralsym.core.graph import Graph

    y = x
    for _ in range(5000):
        y = y + 1.0
    graph = Graph([y, ops.relu(x)])
    total, kept = evaluate_graph(graph, {x: ROWS})
    np.testing.assert_allclose(total, ROWS + 5000)
    np.testing.assert_array_equal(kept, np.maximum(ROWS, 0))


def test_a_failure_names_the_node_and_its_line(x: Symbol) -> None:
    y = ops.reshape(x, ops.variable("s", (2,), "int64"), name="cut")
    with pytest.raises(
        ExecutionError, match=r"Reshape 'cut' cannot take \(float32\[3, 2\]"
    ) as caught:
        evaluate(y.node, [ROWS, np.array([5, 5])])
    assert "test_ops_rest.py" in str(caught.value)


def test_attention_shares_heads(x: Symbol) -> None:
    q = ops.variable("q", ("N", 8, "L", 16))
    kv = ops.variable("kv", ("N", 2, "S", 16))
    made = ops.attention(q, kv, kv, outputs=4)
    assert made.y.shape == q.shape
    assert [str(d) for d in made.qk_matmul_output.shape] == ["N", "8", "L", "S"]
    past = ops.variable("past", ("N", 2, "P", 16))
    assert [str(d) for d in ops.attention(q, kv, kv, None, past, past, outputs=2)[1].shape] == [
        *("N", "2", "P + S", "16"),
    ]
    with pytest.raises(ShapeMismatch, match="8 query heads are no multiple of 3"):
        ops.attention(q, ops.variable("k", ("N", 3, "S", 16)), ops.variable("v", ("N", 3, "S", 16)))
    flat = ops.variable("flat", ("N", "L", 128))
    assert ops.attention(flat, flat, flat, q_num_heads=8, kv_num_heads=8).shape == flat.shape
    with pytest.raises(BadAttribute, match="q_num_heads must be given"):
        ops.attention(flat, flat, flat)

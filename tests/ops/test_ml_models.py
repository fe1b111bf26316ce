"""Linear models, support vectors and trees of ai.onnx.ml against onnxruntime and plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_cases import ours, runtime

TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
CLOSE = {"rtol": 2e-5, "atol": 2e-6}
# onnxruntime computes quantiles by a formula that is good to some 4 thousandths.
ROUGH = {"rtol": 1e-2, "atol": 1e-2}


def same(got, expected, transform="NONE"):
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        b = np.asarray(b)
        assert a.shape == b.shape
        if b.dtype.kind in "OU":
            assert a.tolist() == b.tolist()
        else:
            assert a.dtype == b.dtype
            close = ROUGH if transform == "PROBIT" else CLOSE
            np.testing.assert_allclose(a, b, **close)


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_linear_classifier(transform, dtype):
    x = (numbers(0, 7, 4) * 3).astype(dtype)
    attrs = {
        "coefficients": (numbers(1, 12) * 0.02).tolist(),
        "intercepts": [0.3, 0.5, 0.7],
        "classlabels_ints": [4, 9, 2],
        "post_transform": transform,
    }
    expected = runtime("LinearClassifier", [x], attrs, 2)
    same(ours("LinearClassifier", [x], attrs, 2, free=True), expected, transform)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("labels", [{"classlabels_ints": [5, 7]},
                                    {"classlabels_strings": ["no", "yes"]}])  # fmt: skip
def test_linear_classifier_of_two_labels_and_one_score(transform, labels):
    x = numbers(0, 9, 3).astype(np.float32)
    attrs = {"coefficients": [0.5, -1, 2], "intercepts": [0.25], "post_transform": transform}
    attrs.update(labels)
    host = ["Gather"] if "classlabels_strings" in labels else []
    got = ours("LinearClassifier", [x], attrs, 2, host=host)
    same(got, runtime("LinearClassifier", [x], attrs, 2))


def test_transforms_of_two_classes_are_applied():
    """onnxruntime leaves a softmax out for two labels with one score, though it is asked for."""
    x = np.array([[0.5], [-2.0]], np.float32)
    attrs = {"coefficients": [1.0], "intercepts": [0.0], "classlabels_ints": [0, 1]}
    _, scores = ours("LinearClassifier", [x], {**attrs, "post_transform": "SOFTMAX"}, 2)
    exact = 1 / (1 + np.exp(2 * x.astype(np.float64)))
    np.testing.assert_allclose(scores, np.hstack([exact, 1 - exact]), rtol=1e-6)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
def test_linear_regressor(transform, targets):
    x = (numbers(2, 5, 4) * 0.2).astype(np.float32)
    weights = numbers(3, targets, 4) * 0.2
    attrs = {
        "coefficients": weights.reshape(-1).tolist(),
        "intercepts": [0.5] * targets,
        "targets": targets,
        "post_transform": transform,
    }
    (got,) = ours("LinearRegressor", [x], attrs)
    if targets > 1 or transform == "NONE":
        same([got], runtime("LinearRegressor", [x], attrs), transform)
    elif transform == "LOGISTIC":  # for one target onnxruntime applies no transform but PROBIT
        exact = 1 / (1 + np.exp(-(x @ weights.astype(np.float32).T + 0.5)))
        np.testing.assert_allclose(got, exact, **CLOSE)
    elif transform != "PROBIT":
        np.testing.assert_array_equal(got, np.ones((5, 1)))


def test_a_vector_is_one_row_and_no_rows_are_fine():
    attrs = {"coefficients": [1.0, 2.0], "intercepts": [0.5]}
    (got,) = ours("LinearRegressor", [np.array([1, 2], np.float32)], attrs)
    np.testing.assert_array_equal(got, [[5.5]])
    (got,) = ours("LinearRegressor", [np.zeros((0, 2), np.float32)], attrs, free=True)
    assert got.shape == (0, 1)


def test_quantiles_of_the_normal_distribution():
    from statistics import NormalDist

    p = np.array([1e-300, 1e-40, 1e-12, 0.001, 0.02, 0.3, 0.5, 0.500001, 0.99, 1 - 1e-12])
    attrs = {"n_targets": 1, "post_transform": 4, **leaf_only()}
    (got,) = ours("TreeEnsemble", [np.zeros((1, 1))], {**attrs, "leaf_weights": tensor([0.25])})
    np.testing.assert_allclose(got, [[NormalDist().inv_cdf(0.25)]], rtol=1e-8)
    for value in p:
        attrs["leaf_weights"] = tensor([value])
        (got,) = ours("TreeEnsemble", [np.zeros((1, 1))], attrs)
        np.testing.assert_allclose(got[0, 0], NormalDist().inv_cdf(value), rtol=1e-8, atol=1e-15)
    for value, limit in ((0.0, -np.inf), (1.0, np.inf), (-0.1, np.nan), (1.1, np.nan)):
        attrs["leaf_weights"] = tensor([value])
        np.testing.assert_array_equal(ours("TreeEnsemble", [np.zeros((1, 1))], attrs)[0], [[limit]])


def tensor(values, dtype=np.float64):
    from neuralsym.core.tensor import Tensor

    return Tensor.of(np.array(values, dtype))


def leaf_only():
    return {
        "nodes_featureids": [0],
        "nodes_modes": tensor([0], np.uint8),
        "nodes_splits": tensor([0.0]),
        "nodes_truenodeids": [0],
        "nodes_falsenodeids": [0],
        "nodes_trueleafs": [1],
        "nodes_falseleafs": [1],
        "leaf_targetids": [0],
        "tree_roots": [0],
    }


# -- support vectors ---------------------------------------------------------------------------
def kernel(kind, params, x, vectors):
    x, vectors = x.astype(np.float64), vectors.astype(np.float64)
    gamma, offset, degree = params
    if kind == "RBF":
        return np.exp(-gamma * ((x[:, None] - vectors) ** 2).sum(-1))
    inner = x @ vectors.T
    if kind == "LINEAR":
        return inner
    return (
        np.tanh(gamma * inner + offset) if kind == "SIGMOID" else (gamma * inner + offset) ** degree
    )


@pytest.mark.parametrize("kind", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(kind, one_class):
    x, vectors = numbers(0, 6, 3).astype(np.float32), numbers(1, 5, 3).astype(np.float32)
    attrs = {
        "coefficients": numbers(2, 5).tolist(),
        "support_vectors": vectors.reshape(-1).tolist(),
        "n_supports": 5,
        "rho": [0.25],
        "kernel_type": kind,
        "kernel_params": [0.5, 0.25, 3.0],
        "one_class": one_class,
    }
    got = ours("SVMRegressor", [x], attrs, free=True)
    same(got, runtime("SVMRegressor", [x], attrs))
    (wide,) = ours("SVMRegressor", [x.astype(np.float64)], attrs)
    np.testing.assert_allclose(wide, got[0], **CLOSE)


def test_svm_regressor_without_vectors():
    x = numbers(0, 6, 3).astype(np.float32)
    attrs = {"coefficients": [0.5, -1.0, 2.0], "rho": [0.25], "kernel_params": [0.5, 0.25, 3.0]}
    attrs["kernel_type"] = "POLY"  # it is not used without vectors
    same(ours("SVMRegressor", [x], attrs), runtime("SVMRegressor", [x], attrs))
    (got,) = ours("SVMRegressor", [x], {**attrs, "post_transform": "LOGISTIC"})
    exact = 1 / (1 + np.exp(-(x @ [0.5, -1, 2] + 0.25)))
    np.testing.assert_allclose(got[:, 0], exact, **CLOSE)


@pytest.mark.parametrize("kind", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("per", [(2, 3), (2, 2, 1), (1, 2, 3, 2)])
@pytest.mark.parametrize("likely", [False, True])
def test_svm_classifier(kind, transform, per, likely):
    labels, vectors = len(per), sum(per)
    pairs = labels * (labels - 1) // 2
    x, support = numbers(0, 6, 3).astype(np.float32), numbers(1, vectors, 3).astype(np.float32)
    attrs = {
        "coefficients": numbers(2, (labels - 1) * vectors).tolist(),
        "support_vectors": support.reshape(-1).tolist(),
        "vectors_per_class": list(per),
        "rho": (numbers(3, pairs) * 0.3).tolist(),
        "kernel_type": kind,
        "kernel_params": [0.5, 0.25, 3.0],
        "classlabels_ints": [10 * (i + 1) for i in range(labels)],
        "post_transform": transform,
    }
    if likely:
        attrs["prob_a"], attrs["prob_b"] = (numbers(s, pairs).tolist() for s in (4, 5))
    got = ours("SVMClassifier", [x], attrs, 2, free=True)
    if labels == 2 and transform == "SOFTMAX" and not likely:
        # onnxruntime gives [1 - s, s] here, and [-s, s] without the softmax.
        s = got[1][:, 1]
        np.testing.assert_allclose(got[1].sum(axis=1), 1, rtol=1e-6)
        plain = ours("SVMClassifier", [x], {**attrs, "post_transform": "NONE"}, 2)[1]
        np.testing.assert_allclose(s, 1 / (1 + np.exp(-2 * plain[:, 1])), rtol=1e-5)
        return
    expected = runtime("SVMClassifier", [x], attrs, 2)
    np.testing.assert_array_equal(got[0], expected[0])
    close = {"rtol": 1e-3, "atol": 1e-3} if likely else CLOSE  # an iteration with a bound
    np.testing.assert_allclose(got[1], expected[1], **close)


def test_svm_classifier_with_a_line_for_each_label():
    x = numbers(0, 8, 3).astype(np.float32)
    attrs = {
        "coefficients": numbers(1, 9).tolist(),
        "rho": [0.25],
        "kernel_type": "LINEAR",
        "kernel_params": [0.0, 0.0, 0.0],
        "classlabels_strings": ["a", "b", "c"],
    }
    got = ours("SVMClassifier", [x], attrs, 2, host=["Gather"])
    same(got, runtime("SVMClassifier", [x], attrs, 2))


# -- the older trees ---------------------------------------------------------------------------
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def grow(rng, trees, features, depth, modes=MODES):
    """Node attributes of random trees, and the (tree, node) of each leaf."""
    made = {name: [] for name in ("treeids", "nodeids", "featureids", "modes", "values")}
    made |= {name: [] for name in ("truenodeids", "falsenodeids", "missing_value_tracks_true")}
    leaves = []

    def node(tree, level):
        at = len(made["treeids"])
        number = sum(t == tree for t in made["treeids"])
        leaf = level == depth or (level > 0 and rng.random() < 0.3)
        made["treeids"].append(tree)
        made["nodeids"].append(number)
        made["featureids"].append(0 if leaf else int(rng.integers(features)))
        made["modes"].append("LEAF" if leaf else str(rng.choice(modes)))
        made["values"].append(0.0 if leaf else float(rng.integers(-2, 3)))
        made["missing_value_tracks_true"].append(int(rng.integers(2)))
        made["truenodeids"].append(0)
        made["falsenodeids"].append(0)
        if leaf:
            leaves.append((tree, number))
        else:
            made["truenodeids"][at] = node(tree, level + 1)
            made["falsenodeids"][at] = node(tree, level + 1)
        return number

    for tree in range(trees):
        node(tree, 0)
    return {f"nodes_{name}": values for name, values in made.items()}, leaves


def walk(attrs, row):
    """The (tree, node) of the leaves that a row reaches, by the words of the specification."""
    place = {
        (t, n): i
        for i, (t, n) in enumerate(zip(attrs["nodes_treeids"], attrs["nodes_nodeids"], strict=True))
    }
    reached = []
    for tree in sorted(set(attrs["nodes_treeids"])):
        at = place[tree, 0]
        while (mode := attrs["nodes_modes"][at]) != "LEAF":
            value, split = row[attrs["nodes_featureids"][at]], attrs["nodes_values"][at]
            if np.isnan(value):
                taken = attrs["nodes_missing_value_tracks_true"][at] == 1
            else:
                taken = {
                    "BRANCH_LEQ": value <= split,
                    "BRANCH_LT": value < split,
                    "BRANCH_GTE": value >= split,
                    "BRANCH_GT": value > split,
                    "BRANCH_EQ": value == split,
                    "BRANCH_NEQ": value != split,
                }[mode]
            side = "nodes_truenodeids" if taken else "nodes_falsenodeids"
            at = place[tree, attrs[side][at]]
        reached.append((tree, attrs["nodes_nodeids"][at]))
    return reached


def votes(attrs, x, prefix, targets, aggregate="SUM"):
    """The aggregated votes, float64[rows, targets]."""
    made = np.zeros((len(x), targets))
    keys = list(zip(attrs[f"{prefix}_treeids"], attrs[f"{prefix}_nodeids"], strict=True))
    for n, row in enumerate(x):
        reached = walk(attrs, row)
        for target in range(targets):
            found = [
                np.float64(np.float32(w))
                for leaf in reached
                for key, t, w in zip(
                    keys, attrs[f"{prefix}_ids"], attrs[f"{prefix}_weights"], strict=True
                )
                if key == leaf and t == target
            ]
            if found:
                how = {"MIN": min, "MAX": max}.get(aggregate, sum)
                made[n, target] = how(found)
    return made / (len(set(attrs["nodes_treeids"])) if aggregate == "AVERAGE" else 1)


def features(rng, rows, width, dtype):
    x = rng.integers(-3, 4, (rows, width)).astype(dtype)
    if x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.1] = np.nan
    return x


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from(["SUM", "AVERAGE", "MIN", "MAX"]),
    st.sampled_from(["float32", "float64", "int64", "int32"]),
    st.booleans(),
)
def test_tree_ensemble_regressor(seed, aggregate, dtype, based):
    rng = np.random.default_rng(seed)
    targets, width = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    attrs, leaves = grow(rng, int(rng.integers(1, 5)), width, int(rng.integers(0, 4)))
    order = rng.permutation(len(leaves) * targets)
    every = [(leaf, t) for leaf in leaves for t in range(targets)]
    picked = [every[i] for i in order if rng.random() < 0.8]
    attrs |= {
        "target_treeids": [leaf[0] for leaf, _ in picked],
        "target_nodeids": [leaf[1] for leaf, _ in picked],
        "target_ids": [t for _, t in picked],
        "target_weights": rng.standard_normal(len(picked)).tolist(),
    }
    x = features(rng, int(rng.integers(0, 20)), width, dtype)
    base = rng.standard_normal(targets).tolist() if based else []
    given_attrs = {**attrs, "n_targets": targets, "aggregate_function": aggregate}
    if based:
        given_attrs["base_values"] = base
    (got,) = ours("TreeEnsembleRegressor", [x], given_attrs, free=True)
    exact = votes(attrs, x, "target", targets, aggregate)
    exact += np.float32(base) if based else 0
    np.testing.assert_allclose(got, exact, rtol=1e-6, atol=1e-6)


def ensemble(seed, trees=5, width=3, modes=("BRANCH_LEQ",)):
    rng = np.random.default_rng(seed)
    attrs, leaves = grow(rng, trees, width, 3, list(modes))
    return rng, attrs, leaves, features(rng, 12, width, "float32")


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_tree_ensemble_regressor_agrees_with_onnxruntime(transform, aggregate):
    rng, attrs, leaves, x = ensemble(1)
    attrs |= {
        "target_treeids": [t for t, _ in leaves] * 2,
        "target_nodeids": [n for _, n in leaves] * 2,
        "target_ids": [0] * len(leaves) + [1] * len(leaves),
        "target_weights": rng.standard_normal(2 * len(leaves)).tolist(),
        "n_targets": 2,
        "post_transform": transform,
        "aggregate_function": aggregate,
        "base_values": [0.5, -0.25],
    }
    same(ours("TreeEnsembleRegressor", [x], attrs), runtime("TreeEnsembleRegressor", [x], attrs))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("texts", [False, True])
def test_tree_ensemble_classifier_of_many_classes(transform, texts):
    rng, attrs, leaves, x = ensemble(2)
    attrs |= {
        "class_treeids": [t for t, _ in leaves],
        "class_nodeids": [n for _, n in leaves],
        "class_ids": rng.integers(0, 3, len(leaves)).tolist(),
        "class_weights": rng.random(len(leaves)).tolist(),
        "post_transform": transform,
        "base_values": [0.25, 0.5, 0.125],
    }
    labels = (
        {"classlabels_strings": ["a", "b", "c"]} if texts else {"classlabels_int64s": [7, 3, 5]}
    )
    host = ["Gather"] if texts else []
    got = ours("TreeEnsembleClassifier", [x], {**attrs, **labels}, 2, host=host)
    same(got, runtime("TreeEnsembleClassifier", [x], {**attrs, **labels}, 2))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("voted", [0, 1])
@pytest.mark.parametrize("base", [[], [0.25]])
def test_tree_ensemble_classifier_of_two_labels_and_votes_for_one(transform, signed, voted, base):
    rng, attrs, leaves, x = ensemble(3)
    weights = rng.random(len(leaves)) * 0.3 - (0.15 if signed else 0)
    attrs |= {
        "class_treeids": [t for t, _ in leaves],
        "class_nodeids": [n for _, n in leaves],
        "class_ids": [voted] * len(leaves),
        "class_weights": weights.tolist(),
        "classlabels_int64s": [5, 7],
        "post_transform": transform,
    }
    if base:
        attrs["base_values"] = base
    got = ours("TreeEnsembleClassifier", [x], attrs, 2)
    if voted == 1 and (signed or base):
        # onnxruntime's own scores for this are not those of a sum of votes.
        score = votes(attrs, x, "class", 2)[:, 1] + sum(base)
        exact = np.stack([np.zeros(len(x)), score], axis=1)
        if transform == "LOGISTIC":
            exact = 1 / (1 + np.exp(-exact))
        labels = np.where(score > (0 if signed else 0.5), 7, 5)
        same(got, [labels, exact.astype(np.float32)])
    else:
        same(got, runtime("TreeEnsembleClassifier", [x], attrs, 2))


def test_tree_ensemble_classifier_of_two_labels_takes_the_higher_score():
    """onnxruntime gives labels 0 and 1 here, which are none of the labels."""
    attrs = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0, 0],
        "class_nodeids": [1, 2],
        "class_ids": [0, 1],
        "class_weights": [0.25, 0.75],
        "classlabels_int64s": [5, 7],
    }
    got = ours("TreeEnsembleClassifier", [np.array([[-1], [1]], np.float32)], attrs, 2)
    same(got, [np.array([5, 7]), np.array([[0.25, 0], [0, 0.75]], np.float32)])

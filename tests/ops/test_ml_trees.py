"""TreeEnsemble of ai.onnx.ml 5: every mode, aggregate and transform, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_cases import ours, runtime

from neuralsym.core.leaves import variable
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.core.tensor import Tensor
from neuralsym.errors import BadAttribute, ExecutionError, ShapeMismatch

MEMBER = 6
COMPARE = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal]


class Grown:
    """Random trees: nodes as dicts in an order of their own, leaves as (target, weight)."""

    def __init__(self, seed, trees, features, targets, depth, modes):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.leaves, self.roots = [], [], []
        self.features, self.targets, self.modes = features, targets, modes
        for _ in range(trees):
            self.roots.append(self.node(depth))

    def leaf(self):
        self.leaves.append(
            (int(self.rng.integers(self.targets)), float(self.rng.standard_normal()))
        )
        return len(self.leaves) - 1

    def node(self, depth):
        rng = self.rng
        made = {
            "feature": int(rng.integers(self.features)),
            "mode": int(rng.choice(self.modes)),
            "split": float(rng.integers(-2, 3)),
            "missing": int(rng.integers(2)),
            "members": rng.integers(-3, 4, rng.integers(0, 4)).tolist(),
        }
        if depth == 0:  # a tree of a leaf alone: both branches lead to it
            made["true"] = made["false"] = (True, self.leaf())
        else:
            for side in ("true", "false"):
                leaf = depth == 1 or rng.random() < 0.3
                made[side] = (leaf, self.leaf() if leaf else self.node(depth - 1))
        self.nodes.append(made)
        return len(self.nodes) - 1

    def attributes(self, dtype):
        columns = {name: [n[name] for n in self.nodes] for name in self.nodes[0]}
        members = [[*map(float, n["members"]), np.nan] for n in self.nodes if n["mode"] == MEMBER]
        attrs = {
            "tree_roots": self.roots,
            "nodes_featureids": columns["feature"],
            "nodes_modes": Tensor.of(np.array(columns["mode"], np.uint8)),
            "nodes_splits": Tensor.of(np.array(columns["split"], dtype)),
            "nodes_missing_value_tracks_true": columns["missing"],
            "nodes_truenodeids": [i for _, i in columns["true"]],
            "nodes_trueleafs": [int(leaf) for leaf, _ in columns["true"]],
            "nodes_falsenodeids": [i for _, i in columns["false"]],
            "nodes_falseleafs": [int(leaf) for leaf, _ in columns["false"]],
            "leaf_targetids": [t for t, _ in self.leaves],
            "leaf_weights": Tensor.of(np.array([w for _, w in self.leaves], dtype)),
            "n_targets": self.targets,
        }
        if members:
            attrs["membership_values"] = Tensor.of(
                np.array([m for own in members for m in own], dtype)
            )
        return attrs

    def taken(self, node, value):
        """NaN goes where the flag says, whatever the comparison."""
        if np.isnan(value):
            return node["missing"] == 1
        if node["mode"] == MEMBER:
            return value in node["members"]
        return bool(COMPARE[node["mode"]](value, node["split"]))

    def exact(self, x, aggregate, dtype):
        made = np.zeros((len(x), self.targets))
        for n, row in enumerate(x):
            found = [[] for _ in range(self.targets)]
            for root in self.roots:
                leaf, at = False, root
                while not leaf:
                    node = self.nodes[at]
                    leaf, at = node["true" if self.taken(node, row[node["feature"]]) else "false"]
                target, weight = self.leaves[at]
                found[target].append(float(np.dtype(dtype).type(weight)))
            for target, weights in enumerate(found):
                if weights:
                    how = (np.sum, np.sum, min, max)[aggregate]
                    made[n, target] = how(weights)
        return made / len(self.roots) if aggregate == 0 else made


def inputs(rng, rows, width, dtype, unknown):
    x = rng.integers(-3, 4, (rows, width)).astype(dtype)
    if unknown:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(0, 3),
    st.sampled_from(["float32", "float64", "float16"]),
    st.integers(0, 3),
    st.sampled_from([1, 1, 1, 2]),
)
def test_all_modes_and_aggregates(seed, aggregate, dtype, depth, threads):
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 4))
    trees = Grown(seed, int(rng.integers(1, 5)), width, int(rng.integers(1, 4)), depth, range(7))
    x = inputs(rng, int(rng.integers(0, 30)), width, dtype, True)
    attrs = {**trees.attributes(dtype), "aggregate_function": aggregate}
    (got,) = ours("TreeEnsemble", [x], attrs, free=True, threads=threads)
    assert got.dtype == np.dtype(dtype)
    close = {"float32": 1e-6, "float64": 1e-13, "float16": 2e-3}[dtype]
    np.testing.assert_allclose(got, trees.exact(x, aggregate, dtype), rtol=close, atol=close)


@pytest.mark.parametrize("transform", range(4))
@pytest.mark.parametrize("aggregate", range(4))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_agrees_with_onnxruntime(transform, aggregate, dtype):
    """Without NaN: it takes the true branch of "not equal" for it, the specification the flag's.

    It also takes 1 for LOGISTIC and 2 for SOFTMAX; the specification has them the other way round.
    """
    trees = Grown(5, 4, 3, 2, 3, range(6))
    x = inputs(np.random.default_rng(1), 20, 3, dtype, False)
    attrs = trees.attributes(dtype)
    attrs |= {"aggregate_function": aggregate, "post_transform": transform}
    (got,) = ours("TreeEnsemble", [x], attrs)
    attrs["post_transform"] = (0, 2, 1, 3)[transform]
    (other,) = runtime("TreeEnsemble", [x], attrs, version=5)
    np.testing.assert_allclose(got, other, rtol=2e-5, atol=1e-6)


def test_members_are_in_the_order_of_the_nodes_and_may_be_zero():
    """onnx's reference takes them in the order of a walk, and ends a set at a zero."""
    attrs = {
        "tree_roots": [1],
        "nodes_featureids": [0, 0],
        "nodes_modes": Tensor.of(np.array([MEMBER, MEMBER], np.uint8)),
        "nodes_splits": Tensor.of(np.zeros(2, np.float32)),
        "nodes_truenodeids": [0, 0],
        "nodes_trueleafs": [1, 0],
        "nodes_falsenodeids": [1, 2],
        "nodes_falseleafs": [1, 1],
        "leaf_targetids": [0, 0, 0],
        "leaf_weights": Tensor.of(np.array([1, 2, 3], np.float32)),
        "membership_values": Tensor.of(np.array([0, 5, np.nan, 0, 5, 6, np.nan], np.float32)),
        "n_targets": 1,
    }
    x = np.array([[0], [5], [6], [7]], np.float32)
    assert ours("TreeEnsemble", [x], attrs)[0].tolist() == [[1], [1], [2], [3]]


def test_a_vector_is_one_row():
    trees = Grown(5, 4, 3, 2, 3, range(6))
    x = inputs(np.random.default_rng(1), 1, 3, "float32", False)
    (got,) = ours("TreeEnsemble", [x[0]], trees.attributes("float32"))
    np.testing.assert_allclose(got, trees.exact(x, 1, "float32"), rtol=1e-6)


# -- refusals ----------------------------------------------------------------------------------
def small(**changes):
    return {**Grown(5, 2, 3, 2, 2, [0]).attributes("float32"), **changes}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tree_roots": [99]}, "tree_roots has 99"),
        ({"nodes_truenodeids": [99] * 4}, "nodes_truenodeids has 99"),
        ({"nodes_modes": Tensor.of(np.array([7] * 4, np.uint8))}, "none of 0 to 6"),
        ({"nodes_modes": Tensor.of(np.array([6] * 4, np.uint8))}, "0 sets for 4 nodes"),
        ({"nodes_featureids": [-1] * 4}, "nodes_featureids has -1"),
        ({"nodes_featureids": [0]}, "entries"),
        ({"leaf_targetids": [5] * 5}, "target|entries"),
        ({"aggregate_function": 4}, "aggregate_function=4"),
        ({"post_transform": 5}, "post_transform=5"),
    ],
)
def test_trees_that_make_no_sense_are_refused(changes, said):
    attrs = small()
    count = len(attrs["nodes_featureids"])
    fitted = {
        name: value[:1] * count if name.startswith("nodes") and isinstance(value, list) else value
        for name, value in changes.items()
    }
    if "modes" in str(changes):
        modes = changes["nodes_modes"].value[:1]
        fitted["nodes_modes"] = Tensor.of(np.repeat(modes, count))
        said = said.replace("4 nodes", f"{count} nodes")
    if changes.get("nodes_featureids") == [0]:
        fitted = changes
    with pytest.raises(BadAttribute, match=said):
        apply(find_op("TreeEnsemble", "ai.onnx.ml"), [variable("x", ("N", 3))], {**attrs, **fitted})


def test_a_walk_without_end_is_refused():
    attrs = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LT", "LEAF"],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 2, 0],
        "target_treeids": [0],
        "target_nodeids": [2],
        "target_ids": [0],
        "target_weights": [1.0],
    }
    op = find_op("TreeEnsembleRegressor", "ai.onnx.ml")
    with pytest.raises(BadAttribute, match="its own descendants"):
        apply(op, [variable("x", ("N", 3))], attrs)
    attrs["nodes_truenodeids"] = [1, 2, 0]
    apply(op, [variable("x", ("N", 3))], attrs)
    for name, value, said in (
        ("nodes_truenodeids", [7, 0, 0], "node 7 of tree 0"),
        ("target_treeids", [1], "node 2 of tree 1"),
        ("nodes_nodeids", [0, 1, 1], "same id twice"),
        ("nodes_modes", ["BRANCH_LE", "LEAF", "LEAF"], "'BRANCH_LE'"),
        ("target_ids", [3], "target 3 of 1"),
    ):
        with pytest.raises(BadAttribute, match=said):
            apply(op, [variable("x", ("N", 3))], {**attrs, name: value})


def test_too_few_features_are_refused_when_known_and_in_the_run():
    attrs = small(nodes_featureids=[7] * len(small()["nodes_featureids"]))
    op = find_op("TreeEnsemble", "ai.onnx.ml")
    with pytest.raises(ShapeMismatch, match="feature 7, X has 3"):
        apply(op, [variable("x", ("N", 3))], attrs)
    from neuralsym.core.graph import Graph
    from neuralsym.cpu.compiler import compile_graph
    from neuralsym.cpu.options import Options

    x = variable("x", ("N", "F"))
    cell = compile_graph(Graph({"y": apply(op, [x], attrs)[0]}, [x]), Options(threads=1))
    instance = cell.instance()
    instance["x"] = np.zeros((2, 3), np.float32)
    with pytest.raises(ExecutionError, match="does not have"):
        instance.compute()

"""Ensembles of trees of both forms that ai.onnx.ml has, as the tables of `TreeScores`.

Building the tables checks them: every index is in range, and no walk from a root can go on for
ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.registry import apply
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.errors import BadAttribute
from neuralsym.ops.ml_loops import LEAF, MISSING
from neuralsym.ops.ml_parts import TABLES, TreeScores

Array = NDArray[Any]
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MEMBER = len(MODES)
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""The aggregate functions; TreeEnsemble counts them in this order."""


class HasAttributes(Protocol):
    """A Call or Node."""

    def attr(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Forest:
    """The tables of an ensemble: nodes and their children, where -1 - i is leaf i, and votes."""

    features: Array
    splits: Array
    modes: Array
    missing: Array
    children: Array
    member_ends: Array
    members: Array
    roots: Array
    vote_ends: Array
    vote_targets: Array
    vote_weights: Array

    def scores(self, x: Symbol, targets: int, aggregate: str = "SUM") -> Symbol:
        """The aggregated votes of each row, float64[rows, targets]."""
        nodes = np.empty((len(self.features), 4), np.uint32)
        nodes[:, 0] = self.features
        nodes[:, 1:3] = _branches(self.children)
        nodes[:, 3] = self.modes + np.where(self.missing, MISSING, 0)
        tables = {**vars(self), "nodes": nodes, "roots": _branches(self.roots)}
        attrs: dict[str, Any] = {name: Tensor.of(tables[name]) for name in TABLES}
        attrs["plain"] = int(not self.modes.any())
        attrs["targets"] = targets
        attrs["aggregate"] = {"MIN": 1, "MAX": 2}.get(aggregate, 0)
        attrs["divisor"] = max(len(self.roots), 1) if aggregate == "AVERAGE" else 1
        return apply(TreeScores, [x], attrs)[0]

    def only_targets(self, target: int) -> Forest:
        """The same votes, all of them for `target`."""
        return Forest(**{**vars(self), "vote_targets": np.full_like(self.vote_targets, target)})


def _branches(places: Array) -> Array:
    """Nodes and leaves as `TreeScores` counts them."""
    return np.where(places < 0, LEAF - 1 - places, places).astype(np.uint32)


def _fail(message: str) -> BadAttribute:
    return BadAttribute(message)


def _column(node: HasAttributes, name: str, length: int | None, kind: Any = np.int64) -> Array:
    """A list or tensor attribute as a vector; zeros where it is missing and `length` is known."""
    value = node.attr(name)
    if value is None:
        return np.zeros(length or 0, kind)
    array = value.value if isinstance(value, Tensor) else np.array(value)
    try:
        array = np.asarray(array).reshape(-1).astype(kind)
    except (TypeError, ValueError):
        raise _fail(f"{name} holds no numbers") from None
    if length is not None and len(array) != length:
        raise _fail(f"{name} has {len(array)} entries, {length} are needed")
    return array


def _numbers(node: HasAttributes, name: str, length: int | None) -> Array:
    """Floats of the attribute, or of the tensor that may stand in its place."""
    if node.attr(f"{name}_as_tensor") is not None:
        return _column(node, f"{name}_as_tensor", length, np.float64)
    return _column(node, name, length, np.float64)


def base_values(node: HasAttributes) -> Array:
    """The base values; none if they are not given."""
    return _numbers(node, "base_values", None)


# -- TreeEnsemble ------------------------------------------------------------------------------
def forest_of(node: HasAttributes) -> Forest:
    """The tables of a TreeEnsemble; BadAttribute where they make no sense."""
    features = _column(node, "nodes_featureids", None)
    count = len(features)
    modes = _column(node, "nodes_modes", count)
    weights = _column(node, "leaf_weights", None, np.float64)
    if ((modes < 0) | (modes > MEMBER)).any():
        raise _fail(f"nodes_modes has a mode that is none of 0 to {MEMBER}")
    children = []
    for side in ("true", "false"):
        to = _column(node, f"nodes_{side}nodeids", count)
        leaf = _column(node, f"nodes_{side}leafs", count) != 0
        _check_range(f"nodes_{side}nodeids", to[leaf], len(weights), "leaves")
        _check_range(f"nodes_{side}nodeids", to[~leaf], count, "nodes")
        children.append(np.where(leaf, -1 - to, to))
    ends, members = _members(node, modes)
    roots = _column(node, "tree_roots", None)
    _check_range("tree_roots", roots, count, "nodes")
    return _checked(
        Forest(
            features,
            _column(node, "nodes_splits", count, np.float64),
            modes.astype(np.uint8),
            _column(node, "nodes_missing_value_tracks_true", count, np.uint8),
            np.stack(children, axis=1),
            ends,
            members,
            roots,
            np.arange(len(weights) + 1),
            _column(node, "leaf_targetids", len(weights)),
            weights,
        )
    )


def _members(node: HasAttributes, modes: Array) -> tuple[Array, Array]:
    """Where each node's set of members ends among all of them, in the order of the nodes.

    onnx's reference takes the sets in the order of a walk through the trees, and ends one at a
    zero; the specification says the order of nodes_modes, each ended by NaN.
    """
    values = _column(node, "membership_values", None, np.float64)
    marks = np.flatnonzero(np.isnan(values))
    wanted = int((modes == MEMBER).sum())
    if len(values) and (not len(marks) or marks[-1] != len(values) - 1):
        marks = np.append(marks, len(values))
    if len(marks) != wanted:
        raise _fail(f"membership_values has {len(marks)} sets for {wanted} nodes of that mode")
    sizes = np.zeros(len(modes) + 1, np.int64)
    sizes[1:][modes == MEMBER] = np.diff(marks, prepend=-1) - 1
    return np.cumsum(sizes), values[~np.isnan(values)]


# -- the older form ----------------------------------------------------------------------------
def older_forest(node: HasAttributes, votes: str) -> Forest:
    """The tables of a TreeEnsembleRegressor (`votes` is "target") or -Classifier ("class").

    The first node of each tree is its root.
    """
    trees = _column(node, "nodes_treeids", None)
    count = len(trees)
    place = _finder(trees, _column(node, "nodes_nodeids", count))
    names = np.array(node.attr("nodes_modes") or (), dtype=object)
    if len(names) != count:
        raise _fail(f"nodes_modes has {len(names)} entries, {count} are needed")
    numbers = {name: i for i, name in enumerate((*MODES, "BRANCH_MEMBER"))}
    leaf = names == "LEAF"
    unknown = next((n for n in names.tolist() if n != "LEAF" and n not in MODES), None)
    if unknown is not None:
        raise _fail(f"nodes_modes has {unknown!r}, which is none of {', '.join(MODES)}, LEAF")
    # The leaves are numbered anew, in their order.
    number = np.cumsum(leaf) - 1
    inner = np.cumsum(~leaf) - 1
    code = np.where(leaf, -1 - number, inner)
    children = []
    for side in ("true", "false"):
        name = f"nodes_{side}nodeids"
        ids = _column(node, name, count)[~leaf]
        children.append(code[place(trees[~leaf], ids, name)])
    modes = np.array([numbers[n] for n in names[~leaf].tolist()], np.uint8)
    _, first = np.unique(trees, return_index=True)
    ends, targets, weights = _votes(node, votes, place, code, int(leaf.sum()))
    return _checked(
        Forest(
            _column(node, "nodes_featureids", count)[~leaf],
            _numbers(node, "nodes_values", count)[~leaf],
            modes,
            _column(node, "nodes_missing_value_tracks_true", count, np.uint8)[~leaf],
            np.stack(children, axis=1),
            np.zeros(len(modes) + 1, np.int64),
            np.zeros(0),
            code[np.sort(first)],
            ends,
            targets,
            weights,
        )
    )


def _votes(
    node: HasAttributes,
    votes: str,
    place: Callable[[Array, Array, str], Array],
    code: Array,
    leaves: int,
) -> tuple[Array, Array, Array]:
    """The votes in the order of the leaves: where each leaf's end, their targets, their weights."""
    targets = _column(node, f"{votes}_ids", None)
    trees = _column(node, f"{votes}_treeids", len(targets))
    name = f"{votes}_nodeids"
    at = code[place(trees, _column(node, name, len(targets)), name)]
    # What a node that is no leaf votes for is never reached.
    reached = at < 0
    order = np.argsort(-1 - at[reached], kind="stable")
    counts = np.bincount(-1 - at[reached], minlength=leaves)
    weights = _numbers(node, f"{votes}_weights", len(targets))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return ends, targets[reached][order], weights[reached][order]


def _finder(trees: Array, nodes: Array) -> Callable[[Array, Array, str], Array]:
    """A function from (tree ids, node ids) to the places of those nodes."""
    names, number = np.unique(trees, return_inverse=True)
    low = int(nodes.min()) if len(nodes) else 0
    span = int(nodes.max()) - low + 1 if len(nodes) else 1
    keys = number.astype(np.int64) * span + (nodes - low)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    if len(ordered) > 1 and (np.diff(ordered) == 0).any():
        raise _fail("nodes_nodeids has the same id twice in one tree")

    def find(tree: Array, node: Array, name: str) -> Array:
        if not len(tree):
            return np.zeros(0, np.int64)
        at = np.searchsorted(names, tree)
        known = (at < len(names)) & (node >= low) & (node < low + span)
        wanted = np.where(known, at * span + (node - low), -1)
        found = np.minimum(np.searchsorted(ordered, wanted), max(len(ordered) - 1, 0))
        if not len(ordered):
            raise _fail(f"{name} names nodes, but there are none")
        good = known & (ordered[found] == wanted) & (names[np.minimum(at, len(names) - 1)] == tree)
        if not good.all():
            wrong = int(np.flatnonzero(~good)[0])
            raise _fail(
                f"{name} names node {node[wrong]} of tree {tree[wrong]}, which is not there"
            )
        return order[found]

    return find


# -- checks ------------------------------------------------------------------------------------
def _check_range(name: str, values: Array, limit: int, what: str) -> None:
    wrong = values[(values < 0) | (values >= limit)]
    if len(wrong):
        raise _fail(f"{name} has {wrong[0]}, but there are {limit} {what}")


def _checked(forest: Forest) -> Forest:
    """The forest with its arrays as the loop takes them; BadAttribute for a walk without end."""
    if (forest.features < 0).any():
        raise _fail(f"nodes_featureids has {forest.features.min()}")
    at = np.unique(forest.roots[forest.roots >= 0])
    for _ in range(len(forest.features) + 1):
        if not len(at):
            break
        to = forest.children[at].reshape(-1)
        at = np.unique(to[to >= 0])
    else:
        raise _fail("a node of a tree is among its own descendants")
    modes, splits = forest.modes.astype(np.int64), forest.splits
    less = modes == MODES.index("BRANCH_LT")
    # x < s is x <= the number before s, so most ensembles have one mode; nothing is below -inf.
    before = np.where(np.isneginf(splits), np.nan, np.nextafter(splits, -np.inf))
    tables = {
        **vars(forest),
        "modes": np.where(less, 0, modes),
        "splits": np.where(less, before, splits),
    }
    whole = ("vote_ends", "vote_targets", "member_ends")
    tables.update({name: tables[name].astype(np.int64) for name in whole})
    return Forest(**{name: np.ascontiguousarray(table) for name, table in tables.items()})

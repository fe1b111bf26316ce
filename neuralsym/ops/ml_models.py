"""Models fitted elsewhere: linear ones and ensembles of trees, of ai.onnx.ml.

Each is written with operators of ONNX and the parts of `ml_parts`, so that products, transforms and
votes run as compiled kernels. Where the two known evaluators differ and the specification is
silent, the class says what holds here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core import registry
from neuralsym.core.leaves import constant
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import BadAttribute
from neuralsym.ops.base import bad, check_choice, check_range, check_rank
from neuralsym.ops.expansions import converted
from neuralsym.ops.ml import Learned, batch_of, exact, floats
from neuralsym.ops.ml_parts import (
    TRANSFORMS,
    label_table,
    labelled,
    transformed,
    two_classes,
)
from neuralsym.ops.ml_trees import (
    AGGREGATES,
    Forest,
    base_values,
    forest_of,
    older_forest,
)

Array = NDArray[Any]
MOST = 2**31


def matrix_of(node: Node) -> Symbol | None:
    """The input as a matrix, a vector being one row; None where its rank is not known to be so."""
    x = node.inputs[0]
    assert x is not None
    rank = x.tensor.rank
    if rank == 1:
        return registry.call("Unsqueeze", x, np.array([0], np.int64))
    return x if rank == 2 else None


def vector(values: Sequence[float], kind: NumberType = NumberType.FLOAT64) -> Array:
    """Numbers as a constant's array, float64 unless another type is asked for."""
    return np.array(values, kind.numpy)


def product(x: Symbol, matrix: Array) -> Symbol:
    """x times a constant matrix in x's type."""
    return registry.call("MatMul", x, constant(matrix.astype(x.dtype.numpy)))


def plus(x: Symbol, row: Array) -> Symbol:
    return registry.call("Add", x, constant(row.astype(x.dtype.numpy))) if row.any() else x


# -- regressors --------------------------------------------------------------------------------
class LinearRegressor(Learned):
    """A matrix of coefficients applied to each row, plus intercepts.

    The transform is applied for one target too; onnxruntime leaves it out there.
    """

    @classmethod
    def check(cls, call: Call) -> None:
        check_range(call, "targets", 1, MOST)
        check_choice(call, "post_transform", TRANSFORMS)
        check_rank(call, 0, 1, 2)
        targets, given = call.attr("targets"), len(call.attr("coefficients") or ())
        check_multiple(call, "coefficients", given, targets, "targets")
        check_features(call, given // targets)
        count = len(call.attr("intercepts") or ())
        if count not in (0, targets):
            call.fail(f"intercepts has {count} entries for {targets} targets", bad)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [floats((batch_of(call), call.attr("targets")))]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        x, targets = matrix_of(node), node.attr("targets")
        if x is None:
            return None
        weights = vector(node.attr("coefficients") or ()).reshape(targets, -1)
        scores = product(exact(x), weights.T)
        scores = plus(scores, vector(node.attr("intercepts") or (0.0,)))
        return [converted(transformed(scores, node.attr("post_transform")), NumberType.FLOAT32)]


class TreeEnsembleRegressor(Learned):
    """The form of TreeEnsemble before version 5 of the domain, for regression."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_range(call, "n_targets", 1, MOST)
        check_choice(call, "aggregate_function", AGGREGATES)
        check_choice(call, "post_transform", TRANSFORMS)
        check_rank(call, 0, 1, 2)
        _check_forest(call, lambda: older_forest(call, "target"), _targets(call))
        _check_base(call, (0, 1, _targets(call)))

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [floats((batch_of(call), _targets(call)))]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        x = matrix_of(node)
        if x is None:
            return None
        forest = older_forest(node, "target")
        scores = forest.scores(exact(x), _targets(node), node.attr("aggregate_function"))
        scores = plus(scores, base_values(node))
        return [converted(transformed(scores, node.attr("post_transform")), NumberType.FLOAT32)]


def _targets(node: Call | Node) -> int:
    return int(node.attr("n_targets") or 1)


class TreeEnsemble(Learned):
    """The summed, averaged, least or largest leaves of trees, for each target.

    NaN follows `nodes_missing_value_tracks_true` for every comparison, also for "not equal".
    """

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "aggregate_function", range(len(AGGREGATES)))
        check_choice(call, "post_transform", range(len(TRANSFORMS)))
        check_range(call, "n_targets", 1, MOST)
        check_rank(call, 0, 1, 2)
        _check_forest(call, lambda: forest_of(call), _targets(call))

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(call.dtype(0), (batch_of(call), _targets(call)))]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        x = matrix_of(node)
        if x is None:
            return None
        how = AGGREGATES[node.attr("aggregate_function")]
        scores = forest_of(node).scores(exact(x), _targets(node), how)
        made = transformed(scores, TRANSFORMS[node.attr("post_transform")])
        return [converted(made, node.outputs[0].dtype)]


# -- classifiers -------------------------------------------------------------------------------
class Classifier(Learned, abstract=True):
    """The likeliest label of each row, and the score of every label.

    The label is told by the scores before their transform.
    """

    texts, numbers = "classlabels_strings", "classlabels_ints"

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "post_transform", TRANSFORMS)
        check_rank(call, 0, 1, 2)
        if cls.count(call) == 0:
            call.fail(f"it needs labels: {cls.texts} or {cls.numbers}", bad)
        if call.attr(cls.texts) and call.attr(cls.numbers):
            call.fail(f"only one of {cls.texts} and {cls.numbers} may be given", bad)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        dtype = NumberType.STRING if call.attr(cls.texts) else NumberType.INT64
        rows = batch_of(call)
        return [TensorType(dtype, (rows,)), floats((rows, cls.scores(call)))]

    @classmethod
    def count(cls, node: Call | Node) -> int:
        """How many labels there are."""
        return len(node.attr(cls.texts) or node.attr(cls.numbers) or ())

    @classmethod
    def scores(cls, call: Call) -> Size:
        """How many scores a row has."""
        return cls.count(call)

    @classmethod
    def results(cls, node: Node, places: Symbol, scores: Symbol) -> list[Symbol]:
        """The outputs: labels at their places, and the scores."""
        labels = label_table(node.attr(cls.texts), node.attr(cls.numbers))
        return [labelled(places, labels), converted(scores, NumberType.FLOAT32)]


def largest(scores: Symbol) -> Symbol:
    """The first largest score of each row, int64[rows]."""
    return registry.call("ArgMax", scores, axis=1, keepdims=0)


def _second(score: Symbol, limit: float) -> Symbol:
    """Of two labels, the place of that which a single score [rows, 1] tells."""
    above = registry.call("Greater", score, limit)
    return registry.call("Squeeze", converted(above, NumberType.INT64), np.array([1], np.int64))


class LinearClassifier(Classifier):
    """Classes by a linear score each.

    Two labels and one score: the second label where it is above zero. Its scores are then
    [1 - s, s], and with a transform that takes any number that of [-s, s].
    """

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        labels, given = cls.count(call), len(call.attr("coefficients"))
        lines = cls.lines(call)
        if lines not in (labels, 1) or (lines == 1 and labels > 2):
            call.fail(f"intercepts has {lines} entries for {labels} labels", bad)
        check_multiple(call, "coefficients", given, lines, "scores")
        check_features(call, given // lines)

    @classmethod
    def lines(cls, node: Call | Node) -> int:
        """How many linear scores there are: the intercepts tell, or the number of features."""
        count = len(node.attr("intercepts") or ())
        if count:
            return count
        symbol = node.inputs[0]
        shape = None if symbol is None else symbol.tensor.shape
        width = shape[-1] if shape else None
        single = isinstance(width, int) and len(node.attr("coefficients")) == width
        return 1 if single else cls.count(node)

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        x, how = matrix_of(node), node.attr("post_transform")
        if x is None:
            return None
        lines = cls.lines(node)
        weights = vector(node.attr("coefficients")).reshape(lines, -1)
        scores = product(exact(x), weights.T)
        scores = plus(scores, vector(node.attr("intercepts") or (0.0,)))
        if lines == 1 and cls.count(node) == 2:
            both = two_classes(scores, how, probability=True)
            return cls.results(node, _second(scores, 0.0), both)
        return cls.results(node, largest(scores), transformed(scores, how))


class TreeEnsembleClassifier(Classifier):
    """The form of TreeEnsemble before version 5 of the domain, for classes.

    Two labels and votes for one class alone: these are the scores of the second label if they are
    for the first, as probabilities where no weight is negative ([1 - s, s], above 1/2) and on a
    line of both signs else ([-s, s], above 0).
    """

    numbers = "classlabels_int64s"

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        labels = cls.count(call)
        _check_forest(call, lambda: older_forest(call, "class"), labels)
        _check_base(call, (0, 1, labels))

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        x, how = matrix_of(node), node.attr("post_transform")
        if x is None:
            return None
        x, labels, base = exact(x), cls.count(node), base_values(node)
        forest = older_forest(node, "class")
        voted = set(forest.vote_targets.tolist())
        likely = bool((forest.vote_weights >= 0).all())
        limit = 0.5 if likely else 0.0
        if labels == 2 and len(voted) == 1 and len(base) < 2:
            score = plus(forest.only_targets(0).scores(x, 1), base)
            place = _second(score, limit)
            if voted == {0}:
                return cls.results(node, place, two_classes(score, how, probability=likely))
            other = registry.call("Mul", score, 0.0)
            both = registry.call("Concat", other, score, axis=1)
            return cls.results(node, place, transformed(both, how))
        scores = plus(forest.scores(x, labels), base)
        return cls.results(node, largest(scores), transformed(scores, how))


# -- checks ------------------------------------------------------------------------------------
def check_multiple(call: Call, name: str, given: int, parts: int, what: str) -> None:
    """The attribute's entries can be shared among `parts`; BadAttribute otherwise."""
    if given % parts or not given:
        call.fail(f"{name} has {given} entries, which {parts} {what} cannot share", bad)


def check_features(call: Call, wanted: int) -> None:
    """X has as many features as the parameters are for, as far as both are known."""
    shape = call.shape(0)
    if shape and isinstance(shape[-1], int) and shape[-1] != wanted:
        call.fail(f"X has {shape[-1]} features, the coefficients are for {wanted}")


def _check_forest(call: Call, make: Any, targets: int) -> None:
    try:
        forest: Forest = make()
    except BadAttribute as error:
        call.fail(str(error), bad)
    votes = forest.vote_targets
    if len(votes) and not (votes.min() >= 0 and votes.max() < targets):
        call.fail(f"a leaf votes for target {votes.max()} of {targets}", bad)
    shape = call.shape(0)
    width = shape[-1] if shape else None
    if isinstance(width, int) and len(forest.features) and forest.features.max() >= width:
        call.fail(f"a node tests feature {forest.features.max()}, X has {width}")


def _check_base(call: Call, allowed: Sequence[int]) -> None:
    count = len(base_values(call))
    if count not in allowed:
        call.fail(f"base_values has {count} entries, {allowed[-1]} are needed", bad)

"""Support vector machines of ai.onnx.ml.

The kernel's values of all rows and vectors are one matrix product, the scores of all pairs of
classes another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core import registry
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Size, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import bad, check_choice, check_range, check_rank
from neuralsym.ops.expansions import converted
from neuralsym.ops.ml import Learned, batch_of, floats
from neuralsym.ops.ml_models import (
    MOST,
    Classifier,
    check_features,
    check_multiple,
    largest,
    matrix_of,
    plus,
    product,
    vector,
)
from neuralsym.ops.ml_parts import TRANSFORMS, PairProbabilities, transformed, two_classes

Array = NDArray[Any]
_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


class SVMRegressor(Learned):
    """A function of a row by support vectors; with `one_class` only its sign, 1 or -1."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "kernel_type", _KERNELS)
        check_choice(call, "post_transform", TRANSFORMS)
        check_choice(call, "one_class", (0, 1))
        check_range(call, "n_supports", 0, MOST)
        check_rank(call, 0, 1, 2)
        vectors, count = call.attr("n_supports"), len(call.attr("coefficients") or ())
        if vectors:
            if count != vectors:
                call.fail(f"coefficients has {count} entries for {vectors} vectors", bad)
            _check_vectors(call, vectors)
        else:
            check_features(call, count)
        _check_kernel(call)
        if len(call.attr("rho") or ()) < 1:
            call.fail("rho must have an entry", bad)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [floats((batch_of(call), 1))]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        x = matrix_of(node)
        if x is None:
            return None
        x = converted(x, NumberType.FLOAT64)
        count = node.attr("n_supports")
        if count:
            x = _similarities(node, x, vector(node.attr("support_vectors")).reshape(count, -1))
        score = product(x, vector(node.attr("coefficients")).reshape(-1, 1))
        score = plus(score, vector(node.attr("rho"))[:1])
        if node.attr("one_class"):
            made = registry.call("Where", registry.call("Greater", score, 0.0), 1.0, -1.0)
        else:
            made = transformed(score, node.attr("post_transform"))
        return [converted(made, NumberType.FLOAT32)]


def _similarities(node: Node, x: Symbol, vectors: Array) -> Symbol:
    """The kernel's value of each row and each support vector."""
    call, kind = registry.call, node.attr("kernel_type")
    gamma, offset, degree = (*map(float, node.attr("kernel_params") or ()), 0.0, 0.0, 0.0)[:3]
    inner = product(x, vectors.T)
    if kind == "LINEAR":
        return inner
    if kind == "RBF":
        # In float64 the squares can be taken apart: what cancels is far below float32.
        squares = call("ReduceSumSquare", x, np.array([1], np.int64), keepdims=1)
        distance = call("Sub", plus(squares, (vectors**2).sum(axis=1)), call("Mul", inner, 2.0))
        return call("Exp", call("Mul", call("Max", distance, 0.0), -gamma))
    line = call("Add", call("Mul", inner, gamma), offset)
    return call("Tanh", line) if kind == "SIGMOID" else call("Pow", line, degree)


class SVMClassifier(Classifier):
    """Classes by support vectors, or without any by a linear score each.

    Each pair of classes votes; the label is the first with the most votes. The scores are the
    probabilities if `prob_a` and `prob_b` are given, else those of the pairs, and for two classes
    [-s, s].
    """

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "kernel_type", _KERNELS)
        check_range(call, "vectors_per_class", 0)
        _check_kernel(call)
        labels, given = cls.count(call), len(call.attr("coefficients") or ())
        per = call.attr("vectors_per_class") or ()
        vectors, pairs = sum(per), labels * (labels - 1) // 2
        rho = len(call.attr("rho") or ())
        if not vectors:
            check_multiple(call, "coefficients", given, labels, "labels")
            check_features(call, given // labels)
            if rho < 1:
                call.fail("rho must have an entry", bad)
            return
        if len(per) != labels:
            call.fail(f"vectors_per_class has {len(per)} entries for {labels} labels", bad)
        if given != (labels - 1) * vectors:
            call.fail(
                f"coefficients has {given} entries, {labels} labels and {vectors} vectors need "
                f"{(labels - 1) * vectors}",
                bad,
            )
        _check_vectors(call, vectors)
        for name in ("rho", "prob_a", "prob_b"):
            count = len(call.attr(name) or ())
            if count < pairs and (count or name == "rho"):
                call.fail(f"{name} has {count} entries for {pairs} pairs of labels", bad)
        if bool(call.attr("prob_a")) != bool(call.attr("prob_b")):
            call.fail("prob_a and prob_b must be given both or not at all", bad)

    @classmethod
    def scores(cls, call: Call) -> Size:
        labels = cls.count(call)
        if not sum(call.attr("vectors_per_class") or ()) or call.attr("prob_a"):
            return labels
        return max(labels * (labels - 1) // 2, 2 if labels == 2 else 0)

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        x, how = matrix_of(node), node.attr("post_transform")
        if x is None:
            return None
        x, labels = converted(x, NumberType.FLOAT64), cls.count(node)
        rho, per = vector(node.attr("rho")), node.attr("vectors_per_class") or ()
        if not sum(per):
            weights = vector(node.attr("coefficients")).reshape(labels, -1)
            scores = plus(product(x, weights.T), rho[:1] if len(rho) < labels else rho[:labels])
            return cls.results(node, largest(scores), transformed(scores, how))
        vectors = vector(node.attr("support_vectors")).reshape(sum(per), -1)
        near = _similarities(node, x, vectors)
        weights, winners = _pairs(vector(node.attr("coefficients")), per)
        pairs = weights.shape[1]
        scores = plus(product(near, weights), rho[:pairs])
        # A pair votes for its first class above zero, else for its second.
        first = converted(registry.call("Greater", scores, 0.0), NumberType.FLOAT64)
        losers = (winners < 0).sum(axis=0).astype(np.float64)
        place = largest(plus(product(first, winners), losers))
        if node.attr("prob_a"):
            tables = {"slopes": node.attr("prob_a"), "offsets": node.attr("prob_b")}
            attrs = {name: vector(values)[:pairs] for name, values in tables.items()}
            (shares,) = registry.apply(PairProbabilities, [scores], {**attrs, "classes": labels})
            return cls.results(node, place, transformed(shares, how))
        if labels == 2:
            return cls.results(node, place, two_classes(scores, how, probability=False))
        return cls.results(node, place, transformed(scores, how))


def _pairs(coefficients: Array, per: Sequence[int]) -> tuple[Array, Array]:
    """The coefficients [vector, pair] of all pairs' scores, and [pair, class] 1 for the first
    class of each pair, -1 for the second.

    For classes i < j the vectors of i have row j - 1 of the coefficients, those of j row i.
    """
    ends = np.cumsum([0, *per])
    count, vectors = len(per), int(ends[-1])
    rows = coefficients.reshape(count - 1, vectors)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    weights, winners = np.zeros((vectors, len(pairs))), np.zeros((len(pairs), count))
    for pair, (i, j) in enumerate(pairs):
        for own, row in ((i, j - 1), (j, i)):
            part = slice(ends[own], ends[own + 1])
            weights[part, pair] = rows[row, part]
        winners[pair, i], winners[pair, j] = 1, -1
    return weights, winners


# -- checks ------------------------------------------------------------------------------------
def _check_vectors(call: Call, count: int) -> None:
    given = len(call.attr("support_vectors") or ())
    check_multiple(call, "support_vectors", given, count, "vectors")
    check_features(call, given // count)


def _check_kernel(call: Call) -> None:
    given = len(call.attr("kernel_params") or ())
    if given not in (0, 3):
        call.fail(f"kernel_params has {given} entries; gamma, coef0 and degree are needed", bad)

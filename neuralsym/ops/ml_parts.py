"""What the expansions of ai.onnx.ml are made of, besides operators of ONNX: operators of our own.

    FindKey(x)            = the place of each element among the keys
    TreeScores(x)         = the aggregated votes of an ensemble of trees, float64[rows, targets]
    PairProbabilities(s)  = class probabilities from the decision values of all pairs of classes
    Probit(p)             = the quantiles of the standard normal distribution

No file holds them; `neuralsym.cpu.kernels.ml` compiles their loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core import registry
from neuralsym.core import scalar as s
from neuralsym.core.leaves import OWN, constant
from neuralsym.core.op import Call, Op
from neuralsym.core.scalar import Expr, Scalar, cast
from neuralsym.core.schema import AttributeSpec, Formal, Schema
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import ExecutionError
from neuralsym.ops import ml_loops
from neuralsym.ops.base import Elementwise, bad

ANY: frozenset[str] = frozenset()
"""As a formal's allowed types: all of them."""
TABLES = (
    *("nodes", "splits", "member_ends", "members", "roots"),
    *("vote_ends", "vote_targets", "vote_weights"),
)
"""The arrays of an ensemble of trees, in the order in which its loop takes them."""


def _schema(name: str, *attributes: AttributeSpec) -> Schema:
    return Schema(
        name,
        OWN,
        inputs=(Formal("X", "single", "T", ANY),),
        outputs=(Formal("Y", "single", "T", ANY),),
        attributes={a.name: a for a in attributes},
        minimum_inputs=1,
        maximum_inputs=1,
        doc=__doc__ or "",
    )


# -- tables ------------------------------------------------------------------------------------
class FindKey(Op):
    """The index of each element among `keys` (the last of equals), their number where it is none.

    x is int64, float64 or string, as the keys are. With `strict`, an element that is no key is an
    error. NaN is a key like others.
    """

    domain = OWN
    schema = _schema(
        "FindKey",
        AttributeSpec("keys", "TENSOR", required=True),
        AttributeSpec("strict", "INT", default=0),
    )

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        if call.attrs["keys"].dtype is not call.dtype(0):
            call.fail(f"its keys are {call.attrs['keys'].dtype}", bad)
        return [TensorType(NumberType.INT64, call.shape(0))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        (x,) = values
        places = {key: i for i, key in enumerate(_hashable(node.attrs["keys"].value))}
        found = [places.get(v, len(node.attrs["keys"].value)) for v in _hashable(x)]
        if node.attr("strict") and len(node.attrs["keys"].value) in found:
            raise ExecutionError(f"{node.describe()} met a value that is none of its keys")
        return [np.array(found, np.int64).reshape(np.shape(x))]


def _hashable(array: NDArray[Any]) -> list[Any]:
    """The elements, None for NaN."""
    return [None if v != v else v for v in np.asarray(array).reshape(-1).tolist()]


def sorted_keys(node: Node) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The distinct keys in ascending order, NaN last, and the last place of each."""
    keys = node.attrs["keys"].value
    last = {key: i for i, key in enumerate(_hashable(keys))}
    places = np.array(sorted(last.values(), key=lambda i: _rank(keys[i])), np.int64)
    return np.ascontiguousarray(keys[places]), places


def _rank(key: Any) -> tuple[bool, Any]:
    return bool(key != key), 0 if key != key else key


class TreeScores(Op):
    """For each row of x the votes of the leaves that it reaches, aggregated for each target.

    nodes: uint32 [node, 4] of feature, true branch, false branch, mode (0 <=, 1 <, 2 >=, 3 >, 4 ==,
    5 !=, 6 one of the members) plus 8 where NaN takes the true branch; a branch is a node, or
    2**31 + i for leaf i. splits: float64 for each node. The members of node i go from
    member_ends[i] to before member_ends[i + 1]; the votes of a leaf likewise. roots are branches.
    `aggregate`: 0 the sum over `divisor`, 1 the least, 2 the largest; 0 where no leaf votes.
    """

    domain = OWN
    schema = _schema(
        "TreeScores",
        *(AttributeSpec(name, "TENSOR", required=True) for name in TABLES),
        AttributeSpec("targets", "INT", required=True),
        AttributeSpec("aggregate", "INT", default=0),
        AttributeSpec("divisor", "INT", default=1),
        AttributeSpec("plain", "INT", default=0),
    )
    numbers = ("aggregate", "divisor", "plain")

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        shape = call.shape(0)
        rows = None if shape is None else shape[0]
        return [TensorType(NumberType.FLOAT64, (rows, call.attrs["targets"]))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        (x,) = values
        out = np.zeros((len(x), node.attrs["targets"]))
        tables = [node.attrs[name].value for name in TABLES]
        numbers = [node.attr(name) for name in cls.numbers]
        loop: Callable[..., int] = ml_loops.tree_scores
        if loop(x, *tables, out, *numbers, 0, 1):
            raise ExecutionError(f"{node.describe()} tests a feature that {list(x.shape)} lacks")
        return [out]


class PairProbabilities(Op):
    """Probabilities of k classes from the decision values of their k (k - 1) / 2 pairs.

    That class i beats class j has the probability 1 / (1 + exp(slope * score + offset)) (Platt
    1999); the classes' own are the ones that fit those best (Wu, Lin and Weng 2004, method 2).
    """

    domain = OWN
    schema = _schema(
        "PairProbabilities",
        AttributeSpec("slopes", "TENSOR", required=True),
        AttributeSpec("offsets", "TENSOR", required=True),
        AttributeSpec("classes", "INT", required=True),
    )

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        shape = call.shape(0)
        rows = None if shape is None else shape[0]
        return [TensorType(NumberType.FLOAT64, (rows, call.attrs["classes"]))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        (scores,) = values
        k = node.attrs["classes"]
        out = np.zeros((len(scores), k))
        memory = np.zeros((len(scores), k, k)), np.zeros((len(scores), k))
        tables = (node.attrs["slopes"].value, node.attrs["offsets"].value)
        ml_loops.pair_probabilities(scores, *tables, *memory, out, 0, 1)
        return [out]


# -- post-transforms ---------------------------------------------------------------------------
# With w = -log(4 p (1 - p)) the quantile is (2p - 1) P(w) up to w = 6.25, and P(sqrt(w)) with the
# sign of 2p - 1 beyond; each polynomial is in (w - middle) / half of its interval. They are fits
# at Chebyshev points, of relative error below 2e-9.
_MIDDLE = (
    *(2.33862071015, 1.06135924468, -0.0833290888788, -0.0319674755279, 0.0251847466319),
    *(-0.00585149240724, -0.0017979098838, 0.00174516470022, -0.000375685469454),
    *(-0.000170728923775, 0.000135319633485, -1.39220162919e-05, -1.94258736833e-05),
    *(4.94798239596e-06, 1.2097704825e-06),
)
_TAIL = (
    *(5.78727782507, 2.49956930147, 0.00308270934635, -0.00458829537662, 0.00275331746928),
    *(-0.00134321560613, 0.000583113912717, -0.000225025774468, 8.82267057539e-05),
    *(-3.13464586201e-05, -2.30958678182e-05, 3.74511011477e-05, -1.0065121819e-05),
    -2.25904788756e-06,
)
_FAR = (
    *(23.2194108645, 14.8953326987, -0.0207163583163, 0.0095485070629, -0.0043763573396),
    *(0.00180646867279, -0.000475622367119, 0.000546528555249, -0.000810822331751),
    *(-0.000835330116171, 0.00147168795313, 0.000767016423982, -0.00113739972758),
    *(-0.000468836618499, 0.000499687860428),
)


class Probit(Elementwise):
    """The x below which a standard normal variable is with probability p; NaN outside of 0 to 1."""

    domain = OWN
    schema = _schema("Probit")

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        p = cast(x, "float64")
        w = -s.log(4 * p * (1 - p))
        root = s.sqrt(w)
        middle = (2 * p - 1) * _polynomial((w - 3.125) / 3.125, _MIDDLE)
        tail = s.where(
            root < 6,
            _polynomial((root - 4.25) / 1.75, _TAIL),
            _polynomial((root - 16.5) / 10.5, _FAR),
        )
        signed = s.where(p < 0.5, -tail, tail)
        inner = s.where(w < 6.25, middle, signed)
        ended = s.where(s.apply("eq", p, 1), math.inf, inner)
        return s.where(s.apply("eq", p, 0), -math.inf, ended)


def _polynomial(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """c0 + c1 x + c2 x^2 ..."""
    made: Scalar = coefficients[-1]
    for c in coefficients[-2::-1]:
        made = s.apply("add", s.apply("mul", made, x), c)
    return made


TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The values of `post_transform`; TreeEnsemble counts them in this order."""


def transformed(scores: Symbol, transform: str) -> Symbol:
    """A post_transform of rows of scores."""
    if transform == "LOGISTIC":
        return registry.call("Sigmoid", scores)
    if transform == "SOFTMAX":
        return registry.call("Softmax", scores, axis=-1)
    if transform == "PROBIT":
        return registry.apply(Probit, [scores])[0]
    return _softmax_zero(scores) if transform == "SOFTMAX_ZERO" else scores


def _softmax_zero(scores: Symbol) -> Symbol:
    """A softmax of the scores that are not zero; zeros stay zero, also where there is nothing else.

    onnxruntime gives NaN, onnx's reference 1/2 for a row of zeros; the specification says nothing.
    """
    call, axes = registry.call, np.array([-1], np.int64)
    some = call("Greater", call("Abs", scores), 1e-7)
    least = call("Where", some, scores, -math.inf)
    most = call("ReduceMax", least, axes, keepdims=1)
    most = call("Where", call("IsInf", most), 0.0, most)
    powers = call("Where", some, call("Exp", call("Sub", scores, most)), 0.0)
    total = call("ReduceSum", powers, axes, keepdims=1)
    return call("Where", some, call("Div", powers, total), 0.0)


def two_classes(score: Symbol, transform: str, *, probability: bool) -> Symbol:
    """The scores of both classes from that of the second, [rows, 1], transformed.

    probability: the score is one, so that the first class has what is left of 1; else its score is
    the opposite one.
    """
    call = registry.call
    # Transforms but the quantile take a score on the whole line.
    opposite = call("Neg", score)
    if probability if transform == "NONE" else transform == "PROBIT":
        opposite = call("Sub", 1.0, score)
    return transformed(call("Concat", opposite, score, axis=1), transform)


# -- labels ------------------------------------------------------------------------------------
def label_table(texts: Sequence[str] | None, numbers: Sequence[int] | None) -> Symbol:
    """The class labels as a constant vector."""
    if texts:
        return constant(Tensor.of(np.array(list(texts), dtype=object)))
    return constant(np.array(list(numbers or ()), np.int64))


def labelled(places: Symbol, labels: Symbol) -> Symbol:
    """The labels at the places."""
    return registry.call("Gather", labels, places, axis=0)

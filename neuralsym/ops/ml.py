"""Classical machine learning: the operators of the domain ai.onnx.ml."""

from __future__ import annotations

from neuralsym.core.op import Call, Op
from neuralsym.core.scalar import Expr, Scalar, cast, where
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import Elementwise, bad, check_choice, check_range, check_rank, same_type

DOMAIN = "ai.onnx.ml"
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


class Learned(Op, abstract=True):
    """A model fitted elsewhere, its parameters in attributes."""

    domain = DOMAIN


def _batch(call: Call) -> Size:
    """The number of rows; a vector is one row."""
    shape = call.shape(0)
    if shape is None:
        return None
    return shape[0] if len(shape) > 1 else 1


def _floats(call: Call, shape: Shape | None) -> TensorType:
    return TensorType(NumberType.FLOAT32, shape)


def _labels(call: Call, texts: str, numbers: str) -> tuple[NumberType, int]:
    """The number type of class labels and how many there are."""
    strings, ints = call.attr(texts), call.attr(numbers)
    if strings:
        return NumberType.STRING, len(strings)
    return NumberType.INT64, len(ints or ())


# -- features ----------------------------------------------------------------------------------
class ArrayFeatureExtractor(Learned):
    """The columns of the last axis that the indices name."""


class Binarizer(Elementwise):
    """1 above the threshold, else 0."""

    domain = DOMAIN

    @staticmethod
    def scalar(x: Expr, *, threshold: float) -> Scalar:
        # In float64, because the threshold of whole numbers need not be whole.
        return where(cast(x, "float64") > threshold, 1, 0)


class CastMap(Learned):
    """The values of a map as a row of a tensor."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "cast_to", ("TO_FLOAT", "TO_STRING", "TO_INT64"))
        check_choice(call, "map_form", ("DENSE", "SPARSE"))


class CategoryMapper(Learned):
    """Strings to numbers or numbers to strings, by a table."""


class DictVectorizer(Learned):
    """The values of a map in the order of a vocabulary."""


class FeatureVectorizer(Learned):
    """Tensors joined along the last axis as float32."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        widths = call.attr("inputdimensions")
        total: Size = 0
        for i in range(len(call.inputs)):
            shape = call.shape(i)
            width: Size = widths[i] if widths and i < len(widths) else None
            if width is None and shape:
                width = shape[-1]
            total = None if total is None or width is None else total + width
        return [_floats(call, (_batch(call), total))]


class Imputer(Learned):
    """The input with a value that stands for "missing" replaced."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [same_type(call)]


class LabelEncoder(Learned):
    """Keys to values, by a table."""


class Normalizer(Learned):
    """Each row divided by its largest element, its sum of magnitudes, or its length."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "norm", ("MAX", "L1", "L2"))

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [_floats(call, call.shape(0))]


class OneHotEncoder(Learned):
    """A new last axis with a 1 at the place of the category."""


class Scaler(Learned):
    """(x - offset) * scale, for each feature."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [_floats(call, call.shape(0))]


class ZipMap(Learned):
    """Each row of probabilities as a map from class labels."""


# -- models ------------------------------------------------------------------------------------
class LinearRegressor(Learned):
    """A matrix of coefficients applied to each row, plus intercepts."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_range(call, "targets", 1, 2**31)
        check_choice(call, "post_transform", _TRANSFORMS)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [_floats(call, (_batch(call), call.attr("targets")))]


class Classifier(Learned, abstract=True):
    """The likeliest label of each row, and the score of every label."""

    texts, numbers = "classlabels_strings", "classlabels_ints"

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "post_transform", _TRANSFORMS)
        check_rank(call, 0, 1, 2)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        dtype, count = _labels(call, cls.texts, cls.numbers)
        rows = _batch(call)
        return [TensorType(dtype, (rows,)), _floats(call, (rows, cls.scores(call, count)))]

    @classmethod
    def scores(cls, call: Call, labels: int) -> Size:
        """How many scores a row has."""
        return labels or None


class LinearClassifier(Classifier):
    """Classes by a linear score each."""


class SVMClassifier(Classifier):
    """Classes by support vectors."""

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "kernel_type", _KERNELS)
        check_range(call, "vectors_per_class", 0)

    @classmethod
    def scores(cls, call: Call, labels: int) -> Size:
        # Without probabilities each pair of classes has a score, where there are over two.
        if call.attr("prob_a") or labels <= 2:
            return labels or None
        return None


class SVMRegressor(Learned):
    """A function of a row by support vectors."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "kernel_type", _KERNELS)
        check_choice(call, "post_transform", _TRANSFORMS)
        check_choice(call, "one_class", (0, 1))
        check_range(call, "n_supports", 0, 2**31)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [_floats(call, (_batch(call), 1))]


class TreeEnsemble(Learned):
    """The summed, averaged, least or largest leaves of trees, for each target."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "aggregate_function", (0, 1, 2, 3))
        check_choice(call, "post_transform", (0, 1, 2, 3, 4))
        check_range(call, "n_targets", 1, 2**31)
        nodes = len(call.attr("nodes_featureids"))
        for name in ("nodes_truenodeids", "nodes_trueleafs", "nodes_falsenodeids"):
            if len(call.attr(name)) != nodes:
                call.fail(f"{name} has {len(call.attr(name))} entries for {nodes} nodes", bad)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(call.dtype(0), (_batch(call), call.attr("n_targets")))]


class TreeEnsembleRegressor(Learned):
    """The form of TreeEnsemble before version 5 of the domain, for regression."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_range(call, "n_targets", 1, 2**31)
        check_choice(call, "aggregate_function", ("AVERAGE", "SUM", "MIN", "MAX"))
        check_choice(call, "post_transform", _TRANSFORMS)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [_floats(call, (_batch(call), call.attr("n_targets")))]


class TreeEnsembleClassifier(Classifier):
    """The form of TreeEnsemble before version 5 of the domain, for classes."""

    numbers = "classlabels_int64s"

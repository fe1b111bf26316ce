"""Files that skl2onnx writes, against scikit-learn."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from export_checks import agree

from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.cpu.library import Library
from neuralsym.cpu.program import Step

pytest.importorskip("sklearn", reason="scikit-learn is not installed")
skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")

from skl2onnx.common.data_types import (  # noqa: E402
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn import (  # noqa: E402
    cluster,
    compose,
    decomposition,
    ensemble,
    feature_extraction,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]

RNG = np.random.default_rng(5)
X = RNG.standard_normal((60, 4)).astype(np.float32)
CLASSES = (X[:, 0] * 2 + X[:, 1] > X[:, 2]).astype(np.int64) + (X[:, 3] > 1)
NUMBERS = (X @ np.array([1.0, -2, 0.5, 0]) + np.abs(X[:, 1])).astype(np.float32)

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: linear_model.LogisticRegression(),
    "tree": lambda: tree.DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": lambda: ensemble.RandomForestClassifier(8, max_depth=5, random_state=0),
    "boosting": lambda: ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0),
    "support_vectors": lambda: svm.SVC(probability=True, random_state=0),
    "bayes": lambda: naive_bayes.GaussianNB(),
    "neighbours": lambda: neighbors.KNeighborsClassifier(3),
    "perceptron": lambda: neural_network.MLPClassifier((6,), max_iter=50, random_state=0),
    "scaled": lambda: pipeline.make_pipeline(
        preprocessing.StandardScaler(), decomposition.PCA(3), linear_model.LogisticRegression()
    ),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "linear": lambda: linear_model.LinearRegression(),
    "forest": lambda: ensemble.RandomForestRegressor(6, random_state=0),
    "boosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0),
    "neighbours": lambda: neighbors.KNeighborsRegressor(3),
    "support_vectors": lambda: svm.SVR(),
    "polynomial": lambda: pipeline.make_pipeline(
        preprocessing.PolynomialFeatures(2), preprocessing.MinMaxScaler(), linear_model.Ridge()
    ),
}


def convert(model: Any, types: Any, **options: Any) -> bytes:
    made = skl2onnx.convert_sklearn(model, initial_types=types, target_opset=18, **options)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("zipmap", [False, True])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name: str, zipmap: bool) -> None:
    model = CLASSIFIERS[name]().fit(X, CLASSES)
    options = {"zipmap": zipmap}
    file = convert(model, [("x", FloatTensorType([None, 4]))], options=options)
    chances = model.predict_proba(X)
    maps = [dict(enumerate(row)) for row in chances.tolist()]
    agree(file, [X], [model.predict(X), maps if zipmap else chances], rtol=1e-3)


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name: str) -> None:
    model = REGRESSORS[name]().fit(X, NUMBERS)
    file = convert(model, [("x", FloatTensorType([None, 4]))])
    agree(file, [X], [model.predict(X).reshape(-1, 1)], rtol=1e-3, atol=1e-4)


def test_clusters() -> None:
    model = cluster.KMeans(3, random_state=0, n_init=1).fit(X)
    file = convert(model, [("x", FloatTensorType([None, 4]))])
    agree(file, [X], [model.predict(X), model.transform(X)], rtol=1e-3, atol=1e-4)


def test_columns_of_several_kinds() -> None:
    """Strings, integers with gaps and floats, each prepared in its own way."""
    words = np.array([["a"], ["b"], ["c"], ["b"]] * 15, object)
    counts = RNG.integers(0, 4, (60, 2))
    numbers = np.where(RNG.random((60, 2)) < 0.2, np.nan, X[:, :2]).astype(np.float32)
    frame = np.concatenate([words, counts.astype(object), numbers.astype(object)], 1)
    columns = compose.ColumnTransformer(
        [
            ("words", preprocessing.OneHotEncoder(handle_unknown="ignore"), [0]),
            ("counts", preprocessing.OrdinalEncoder(), [1, 2]),
            ("numbers", impute.SimpleImputer(), [3, 4]),
        ]
    )
    model = pipeline.make_pipeline(columns, linear_model.LogisticRegression()).fit(frame, CLASSES)
    types = [
        ("words", StringTensorType([None, 1])),
        ("counts", Int64TensorType([None, 2])),
        ("numbers", FloatTensorType([None, 2])),
    ]
    file = convert(model, types, options={"zipmap": False})
    wanted = [model.predict(frame), model.predict_proba(frame)]
    agree(file, [words, counts, numbers], wanted, rtol=1e-3)


def test_words_of_texts() -> None:
    """The tokenizer is an operator of onnxruntime's own, for which the user has a kernel."""
    texts = np.array(["the cat sat", "a dog, a dog!", "the end of the cat", "nothing"], object)
    vectors = feature_extraction.text.TfidfVectorizer(lowercase=True)
    model = pipeline.make_pipeline(vectors, linear_model.LogisticRegression())
    model.fit(texts, [0, 1, 0, 1])
    file = convert(model, [("texts", StringTensorType([None, 1]))], options={"zipmap": False})
    library = Library.default()

    @library.kernel("Tokenizer", domain="com.microsoft")
    class Tokenizer(HostKernel):
        def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
            assert step.attr("tokenexp")
            found = [re.findall(step.attr("tokenexp"), text) for text in values[0].reshape(-1)]
            made = np.full((len(found), 1, max(map(len, found))), step.attr("pad_value"), object)
            for row, words in zip(made[:, 0], found, strict=True):
                row[: len(words)] = words
            return [made if values[0].ndim == 2 else made[:, 0]]

    wanted = [model.predict(texts), model.predict_proba(texts)]
    agree(file, [texts.reshape(-1, 1)], wanted, rtol=1e-3, library=library)

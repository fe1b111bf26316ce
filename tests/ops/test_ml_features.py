"""Scaling, encoding, tables and maps of ai.onnx.ml against onnxruntime and plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from host_free import host_steps
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_cases import ours, runtime

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_variable, variable
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import MapType, TensorType
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options
from neuralsym.dtypes import NumberType
from neuralsym.errors import BadAttribute, ExecutionError, ShapeMismatch
from neuralsym.ops.evaluate import evaluate

X = np.array([[1, -2, 3], [0, 0, 0], [-1, -2, -4]])
KINDS = ["float32", "float64", "int64", "int32"]


def texts(*values):
    return np.array(values, dtype=object)


def tensor(values, dtype):
    return Tensor.of(np.array(values, dtype))


def same(got, expected):
    for a, b in zip(got, expected, strict=True):
        b = np.asarray(b)
        assert a.shape == b.shape and (b.dtype.kind in "OU" or a.dtype == b.dtype)
        if b.dtype.kind in "OU":
            assert a.tolist() == b.tolist()
        else:
            np.testing.assert_allclose(a, b, rtol=1e-6)


# -- numbers -----------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(dtype, norm):
    """onnx's reference divides by the largest magnitude, where the formula has the largest."""
    x = X.astype(dtype)
    same(
        ours("Normalizer", [x], {"norm": norm}, free=True),
        runtime("Normalizer", [x], {"norm": norm}),
    )
    same(ours("Normalizer", [x[0]], {"norm": norm}), runtime("Normalizer", [x[0]], {"norm": norm}))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("attrs", [{"scale": [1.0, 2.0, 3.0], "offset": [0.1, 0.2, 0.3]},
                                   {"scale": [2.0], "offset": [0.5]}])  # fmt: skip
def test_scaler(dtype, attrs):
    for x in (X.astype(dtype), X.astype(dtype).reshape(1, 3, 3)):
        same(ours("Scaler", [x], attrs, free=True), runtime("Scaler", [x], attrs))


def test_scaler_without_attributes_converts():
    (got,) = ours("Scaler", [X.astype(np.int64)], {})
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, X)


@pytest.mark.parametrize("dtype", KINDS)
def test_imputer(dtype):
    x = X.astype(dtype)
    if x.dtype.kind == "f":
        for old, new in ((0.0, [9.0, 8.0, 7.0]), (-2.0, [5.0])):
            attrs = {"imputed_value_floats": new, "replaced_value_float": old}
            (got,) = ours("Imputer", [x], attrs, free=True)
            np.testing.assert_array_equal(got, np.where(x == old, np.array(new), x))
        x[0, 1] = np.nan
        attrs = {"imputed_value_floats": [9.0, 8.0, 7.0], "replaced_value_float": float("nan")}
        (got,) = ours("Imputer", [x], attrs)
        np.testing.assert_array_equal(got, np.where(np.isnan(x), [9, 8, 7], x))
    else:
        attrs = {"imputed_value_int64s": [9, 8, 7], "replaced_value_int64": -2}
        (got,) = ours("Imputer", [x], attrs)
        np.testing.assert_array_equal(got, np.where(x == -2, [9, 8, 7], x))
        attrs["replaced_value_int64"] = 2**40 - 2  # no value of an int32
        np.testing.assert_array_equal(ours("Imputer", [x], attrs)[0], x)
    assert got.dtype == x.dtype


def test_imputer_agrees_with_onnxruntime():
    x = np.array([[1, np.nan, 3], [np.nan, 2, np.nan]], np.float32)
    attrs = {"imputed_value_floats": [9.0, 8.0, 7.0], "replaced_value_float": float("nan")}
    same(ours("Imputer", [x], attrs), runtime("Imputer", [x], attrs))


@pytest.mark.parametrize("dtype", KINDS)
def test_binarizer(dtype):
    x = X.astype(dtype)
    same(ours("Binarizer", [x], {"threshold": 0.5}), [(x > 0.5).astype(dtype)])


@pytest.mark.parametrize("dtype", KINDS)
def test_feature_vectorizer(dtype):
    a, b, c = (X[:, i : i + n].astype(dtype) for i, n in ((0, 2), (1, 1), (0, 3)))
    for widths in ([2, 1, 3], [3, 1, 2], [1, 2, 3]):
        attrs = {"inputdimensions": widths}
        (got,) = ours("FeatureVectorizer", [a, b, c], attrs, free=True)
        same([got], runtime("FeatureVectorizer", [a, b, c], attrs))
    (got,) = ours("FeatureVectorizer", [a, c], {})
    np.testing.assert_array_equal(got, np.hstack([a, c]))


def test_feature_vectorizer_of_any_width():
    x, attrs = variable("x", ("N", "F"), np.float32), {"inputdimensions": [2]}
    outputs = apply(find_op("FeatureVectorizer", "ai.onnx.ml"), [x], attrs)
    cell = compile_graph(Graph({"y": outputs[0]}, [x]), Options(threads=1))
    assert not host_steps(cell)
    for width in (0, 1, 2, 5):
        instance = cell.instance()
        instance["x"] = np.ones((3, width), np.float32)
        instance.compute()
        assert instance["y"].tolist() == [[1.0] * min(width, 2) + [0.0] * (2 - min(width, 2))] * 3


@pytest.mark.parametrize(
    ("op", "x", "attrs"),
    [
        ("Normalizer", [-1, -2, -4], {"norm": "MAX"}),
        ("Scaler", [[1, 2, 3]], {"scale": [2.0]}),
        ("LinearRegressor", [1, 2], {"coefficients": [1.0, 2.0], "post_transform": "LOGISTIC"}),
        ("OneHotEncoder", [1, 3, 2], {"cats_int64s": [3, 1]}),
        ("LabelEncoder", [1, 3, 2], {"keys_floats": [3.0, 3.0], "values_floats": [1.0, 2.0]}),
    ],
)
def test_constants_are_folded_to_what_the_run_computes(op, x, attrs):
    array = np.array(x, np.float32)
    symbol = variable("x", array.shape, np.float32)
    (y,) = apply(find_op(op, "ai.onnx.ml"), [symbol], attrs)
    same(evaluate(y.node, [array]), ours(op, [array], attrs))


def test_feature_vectorizer_of_vectors():
    """They are rows; onnxruntime leaves all but the first of them out."""
    a, b = np.array([1, 2], np.float32), np.array([3, 4, 5], np.float32)
    (got,) = ours("FeatureVectorizer", [a, b], {"inputdimensions": [2, 3]})
    np.testing.assert_array_equal(got, [[1, 2, 3, 4, 5]])


@pytest.mark.parametrize("picked", [[2, 0], [[2, 0]], [[2], [0]], [1]])
@pytest.mark.parametrize("shape", [(3, 3), (1, 3, 3), (3,)])
@pytest.mark.parametrize("dtype", [*KINDS, "object"])
def test_array_feature_extractor(picked, shape, dtype):
    x, y = X.reshape(-1)[: np.prod(shape)].reshape(shape).astype(dtype), np.array(picked, np.int64)
    if dtype == "object":
        x = np.array([str(v) for v in x.reshape(-1)], object).reshape(shape)
    host = [] if dtype != "object" else ["Gather", "Unsqueeze"] if x.ndim == 1 else ["Gather"]
    expected = runtime("ArrayFeatureExtractor", [x, y], {})
    same(ours("ArrayFeatureExtractor", [x, y], {}, host=host), expected)


@pytest.mark.parametrize("index", [-1, 3])
def test_array_feature_extractor_refuses_an_index(index):
    with pytest.raises(ExecutionError, match="index"):
        ours("ArrayFeatureExtractor", [X.astype(np.float32), np.array([index])], {})
    x = variable("x", (2, 3), np.float32)
    with pytest.raises(ShapeMismatch, match=f"index {index}"):
        ops.array_feature_extractor(x, np.array([index]))


# -- tables ------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", KINDS)
def test_one_hot_encoder(dtype):
    x = np.array([[1, 2], [-2, 7]]).astype(dtype)
    if x.dtype.kind == "f":
        x[0, 1] = 2.75
    attrs = {"cats_int64s": [1, 2, -2, 1]}
    expected = np.array([[[0, 0, 0, 1], [0, 1, 0, 0]], [[0, 0, 1, 0], [0, 0, 0, 0]]], np.float32)
    same(ours("OneHotEncoder", [x], attrs, free=True), [expected])
    if dtype != "int32":
        same([expected], runtime("OneHotEncoder", [x], attrs))
    with pytest.raises(ExecutionError, match="categories"):
        ours("OneHotEncoder", [x], {**attrs, "zeros": 0})
    same(ours("OneHotEncoder", [x[:1]], {**attrs, "zeros": 0}), [expected[:1]])


def test_one_hot_encoder_of_strings():
    x, attrs = texts("b", "z", "a"), {"cats_strings": ["a", "b"]}
    same(ours("OneHotEncoder", [x], attrs, host=["FindKey"]), runtime("OneHotEncoder", [x], attrs))
    with pytest.raises(ExecutionError, match="none of"):
        ours("OneHotEncoder", [x], {**attrs, "zeros": 0}, host=["FindKey"])


def test_category_mapper():
    attrs = {"cats_int64s": [1, 3, 4], "cats_strings": ["x", "y", "x"], "default_string": "q"}
    numbers, words = np.array([[1, 2], [3, 4]]), texts("y", "x", "z")
    same(
        ours("CategoryMapper", [numbers], attrs, host=["Gather"]),
        runtime("CategoryMapper", [numbers], attrs),
    )
    same(
        ours("CategoryMapper", [words], attrs, host=["FindKey"]),
        runtime("CategoryMapper", [words], attrs),
    )


KEYS = {
    "int64": ("keys_int64s", [5, 1, 9]),
    "float32": ("keys_floats", [0.5, float("nan"), -1.5]),
    "object": ("keys_strings", ["a", "b", ""]),
    "float64": ("keys_tensor", tensor([0.1, float("nan"), 3], np.float64)),
    "int32": ("keys_tensor", tensor([3, -4, 5], np.int32)),
    "int16": ("keys_tensor", tensor([3, -4, 5], np.int16)),
}
VALUES = {
    "int64": ("values_int64s", [7, 8, 9]),
    "float32": ("values_floats", [0.25, 0.5, 0.75]),
    "object": ("values_strings", ["one", "two", "three"]),
    "float64": ("values_tensor", tensor([0.1, 0.2, 0.3], np.float64)),
    "int32": ("values_tensor", tensor([3, -4, 5], np.int32)),
    "int16": ("values_tensor", tensor([3, -4, 5], np.int16)),
}


@pytest.mark.parametrize("key", list(KEYS))
@pytest.mark.parametrize("value", list(VALUES))
def test_label_encoder(key, value):
    attrs = dict([KEYS[key], VALUES[value]])
    keys = KEYS[key][1]
    keys = list(keys.value) if isinstance(keys, Tensor) else keys
    other = {"object": "zz", "float32": 2.5, "float64": 2.5}.get(key, 2)
    x = np.array([[keys[1], other, keys[0]], [keys[2], keys[1], other]], dtype=key)
    host = ["FindKey"] * (key == "object") + ["Gather"] * (value == "object")
    (got,) = ours("LabelEncoder", [x], attrs, host=host, free=True)
    if value != "object":
        assert got.dtype == np.dtype(value)
    values = VALUES[value][1]
    values = values.value.tolist() if isinstance(values, Tensor) else values
    missing = {"object": "_Unused", "float32": -0.0, "float64": -0.0}.get(value, -1)
    exact = np.array([[1, -1, 0], [2, 1, -1]])
    expected = [[missing if i < 0 else values[i] for i in row] for row in exact]
    assert got.tolist() == np.array(expected, value).tolist()
    if value.startswith("float"):
        assert np.signbit(got[0, 1])


def test_label_encoder_agrees_with_onnxruntime():
    x = np.array([1, np.nan, -0.0, 0.0, 9], np.float32)
    attrs = {"keys_floats": [1.0, float("nan"), 0.0], "values_int64s": [5, 6, 7]}
    same(ours("LabelEncoder", [x], attrs), runtime("LabelEncoder", [x], attrs, version=4))


def test_label_encoder_takes_the_last_of_equal_keys_and_the_default_tensor():
    """The specification says so; onnxruntime takes the first of equal keys."""
    attrs = {"keys_int64s": [1, 5, 1], "values_tensor": tensor([1, 2, 3], np.int16)}
    attrs["default_tensor"] = tensor([42], np.int16)
    (got,) = ours("LabelEncoder", [np.array([1, 5, 9])], attrs)
    assert got.tolist() == [3, 2, 42]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), st.integers(0, 2**32), st.booleans()
)
def test_large_tables(keys, seed, single):
    rng = np.random.default_rng(seed)
    keys = [*keys, 3, 3]
    x = rng.choice(np.array([*keys, 2**62 + 1]), (4, 0 if single else 5))
    attrs = {"keys_int64s": keys, "values_int64s": list(range(len(keys)))}
    (got,) = ours("LabelEncoder", [x], attrs, threads=1 + single)
    table = {k: i for i, k in enumerate(keys)}
    assert got.tolist() == [[table.get(int(v), -1) for v in row] for row in x]


# -- maps --------------------------------------------------------------------------------------
def of_map(op, key, kind, value, **attrs):
    x = make_variable("x", MapType(NumberType(key), TensorType(NumberType(kind), ())))
    outputs = apply(find_op(op, "ai.onnx.ml"), [x], attrs)
    instance = compile_graph(Graph({"y": outputs[0]}, [x]), Options(threads=1)).instance()
    instance["x"] = value
    instance.compute()
    return np.array(instance["y"])


@pytest.mark.parametrize("kind", ["float32", "float64", "int64"])
def test_dict_vectorizer(kind):
    got = of_map("DictVectorizer", "string", kind, {"c": 8, "a": 4}, string_vocabulary=list("acbz"))
    assert got.dtype == np.dtype(kind) and got.tolist() == [4, 8, 0, 0]
    with pytest.raises(ExecutionError, match="'x'"):
        of_map("DictVectorizer", "string", kind, {"x": 1}, string_vocabulary=["a"])


def test_dict_vectorizer_of_strings():
    got = of_map("DictVectorizer", "int64", "string", {5: "v"}, int64_vocabulary=[7, 5])
    assert got.tolist() == ["", "v"]


def test_cast_map():
    assert of_map("CastMap", "int64", "float32", {4: 0.5, 1: 2.5}).tolist() == [[2.5, 0.5]]
    got = of_map("CastMap", "int64", "float32", {2: 0.5}, map_form="SPARSE", max_map=4)
    assert got.dtype == np.float32 and got.tolist() == [[0, 0, 0.5, 0]]
    got = of_map("CastMap", "int64", "string", {2: "7", 1: "-3"}, cast_to="TO_INT64")
    assert got.dtype == np.int64 and got.tolist() == [[-3, 7]]
    got = of_map("CastMap", "int64", "float32", {2: 0.1}, cast_to="TO_STRING")
    assert got.tolist() == [["0.1"]]
    with pytest.raises(ExecutionError, match="key 4"):
        of_map("CastMap", "int64", "float32", {4: 1.0}, map_form="SPARSE", max_map=4)


@pytest.mark.parametrize(
    "labels", [{"classlabels_int64s": [4, 9]}, {"classlabels_strings": ["a", "b"]}]
)
def test_zip_map(labels):
    x = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)
    (names,) = labels.values()
    symbol = variable("x", ("N", 2), np.float32)
    outputs = apply(find_op("ZipMap", "ai.onnx.ml"), [symbol], labels)
    instance = compile_graph(Graph({"y": outputs[0]}, [symbol]), Options(threads=1)).instance()
    instance["x"] = x
    instance.compute()
    assert instance["y"] == [dict(zip(names, row, strict=True)) for row in x.tolist()]
    assert instance["y"] == runtime("ZipMap", [x], labels)[0]


# -- n-grams -----------------------------------------------------------------------------------
def counted(rows, grams, least, most, skips):
    """How often each n-gram is in each row, with every distance between its tokens."""
    made = np.zeros((len(rows), len(grams)))
    for n, row in enumerate(rows):
        for g, gram in enumerate(grams):
            if not least <= len(gram) <= most:
                continue
            for distance in range(1, skips + 2 if len(gram) > 1 else 2):
                for start in range(len(row)):
                    part = row[start::distance][: len(gram)]
                    made[n, g] += list(part) == list(gram)
    return made


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_tfidf_vectorizer(data):
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    words = draw(st.booleans())
    alphabet = ["a", "b", "c", ""] if words else [3, -1, 2**40, 7]
    grams = []
    starts = []
    for size in range(1, draw(st.integers(1, 3)) + 1):
        starts.append(sum(map(len, grams)))
        every = {tuple(alphabet[i] for i in rng.integers(0, 3, size)) for _ in range(3)}
        grams += sorted(every) if draw(st.booleans()) or size == 1 else []
    order = rng.permutation(len(grams)).tolist()
    least = draw(st.integers(1, 3))
    attrs = {
        "mode": draw(st.sampled_from(["TF", "IDF", "TFIDF"])),
        "pool_strings" if words else "pool_int64s": [t for g in grams for t in g],
        "ngram_counts": starts,
        "ngram_indexes": order,
        "min_gram_length": least,
        "max_gram_length": draw(st.integers(least, 3)),
        "max_skip_count": draw(st.integers(0, 4)),
    }
    if draw(st.booleans()):
        attrs["weights"] = rng.random(len(grams)).astype(np.float32).tolist()
    shape = draw(st.sampled_from([(7,), (3, 8), (0, 4), (2, 0)]))
    x = np.array(alphabet, dtype=object if words else np.int64)[rng.integers(0, 4, shape)]
    (got,) = ours("TfIdfVectorizer", [x], attrs, host=["FindKey"] * words, domain="")
    rows = [x.tolist()] if x.ndim == 1 else x.tolist()
    limits = [attrs[name] for name in ("min_gram_length", "max_gram_length", "max_skip_count")]
    counts = counted(rows, grams, *limits)
    # The weights are in the order of the n-grams, as the specification says; onnx's reference
    # takes them in the order of the columns.
    weights = np.array(attrs.get("weights", [1.0] * len(grams)))
    values = {"TF": counts, "IDF": (counts > 0) * weights, "TFIDF": counts * weights}
    exact = np.zeros((len(rows), max(order) + 1))
    exact[:, order] = values[attrs["mode"]]
    np.testing.assert_allclose(got, exact[0] if x.ndim == 1 else exact, rtol=1e-5)


# -- refusals ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("op", "attrs", "said"),
    [
        ("Scaler", {"scale": [1.0, 2.0]}, "scale has 2 entries for 3 features"),
        ("Imputer", {}, "imputed_value_floats must be given"),
        ("Imputer", {"imputed_value_floats": [1.0, 2.0]}, "2 entries for 3"),
        ("OneHotEncoder", {}, "one of cats_int64s, cats_strings"),
        ("OneHotEncoder", {"cats_strings": ["a"]}, "cannot be found"),
        ("LabelEncoder", {"keys_floats": [1.0], "values_floats": []}, "1 keys for 0 values"),
        ("LabelEncoder", {"keys_int64s": [1], "values_floats": [1.0]}, "keys are int64"),
        ("FeatureVectorizer", {"inputdimensions": [1, 2]}, "does not fit 1 inputs"),
        ("ZipMap", {"classlabels_int64s": [1]}, "1 labels for 3 columns"),
        ("LinearClassifier", {"coefficients": [1.0] * 3}, "it needs labels"),
        ("SVMRegressor", {"coefficients": [1.0, 2, 3]}, "rho must have an entry"),
        ("TreeEnsembleRegressor", {"nodes_treeids": [0]}, "nodes_nodeids|nodes_modes"),
    ],
)  # fmt: skip
def test_attributes_that_do_not_fit_are_refused(op, attrs, said):
    x = variable("x", ("N", 3), np.float32)
    with pytest.raises(BadAttribute, match=said):
        apply(find_op(op, "ai.onnx.ml"), [x], attrs)

"""Edges of reading older operators: awkward values, sizes nobody knows, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from test_onnx_older import F1, IMAGE, Array, I, X, close, floats, model_of, raised, run

from neuralsym.engines import onnx as engine
from neuralsym.errors import FormatError
from neuralsym.ops.evaluate import evaluate_graph


def value(model: onnx.ModelProto, **feed: Array) -> list[Any]:
    graph = engine.to_symbolic(model)
    return evaluate_graph(graph, {graph[n]: a for n, a in feed.items()})


def test_one_hot_9_knows_no_negative_index() -> None:
    """The text of 9 says [0, depth); onnxruntime and the reference count from the end already."""
    given = np.array([[-1, 0], [5, 2]], I)
    model = model_of(
        "OneHot", 9, [given, np.array(3, I), np.array([0, 1], F1)], {"axis": 1}, 1, [1]
    )
    got = value(model, x0=given, x2=np.array([0, 1], F1))[0]
    want = (given[:, None] == np.arange(3)[:, None]).astype(F1)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("opset", [19, 21, 24])
def test_infinity_in_types_without_one(opset: int) -> None:
    """The table of 19 says NaN, that of 24 the largest number, as all runtimes had it before."""
    given = np.array([np.inf, -np.inf, np.nan, 1.5], F1)
    for kind, largest in ((TensorProto.FLOAT8E4M3FNUZ, 240), (TensorProto.FLOAT8E5M2FNUZ, 57344)):
        got = value(model_of("Cast", opset, [given], {"to": kind}), x0=given)[0].astype(F1)
        np.testing.assert_array_equal(got, [largest, -largest, np.nan, 1.5])


def test_clip_6_without_bounds_keeps_infinity() -> None:
    """Its text has the limits of the type; the default of its attribute is float32's for all."""
    given = np.array([np.inf, -np.inf, 1e300])
    np.testing.assert_array_equal(value(model_of("Clip", 6, [given], {}), x0=given)[0], given)


@pytest.mark.parametrize(
    ("opset", "attrs", "name"),
    [
        (11, {"mode": "linear"}, "tf_half_pixel_for_nn is gone"),
        (11, {"nearest_mode": "ceil"}, "tf_half_pixel_for_nn is gone"),
    ],
)
def test_what_cannot_be_raised_is_refused_by_name(
    opset: int, attrs: dict[str, Any], name: str
) -> None:
    inputs = [IMAGE, np.zeros(0, F1), np.array([1, 1, 2, 2], F1)]
    attrs = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", **attrs}
    with pytest.raises(FormatError, match=rf"Resize of version {opset} .*{name}"):
        engine.to_symbolic(model_of("Resize", opset, inputs, attrs))


@pytest.mark.oracle
@pytest.mark.parametrize("rounding", ["floor", "round_prefer_floor"])
def test_half_pixels_of_tensorflow(rounding: str) -> None:
    inputs = [IMAGE, np.zeros(0, F1), np.array([1, 1, 1.7, 2], F1)]
    attrs = {
        "coordinate_transformation_mode": "tf_half_pixel_for_nn",
        "nearest_mode": rounding,
    }
    model = model_of("Resize", 11, inputs, attrs, 1, [1, 2])
    close(raised(model, {"x0": IMAGE}), run(model, {"x0": IMAGE}))


@pytest.mark.oracle
def test_powers_that_are_no_integers() -> None:
    model = model_of("GlobalLpPool", 1, [IMAGE], {"p": 2.5})
    want = (np.abs(IMAGE) ** F1(2.5)).sum((2, 3), keepdims=True) ** F1(1 / 2.5)
    close(raised(model, {"x0": IMAGE}), [want])
    model = model_of("LpPool", 1, [IMAGE], {"p": 2.5, "kernel_shape": [4, 6]})
    close(raised(model, {"x0": IMAGE}), [want])


@pytest.mark.oracle
def test_split_1_takes_sizes_of_the_data_s_type() -> None:
    model = model_of("Split", 1, [X, np.array([1, 3], F1)], {"axis": 2}, 2, [1])
    close(raised(model, {"x0": X}), [X[:, :, :1], X[:, :, 1:]])


def test_label_encoder_1_counts_the_first_of_equal_classes() -> None:
    words = np.array(["b", "a"], object)
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", classes_strings=["a", "b", "a", "b"]
    )
    kinds = (TensorProto.STRING, TensorProto.INT64)
    infos = [helper.make_tensor_value_info(n, k, [2]) for n, k in zip("xy", kinds, strict=True)]
    opsets = [helper.make_opsetid("", 8), helper.make_opsetid("ai.onnx.ml", 1)]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets)
    assert value(model, x=words)[0].tolist() == [1, 0]


@pytest.mark.oracle
def test_softmax_over_nothing() -> None:
    given = np.zeros((2, 3, 0), F1)
    model = model_of("Softmax", 11, [given], {"axis": 1})
    close(raised(model, {"x0": given}), [given])


@given(st.data())
def test_old_broadcasting_lines_up_from_an_axis(data: st.DataObject) -> None:
    """The second shape is a run of the first's sizes, from an axis on or at the end, or one."""
    shape = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    start = data.draw(st.integers(0, len(shape)))
    stop = data.draw(st.integers(start, len(shape)))
    a, attrs = floats(*shape), {"broadcast": 1}
    if data.draw(st.booleans()):
        attrs["axis"] = start - len(shape) * data.draw(st.sampled_from([0, 1]))
        if start == len(shape):
            del attrs["axis"]
            start = stop = len(shape)
        b = floats(*shape[start:stop])
        wanted = a - b.reshape((*b.shape, *[1] * (len(shape) - stop)))
    else:
        b = data.draw(st.sampled_from([floats(*shape[start:]), floats(1), floats(1, 1)[0]]))
        wanted = a - b
    got = value(model_of("Sub", 6, [a, b], attrs), x0=a, x1=b)[0]
    np.testing.assert_array_equal(got, wanted)


def test_what_needs_a_rank_says_so() -> None:
    model = model_of("Add", 6, [X, floats(3)], {"broadcast": 1, "axis": 1})
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(FormatError, match=r"Add of version 6 .*the rank of its input 0 is unknown"):
        engine.to_symbolic(model)


def test_sizes_that_only_the_run_knows() -> None:
    x, scale, bias = floats(2, 4, 3), floats(2), floats(2) + 1
    feed = {"x0": x, "x1": scale, "x2": bias}
    model = model_of("GroupNormalization", 18, [x, scale, bias], {"num_groups": 2})
    wanted = value(model, **feed)[0]
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "C"
    np.testing.assert_array_equal(value(model, **feed)[0], wanted)
    times, axis = np.array(2, F1), np.array(1, F1)
    tile = model_of("Tile", 1, [X, times, axis], {})
    np.testing.assert_array_equal(value(tile, x0=X, x1=times, x2=axis)[0], np.tile(X, (1, 2, 1)))

"""The tensor operators of com.microsoft, compared with onnxruntime; its schemas with ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contrib_oracle import DOMAIN, Array, Drawn, agree, applied, close, computed, fed, number

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_variable, variable
from neuralsym.core.op import OPS
from neuralsym.core.registry import apply, load_operators
from neuralsym.core.types import TensorType
from neuralsym.cpu.compiler import compile_graph
from neuralsym.dtypes import NumberType
from neuralsym.errors import BadAttribute, ExecutionError, OpError, ShapeMismatch
from neuralsym.ops.evaluate import evaluate

pytestmark = pytest.mark.oracle


def test_every_schema_is_that_of_onnxruntime() -> None:
    """Names, kinds, defaults and types; but for where onnxruntime's own schema says otherwise."""
    import onnx
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    load_operators()
    theirs = {s.name: s for s in state.get_all_operator_schema() if s.domain == DOMAIN}
    ours = {name: op.schema for (domain, name), op in OPS.items() if domain == DOMAIN}
    assert len(ours) > 70
    for name, schema in ours.items():
        other = theirs[name]
        for mine, its in ((schema.inputs, other.inputs), (schema.outputs, other.outputs)):
            assert [f.name for f in mine] == [f.name for f in its], name
            kinds = [f.kind for f in mine]
            assert kinds == [str(f.option).split(".")[1].lower() for f in its], name
            for a, b in zip(mine, its, strict=True):
                known = {t for t in b.types if "float4" not in t} - {"tensor(float8e8m0)"}
                assert known - {"tensor(float4e2m1)"} <= a.allowed | known - a.allowed
                assert a.allowed & set(b.types), (name, a.name)
        assert set(schema.attributes) == set(other.attributes), name
        assert schema.minimum_inputs == other.min_input, name
        assert schema.maximum_inputs == other.max_input, name
        for key, spec in schema.attributes.items():
            attribute = other.attributes[key]
            assert spec.kind == str(attribute.type).split(".")[1], (name, key)
            assert spec.required == attribute.required, (name, key)
            found = onnx.AttributeProto()
            found.ParseFromString(attribute._default_value)
            default = onnx.helper.get_attribute_value(found) if found.name else None
            default = default.decode() if isinstance(default, bytes) else default
            assert spec.default == default, (name, key)


def test_triangles_ranges_and_axes() -> None:
    draw = Drawn(1)
    x = draw.reals(2, 4, 5)
    agree("Trilu", [x, np.array(1)], {"upper": 0}, constants=(1,))
    agree("Trilu", [x.astype(np.int64)])
    three = [number([v], np.int32) for v in (1, 9, 3)]
    agree("Range", three)
    agree("Range", [number(1), number(4.5), number(0.5)])
    agree("Range", [number(1, np.int16), number(5, np.int16)])
    for axis in (0, 1, -1):
        agree("ExpandDims", [x, number(axis, np.int32)], constants=(1,))
        agree("ExpandDims", [x, number(axis, np.int32)])


def test_sizes_pass_through() -> None:
    load_operators()
    x = variable("x", ("rows", 3))
    shape = ops.shape(x)
    wide = apply(OPS[DOMAIN, "ExpandDims"], [shape, number(0, np.int32)])[0]
    assert wide.known is not None and wide.known.tolist() == [[*x.shape]]
    count = apply(OPS[DOMAIN, "Range"], [np.int64(0), ops.gather(shape, np.array(1))])[0]
    assert count.shape == (3,)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("constant", [True, False])
def test_pads(mode: str, constant: bool) -> None:
    x, pads = Drawn(2).reals(4, 3), np.array([1, 0, 2, 1])
    how: dict[str, Any] = {"constants": (1,)} if constant else {}
    for shaped in (pads, pads[None]):
        value = number(3.0) if mode == "constant" else None
        agree("Pad", [x, shaped, value], {"mode": mode}, **how)
    if mode == "constant":
        agree("Pad", [x, np.array([-1, 0, 2, -1])], **how)


def test_unique_elements_in_the_order_of_their_coming() -> None:
    x = np.array([3, 1, 1, 2, 3, 3], np.float32)
    how: dict[str, Any] = {"outputs": 3}
    agree("Unique", [x], **how)
    agree("Unique", [x[:1]], **how)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_gathers(kind: Any) -> None:
    draw = Drawn(3)
    agree("GatherND", [draw.reals(3, 4, 5), np.array([[0, 1], [2, -1]], kind)])


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_samples_of_images(mode: str, padding: str) -> None:
    draw = Drawn(4)
    inputs = [draw.reals(2, 2, 4, 5), draw.reals(2, 3, 3, 2)]
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": 1}
    agree("GridSample", inputs, attrs)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances(metric: str) -> None:
    draw = Drawn(5)
    a, b = draw.reals(5, 3) + 100, draw.reals(4, 3) + 100
    a[0] = b[0]
    # Far from the origin onnxruntime loses digits: numpy decides.
    got = computed(applied("CDist", [a, b], {"metric": metric}), fed([a, b]))[0]
    want = ((a[:, None].astype(np.float64) - b) ** 2).sum(-1)
    want = np.sqrt(want) if metric == "euclidean" else want
    close(got, want.astype(np.float32), tolerance=1e-3)
    near = [(v - 100).astype(np.float64) for v in (a, b)]
    agree("CDist", near, {"metric": metric}, tolerance=1e-7, dynamic=[(0, 0)])


@pytest.mark.parametrize("constant", [True, False])
def test_transposed_convolutions_with_pads_as_an_input(constant: bool) -> None:
    draw = Drawn(6)
    inputs = [draw.reals(1, 3, 5, 5), draw.reals(3, 2, 3, 3), np.array([1, 0, 1, 1]), draw.reals(2)]
    how: dict[str, Any] = {"constants": (2,)} if constant else {}
    attrs = {"strides": (2, 2), "output_padding": (1, 0)}
    agree("ConvTransposeWithDynamicPads", inputs, attrs, **how)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5, 5), (1, 1), (0, 3, 3)])
def test_inverses(dtype: Any, shape: tuple[int, ...]) -> None:
    x = (Drawn(7).reals(*shape) + 3 * np.eye(shape[-1])).astype(dtype)
    symbols = applied("Inverse", [x])
    got = computed(symbols, fed([x]))[0]
    tolerance = {np.float32: 1e-5, np.float64: 1e-12, np.float16: 2e-3}[dtype]
    close(got, np.linalg.inv(x.astype(np.float64)).astype(dtype), tolerance=tolerance)
    close(np.asarray(evaluate(symbols[0].node, [x])[0]), got, tolerance=tolerance)


def test_a_singular_matrix_has_no_inverse() -> None:
    x = np.ones((2, 2), np.float32)
    with pytest.raises(ExecutionError, match="singular"):
        computed(applied("Inverse", [x]), fed([x]))


def test_slices_along_an_axis() -> None:
    x = Drawn(8).reals(2, 9, 3)
    agree("UnfoldTensor", [x], {"dim": 1, "size": 4, "step": 2}, dynamic=[(0, 0), (0, 1)])
    agree("UnfoldTensor", [x], {"size": 3})


def test_transforms_of_real_signals_by_numpy() -> None:
    # onnxruntime has no CPU kernels for these.
    x = Drawn(9).reals(3, 6, 8)

    def pairs(values: Array) -> Array:
        return np.stack([values.real, values.imag], -1).astype(np.float32)

    for count, transform in ((1, np.fft.rfft(x)), (2, np.fft.rfft2(x))):
        attrs = {"signal_ndim": count}
        spectrum = computed(applied("Rfft", [x], attrs), fed([x]))[0]
        close(spectrum, pairs(transform))
        close(computed(applied("Irfft", [spectrum], attrs), fed([spectrum]))[0], x)


def test_complex_products_by_numpy() -> None:
    draw = Drawn(10)
    a, b = draw.reals(3, 4, 2), draw.reals(4, 2)
    left, right = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    for name, value in (("ComplexMul", left * right), ("ComplexMulConj", left * right.conj())):
        got = computed(applied(name, [a, b]), fed([a, b]))[0]
        close(got, np.stack([value.real, value.imag], -1).astype(np.float32))


def test_whether_all_is_finite() -> None:
    a, b = Drawn(11).reals(3), Drawn(12).reals(2, 2)
    for value, attrs, want in (
        (0.0, {}, True),
        (np.nan, {}, False),
        (-np.inf, {}, False),
        (np.nan, {"isinf_only": 1}, True),
        (np.inf, {"isinf_only": 1}, False),
        (np.inf, {"isnan_only": 1}, True),
    ):
        b[0, 1] = value
        got = computed(applied("IsAllFinite", [a, b], attrs), fed([a, b]))[0]
        assert got.shape == () and bool(got) is want


def test_rows_of_embeddings() -> None:
    weight, index = Drawn(13).reals(5, 3), np.array([[0, 4], [2, 2]])
    got = computed(applied("TorchEmbedding", [weight, index]), fed([weight, index]))[0]
    np.testing.assert_array_equal(got, weight[index])


def test_values_by_numpy_are_those_of_the_program() -> None:
    draw = Drawn(14)
    inputs = [draw.reals(2, 4, 8), draw.reals(8, 24), draw.reals(24)]
    symbols = applied("Attention", inputs, {"num_heads": 2})
    by_numpy = evaluate(symbols[0].node, inputs)[0]
    close(np.asarray(by_numpy), computed(symbols, fed(inputs))[0])


def test_an_unknown_rank_is_worked_out_in_the_run() -> None:
    draw = Drawn(15)
    arrays = [draw.reals(2, 3, 8), draw.reals(8), draw.reals(8)]
    load_operators()
    x = make_variable("x", TensorType(NumberType.FLOAT32, None))
    a, b = arrays[:2]
    made = apply(OPS[DOMAIN, "BiasSoftmax"], [x, b], {"axis": 2, "is_inner_broadcast": 1})
    assert made[0].shape is None
    instance = compile_graph(Graph({"y": made[0]})).instance()
    instance["x"] = a
    instance.compute()
    rows = np.exp((a + b).astype(np.float64))
    close(np.array(instance["y"]), (rows / rows.sum(-1, keepdims=True)).astype(np.float32))


def test_mistakes_are_named() -> None:
    draw = Drawn(16)
    with pytest.raises(ShapeMismatch, match="only square matrices have inverses"):
        applied("Inverse", [draw.reals(2, 3)])
    with pytest.raises(BadAttribute, match="metric='cosine'"):
        applied("CDist", [draw.reals(2, 3), draw.reals(2, 3)], {"metric": "cosine"})
    with pytest.raises(BadAttribute, match="size=9 is more than the axis has: 8"):
        applied("UnfoldTensor", [draw.reals(8)], {"size": 9})
    with pytest.raises(OpError, match="pairs along its last axis"):
        applied("ComplexMul", [draw.reals(2, 3), draw.reals(3, 2)])
    with pytest.raises(BadAttribute, match="normalized=1"):
        applied("Rfft", [draw.reals(4)], {"normalized": 1})

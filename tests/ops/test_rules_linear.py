"""Shapes of products, reductions and normalisations, against onnx, real values and with names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_harness import Var, call_of, check_case, ints, own_shapes, own_types, shown

from neuralsym.errors import BadAttribute, OpError, ShapeMismatch

QUICK = settings(max_examples=60, deadline=None)
SHAPES = st.lists(st.integers(1, 4), min_size=0, max_size=4).map(tuple)


# -- products ----------------------------------------------------------------------------------
@QUICK
@given(st.lists(st.integers(1, 3), max_size=4).map(tuple), st.data())
def test_matmul(a, data):
    if data.draw(st.booleans()) and a:  # a partner that fits
        batch = [data.draw(st.sampled_from([d, 1])) for d in a[:-2]]
        k = data.draw(st.integers(0, len(batch)))
        b = (*batch[k:], a[-1], data.draw(st.integers(1, 3)))
    else:
        b = data.draw(st.lists(st.integers(1, 3), max_size=4).map(tuple))
    scalar = a == () or b == ()
    check_case("MatMul", [Var(a), Var(b)], real=not scalar, by_size=data.draw(st.booleans()))


def test_matmul_over_names():
    inputs = [Var(("N", 1, "T", 8)), Var(("heads", 8, "S"))]
    assert shown(own_shapes("MatMul", inputs, {})) == ["N, heads, T, S"]
    assert shown(own_shapes("MatMul", [Var((8,)), Var(("N", 8, 2))], {})) == ["N, 2"]
    assert own_shapes("MatMul", [Var((8,)), Var((8,))], {}) == [()]
    assert shown(own_shapes("MatMul", [Var(("N", "K")), Var((8, 2))], {})) == ["N, 2"]


@pytest.mark.parametrize(
    ("op", "a", "b", "hint"),
    [
        ("MatMul", (2, 3, 4, 4), (48, 10), "ops.flatten(a)"),
        ("Gemm", (2, 3, 4, 4), (48, 10), "ops.flatten(a)"),
        ("MatMul", (2, 48), (10, 48), "looks transposed"),
        ("Gemm", (2, 48), (10, 48), "transA and transB"),
        ("MatMul", (), (3,), "scalar"),
        ("Gemm", (3,), (3, 4), "a matrix is needed"),
    ],
)
def test_products_hint_at_the_usual_mistakes(op, a, b, hint):
    with pytest.raises(ShapeMismatch) as caught:
        own_shapes(op, [Var(a), Var(b)], {})
    assert hint in str(caught.value)


@QUICK
@given(*[st.integers(1, 3)] * 3, st.booleans(), st.booleans(), st.integers(0, 5), st.booleans())
def test_gemm(m, k, n, ta, tb, c, by_size):
    inputs = [Var((k, m) if ta else (m, k)), Var((n, k) if tb else (k, n))]
    bias = [None, (n,), (1, n), (m, 1), (m, n), ()][c]
    if bias is not None:
        inputs.append(Var(bias))
    check_case("Gemm", inputs, {"transA": int(ta), "transB": int(tb)}, by_size=by_size)


def test_gemm_compares_its_bias():
    with pytest.raises(ShapeMismatch, match="C and the result, axis 1"):
        own_shapes("Gemm", [Var((2, 3)), Var((3, 4)), Var((5,))], {})


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij, jk -> ki", [(2, 3), (3, 4)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("i,j", [(3,), (2,)]),
        ("ba,b", [(3, 2), (3,)]),
        ("...ij,...jk->...ik", [(5, 1, 2, 3), (4, 3, 2)]),
        ("b...i,i->...b", [(2, 3, 4, 5), (5,)]),
        ("i...->...", [(2, 3, 4)]),
        ("bhqd,bhkd->bhqk", [(2, 4, 3, 8), (2, 4, 5, 8)]),
        ("->", [()]),
    ],
)
def test_einsum(equation, shapes):
    for by_size in (True, False):
        # onnx's inference wants as many axes behind each '...', numpy and we broadcast them
        inputs = [Var(s) for s in shapes]
        check_case("Einsum", inputs, {"equation": equation}, by_size=by_size, laxer=True)


@pytest.mark.parametrize(
    ("equation", "shapes", "words"),
    [
        ("ij,jk->ik", [(2, 3), (4, 4)], "label 'j' stands for 3 and 4"),
        ("ij,jk->iz", [(2, 3), (3, 4)], "'z' is in no operand"),
        ("ij->ii", [(2, 3)], "twice"),
        ("ij,jk->ik", [(2, 3)], "2 operands, not 1"),
        ("i.j->i", [(2, 3)], "dot"),
        ("i1->i", [(2, 3)], "no letter"),
        ("ij->...i", [(2, 3)], "'...'"),
        ("ijk->i", [(2, 3)], "operand 0 has 2 axes, its labels need 3"),
    ],
)
def test_einsum_says_what_is_wrong(equation, shapes, words):
    with pytest.raises(OpError) as caught:
        own_shapes("Einsum", [Var(s) for s in shapes], {"equation": equation})
    assert words in str(caught.value)


def test_integer_and_quantized_products():
    a, b = Var((2, 3), "uint8"), Var((3, 4), "uint8")
    check_case("MatMulInteger", [a, b])
    scale, zero = np.array(1, np.float32), np.array(0, np.uint8)
    check_case("QLinearMatMul", [a, scale, zero, b, scale, zero, scale, zero], real=False)
    check_case("Det", [Var((5, 3, 3))])
    with pytest.raises(ShapeMismatch, match="square"):
        own_shapes("Det", [Var((3, 4))], {})


# -- reductions --------------------------------------------------------------------------------
REDUCTIONS = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp", "ReduceProd"]


@QUICK
@given(
    st.sampled_from(REDUCTIONS),
    SHAPES,
    st.none() | st.lists(st.integers(-5, 4), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_reductions(op, shape, axes, keep, nothing):
    inputs = [Var(shape)] if axes is None else [Var(shape), ints(*axes)]
    attrs = {"keepdims": int(keep), "noop_with_empty_axes": int(nothing)}
    # an axis named twice is refused; onnx's inference does not look
    check_case(op, inputs, attrs, stricter=True)


def test_reductions_keep_other_axes_of_one():
    attrs = {"keepdims": 0}
    assert own_shapes("ReduceSum", [Var((1, 3, 4)), ints(2)], attrs) == [(1, 3)]
    free = Var((1,), "int64")
    assert own_shapes("ReduceSum", [Var((1, 3, 4)), free], attrs) == [(None, None)]
    assert own_shapes("ReduceSum", [Var((1, 3, 4)), free], {}) == [(None, None, None)]
    assert shown(own_shapes("ReduceMax", [Var(("N", 3, "L")), ints(-1)], {})) == ["N, 3, 1"]
    with pytest.raises(BadAttribute, match="axes=3 is out of range for rank 3: allowed are -3 to"):
        own_shapes("ReduceSum", [Var((1, 3, 4)), ints(3)], {})


@QUICK
@given(st.sampled_from(["ArgMax", "ArgMin"]), SHAPES, st.integers(-5, 4), st.booleans())
def test_arg(op, shape, axis, keep):
    scalar = shape == ()
    check_case(op, [Var(shape)], {"axis": axis, "keepdims": int(keep)}, real=not scalar)


@QUICK
@given(SHAPES.filter(bool), st.integers(-5, 4))
def test_running(shape, axis):
    axis_given = np.array(axis, np.int64)
    check_case("CumSum", [Var(shape), axis_given], stricter=True)
    check_case("CumProd", [Var(shape), axis_given], stricter=True, real=False)


# -- normalisations ----------------------------------------------------------------------------
def test_batch_normalization():
    x, c = Var((2, 3, 4)), Var((3,))
    check_case("BatchNormalization", [x, c, c, c, c])
    check_case("BatchNormalization", [x, c, c, c, c], {"training_mode": 1}, 3)
    made = own_shapes("BatchNormalization", [Var(("N", 3, "H")), c, c, c, c], {})
    assert shown(made) == ["N, 3, H"]
    with pytest.raises(ShapeMismatch, match="scale needs one entry for each of the 3 channels"):
        own_shapes("BatchNormalization", [x, Var((4,)), c, c, c], {})
    with pytest.raises(BadAttribute, match="training_mode=0"):
        own_shapes("BatchNormalization", [x, c, c, c, c], {}, 3)
    with pytest.raises(BadAttribute, match="epsilon"):
        own_shapes("BatchNormalization", [x, c, c, c, c], {"epsilon": -1.0})


@QUICK
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple), st.integers(-5, 4))
def test_layer_normalization(shape, axis):
    inside = -len(shape) <= axis < len(shape)
    row = Var(shape[axis:] if inside else (1,))
    # onnx's inference lets an axis pass that is none
    rule = {"real": False, "stricter": not inside}
    check_case("LayerNormalization", [Var(shape), row, row], {"axis": axis}, 3, **rule)
    check_case("RMSNormalization", [Var(shape), row], {"axis": axis}, **rule)


def test_layer_normalization_compares_its_scale():
    with pytest.raises(ShapeMismatch, match="Scale and X, axis -1: 4 and 2 differ"):
        own_shapes("LayerNormalization", [Var((1, 3, 2)), Var((4,))], {})
    types = own_types(
        call_of("LayerNormalization", [Var((2, 3), "float16"), Var((3,), "float16")], {}, 3)
    )
    assert [str(t) for t in types] == ["float16[2, 3]", "float32[2, 1]", "float32[2, 1]"]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("InstanceNormalization", [Var((2, 3, 4)), Var((3,)), Var((3,))], {}),
        ("GroupNormalization", [Var((2, 6, 4)), Var((6,)), Var((6,))], {"num_groups": 3}),
        ("LRN", [Var((2, 3, 4, 4))], {"size": 3}),
        ("MeanVarianceNormalization", [Var((2, 3, 4, 4))], {}),
        ("LpNormalization", [Var((2, 3))], {"axis": -1, "p": 1}),
    ],
)
def test_other_normalisations(op, inputs, attrs):
    check_case(op, inputs, attrs, real=False)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("InstanceNormalization", [Var((2, 3, 4)), Var((4,)), Var((3,))], {}),
        ("GroupNormalization", [Var((2, 6, 4)), Var((6,)), Var((6,))], {"num_groups": 4}),
        ("GroupNormalization", [Var((2, 6, 4)), Var((6,)), Var((6,))], {"num_groups": 0}),
        ("LayerNormalization", [Var((2, 6)), Var((6,))], {"axis": 2**40}),
        ("LayerNormalization", [Var((2, 6)), Var((6,))], {"stash_type": 7}),
        ("LRN", [Var((2, 3, 4, 4))], {"size": 0}),
        ("LpNormalization", [Var((2, 3))], {"p": 3}),
        ("LpNormalization", [Var((2, 3))], {"axis": 2}),
        ("MeanVarianceNormalization", [Var((2, 3))], {}),
        ("ReduceSum", [Var((2, 3))], {"keepdims": 7}),
        ("ArgMax", [Var((2, 0))], {"axis": 1}),
        ("ArgMax", [Var((2, 0))], {"axis": -3}),
        ("CumSum", [Var((2, 3)), ints(0, 1)], {}),
        ("Gemm", [Var((2, 3)), Var((3, 2))], {"transA": 5}),
        ("MatMul", [Var((2, 3, 4)), Var((3, 4, 5))], {}),
    ],
)
def test_nonsense_is_refused(op, inputs, attrs):
    with pytest.raises(OpError):
        own_shapes(op, inputs, attrs)

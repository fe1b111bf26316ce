"""Einsum of every form against numpy's, on every number type, without host steps."""

from __future__ import annotations

import numpy as np
import pytest
from host_free import fed, run
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import ops
from neuralsym.dtypes import number_type
from neuralsym.errors import ShapeMismatch

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-20, "float64": 2.0**-48}
LETTERS = "abcdXY"
HIDDEN = "uvw"
"""What `...` stands for, for numpy."""


@st.composite
def einsums(draw):
    """An equation, the same for numpy with letters for the dots, and the operands' shapes."""
    count = draw(st.integers(1, 3))
    sizes = {c: draw(st.sampled_from([1, 2, 3, 2, 3, 0])) for c in LETTERS + HIDDEN}
    dotted = draw(st.booleans())
    words, plain, shapes = [], [], []
    for _ in range(count):
        labels = draw(st.lists(st.sampled_from(LETTERS), max_size=4))
        shape = [sizes[c] for c in labels]
        for i, c in enumerate(labels):  # a size of 1 broadcasts, unless it is on a diagonal
            if labels.count(c) == 1 and draw(st.integers(0, 5)) == 0:
                shape[i] = 1
        word = "".join(labels)
        if dotted and draw(st.booleans()):
            at, extra = draw(st.integers(0, len(labels))), draw(st.integers(0, 2))
            hidden = HIDDEN[len(HIDDEN) - extra :]
            shape[at:at] = [sizes[c] if draw(st.integers(0, 3)) else 1 for c in hidden]
            words.append(word[:at] + "..." + word[at:])
            plain.append(word[:at] + hidden + word[at:])
        else:
            words.append(word)
            plain.append(word)
        shapes.append(tuple(shape))
    given_letters = "".join(c for w in words for c in w if c != ".")
    dots = "".join(c for c in HIDDEN if any(c in w for w in plain))
    if draw(st.booleans()):
        once = "".join(sorted(c for c in given_letters if given_letters.count(c) == 1))
        return ",".join(words), ",".join(plain) + "->" + dots + once, shapes
    kept = draw(st.permutations(sorted(set(given_letters))))
    result = "".join(kept[: draw(st.integers(0, len(kept)))])
    text = result
    if any("." in w for w in words) and draw(st.booleans()):
        at = draw(st.integers(0, len(result)))
        text, result = result[:at] + "..." + result[at:], result[:at] + dots + result[at:]
    return " , ".join(words) + " -> " + text, ",".join(plain) + "->" + result, shapes


def drawn(rng, shape, kind):
    if kind.is_float:
        return rng.normal(size=shape).astype(kind.numpy)
    limits = np.iinfo(kind.numpy)
    return rng.integers(limits.min, limits.max, shape, kind.numpy, endpoint=True)


def exact(equation, arrays, dtype):
    """numpy's answer in float64, or wrapped around as sums of integers are."""
    wide = np.float64 if dtype in FLOATS else np.uint64 if dtype[0] == "u" else np.int64
    with np.errstate(over="ignore"):
        made = np.asarray(np.einsum(equation, *(a.astype(wide) for a in arrays)))
    if dtype in FLOATS:
        return made, np.asarray(np.einsum(equation, *(np.abs(a.astype(wide)) for a in arrays)))
    return made.astype(dtype), None


def check(equation, plain, arrays, dtype, shapes=None):
    named = {f"x{i}": a for i, a in enumerate(arrays)}
    made = run(ops.einsum(fed(named, shapes), equation=equation), named)
    wanted, size = exact(plain, arrays, dtype)
    assert made.dtype == arrays[0].dtype and made.shape == wanted.shape
    if size is None:
        np.testing.assert_array_equal(made, wanted)
    else:
        error = np.abs(made.astype(np.float64) - wanted)
        assert np.all(error <= FLOATS[dtype] * size + 1e-30)


@settings(max_examples=100, deadline=None)
@given(einsums(), st.sampled_from(INTEGERS + sorted(FLOATS) * 2), st.integers(0, 99))
def test_equations(drawn_equation, dtype, seed):
    equation, plain, shapes = drawn_equation
    rng = np.random.default_rng(seed)
    check(equation, plain, [drawn(rng, s, number_type(dtype)) for s in shapes], dtype)


@pytest.mark.parametrize(
    ("equation", "sizes"),
    [
        ("ij,jk->ik", ["ij", "jk"]),
        ("bhqd,bhkd->bhqk", ["bhqd", "bhkd"]),
        ("bij,bjk,bkl->bil", ["bij", "bjk", "bkl"]),
        ("ii->i", ["ii"]),
        ("iij->", ["iij"]),
        ("i,i->", ["i", "i"]),
        ("i,j->ij", ["i", "j"]),
        ("abc,cd->dab", ["abc", "cd"]),
    ],
)
def test_sizes_known_by_name(equation, sizes):
    numbers = dict(zip("abcdijklqh", range(2, 12), strict=True))
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=[numbers[c] for c in s]).astype(np.float32) for s in sizes]
    shapes = {f"x{i}": tuple(c.upper() for c in s) for i, s in enumerate(sizes)}
    check(equation, equation, arrays, "float32", shapes)


def test_names_that_differ_may_be_one_in_the_run():
    rng = np.random.default_rng(6)
    for n, m in ((4, 4), (1, 4), (4, 1)):
        arrays = [rng.normal(size=(3, n)).astype(np.float32), rng.normal(size=m).astype(np.float32)]
        check("ij,j->i", "ij,j->i", arrays, "float32", {"x0": (3, "N"), "x1": ("M",)})


def test_several_operands_are_contracted_in_a_cheap_order():
    rng = np.random.default_rng(7)
    arrays = [rng.normal(size=s).astype(np.float32) for s in ((40, 2), (2, 50), (50, 60), (60,))]
    # Taken from the left this would be a product of 40 by 60; from the right all are vectors.
    named = {f"x{i}": a for i, a in enumerate(arrays)}
    y = ops.einsum(fed(named), equation="ij,jk,kl,l->i")
    products = [n for n in expanded(y) if n.op_type == "MatMul"]
    assert all(d <= 60 for n in products for d in n.outputs[0].shape[:-1])
    assert max(int(np.prod(n.outputs[0].shape)) for n in products) <= 60
    np.testing.assert_allclose(run(y, named), np.linalg.multi_dot(arrays), rtol=1e-3, atol=1e-3)


def expanded(y):
    from neuralsym.core.graph import Graph

    return Graph(y.node.op.expansion(y.node)).nodes


def test_a_diagonal_of_unlike_sizes_is_refused():
    with pytest.raises(ShapeMismatch, match="1 and 3 differ"):
        ops.einsum(fed({"x": np.zeros((1, 3), np.float32)}), equation="ii->i")

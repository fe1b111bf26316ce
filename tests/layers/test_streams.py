"""Streams of random numbers: the generator, the distributions, and what they are computed with."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralsym.layers import streams
from neuralsym.layers.streams import Stream, logarithm, orthonormal_columns, quantile, tree_sum

NAMES = st.text(max_size=20)
SEEDS = st.integers(-(2**70), 2**70)


@given(SEEDS, NAMES, st.integers(0, 40))
def test_integers_are_those_of_numpys_philox(seed: int, name: str, count: int) -> None:
    stream = Stream(seed, name)
    reference = np.random.Philox(key=np.array(stream.key, np.uint64)).random_raw(count)
    np.testing.assert_array_equal(stream.integers(count), reference)


def test_integers_are_those_of_numpys_philox_across_batches() -> None:
    stream = Stream(3, "stem/kernel")
    count = 2 * 4 * streams._BATCH + 7
    reference = np.random.Philox(key=np.array(stream.key, np.uint64)).random_raw(count)
    np.testing.assert_array_equal(stream.integers(count), reference)


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_value_depends_on_its_place_alone(short: int, more: int) -> None:
    few, many = np.empty(short), np.empty(short + more)
    for out in (few, many):
        Stream(0, "a").normal(out, 0.0, 1.0)
    np.testing.assert_array_equal(few, many[:short])


def test_seed_and_name_do_not_run_together() -> None:
    keys = {Stream(1, "1x").key, Stream(11, "x").key, Stream(1, "x").key, Stream(-1, "x").key}
    assert len(keys) == 4


def test_the_quantile_is_the_inverse_of_the_normal_distribution(rng: np.random.Generator) -> None:
    # in the tails the probability itself is exact, so all digits can be compared
    below = np.concatenate([rng.uniform(0, 0.5, 2000), 2.0 ** -rng.uniform(1, 53, 2000)])
    expected = [NormalDist().inv_cdf(p) for p in below]
    offset = below - 0.5
    exact = offset + 0.5 == below
    np.testing.assert_allclose(quantile(offset)[exact], np.array(expected)[exact], rtol=2e-15)
    np.testing.assert_array_equal(quantile(-offset), -quantile(offset))


def test_the_outermost_values_are_finite() -> None:
    edge = 0.5 - 2.0**-53
    low, high = quantile(np.array([-edge, edge]))
    assert low == -high
    assert high == pytest.approx(NormalDist().inv_cdf(2.0**-53) * -1, rel=1e-15)


@given(st.floats(min_value=2.0**-1022, max_value=1.7e308))
def test_logarithm(x: float) -> None:
    (value,) = logarithm(np.array([x]))
    # near 1 the exponent and the series cancel nothing: the error stays relative
    assert value == pytest.approx(math.log(x), rel=5e-16, abs=0.0)


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=70))
def test_tree_sum_counts_every_row_once(values: list[int]) -> None:
    rows = np.array([[v, -2 * v] for v in values], np.float64)
    np.testing.assert_array_equal(tree_sum(rows), [sum(values), -2 * sum(values)])


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 1), (7, 7), (50, 13), (128, 128)])
def test_columns_are_orthonormal(m: int, n: int) -> None:
    normal = np.empty(m * n)
    Stream(0, f"{m}x{n}").normal(normal, 0.0, 1.0)
    q = orthonormal_columns(normal.reshape(m, n))
    np.testing.assert_allclose(q.T @ q, np.eye(n), atol=4e-16 * math.sqrt(m) * 8, rtol=0)


def test_orthogonal_matrices_are_uniform_over_all_of_them() -> None:
    """Of uniform 3x3 ones, each entry has mean 0, mean square 1/3, and det is 1 half the time."""
    count = 2000
    normal = np.empty(9 * count)
    Stream(0, "many").normal(normal, 0.0, 1.0)
    many = np.stack([orthonormal_columns(a) for a in normal.reshape(count, 3, 3)])
    # entries lie in [-1, 1] with variance 1/3; their squares have variance 1/5 - 1/9
    assert np.abs(many.mean(0)).max() < 4 * math.sqrt(1 / 3 / count)
    assert np.abs((many**2).mean(0) - 1 / 3).max() < 4 * math.sqrt((1 / 5 - 1 / 9) / count)
    proper = np.count_nonzero(np.linalg.det(many) > 0)
    assert abs(proper - count / 2) < 4 * math.sqrt(count) / 2


def test_nothing_but_integers_and_plain_arithmetic() -> None:
    """Bytes are the same everywhere because nothing here can differ: no libm, no BLAS, no sums."""
    allowed = {
        # types and views
        *("float64", "int64", "uint64", "empty", "empty_like", "zeros", "zeros_like", "arange"),
        "errstate",
        # exact, or rounded once by IEEE 754
        *("bitwise_and", "bitwise_xor", "right_shift", "multiply", "subtract", "sqrt", "abs"),
        *("copysign", "clip", "where", "flatnonzero"),
    }
    tree = ast.parse(Path(streams.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of_numpy = isinstance(node.value, ast.Name) and node.value.id == "np"
            if of_numpy:
                assert node.attr in allowed, f"line {node.lineno}: np.{node.attr}"
            assert node.attr not in {"sum", "dot", "mean", "std", "cumsum", "prod"}
        if isinstance(node, ast.BinOp | ast.AugAssign):
            assert not isinstance(node.op, ast.MatMult)
            if isinstance(node.op, ast.Pow):
                ast.literal_eval(ast.unparse(node.left))  # a constant of Python's own
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert "math" not in ast.unparse(node)

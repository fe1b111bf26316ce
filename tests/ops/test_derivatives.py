"""Derivatives against differences of values in float64, and what has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Symbol
from neuralsym.errors import GraphError
from neuralsym.ops.derivatives import RULES, differentiate
from neuralsym.ops.derivatives_scalar import SLOPES
from neuralsym.ops.evaluate import evaluate_graph

Array = np.ndarray[Any, Any]
STEP = 1e-6


def variables(*shapes: tuple[int | str | None, ...]) -> list[Symbol]:
    return [ops.variable(f"x{i}", shape, "float64") for i, shape in enumerate(shapes)]


def check(
    make: Callable[..., Symbol],
    *arrays: Array,
    shapes: tuple[tuple[int | str | None, ...], ...] | None = None,
    constant: tuple[int, ...] = (),
) -> None:
    """Compare the derivatives of a weighted sum of `make(...)` with central differences."""
    xs = variables(*(shapes or [a.shape for a in arrays]))
    y = make(*xs)
    weigh = ops.sin(ops.cast(ops.range(0, ops.size(y), 1), to=11))
    total = ops.reduce_sum(y * ops.reshape(weigh, ops.shape(y), allowzero=1), keepdims=0)
    wanted = [x for i, x in enumerate(xs) if i not in constant]
    made = differentiate(total, wanted)
    for x, derivative in zip(wanted, made, strict=True):
        assert derivative.dtype == x.dtype
        assert derivative.rank == x.rank
        assert x.shape is None or None in x.shape or derivative.shape == x.shape
    feeds: dict[Symbol, Any] = dict(zip(xs, arrays, strict=True))
    got = evaluate_graph(Graph(made, xs), feeds)
    graph = Graph(total, xs)
    for x, derivative in zip(wanted, got, strict=True):
        base = feeds[x]
        slopes = np.zeros(base.shape)
        for place in np.ndindex(*base.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = base.copy()
                moved[place] += step
                (value,) = evaluate_graph(graph, {**feeds, x: moved})
                ends.append(np.asarray(value))
            slopes[place] = (ends[0] - ends[1]) / (2 * STEP)
        np.testing.assert_allclose(derivative, slopes, rtol=2e-6, atol=2e-8)


RNG = np.random.default_rng(7)
A = RNG.uniform(0.2, 0.8, (2, 3)) * np.array([[1, -1, 1], [-1, 1, -1]])
FUNCTIONS: dict[str, Callable[[Symbol], Symbol]] = {
    name: (lambda x, name=name: getattr(ops, name)(x))
    for name in (
        *("abs", "acos", "asin", "asinh", "atan", "atanh", "celu", "cos", "cosh", "elu", "erf"),
        *("exp", "gelu", "hard_sigmoid", "hard_swish", "identity", "leaky_relu", "mish", "neg"),
        *("reciprocal", "relu", "selu", "sigmoid", "sin", "sinh", "softplus", "softsign"),
        *("swish", "tan", "tanh", "softmax", "log_softmax", "transpose", "flatten", "floor"),
    )
}
FUNCTIONS |= {
    "acosh": lambda x: ops.acosh(x * x + 1.5),
    "log": lambda x: ops.log(x * x),
    "sqrt": lambda x: ops.sqrt(x * x + 0.1),
    "gelu_tanh": lambda x: ops.gelu(x, approximate="tanh"),
    "thresholded_relu": lambda x: ops.thresholded_relu(x, alpha=0.5),
    "cast": lambda x: ops.cast(ops.cast(x, to=11) * x, to=11),
    "clip": lambda x: ops.clip(x, -0.5, 0.4),
    "pow": lambda x: ops.pow(x, 3.0) + ops.pow(x * x, 0.5),
    "max": lambda x: ops.max([x, x * x, ops.sin(x)]),
    "min": lambda x: ops.min([x, ops.cos(x)]),
    "where": lambda x: ops.where(x > 0.1, ops.exp(x), x * 2.0),
    "softmax_0": lambda x: ops.softmax(x, axis=0),
    "reshape": lambda x: ops.reshape(x, [3, -1]) * 2.0,
    "unsqueeze": lambda x: ops.squeeze(ops.unsqueeze(x, [0, 2]), [0]),
    "slice": lambda x: x[:, ::-2] * x[0:1, 1:],
    "gather": lambda x: ops.gather(x, np.array([[0, 2], [0, -1]]), axis=1),
    "gather_elements": lambda x: ops.gather_elements(x, np.array([[0, 0, 1]])),
    "gather_nd": lambda x: ops.gather_nd(x, np.array([[0, 0], [1, 2], [0, 0]])),
    "tile": lambda x: ops.tile(x, [2, 3]),
    "expand": lambda x: ops.expand(x, [4, 2, 1]),
    "concat": lambda x: ops.concat([x, ops.exp(x), x[:1]], axis=0),
    "split": lambda x: ops.split(x, np.array([1, 2]), axis=1)[1] * 2.0,
    "reduce_sum_noop": lambda x: ops.reduce_sum(x * x, noop_with_empty_axes=1),
    "used_often": lambda x: x * x * x + ops.exp(x) / (1.0 + x * x),
    "depth_to_space": lambda x: ops.depth_to_space(
        ops.reshape(x[:, :2], [1, 4, 1, 1]), blocksize=2
    ),
    "space_to_depth": lambda x: ops.space_to_depth(
        ops.reshape(x[:, :2], [1, 1, 2, 2]), blocksize=2
    ),
    "dropout": lambda x: ops.dropout(x, 0.5),
    "cast_like": lambda x: ops.cast_like(x, ops.constant(np.float64(0))) * x,
    "pad": lambda x: ops.pad(x, np.array([1, 0, 0, 2]), 0.5) * 3.0,
    "pad_by": lambda x: ops.pad(x, np.array([1, 2]), ops.reduce_sum(x, keepdims=0), np.array([1])),
    "trilu": lambda x: ops.trilu(x, np.int64(1), upper=1) + ops.trilu(x, upper=0),
    "cum_sum": lambda x: ops.cum_sum(x, 1) + ops.cum_sum(x, 0, exclusive=1, reverse=1),
    "top_k": lambda x: ops.top_k(x, np.array([2]), axis=1)[0] * 2.0,
    "sign": lambda x: ops.sign(x) * x + ops.ceil(x) + ops.round(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_tensor(name: str) -> None:
    check(FUNCTIONS[name], A)


REDUCTIONS = ["sum", "mean", "sum_square", "l1", "l2", "log_sum", "log_sum_exp", "max", "min"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    reduce = getattr(ops, f"reduce_{name}")
    values = np.abs(RNG.standard_normal((2, 3, 2))) + 0.1
    for axes, keepdims in ((None, 0), (None, 1), ([1], 0), ([-1, 0], 1), ([0, 2], 0)):
        check(lambda x, a=axes, k=keepdims: reduce(x, a, keepdims=k), values)


PAIRS: dict[str, Callable[[Symbol, Symbol], Symbol]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: ops.pow(ops.abs(a), b),
    "sum": lambda a, b: ops.sum([a, b, a]),
    "mean": lambda a, b: ops.mean([a, b]),
    "max": lambda a, b: ops.max([a, b]),
    "where": lambda a, b: ops.where(a > 0.0, a, b),
    "prelu": lambda a, b: ops.prelu(a + b, b),
}
SHAPES = [((2, 3), (2, 3)), ((2, 3), ()), ((2, 3), (1, 3)), ((2, 3), (1,)), ((2, 1), (1, 3))]


@pytest.mark.parametrize("name", PAIRS)
def test_what_was_broadcast_is_summed(name: str) -> None:
    for one, other in SHAPES[:-1] if name == "prelu" else SHAPES:
        a, b = (
            np.array(RNG.uniform(0.5, 2, shape) * RNG.choice([-1, 1], shape))
            for shape in (one, other)
        )
        check(PAIRS[name], a, b)


def test_sizes_that_only_a_run_tells() -> None:
    for shapes in ((("M", 3), ("N", 3)), ((None, None), (None,)), (("N", 3), (1, 3))):
        for one, other in (((2, 3), (1, 3)), ((1, 3), (1, 3))):
            b = np.ones(other)[0] if len(shapes[1]) == 1 else np.ones(other)
            check(lambda x, y: x * ops.exp(y), RNG.standard_normal(one), b, shapes=shapes)


def test_products() -> None:
    matmul: Callable[..., Symbol] = ops.matmul
    for one, other in (
        *(((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,))),
        *(((2, 2, 3), (3, 2)), ((2, 1, 2, 3), (2, 3, 2)), ((3,), (2, 3, 2)), ((0, 3), (3, 2))),
    ):
        check(matmul, RNG.standard_normal(one), RNG.standard_normal(other))
    for across in (0, 1):
        for down in (0, 1):
            a = RNG.standard_normal((3, 2) if across else (2, 3))
            b = RNG.standard_normal((4, 3) if down else (3, 4))

            def gemm(x: Symbol, y: Symbol, z: Symbol, s: int = across, t: int = down) -> Any:
                return ops.gemm(x, y, z, alpha=0.5, beta=2.0, transA=s, transB=t)

            for c in ((4,), (2, 1), ()):
                check(gemm, a, b, RNG.standard_normal(c))


CONVS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 2, 5), (3, 2, 3), {}),
    ((1, 2, 5, 4), (2, 2, 2, 3), {"pads": (1, 0, 2, 1)}),
    ((1, 1, 6, 6), (1, 1, 2, 2), {"strides": (3, 2), "dilations": (1, 2)}),
    ((1, 1, 8), (1, 1, 2), {"strides": (5,)}),
]


@pytest.mark.parametrize("case", CONVS, ids=str)
def test_convolutions(case: Any) -> None:
    x, w, settings = case
    kernel = {"kernel_shape": w[2:]}
    check(
        lambda a, b, c: ops.conv(a, b, c, **kernel, **settings),
        RNG.standard_normal(x), RNG.standard_normal(w), RNG.standard_normal(w[0]),
    )  # fmt: skip


def test_pools_and_normalisations() -> None:
    x = RNG.permutation(72).reshape(2, 2, 3, 6) * 0.1
    pool = {"kernel_shape": (2, 3), "strides": (1, 2), "pads": (0, 1, 1, 1)}
    check(lambda v: ops.max_pool(v, **pool), x)
    check(ops.global_average_pool, x)
    vectors = [RNG.uniform(0.5, 2, 2) for _ in range(4)]
    check(ops.batch_normalization, x, *vectors)
    check(lambda *v: ops.layer_normalization(*v, axis=-1), x[0, 0], x[0, 0, 0], x[0, 1, 0])


def test_other_normalisations() -> None:
    x = RNG.permutation(48).reshape(2, 4, 3, 2) * 0.1
    check(ops.global_max_pool, x)
    scale, bias = RNG.uniform(0.5, 2, 4), RNG.standard_normal(4)
    check(lambda *v: ops.group_normalization(*v, num_groups=2, stash_type=11), x, scale, bias)
    check(ops.instance_normalization, x, scale, bias)
    check(lambda *v: ops.rms_normalization(*v, axis=2), x, RNG.uniform(0.5, 2, (3, 2)))


def test_pads_that_cut_off() -> None:
    """onnx's reference evaluator does not take them, so the derivative is compared as a shape."""
    (x,) = variables((4, 5))
    y = ops.pad(x, np.array([1, -1, -2, 2]))
    assert y.shape == (3, 6)
    (made,) = differentiate(y, [x])
    (got,) = evaluate_graph(Graph(made, [x]), {x: np.zeros((4, 5))})
    wanted = np.zeros((4, 5))
    wanted[:2, 1:] = 1
    np.testing.assert_array_equal(np.asarray(got), wanted)


def test_losses_and_products_by_their_expansion() -> None:
    label = np.array([1, 0])
    check(lambda x: ops.softmax_cross_entropy_loss(x, label), A)
    check(lambda x, y: ops.einsum([x, y], equation="ij,kj->ik"), A, A * 2)


def test_second_derivatives() -> None:
    def first(x: Symbol) -> Symbol:
        (made,) = differentiate(ops.exp(ops.sin(x)) * ops.tanh(x), [x])
        return made

    check(first, A)


def test_equal_values_share_the_derivative() -> None:
    x = ops.variable("x", (4,), "float64")
    (by_max,) = differentiate(ops.reduce_max(x), [x])
    (by_both,) = differentiate(ops.max([x, x]), [x])
    values = {x: np.array([1.0, 3, 3, 2])}
    got = evaluate_graph(Graph({"a": by_max, "b": by_both}), values)
    assert np.asarray(got[0]).tolist() == [0, 0.5, 0.5, 0]
    assert np.asarray(got[1]).tolist() == [1, 1, 1, 1]


def test_what_does_not_matter_has_the_derivative_zero() -> None:
    x, z = variables((2,), (3,))
    made = differentiate(ops.floor(x) + x, [x, z])
    got = evaluate_graph(Graph(made, [x, z]), {x: np.ones(2), z: np.ones(3)})
    assert [np.asarray(v).tolist() for v in got] == [[1, 1], [0, 0, 0]]
    (fixed,) = differentiate(ops.exp(x) * x, [x], [x * 1.0])
    assert fixed.shape == (2,)


def test_what_has_no_derivative_is_refused_by_name() -> None:
    (x,) = variables((3, 3))
    with pytest.raises(GraphError, match=r"Det .*has no rule of differentiation"):
        differentiate(ops.det(x, name="area") * 2.0, [x])
    with pytest.raises(GraphError, match="only floats have derivatives"):
        differentiate(ops.cast(x, to=7), [x])
    unused = differentiate(ops.det(ops.constant(np.eye(3))) * x, [x])
    assert unused[0].shape == (3, 3)


def test_every_rule_is_tried() -> None:
    """A rule that is added needs a row here."""
    assert set(SLOPES) <= set(RULES)
    names = {n.split("_noop")[0].replace("_", "") for n in (*FUNCTIONS, *PAIRS)}
    names |= {f"reduce{n.replace('_', '')}" for n in REDUCTIONS}
    names |= {"matmul", "gemm", "conv", "maxpool", "globalaveragepool"}
    names |= {f"{kind}normalization" for kind in ("batch", "layer", "rms", "group", "instance")}
    names |= {"squeeze", "ceil", "round", "globalmaxpool"}
    assert [n for n in RULES if n.lower() not in names] == []

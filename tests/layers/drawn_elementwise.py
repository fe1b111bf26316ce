"""Draws of layers that keep or regroup values: activations, shapes, joins, encodings, noise."""

from __future__ import annotations

import math
from typing import Any

from drawn_case import Case, Given, Strategy
from hypothesis import strategies as st

sizes = st.integers(1, 4)
numbers = st.floats(0.125, 3.0, width=32)


@st.composite
def _any(draw: st.DrawFn, low: int = 1, high: int = 4, free: bool = True) -> Given:
    """A batch of any rank, some of whose axes are open."""
    shape = tuple(draw(st.lists(sizes, min_size=low, max_size=high)))
    opened = draw(st.sets(st.integers(1, len(shape)), max_size=len(shape))) if free else set()
    return Given(shape, free=frozenset({0} | {a for a in opened if a < len(shape)}))


def _with(low: int = 1, high: int = 4, free: bool = True, **settings: Any) -> Strategy:
    """Settings drawn each by itself, on a batch of any rank."""
    chosen = st.fixed_dictionaries({}, optional=settings)
    return st.builds(lambda s, x: Case(s, (x,)), chosen, _any(low, high, free))


@st.composite
def _along(draw: st.DrawFn, even: bool = False) -> Case:
    """An axis of a fixed size."""
    x = draw(_any(2))
    axis = draw(st.integers(1, len(x.shape) - 1))
    shape = tuple(n * 2 if even and a == axis else n for a, n in enumerate(x.shape))
    back = draw(st.booleans())
    return Case(
        {"axis": axis - len(shape) if back else axis}, (Given(shape, free=x.free - {axis}),)
    )


def _prelu(draw: st.DrawFn) -> Case:
    x = draw(_any(2))
    kept = draw(st.sets(st.integers(1, len(x.shape) - 1)))
    free = frozenset({0}) | (x.free & kept)
    return Case({"shared_axes": sorted(kept)}, (Given(x.shape, free=free),))


# -- shapes ------------------------------------------------------------------------------------
def _flatten(draw: st.DrawFn) -> Case:
    x = draw(_any(2, 4))
    last = len(x.shape) - 1
    start = draw(st.integers(0, last))
    return Case({"start_dim": start, "end_dim": draw(st.integers(start, last))}, (x,))


def _split(draw: st.DrawFn) -> list[int]:
    return draw(st.lists(sizes, min_size=1, max_size=3))


def _unflatten(draw: st.DrawFn) -> Case:
    x, parts = draw(_any(2, 3)), _split(draw)
    axis = draw(st.integers(1, len(x.shape) - 1))
    shape = tuple(math.prod(parts) if a == axis else n for a, n in enumerate(x.shape))
    if draw(st.booleans()):
        parts[draw(st.integers(0, len(parts) - 1))] = -1
    return Case({"dim": axis, "unflattened_size": parts}, (Given(shape, free=x.free - {axis}),))


def _reshape(draw: st.DrawFn) -> Case:
    parts = _split(draw)
    shape = (2, math.prod(parts[1:]), parts[0])
    if draw(st.booleans()):
        parts[draw(st.integers(0, len(parts) - 1))] = -1
    return Case({"target_shape": parts}, (Given(shape),))


def _permute(draw: st.DrawFn) -> Case:
    x = draw(_any(2, 4))
    return Case({"dims": draw(st.permutations(range(1, len(x.shape))))}, (x,))


def _slice(draw: st.DrawFn) -> Case:
    x = draw(_any(2, 4))
    parts: list[Any] = []
    for n in x.shape[1:]:
        place = st.integers(-n, n - 1)
        parts.append(draw(st.sampled_from([[], 1])))
        if parts[-1] == 1:
            parts[-1] = draw(st.lists(place, min_size=1, max_size=2))
    return Case({"definition": parts}, (Given(x.shape),))


def _get_item(draw: st.DrawFn) -> Case:
    x = draw(_any(2, 4, free=False))
    key: list[Any] = [slice(None)]
    for n in x.shape[1:]:
        key.append(draw(st.sampled_from([0, n - 1, -1, slice(None), slice(None, None, -1), None])))
    key = key[: draw(st.integers(1, len(key)))]
    return Case({"key": tuple(key)}, (x,))


# -- joins -------------------------------------------------------------------------------------
def _spread(draw: st.DrawFn, count: int) -> tuple[Given, ...]:
    """Shapes that broadcast, of unequal ranks too."""
    shape = draw(st.lists(sizes, min_size=1, max_size=4))
    made = []
    for _ in range(count):
        own = [n if draw(st.booleans()) else 1 for n in shape]
        made.append(Given(tuple(own[draw(st.integers(0, len(own) - 1)) :]), free=frozenset()))
    return tuple(made)


def _join(draw: st.DrawFn) -> Case:
    return Case({}, _spread(draw, draw(st.integers(2, 3))))


def _join_two(draw: st.DrawFn) -> Case:
    return Case({}, _spread(draw, 2))


def _concat(draw: st.DrawFn) -> Case:
    x = draw(_any(2, 4))
    axis = draw(st.integers(1, len(x.shape) - 1))
    shapes = [
        tuple(draw(sizes) if a == axis else n for a, n in enumerate(x.shape))
        for _ in range(draw(st.integers(1, 3)))
    ]
    return Case({"axis": axis}, tuple(map(Given, shapes)), alone=False)


def _dot(draw: st.DrawFn) -> Case:
    n, k = draw(sizes), draw(sizes)
    shapes, axes = [], []
    for _ in range(2):
        rest = draw(st.lists(sizes, max_size=2))
        axis = draw(st.integers(0, len(rest)))
        shapes.append((n, *rest[:axis], k, *rest[axis:]))
        axes.append(axis + 1)
    return Case({"axes": axes, "normalize": draw(st.booleans())}, tuple(map(Given, shapes)))


def _cosine(draw: st.DrawFn) -> Case:
    x = draw(_any(2, 4, free=False))
    return Case({"axis": draw(st.integers(1, len(x.shape) - 1))}, (x, x))


def _distance(draw: st.DrawFn) -> Case:
    x = draw(_any(2, 4, free=False))
    p = draw(st.sampled_from([1, 2, 3.0, 0.5, math.inf]))
    return Case({"p": p, "keepdims": draw(st.booleans())}, (x, x))


def _bilinear(draw: st.DrawFn) -> Case:
    rest = tuple(draw(st.lists(sizes, min_size=1, max_size=3)))
    inputs = tuple(Given((*rest, draw(sizes))) for _ in range(2))
    return Case({"units": draw(sizes), "use_bias": draw(st.booleans())}, inputs)


# -- data --------------------------------------------------------------------------------------
def _rescaling(draw: st.DrawFn) -> Case:
    x = draw(_any(2, 4))
    many = [draw(numbers) for _ in range(x.shape[1])]
    scale = draw(st.sampled_from([draw(numbers), many]))
    return Case({"scale": scale, "offset": draw(numbers)}, (Given(x.shape, free=x.free - {1}),))


def _normalization(draw: st.DrawFn) -> Case:
    x = draw(_any(2, 4))
    axis = draw(st.integers(1, len(x.shape) - 1))
    numbers_of = [[draw(numbers) for _ in range(x.shape[axis])] for _ in range(2)]
    settings = {
        "mean": numbers_of[0],
        "variance": numbers_of[1],
        "axis": axis,
        "invert": draw(st.booleans()),
    }
    return Case(settings, (Given(x.shape, free=x.free - {axis}),))


def _categories(draw: st.DrawFn) -> Case:
    x = draw(_any(1, 3))
    mode = draw(st.sampled_from(["one_hot", "multi_hot", "count"]))
    dtype = draw(st.sampled_from(["int64", "int32"]))
    return Case({"num_tokens": 4, "output_mode": mode}, (Given(x.shape, dtype, x.free, -1),))


def _bins(draw: st.DrawFn) -> Case:
    edges = sorted(draw(st.lists(numbers, min_size=1, max_size=4)))
    mode = draw(st.sampled_from(["int", "one_hot", "multi_hot", "count"]))
    return Case({"bin_boundaries": edges, "output_mode": mode}, (draw(_any(1, 3)),))


def _composite(make: Any) -> Strategy:
    return st.composite(make)()


PLAIN = [
    *("relu6", "selu", "silu", "hard_silu", "sigmoid", "hard_sigmoid", "log_sigmoid", "tanh"),
    *("tanh_shrink", "softsign", "mish", "exponential", "sparse_plus", "sparse_sigmoid"),
    "identity",
]
RATES = [
    *("dropout", "spatial_dropout", "alpha_dropout", "feature_alpha_dropout", "gaussian_dropout")
]

TABLE: dict[str, Strategy] = {
    **{name: _with() for name in PLAIN},
    "relu": _with(max_value=numbers, negative_slope=numbers, threshold=numbers),
    "leaky_relu": _with(negative_slope=numbers),
    "rrelu": _with(lower=st.floats(0, 0.3), upper=st.floats(0.3, 1)),
    "elu": _with(alpha=numbers),
    "celu": _with(alpha=numbers),
    "gelu": _with(approximate=st.sampled_from([True, False, "tanh", "none"])),
    "hard_tanh": _with(min_value=st.floats(-3, -1), max_value=numbers),
    "softplus": _with(beta=numbers, threshold=numbers),
    "hard_shrink": _with(threshold=numbers),
    "soft_shrink": _with(threshold=numbers),
    "thresholded_relu": _with(alpha=numbers),
    "squareplus": _with(b=numbers),
    "threshold": st.builds(
        lambda t, v, x: Case({"threshold": t, "value": v}, (x,)), numbers, numbers, _any()
    ),
    "activation": st.builds(
        lambda f, x: Case({"function": f}, (x,)), st.sampled_from(["ReLU", "swish", "exp"]), _any()
    ),
    **{name: _composite(lambda d: d(_along())) for name in ("softmax", "softmin", "log_softmax")},
    "sparsemax": _along(),
    "glu": _along(even=True),
    "softmax2d": _with(3, 4),
    "prelu": _composite(_prelu),
    **{name: _with(rate=st.floats(0, 0.9)) for name in RATES},
    **{f"spatial_dropout{r}d": _with(r + 2, r + 2, rate=st.floats(0, 0.9)) for r in (1, 2, 3)},
    "gaussian_noise": _with(stddev=numbers),
    "activity_regularization": _with(l1=numbers, l2=numbers),
    "flatten": _composite(_flatten),
    "unflatten": _composite(_unflatten),
    "reshape": _composite(_reshape),
    "permute": _composite(_permute),
    "repeat_vector": st.builds(lambda n, x: Case({"n": n}, (x,)), sizes, _any(2, 2)),
    "slice_": _composite(_slice),
    "get_item": _composite(_get_item),
    **{name: _composite(_join) for name in ("add", "multiply", "average", "maximum", "minimum")},
    "subtract": _composite(_join_two),
    "concat": _composite(_concat),
    "dot": _composite(_dot),
    "cosine_similarity": _composite(_cosine),
    "pairwise_distance": _composite(_distance),
    "bilinear": _composite(_bilinear),
    "rescaling": _composite(_rescaling),
    "normalization": _composite(_normalization),
    "category_encoding": _composite(_categories),
    "discretization": _composite(_bins),
}

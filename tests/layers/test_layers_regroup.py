"""Pools of further kinds, shuffles, columns, comparisons, encodings and activations, in numpy."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_values import close
from numpy.typing import NDArray

import neuralsym
from neuralsym import BadAttribute, Network, ShapeMismatch, TypeMismatch
from neuralsym import layers as nn

Array = NDArray[Any]
RNG = np.random.Generator(np.random.Philox(31))


def values(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32).astype(np.float64)


def network(layer: Any, *xs: Array) -> Network:
    symbols = [nn.input(("N", *x.shape[1:]), name=f"x{i}") for i, x in enumerate(xs)]
    return (symbols[0] if len(xs) == 1 else symbols) | layer | nn.get_network()


def computed(layer: Any, *xs: Array) -> Array:
    made = network(layer, *xs)
    return made(xs[0]) if len(xs) == 1 else made({f"x{i}": x for i, x in enumerate(xs)})


# -- pools -------------------------------------------------------------------------------------
def adaptive(x: Array, sizes: tuple[int, ...], reduce: Any) -> Array:
    """Window i of m over n elements goes from floor(i n / m) to ceil((i + 1) n / m)."""
    y = np.zeros((*x.shape[:2], *sizes))
    for place in itertools.product(*map(range, sizes)):
        window = tuple(
            slice(i * n // m, -(-(i + 1) * n // m))
            for i, n, m in zip(place, x.shape[2:], sizes, strict=True)
        )
        axes = tuple(range(2, x.ndim))
        y[(slice(None), slice(None), *place)] = reduce(x[(slice(None), slice(None), *window)], axes)
    return y


@settings(max_examples=20)
@given(st.integers(1, 3), st.data())
def test_adaptive_pools(rank: int, data: st.DataObject) -> None:
    sizes = data.draw(st.tuples(*[st.integers(1, 8)] * rank))
    x = values(2, 2, *(7, 6, 4)[:rank])
    average = getattr(nn, f"adaptive_avg_pool{rank}d")(sizes)
    close(computed(average, x), adaptive(x, sizes, np.mean))
    largest = getattr(nn, f"adaptive_max_pool{rank}d")(sizes)
    close(computed(largest, x), adaptive(x, sizes, np.max))


def test_an_infinity_stays_in_its_windows() -> None:
    x = values(1, 1, 7)
    x[0, 0, 6] = np.inf
    y = computed(nn.adaptive_avg_pool1d(3), x)
    assert np.isfinite(y[0, 0, :2]).all() and y[0, 0, 2] == np.inf
    columns = computed(nn.unfold((1, 2)), x[:, :, None])
    assert np.isinf(columns).sum() == 1 and not np.isnan(columns).any()


def test_adaptive_pool_over_open_sizes() -> None:
    x = values(2, 3, 5, 6)
    begin = nn.input(("N", 3, "H", "W"))
    close((begin | nn.adaptive_avg_pool2d(1) | nn.get_network())(x), x.mean((2, 3), keepdims=True))
    kept = begin | nn.adaptive_max_pool2d((None, 1)) | nn.get_network()
    close(kept(x), x.max(3, keepdims=True))


def test_lp_pools() -> None:
    x = values(2, 3, 4, 6)
    cells = x.reshape(2, 3, 2, 2, 3, 2)
    for p in (1, 2, 3):
        wanted = (np.abs(cells) ** p).sum((3, 5)) ** (1 / p)
        close(computed(nn.lp_pool2d(2, p=p), x), wanted)
        whole = (np.abs(x) ** p).sum((2, 3), keepdims=True) ** (1 / p)
        close(computed(nn.global_lp_pool2d(p, keepdims=True), x), whole)


@pytest.mark.parametrize("ceil", [False, True])
def test_mean_over_another_divisor(ceil: bool) -> None:
    x = values(1, 2, 5, 5)
    wide = np.pad(x, [(0, 0), (0, 0), (1, 2), (1, 2)])
    count = 3 if not ceil else 4
    seen = np.lib.stride_tricks.sliding_window_view(wide, (2, 2), (2, 3))[:, :, ::2, ::2]
    layer = nn.avg_pool2d(2, 2, 1, ceil_mode=ceil, divisor_override=3)
    y = computed(layer, x)
    close(y, seen[:, :, : y.shape[2], : y.shape[3]].sum((4, 5)) / 3)
    assert y.shape[2] == min(count, 3)  # no window begins in the padding behind


@pytest.mark.parametrize("size", [4, 5])
def test_what_a_pool_took_is_put_back(size: int) -> None:
    x = values(2, 3, size, size)

    def there_and_back(s: Any) -> Any:
        return s | nn.max_pool2d_with_indices(2) | nn.max_unpool2d(2, output_size=size)

    wanted = np.zeros_like(x)
    for n, c, i, j in np.ndindex(2, 3, size // 2, size // 2):
        cell = x[n, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        a, b = np.unravel_index(cell.argmax(), (2, 2))
        wanted[n, c, 2 * i + a, 2 * j + b] = cell.max()
    close(computed(there_and_back, x), wanted)


def test_indices_of_another_size_are_refused() -> None:
    pooled = nn.input(("N", 3, 5, 5)) | nn.max_pool2d_with_indices(2)
    with pytest.raises(ShapeMismatch, match=r"output_size=\(5, 5\)"):
        pooled | nn.max_unpool2d(2)


# -- channels and space ------------------------------------------------------------------------
def test_pixels_and_channels() -> None:
    x = values(2, 12, 3, 5)
    wanted = x.reshape(2, 3, 2, 2, 3, 5).transpose(0, 1, 4, 2, 5, 3).reshape(2, 3, 6, 10)
    close(computed(nn.pixel_shuffle(2), x), wanted)
    close(computed(nn.pixel_shuffle(2) | nn.pixel_unshuffle(2), x), x)
    shuffled = x.reshape(2, 3, 4, 3, 5).transpose(0, 2, 1, 3, 4).reshape(x.shape)
    close(computed(nn.channel_shuffle(3), x), shuffled)
    close(computed(nn.channel_shuffle(3) | nn.channel_shuffle(4), x), x)


@settings(max_examples=15)
@given(
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(1, 2)] * 2),
    st.tuples(*[st.integers(0, 2)] * 2),
    st.tuples(*[st.integers(1, 3)] * 2),
)
def test_columns_and_back(kernel: Any, dilation: Any, padding: Any, stride: Any) -> None:
    """Columns are the windows; adding ones back counts how many windows see each element."""
    x = values(2, 3, 6, 7)
    wide = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(wide, reach, (2, 3))
    seen = seen[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    wanted = seen.transpose(0, 1, 4, 5, 2, 3).reshape(2, 3 * kernel[0] * kernel[1], -1)
    layer = nn.unfold(kernel, dilation, padding, stride)
    close(computed(layer, x), wanted)
    free = nn.input(("N", 3, "H", "W")) | layer | nn.get_network()
    close(free(x), wanted)
    back = np.zeros_like(wide)
    for i, j, a, b in np.ndindex(*seen.shape[2:]):
        row, column = i * stride[0] + a * dilation[0], j * stride[1] + b * dilation[1]
        back[:, :, row, column] += seen[:, :, i, j, a, b]
    (top, left), (h, w) = padding, x.shape[2:]
    inner = back[:, :, top : top + h, left : left + w]
    close(computed(layer | nn.fold((h, w), kernel, dilation, padding, stride), x), inner)


# -- comparisons -------------------------------------------------------------------------------
def test_comparisons() -> None:
    a, b = values(3, 4, 5), values(3, 4, 5)
    a[0] = 0
    lengths = [np.maximum(np.sqrt((v * v).sum(1)), 1e-8) for v in (a, b)]
    close(computed(nn.cosine_similarity(), a, b), (a * b).sum(1) / (lengths[0] * lengths[1]))
    for p in (1, 2, 3, 0.5):
        wanted = (np.abs(a - b + 1e-6) ** p).sum(-1) ** (1 / p)
        close(computed(nn.pairwise_distance(p), a, b), wanted)
    largest = np.abs(a - b + 1e-6).max(-1, keepdims=True)
    close(computed(nn.pairwise_distance(np.inf, keepdims=True), a, b), largest)


def test_bilinear_form() -> None:
    a, b = values(2, 3, 4), values(2, 3, 5)
    made = network(nn.bilinear(6), a, b)
    made.set_weight("bilinear/bias", RNG.standard_normal(6))
    w, bias = (made.weights[f"bilinear/{n}"].astype(np.float64) for n in ("kernel", "bias"))
    wanted = np.einsum("nti,oij,ntj->nto", a, w, b) + bias
    close(made({"x0": a, "x1": b}), wanted)
    assert w.shape == (6, 4, 5)


def test_lambda_of_several_symbols() -> None:
    a, b = values(2, 3), values(2, 3)
    close(computed(nn.lambda_(lambda xs: xs[0] - xs[1] * 2.0), a, b), a - 2 * b)
    assert nn.lambda_array is nn.lambda_


# -- data --------------------------------------------------------------------------------------
def test_scaling() -> None:
    x = values(2, 3, 4)
    close(computed(nn.rescaling(2.0, -1.0), x), 2 * x - 1)
    factors = np.array([1.0, 2.0, 3.0])
    close(computed(nn.rescaling(factors.tolist()), x), x * factors[:, None])
    mean, variance = np.array([1.0, 2.0, 3.0]), np.array([4.0, 0.25, 0.0])
    wanted = (x - mean[:, None]) / np.maximum(np.sqrt(variance), 1e-7)[:, None]
    close(computed(nn.normalization(mean, variance), x), wanted)
    there = nn.normalization(2.0, 9.0, axis=None)
    close(computed(there | nn.normalization(2.0, 9.0, axis=None, invert=True), x), x)


def test_categories() -> None:
    x = np.array([[0, 2, 2], [3, -1, 4]])
    begin = nn.input(("N", 3), "int64")

    def encoded(mode: Any) -> Array:
        return (begin | nn.category_encoding(4, mode) | nn.get_network())(x)

    hot = (x[..., None] == np.arange(4)).astype(np.float32)
    np.testing.assert_array_equal(encoded("one_hot"), hot)
    np.testing.assert_array_equal(encoded("multi_hot"), hot.max(1))
    np.testing.assert_array_equal(encoded("count"), hot.sum(1))


def test_bins() -> None:
    x = np.array([[-1.0, 0.0, 0.5], [1.0, 2.5, 9.0]])
    edges = [0.0, 1.0, 2.0]
    y = (nn.input(("N", 3)) | nn.discretization(edges) | nn.get_network())(x)
    np.testing.assert_array_equal(y, np.digitize(x, edges))
    hot = (nn.input(("N", 3)) | nn.discretization(edges, "multi_hot") | nn.get_network())(x)
    np.testing.assert_array_equal(hot, [[1, 1, 0, 0], [0, 0, 1, 1]])


# -- activations -------------------------------------------------------------------------------
def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


ACTIVATIONS: list[tuple[Any, Any]] = [
    (nn.relu(negative_slope=0.5, threshold=1.0), lambda x: np.where(x >= 1, x, 0.5 * (x - 1))),
    (nn.relu(threshold=0.5), lambda x: np.where(x >= 0.5, x, 0)),
    (nn.relu(2.0, 0.1), lambda x: np.minimum(np.where(x < 0, 0.1 * x, x), 2)),
    (nn.rrelu(0.2, 0.4), lambda x: np.where(x < 0, 0.3 * x, x)),
    (nn.softplus(2.0), lambda x: np.log1p(np.exp(2 * x)) / 2),
    (nn.softplus(2.0, 1.0), lambda x: np.where(2 * x > 1, x, np.log1p(np.exp(2 * x)) / 2)),
    (nn.hard_tanh(-0.5, 1.5), lambda x: np.clip(x, -0.5, 1.5)),
    (nn.softmin(1), lambda x: softmax(-x, 1)),
    (nn.softmax2d, lambda x: softmax(x, 1)),
    (nn.threshold(0.3, -7.0), lambda x: np.where(x > 0.3, x, -7)),
    (nn.hard_shrink(1.0), lambda x: np.where(np.abs(x) > 1, x, 0)),
]


@pytest.mark.parametrize(("layer", "formula"), ACTIVATIONS)
def test_activations_with_settings(layer: Any, formula: Any) -> None:
    x = 2 * values(2, 4, 3, 3)
    close(computed(layer, x), formula(x))


def test_thresholds_keep_nan_and_take_infinity() -> None:
    x = np.float32([np.nan, -np.inf, np.inf])
    for layer in (nn.relu(threshold=0.5), nn.threshold(0.5, 0.0)):
        y = (nn.input((3,)) | layer | nn.get_network())(x)
        np.testing.assert_array_equal(y, np.float32([np.nan, 0, np.inf]))


def test_names_of_other_libraries_are_the_same_layers() -> None:
    pairs = {
        "max_pooling2d": "max_pool2d", "average_pooling1d": "avg_pool1d",
        "conv2d_transpose": "transpose_conv2d", "conv_transpose3d": "transpose_conv3d",
        "reflection_pad2d": "reflection_padding2d", "hardtanh": "hard_tanh", "mul": "multiply",
        "dropout2d": "spatial_dropout2d", "padding1d": "zero_padding1d",
    }  # fmt: skip
    for theirs, own in pairs.items():
        assert getattr(nn, theirs) is getattr(nn, own) and theirs in nn.__all__


SPACE, ROW = ("N", 4, 6, 6), ("N", 3)
REFUSED: list[tuple[Any, Any, type[Exception], str]] = [
    (lambda: nn.adaptive_avg_pool2d(0), SPACE, BadAttribute, "positive"),
    (lambda: nn.adaptive_avg_pool2d((1, 2, 3)), SPACE, BadAttribute, "2 are needed"),
    (lambda: nn.adaptive_avg_pool2d(3), ("N", 4, "H", 6), ShapeMismatch, "fixed size"),
    (lambda: nn.lp_pool2d(p=0), SPACE, BadAttribute, "at least 1"),
    (lambda: nn.avg_pool2d(divisor_override=0), SPACE, BadAttribute, "zero"),
    (lambda: nn.pixel_shuffle(3), SPACE, BadAttribute, "divide"),
    (lambda: nn.pixel_unshuffle(4), SPACE, ShapeMismatch, "does not divide"),
    (lambda: nn.channel_shuffle(3), SPACE, BadAttribute, "divide"),
    (lambda: nn.unfold(9), SPACE, ShapeMismatch, "spans 9"),
    (lambda: nn.fold((4, 4), 2), ("N", 4, 7), ShapeMismatch, "7 columns"),
    (lambda: nn.fold((4, 4), 3), ("N", 4, 4), ShapeMismatch, "no multiple"),
    (lambda: nn.normalization([1.0], [1.0]), ROW, ShapeMismatch, "does not fit"),
    (lambda: nn.normalization(0.0, -1.0, axis=None), ROW, BadAttribute, "negative"),
    (lambda: nn.normalization(0.0, 1.0, axis=7), ROW, BadAttribute, "no such axis"),
    (lambda: nn.rescaling([1.0, 2.0]), ROW, ShapeMismatch, "channels"),
    (lambda: nn.category_encoding(0), ROW, BadAttribute, "at least 1"),
    (lambda: nn.category_encoding(3, "multihot"), ROW, BadAttribute, "multi_hot"),
    (lambda: nn.discretization([2.0, 1.0]), ROW, BadAttribute, "rising"),
    (lambda: nn.softmax2d, ROW, ShapeMismatch, "N, C, H, W"),
    (lambda: nn.softplus(0.0), ROW, BadAttribute, "positive"),
    (lambda: nn.hard_tanh(1.0, 0.0), ROW, BadAttribute, "in order"),
    (lambda: nn.rrelu(1.0, 0.0), ROW, BadAttribute, "in order"),
    (lambda: nn.gelu("erf"), ROW, BadAttribute, "tanh"),
    (lambda: nn.spatial_dropout2d(), ROW, ShapeMismatch, "rank 4"),
    (lambda: nn.activity_regularization(-1.0), ROW, BadAttribute, "negative"),
]


@pytest.mark.parametrize(("made", "shape", "kind", "words"), REFUSED)
def test_what_cannot_be_regrouped(made: Any, shape: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words) as raised:
        nn.input(shape) | made()
    assert "test_layers_regroup.py:" in str(raised.value)


def test_pairs_that_cannot_be_compared() -> None:
    a, b = nn.input(("N", 3), name="a"), nn.input(("N", 4), name="b")
    for layer in (nn.cosine_similarity(), nn.pairwise_distance(), nn.dot(1)):
        with pytest.raises(ShapeMismatch, match=r"test_layers_regroup\.py:"):
            (a, b) | layer
    with pytest.raises(BadAttribute, match="exactly 2"):
        (a, a, a) | nn.cosine_similarity()
    with pytest.raises((TypeMismatch, TypeError), match="symbols"):
        a | nn.bilinear(2)


@pytest.mark.parametrize("factor", [0.7, 0.9, 0.45, 3.3])
def test_upsampling_by_a_factor_that_float32_rounds_down(factor: float, tmp_path: Path) -> None:
    x = np.arange(20 * 11, dtype=np.float32).reshape(1, 1, 20, 11)
    net = nn.input((1, 1, 20, 11)) | nn.upsample(scale_factor=factor) | nn.get_network()
    assert net.outputs[0].shape == (1, 1, int(20 * factor), int(11 * factor))
    net.save(tmp_path / "u.onnx")  # which onnx's checker looks at
    np.testing.assert_array_equal(neuralsym.load(tmp_path / "u.onnx")(x), net(x))
    rows = np.floor(np.arange(int(20 * factor)) * np.float32(1 / factor)).astype(int)
    np.testing.assert_array_equal(net(x)[0, 0, :, 0], x[0, 0, rows, 0])

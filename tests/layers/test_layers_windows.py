"""Windows of every rank, stride, dilation and padding, against sums written out in numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_values import close
from numpy.typing import NDArray

from neuralsym import BadAttribute, Network, ShapeMismatch
from neuralsym import layers as nn

Array = NDArray[Any]
Pairs = list[tuple[int, int]]


def same(sizes: Any, kernel: Any, strides: Any, dilations: Any, lower: bool = False) -> Pairs:
    """TensorFlow's rule: ceil(size / stride) results, an odd element after (before if lower)."""
    pads = []
    for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        pads.append((total - total // 2, total // 2) if lower else (total // 2, total - total // 2))
    return pads


def windows(x: Array, pads: Pairs, kernel: Any, strides: Any, dilations: Any, fill: float) -> Array:
    """[N, C, *places, *kernel]: what each window sees."""
    x = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    axes = tuple(range(2, x.ndim))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, axes)
    return seen[(..., *(slice(None, None, d) for d in dilations))][
        (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    ]


def convolved(
    x: Array, w: Array, pads: Pairs, strides: Any, dilations: Any, groups: int = 1
) -> Array:
    seen = windows(x, pads, w.shape[2:], strides, dilations, 0.0)
    rank = x.ndim - 2
    space, inner = "xyz"[:rank], "uvw"[:rank]
    parts = zip(np.split(seen, groups, 1), np.split(w, groups, 0), strict=True)
    rule = f"nc{space}{inner},oc{inner}->no{space}"
    return np.concatenate([np.einsum(rule, a, b) for a, b in parts], 1)


def single(x: Array) -> Array:
    """x as float64 whose values float32 holds, so that inputs are not rounded."""
    return x.astype(np.float32).astype(np.float64)


def kernel_of(network: Network) -> Array:
    (found,) = [n for n in network.weights if n.endswith("kernel")]
    return network.weights[found].astype(np.float64)


CONV = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}
TRANSPOSED = {1: nn.transpose_conv1d, 2: nn.transpose_conv2d, 3: nn.transpose_conv3d}
DEPTHWISE = {1: nn.depthwise_conv1d, 2: nn.depthwise_conv2d}
SEPARABLE = {1: nn.separable_conv1d, 2: nn.separable_conv2d}
MAX = {1: nn.max_pool1d, 2: nn.max_pool2d, 3: nn.max_pool3d}
AVG = {1: nn.avg_pool1d, 2: nn.avg_pool2d, 3: nn.avg_pool3d}
GLOBAL_MAX = {1: nn.global_max_pool1d, 2: nn.global_max_pool2d, 3: nn.global_max_pool3d}
GLOBAL_AVG = {1: nn.global_avg_pool1d, 2: nn.global_avg_pool2d, 3: nn.global_avg_pool3d}
SIZES = {1: (11,), 2: (7, 10), 3: (5, 6, 4)}


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[int, dict[str, Any], Any]:
    """(rank, settings of the layer, its pads where they are explicit)."""
    rank = draw(st.integers(1, 3))

    def each(high: int, low: int = 1) -> tuple[int, ...]:
        return draw(st.tuples(*[st.integers(low, high)] * rank))

    padding: Any = draw(st.sampled_from(["same", "same_lower", "valid", "number", "pairs"]))
    pads = None
    if padding == "number":
        padding = draw(st.integers(0, 2))
        pads = [(padding, padding)] * rank
    elif padding == "pairs":
        padding = [draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in range(rank)]
        pads = padding
    made = {
        "kernel_size": each(3),
        "strides": each(3),
        "dilation_rate": each(2) if draw(st.booleans()) else (1,) * rank,
        "padding": padding,
        "groups": draw(st.sampled_from([1, 2, 4])),
    }
    return rank, made, pads


@settings(max_examples=40)
@given(convolutions(), st.booleans())
def test_conv_as_written_out(case: tuple[int, dict[str, Any], Any], free: bool) -> None:
    rank, made, pads = case
    rng = np.random.default_rng(1)
    x = single(rng.standard_normal((2, 4, *SIZES[rank])))
    kernel, strides, gaps = made["kernel_size"], made["strides"], made["dilation_rate"]
    named = isinstance(made["padding"], str)
    if named and made["padding"] != "valid":
        pads = same(SIZES[rank], kernel, strides, gaps, made["padding"] == "same_lower")
    pads = pads or [(0, 0)] * rank
    # Where space is unknown, ONNX's auto_pad must place elements as our own pads do.
    shape = ("N", 4, *"HWD"[:rank]) if free and max(gaps) == 1 else ("N", *x.shape[1:])
    layer = CONV[rank](4, use_bias=False, **made)
    network = nn.input(shape) | layer | nn.get_network()
    close(network(x), convolved(x, kernel_of(network), pads, strides, gaps, groups=made["groups"]))


def test_causal_sees_the_past_only() -> None:
    x = single(np.random.default_rng(2).standard_normal((2, 3, 9)))
    network = (
        nn.input(("N", 3, 9))
        | nn.conv1d(4, 3, padding="causal", dilation_rate=2, use_bias=False)
        | nn.get_network()
    )
    close(network(x), convolved(x, kernel_of(network), [(4, 0)], [1], [2]))


@pytest.mark.parametrize("rank", [1, 2])
def test_depthwise_and_separable_of_each_rank(rank: int) -> None:
    x = single(np.random.default_rng(3).standard_normal((2, 3, *SIZES[rank])))
    kernel, strides = (3,) * rank, (2,) * rank
    pads = same(SIZES[rank], kernel, strides, (1,) * rank)
    begin = nn.input(("N", *x.shape[1:]))
    layer = DEPTHWISE[rank](kernel, strides, depth_multiplier=2, use_bias=False)
    network = begin | layer | nn.get_network()
    close(network(x), convolved(x, kernel_of(network), pads, strides, (1,) * rank, groups=3))
    network = begin | SEPARABLE[rank](5, kernel, strides, use_bias=False) | nn.get_network()
    first, second = (
        network.weights[f"separable_conv{rank}d/{n}_kernel"].astype(np.float64)
        for n in ("depthwise", "pointwise")
    )
    middle = convolved(x, first, pads, strides, (1,) * rank, groups=3)
    close(network(x), np.einsum("nc...,oc->no...", middle, second.reshape(5, 3)))


def scattered(x: Array, w: Array, strides: Any, gaps: Any, extra: Any, groups: int) -> Array:
    """Each input times the kernel, added where it lies in the unpadded result."""
    kernel = w.shape[2:]
    sizes = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(x.shape[2:], strides, kernel, gaps, extra, strict=True)
    ]
    y = np.zeros((len(x), w.shape[1] * groups, *sizes))
    parts = list(zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True))
    for place in itertools.product(*map(range, kernel)):
        added = np.concatenate(
            [np.einsum("nc...,co->no...", a, b[(..., *place)]) for a, b in parts], 1
        )
        target = tuple(
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, gaps, x.shape[2:], strides, strict=True)
        )
        y[(slice(None), slice(None), *target)] += added
    return y


@settings(max_examples=30)
@given(
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 2),
    st.sampled_from(["same", "same_lower", "valid", 0, 1]), st.sampled_from([1, 2]),
)  # fmt: skip
def test_transposed_conv_as_written_out(
    rank: int, k: int, s: int, d: int, padding: Any, groups: int
) -> None:
    x = single(np.random.default_rng(4).standard_normal((2, 4, *(3, 4, 2)[:rank])))
    reach = (k - 1) * d + 1
    if padding == 1 and reach < 3:
        return  # it would take more off than there is
    network = (
        nn.input(("N", *x.shape[1:]))
        | TRANSPOSED[rank](6, k, s, padding, dilation_rate=d, groups=groups, use_bias=False)
        | nn.get_network()
    )
    named = isinstance(padding, str)
    extra = max(s - reach, 0) if named else 0
    full = scattered(x, kernel_of(network), [s] * rank, [d] * rank, [extra] * rank, groups)
    total = max(reach - s, 0)
    before, after = {
        "same": (total // 2, total - total // 2),
        "same_lower": (total - total // 2, total // 2),
        "valid": (0, 0),
    }.get(padding, (padding, padding))
    cut = tuple(slice(before, n - after) for n in full.shape[2:])
    close(network(x), full[(slice(None), slice(None), *cut)])
    if padding in ("same", "same_lower"):
        assert network(x).shape[2:] == tuple(n * s for n in x.shape[2:])


@settings(max_examples=30)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from(["valid", "same", "same_lower"]),
    st.sampled_from(["max", "avg", "counted"]),
)
def test_pools_as_written_out(
    rank: int, size: int, strides: int | None, padding: Any, kind: str
) -> None:
    x = single(np.random.default_rng(5).standard_normal((2, 3, *SIZES[rank])))
    step = [strides or size] * rank
    kernel, gaps = [size] * rank, [1] * rank
    pads = [(0, 0)] * rank
    if padding != "valid":
        pads = same(SIZES[rank], kernel, step, gaps, padding == "same_lower")
    seen = windows(x, pads, kernel, step, gaps, 0.0 if kind == "counted" else np.nan)
    axes = tuple(range(-rank, 0))
    expected = np.nanmax(seen, axes) if kind == "max" else np.nanmean(seen, axes)
    layer = (
        MAX[rank](size, strides, padding)
        if kind == "max"
        else AVG[rank](size, strides, padding, count_include_pad=kind == "counted")
    )
    network = nn.input(("N", *x.shape[1:])) | layer | nn.get_network()
    close(network(x), expected)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_ceil_mode_adds_a_partial_window(rank: int) -> None:
    """Sizes of 5 by windows of 2: two whole ones and one that looks over the edge."""
    x = single(np.random.default_rng(6).standard_normal((2, 2, *(5,) * rank)))
    edge = np.pad(x, [(0, 0), (0, 0), *[(0, 1)] * rank], constant_values=np.nan)
    seen = windows(edge, [(0, 0)] * rank, [2] * rank, [2] * rank, [1] * rank, 0.0)
    axes = tuple(range(-rank, 0))
    begin = nn.input(("N", *x.shape[1:]))
    close((begin | MAX[rank](2, ceil_mode=True) | nn.get_network())(x), np.nanmax(seen, axes))
    close((begin | AVG[rank](2, ceil_mode=True) | nn.get_network())(x), np.nanmean(seen, axes))


def test_dilated_max_pool() -> None:
    x = single(np.random.default_rng(7).standard_normal((1, 2, 9, 8)))
    network = (
        nn.input(("N", 2, 9, 8)) | nn.max_pool2d(2, 1, dilation_rate=(2, 3)) | nn.get_network()
    )
    seen = windows(x, [(0, 0)] * 2, (2, 2), (1, 1), (2, 3), 0.0)
    close(network(x), seen.max((-1, -2)))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("keepdims", [False, True])
def test_global_pools_of_each_rank(rank: int, keepdims: bool) -> None:
    x = single(np.random.default_rng(8).standard_normal((2, 3, *SIZES[rank])))
    axes = tuple(range(2, rank + 2))
    begin = nn.input(("N", 3, *"HWD"[:rank]))
    largest = begin | GLOBAL_MAX[rank](keepdims) | nn.get_network()
    close(largest(x), x.max(axes, keepdims=keepdims))
    mean = begin | GLOBAL_AVG[rank](keepdims) | nn.get_network()
    close(mean(x), x.mean(axes, keepdims=keepdims))


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: nn.conv2d(4, (3, 3, 3)), BadAttribute, "2 of them"),
    (lambda: nn.conv2d(4, 0), BadAttribute, "at least 1"),
    (lambda: nn.conv2d(4, 3, strides=0), BadAttribute, "at least 1"),
    (lambda: nn.conv2d(0, 3), BadAttribute, "filters=0"),
    (lambda: nn.conv2d(4, 3, padding="causal"), BadAttribute, "one spatial axis"),
    (lambda: nn.conv2d(4, 3, padding=-1), BadAttribute, "negative"),
    (lambda: nn.conv2d(4, 3, padding=(1, 2, 3)), BadAttribute, "pairs"),
    (lambda: nn.transpose_conv2d(4, 3, 2, output_padding=2), BadAttribute, "below the stride"),
    (lambda: nn.max_pool1d(), ShapeMismatch, "rank 3"),
    (lambda: nn.cropping2d(5), ShapeMismatch, "leaves nothing"),
]


@pytest.mark.parametrize(("made", "kind", "words"), REFUSED)
def test_windows_that_cannot_be(made: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as raised:
        nn.input(("N", 4, 8, 8)) | made()
    assert "test_layers_windows.py:" in str(raised.value)

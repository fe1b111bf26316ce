"""Layers over space, activations and comparisons beside torch's: random settings and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from spatial_values import DRAWS, Array, Draw  # noqa: E402
from torch import nn as theirs  # noqa: E402
from torch.nn import functional  # noqa: E402

from neuralsym import Network  # noqa: E402
from neuralsym import layers as ours  # noqa: E402

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]


def agree(network: Network, module: Any, *xs: Array) -> None:
    """The same results, to 1e-5 of the largest; torch's weights are copied, by kind, in order."""
    if isinstance(module, theirs.Module):
        module.eval()
        for name, value in module.named_parameters():
            value.data.uniform_(-1, 1)
            last = {"weight": ("kernel", "alpha"), "bias": ("bias",)}[name]
            (own,) = [n for n in network.weights if n.rpartition("/")[2] in last]
            shape = network.weights.tensor(own).shape
            network.set_weight(own, value.detach().numpy().reshape(shape))
    with torch.no_grad():
        wanted = module(*map(torch.from_numpy, xs))
    wanted = [w.numpy() for w in (wanted if isinstance(wanted, tuple) else (wanted,))]
    feed = {port.name: x for port, x in zip(network.inputs, xs, strict=True)}
    got = list(network.run(feed).values())
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.shape == b.shape
        atol = 1e-5 * max(1e-3, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def network(layer: Any, *xs: Array) -> Network:
    symbols = [ours.input(("N", *x.shape[1:]), name=f"x{i}") for i, x in enumerate(xs)]
    made: Network = layer(symbols[0] if len(xs) == 1 else symbols) | ours.get_network()
    return made


Pair = tuple[Any, Any, tuple[Array, ...]]
PAIRS: dict[str, Callable[[Draw], Pair]] = {}


def pair(function: Callable[[Draw], Pair]) -> Callable[[Draw], Pair]:
    PAIRS[function.__name__] = function
    return function


def ranks(function: Callable[[Draw, int], Pair]) -> None:
    for rank in (1, 2, 3):
        PAIRS[f"{function.__name__}{rank}d"] = lambda d, rank=rank: function(d, rank)


def of(rank: int, name: str) -> Any:
    return getattr(ours, f"{name}{rank}d")


def module(rank: int, name: str) -> Any:
    return getattr(theirs, f"{name}{rank}d")


def sides(padding: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(p, p) for p in padding]


@ranks
def conv(d: Draw, rank: int) -> Pair:
    groups, mode = d.choice(1, 2), d.choice("zeros", "reflect", "replicate", "circular")
    kernel, gaps, bias = d.each(rank, 1, 3), d.each(rank, 1, 2), d.choice(True, False)
    padding: Any = d.choice("same", "valid", d.each(rank, 0, 2))
    strides = (1,) * rank if padding == "same" else d.each(rank, 1, 3)
    filters = groups * d.whole(1, 3)
    mine = of(rank, "conv")(
        filters, kernel, strides, padding if isinstance(padding, str) else sides(padding),
        dilation_rate=gaps, groups=groups, padding_mode=mode, use_bias=bias,
    )  # fmt: skip
    other = module(rank, "Conv")(
        2 * groups, filters, kernel, strides, padding, gaps, groups, bias, mode
    )
    return mine, other, (d.image(rank, 2 * groups),)


@ranks
def conv_transpose(d: Draw, rank: int) -> Pair:
    groups, kernel, strides = d.choice(1, 2), d.each(rank, 2, 4), d.each(rank, 1, 3)
    gaps, bias, filters = d.each(rank, 1, 2), d.choice(True, False), groups * d.whole(1, 3)
    padding = d.each(rank, 0, 1)
    extra = tuple(d.whole(0, max(s, g) - 1) for s, g in zip(strides, gaps, strict=True))
    mine = of(rank, "conv_transpose")(
        filters, kernel, strides, sides(padding),
        output_padding=extra, dilation_rate=gaps, groups=groups, use_bias=bias,
    )  # fmt: skip
    other = module(rank, "ConvTranspose")(
        2 * groups, filters, kernel, strides, padding, extra, groups, bias, gaps
    )
    return mine, other, (d.image(rank, 2 * groups, 2, 5),)


def pooling(d: Draw, rank: int) -> tuple[Any, Any, Any, bool]:
    kernel = d.each(rank, 2, 3)
    strides = d.choice(None, d.each(rank, 1, 3))
    padding = tuple(d.whole(0, k // 2) for k in kernel)
    return kernel, strides, padding, d.choice(True, False)


@ranks
def max_pool(d: Draw, rank: int) -> Pair:
    kernel, strides, padding, ceil = pooling(d, rank)
    gaps = d.each(rank, 1, 2)
    mine = of(rank, "max_pool")(kernel, strides, sides(padding), dilation_rate=gaps, ceil_mode=ceil)
    other = module(rank, "MaxPool")(kernel, strides, padding, gaps, False, ceil)
    return mine, other, (d.image(rank, 3),)


@ranks
def avg_pool(d: Draw, rank: int) -> Pair:
    kernel, strides, padding, ceil = pooling(d, rank)
    counted, divisor = d.choice(True, False), d.choice(None, 3, 7)
    more = {"divisor_override": divisor} if rank > 1 else {}
    mine = of(rank, "avg_pool")(
        kernel, strides, sides(padding), ceil_mode=ceil, count_include_pad=counted, **more
    )
    other = module(rank, "AvgPool")(kernel, strides, padding, ceil, counted, **more)
    return mine, other, (d.image(rank, 3),)


@ranks
def lp_pool(d: Draw, rank: int) -> Pair:
    kernel, strides, _, _ = pooling(d, rank)
    p = d.choice(1, 2, 3)
    if rank == 1:  # torch's LPPool1d takes numbers alone
        kernel, strides = kernel[0], strides and strides[0]
    mine = of(rank, "lp_pool")(kernel, strides, p=p)
    x = np.abs(d.image(rank, 3))  # of negative numbers torch takes the sign along
    return mine, module(rank, "LPPool")(p, kernel, strides), (x,)


@ranks
def adaptive_avg_pool(d: Draw, rank: int) -> Pair:
    size = tuple(d.choice(None, 1, 2, 3, 4, 7, 11) for _ in range(rank))
    size = size if rank > 1 else (d.whole(1, 11),)
    x = d.image(rank, 2)
    return of(rank, "adaptive_avg_pool")(size), module(rank, "AdaptiveAvgPool")(size), (x,)


@ranks
def adaptive_max_pool(d: Draw, rank: int) -> Pair:
    size = d.each(rank, 1, 11)
    x = d.image(rank, 2)
    return of(rank, "adaptive_max_pool")(size), module(rank, "AdaptiveMaxPool")(size), (x,)


@ranks
def max_unpool(d: Draw, rank: int) -> Pair:
    """There and back, sizes that do not divide included."""
    kernel, x = d.each(rank, 2, 3), d.image(rank, 2)
    size = x.shape[2:]

    def mine(x: Any) -> Any:
        y = x | getattr(ours, f"max_pool{rank}d_with_indices")(kernel)
        return y | of(rank, "max_unpool")(kernel, output_size=size)

    def other(x: Any) -> Any:
        y, places = module(rank, "MaxPool")(kernel, return_indices=True)(x)
        return module(rank, "MaxUnpool")(kernel)(y, places, output_size=size)

    return mine, other, (x,)


@ranks
def zero_pad(d: Draw, rank: int) -> Pair:
    padding = d.each(2 * rank, 0, 3)
    return of(rank, "zero_pad")(padding), module(rank, "ZeroPad")(padding), (d.image(rank, 2),)


@ranks
def constant_pad(d: Draw, rank: int) -> Pair:
    padding, value = d.each(2 * rank, 0, 3), d.real(-2, 2)
    mine = of(rank, "constant_pad")(padding, value)
    return mine, module(rank, "ConstantPad")(padding, value), (d.image(rank, 2),)


@ranks
def reflection_pad(d: Draw, rank: int) -> Pair:
    padding = d.each(2 * rank, 0, 3)
    mine = of(rank, "reflection_pad")(padding)
    return mine, module(rank, "ReflectionPad")(padding), (d.image(rank, 2),)


@ranks
def replication_pad(d: Draw, rank: int) -> Pair:
    padding = d.each(2 * rank, 0, 3)
    mine = of(rank, "replication_pad")(padding)
    return mine, module(rank, "ReplicationPad")(padding), (d.image(rank, 2),)


@ranks
def circular_pad(d: Draw, rank: int) -> Pair:
    padding = d.each(2 * rank, 0, 3)
    mine = of(rank, "circular_pad")(padding)
    return mine, module(rank, "CircularPad")(padding), (d.image(rank, 2),)


def wanted_size(d: Draw, rank: int) -> dict[str, Any]:
    if d.choice(True, False):
        return {"size": d.each(rank, 2, 13)}
    # Binary fractions: where 1 / 0.6 lies is a matter of rounding.
    return {"scale_factor": tuple(d.choice(0.5, 1.5, 2.0, 2.5) for _ in range(rank))}


@ranks
def upsample(d: Draw, rank: int) -> Pair:
    smooth = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[rank]
    mode = d.choice("nearest", "nearest-exact", *smooth)
    made = wanted_size(d, rank) | {"mode": mode}
    corners = {} if mode.startswith("near") else {"align_corners": d.choice(True, False)}
    x = d.image(rank, 2)
    return ours.upsample(**made, **corners), theirs.Upsample(**made, **corners), (x,)


@pair
def upsampling_nearest2d(d: Draw) -> Pair:
    size = wanted_size(d, 2)
    x = d.image(2, 2)
    return ours.upsampling_nearest2d(**size), theirs.UpsamplingNearest2d(**size), (x,)


@pair
def upsampling_bilinear2d(d: Draw) -> Pair:
    size = wanted_size(d, 2)
    x = d.image(2, 2)
    return ours.upsampling_bilinear2d(**size), theirs.UpsamplingBilinear2d(**size), (x,)


@pair
def resizing(d: Draw) -> Pair:
    """torch's bicubic without antialias has another coefficient."""
    how, smooth = d.choice(("bilinear", True), ("bilinear", False), ("bicubic", True))
    size = d.each(2, 3, 14)

    def other(x: Any) -> Any:
        return functional.interpolate(x, size, mode=how, antialias=smooth)

    return ours.resizing(*size, how, antialias=smooth), other, (d.image(2, 2),)


@pair
def pixel_shuffle(d: Draw) -> Pair:
    r = d.whole(1, 3)
    return ours.pixel_shuffle(r), theirs.PixelShuffle(r), (d.image(2, 2 * r * r),)


@pair
def pixel_unshuffle(d: Draw) -> Pair:
    r = d.whole(1, 3)
    x = d.array(2, 3, r * d.whole(1, 4), r * d.whole(1, 4))
    return ours.pixel_unshuffle(r), theirs.PixelUnshuffle(r), (x,)


@pair
def channel_shuffle(d: Draw) -> Pair:
    groups = d.whole(1, 4)
    x = d.image(2, groups * d.whole(1, 4))
    return ours.channel_shuffle(groups), theirs.ChannelShuffle(groups), (x,)


def patches(d: Draw) -> dict[str, Any]:
    sizes = {"kernel_size": d.each(2, 1, 3), "dilation": d.each(2, 1, 2)}
    return sizes | {"padding": d.each(2, 0, 2), "stride": d.each(2, 1, 3)}


@pair
def unfold(d: Draw) -> Pair:
    made = patches(d)
    return ours.unfold(**made), theirs.Unfold(**made), (d.image(2, 3),)


@pair
def fold(d: Draw) -> Pair:
    made, size = patches(d), d.each(2, 6, 9)
    x = theirs.Unfold(**made)(torch.zeros(2, 3, *size)).shape
    return ours.fold(size, **made), theirs.Fold(size, **made), (d.array(*x),)


@pair
def flatten(d: Draw) -> Pair:
    start = d.whole(1, 3)
    axes = start, d.whole(start, 3)
    return ours.flatten(*axes), theirs.Flatten(*axes), (d.array(2, 3, 4, 5),)


@pair
def unflatten(d: Draw) -> Pair:
    axis, sizes = d.whole(1, 2), d.choice((2, 3), (-1, 2), (3, 1, 2))
    return ours.unflatten(axis, sizes), theirs.Unflatten(axis, sizes), (d.array(2, 6, 6),)


@pair
def bilinear(d: Draw) -> Pair:
    a, b = d.array(3, 4, d.whole(1, 5)), d.array(3, 4, d.whole(1, 5))
    units, bias = d.whole(1, 4), d.choice(True, False)
    other = theirs.Bilinear(a.shape[-1], b.shape[-1], units, bias)
    return ours.bilinear(units, use_bias=bias), other, (a, b)


@pair
def cosine_similarity(d: Draw) -> Pair:
    axis, eps = d.whole(1, 2), d.choice(1e-8, 0.5)
    a, b = d.array(3, 4, 5), d.array(3, 4, 5)
    a[0] = 0
    return ours.cosine_similarity(axis, eps), theirs.CosineSimilarity(axis, eps), (a, b)


@pair
def pairwise_distance(d: Draw) -> Pair:
    p, eps, keep = d.choice(1.0, 2.0, 3.0, 0.5, float("inf")), d.real(0, 0.1), d.choice(True, False)
    xs = d.array(3, 4), d.array(3, 4)
    return ours.pairwise_distance(p, eps, keep), theirs.PairwiseDistance(p, eps, keep), xs


def activations(d: Draw) -> Iterator[tuple[Any, Any]]:
    """Each of torch's activations beside ours."""
    a, t = d.real(0.1, 2), d.real(-1, 1)
    yield ours.relu, theirs.ReLU()
    yield ours.relu6, theirs.ReLU6()
    yield ours.leaky_relu(a), theirs.LeakyReLU(a)
    yield ours.rrelu(0.1, a + 0.1), theirs.RReLU(0.1, a + 0.1)
    yield ours.prelu(shared_axes=(2, 3)), theirs.PReLU(4)
    yield ours.prelu(shared_axes=(1, 2, 3)), theirs.PReLU()
    yield ours.elu(a), theirs.ELU(a)
    yield ours.selu, theirs.SELU()
    yield ours.celu(a), theirs.CELU(a)
    yield ours.gelu, theirs.GELU()
    yield ours.gelu("tanh"), theirs.GELU("tanh")
    yield ours.sigmoid, theirs.Sigmoid()
    yield ours.hardsigmoid, theirs.Hardsigmoid()
    yield ours.logsigmoid, theirs.LogSigmoid()
    yield ours.silu, theirs.SiLU()
    yield ours.hardswish, theirs.Hardswish()
    yield ours.mish, theirs.Mish()
    yield ours.tanh, theirs.Tanh()
    yield ours.hardtanh(-a, a), theirs.Hardtanh(-a, a)
    yield ours.tanhshrink, theirs.Tanhshrink()
    yield ours.hardshrink(a), theirs.Hardshrink(a)
    yield ours.softshrink(a), theirs.Softshrink(a)
    yield ours.softsign, theirs.Softsign()
    yield ours.softplus, theirs.Softplus()
    yield ours.softplus(a, a), theirs.Softplus(a, a)
    yield ours.threshold(t, a), theirs.Threshold(t, a)
    yield ours.thresholded_relu(t), theirs.Threshold(t, 0.0)
    yield ours.softmax(1), theirs.Softmax(1)
    yield ours.softmax2d, theirs.Softmax2d()
    yield ours.softmin(2), theirs.Softmin(2)
    yield ours.log_softmax(3), theirs.LogSoftmax(3)
    yield ours.glu(1), theirs.GLU(1)
    yield ours.identity, theirs.Identity()
    yield ours.dropout(0.4), theirs.Dropout(0.4)
    yield ours.dropout2d(0.4), theirs.Dropout2d(0.4)
    yield ours.alpha_dropout(0.4), theirs.AlphaDropout(0.4)
    yield ours.feature_alpha_dropout(0.4), theirs.FeatureAlphaDropout(0.4)


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize("name", sorted(PAIRS))
def test_layer(name: str, seed: int) -> None:
    mine, other, xs = PAIRS[name](Draw(seed))
    agree(network(mine, *xs), other, *xs)


@pytest.mark.parametrize("index", range(len(list(activations(Draw(0))))))
def test_activation(index: int) -> None:
    for seed in range(3):
        d = Draw(100 * index + seed)
        mine, other = list(activations(d))[index]
        x = 3 * d.image(2, 4)

        def passed(x: Any, mine: Any = mine) -> Any:
            y = x | mine
            return y + 0.0 if y is x else y  # what emits nothing cannot be an output by itself

        agree(network(passed, x), other, x)


def test_indices_of_a_pool_count_through_the_whole_input() -> None:
    """torch's count within a channel; ours, ONNX's, are those plus where the channel begins."""
    d = Draw(1)
    x = d.image(2, 3)
    layer = ours.max_pool2d_with_indices(2)
    y, places = network(layer, x).run(x).values()
    wanted, within = theirs.MaxPool2d(2, return_indices=True)(torch.from_numpy(x))
    begin = np.arange(6).reshape(2, 3, 1, 1) * x[0, 0].size
    np.testing.assert_array_equal(places, within.numpy() + begin)
    np.testing.assert_array_equal(y, wanted.numpy())

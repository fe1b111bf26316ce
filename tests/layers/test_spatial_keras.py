"""Layers over space, shapes, joins and activations beside Keras's: random settings and weights.

Keras computes channels last, so that results are compared after a transpose. The backend is what
KERAS_BACKEND names, else torch where it is installed, else TensorFlow.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

if "KERAS_BACKEND" not in os.environ:
    has_torch = importlib.util.find_spec("torch") is not None
    os.environ["KERAS_BACKEND"] = "torch" if has_torch else "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for package in ("keras", os.environ["KERAS_BACKEND"]):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

import keras  # noqa: E402
from keras import layers as theirs  # noqa: E402
from spatial_values import DRAWS, Array, Draw  # noqa: E402

from neuralsym import Network  # noqa: E402
from neuralsym import layers as ours  # noqa: E402

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]

TORCH = keras.backend.backend() == "torch"


def last(x: Array) -> Array:
    return np.moveaxis(x, 1, -1)


def channels_first(x: Array) -> Array:
    return np.moveaxis(x, -1, 1)


def kernel_of(kind: str, w: Array) -> Array:
    """Keras's kernel [*window, in, out] as ours."""
    moved = np.moveaxis(w, (-1, -2), (0, 1))  # [out, in, *window]; of a transposed one [in, out]
    if kind == "depthwise":  # [*window, C, multiplier]
        moved = np.swapaxes(moved, 0, 1)
        moved = moved.reshape(-1, 1, *moved.shape[2:])
    return moved


def copy_weights(network: Network, layer: Any, rng: np.random.Generator) -> None:
    """Random weights, in Keras's layer and in ours."""
    drawn = [rng.uniform(-1, 1, w.shape).astype(np.float32) for w in layer.get_weights()]
    if not drawn:
        return
    layer.set_weights(drawn)
    for variable, value in zip(layer.weights, drawn, strict=True):
        name = variable.path.rpartition("/")[2]
        depthwise = "Depthwise" in type(layer).__name__ or name == "depthwise_kernel"
        converted = value
        if name.endswith("kernel"):
            converted = kernel_of("depthwise" if depthwise else "", value)
        (own,) = [n for n in network.weights if n.rpartition("/")[2] == name]
        if name == "alpha":
            converted = channels_first(value[None])[0] if value.ndim > 1 else value
        network.set_weight(own, converted)


def network(layer: Any, *xs: Array) -> Network:
    symbols = [ours.input(("N", *x.shape[1:]), x.dtype, name=f"x{i}") for i, x in enumerate(xs)]
    made: Network = layer(symbols[0] if len(xs) == 1 else symbols) | ours.get_network()
    return made


def agree(d: Draw, mine: Any, other: Any, *xs: Array, spatial: bool = True) -> None:
    """The same results, to 1e-5 of the largest. spatial: Keras has the channels last."""
    fed = [last(x) if spatial and x.ndim > 2 else x for x in xs]
    own = network(mine, *xs)
    if isinstance(other, theirs.Layer):
        other.build([f.shape for f in fed] if len(fed) > 1 else fed[0].shape)
        copy_weights(own, other, d.rng)
    wanted = keras.ops.convert_to_numpy(other(fed if len(fed) > 1 else fed[0]))
    if spatial and wanted.ndim > 2:
        wanted = channels_first(wanted)
    feed = {port.name: x for port, x in zip(own.inputs, xs, strict=True)}
    (got,) = own.run(feed).values()
    assert got.shape == wanted.shape
    scale = max(1e-3, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * scale)


Pair = tuple[Any, Any, tuple[Array, ...]]
SPATIAL: dict[str, Callable[[Draw], Pair]] = {}
FLAT: dict[str, Callable[[Draw], Pair]] = {}


def ranks(function: Callable[[Draw, int], Pair]) -> None:
    for rank in (1, 2, 3):
        SPATIAL[f"{function.__name__}{rank}d"] = lambda d, rank=rank: function(d, rank)


def plane(function: Callable[[Draw], Pair]) -> None:
    SPATIAL[function.__name__] = function


def flat(function: Callable[[Draw], Pair]) -> None:
    FLAT[function.__name__] = function


def of(rank: int, name: str) -> Any:
    return getattr(ours, f"{name}{rank}d")


def keras_of(rank: int, name: str) -> Any:
    return getattr(theirs, f"{name}{rank}D")


# -- convolutions ------------------------------------------------------------------------------
@ranks
def conv(d: Draw, rank: int) -> Pair:
    groups, strided = d.choice(1, 2), d.choice(True, False)
    names = ("same", "valid", "causal") if rank == 1 else ("same", "valid")
    made = {
        "filters": groups * d.whole(1, 3),
        "kernel_size": d.each(rank, 1, 3),
        "strides": d.each(rank, 1, 3) if strided else (1,) * rank,
        "padding": d.choice(*names),
        "dilation_rate": (1,) * rank if strided else d.each(rank, 1, 3),
        "groups": groups,
        "activation": d.choice(None, "tanh", "relu"),
        "use_bias": d.choice(True, False),
    }
    return of(rank, "conv")(**made), keras_of(rank, "Conv")(**made), (d.image(rank, 2 * groups, 7),)


@ranks
def conv_transpose(d: Draw, rank: int) -> Pair:
    stride, dilated = d.whole(1, 3), d.choice(1, 2)
    stride = 1 if dilated > 1 else stride
    kernel = d.whole(1, 4)
    made: dict[str, Any] = {
        "filters": d.whole(1, 3),
        "kernel_size": (kernel,) * rank,
        "strides": (stride,) * rank,
        "padding": d.choice("same", "valid"),
        "dilation_rate": (dilated,) * rank,
        "use_bias": d.choice(True, False),
    }
    if stride > 1 and d.choice(True, False):
        made["output_padding"] = (d.whole(0, stride - 1),) * rank
    mine = of(rank, "transpose_conv")(**made)
    return mine, getattr(theirs, f"Conv{rank}DTranspose")(**made), (d.image(rank, 2, 3, 5),)


def depthwise(d: Draw, rank: int) -> dict[str, Any]:
    strided = d.choice(True, False)
    return {
        "kernel_size": (d.whole(1, 3),) * rank,
        "strides": (d.whole(1, 3) if strided else 1,) * rank,
        "padding": d.choice("same", "valid"),
        "depth_multiplier": d.whole(1, 3),
        "dilation_rate": (1 if strided else d.whole(1, 2),) * rank,
        "use_bias": d.choice(True, False),
    }


def _flat_kernels(rank: int) -> None:
    def depthwise_conv(d: Draw) -> Pair:
        made = depthwise(d, rank)
        mine = of(rank, "depthwise_conv")(**made)
        return mine, keras_of(rank, "DepthwiseConv")(**made), (d.image(rank, 3),)

    def separable_conv(d: Draw) -> Pair:
        made = depthwise(d, rank) | {"filters": d.whole(1, 4)}
        mine = of(rank, "separable_conv")(**made)
        return mine, keras_of(rank, "SeparableConv")(**made), (d.image(rank, 3),)

    SPATIAL[f"depthwise_conv{rank}d"] = depthwise_conv
    SPATIAL[f"separable_conv{rank}d"] = separable_conv


_flat_kernels(1)
_flat_kernels(2)


# -- pools -------------------------------------------------------------------------------------
def pooling(d: Draw, rank: int) -> dict[str, Any]:
    return {
        "pool_size": d.each(rank, 1, 3),
        "strides": d.choice(None, d.each(rank, 1, 3)),
        "padding": d.choice("same", "valid"),
    }


@ranks
def max_pooling(d: Draw, rank: int) -> Pair:
    made, x = pooling(d, rank), d.image(rank, 2)
    return of(rank, "max_pooling")(**made), keras_of(rank, "MaxPooling")(**made), (x,)


@ranks
def average_pooling(d: Draw, rank: int) -> Pair:
    """The torch backend repeats the edge for "same"; the others leave the border out, as we do."""
    made, x = pooling(d, rank), d.image(rank, 2)
    made["padding"] = "valid" if TORCH else made["padding"]
    return of(rank, "average_pooling")(**made), keras_of(rank, "AveragePooling")(**made), (x,)


@ranks
def global_max_pooling(d: Draw, rank: int) -> Pair:
    keep, x = d.choice(True, False), d.image(rank, 2)
    other = keras_of(rank, "GlobalMaxPooling")(keepdims=keep)
    return of(rank, "global_max_pooling")(keep), other, (x,)


@ranks
def global_average_pooling(d: Draw, rank: int) -> Pair:
    keep, x = d.choice(True, False), d.image(rank, 2)
    other = keras_of(rank, "GlobalAveragePooling")(keepdims=keep)
    return of(rank, "global_average_pooling")(keep), other, (x,)


if TORCH and hasattr(theirs, "AdaptiveAveragePooling1D"):  # a wrong division ends TensorFlow

    @ranks
    def adaptive_average_pooling(d: Draw, rank: int) -> Pair:
        size, x = d.each(rank, 1, 9), d.image(rank, 2)
        other = keras_of(rank, "AdaptiveAveragePooling")(size if rank > 1 else size[0])
        return of(rank, "adaptive_average_pooling")(size), other, (x,)

    @ranks
    def adaptive_max_pooling(d: Draw, rank: int) -> Pair:
        size, x = d.each(rank, 1, 9), d.image(rank, 2)
        other = keras_of(rank, "AdaptiveMaxPooling")(size if rank > 1 else size[0])
        return of(rank, "adaptive_max_pooling")(size), other, (x,)


# -- borders and sizes -------------------------------------------------------------------------
@ranks
def zero_padding(d: Draw, rank: int) -> Pair:
    padding = d.choice(d.whole(0, 3), d.pairs(rank, 3))
    other = keras_of(rank, "ZeroPadding")(padding)
    return of(rank, "zero_padding")(padding), other, (d.image(rank, 2),)


@ranks
def cropping(d: Draw, rank: int) -> Pair:
    cut = d.choice(d.whole(0, 2), d.pairs(rank, 2))
    return of(rank, "cropping")(cut), keras_of(rank, "Cropping")(cut), (d.image(rank, 2),)


@plane
def center_crop(d: Draw) -> Pair:
    size = d.each(2, 2, 11)
    return ours.center_crop(*size), theirs.CenterCrop(*size), (d.image(2, 3),)


@ranks
def upsampling(d: Draw, rank: int) -> Pair:
    size = d.each(rank, 1, 3)
    other = keras_of(rank, "UpSampling")(size if rank > 1 else size[0])
    return of(rank, "upsampling")(size), other, (d.image(rank, 2),)


@plane
def upsampling_smoothly(d: Draw) -> Pair:
    """TensorFlow takes the weights of bicubic from a table, which is exact for a factor of 2."""
    how = "bilinear" if TORCH else d.choice("bilinear", "bicubic")
    size = d.each(2, 1, 2) if how == "bicubic" else d.each(2, 1, 3)
    other = theirs.UpSampling2D(size, interpolation=how)
    return ours.upsampling2d(size, how), other, (d.image(2, 2),)


@plane
def resizing(d: Draw) -> Pair:
    """Bicubic without antialias is torch's there, of another coefficient, and rough elsewhere."""
    how, smooth = d.choice("bilinear", "nearest", "bicubic"), d.choice(True, False)
    made = {
        "height": d.whole(2, 12),
        "width": d.whole(2, 12),
        "interpolation": how,
        "antialias": smooth or how == "bicubic",
    }
    ratio = d.choice(None, "crop_to_aspect_ratio", "pad_to_aspect_ratio")
    made |= {ratio: True} if ratio else {}
    if ratio == "pad_to_aspect_ratio":
        made["fill_value"] = d.real(0, 1)
    return ours.resizing(**made), theirs.Resizing(**made), (d.image(2, 3),)


@plane
def prelu(d: Draw) -> Pair:
    shared = d.choice(None, (2, 3), (3,), (2,))
    moved = {2: 1, 3: 2}
    other = theirs.PReLU(shared_axes=shared and [moved[a] for a in shared])
    return ours.prelu(shared_axes=shared), other, (d.image(2, 3),)


@plane
def rescaling(d: Draw) -> Pair:
    scale = d.choice(d.real(0.1, 2), [d.real(0.1, 2) for _ in range(3)])
    offset = d.real(-1, 1)
    return ours.rescaling(scale, offset), theirs.Rescaling(scale, offset), (d.image(2, 3),)


@plane
def normalization(d: Draw) -> Pair:
    mean, variance = ([d.real(0.1, 2) for _ in range(3)] for _ in range(2))
    invert = d.choice(True, False)
    other = theirs.Normalization(mean=mean, variance=variance, invert=invert)
    return ours.normalization(mean, variance, invert=invert), other, (d.image(2, 3),)


# -- without channels --------------------------------------------------------------------------
@flat
def flatten(d: Draw) -> Pair:
    return ours.flatten, theirs.Flatten(), (d.array(2, 3, 4, 5),)


@flat
def reshape(d: Draw) -> Pair:
    shape = d.choice((4, 3), (-1, 2), (2, 3, -1))
    return ours.reshape(shape), theirs.Reshape(shape), (d.array(2, 12),)


@flat
def permute(d: Draw) -> Pair:
    dims = tuple(int(n) + 1 for n in d.rng.permutation(3))
    return ours.permute(dims), theirs.Permute(dims), (d.array(2, 3, 4, 5),)


@flat
def repeat_vector(d: Draw) -> Pair:
    n = d.whole(1, 4)
    return ours.repeat_vector(n), theirs.RepeatVector(n), (d.array(2, 3),)


def joined(d: Draw, least: int, most: int) -> tuple[Array, ...]:
    """Two or more that broadcast, of one rank."""
    return tuple(d.array(2, *(d.choice(1, n) for n in (3, 4))) for _ in range(d.whole(least, most)))


for _name, _most in (("add", 3), ("subtract", 2), ("multiply", 3), ("average", 3)):
    FLAT[_name] = lambda d, n=_name, m=_most: (
        getattr(ours, n)(), getattr(theirs, n.capitalize())(), joined(d, 2, m)
    )  # fmt: skip
for _name in ("maximum", "minimum"):
    FLAT[_name] = lambda d, n=_name: (
        getattr(ours, n)(), getattr(theirs, n.capitalize())(), joined(d, 2, 3)
    )  # fmt: skip


@flat
def concatenate(d: Draw) -> Pair:
    xs = tuple(d.array(2, 3, d.whole(1, 4)) for _ in range(3))
    return ours.concatenate(axis=-1), theirs.Concatenate(), xs


@flat
def dot(d: Draw) -> Pair:
    k, normalize = d.whole(1, 5), d.choice(True, False)
    axes = d.choice((1, 1), (1, 2), (2, 1), (2, 2))
    xs = tuple(d.array(2, *((k, 3) if axis == 1 else (3, k))) for axis in axes)
    return ours.dot(axes, normalize), theirs.Dot(axes, normalize), xs


@flat
def category_encoding(d: Draw) -> Pair:
    mode = d.choice("one_hot", "multi_hot", "count")
    x = d.rng.integers(0, 5, (4,) if mode == "one_hot" else (4, 3))
    return ours.category_encoding(5, mode), theirs.CategoryEncoding(5, mode), (x,)


@flat
def discretization(d: Draw) -> Pair:
    edges = sorted(d.real(-1, 1) for _ in range(3))
    return ours.discretization(edges), theirs.Discretization(edges), (d.array(4, 3),)


def activations(d: Draw) -> Iterator[tuple[Any, Any]]:
    """Each of Keras's activations beside ours."""
    a = d.real(0.1, 2)
    named = keras.activations
    yield ours.relu(a, 0.1, 0.2), theirs.ReLU(a, 0.1, 0.2)
    yield ours.relu(threshold=a), theirs.ReLU(threshold=a)
    yield ours.leaky_relu(a), theirs.LeakyReLU(a)
    yield ours.leaky_relu, named.leaky_relu
    yield ours.elu(a), theirs.ELU(a)
    yield ours.softmax, theirs.Softmax()
    yield ours.gelu(True), lambda x: named.gelu(x, approximate=True)
    yield ours.celu(a), lambda x: named.celu(x, a)
    yield ours.hard_shrink(a), lambda x: named.hard_shrink(x, a)
    yield ours.soft_shrink(a), lambda x: named.soft_shrink(x, a)
    yield ours.threshold(a, 0.5), lambda x: named.threshold(x, a, 0.5)
    yield ours.squareplus(a), lambda x: named.squareplus(x, a)
    for name in (
        *("relu", "relu6", "selu", "celu", "gelu", "silu", "hard_silu", "sigmoid", "hard_sigmoid"),
        *("log_sigmoid", "tanh", "hard_tanh", "tanh_shrink", "softsign", "softplus", "softmax"),
        # Keras's sparsemax gives rows that do not sum to one, so it is not among these.
        *("log_softmax", "exponential", "mish", "hard_shrink", "soft_shrink", "glu"),
        *("squareplus", "sparse_plus", "sparse_sigmoid", "linear"),
    ):
        yield ours.activation(name), getattr(named, name)
    yield ours.dropout(0.3), theirs.Dropout(0.3)
    yield ours.alpha_dropout(0.3), theirs.AlphaDropout(0.3)
    yield ours.gaussian_noise(0.3), theirs.GaussianNoise(0.3)
    yield ours.gaussian_dropout(0.3), theirs.GaussianDropout(0.3)
    yield ours.activity_regularization(0.3), theirs.ActivityRegularization(0.3)
    yield ours.identity, theirs.Identity()


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize("name", sorted(SPATIAL))
def test_layer_over_space(name: str, seed: int) -> None:
    d = Draw(seed)
    mine, other, xs = SPATIAL[name](d)
    agree(d, _written(mine), other, *xs)


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize("name", sorted(FLAT))
def test_layer_without_channels(name: str, seed: int) -> None:
    d = Draw(seed)
    mine, other, xs = FLAT[name](d)
    agree(d, _written(mine), other, *xs, spatial=False)


@pytest.mark.parametrize("index", range(len(list(activations(Draw(0))))))
def test_activation(index: int) -> None:
    for seed in range(3):
        d = Draw(100 * index + seed)
        mine, other = list(activations(d))[index]
        agree(d, _written(mine), other, 3 * d.array(3, 4, 6), spatial=False)


def _written(layer: Any) -> Any:
    """What emits nothing cannot be an output by itself."""

    def passed(x: Any) -> Any:
        y = x | layer
        return y + 0.0 if y is x else y

    return passed

"""Where a step stands: learned, sinusoidal and rotary positions."""

from __future__ import annotations

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.attention_masks import positions
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer, plain_layer
from neuralsym.layers.initializers import fans
from neuralsym.layers.weights import Init, weight


@layer
def position_embedding(
    x: Symbol,
    max_length: int,
    *,
    embeddings_initializer: Init = "glorot_uniform",
    name: str | None = None,
) -> Symbol:
    """x [N, T, F] plus a learned vector for each place: weight embeddings [max_length, F].

    T may be smaller than max_length, and free (a longer input is an error when it is run).
    ShapeMismatch where it is known to be longer.

    torch Parameter, added; ONNX Slice or Gather, and Add.
    """
    if max_length < 1:
        raise BadAttribute(f"max_length={max_length}: must be at least 1")
    length, features = require_shape(x, rank=3, axis=2)[1:]
    shape = (max_length, features)
    init = embeddings_initializer
    table = weight("embeddings", shape, init, fans=fans(shape, "embedding"), dtype=x.dtype)
    if isinstance(length, int):
        if length > max_length:
            raise ShapeMismatch(f"{length} steps and max_length={max_length}: came {x.type}")
        return x + (table if length == max_length else ops.slice(table, [0], [length], [0]))
    return x + ops.gather(table, positions(x, 1), axis=0)


@plain_layer
def sinusoidal_positions(
    x: Symbol, max_wavelength: float = 10000.0, *, name: str | None = None
) -> Symbol:
    """x [N, T, F] plus sines and cosines of its places, without weights (arXiv 1706.03762).

    Feature 2i has sin(t / max_wavelength^(2i/F)), feature 2i+1 the cosine.

    ONNX Add of a constant, or Range, Mul, Add and Sin where T is free.
    """
    length, features = require_shape(x, rank=3, axis=2)[1:]
    rates = _rates(features, max_wavelength)
    if isinstance(length, int):
        angles = np.arange(length)[:, None] * rates
        even = np.arange(features) % 2 == 0
        return x + constant(np.where(even, np.sin(angles), np.cos(angles)), str(x.dtype))
    # a cosine is a sine a quarter of a turn ahead
    shift = np.where(np.arange(features) % 2 == 0, 0.0, np.pi / 2)
    steps = ops.unsqueeze(ops.cast(positions(x, 1), to=x.dtype), [1])
    angle = steps * constant(rates, str(x.dtype)) + constant(shift, str(x.dtype))
    return x + ops.sin(angle)


def _rates(features: int, max_wavelength: float) -> np.ndarray:
    if max_wavelength <= 0:
        raise BadAttribute(f"max_wavelength={max_wavelength}: must be positive")
    return float(max_wavelength) ** (-2.0 * (np.arange(features) // 2) / features)


@plain_layer
def rotary_embedding(
    x: Symbol,
    num_heads: int = 1,
    base: float = 10000.0,
    *,
    max_length: int = 2048,
    interleaved: bool = False,
    name: str | None = None,
) -> Symbol:
    """Pairs of features of each head turned by angles that grow with the place: [N, T, F] -> same.

    For queries and keys, before attention. A head of size d = F / num_heads has d/2 pairs, pair i
    turned by t / base^(2i/d): its features i and i + d/2, or 2i and 2i + 1 if interleaved. T up to
    max_length, or fixed. arXiv 2104.09864.

    ONNX RotaryEmbedding.
    """
    length, features = require_shape(x, rank=3, axis=2)[1:]
    if num_heads < 1 or features % (2 * num_heads):
        raise BadAttribute(f"num_heads={num_heads}: {features} features are no pairs of each head")
    if base <= 0 or max_length < 1:
        raise BadAttribute(f"base={base}, max_length={max_length}: must be positive")
    size = features // num_heads
    count = length if isinstance(length, int) else max_length
    angles = np.arange(count)[:, None] * float(base) ** (-2.0 * np.arange(size // 2) / size)
    places = ops.unsqueeze(positions(x, 1), [0])
    batch = require_shape(x)[0]
    if batch != 1:
        places = ops.expand(places, ops.shape(x, start=0, end=2))
    return ops.rotary_embedding(
        x,
        constant(np.cos(angles), str(x.dtype)),
        constant(np.sin(angles), str(x.dtype)),
        places,
        num_heads=num_heads,
        interleaved=int(interleaved),
    )

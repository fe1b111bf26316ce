"""What the vision transformers are built of: attention over rows of tokens, windows of them, MLPs.

Tokens are rows [batch, length, channels]. One affine map gives queries, keys and values side by
side, in this order, as torchvision and timm store them; heads lie side by side in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.layers import dense, gelu, initializers, layer, require_shape
from neuralsym.layers.weights import Init

NARROW = initializers.truncated_normal(0.0, 0.02)
Index = NDArray[np.int64]


def heads_of(qkv: Symbol, heads: int) -> tuple[Symbol, Symbol, Symbol]:
    """Queries, keys and values [N, L, heads, D / heads] of rows [N, L, 3 * D]."""
    size = require_shape(qkv, 3, axis=-1)[-1] // 3 // heads
    parts = ops.split(qkv, num_outputs=3, axis=-1)
    q, k, v = (ops.reshape(part, [0, 0, heads, size]) for part in parts)
    return q, k, v


def attend(
    q: Symbol, k: Symbol, v: Symbol, scale: float | None = None, bias: Symbol | None = None
) -> Symbol:
    """softmax(scale * q @ k' + bias) @ v for each head, as rows [N, L, D].

    q, k, v: [N, L, heads, D / heads]; bias: broadcasts to the scores, [N, heads, L, L].
    """
    _, _, heads, size = require_shape(v, 4, axis=-1)
    q, k, v = (ops.transpose(s, perm=(0, 2, 1, 3)) for s in (q, k, v))
    scores = q @ ops.transpose(k, perm=(0, 1, 3, 2))
    if scale is not None:
        scores = scores * scale
    if bias is not None:
        scores = scores + bias
    mixed = ops.transpose(ops.softmax(scores, axis=-1) @ v, perm=(0, 2, 1, 3))
    return ops.reshape(mixed, [0, 0, heads * size])


@layer
def self_attention(
    x: Symbol, heads: int, kernel_initializer: Init = "xavier_uniform", name: str | None = None
) -> Symbol:
    """Attention of tokens [N, L, D] to each other, scores over the root of a head's size."""
    width = require_shape(x, 3, axis=-1)[-1]
    qkv = x | dense(3 * width, kernel_initializer=kernel_initializer, name="qkv")
    q, k, v = heads_of(qkv, heads)
    y = attend(q, k, v, (width // heads) ** -0.5)
    return y | dense(width, kernel_initializer=kernel_initializer, name="proj")


@layer
def mlp(
    x: Symbol, hidden: int, kernel_initializer: Init = "xavier_uniform", name: str | None = None
) -> Symbol:
    """Two affine maps of each token with GELU between them."""
    width = require_shape(x, axis=-1)[-1]
    y = x | dense(hidden, kernel_initializer=kernel_initializer, name="fc1") | gelu
    return y | dense(width, kernel_initializer=kernel_initializer, name="fc2")


# -- maps and windows ----------------------------------------------------------------------------
def tokens_of(x: Symbol) -> Symbol:
    """A map [N, C, H, W] as tokens [N, H * W, C]."""
    _, channels, height, width = require_shape(x, 4, axis=1)
    rows = ops.reshape(x, [0, channels, height * width])
    return ops.transpose(rows, perm=(0, 2, 1))


def map_of(tokens: Symbol, size: Sequence[int]) -> Symbol:
    """Tokens [N, H * W, C] as a map [N, C, H, W]."""
    channels = require_shape(tokens, 3, axis=-1)[-1]
    return ops.reshape(ops.transpose(tokens, perm=(0, 2, 1)), [0, channels, *size])


def pick(tokens: Symbol, places: Index) -> Symbol:
    """The tokens [N, places.size, C] at these places of [N, L, C]; place L is a token of zeros."""
    if places.max() >= require_shape(tokens, 3, axis=1)[1]:
        tokens = ops.pad(tokens, [0, 0, 0, 0, 1, 0])
    return ops.gather(tokens, places.reshape(-1), axis=1)


def cut(tokens: Symbol, windows: Index) -> Symbol:
    """Each window as an entry of its own, [N * number, size, C]; windows [number, size]: places."""
    channels = require_shape(tokens, 3, axis=-1)[-1]
    return ops.reshape(pick(tokens, windows), [-1, windows.shape[1], channels])


def paste(pieces: Symbol, windows: Index, length: int) -> Symbol:
    """What `cut` gave, back in its places: [N, length, C]; tokens of zeros are dropped."""
    channels = require_shape(pieces, 3, axis=-1)[-1]
    rows = ops.reshape(pieces, [-1, windows.size, channels])
    return ops.gather(rows, np.argsort(windows.reshape(-1), kind="stable")[:length], axis=1)


def tiles(table: Index, height: int, width: int) -> Index:
    """A table [rows * height, columns * width] in tiles [rows * columns, height * width]."""
    rows, columns = table.shape[0] // height, table.shape[1] // width
    cells = table.reshape(rows, height, columns, width).swapaxes(1, 2)
    return cells.reshape(rows * columns, height * width)


def relative_bias(table: Symbol, size: int) -> Symbol:
    """[heads, size^2, size^2]: for each pair of a window's tokens a row of the table.

    table: [(2 * size - 1)^2, heads], a row for each way that the first may lie from the second.
    """
    y, x = (a.reshape(-1) for a in np.indices((size, size)))
    down, right = y[:, None] - y, x[:, None] - x
    rows = (down + size - 1) * (2 * size - 1) + right + size - 1
    return ops.transpose(ops.gather(table, rows, axis=0), perm=(2, 0, 1))

"""ViT: An Image is Worth 16x16 Words (Dosovitskiy et al. 2020, arXiv 2010.11929), table 1.

The number after the letter is the size of a patch. As torchvision has them: normalisation before
each part, a class token, learned positions, whose table makes the weights depend on `size`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import ShapeMismatch
from neuralsym.layers import (
    conv2d,
    fully_connected,
    layer,
    layer_norm,
    require_shape,
    scope,
    weight,
)
from neuralsym.network import Network
from neuralsym.zoo.registry import Family, Options, assemble
from neuralsym.zoo.transformer import NARROW, mlp, self_attention, tokens_of

EPSILON = 1e-6


@dataclass(frozen=True)
class Config:
    """Table 1: layers, widths of a token and inside an MLP, heads; the side of a patch."""

    layers: int
    width: int
    hidden: int
    heads: int
    patch: int


base = partial(Config, 12, 768, 3072, 12)
large = partial(Config, 24, 1024, 4096, 16)
huge = partial(Config, 32, 1280, 5120, 16)


@layer
def patches(x: Symbol, patch: int, width: int, name: str | None = None) -> Symbol:
    """A picture [N, 3, H, W] cut into patches, each mapped to a token: [N, tokens, width]."""
    height, across = require_shape(x, 4)[2:]
    if height % patch or across % patch:
        raise ShapeMismatch(f"{height}x{across} is not made of whole patches of {patch}x{patch}")
    return x | conv2d(width, patch, patch, "valid", kernel_initializer="lecun_normal") | tokens_of


@layer
def embedded(x: Symbol, name: str | None = None) -> Symbol:
    """The class token before all others, and what each place adds to its token."""
    _, length, width = require_shape(x, 3, axis=-1)
    token = weight("class_token", (1, 1, width), "zeros")
    position = weight("position", (1, length + 1, width), NARROW)
    # A row of zeros before each entry, to which one table adds the token: no batch is written down.
    return ops.pad(x, [0, 1, 0, 0, 0, 0]) + (ops.pad(token, [0, 0, 0, 0, length, 0]) + position)


@layer
def encoder_block(x: Symbol, heads: int, hidden: int, name: str | None = None) -> Symbol:
    """Attention, then an MLP, each behind a normalisation and around it a skip."""
    x = x + (x | layer_norm(epsilon=EPSILON, name="norm1") | self_attention(heads, name="attn"))
    return x + (x | layer_norm(epsilon=EPSILON, name="norm2") | mlp(hidden, name="mlp"))


def vit(name: str, config: Config, options: Options) -> Network:
    """Patches, the encoder, and one affine map of the class token; features are all tokens."""

    def features(x: Symbol) -> Symbol:
        x = x | patches(config.patch, config.width, name="patches") | embedded(name="embedding")
        with scope("encoder"):
            for i in range(config.layers):
                x = x | encoder_block(config.heads, config.hidden, name=f"block{i + 1}")
        return x | layer_norm(epsilon=EPSILON, name="norm")

    def head(x: Symbol, classes: int) -> Symbol:
        first = ops.gather(x, 0, axis=1)
        return first | fully_connected(classes, name="head")

    return assemble(name, features, head, **options)


family = Family(vit, "arXiv 2010.11929")
vit_b_16 = family("vit_b_16", "ViT-Base", base(16), "81.072 / 95.318")
vit_b_32 = family("vit_b_32", "ViT-Base", base(32), "75.912 / 92.466")
vit_l_16 = family("vit_l_16", "ViT-Large", large(16), "79.662 / 94.638", resize=242)
vit_l_32 = family("vit_l_32", "ViT-Large", large(32), "76.972 / 93.07")
# The weights for size=518 have 88.552 / 98.694.
vit_h_14 = family(
    "vit_h_14", "ViT-Huge", huge(14), "85.708 / 97.73", resize=224, interpolation="bicubic"
)

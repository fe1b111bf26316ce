"""Swin of both versions: torchvision numbers the stages and the mergings between them."""

import numpy as np

from neuralsym.weights.names import Array, Scheme, Source, paths


def _biases(queries: Array, values: Array) -> Array:
    """The biases of queries and values, between them those that keys do not have."""
    return np.concatenate([queries, np.zeros_like(queries), values])


_BLOCK = "features.{2*s-1}.{b-1}"
TORCHVISION = paths(
    "torch",
    {
        "patches/conv2d": "features.0.0",
        "patches/norm": "features.0.2",
        "stage{s}/merging/{part:.+}": "features.{2*s-2}.{part}",
        "stage{s}/block{b}/attn/relative_position_bias": (
            f"{_BLOCK}.attn.relative_position_bias_table"
        ),
        "stage{s}/block{b}/attn/qkv_bias": f"{_BLOCK}.attn.qkv.bias",
        "stage{s}/block{b}/attn/distance/fc{k}": f"{_BLOCK}.attn.cpb_mlp.{{2*k-2}}",
        "stage{s}/block{b}/mlp/fc{k}": f"{_BLOCK}.mlp.{{3*k-3}}",
        "stage{s}/block{b}/{part:.+}": f"{_BLOCK}.{{part}}",
        "norm": "norm",
        "head": "head",
    },
)
_LAYER = "layers.{s-1}.blocks.{b-1}"
TIMM = paths(
    "torch",
    {
        "patches/conv2d": "patch_embed.proj",
        "patches/norm": "patch_embed.norm",
        "stage{s}/merging/{part:.+}": "layers.{s-1}.downsample.{part}",
        "stage{s}/block{b}/attn/relative_position_bias": (
            f"{_LAYER}.attn.relative_position_bias_table"
        ),
        "stage{s}/block{b}/attn/qkv_bias": Source(
            (f"{_LAYER}.attn.q_bias", f"{_LAYER}.attn.v_bias"), _biases
        ),
        "stage{s}/block{b}/attn/distance/fc{k}": f"{_LAYER}.attn.cpb_mlp.{{2*k-2}}",
        "stage{s}/block{b}/{part:.+}": f"{_LAYER}.{{part}}",
        "norm": "norm",
        "head": "head.fc",
    },
)
_TABLES = ("*.relative_position_index", "*.relative_coords_table", "*.attn_mask")
SCHEMES = (
    Scheme("torchvision", "swin_*", TORCHVISION, _TABLES),
    Scheme("timm", "swin_*", TIMM, _TABLES),
)

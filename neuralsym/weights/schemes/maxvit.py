"""MaxViT: torchvision keeps the parts of a layer in sequences."""

from neuralsym.weights.names import Parts, Scheme, paths

_LAYER = "blocks.{b-1}.layers.{l-1}.layers"
_ATTENTION = {
    "norm1": "attn_layer.0",
    "attn/qkv": "attn_layer.1.to_qkv",
    "attn/proj": "attn_layer.1.merge",
    "norm2": "mlp_layer.0",
    "mlp/fc1": "mlp_layer.1",
    "mlp/fc2": "mlp_layer.3",
}
_CONVOLUTION = {
    "proj": "proj.1",
    "pre_norm": "layers.pre_norm",
    "conv_a/conv2d": "layers.conv_a.0",
    "conv_a/normalisation": "layers.conv_a.1",
    "conv_b/depthwise_conv2d": "layers.conv_b.0",
    "conv_b/normalisation": "layers.conv_b.1",
    "squeeze_excitation/reduce": "layers.squeeze_excitation.fc1",
    "squeeze_excitation/expand": "layers.squeeze_excitation.fc2",
    "conv_c": "layers.conv_c",
}


def _part(p: Parts) -> str | None:
    kind, part = str(p["kind"]), str(p["part"])
    if kind == "conv":
        found, module = _CONVOLUTION.get(part), "MBconv"
    else:
        found, module = _ATTENTION.get(part), f"{kind}_attention"
    return found and f"{_LAYER}.{module}.{found}"


TORCHVISION = paths(
    "torch",
    {
        "stem/conv1/conv2d": "stem.0.0",
        "stem/conv1/normalisation": "stem.0.1",
        "stem/conv2": "stem.1.0",
        "block{b}/layer{l}/{kind:window|grid}/attn/relative_position_bias": (
            f"{_LAYER}.{{kind}}_attention.attn_layer.1.relative_position_bias_table"
        ),
        "block{b}/layer{l}/{kind:conv|window|grid}/{part:.+}": _part,
        "norm": "classifier.2",
        "pre_logits": "classifier.3",
        "head": "classifier.5",
    },
)
SCHEMES = (Scheme("torchvision", "maxvit_*", TORCHVISION, ("*.relative_position_index",)),)

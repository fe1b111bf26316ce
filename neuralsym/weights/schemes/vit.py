"""ViT: torchvision's names, those of its files from before MLPs were sequences, and timm's."""

from neuralsym.weights.names import KeyFunction, Scheme, paths


def _torchvision(first: str, second: str) -> KeyFunction:
    block = "encoder.layers.encoder_layer_{b-1}."
    return paths(
        "torch",
        {
            "patches/conv2d": "conv_proj",
            "embedding/class_token": "class_token",
            "embedding/position": "encoder.pos_embedding",
            "encoder/block{b}/norm{n}": block + "ln_{n}",
            "encoder/block{b}/attn/qkv": block + "self_attention.in_proj_{param}",
            "encoder/block{b}/attn/proj": block + "self_attention.out_proj",
            "encoder/block{b}/mlp/fc1": block + "mlp." + first,
            "encoder/block{b}/mlp/fc2": block + "mlp." + second,
            "norm": "encoder.ln",
            "head": "heads.head",
        },
    )


TIMM = paths(
    "torch",
    {
        "patches/conv2d": "patch_embed.proj",
        "embedding/class_token": "cls_token",
        "embedding/position": "pos_embed",
        "encoder/block{b}/{part:.+}": "blocks.{b-1}.{part}",
        "norm": "norm",
        "head": "head",
    },
)
SCHEMES = (
    Scheme("torchvision", "vit_*", _torchvision("0", "3")),
    Scheme("torchvision", "vit_*", _torchvision("linear_1", "linear_2")),
    Scheme("timm", "vit_*", TIMM),
)

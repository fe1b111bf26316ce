"""Inception-ResNet-v2: Keras numbers the convolutions that have batch norms, in graph order."""

from neuralsym.weights.names import Keys, Scheme, Shapes, layers_of, paths


def keras(architecture: str, shapes: Shapes) -> Keys:
    """The n-th convolution and the n-th batch norm but the last; those without one have names."""
    templates = {
        "block{size}_{i}/up": "block{size}_{i}_conv",
        "conv_7b/conv_bn/conv2d": "conv_7b",
        "conv_7b/conv_bn/normalisation": "conv_7b_bn",
        "fc": "predictions",
    }
    kinds = {"conv2d": "conv2d", "normalisation": "batch_normalization"}
    counts = dict.fromkeys(kinds, 0)
    for layer in layers_of(shapes):
        kind = layer.rpartition("/")[2]
        if kind in kinds and not layer.startswith("conv_7b"):
            templates[layer] = kinds[kind] + (f"_{counts[kind]}" if counts[kind] else "")
            counts[kind] += 1
    return paths("keras", templates)(architecture, shapes)


SCHEMES = (Scheme("keras", "inception_resnet_v2", keras),)

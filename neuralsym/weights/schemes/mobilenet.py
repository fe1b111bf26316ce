"""MobileNet: Keras numbers its pairs of convolutions."""

from neuralsym.weights.names import Scheme, paths

KERAS = paths(
    "keras",
    {
        "stem/conv2d": "conv1",
        "stem/normalisation": "conv1_bn",
        "block{i}/depthwise/depthwise_conv2d": "conv_dw_{i}",
        "block{i}/depthwise/normalisation": "conv_dw_{i}_bn",
        "block{i}/pointwise/conv2d": "conv_pw_{i}",
        "block{i}/pointwise/normalisation": "conv_pw_{i}_bn",
        "fc": "conv_preds",
    },
)
SCHEMES = (Scheme("keras", ("mobilenet", "mobilenet_0*"), KERAS),)

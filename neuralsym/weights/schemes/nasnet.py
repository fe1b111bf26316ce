"""NASNet-A: Keras puts the cell behind the name of the layer."""

from neuralsym.weights.names import Scheme, paths

CELL = "{cell:normal|reduction}_{id:[^/]+}"
KERAS = paths(
    "keras",
    {
        "stem/conv2d": "stem_conv1",
        "stem/normalisation": "stem_bn1",
        f"{CELL}/adjust/conv{{i}}": "adjust_conv_{i}_{id}",
        f"{CELL}/adjust/norm": "adjust_bn_{id}",
        f"{CELL}/adjust/projection/conv2d": "adjust_conv_projection_{id}",
        f"{CELL}/adjust/projection/normalisation": "adjust_bn_{id}",
        f"{CELL}/conv/conv2d": "{cell}_conv_1_{id}",
        f"{CELL}/conv/normalisation": "{cell}_bn_1_{id}",
        f"{CELL}/{{side:left|right}}{{n}}/conv{{i}}": "separable_conv_{i}_{cell}_{side}{n}_{id}",
        f"{CELL}/{{side:left|right}}{{n}}/norm{{i}}": "separable_conv_{i}_bn_{cell}_{side}{n}_{id}",
        "fc": "predictions",
    },
)
SCHEMES = (Scheme("keras", ("nasnet_mobile", "nasnet_large"), KERAS),)

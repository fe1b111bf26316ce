"""For each operator of ONNX and each of its versions, a model of one node with inputs to run it.

`case_of(domain, name, version)` is such a model in the opset of that version. Written by hand
from the schemas.
"""

from __future__ import annotations

import numpy as np
from one_node import (
    BITS,
    BOOLS,
    IMAGE,
    NORM,
    OTHER,
    Case,
    F,
    I,
    One,
    P,
    X,
    floats,
    ints,
    model_of,
    texts,
)
from onnx import TensorProto, helper
from operator_makers import (
    Array,
    Maker,
    attention,
    average_pool,
    batch_norm,
    binary,
    clip,
    constant,
    consuming,
    dequantize,
    dft,
    dropout,
    from_text,
    gradient,
    grid_sample,
    group_norm,
    if_model,
    label_encoder,
    loop_model,
    lp_pool,
    max_pool,
    optional,
    pad,
    quantize,
    recurrent,
    reduced,
    resize,
    scan_model,
    sequences,
    slices,
    split,
    squeezed,
    step,
    top,
    tree_classifier,
    tree_ensemble,
    tree_regressor,
    unary,
    unsqueezed,
    upsample,
    variadic,
    with_map,
)


def case_of(domain: str, name: str, version: int) -> Case:
    """The case of an operator in its version of that number."""
    made = {"": OWN, "ai.onnx.ml": CLASSIC}.get(domain, PREVIEW)[name](version)
    if isinstance(made, Case):
        return made
    feed = {f"x{i}": a for i, a in enumerate(made.inputs) if a is not None and i not in made.stored}
    return Case(model_of(name, version, made, domain), feed)


# -- the operators -----------------------------------------------------------------------------
_FLOATS = [
    *("Abs", "Ceil", "Exp", "Floor", "LeakyRelu", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid"),
    *("Tanh", "Elu", "HardSigmoid"),
]
_PLAIN = [
    *("Atan", "Asinh", "Celu", "Cos", "Cosh", "Erf", "Gelu", "HardSwish", "Identity", "IsInf"),
    *("IsNaN", "Mish", "Round", "Shrink", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Swish"),
    *("Tan", "ThresholdedRelu", "NonZero"),
    *("LpNormalization", "Size", "Transpose"),
]
_KINDS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare"]
_W = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}

OWN: dict[str, Maker] = {
    **{name: consuming() for name in _FLOATS},
    **{name: unary() for name in _PLAIN},
    **{name: consuming(P) for name in ("Log", "Sqrt")},
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), unary(IMAGE)),
    **{name: binary() for name in ("Add", "Div", "Mul", "Sub", "Greater", "Less")},
    **{name: binary(BOOLS, OTHER) for name in ("And", "Or", "Xor")},
    **{f"Bitwise{n}": lambda v: One([BITS, BITS.T.copy()]) for n in ("And", "Or", "Xor")},
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), lambda v: One([X, P[0]])),
    **dict.fromkeys(("Max", "Min", "Mean", "Sum"), variadic),
    **{f"Reduce{name}": reduced(18, P) for name in _KINDS},
    **{f"{n}Window": lambda v: One([np.array(5, I)]) for n in ("Blackman", "Hamming", "Hann")},
    **dict.fromkeys(
        ("Hardmax", "LogSoftmax", "Softmax"), lambda v: One([X], {"axis": 1} if v < 13 else {})
    ),
    **dict.fromkeys(("ArgMax", "ArgMin"), lambda v: One([X], {"axis": 1 if v < 11 else -2})),
    "Acos": unary(np.clip(X, -1, 1)),
    "Acosh": unary(P + 1),
    "AffineGrid": lambda v: One([floats(1, 2, 3), ints(1, 2, 2, 3)], {}, 1, [1]),
    "Asin": unary(np.clip(X, -1, 1)),
    "Atanh": unary(np.tanh(X)),
    "Attention": attention,
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Bernoulli": unary(np.round(np.clip(P, 0, 1))),
    "BitCast": unary(X, to=TensorProto.INT32),
    "BitShift": lambda v: One([BITS, BITS % 3], {"direction": "LEFT"}),
    "BitwiseNot": unary(BITS),
    "Cast": lambda v: One([X], {"to": "INT32" if v < 6 else TensorProto.INT32}),
    "CastLike": lambda v: One([X, ints(1)]),
    "CausalConvWithState": lambda v: One([floats(1, 2, 5), floats(2, 1, 3)], {}, 2),
    "CenterCropPad": lambda v: One([X, ints(3, 2)], {"axes": [0, 2]}, 1, [1]),
    "Clip": clip,
    "Col2Im": lambda v: One([floats(1, 4, 4), ints(3, 3), ints(2, 2)], {}, 1, [1, 2]),
    "Compress": lambda v: One([X, np.array([False, True, True])], {"axis": 1 if v < 11 else -2}),
    "Concat": lambda v: One([X, X], {} if v < 4 else {"axis": 2 if v < 11 else -1}),
    "ConcatFromSequence": sequences(
        "s = SequenceConstruct (a, b) y = ConcatFromSequence <axis = 0> (s)", "float[k]"
    ),
    "Constant": constant,
    "ConstantOfShape": lambda v: One(
        [ints(2, 3)], {"value": helper.make_tensor("", TensorProto.INT32, [1], [7])}, 1, [0]
    ),
    "Conv": lambda v: One([IMAGE, floats(3, 2, 3, 3), floats(3)], {**_W, "strides": [2, 1]}),
    "ConvInteger": lambda v: One(
        [
            np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4),
            np.arange(4, dtype=np.uint8).reshape(1, 1, 2, 2),
            np.array(3, np.uint8),
        ]
    ),
    "ConvTranspose": lambda v: One([IMAGE, floats(2, 3, 3, 3)], {"auto_pad": "SAME_UPPER"}),
    "CumProd": lambda v: One([X, np.array(1, I)]),
    "CumSum": lambda v: One([X, np.array(1, I)], {"reverse": 1}),
    "DFT": dft,
    "DeformConv": lambda v: One(
        [floats(1, 1, 3, 3), floats(1, 1, 2, 2), floats(1, 8, 2, 2)], {"kernel_shape": [2, 2]}
    ),
    "DepthToSpace": lambda v: One(
        [floats(1, 4, 2, 2)], {"blocksize": 2, **({"mode": "CRD"} if v >= 11 else {})}
    ),
    "DequantizeLinear": dequantize,
    "Det": unary(floats(2, 3, 3)),
    "Dropout": dropout,
    "DynamicQuantizeLinear": lambda v: One([X], {}, 3),
    "Einsum": lambda v: One([floats(2, 3), floats(3, 4)], {"equation": "ij,jk->ki"}),
    "Equal": lambda v: One(
        [np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3) % 4]
        if v >= 7
        else [np.arange(6).reshape(2, 3), ints(0, 3)],
        {} if v >= 7 else {"broadcast": 1, "axis": 0},
    ),
    "Expand": lambda v: One([X[:, :1], ints(3, 1)], {}, 1, [1]),
    "EyeLike": unary(floats(3, 4), k=1),
    "Flatten": lambda v: One([X], {"axis": 2 if v < 11 else -1}),
    "GRU": recurrent(3, "GRU"),
    "Gather": lambda v: One([X, ints(1, 0 if v < 11 else -1)], {"axis": 1}),
    "GatherElements": lambda v: One([X, ints(*[1, -1, 0, 2] * 2).reshape(2, 1, 4)], {"axis": 1}),
    "GatherND": lambda v: One(
        [X, ints(0, 1, 1, -1).reshape(2, 2)] if v < 12 else [X, ints(1, -1).reshape(2, 1)],
        {} if v < 12 else {"batch_dims": 1},
    ),
    "Gemm": lambda v: One(
        [floats(2, 3), floats(4, 3), floats(4)],
        {"transB": 1, "alpha": 0.5, **({"broadcast": 1} if v < 7 else {})},
    ),
    "GlobalLpPool": lambda v: One([IMAGE], {"p": 3.0 if v < 2 else 3}),
    "GridSample": grid_sample,
    "GroupNormalization": group_norm,
    "If": if_model,
    "ImageDecoder": lambda v: One([_picture()], {"pixel_format": "RGB"}),
    "InstanceNormalization": lambda v: One(
        [X, *NORM[:2]], {"consumed_inputs": [0, 0, 0]} if v < 6 else {}
    ),
    "LRN": unary(IMAGE[..., :3], size=3),
    "LSTM": recurrent(4, "LSTM"),
    "LayerNormalization": lambda v: One([X, floats(4), floats(4, seed=1)]),
    "LinearAttention": lambda v: One(
        [floats(1, 3, 4), floats(1, 3, 4, seed=1), floats(1, 3, 4, seed=2)],
        {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"},
        2,
    ),
    "Loop": loop_model,
    "LpPool": lp_pool,
    "MatMul": lambda v: One([X, floats(4, 2)]),
    "MatMulInteger": lambda v: One([BITS, BITS.T.copy(), np.array(3, np.uint8)]),
    "MaxPool": max_pool,
    "MaxRoiPool": lambda v: One([IMAGE, np.array([[0, 0, 0, 3, 3]], F)], {"pooled_shape": [2, 2]}),
    "MaxUnpool": lambda v: One(
        [floats(1, 1, 2, 2), ints(0, 3, 9, 15).reshape(1, 1, 2, 2)],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "MeanVarianceNormalization": unary(IMAGE),
    "MelWeightMatrix": lambda v: One(
        [np.array(8, I), np.array(16, I), np.array(8192, I), np.array(0, F), np.array(4096, F)]
    ),
    "Mod": lambda v: One([X, P], {"fmod": 1}),
    "Multinomial": unary(floats(2, 5), sample_size=4),
    "NegativeLogLikelihoodLoss": lambda v: One([floats(3, 5), ints(1, 0, 4)]),
    "NonMaxSuppression": lambda v: One(
        [
            np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [2, 2, 3, 3]]], F),
            np.array([[[0.9, 0.75, 0.6]]], F),
            ints(2),
            np.array([0.5], F),
        ]
    ),
    "Not": unary(BOOLS),
    "OneHot": lambda v: One(
        [ints(0, 5, 2), np.array(3, I), np.array([2, 5], F)], {"axis": 0}, 1, [1]
    ),
    "Optional": optional("y = Optional (a)", "optional(float[2])"),
    "OptionalGetElement": optional("o = Optional (a) y = OptionalGetElement (o)", "float[2]"),
    "OptionalHasElement": optional("o = Optional (a) y = OptionalHasElement (o)", "bool"),
    "PRelu": lambda v: One(
        [X, floats(3) if v < 7 else floats(3, 1)], {"consumed_inputs": [0, 0]} if v < 6 else {}
    ),
    "Pad": pad,
    "Pow": binary(P, P),
    "QLinearConv": lambda v: One(
        [
            *(np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4), np.array(0.5, F)),
            *(np.array(3, np.uint8), np.arange(4, dtype=np.uint8).reshape(1, 1, 2, 2)),
            *(np.array(0.25, F), np.array(1, np.uint8), np.array(2, F), np.array(9, np.uint8)),
        ]
    ),
    "QLinearMatMul": lambda v: One(
        [
            *(BITS, np.array(0.5, F), np.array(3, np.uint8)),
            *(BITS.T.copy(), np.array(0.25, F), np.array(1, np.uint8)),
            *(np.array(40, F), np.array(9, np.uint8)),
        ]
    ),
    "QuantizeLinear": quantize,
    "RMSNormalization": lambda v: One([X, floats(4)]),
    "RNN": recurrent(1, "RNN"),
    "RandomNormal": lambda v: One([], {"shape": [2, 3], "seed": 3.0}),
    "RandomNormalLike": unary(X, seed=3.0),
    "RandomUniform": lambda v: One([], {"shape": [2, 3], "seed": 3.0}),
    "RandomUniformLike": unary(X, seed=3.0),
    "Range": lambda v: One([np.array(1, F), np.array(6, F), np.array(1.5, F)]),
    "ReduceSum": reduced(13),
    "RegexFullMatch": unary(texts("a1", "b"), pattern="[a-z][0-9]"),
    "Reshape": lambda v: (
        One([X], {"shape": [0, -1], "consumed_inputs": [0]})
        if v < 5
        else One([X, ints(0, -1)], {}, 1, [1])
    ),
    "Resize": resize,
    "ReverseSequence": lambda v: One([floats(4, 3), ints(1, 4, 2)], {"time_axis": 0}),
    "RoiAlign": lambda v: One(
        [IMAGE, np.array([[0, 0, 3, 3]], F), ints(0)],
        {"output_height": 2, "output_width": 2, "sampling_ratio": 2},
    ),
    "RotaryEmbedding": lambda v: One(
        [floats(1, 2, 3, 4), floats(1, 3, 2), floats(1, 3, 2, seed=1)]
    ),
    "STFT": lambda v: One([floats(1, 8, 1), np.array(2, I), None, np.array(4, I)], {}, 1, [1, 3]),
    "Scan": scan_model,
    "Scatter": lambda v: One([X, np.zeros((1, 2, 3), I), floats(1, 2, 3)], {"axis": 1}),
    "ScatterElements": lambda v: One(
        [X, ints(0, 2, 1, 0).reshape(1, 1, 4), floats(1, 1, 4)],
        {"axis": 1, **({"reduction": "add"} if v >= 16 else {})},
    ),
    "ScatterND": lambda v: One(
        [X, ints(0, 1, 1, 2).reshape(2, 2), floats(2, 4)],
        {"reduction": "max" if v >= 18 else "mul"} if v >= 16 else {},
    ),
    "SequenceAt": sequences("s = SequenceConstruct (a, b) y = SequenceAt (s, n)", "float[k]"),
    "SequenceConstruct": sequences("y = SequenceConstruct (a, b)"),
    "SequenceEmpty": sequences("e = SequenceEmpty () y = SequenceInsert (e, a)"),
    "SequenceErase": sequences("s = SequenceConstruct (a, b) y = SequenceErase (s, n)"),
    "SequenceInsert": sequences("s = SequenceConstruct (a, b) y = SequenceInsert (s, a, n)"),
    "SequenceLength": sequences("s = SequenceConstruct (a, b) y = SequenceLength (s)", "int64"),
    "SequenceMap": sequences(
        "s = SequenceConstruct (a, b) y = SequenceMap "
        "<body = m (float[k] e) => (float[k] r) { r = Neg (e) }> (s)"
    ),
    "Shape": lambda v: One([X], {"start": 1, "end": -1} if v >= 15 else {}),
    "Slice": slices,
    "SoftmaxCrossEntropyLoss": lambda v: One([floats(3, 5), ints(1, 0, 4)], {}, 2),
    "SpaceToDepth": lambda v: One(
        [IMAGE], {"blocksize": 2, **({"mode": "CRD"} if v >= 28 else {})}
    ),
    "Split": split,
    "SplitToSequence": from_text(
        """<ir_version: IR, opset_import: ["" : VERSION]>
        g (float[4, 2] a) => (seq(float[k, 2]) y) { y = SplitToSequence (a) }""",
        a=floats(4, 2),
    ),
    "Squeeze": squeezed,
    "StringConcat": lambda v: One([texts("a", "b"), texts("c")]),
    "StringNormalizer": unary(texts("Abc", "x"), case_change_action="UPPER"),
    "StringSplit": lambda v: One([texts("a b", "c")], {}, 2),
    "SwiGLU": lambda v: One([X, P]),
    "TensorScatter": lambda v: One([floats(2, 1, 4, 2), floats(2, 1, 1, 2), ints(1, 3)]),
    "TfIdfVectorizer": unary(
        np.array([1, 2, 3, 1], np.int64),
        mode="TF",
        ngram_counts=[0, 2],
        ngram_indexes=[0, 1, 2],
        max_gram_length=2,
        min_gram_length=1,
        max_skip_count=0,
        pool_int64s=[1, 3, 1, 2],
    ),
    "Tile": lambda v: (
        One([X, np.array(2, F), np.array(1, F)], {}, 1, [1, 2])
        if v < 6
        else One([X, ints(1, 2, 1)], {}, 1, [1])
    ),
    "TopK": top,
    "Trilu": lambda v: One([floats(3, 4), np.array(1, I)], {"upper": 0}),
    "Unique": lambda v: One([np.array([2, 1, 1, 3], F)], {}, 4),
    "Unsqueeze": unsqueezed,
    "Upsample": upsample,
    "Where": lambda v: One([X > 0, X, P]),
}


def _picture() -> Array:
    """A bitmap of two by two pixels."""
    header = b"BM" + (54 + 16).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
    sizes = b"".join(n.to_bytes(4, "little") for n in (40, 2, 2))
    rest = (1).to_bytes(2, "little") + (24).to_bytes(2, "little") + bytes(24)
    pixels = bytes([255, 0, 0, 0, 255, 0, 0, 0, 0, 0, 255, 9, 9, 9, 0, 0])
    return np.frombuffer(header + sizes + rest + pixels, np.uint8)


_TABLE = np.array([[1, 5], [2, 3]], F)
CLASSIC: dict[str, Maker] = {
    "ArrayFeatureExtractor": lambda v: One([_TABLE, ints(1, 0)]),
    "Binarizer": unary(_TABLE, threshold=2.5),
    "CastMap": with_map("CastMap", 7, 1, {1: 2.5, 4: 0.5}, cast_to="TO_FLOAT"),
    "CategoryMapper": unary(texts("b", "z"), cats_strings=["a", "b"], cats_int64s=[4, 5]),
    "DictVectorizer": with_map("DictVectorizer", 7, 1, {1: 2.5, 3: 1}, int64_vocabulary=[3, 1]),
    "FeatureVectorizer": lambda v: One([_TABLE, _TABLE], {"inputdimensions": [2, 1]}),
    "Imputer": unary(_TABLE, imputed_value_floats=[9.0], replaced_value_float=5.0),
    "LabelEncoder": label_encoder,
    "LinearClassifier": lambda v: One(
        [_TABLE],
        {
            "coefficients": [1.0, -1.0, 0.5, 0.25, -2.0, 1.0],
            "intercepts": [0.1, 0.2, 0.3],
            "classlabels_ints": [3, 4, 5],
            "post_transform": "SOFTMAX",
        },
        2,
    ),
    "LinearRegressor": unary(_TABLE, coefficients=[0.5, 2.0], intercepts=[1.0]),
    "Normalizer": unary(_TABLE, norm="L2"),
    "OneHotEncoder": unary(texts("b", "z"), cats_strings=["a", "b"]),
    "SVMClassifier": lambda v: One(
        [_TABLE],
        {
            "classlabels_ints": [0, 1],
            "coefficients": [1.0, -1.0],
            "kernel_params": [0.5, 0.0, 3.0],
            "kernel_type": "RBF",
            "rho": [0.25],
            "support_vectors": [1.0, 5.0, 2.0, 3.0],
            "vectors_per_class": [1, 1],
        },
        2,
    ),
    "SVMRegressor": unary(
        _TABLE,
        coefficients=[1.0, -1.0],
        kernel_params=[0.5, 0.0, 3.0],
        kernel_type="RBF",
        n_supports=2,
        rho=[0.25],
        support_vectors=[1.0, 5.0, 2.0, 3.0],
    ),
    "Scaler": unary(_TABLE, scale=[2.0, 3.0], offset=[1.0, 0.0]),
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleClassifier": tree_classifier,
    "TreeEnsembleRegressor": tree_regressor,
    "ZipMap": unary(_TABLE, classlabels_int64s=[4, 9]),
}
PREVIEW: dict[str, Maker] = {
    "Adagrad": step(3, norm_coefficient=0.01),
    "Adam": step(4, alpha=0.9, beta=0.99),
    "FlexAttention": lambda v: One([floats(1, 2, 3, 4)] * 3),
    "Gradient": gradient,
    "Momentum": step(3, alpha=0.9, beta=1.0, mode="standard", norm_coefficient=0.01),
}

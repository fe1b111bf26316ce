"""For each operator of ONNX and each of its versions, a model of one node with inputs to run it.

`case_of(domain, name, version)` is such a model in the opset of that version. Written by hand
from the schemas: what an older version says otherwise is said here by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
F = np.float32
I = np.int64  # noqa: E741
B = np.bool_


class Case(NamedTuple):
    """A model and what it is fed, by input."""

    model: onnx.ModelProto
    feed: dict[str, Any]


class One(NamedTuple):
    """The parts of a one-node model; the inputs numbered in `stored` are initializers."""

    inputs: Sequence[Array | None]
    attrs: dict[str, Any] = {}  # noqa: RUF012
    outputs: int = 1
    stored: Sequence[int] = ()


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([sum(shape), len(shape), seed]).standard_normal(shape).astype(F)


def ints(*values: int) -> Array:
    return np.array(values, I)


def texts(*values: str) -> Array:
    return np.array(values, object)


X = floats(2, 3, 4)
P = np.abs(X) + F(0.5)
IMAGE = floats(1, 2, 4, 6)
NORM = [floats(3), floats(3, seed=1), floats(3, seed=2), np.abs(floats(3)) + F(0.5)]
EMPTY = np.zeros(0, F)
BITS = np.array([[1, 6], [255, 16]], np.uint8)
BOOLS = np.array([[True, False], [True, True]])
OTHER = np.array([[False, False], [True, False]])


def model_of(
    name: str, opset: int, one: One, domain: str = "", declare: bool = True
) -> onnx.ModelProto:
    names = ["" if a is None else f"x{i}" for i, a in enumerate(one.inputs)]
    results = [f"y{i}" for i in range(one.outputs)]
    node = helper.make_node(name, names, results, "node", domain=domain, **one.attrs)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for i, (n, a) in enumerate(zip(names, one.inputs, strict=True))
        if a is not None and i not in one.stored
    ]
    tensors = [numpy_helper.from_array(one.inputs[i], names[i]) for i in one.stored]
    graph = helper.make_graph([node], "g", values, [], tensors)
    graph.output.extend(onnx.ValueInfoProto(name=n) for n in results)
    opsets = [helper.make_opsetid("", base_opset(domain, opset))]
    if domain:
        opsets.append(helper.make_opsetid(domain, opset))
    model = helper.make_model(graph, ir_version=10, opset_imports=opsets)
    model.ir_version = max(8, helper.find_min_ir_version_for(opsets, True))
    return model


def base_opset(domain: str, opset: int) -> int:
    if domain == "ai.onnx.ml":
        return {1: 8, 2: 11, 3: 15, 4: 19, 5: 21}[opset]
    return 26 if domain else opset


def case_of(domain: str, name: str, version: int) -> Case:
    """The case of an operator in its version of that number."""
    made = {"": OWN, "ai.onnx.ml": CLASSIC}.get(domain, PREVIEW)[name](version)
    if isinstance(made, Case):
        return made
    feed = {f"x{i}": a for i, a in enumerate(made.inputs) if a is not None and i not in made.stored}
    return Case(model_of(name, version, made, domain), feed)


# -- short forms -------------------------------------------------------------------------------
Maker = Callable[[int], One | Case]


def unary(x: Array = X, **attrs: Any) -> Maker:
    """One input; before 6 the attribute that told what may be overwritten."""
    return lambda v: One([x], attrs)


def consuming(x: Array = X, **attrs: Any) -> Maker:
    return lambda v: One([x], {**attrs, **({"consumed_inputs": [0]} if v < 6 else {})})


def binary(a: Array = X, b: Array = P, old: Array | None = None) -> Maker:
    """Two inputs of one shape; before 7 the second lines up with an axis of the first."""

    def make(v: int) -> One:
        if v >= 7:
            return One([a, b])
        return One([a, b[0, :, 0] if b.ndim > 2 else b[0]], {"broadcast": 1, "axis": 1})

    return make


def variadic(v: int) -> One:
    return One([X, X[0] if v >= 8 else X + 1, X * 2], {"consumed_inputs": [0]} if v < 6 else {})


def reduced(since: int, x: Array = X) -> Maker:
    def make(v: int) -> One:
        if v < since:
            return One([x], {"axes": [0, 2] if v < 11 else [0, -1]})
        return One([x, ints(0, -1)], {"keepdims": 0}, 1, [1])

    return make


def from_text(text: str, **feed: Any) -> Callable[[int], Case]:
    """A model written out, with VERSION for the opset."""

    def make(v: int) -> Case:
        ir = max(8, helper.find_min_ir_version_for([helper.make_opsetid("", v)], True))
        filled = text.replace("VERSION", str(v)).replace("IR", str(ir))
        return Case(onnx.parser.parse_model(filled), feed)

    return make


def recurrent(gates: int, name: str) -> Maker:
    def make(v: int) -> One:
        attrs: dict[str, Any] = {"hidden_size": 3}
        if v < 7:
            attrs["output_sequence"] = 1
        if name == "GRU" and v >= 3:
            attrs["linear_before_reset"] = 1
        if v >= 14:
            attrs["layout"] = 0
        rest = [None, None, floats(1, 2, 3)] if name != "LSTM" else []
        size = gates * 3
        inputs = [floats(4, 2, 2), floats(1, size, 2), floats(1, size, 3), floats(1, 2 * size)]
        return One([*inputs[: 3 + (name != "LSTM")], *rest[1:]], attrs, 3 if name == "LSTM" else 2)

    return make


def pool(v: int) -> One:
    attrs: dict[str, Any] = {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 1, 0, 1]}
    return One([IMAGE], attrs)


def average_pool(v: int) -> One:
    attrs = dict(pool(v).attrs)
    if v >= 7:
        attrs["count_include_pad"] = 1
    if v >= 19:
        attrs["dilations"] = [2, 1]
    return One([IMAGE], attrs)


def max_pool(v: int) -> One:
    attrs = dict(pool(v).attrs)
    if v >= 10:
        attrs |= {"ceil_mode": 1, "dilations": [1, 2]}
    return One([IMAGE], attrs, 2 if v >= 8 else 1)


def lp_pool(v: int) -> One:
    return One([IMAGE], {**pool(v).attrs, "p": 3.0 if v < 2 else 3})


def batch_norm(v: int) -> One:
    attrs: dict[str, Any] = {"epsilon": 1e-3}
    if v < 6:
        attrs["consumed_inputs"] = [0, 0, 0, 1, 1]
    if v < 7:
        attrs["is_test"] = 1
    return One([X, *NORM], attrs)


def dropout(v: int) -> One:
    if v >= 12:
        return One([X, np.array(0.3, F)], {}, 2, [1])
    attrs: dict[str, Any] = {"ratio": 0.3}
    if v < 6:
        attrs["consumed_inputs"] = [0]
    if v < 7:
        attrs["is_test"] = 1
    return One([X], attrs)


def resize(v: int) -> One:
    scales = np.array([1, 1, 2, 0.6], F)
    if v < 11:
        return One([IMAGE, scales], {"mode": "nearest"}, 1, [1])
    attrs = {"coordinate_transformation_mode": "half_pixel", "mode": "linear"}
    if v < 13:
        return One([IMAGE, EMPTY, EMPTY, ints(1, 2, 7, 3)], attrs, 1, [1, 2, 3])
    return One([IMAGE, None, scales], attrs, 1, [2])


def upsample(v: int) -> One:
    if v < 7:
        return One([IMAGE], {"height_scale": 2.0, "width_scale": 3.0})
    if v < 9:
        return One([IMAGE], {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "linear"})
    return One([IMAGE, np.array([1, 1, 2, 3], F)], {}, 1, [1])


def pad(v: int) -> One:
    amounts = [0, 1, 0, 1, 0, 2]
    if v < 11:
        return One([X], {"paddings" if v < 2 else "pads": amounts, "value": 2.5})
    if v < 18:
        return One([X, ints(*amounts), np.array(2.5, F)], {}, 1, [1])
    return One([X, ints(1, 0, 2, 1), None, ints(-1, 0)], {}, 1, [1, 3])


def slices(v: int) -> One:
    if v < 10:
        return One([X], {"starts": [0, -3], "ends": [1, 1000], "axes": [0, 2]})
    steps = ints(1, 2) if v < 11 else ints(1, -2)
    bounds = [ints(0, 0), ints(1, 1000)] if v < 11 else [ints(0, -1), ints(1, -1000)]
    return One([X, *bounds, ints(0, 2), steps], {}, 1, [1, 2, 3, 4])


def split(v: int) -> One:
    if v < 13:
        return One([X], {"split": [1, 3], "axis": 2 if v < 11 else -1}, 2)
    return One([X, ints(1, 3)], {"axis": 2}, 2, [1])


def top(v: int) -> One:
    if v < 10:
        return One([X], {"k": 2, "axis": 1}, 2)
    return One([X, ints(2)], {"axis": 1} if v < 11 else {"axis": -2, "largest": 0}, 2, [1])


def dft(v: int) -> One:
    x = floats(1, 4, 3, 1)
    return One([x], {"axis": 2}) if v < 20 else One([x, None, np.array(2, I)], {}, 1, [2])


def clip(v: int) -> One:
    if v >= 11:
        return One([X, np.array(-0.5, F), np.array(0.5, F)])
    return One([X], {"min": -0.5, "max": 0.5, **({"consumed_inputs": [0]} if v < 6 else {})})


def squeezed(v: int) -> One:
    return One([X[:, :1]], {"axes": [1]}) if v < 13 else One([X[:, :1], ints(1)], {}, 1, [1])


def unsqueezed(v: int) -> One:
    if v < 13:
        return One([X], {"axes": [0, 2] if v < 11 else [0, -1]})
    return One([X, ints(0, -1)], {}, 1, [1])


def quantize(v: int) -> One:
    x = np.array([[-5, 0.3, 300], [0.25, 0.75, 1.25]], F)
    if v < 13:
        return One([x, np.array(0.5, F), np.array(3, np.uint8)])
    return One([x, np.array([0.5, 1], F), np.array([3, 5], np.uint8)], {"axis": 0})


def dequantize(v: int) -> One:
    x = np.array([[0, 3, 255], [9, 10, 11]], np.uint8)
    if v < 13:
        return One([x, np.array(0.5, F), np.array(3, np.uint8)])
    return One([x, np.array([0.5, 1], F), np.array([3, 5], np.uint8)], {"axis": 0})


def grid_sample(v: int) -> One:
    grid = np.clip(floats(1, 2, 2, 2), -1, 1)
    return One([IMAGE, grid], {"mode": "bicubic" if v < 20 else "cubic"})


def group_norm(v: int) -> One:
    size = 2 if v < 21 else 4
    return One([floats(2, 4, 3), floats(size), floats(size, seed=1)], {"num_groups": 2})


def attention(v: int) -> One:
    q, k = floats(1, 2, 3, 4), floats(1, 2, 5, 4)
    attrs = {"left_window_size": 1} if v >= 25 else {"is_causal": 1}
    return One([q, k, k + 1], attrs)


def constant(v: int) -> Case:
    attrs: dict[str, Any] = {"value": numpy_helper.from_array(X)}
    if v >= 12:
        attrs = {"value_ints": [1, 2]}
    elif v >= 11:
        sparse = helper.make_sparse_tensor(
            helper.make_tensor("v", TensorProto.FLOAT, [1], [2.0]),
            helper.make_tensor("i", TensorProto.INT64, [1], [1]),
            [3],
        )
        attrs = {"sparse_value": sparse}
    return Case(model_of("Constant", v, One([], attrs)), {})


def if_model(v: int) -> Case:
    return from_text(
        """<ir_version: IR, opset_import: ["" : VERSION]>
        g (bool c, float[2] x) => (float[2] y) {
            y = If (c) <then_branch = a () => (float[2] p) { p = Neg (x) },
                        else_branch = b () => (float[2] q) { q = Abs (x) }>
        }""",
        c=np.array(True),
        x=floats(2),
    )(v)


def loop_model(v: int) -> Case:
    return from_text(
        """<ir_version: IR, opset_import: ["" : VERSION]>
        g (int64 m, bool c, float[2] x) => (float[2] y, float[k, 2] z) {
            y, z = Loop (m, c, x) <body = b (int64 i, bool go, float[2] s)
                => (bool on, float[2] t, float[2] u) {
                    on = Identity (go)
                    t = Mul (s, x)
                    u = Neg (t)
                }>
        }""",
        m=np.array(3, I),
        c=np.array(True),
        x=floats(2),
    )(v)


def scan_model(v: int) -> Case:
    first = v < 9
    text = """<ir_version: IR, opset_import: ["" : VERSION]>
        g (float[BATCH2] s, float[BATCH3, 2] x) => (float[BATCH2] y, float[BATCH3, 2] z) {
            y, z = Scan (GIVEN) <num_scan_inputs = 1, body = b (float[2] a, float[2] e)
                => (float[2] t, float[2] u) {
                    t = Mul (a, e)
                    u = Neg (t)
                }>
        }"""
    text = text.replace("BATCH", "1, " if first else "")
    text = text.replace("GIVEN", '"", s, x' if first else "s, x")
    s, x = floats(2), floats(3, 2)
    return from_text(text, s=s[None] if first else s, x=x[None] if first else x)(v)


def sequences(body: str, out: str = "seq(float[k])", **feed: Any) -> Callable[[int], Case]:
    """A model on sequences: `body` uses a, b and n and gives y."""
    text = f"""<ir_version: IR, opset_import: ["" : VERSION]>
        g (float[2] a, float[3] b, int64 n) => ({out} y) {{ {body} }}"""
    return from_text(text, a=floats(2), b=floats(3), n=np.array(1, I), **feed)


def optional(body: str, out: str) -> Callable[[int], Case]:
    text = f"""<ir_version: IR, opset_import: ["" : VERSION]>
        g (float[2] a) => ({out} y) {{ {body} }}"""
    return from_text(text, a=floats(2))


def label_encoder(v: int) -> One:
    words = texts("b", "z", "a")
    if v < 2:
        return One([words], {"classes_strings": ["a", "b"], "default_int64": -3})
    return One([words], {"keys_strings": ["a", "b"], "values_floats": [1.5, 2.5]})


_TREE: dict[str, Any] = {
    "nodes_falsenodeids": [2, 0, 0],
    "nodes_featureids": [0, 0, 0],
    "nodes_missing_value_tracks_true": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_nodeids": [0, 1, 2],
    "nodes_treeids": [0, 0, 0],
    "nodes_truenodeids": [1, 0, 0],
}


def trees(v: int, weights: str, ids: dict[str, Any], **more: Any) -> One:
    attrs = {**_TREE, **ids, **more}
    values, heights = [0.25, 0.0, 0.0], [0.75, 0.5]
    x: Array = np.array([[0, 1], [1, 0]], F)
    if v < 3:
        attrs |= {"nodes_values": values, weights: heights}
    else:  # doubles came with 3
        x = x.astype(np.float64)
        attrs["nodes_values_as_tensor"] = helper.make_tensor("", 11, [3], values)
        attrs[f"{weights}_as_tensor"] = helper.make_tensor("", 11, [2], heights)
    return One([x], attrs, 2 if "class" in weights else 1)


def tree_classifier(v: int) -> One:
    ids = {f"class_{k}": r for k, r in (("ids", [0, 1]), ("nodeids", [1, 2]), ("treeids", [0, 0]))}
    return trees(v, "class_weights", ids, classlabels_int64s=[5, 7])


def tree_regressor(v: int) -> One:
    ids = {f"target_{k}": r for k, r in (("ids", [0, 0]), ("nodeids", [1, 2]), ("treeids", [0, 0]))}
    return trees(v, "target_weights", ids, n_targets=1)


def tree_ensemble(v: int) -> One:
    return One(
        [np.array([[0, 1], [1, 0]], F)],
        {
            "leaf_targetids": [0, 0],
            "leaf_weights": helper.make_tensor("", 1, [2], [0.75, 0.5]),
            "nodes_falseleafs": [1],
            "nodes_falsenodeids": [1],
            "nodes_featureids": [0],
            "nodes_modes": helper.make_tensor("", 2, [1], [0]),
            "nodes_splits": helper.make_tensor("", 1, [1], [0.25]),
            "nodes_trueleafs": [1],
            "nodes_truenodeids": [0],
            "tree_roots": [0],
            "n_targets": 1,
        },
    )


def with_map(op: str, key: int, value: int, given: dict[Any, Any], **attrs: Any) -> Maker:
    """An operator that takes a map."""

    def make(v: int) -> Case:
        node = helper.make_node(op, ["x0"], ["y0"], "node", domain="ai.onnx.ml", **attrs)
        kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))
        graph = helper.make_graph([node], "g", [helper.make_value_info("x0", kind)], [])
        graph.output.extend([onnx.ValueInfoProto(name="y0")])
        opsets = [helper.make_opsetid("", 8), helper.make_opsetid("ai.onnx.ml", v)]
        model = helper.make_model(graph, ir_version=8, opset_imports=opsets)
        return Case(model, {"x0": given})

    return make


def gradient(v: int) -> Case:
    text = """<ir_version: 8, opset_import: ["" : 12, "ai.onnx.preview.training" : 1]>
        g (float[2] a, float[2] b) => (float[2] y) {
            c = Mul (a, b)
            y = ai.onnx.preview.training.Gradient <xs = ["a"], y = "c"> (a)
        }"""
    return Case(onnx.parser.parse_model(text), {"a": floats(2), "b": floats(2)})


def step(count: int, **attrs: Any) -> Maker:
    """An optimiser's step: rate, number of steps, a weight, its gradient, and what is kept."""
    kept = [np.abs(floats(2, seed=i)) for i in range(count)]
    return lambda v: One([np.array(0.1, F), np.array(0, I), *kept], attrs, count - 1)


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

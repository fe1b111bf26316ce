"""Makers of one-node models: short forms, and those of operators that changed over the versions.

What an older version says otherwise is said here by its number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from one_node import EMPTY, IMAGE, NORM, Case, F, I, One, P, X, floats, ints, model_of, texts
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]

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


def trees(v: int, weights: str, heights: list[float], ids: dict[str, Any], **more: Any) -> One:
    attrs = {**_TREE, **ids, **more}
    values = [0.25, 0.0, 0.0]
    x: Array = np.array([[0, 1], [1, 0]], F)
    if v < 3:
        attrs |= {"nodes_values": values, weights: heights}
    else:  # doubles came with 3
        x = x.astype(np.float64)
        attrs["nodes_values_as_tensor"] = helper.make_tensor("", 11, [3], values)
        attrs[f"{weights}_as_tensor"] = helper.make_tensor("", 11, [len(heights)], heights)
    return One([x], attrs, 2 if "class" in weights else 1)


def tree_classifier(v: int) -> One:
    # Three classes: of two, onnxruntime gives the number of the class in the place of its label.
    ids = {"class_ids": [0, 1, 2, 1], "class_nodeids": [1, 1, 2, 2], "class_treeids": [0] * 4}
    heights = [0.75, 0.25, 0.125, 0.5]
    return trees(v, "class_weights", heights, ids, classlabels_int64s=[5, 7, 9])


def tree_regressor(v: int) -> One:
    ids = {f"target_{k}": r for k, r in (("ids", [0, 0]), ("nodeids", [1, 2]), ("treeids", [0, 0]))}
    return trees(v, "target_weights", [0.75, 0.5], ids, n_targets=1)


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

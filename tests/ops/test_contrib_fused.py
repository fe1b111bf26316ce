"""The fused operators and norms of com.microsoft, compared with onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contrib_oracle import Array, Drawn, agree, applied, close, computed, fed
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym.errors import BadAttribute, OpError, ShapeMismatch

pytestmark = pytest.mark.oracle
ROWS = [(0, 0), (0, 1)]
"""The axes of batch and length."""


def test_forms_of_gelu() -> None:
    draw = Drawn(1)
    x = draw.reals(2, 3, 8) * 3
    x.flat[:4] = np.inf, -30.0, -0.0, 0.0
    bias = draw.reals(8)
    agree("Gelu", [x], dynamic=ROWS)
    agree("BiasGelu", [x, bias], dynamic=ROWS)
    agree("FastGelu", [x, bias], dynamic=ROWS)
    agree("FastGelu", [x], dynamic=ROWS)
    agree("QuickGelu", [x], {"alpha": 1.3}, dynamic=ROWS)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_forms_of_gelu_in_other_types(dtype: Any) -> None:
    # onnxruntime's CPU kernels know float32 only.
    draw = Drawn(2)
    x, bias = draw.reals(3, 8), draw.reals(8)
    for name, inputs in (("Gelu", [x]), ("BiasGelu", [x, bias]), ("FastGelu", [x, bias]),
                         ("QuickGelu", [x])):  # fmt: skip
        want = agree(name, inputs)[0]
        other = [v.astype(dtype) for v in inputs]
        got = computed(applied(name, other), fed(other))[0]
        assert got.dtype == dtype
        close(got.astype(np.float32), want, tolerance=5e-3 if dtype == np.float16 else 1e-5)


def gelu(x: Array) -> Array:
    from math import erf

    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


def test_sums_and_splits_by_numpy() -> None:
    # onnxruntime has no CPU kernels for these.
    draw = Drawn(3)
    x, bias, skip = draw.reals(2, 3, 8), draw.reals(8), draw.reals(2, 3, 8)
    inputs = [x, bias, skip]
    close(computed(applied("BiasAdd", inputs), fed(inputs))[0], x + bias + skip)
    left, right = np.split((x + bias).astype(np.float64), 2, -1)
    got = computed(applied("BiasSplitGelu", inputs[:2]), fed(inputs[:2]))[0]
    close(got, (left * gelu(right)).astype(np.float32))
    for axis, shape in ((2, (1, 3, 8)), (1, (2, 1, 1))):
        pair = [x, draw.reals(*shape)]
        attrs = {"axis": axis, "is_inner_broadcast": 0}
        got = computed(applied("BiasSoftmax", pair, attrs), fed(pair))[0]
        rows = np.exp((x + pair[1]).astype(np.float64)).reshape(-1, 8 if axis == 2 else 24)
        close(got, (rows / rows.sum(1, keepdims=True)).reshape(x.shape).astype(np.float32))


def test_products_with_gelu_and_dropout_at_rest_by_numpy() -> None:
    draw = Drawn(16)
    x, w, bias = draw.reals(2, 3, 4), draw.reals(4, 5), draw.reals(5)
    wide = (x @ w + bias).astype(np.float64)
    tanh = np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))
    got = computed(applied("GemmFastGelu", [x, w, bias]), fed([x, w, bias]))[0]
    close(got, (wide * (1 + tanh) / 2).astype(np.float32))
    inputs = [x, draw.reals(4), draw.reals(2, 3, 4)]
    y, mask = computed(applied("BiasDropout", inputs, outputs=2), fed(inputs))
    close(y, inputs[0] + inputs[1] + inputs[2])
    assert mask.all()


def buckets(distance: int, count: int, largest: int, both: bool) -> int:
    """The bucket of a distance, key minus query."""
    first = 0
    if both:
        count //= 2
        first = count if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = count // 2
    if distance < exact:
        return first + distance
    share = np.log(distance / exact) / np.log(largest / exact)
    return first + min(exact + int(share * (count - exact)), count - 1)


@pytest.mark.parametrize("both", [0, 1])
def test_biases_of_relative_positions_by_hand(both: int) -> None:
    # onnxruntime has no CPU kernel for it.
    draw, length, heads = Drawn(17), 30, 3
    by_head = draw.reals(heads, 8)
    table = by_head.reshape(8, heads)  # as the optimiser writes it
    inputs = [table, np.array([length]), np.array([length])]
    attrs = {"is_bidirectional": both, "max_distance": 20}
    got = computed(applied("RelativePositionBias", inputs, attrs), fed(inputs))[0]
    assert got.shape == (1, heads, length, length)
    for q in range(length):
        for k in range(length):
            want = by_head[:, buckets(k - q, 8, 20, bool(both))]
            np.testing.assert_array_equal(got[0, :, q, k], want)


def test_gated_biases_of_relative_positions_by_numpy() -> None:
    draw, heads, size, length = Drawn(18), 2, 4, 3
    query, query_bias = draw.reals(2, length, heads * size), draw.reals(heads * size)
    bias = draw.reals(1, heads, length, length)
    weight, shift, scale = draw.reals(size, 8), draw.reals(8), draw.reals(1, heads, 1, 1)
    q = (query + query_bias).reshape(2, length, heads, size).transpose(0, 2, 1, 3)
    sums = (q @ weight + shift).reshape(2, heads, length, 2, 4).sum(-1)
    gates = 1 / (1 + np.exp(-sums.astype(np.float64)))
    want = (gates[..., :1] * (gates[..., 1:] * scale - 1) + 2) * bias
    inputs = [query, query_bias, bias, weight, shift, scale]
    got = computed(applied("GatedRelativePositionBias", inputs, {"num_heads": heads}), fed(inputs))
    close(got[0], want.astype(np.float32))


def test_gated_activations_by_numpy() -> None:
    draw = Drawn(4)
    gate, up = draw.reals(3, 8) * 4, draw.reals(3, 8) * 4
    attrs = {"activation_alpha": 1.7, "activation_beta": 1.0, "limit": 3.0}
    a, b = np.minimum(gate.astype(np.float64), 3), np.clip(up.astype(np.float64), -3, 3)
    want = (a / (1 + np.exp(-1.7 * a)) * (b + 1)).astype(np.float32)
    both = [np.concatenate([gate, up], -1)]
    for inputs in ([gate, up], both):
        close(computed(applied("SwiGLU", inputs, attrs), fed(inputs))[0], want)
    z = gate.astype(np.float64) * 0.5
    got = computed(applied("ScaledSiLU", [gate], {"alpha": 0.5}), fed([gate]))[0]
    close(got, (z / (1 + np.exp(-z))).astype(np.float32))


@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)])
def test_skip_layer_normalization(skip: tuple[int, ...]) -> None:
    draw = Drawn(5)
    x, s = draw.reals(2, 3, 8), draw.reals(*skip)
    gamma, beta, bias = draw.reals(8), draw.reals(8), draw.reals(8)
    agree("SkipLayerNormalization", [x, s, gamma, beta, bias], {"epsilon": 1e-5}, outputs=4)
    agree("SkipLayerNormalization", [x, s, gamma, beta], dynamic=[(0, 0)])
    agree("SkipLayerNormalization", [x, s, gamma, None, bias])
    if len(skip) == 3 and skip[0] == 2:
        agree("SkipSimplifiedLayerNormalization", [x, s, gamma, bias], outputs=4, dynamic=ROWS)
        agree("SkipSimplifiedLayerNormalization", [x, s, gamma])


def test_norms_in_half_precision() -> None:
    draw = Drawn(6)
    inputs = [draw.reals(*s, dtype=np.float16) for s in ((2, 3, 8), (2, 3, 8), (8,), (8,))]
    agree("SkipLayerNormalization", inputs, {"epsilon": 1e-5}, tolerance=1e-2)
    agree("SkipSimplifiedLayerNormalization", inputs, {"epsilon": 1e-5}, tolerance=1e-2)


@pytest.mark.parametrize("axis", [-1, 1])
def test_simplified_layer_normalization_lies_in_the_domain_of_onnx(axis: int) -> None:
    draw = Drawn(7)
    inputs = [draw.reals(2, 3, 8), draw.reals(8)] if axis == -1 else [
        draw.reals(2, 3, 8), draw.reals(3, 8)]  # fmt: skip
    attrs = {"axis": axis, "epsilon": 1e-5}
    agree("SimplifiedLayerNormalization", inputs, attrs, outputs=2, domain="")


def test_embeddings() -> None:
    draw = Drawn(8)
    ids, segments = draw.whole(2, 4, below=10), draw.whole(2, 4)
    word, position, segment = draw.reals(10, 8), draw.reals(6, 8), draw.reals(2, 8)
    gamma, beta, mask = draw.reals(8), draw.reals(8), draw.whole(2, 4)
    full = [ids, segments, word, position, segment, gamma, beta, mask]
    dynamic = [(0, 0), (0, 1), (1, 0), (1, 1), (7, 0), (7, 1)]
    agree("EmbedLayerNormalization", full, outputs=3, dynamic=dynamic)
    places = draw.whole(1, 4, below=6)
    short = [ids, None, word, position, None, gamma, beta, None, places]
    agree("EmbedLayerNormalization", short, outputs=2)
    tables = [draw.bytes(*s) for s in ((10, 8), (6, 8), (2, 8), (8,), (8,))]
    scales = [np.array(v, np.float32) for v in (0.1, 0.2, 0.05, 0.03, 0.02)]
    zeros = [np.array(v, np.uint8) for v in (120, 130, 99, 7, 128)]
    inputs = [ids, segments, *tables, mask, *scales, *zeros]
    agree("QEmbedLayerNormalization", inputs, outputs=2, tolerance=1e-4)
    for i in (1, 4, 10, 15):
        inputs[i] = None
    agree("QEmbedLayerNormalization", inputs, outputs=2, tolerance=1e-4)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("active", [0, 1])
def test_group_norms_by_numpy(last: int, active: int) -> None:
    # onnxruntime has no CPU kernels for these.
    draw = Drawn(9)
    x = draw.reals(2, 3, 5, 8)  # channels last
    gamma, beta, skip, bias = draw.reals(8), draw.reals(8), draw.reals(2, 8), draw.reals(8)

    def norm(s: Array) -> Array:
        groups = s.astype(np.float64).reshape(2, 15, 4, 2)
        mean, var = groups.mean((1, 3), keepdims=True), groups.var((1, 3), keepdims=True)
        y = ((groups - mean) / np.sqrt(var + 1e-5)).reshape(s.shape) * gamma + beta
        return y / (1 + np.exp(-y)) if active else y

    def placed(y: Array) -> Array:
        return (y if last else y.transpose(0, 3, 1, 2)).astype(np.float32)

    attrs = {"groups": 4, "activation": active, "channels_last": last}
    inputs = [placed(x), gamma, beta]
    close(computed(applied("GroupNorm", inputs, attrs), fed(inputs))[0], placed(norm(x)))
    total = x + skip[:, None, None] + bias
    inputs = [*inputs, skip, bias]
    got = computed(applied("SkipGroupNorm", inputs, attrs, outputs=2), fed(inputs))
    close(got[0], placed(norm(total)))
    close(got[1], placed(total))


ACTIVATIONS: list[tuple[str, tuple[float, ...] | None]] = [
    ("Relu", None),
    ("Tanh", None),
    ("Sigmoid", None),
    ("LeakyRelu", (0.1,)),
    ("Clip", (0.0, 6.0)),
    ("HardSigmoid", (0.2, 0.5)),
]


@pytest.mark.parametrize(("name", "parameters"), ACTIVATIONS)
def test_convolutions_with_an_activation(name: str, parameters: tuple[float, ...] | None) -> None:
    draw = Drawn(10)
    attrs: dict[str, Any] = {"activation": name, "activation_params": parameters}
    inputs: list[Array | None] = [draw.reals(1, 4, 8, 8), draw.reals(4, 2, 3, 3), draw.reals(4)]
    padded = {**attrs, "group": 2, "pads": (1, 1, 1, 1)}
    agree("FusedConv", inputs, padded, dynamic=[(0, 0)])
    inputs[1] = draw.reals(4, 4, 3, 3)
    agree("FusedConv", [*inputs, draw.reals(1, 4, 6, 6)], attrs)
    agree("FusedConv", [*inputs[:2], None, draw.reals(1, 4, 6, 6)], attrs)


def test_convolutions_with_channels_last() -> None:
    # onnxruntime has no CPU kernels for these: the same with channels second must agree.
    draw = Drawn(11)
    x, w, b, z = (draw.reals(*s) for s in ((2, 4, 6, 6), (4, 4, 3, 3), (4,), (2, 4, 6, 6)))
    attrs: dict[str, Any] = {"pads": (1, 1, 1, 1), "activation": "Relu"}
    want = agree("FusedConv", [x, w, b, z], attrs)[0].transpose(0, 2, 3, 1)
    last = [np.ascontiguousarray(v.transpose(0, 2, 3, 1)) for v in (x, z)]
    inputs = [last[0], w, b, last[1]]
    close(computed(applied("NhwcFusedConv", inputs, attrs), fed(inputs))[0], want)
    plain = computed(applied("NhwcConv", inputs[:3], {"pads": (1, 1, 1, 1)}), fed(inputs[:3]))[0]
    close(np.maximum(plain + last[1], 0), want)


@pytest.mark.parametrize("signed", [False, True])
def test_max_pools_with_channels_last(signed: bool) -> None:
    x = Drawn(12).bytes(2, 7, 6, 3, signed=signed)
    attrs = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    agree("NhwcMaxPool", [x], attrs)
    agree("NhwcMaxPool", [x], {"kernel_shape": (2, 3), "ceil_mode": 1, "dilations": (2, 1)})


@given(st.data())
@settings(max_examples=25)
def test_products_of_transposed_matrices(data: st.DataObject) -> None:
    draw = Drawn(data.draw(st.integers(0, 99)))
    rank = data.draw(st.integers(2, 4))
    batch = [data.draw(st.integers(1, 3)) for _ in range(rank - 2)]
    rows, inner, columns = (data.draw(st.integers(1, 4)) for _ in range(3))
    attrs: dict[str, Any] = {"alpha": data.draw(st.sampled_from([1.0, 0.3]))}
    shapes = []
    for which, sizes in (("A", (rows, inner)), ("B", (inner, columns))):
        turned = data.draw(st.booleans())
        around = data.draw(st.booleans()) and rank > 2
        attrs |= {f"trans{which}": int(turned), f"transBatch{which}": int(around)}
        first, second = sizes[::-1] if turned else sizes
        # The first axis of what transBatch turns is that of the rows.
        shapes.append((first, *batch, second) if around else (*batch, first, second))
    a, b = (draw.reals(*s) for s in shapes)
    agree("FusedMatMul", [a, b], attrs)


def test_older_names_and_activations_of_products() -> None:
    draw = Drawn(13)
    a, b = draw.reals(2, 4, 3), draw.reals(2, 5, 4)
    attrs = {"transA": 1, "transB": 1, "alpha": 0.5}
    want = agree("TransposeMatMul", [a, b], attrs)[0]
    for name, value in (("Relu", np.maximum(want, 0)), ("Tanh", np.tanh(want))):
        active = {**attrs, "activation": name}
        close(computed(applied("FusedMatMulActivation", [a, b], active), fed([a, b]))[0], value)
    shifted = np.exp(want - want.max(-1, keepdims=True))
    active = {**attrs, "activation": "Softmax", "activation_axis": -1}
    got = computed(applied("FusedMatMulActivation", [a, b], active), fed([a, b]))[0]
    close(got, shifted / shifted.sum(-1, keepdims=True))


@pytest.mark.parametrize("name", ["Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu", "HardSigmoid"])
def test_gemm_with_an_activation(name: str) -> None:
    draw = Drawn(14)
    attrs: dict[str, Any] = {"activation": name, "transB": 1, "alpha": 1.5, "beta": 0.5}
    attrs |= {"activation_alpha": 0.3}
    if name == "HardSigmoid":
        attrs["activation_beta"] = 0.4
    agree("FusedGemm", [draw.reals(3, 4), draw.reals(5, 4), draw.reals(5)], attrs)


def test_mistakes_are_named() -> None:
    draw = Drawn(15)
    x, w = draw.reals(1, 4, 8, 8), draw.reals(4, 4, 3, 3)
    with pytest.raises(BadAttribute, match="activation='Swish' is none of"):
        applied("FusedConv", [x, w], {"activation": "Swish"})
    with pytest.raises(OpError, match="FusedConv"):
        applied("FusedConv", [x, w[:, :3]])
    with pytest.raises(BadAttribute, match="transA=2"):
        applied("FusedMatMul", [x, x], {"transA": 2})
    one = draw.reals(7)
    with pytest.raises(ShapeMismatch, match="7 channels cannot form 2 groups"):
        applied("GroupNorm", [draw.reals(1, 2, 2, 7), one, one], {"groups": 2, "activation": 0})
    with pytest.raises(ShapeMismatch, match="gamma has 2 axes, 1 are needed"):
        applied("SkipLayerNormalization", [x[0], x[0], w[0, 0]])

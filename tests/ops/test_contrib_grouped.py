"""Grouped attention with its cache, rotary positions and recurrent forms, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contrib_oracle import Array, Drawn, agree, applied, close, computed, expected, fed, number

from neuralsym.errors import BadAttribute, OpError, TypeMismatch

pytestmark = pytest.mark.oracle
BATCH, HEADS, KEY_HEADS, SIZE = 2, 4, 2, 16
MOST = 20


def angles(size: int = SIZE) -> list[Array]:
    """The cosines and sines of positions up to MOST."""
    turned = np.outer(np.arange(MOST), 1 / 10 ** np.linspace(0, 2, size // 2))
    return [np.cos(turned).astype(np.float32), np.sin(turned).astype(np.float32)]


def grouped(
    new: int,
    before: int,
    total: int,
    lengths: list[int],
    *,
    seed: int = 0,
    packed: bool = False,
    rotary: bool = False,
    positions: Array | None = None,
    bias: Array | None = None,
    sink: Array | None = None,
    fresh: list[int] | None = None,
    dtype: Any = np.float32,
) -> list[Array | None]:
    """The inputs of GroupQueryAttention; `lengths` are the totals of the rows."""
    draw, batch = Drawn(seed), len(lengths)
    q = draw.reals(batch, new, HEADS * SIZE, dtype=dtype)
    k, v = (draw.reals(batch, new, KEY_HEADS * SIZE, dtype=dtype) for _ in range(2))
    first: list[Array | None] = [np.concatenate([q, k, v], -1), None, None] if packed else [q, k, v]
    past = [draw.reals(batch, KEY_HEADS, before, SIZE, dtype=dtype) for _ in range(2)]
    cache: list[Array | None] = [x.astype(dtype) for x in angles()] if rotary else [None, None]
    return [
        *first,
        *past,
        np.array(lengths, np.int32) - 1,
        number(total, np.int32),
        *cache,
        positions,
        bias,
        sink,
        *[None] * 4,
        None if fresh is None else np.array(fresh, np.int32),
    ]


def settings(**more: Any) -> dict[str, Any]:
    return {"num_heads": HEADS, "kv_num_heads": KEY_HEADS, **more}


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    ("new", "before", "total", "lengths"),
    [(4, 0, 4, [4, 4]), (1, 5, 6, [6, 4]), (1, 8, 6, [6, 4]), (3, 5, 8, [8])],
)
@pytest.mark.parametrize("rotary", [False, True])
def test_prompts_and_steps(
    constant: bool, new: int, before: int, total: int, lengths: list[int], rotary: bool
) -> None:
    inputs = grouped(new, before, total, lengths, rotary=rotary)
    how: dict[str, Any] = {"constants": (6,)} if constant else {}
    agree("GroupQueryAttention", inputs, settings(do_rotary=int(rotary)), outputs=3, **how)


def test_names_for_sizes() -> None:
    dynamic = [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (2, 0),
        (2, 1),
        (3, 0),
        (3, 2),
        (4, 0),
        (4, 2),
        (5, 0),
    ]
    inputs = grouped(1, 5, 6, [6, 4, 5], rotary=True)
    attrs = settings(do_rotary=1)
    agree("GroupQueryAttention", inputs, attrs, outputs=3, dynamic=dynamic)


@pytest.mark.parametrize(
    ("attrs", "inputs"),
    [
        (
            {"do_rotary": 1, "local_window_size": 2, "rotary_interleaved": 1},
            grouped(4, 0, 4, [4, 4], packed=True, rotary=True),
        ),
        (
            {"do_rotary": 1, "local_window_size": 3, "softcap": 5.0, "scale": 0.4},
            grouped(3, 5, 8, [8], packed=True, rotary=True),
        ),
        (
            {"do_rotary": 1, "smooth_softmax": 1},
            grouped(3, 5, 8, [8], rotary=True, positions=np.array([[5, 6, 7]])),
        ),
        # A prompt takes the first of its positions only.
        ({"do_rotary": 1}, grouped(4, 0, 4, [4], rotary=True, positions=np.array([[2, 9, 7, 1]]))),
        ({}, grouped(1, 7, 6, [6, 6], bias=Drawn(1).reals(2, HEADS, 1, 6))),
        (
            {"softcap": 2.0},
            grouped(1, 5, 6, [6, 6], bias=Drawn(2).reals(1, 1, 1, 6), sink=Drawn(3).reals(HEADS)),
        ),
        ({"causal": 0}, grouped(4, 0, 4, [4, 4])),
    ],
)
def test_windows_caps_sinks_and_biases(attrs: dict[str, Any], inputs: list[Array | None]) -> None:
    agree("GroupQueryAttention", inputs, settings(**attrs), outputs=3)


@pytest.mark.parametrize("shown", [1, 2])
def test_the_scores_are_shown(shown: int) -> None:
    inputs = grouped(1, 8, 7, [7, 7])
    agree("GroupQueryAttention", inputs, settings(qk_output=shown, softcap=2.0), outputs=4)
    inputs = grouped(4, 0, 4, [4, 4])
    agree("GroupQueryAttention", inputs, settings(qk_output=shown), outputs=4)


@pytest.mark.parametrize(
    ("inputs", "valid", "lengths"),
    [
        (grouped(3, 9, 6, [6, 5], rotary=True, fresh=[2, 3]), [2, 3], [6, 5]),
        (grouped(3, 0, 3, [3, 1], rotary=True), [3, 1], [3, 1]),
        (grouped(3, 8, 3, [3, 1], rotary=True), [3, 1], [3, 1]),
    ],
)
def test_rows_of_several_lengths(
    inputs: list[Array | None], valid: list[int], lengths: list[int]
) -> None:
    # What lies behind the end of a row is unspecified.
    symbols = applied("GroupQueryAttention", inputs, settings(do_rotary=1), outputs=3)
    feeds = fed(inputs)
    got, want = computed(symbols, feeds), expected(symbols, feeds)
    for row, (queries, keys) in enumerate(zip(valid, lengths, strict=True)):
        close(got[0][row, :queries], want[0][row, :queries])
        for i in (1, 2):
            close(got[i][row, :, :keys], want[i][row, :, :keys])


def test_half_precision_and_norms_of_heads() -> None:
    inputs = grouped(4, 0, 4, [4, 4], dtype=np.float16)
    agree("GroupQueryAttention", inputs, settings(), outputs=3, tolerance=2e-3)
    # onnxruntime's CPU kernel has no norms: the heads normalised before must give the same.
    draw = Drawn(5)
    weights = [draw.reals(SIZE), draw.reals(SIZE)]
    plain = grouped(4, 0, 4, [4, 4])
    normed = [*plain[:14], *weights, None]
    ready = list(plain)
    for i, (x, weight) in enumerate(zip(plain[:2], weights, strict=True)):
        assert x is not None
        heads = x.reshape(BATCH, 4, -1, SIZE)
        scaled = heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-6) * weight
        ready[i] = scaled.reshape(x.shape).astype(np.float32)
    got = computed(applied("GroupQueryAttention", normed, settings()), fed(normed))[0]
    want = computed(applied("GroupQueryAttention", ready, settings()), fed(ready))[0]
    close(got, want)


@pytest.mark.parametrize("mode", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(
    ("new", "before", "total", "lengths"), [(1, 5, 6, [6, 4]), (4, 0, 4, [4, 4]), (1, 8, 6, [6, 4])]
)
def test_quantised_caches(
    mode: str, bits: int, new: int, before: int, total: int, lengths: list[int]
) -> None:
    draw = Drawn(9)
    inputs = grouped(new, before, total, lengths, rotary=True)
    size = SIZE if bits == 8 else SIZE // 2
    for i in (3, 4):
        inputs[i] = draw.bytes(len(lengths), KEY_HEADS, before, size, signed=bits == 8)
    shape = (1,) if mode == "PER_TENSOR" else (1, KEY_HEADS, 1, SIZE)
    low = 0.01 if bits == 8 else 0.2
    scales = [(draw.rng.random(shape) * low + low).astype(np.float32) for _ in range(2)]
    attrs = settings(do_rotary=1, kv_cache_bit_width=bits, k_quant_type=mode, v_quant_type=mode)
    inputs = [*inputs[:12], *scales]
    # A number half-way between two levels may go to the other one; no such is drawn here.
    agree("GroupQueryAttention", inputs, attrs, outputs=3, tolerance=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("capacity", "window"), [(4, 4), (6, 4), (5, 1)])
@pytest.mark.parametrize("bits", [0, 8])
def test_caches_that_forget(capacity: int, window: int, bits: int) -> None:
    draw, slack = Drawn(10), capacity - window + 1
    kind = np.int8 if bits else np.float32
    past = [np.zeros((1, KEY_HEADS, capacity, SIZE), kind) for _ in range(2)]
    attrs = settings(do_rotary=1, local_window_size=window, sliding_window_cache=1, softcap=3.0)
    scales: list[Array | None] = [None, None]
    if bits:
        scales = [number([0.03]), number([0.05])]
        attrs |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}
        attrs["kv_cache_bit_width"] = bits
    total = 0
    for new in (3, 1, 9, 2, 1):
        total += new
        inputs = grouped(new, 0, total, [total], seed=total, rotary=True)
        bias = draw.reals(1, HEADS, new, total)
        inputs = [*inputs[:3], *past, *inputs[5:10], bias, None, *scales]
        symbols = applied("GroupQueryAttention", inputs, attrs, outputs=3)
        feeds = fed(inputs)
        got, want = computed(symbols, feeds), expected(symbols, feeds)
        close(got[0], want[0], tolerance=1e-4)
        over = max(total - capacity, 0)
        held = total - slack * -(-over // slack)
        for a, b in zip(got[1:], want[1:], strict=True):  # what lies behind is unspecified
            close(a[:, :, :held], b[:, :, :held])
        past = want[1:]


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_positions(interleaved: int) -> None:
    draw, flat, attrs = Drawn(6), HEADS * SIZE, {"interleaved": interleaved}
    x = draw.reals(BATCH, 5, flat)
    each = draw.whole(BATCH, 5, below=MOST, dtype=np.int64)
    rows = [(0, 0), (0, 1), (1, 0), (1, 1)]
    agree("RotaryEmbedding", [x, each, *angles()], attrs, dynamic=rows)
    heads = draw.reals(BATCH, HEADS, 5, SIZE)
    agree("RotaryEmbedding", [heads, np.array([3]), *angles()], attrs)
    half = [heads.astype(np.float16), np.array([3]), *(a.astype(np.float16) for a in angles())]
    agree("RotaryEmbedding", half, attrs, tolerance=2e-3)
    part = {**attrs, "num_heads": HEADS, "rotary_embedding_dim": 4}
    agree("RotaryEmbedding", [x, np.array([3]), *angles(4)], part)


RULES = ("linear", "gated", "delta", "gated_delta")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("heads", "key_heads"), [(4, 2), (2, 2), (2, 4)])
def test_linear_attention(rule: str, heads: int, key_heads: int) -> None:
    draw = Drawn(7)
    decay = -np.abs(draw.reals(BATCH, 5, key_heads)) if "gated" in rule else None
    rate = 1 / (1 + np.exp(-draw.reals(BATCH, 5, key_heads))) if "delta" in rule else None
    inputs = [
        draw.reals(BATCH, 5, heads * 8),
        draw.reals(BATCH, 5, key_heads * 8) / 3,
        draw.reals(BATCH, 5, key_heads * 6),
        draw.reals(BATCH, key_heads, 8, 6),
        decay,
        rate,
    ]
    attrs = {"q_num_heads": heads, "kv_num_heads": key_heads, "update_rule": rule}
    agree("LinearAttention", inputs, attrs, outputs=2)


@pytest.mark.parametrize("attrs", [{}, {"activation": "silu"}, {"dilation": 2}])
def test_causal_convolutions(attrs: dict[str, Any]) -> None:
    draw, held = Drawn(8), 3 * attrs.get("dilation", 1)
    weight = draw.reals(6, 1, 4)
    inputs = [draw.reals(BATCH, 6, 7), weight, draw.reals(6), draw.reals(BATCH, 6, held)]
    agree("CausalConvWithState", inputs, attrs, outputs=2, dynamic=[(0, 0), (0, 2), (3, 0)])
    last = [draw.reals(BATCH, 7, 2, 3), weight, None, draw.reals(BATCH, held, 2, 3)]
    agree("CausalConvWithState", last, {"channels_last": 1, **attrs}, outputs=2)
    agree("CausalConvWithState", [draw.reals(BATCH, 6, 2), weight], attrs, outputs=2)


def test_mistakes_are_named() -> None:
    inputs = grouped(4, 0, 4, [4, 4])
    name = "GroupQueryAttention"
    with pytest.raises(BadAttribute, match="multiple of kv_num_heads"):
        applied(name, inputs, {"num_heads": 4, "kv_num_heads": 3})
    with pytest.raises(BadAttribute, match="needs cos_cache"):
        applied(name, inputs, settings(do_rotary=1))
    with pytest.raises(BadAttribute, match="needs past_key, past_value and k_scale"):
        applied(name, inputs, settings(k_quant_type="PER_TENSOR", kv_cache_bit_width=8))
    scaled = [*inputs[:12], number([0.1]), number([0.1])]
    with pytest.raises(TypeMismatch, match="a cache of 4 bits is uint8, not float32"):
        applied(name, scaled, settings(k_quant_type="PER_TENSOR", kv_cache_bit_width=4))
    with pytest.raises(BadAttribute, match="needs past_key, past_value and local_window_size"):
        applied(name, inputs, settings(sliding_window_cache=1))
    with pytest.raises(BadAttribute, match="the caches have 0 rows"):
        applied(name, inputs, settings(sliding_window_cache=1, local_window_size=2))
    with pytest.raises(BadAttribute, match="come together"):
        applied(name, [*inputs[:4], None, *inputs[5:]], settings())
    with pytest.raises(OpError, match="cannot be shared"):
        applied(name, [inputs[0], None, None, *inputs[3:]], settings(num_heads=6))
    x = Drawn().reals(2, 3, 10)
    with pytest.raises(OpError, match="cannot be shared by heads of 16"):
        applied("RotaryEmbedding", [x, np.array([0]), *angles()])

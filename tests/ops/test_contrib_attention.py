"""Attention of com.microsoft in all its forms, compared with onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contrib_oracle import Array, Drawn, agree, applied, close, computed, expected, fed, number

from neuralsym.errors import BadAttribute, OpError, ShapeMismatch

pytestmark = pytest.mark.oracle
BATCH, LENGTH, HIDDEN, HEADS = 2, 4, 8, 2
SIZE = HIDDEN // HEADS
ROWS = [(0, 0), (0, 1)]
"""The axes of batch and length of the first input."""


def masks(draw: Drawn, keys: int) -> dict[str, Array | None]:
    """A mask of each form; no row is without keys."""
    raw = draw.whole(BATCH, keys)
    raw[:, 0] = 1
    square = draw.whole(BATCH, LENGTH, keys)
    square[:, :, 0] = 1
    return {
        "none": None,
        "keys": raw,
        "queries and keys": square,
        "ends": np.array([keys - 1, 2], np.int32),
        "ends and starts": np.array([keys, 3, 1, 0], np.int32),
        "cumulated": np.array([3, 2, 0, 3, 5, 0, keys, 2 * keys], np.int32),
    }


@pytest.mark.parametrize("form", masks(Drawn(), LENGTH))
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_takes_every_form_of_mask(form: str, unidirectional: int) -> None:
    draw = Drawn(1)
    inputs = [
        draw.reals(BATCH, LENGTH, HIDDEN),
        draw.reals(HIDDEN, 3 * HIDDEN),
        draw.reals(3 * HIDDEN),
        masks(draw, LENGTH)[form],
    ]
    attrs = {"num_heads": HEADS, "unidirectional": unidirectional}
    agree("Attention", inputs, attrs, dynamic=ROWS)


@pytest.mark.parametrize("form", ["none", "keys", "queries and keys", "ends"])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_goes_on_from_a_past(form: str, unidirectional: int) -> None:
    draw = Drawn(2)
    inputs = [
        draw.reals(BATCH, LENGTH, HIDDEN),
        draw.reals(HIDDEN, 3 * HIDDEN),
        draw.reals(3 * HIDDEN),
        masks(draw, LENGTH + 3)[form],
        draw.reals(2, BATCH, HEADS, 3, SIZE),
    ]
    attrs = {"num_heads": HEADS, "unidirectional": unidirectional}
    dynamic = [*ROWS, (3, 0), (4, 1), (4, 3)]
    agree("Attention", inputs, attrs, outputs=2, dynamic=dynamic if form != "ends" else ROWS)


def test_attention_with_values_of_another_width_and_other_numbers() -> None:
    draw = Drawn(3)
    x = draw.reals(BATCH, LENGTH, HIDDEN)
    attrs: dict[str, Any] = {"num_heads": HEADS, "qkv_hidden_sizes": (8, 8, 12)}
    mask = masks(draw, LENGTH)["keys"]
    weights = draw.reals(HIDDEN, 28)
    attrs |= {"mask_filter_value": -5.0, "scale": 0.3}
    agree("Attention", [x, weights, draw.reals(28), mask], attrs)
    bias = draw.reals(1, HEADS, LENGTH, LENGTH)
    agree("Attention", [x, weights, None, mask, None, bias], attrs)


def test_a_mask_whose_length_only_the_run_knows() -> None:
    draw = Drawn(4)
    inputs = [draw.reals(BATCH, LENGTH, HIDDEN), draw.reals(HIDDEN, 24), draw.reals(24)]
    for form in ("ends", "ends and starts", "cumulated"):
        mask = masks(draw, LENGTH)[form]
        assert mask is not None
        dynamic = [(0, 0), (3, 0)] if form == "ends" else [*ROWS, (3, 0)]
        symbols = applied("Attention", [*inputs, mask], {"num_heads": HEADS}, dynamic=dynamic)
        feeds = fed([*inputs, mask])
        close(computed(symbols, feeds)[0], expected(symbols, feeds)[0])


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("form", ["none", "keys", "queries and keys", "ends"])
def test_quantised_attention(signed: bool, form: str) -> None:
    draw = Drawn(5)
    zero = number(0 if signed else 120, np.int8 if signed else np.uint8)
    inputs = [
        draw.bytes(BATCH, LENGTH, HIDDEN),
        draw.bytes(HIDDEN, 3 * HIDDEN, signed=signed),
        draw.reals(3 * HIDDEN),
        number(0.01),
        number(0.02),
        masks(draw, LENGTH)[form],
        number(128, np.uint8),
        zero,
    ]
    agree("QAttention", inputs, {"num_heads": HEADS, "unidirectional": 1}, dynamic=ROWS)


def test_quantised_attention_by_column_with_a_past() -> None:
    draw = Drawn(6)
    inputs = [
        draw.bytes(BATCH, LENGTH, HIDDEN),
        draw.bytes(HIDDEN, 3 * HIDDEN, signed=True),
        draw.reals(3 * HIDDEN),
        number(0.01),
        np.full(3 * HIDDEN, 0.02, np.float32),
        masks(draw, LENGTH + 2)["keys"],
        number(128, np.uint8),
        np.zeros(3 * HIDDEN, np.int8),
        draw.reals(2, BATCH, HEADS, 2, SIZE),
    ]
    agree("QAttention", inputs, {"num_heads": HEADS}, outputs=2)


@pytest.mark.parametrize("form", ["none", "keys", "queries and keys", "ends", "cumulated"])
def test_multi_head_attention_over_other_keys(form: str) -> None:
    draw, keys = Drawn(7), 5
    inputs = [
        draw.reals(BATCH, LENGTH, HIDDEN),
        draw.reals(BATCH, keys, HIDDEN),
        draw.reals(BATCH, keys, 12),
        draw.reals(28),
        masks(draw, keys)[form],
        draw.reals(BATCH, HEADS, LENGTH, keys),
    ]
    dynamic = [*ROWS, (1, 0), (1, 1), (2, 0), (2, 1), (5, 0)]
    agree("MultiHeadAttention", inputs, {"num_heads": HEADS}, dynamic=dynamic)


def test_multi_head_attention_with_keys_of_an_encoder_or_a_past() -> None:
    draw = Drawn(8)
    query = draw.reals(BATCH, LENGTH, HIDDEN)
    encoded = [draw.reals(BATCH, HEADS, 5, SIZE) for _ in range(2)]
    for bias in (None, draw.reals(3 * HIDDEN)):
        agree("MultiHeadAttention", [query, *encoded, bias], {"num_heads": HEADS, "scale": 0.7})
    new = [draw.reals(BATCH, LENGTH, HIDDEN) for _ in range(2)]
    past = [draw.reals(BATCH, HEADS, 3, SIZE) for _ in range(2)]
    inputs = [query, *new, draw.reals(3 * HIDDEN), None, None, *past]
    attrs = {"num_heads": HEADS, "unidirectional": 1}
    agree("MultiHeadAttention", inputs, attrs, outputs=4)
    agree("MultiHeadAttention", inputs[:4], attrs, outputs=3)


def test_packed_queries_keys_and_values() -> None:
    # onnxruntime's CPU kernel does not take them: the same numbers side by side must agree.
    draw = Drawn(9)
    q, k, v = (draw.reals(BATCH, LENGTH, HEADS, SIZE) for _ in range(3))
    flat = [x.reshape(BATCH, LENGTH, HIDDEN) for x in (q, k, v)]
    bias = draw.reals(3 * HIDDEN)
    attrs = {"num_heads": HEADS}
    want = agree("MultiHeadAttention", [*flat, bias], attrs)[0]
    for inputs in (
        [np.stack([q, k, v], 3), None, None, bias],
        [flat[0], np.stack([k, v], 3), None, bias],
    ):
        close(computed(applied("MultiHeadAttention", inputs, attrs), fed(inputs))[0], want)


def test_order_of_time_with_more_keys_than_queries() -> None:
    # onnxruntime lets the last query see all keys; the text lets a query see earlier ones only.
    draw = Drawn(10)
    inputs = [draw.reals(1, 2, SIZE), draw.reals(1, 3, SIZE), draw.reals(1, 3, SIZE)]
    attrs = {"num_heads": 1, "unidirectional": 1}
    got = computed(applied("MultiHeadAttention", inputs, attrs), fed(inputs))[0][0]
    q, k, v = (x[0] for x in inputs)
    scores = q[1] @ k[:2].T / np.sqrt(SIZE)
    weights = np.exp(scores) / np.exp(scores).sum()
    close(got[1], (weights @ v[:2]).astype(np.float32))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_a_decoder_writes_into_its_buffer(masked: bool, biased: bool) -> None:
    draw, most, before = Drawn(11), 10, 5
    mask = masks(draw, before + 1)["keys"] if masked else None
    inputs = [
        *(draw.reals(BATCH, 1, HIDDEN) for _ in range(3)),
        mask,
        None,
        *(draw.reals(BATCH, HEADS, most, SIZE) for _ in range(2)),
        np.array([before], np.int32),
        None,
        None,
        draw.reals(3 * HIDDEN) if biased else None,
    ]
    attrs = {"num_heads": HEADS, "past_present_share_buffer": 1}
    agree("DecoderMaskedMultiHeadAttention", inputs, attrs, outputs=3)


def test_a_decoder_attends_to_an_encoder() -> None:
    draw = Drawn(12)
    inputs = [
        draw.reals(BATCH, 1, HIDDEN),
        *(draw.reals(BATCH, HEADS, 5, SIZE) for _ in range(2)),
        masks(draw, 5)["keys"],
        *[None] * 6,
        draw.reals(3 * HIDDEN),
    ]
    agree("DecoderMaskedMultiHeadAttention", inputs, {"num_heads": HEADS})


def test_a_shared_buffer_gives_what_a_growing_past_gives() -> None:
    # onnxruntime's CPU kernel of Attention has no such buffers.
    draw, before, most = Drawn(15), 3, 9
    inputs = [draw.reals(BATCH, LENGTH, HIDDEN), draw.reals(HIDDEN, 24), draw.reals(24), None]
    past = draw.reals(2, BATCH, HEADS, before, SIZE)
    attrs = {"num_heads": HEADS, "unidirectional": 1}
    want = agree("Attention", [*inputs, past], attrs, outputs=2)
    buffer = draw.reals(2, BATCH, HEADS, most, SIZE)
    buffer[:, :, :, :before] = past
    shared = [*inputs, buffer, None, np.array([before], np.int32)]
    attrs["past_present_share_buffer"] = 1
    y, present = computed(applied("Attention", shared, attrs, outputs=2), fed(shared))
    close(y, want[0])
    end = before + LENGTH
    close(present[:, :, :, :end], want[1])
    np.testing.assert_array_equal(present[:, :, :, end:], buffer[:, :, :, end:])


def test_half_precision() -> None:
    draw = Drawn(13)
    inputs = [draw.reals(BATCH, LENGTH, HIDDEN), draw.reals(HIDDEN, 24) / 3, draw.reals(24)]
    mask = masks(draw, LENGTH)["keys"]
    attrs = {"num_heads": HEADS, "unidirectional": 1}
    want = agree("Attention", [*inputs, mask], attrs)[0]
    half = [*(x.astype(np.float16) for x in inputs), mask]
    got = computed(applied("Attention", half, attrs), fed(half))[0]
    assert got.dtype == np.float16
    close(got.astype(np.float32), want, tolerance=2e-2)


def test_mistakes_are_named() -> None:
    draw = Drawn(14)
    x, w = draw.reals(BATCH, LENGTH, HIDDEN), draw.reals(HIDDEN, 3 * HIDDEN)
    with pytest.raises(ShapeMismatch, match="8 columns cannot be shared by 3 heads"):
        applied("Attention", [x, w], {"num_heads": 3})
    with pytest.raises(BadAttribute, match="num_heads"):
        applied("Attention", [x, w], {"num_heads": 0})
    with pytest.raises(BadAttribute, match="do_rotary"):
        applied("Attention", [x, w], {"num_heads": 2, "do_rotary": 1})
    with pytest.raises(ShapeMismatch, match="input has 2 axes, 3 are needed"):
        applied("Attention", [x[0], w], {"num_heads": 2})
    with pytest.raises(OpError, match="Attention"):
        applied("Attention", [x, w[:5]], {"num_heads": 2})
    with pytest.raises(OpError, match="no attribute"):
        applied("Attention", [x, w], {"num_heads": 2, "heads": 2})

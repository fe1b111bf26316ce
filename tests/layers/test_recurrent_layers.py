"""What recurrent layers and cells compute, against plain numpy in float64."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from sequence_values import Array, agree, inputs, normal, sigmoid, values

from neuralsym import BadAttribute, Network, ShapeMismatch
from neuralsym import layers as nn
from neuralsym.layers.recurrent_weights import from_keras, from_torch


def lstm_step(x: Array, h: Array, c: Array, w: Array, r: Array, b: Array) -> tuple[Array, Array]:
    i, o, f, g = np.split(x @ w.T + h @ r.T + b, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def weights_of(units: int, features: int, gates: int, directions: int = 1) -> dict[str, Array]:
    return {
        "kernel": normal(directions, gates * units, features),
        "recurrent_kernel": normal(directions, gates * units, units),
        "bias": normal(directions, gates * units),
    }


def unrolled(
    x: Array, made: dict[str, Array], direction: int, mask: Array | None = None, back: bool = False
) -> tuple[Array, Array, Array]:
    """Keras's meaning of a mask: a step that does not count keeps state and output."""
    w, r, b = (made[k][direction].astype(float) for k in ("kernel", "recurrent_kernel", "bias"))
    n, t, units = x.shape[0], x.shape[1], r.shape[1]
    h, c, out = np.zeros((n, units)), np.zeros((n, units)), np.zeros((n, units))
    y = np.zeros((n, t, units))
    for step in reversed(range(t)) if back else range(t):
        kept = np.ones((n, 1), bool) if mask is None else mask[:, step, None]
        new_h, new_c = lstm_step(x[:, step].astype(float), h, c, w, r, b)
        h, c, out = np.where(kept, new_h, h), np.where(kept, new_c, c), np.where(kept, new_h, out)
        y[:, step] = out
    return y, h, c


def test_lstm() -> None:
    x, made = normal(2, 5, 3), weights_of(4, 3, 4)
    y, h, c = unrolled(x, made, 0)
    (a,) = inputs(x, free=2)
    agree(values(a | nn.lstm(4), [x], made), [h])
    everything = nn.lstm(4, return_sequences=True, return_state=True)
    agree(values(a | everything, [x], made), [y, h, c])
    y, h, _ = unrolled(x, made, 0, back=True)
    backwards = nn.lstm(4, return_sequences=True, go_backwards=True)
    agree(values(a | backwards, [x], made), [y[:, ::-1]])


def test_masked_steps_are_skipped_wherever_they_are() -> None:
    x, made = normal(3, 6, 3), weights_of(4, 3, 4, 2)
    mask = np.array([[1, 1, 0, 1, 0, 0], [0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]], bool)
    one = {k: v[:1] for k, v in made.items()}
    y, h, c = unrolled(x, one, 0, mask)
    a, b = inputs(x, mask, free=2)
    layer = nn.lstm(4, return_sequences=True, return_state=True)
    agree(values((a, b) | layer, [x, mask], one), [y, h, c])
    zeros = nn.lstm(4, return_sequences=True, mask=b, zero_output_for_mask=True)
    agree(values(a | zeros, [x, mask], one), [y * mask[..., None]])
    back, _, _ = unrolled(x, made, 1, mask, back=True)
    both = np.concatenate([y, back], -1) * mask[..., None]
    got = values((a, b) | nn.bidirectional(nn.lstm(4, return_sequences=True)), [x, mask], made)
    agree(got, [both])


def test_masking_gives_values_and_mask() -> None:
    x = normal(2, 4, 3)
    x[0, 1:3] = 0
    (a,) = inputs(x)
    shown, mask = values(a | nn.masking(), [x])
    assert mask.dtype == bool
    assert mask.tolist() == [[True, False, False, True], [True] * 4]
    made = weights_of(4, 3, 4)
    agree(values(a | nn.masking() | nn.lstm(4), [x], made), [unrolled(x, made, 0, mask)[1]])
    agree([shown], [x])


def test_lengths_leave_zeros_behind_the_end() -> None:
    x, made, lengths = normal(2, 5, 3), weights_of(4, 3, 4), np.array([2, 5])
    y, h, c = unrolled(x, made, 0, np.arange(5) < lengths[:, None])
    y[0, 2:] = 0
    a, b = inputs(x, lengths)
    layer = nn.lstm(4, return_sequences=True, return_state=True, lengths=b)
    agree(values(a | layer, [x, lengths], made), [y, h, c])


def test_an_activation_that_onnx_lacks_runs_in_a_scan() -> None:
    x, made = normal(2, 4, 3), weights_of(4, 3, 4, 2)
    (a,) = inputs(x, free=2)
    same = [
        values(a | nn.lstm(4, activation=f, bidirectional=True, return_sequences=True), [x], made)
        for f in ("tanh", lambda x: nn.tanh(x))
    ]
    agree(same[1], same[0])


def test_gru_before_and_after() -> None:
    x, h = normal(2, 3), normal(2, 4)
    for after in (True, False):
        made = weights_of(4, 3, 3)
        made["bias"] = normal(1, 24 if after else 12)
        w, r = made["kernel"][0].astype(float), made["recurrent_kernel"][0].astype(float)
        b, again = np.split(made["bias"][0], 2) if after else (made["bias"][0], np.zeros(12))
        xz, xr, xh = np.split(x @ w.T + b, 3, -1)
        hz, hr, hh = np.split(h @ r.T + again, 3, -1)
        reset, z = sigmoid(xr + hr), sigmoid(xz + hz)
        new = np.tanh(xh + (reset * hh if after else (reset * h) @ r[8:].T))
        expected = z * h + (1 - z) * new
        a, b_ = inputs(x, h)
        agree(values((a, b_) | nn.gru_cell(4, reset_after=after), [x, h], made), [expected])
        xs = inputs(x[:, None], h)
        got = values(xs | nn.gru(4, reset_after=after), [x[:, None], h], made)
        agree(got, [expected])


def test_stacks_and_states_of_stacks() -> None:
    x = normal(2, 4, 3)
    low, high = weights_of(4, 3, 1), weights_of(4, 4, 1)
    made = low | {f"{k}_1": v for k, v in high.items()}
    states: list[Array] = []
    flow = x.astype(float)
    for part in (low, high):
        h, ys = np.zeros((2, 4)), []
        for t in range(4):
            total = flow[:, t] @ part["kernel"][0].T + h @ part["recurrent_kernel"][0].T
            h = np.tanh(total + part["bias"][0])
            ys.append(h)
        flow = np.stack(ys, 1)
        states.append(h)
    (a,) = inputs(x)
    layer = nn.simple_rnn(4, num_layers=2, return_sequences=True, return_state=True)
    agree(values(a | layer, [x], made), [flow, *states])
    first = nn.simple_rnn_cell(4, name="low"), nn.simple_rnn_cell(4, name="high")
    scoped = {f"low/{k}": v for k, v in low.items()} | {f"high/{k}": v for k, v in high.items()}
    agree(values(a | nn.rnn(first, return_sequences=True), [x], scoped), [flow])


def test_any_function_is_a_cell() -> None:
    x, start = normal(2, 5, 3), normal(2, 3)
    a, b = inputs(x, start)
    got = values((a, b) | nn.rnn(lambda xs: xs[0] + xs[1] * 0.5), [x, start])
    expected = start.astype(float)
    for t in range(5):
        expected = x[:, t] + expected * 0.5
    agree(got, [expected])
    with pytest.raises(BadAttribute, match="initial_state must be given"):
        a | nn.rnn(lambda xs: xs[0])


def test_weights_of_others_are_put_in_order() -> None:
    """Keras's i f c o and torch's i f g o become ONNX's i o f c; torch's r z n becomes z r h."""
    blocks = np.repeat(np.arange(4.0), 2)[:, None] * np.ones((8, 3))
    for found in (
        from_keras("lstm", [blocks.T, np.ones((2, 8)), np.ones(8)]),
        from_torch("lstm", [blocks, np.ones((8, 2)), np.ones(8), np.ones(8)]),
    ):
        assert found["kernel"].shape == (1, 8, 3)
        assert found["kernel"][0, ::2, 0].tolist() == [0, 3, 1, 2]
    found = from_torch("gru", [blocks[:6], np.ones((6, 2))])
    assert found["kernel"][0, ::2, 0].tolist() == [1, 0, 2]
    assert "bias" not in found
    with pytest.raises(ShapeMismatch, match="4 gates of 2 units"):
        from_keras("lstm", [np.ones((3, 7)), np.ones((2, 8))])
    with pytest.raises(BadAttribute, match="'lstm'"):
        from_keras("lstn", [])


def test_parameters_and_first_values() -> None:
    network: Network = nn.input(("N", 7, 5)) | nn.lstm(6, name="l") | nn.get_network(seed=3)
    assert sum(v.size for v in network.weights.values()) == 4 * 6 * (5 + 6 + 1)
    bias = network.weights["l/bias"][0]
    assert bias.tolist() == [0.0] * 12 + [1.0] * 6 + [0.0] * 6  # i, o, f, c
    recurrent = network.weights["l/recurrent_kernel"][0].astype(float)
    np.testing.assert_allclose(recurrent.T @ recurrent, np.eye(6), atol=1e-6)
    limit = np.sqrt(6 / (5 + 24))
    kernel = network.weights["l/kernel"]
    assert 0.9 * limit < np.abs(kernel).max() <= limit
    digest = hashlib.sha256(recurrent.astype("<f4").tobytes() + kernel.astype("<f4").tobytes())
    assert digest.hexdigest()[:16] == "c40d84ce74eb5522"
    assert "LSTM" in network.explain()
    assert "by recurrent" in network.explain()

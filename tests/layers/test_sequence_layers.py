"""What attention and other layers of sequences compute, against numpy in float64; mistakes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sequence_values import RNG, Array, agree, inputs, normal, put, softmax, values

from neuralsym import BadAttribute, Network, ShapeMismatch, TypeMismatch
from neuralsym import layers as nn
from neuralsym.layers.waves import Stft, cosine


# -- attention ---------------------------------------------------------------------------------
def test_attention_with_masks() -> None:
    q, v = normal(2, 3, 4), normal(2, 5, 4)
    keep, rows = np.array([[1, 1, 0, 1, 1], [1, 0, 0, 0, 0]], bool), np.array([[1, 1, 0]] * 2, bool)
    a, b, c, d = inputs(q, v, keep, rows)
    scores = q.astype(float) @ v.transpose(0, 2, 1)
    weights = softmax(np.where(keep[:, None], scores, -np.inf))
    layer = nn.attention(value_mask=c, query_mask=d, return_attention_scores=True)
    got = values((a, b) | layer, [q, v, keep, rows])
    agree(got, [weights @ v * rows[..., None], weights])
    sums = np.tanh(q[:, :, None].astype(float) + v[:, None]).sum(-1)
    added = nn.additive_attention(use_scale=False, use_causal_mask=True)
    allowed = np.tri(3, 5, dtype=bool)
    agree(values((a, b) | added, [q, v]), [softmax(np.where(allowed, sums, -np.inf)) @ v])


def projections(features: int, *widths: int) -> dict[str, Array]:
    made = {}
    for name, n, wide in zip(("query", "key", "value"), [features] * 3, widths, strict=False):
        made |= {f"{name}/kernel": normal(n, wide), f"{name}/bias": normal(wide)}
    last = {"kernel": normal(widths[3], widths[4]), "bias": normal(widths[4])}
    return made | {f"attention_output/{k}": v for k, v in last.items()}


def attended(
    x: Array, made: dict[str, Array], heads: int, kv_heads: int, allowed: Array
) -> tuple[Array, Array]:
    q, k, v = (
        x.astype(float) @ made[f"{n}/kernel"] + made[f"{n}/bias"] for n in ("query", "key", "value")
    )
    split = [
        p.reshape(*p.shape[:2], n, -1).transpose(0, 2, 1, 3)
        for p, n in ((q, heads), (k, kv_heads), (v, kv_heads))
    ]
    q, k, v = (np.repeat(p, heads // p.shape[1], axis=1) for p in split)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    weights = softmax(np.where(allowed, scores, -np.inf))
    y = (weights @ v).transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
    return y @ made["attention_output/kernel"] + made["attention_output/bias"], weights


def test_heads() -> None:
    x, mask = normal(2, 4, 6), RNG.random((2, 4, 4)) < 0.6
    mask |= np.eye(4, dtype=bool)
    made = projections(6, 6, 6, 9, 9, 6)
    a, b = inputs(x, mask, free=2)
    layer = nn.multi_head_attention(3, 2, 3, attention_mask=b, return_attention_scores=True)
    agree(values(a | layer, [x, mask], made), attended(x, made, 3, 3, mask[:, None]))
    near = np.abs(np.arange(4)[:, None] - np.arange(4)) < 2
    layer = nn.multi_head_attention(3, 2, 3, use_causal_mask=True, sliding_window=2)
    expected = attended(x, made, 3, 3, near & np.tri(4, dtype=bool))[:1]
    agree(values(a | layer, [x], made), expected)
    packed = {
        f"qkv/{k}": np.concatenate([made[f"{n}/{k}"] for n in ("query", "key", "value")], -1)
        for k in ("kernel", "bias")
    } | {k: v for k, v in made.items() if k.startswith("attention_output")}
    layer = nn.multi_head_attention(3, 2, 3, packed=True)
    agree(values(a | layer, [x], packed), attended(x, made, 3, 3, np.array(True))[:1])


def test_shared_heads() -> None:
    x = normal(2, 4, 6)
    made = projections(6, 8, 4, 4, 8, 6)
    (a,) = inputs(x, free=2)
    got = values(a | nn.grouped_query_attention(2, 4, 2), [x], made)
    agree(got, attended(x, made, 4, 2, np.array(True))[:1])


def test_heads_over_images_attend_to_all_places() -> None:
    x = normal(2, 2, 3, 6)
    made = projections(6, 6, 6, 6, 6, 6)
    (a,) = inputs(x)
    flat = attended(x.reshape(2, 6, 6), made, 3, 3, np.array(True))[0]
    agree(values(a | nn.multi_head_attention(3, 2), [x], made), [flat.reshape(2, 2, 3, 6)])
    rows = attended(x.reshape(4, 3, 6), made, 3, 3, np.array(True))[0]
    layer = nn.multi_head_attention(3, 2, attention_axes=2)
    agree(values(a | layer, [x], made), [rows.reshape(2, 2, 3, 6)])


# -- tables, equations, norms ------------------------------------------------------------------
def test_embeddings() -> None:
    ids, table = np.array([[0, 2, 1], [3, 0, 0]]), normal(4, 5)
    (a,) = inputs(ids)
    found, mask = values(a | nn.embedding(4, 5, mask_zero=True), [ids], {"embeddings": table})
    assert np.array_equal(found, table[ids])
    assert np.array_equal(mask, ids != 0)
    network: Network = a | nn.embedding(4, 5, padding_idx=1) | nn.get_network()
    (drawn,) = network.weights.values()
    assert not drawn[1].any()
    assert drawn[0].any()
    held = {"embeddings": table}
    bag = nn.embedding_bag(4, 5, padding_idx=0)
    mean = np.stack([table[[2, 1]].mean(0), table[3]])
    agree(values(a | bag, [ids], held), [mean])
    agree(values(a | nn.embedding_bag(4, 5, "max"), [ids], held), [table[ids].max(1)])
    twice = nn.reversible_embedding(4, 5, logit_soft_cap=3.0)
    scores = table[ids].astype(float) @ table.T
    agree(values(a | twice | twice, [ids], held), [3 * np.tanh(scores / 3)])


def test_einsum_dense() -> None:
    x, w, b = normal(2, 3, 4), normal(4, 5, 6), normal(5, 6)
    (a,) = inputs(x, free=2)
    layer = nn.einsum_dense("abc,cde->abde", (None, 5, 6), bias_axes="de")
    expected = np.einsum("abc,cde->abde", x.astype(float), w) + b
    agree(values(a | layer, [x], {"kernel": w, "bias": b}), [expected])
    for equation, shape, text in (
        ("abc,cd", 5, "write it as"),
        ("abc,cd->abd", 5, "one size for each of b, d"),
        ("abc,cde->abd", (3, 6), "in neither other part"),
        ("abc,cd->abd", (5, 6), "size 3"),
    ):
        with pytest.raises((BadAttribute, ShapeMismatch), match=text):
            nn.input(("N", 3, 4)) | nn.einsum_dense(equation, shape)


def test_norms_over_any_axes() -> None:
    x, gamma, beta = normal(2, 3, 4, 5), normal(5, 3), normal(5, 3)
    (a,) = inputs(x)
    z = x.astype(float)
    z = (z - z.mean((1, 3), keepdims=True)) / np.sqrt(z.var((1, 3), keepdims=True) + 1e-3)
    shown = [w.T[None, :, None, :] for w in (gamma, beta)]
    layer = nn.layer_norm((3, 1))
    agree(values(a | layer, [x], {"gamma": gamma, "beta": beta}), [z * shown[0] + shown[1]])
    scale = normal(4)
    rms = x / np.sqrt((x.astype(float) ** 2).mean(2, keepdims=True) + 1e-6)
    agree(values(a | nn.rms_norm(2), [x], {"gamma": scale}), [rms * scale[:, None]])
    length = np.sqrt((x.astype(float) ** 2).sum((1, 2), keepdims=True))
    agree(values(a | nn.unit_norm((1, 2)), [x]), [x / length])
    still = np.zeros_like(x)
    agree(values(a | nn.unit_norm(1), [still]), [still])


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_local_response_norm(rank: int) -> None:
    x = normal(2, 6, *(3, 4, 2)[: rank - 2])
    (a,) = inputs(x)
    squares = np.pad(x.astype(float) ** 2, [(0, 0), (1, 1), *[(0, 0)] * (rank - 2)])
    total = sum(squares[:, i : i + 6] for i in range(3))
    expected = x / (2 + 0.5 / 3 * total) ** 0.6
    agree(values(a | nn.local_response_norm(3, 0.5, 0.6, 2.0), [x]), [expected])


def test_time_distributed_and_spectral_norm() -> None:
    x, w = normal(2, 3, 4, 5), normal(20, 6)
    for free in (1, 2):
        (a,) = inputs(x, free=free)
        layer = nn.time_distributed(nn.fully_connected(6, use_bias=False))
        expected = x.astype(float).reshape(2, 3, 20) @ w
        agree(values(a | layer, [x], {"kernel": w}), [expected])
    (a,) = inputs(x)
    assert values(a | nn.spectral_norm(nn.relu()), [x])[0].min() == 0


# -- positions ---------------------------------------------------------------------------------
@pytest.mark.parametrize("free", [1, 2])
def test_positions(free: int) -> None:
    x = normal(2, 5, 8)
    (a,) = inputs(x, free=free)
    table = normal(7, 8)
    added = values(a | nn.position_embedding(7), [x], {"embeddings": table})
    agree(added, [x + table[:5]])
    t, i = np.arange(5)[:, None], np.arange(4)
    angle = t / 10000 ** (2 * i / 8)
    waves = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(5, 8)
    agree(values(a | nn.sinusoidal_positions(), [x]), [x + waves])
    angle = t / 10000 ** (2 * np.arange(2) / 4)
    turned = (x[..., :2] + 1j * x[..., 2:4]) * np.exp(1j * angle)
    other = (x[..., 4:6] + 1j * x[..., 6:]) * np.exp(1j * angle)
    expected = [turned.real, turned.imag, other.real, other.imag]
    agree(values(a | nn.rotary_embedding(2), [x]), [np.concatenate(expected, -1)])


# -- lookups and spectra -----------------------------------------------------------------------
def test_lookups() -> None:
    words = np.array([["red", "sea"], ["blue", ""]], object)
    (a,) = inputs(words)
    said: dict[str, Any] = {"vocabulary": ["red", "blue"]}
    assert values(a | nn.string_lookup(**said), [words])[0].tolist() == [[1, 0], [2, 0]]
    masked = nn.string_lookup(**said, mask_token="")
    assert values(a | masked, [words])[0].tolist() == [[2, 1], [3, 0]]
    counts = nn.string_lookup(**said, mask_token="", output_mode="count")
    assert values(a | counts, [words])[0].tolist() == [[1, 1, 0], [0, 0, 1]]
    rare = nn.string_lookup(**said, output_mode="tf_idf", idf_weights=[2, 4])
    assert values(a | rare, [words])[0].tolist() == [[3, 2, 0], [3, 0, 4]]
    (b,) = inputs(np.array([[1, 2, 0, 7]]))
    back = values(b | nn.string_lookup(**said, invert=True), [np.array([[1, 2, 0, 7]])])
    assert back[0].tolist() == [["red", "blue", "[UNK]", "[UNK]"]]
    numbers = np.array([[5, 9, 3, 4]])
    found = values(b | nn.integer_lookup([5, 3], num_oov_indices=2), [numbers])
    assert found[0].tolist() == [[2, 1, 3, 0]]
    with pytest.raises(BadAttribute, match="hash"):
        a | nn.string_lookup(**said, num_oov_indices=2)
    with pytest.raises(TypeMismatch, match="strings"):
        b | nn.string_lookup(**said)


def test_stft_spectrogram() -> None:
    x = normal(2, 1, 200)
    (a,) = inputs(x)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(40) / 40)
    starts = range(0, 161, 10)
    frames = np.stack([x[:, 0, s : s + 40] * window for s in starts], 1)
    bins = np.fft.rfft(frames, 64).transpose(0, 2, 1)
    said: dict[str, Any] = {"frame_length": 40, "frame_step": 10, "periodic": True}
    got = values(a | nn.stft_spectrogram("stft", scaling=None, **said), [x])
    agree(got, [np.concatenate([bins.real, bins.imag], 1)])
    got = values(a | nn.stft_spectrogram("magnitude", scaling="spectrum", **said), [x])
    agree(got, [np.abs(bins) / window.sum()], 1e-4)


@pytest.mark.slow  # the transform's kernel takes its time to compile
def test_mel_spectrogram_of_a_tone() -> None:
    """A tone of 1 kHz lies in the band around it, and 80 dB is the most that any is below."""
    x = np.sin(2 * np.pi * 1000 * np.arange(4000) / 16000).astype("f")[None]
    (a,) = inputs(x, free=1)
    (got,) = values(a | nn.mel_spectrogram(fft_length=512, num_mel_bins=40), [x])
    assert got.shape == (1, 40, 8)
    edges = np.linspace(*(2595 * np.log10(1 + np.array([20, 8000]) / 700)), 42)
    centres = 700 * (10 ** (edges[1:-1] / 2595) - 1)
    assert set(got[0, :, 2:-2].argmax(0)) == {np.abs(centres - 1000).argmin()}
    assert got.max() - got.min() <= 80 + 1e-3


def test_bases_are_the_same_on_every_machine() -> None:
    turns = np.arange(-3000, 3000)
    exact = np.cos(2 * np.pi * turns / 441)
    np.testing.assert_allclose(cosine(turns, 441), exact, rtol=0, atol=2e-15 * 50)
    assert cosine(np.arange(4), 4).tolist() == [1, 0, -1, 0]
    kernel = Stft("imag", "blackman").draw((33, 1, 50), key=(0, "w"))
    digest = hashlib.sha256(kernel.astype("<f4").tobytes()).hexdigest()
    assert digest[:16] == "d592c312ec7cc59a"


# -- mistakes ----------------------------------------------------------------------------------
X = nn.input(("N", 5, 3), name="x")
MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: X | nn.lstm(0), BadAttribute, "units=0"),
    (lambda: X | nn.lstm(4, num_layers=0), BadAttribute, "num_layers=0"),
    (lambda: X | nn.gru(4, recurrent_dropout=1.0), BadAttribute, "recurrent_dropout=1.0"),
    (lambda: X | nn.multi_head_attention(2, 4, dropout=-0.5), BadAttribute, "dropout=-0.5"),
    (lambda: X | nn.lstm(4, merge_mode="cat"), BadAttribute, "merge_mode='cat'"),
    (lambda: X | nn.gru(4, bidirectional=True, go_backwards=True), BadAttribute, "both ways"),
    (lambda: nn.input(("N", 3)) | nn.lstm(4), ShapeMismatch, "rank 3"),
    (lambda: nn.input(("N", 5, "F")) | nn.lstm(4), ShapeMismatch, "fixed size"),
    (lambda: (X, X) | nn.lstm(4), BadAttribute, "takes 2 initial states"),
    (
        lambda: X | nn.gru(4, initial_state=nn.input(("N", 3))),
        ShapeMismatch,
        r"an initial state is \[N, 4\]",
    ),
    (lambda: X | nn.lstm(4, mask=nn.input(("N", 6), "bool")), ShapeMismatch, "does not fit"),
    (lambda: X | nn.lstm(4, mask=nn.input(("N", 5))), TypeMismatch, "mask is bool"),
    (lambda: X | nn.lstm(4, lengths=nn.input(("N",))), TypeMismatch, "lengths are integers"),
    (lambda: X | nn.bidirectional(nn.dense(4)), BadAttribute, "not dense|not linear"),
    (lambda: X | nn.multi_head_attention(0, 4), BadAttribute, "num_heads=0"),
    (lambda: X | nn.grouped_query_attention(4, 4, 3), BadAttribute, "must divide"),
    (
        lambda: (X, X + 1.0) | nn.multi_head_attention(2, 4, packed=True),
        BadAttribute,
        "self-attention",
    ),
    (lambda: X | nn.multi_head_attention(2, 4, sliding_window=0), BadAttribute, "sliding_window"),
    (lambda: X | nn.transformer_encoder_layer(2), BadAttribute, "must divide the features"),
    (lambda: X | nn.embedding(4, 2), TypeMismatch, "indices"),
    (lambda: X | nn.position_embedding(4), ShapeMismatch, "5 steps"),
    (lambda: X | nn.rotary_embedding(), BadAttribute, "no pairs"),
    (lambda: X | nn.layer_norm((1, 1)), BadAttribute, "occurs twice"),
    (lambda: X | nn.unit_norm(3), BadAttribute, "no such axes"),
    (lambda: X | nn.local_response_norm(4), BadAttribute, "size=4"),
    (lambda: X | nn.stft_spectrogram("logs"), BadAttribute, "'log'"),
    (lambda: X | nn.stft_spectrogram(frame_length=2), BadAttribute, "zero everywhere"),
    (lambda: X | nn.stft_spectrogram(window="hannn"), BadAttribute, "'hann'"),
    (lambda: nn.input(("N", 9)) | nn.mel_spectrogram(fft_length=0), BadAttribute, "fft_length"),
]


@pytest.mark.parametrize(("build", "error", "text"), MISTAKES)
def test_mistakes(build: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        build()
    assert "test_sequence_layers.py:" in str(caught.value)


def test_a_layer_shares_its_weights_and_a_copy_does_not() -> None:
    layer = nn.lstm(3, return_sequences=True)
    network: Network = X | layer | layer | layer.copy() | nn.get_network()
    assert len(network.weights) == 6
    put(network, {})

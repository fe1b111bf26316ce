"""Recurrent, attention, embedding, normalising and lookup layers against Keras 3."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np
import pytest
from sequence_values import RNG, Array, agree, inputs, normal, values

from neuralsym import Symbol
from neuralsym import layers as nn
from neuralsym.layers.recurrent_weights import from_keras

os.environ.setdefault("KERAS_BACKEND", "torch")
for package in ("keras", os.environ["KERAS_BACKEND"]):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

import keras  # noqa: E402
from keras import layers as kl  # noqa: E402

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]


def drawn(layer: Any, *shapes: Any, spread: float = 0.5) -> list[Array]:
    """Draws the weights of a Keras layer, built for these shapes."""
    if not layer.built:
        layer.build(*shapes)
    weights = [
        RNG.uniform(0.5, 1.5, w.shape)
        if w.path.endswith("variance")
        else RNG.standard_normal(w.shape) * spread
        for w in layer.weights
    ]
    layer.set_weights([w.astype("f") for w in weights])
    return layer.get_weights()


def theirs(result: Any) -> list[Array]:
    many = result if isinstance(result, (list, tuple)) else [result]
    return [np.asarray(keras.ops.convert_to_numpy(r)) for r in many]


KINDS = {
    "lstm": (kl.LSTM, nn.lstm, kl.LSTMCell, nn.lstm_cell),
    "gru": (kl.GRU, nn.gru, kl.GRUCell, nn.gru_cell),
    "simple_rnn": (kl.SimpleRNN, nn.simple_rnn, kl.SimpleRNNCell, nn.simple_rnn_cell),
}
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *((kind, {}) for kind in KINDS),
    *((kind, {"use_bias": False}) for kind in KINDS),
    *((kind, {"activation": "relu"}) for kind in KINDS),
    *((kind, {"activation": "gelu"}) for kind in KINDS),  # no ONNX operator has it
    *((kind, {"activation": None}) for kind in KINDS),
    ("lstm", {"recurrent_activation": "hard_sigmoid", "activation": "elu"}),
    ("gru", {"recurrent_activation": "hard_sigmoid", "activation": "softsign"}),
    ("gru", {"reset_after": False}),
    ("gru", {"reset_after": False, "activation": "gelu"}),
]
WAYS: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"go_backwards": True}, False),
    *(({"merge_mode": mode}, True) for mode in ("concat", "sum", "ave", "mul", None)),
]


CASES = [
    (kind, settings, way, both)
    for i, (kind, settings) in enumerate(SETTINGS)
    for way, both in (WAYS if i < len(KINDS) else WAYS[:3])
]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("kind", "settings", "way", "both"), CASES)
def test_recurrent(
    kind: str, settings: dict[str, Any], way: dict[str, Any], both: bool, masked: bool
) -> None:
    x, mask = normal(3, 6, 5), RNG.random((3, 6)) < 0.6
    mask[:, 2] = True  # Keras refuses entries without a step
    for sequences, state in ((False, True), (True, False)):
        said = settings | {"return_sequences": sequences, "return_state": state}
        outer = way if both else {}
        made = KINDS[kind][0](4, **said, **({} if both else way))
        if both:
            made = kl.Bidirectional(made, **outer)
        weights = drawn(made, x.shape)
        half = len(weights) // 2 if both else len(weights)
        expected = theirs(made(x, mask=keras.ops.convert_to_tensor(mask) if masked else None))
        ours = KINDS[kind][1](4, **said, **way, **({"bidirectional": True} if both else {}))
        flow: Any = inputs(x, mask, free=2)
        got = values(
            (flow if masked else flow[0]) | ours,
            [x, mask],
            from_keras(kind, weights[:half], weights[half:] or None),
        )
        agree(got, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_initial_state(kind: str) -> None:
    x, states = normal(3, 6, 5), [normal(3, 4), normal(3, 4)]
    states = states[: 2 if kind == "lstm" else 1]
    made = KINDS[kind][0](4, return_state=True)
    weights = drawn(made, x.shape)
    expected = theirs(made(x, initial_state=states))
    xs = inputs(x, *states)
    agree(
        values(xs | KINDS[kind][1](4, return_state=True), [x, *states], from_keras(kind, weights)),
        expected,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_cells(kind: str) -> None:
    x, states = normal(3, 5), [normal(3, 4), normal(3, 4)][: 2 if kind == "lstm" else 1]
    cell = KINDS[kind][2](4)
    weights = drawn(cell, x.shape)
    _, after = cell(x, states)
    got = values(inputs(x, *states) | KINDS[kind][3](4), [x, *states], from_keras(kind, weights))
    agree(got, theirs(after))


def test_stacked_cells() -> None:
    x = normal(3, 6, 5)
    cells = [kl.LSTMCell(4), kl.GRUCell(3)]
    made = kl.RNN(cells, return_sequences=True)
    drawn(made, x.shape)
    expected = theirs(made(x))
    ours = [nn.lstm_cell(4, name="one"), nn.gru_cell(3, name="two")]
    weights = {
        f"{scope}/{name}": value
        for scope, kind, cell in (("one", "lstm", cells[0]), ("two", "gru", cells[1]))
        for name, value in from_keras(kind, cell.get_weights()).items()
    }
    (a,) = inputs(x, free=2)
    agree(values(a | nn.rnn(ours, return_sequences=True), [x], weights), expected)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"strides": 2, "padding": "valid"},
        {"strides": 2, "padding": "same", "return_sequences": True, "return_state": True},
        {"dilation_rate": 2, "padding": "same", "go_backwards": True, "use_bias": False},
    ],
)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutional_lstm(rank: int, settings: dict[str, Any]) -> None:
    kernel = (3, 2, 3)[:rank]
    x = normal(2, 3, *(6, 7, 5)[:rank], 4)
    made = getattr(kl, f"ConvLSTM{rank}D")(3, kernel, **settings)
    arrays = [np.moveaxis(w, (-1, -2), (0, 1)) if w.ndim > 1 else w for w in drawn(made, x.shape)]
    weights = dict(zip(("kernel", "recurrent_kernel", "bias"), arrays, strict=False))
    expected = [np.moveaxis(e, -1, e.ndim - rank - 1) for e in theirs(made(x))]
    first = np.ascontiguousarray(np.moveaxis(x, -1, 2))
    (a,) = inputs(first, free=2)
    ours = getattr(nn, f"conv_lstm{rank}d")(3, kernel, **{"padding": "valid"} | settings)
    agree(values(a | ours, [first], weights), expected)


@pytest.mark.parametrize("sequences", [False, True])
def test_masking(sequences: bool) -> None:
    x = normal(3, 6, 5)
    x[0, 4:] = 0
    x[1, 1] = 0
    made = kl.LSTM(4, return_sequences=sequences)
    weights = drawn(made, x.shape)
    expected = theirs(made(kl.Masking()(x)))
    (a,) = inputs(x)
    got = values(
        a | nn.masking() | nn.lstm(4, return_sequences=sequences), [x], from_keras("lstm", weights)
    )
    agree(got, expected)


def test_embedding_with_a_mask() -> None:
    ids = RNG.integers(0, 4, (3, 6)).astype("i")
    ids[:, 0] = 1
    table, made = kl.Embedding(4, 5, mask_zero=True), kl.GRU(3)
    weights = {"embeddings": drawn(table, ids.shape)[0]}
    weights |= from_keras("gru", drawn(made, (3, 6, 5)))
    expected = theirs(made(table(ids)))
    (a,) = inputs(ids)
    agree(values(a | nn.embedding(4, 5, mask_zero=True) | nn.gru(3), [ids], weights), expected)


def test_reversible_embedding() -> None:
    for tied, cap in ((True, None), (False, 2.0)):
        ids = RNG.integers(0, 7, (2, 4)).astype("i")
        made = kl.ReversibleEmbedding(7, 5, tie_weights=tied, logit_soft_cap=cap)
        weights = drawn(made, ids.shape)
        found = made(ids)
        expected = theirs([found, made(found, reverse=True)])
        table = nn.reversible_embedding(7, 5, tied, logit_soft_cap=cap)
        (a,) = inputs(ids)
        first = a | table
        names = ("embeddings", "reverse_embeddings")
        agree(
            values((first, first | table), [ids], dict(zip(names, weights, strict=False))), expected
        )


EQUATIONS = [
    ("abc,cd->abd", (3, 4, 5), (None, 6), "d"),
    ("ab,bc->ac", (3, 4), 6, "c"),
    ("...x,xy->...y", (3, 4, 5), 6, None),
    ("...x,xyz->...yz", (3, 4, 5), (6, 2), "yz"),
    ("abc,cde->abde", (3, 4, 5), (None, 2, 6), "de"),
    ("abc,acd->abd", (3, 4, 5), (4, 6), "d"),
    ("ab...,bc->ac...", (3, 4, 5), 6, "c"),
    ("abcd,cde->abe", (3, 4, 2, 5), (None, 6), "be"),
]


@pytest.mark.parametrize(("equation", "shape", "output", "bias"), EQUATIONS)
def test_einsum_dense(equation: str, shape: Any, output: Any, bias: str | None) -> None:
    x = normal(*shape)
    try:
        made = kl.EinsumDense(equation, output, bias_axes=bias, activation="relu")
        weights = drawn(made, shape)
        expected = theirs(made(x))
    except ValueError as error:
        pytest.skip(f"Keras refuses it: {error}")
    fixed: list[Symbol] = inputs(x, free=0)
    ours = nn.einsum_dense(equation, output, bias_axes=bias, activation="relu")
    agree(
        values(fixed[0] | ours, [x], dict(zip(("kernel", "bias"), weights, strict=False))), expected
    )


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ()),
        ({"use_scale": True}, ("scale",)),
        ({"score_mode": "concat"}, ("concat_score_weight",)),
        ({"score_mode": "concat", "use_scale": True}, ("scale", "concat_score_weight")),
        ({"additive": True}, ("scale",)),
        ({"additive": True, "use_scale": False}, ()),
    ],
)
def test_attention(settings: dict[str, Any], names: Any, causal: bool, scores: bool) -> None:
    said = dict(settings)
    additive = said.pop("additive", False)
    q, v, k = normal(2, 4, 6), normal(2, 5, 3), normal(2, 5, 6)
    q_mask, v_mask = RNG.random((2, 4)) < 0.7, RNG.random((2, 5)) < 0.7
    v_mask[:, 0] = True
    made = (kl.AdditiveAttention if additive else kl.Attention)(**said)
    weights = dict(zip(names, drawn(made, [q.shape, v.shape, k.shape]), strict=False))
    expected = theirs(
        made(
            [q, v, k],
            mask=[keras.ops.convert_to_tensor(m) for m in (q_mask, v_mask)],
            use_causal_mask=causal,
            return_attention_scores=scores,
        )
    )
    a, b, c, d, e = inputs(q, v, k, q_mask, v_mask)
    layer = nn.additive_attention if additive else nn.attention
    ours = layer(
        **said, query_mask=d, value_mask=e, use_causal_mask=causal, return_attention_scores=scores
    )
    agree(values((a, b, c) | ours, [q, v, k, q_mask, v_mask], weights), expected)


PROJECTIONS = ("query", "key", "value", "attention_output", "gate")


def projected(made: Any) -> dict[str, Array]:
    found = {}
    for part in PROJECTIONS:
        inner = getattr(made, f"_{part.removeprefix('attention_')}_dense", None)
        if inner is None:
            continue
        for name in ("kernel", "bias"):
            held = getattr(inner, name, None)
            if held is not None:
                found[f"{part}/{name}"] = theirs(held)[0]
    return found


HEADS: list[dict[str, Any]] = [
    {"num_heads": 3, "key_dim": 4},
    {"num_heads": 3, "key_dim": 4, "value_dim": 2, "use_bias": False},
    {"num_heads": 2, "key_dim": 4, "use_gate": True, "output_shape": 5},
    {"num_heads": 2, "key_dim": 4, "output_shape": (2, 3)},
    {"num_heads": 2, "key_dim": 4, "sliding_window": 2},
    {"head_dim": 4, "num_query_heads": 6, "num_key_value_heads": 2},
    {"head_dim": 4, "num_query_heads": 4, "num_key_value_heads": 1, "use_gate": True},
    {"head_dim": 4, "num_query_heads": 4, "num_key_value_heads": 4, "sliding_window": 3},
]


@pytest.mark.parametrize("mode", ["plain", "causal", "mask", "both", "scores"])
@pytest.mark.parametrize("settings", HEADS)
def test_heads(settings: dict[str, Any], mode: str) -> None:
    grouped = "head_dim" in settings
    q, v, k = normal(2, 5, 6), normal(2, 5, 3), normal(2, 5, 7)
    mask = RNG.random((2, 5, 5)) < 0.6
    mask[:, np.arange(5), np.arange(5)] = True
    made = (kl.GroupQueryAttention if grouped else kl.MultiHeadAttention)(**settings)
    drawn(made, q.shape, v.shape, k.shape)
    said: dict[str, Any] = {"use_causal_mask": mode in ("causal", "both")}
    said["return_attention_scores"] = mode == "scores"
    masked = mode in ("mask", "both")
    more = {"attention_mask": keras.ops.convert_to_tensor(mask)} if masked else {}
    expected = theirs(made(q, v, k, **said, **more))
    a, b, c, d = inputs(q, v, k, mask)
    layer = nn.grouped_query_attention if grouped else nn.multi_head_attention
    ours = layer(**settings, **said, attention_mask=d if masked else None)
    agree(values((a, b, c) | ours, [q, v, k, mask], projected(made)), expected)


def test_heads_over_padding() -> None:
    q, v = normal(2, 5, 6), normal(2, 4, 6)
    mask = np.array([[1, 1, 0, 1], [1, 0, 0, 0]], bool)
    made = kl.MultiHeadAttention(2, 4)
    drawn(made, q.shape, v.shape)
    expected = theirs(made(q, v, value_mask=keras.ops.convert_to_tensor(mask)))
    a, b, c = inputs(q, v, mask)
    got = values(
        (a, b) | nn.multi_head_attention(2, 4, value_mask=c), [q, v, mask], projected(made)
    )
    agree(got, expected)


@pytest.mark.parametrize("axes", [None, (1,), (2,), (1, 2), (-2,)])
def test_heads_over_images(axes: Any) -> None:
    x = normal(2, 3, 4, 6)
    made = kl.MultiHeadAttention(2, 4, attention_axes=axes)
    drawn(made, x.shape, x.shape)
    expected = theirs(made(x, x))
    (a,) = inputs(x)
    ours = nn.multi_head_attention(2, 4, attention_axes=axes)
    agree(values(a | ours, [x], projected(made)), expected)


NORMS: list[tuple[Any, Any, tuple[str, ...]]] = [
    (kl.LayerNormalization(axis=-1), nn.layer_norm(-1), ("gamma", "beta")),
    (kl.LayerNormalization(axis=(1, 3)), nn.layer_norm((1, 3)), ("gamma", "beta")),
    (kl.LayerNormalization(axis=-1, scale=False), nn.layer_norm(scale=False), ("beta",)),
    (kl.RMSNormalization(axis=-1), nn.rms_norm(), ("gamma",)),
    (kl.GroupNormalization(2), nn.group_norm(2, axis=-1), ("gamma", "beta")),
    (kl.GroupNormalization(-1, axis=1), nn.group_norm(-1), ("gamma", "beta")),
    (kl.UnitNormalization(), nn.unit_norm(), ()),
    (kl.UnitNormalization(axis=(1, 2)), nn.unit_norm((1, 2)), ()),
    (
        kl.BatchNormalization(),
        nn.normalisation(-1),
        ("gamma", "beta", "mean", "variance"),
    ),
    (
        kl.BatchNormalization(axis=1, center=False),
        nn.normalisation(center=False),
        ("gamma", "mean", "variance"),
    ),
]


@pytest.mark.parametrize(("made", "ours", "names"), NORMS)
def test_norms(made: Any, ours: Any, names: tuple[str, ...]) -> None:
    x = normal(3, 4, 5, 6)
    weights = dict(zip(names, drawn(made, x.shape), strict=True))
    (a,) = inputs(x)
    agree(values(a | ours, [x], weights), theirs(made(x)))


def test_time_distributed() -> None:
    x = normal(3, 4, 5, 6)
    made = kl.TimeDistributed(kl.Dense(7))
    weights = dict(zip(("kernel", "bias"), drawn(made, x.shape), strict=False))
    (a,) = inputs(x, free=2)
    agree(values(a | nn.time_distributed(nn.dense(7)), [x], weights), theirs(made(x)))


@pytest.mark.parametrize("mode", ["int", "one_hot", "multi_hot", "count", "tf_idf"])
@pytest.mark.parametrize("mask", [None, 0])
@pytest.mark.parametrize("oov", [1, 3])
def test_integer_lookup(oov: int, mask: int | None, mode: str) -> None:
    pytest.importorskip("tensorflow", reason="Keras looks up by TensorFlow")
    x = RNG.integers(0, 30, (3, 4))
    idf = [0.5, 1.5, 2.0] if mode == "tf_idf" else None
    said = {"num_oov_indices": oov, "mask_token": mask, "output_mode": mode, "idf_weights": idf}
    made = kl.IntegerLookup(vocabulary=[12, 7, 25], **said)
    (a,) = inputs(x)
    agree(values(a | nn.integer_lookup([12, 7, 25], **said), [x]), [np.asarray(made(x))])


def test_stft_spectrogram() -> None:
    x = normal(2, 3, 300)
    for mode, padding, expand in (
        ("log", "valid", False),
        ("magnitude", "same", True),
        ("psd", "valid", False),
        ("real", "valid", False),
        ("imag", "valid", True),
        ("stft", "valid", False),
        ("angle", "valid", False),
    ):
        said = {"frame_length": 40, "frame_step": 15, "padding": padding, "expand_dims": expand}
        same = said | {"data_format": "channels_first", "window": "hamming"}
        made = kl.STFTSpectrogram(mode, **same)
        (a,) = inputs(x)
        got = values(a | nn.stft_spectrogram(mode, window="hamming", **said), [x])
        expected = theirs(made(x))
        if mode == "log":  # of what is small it shows the rounding of what is large
            got, expected = ([np.exp(v)] for v in (got[0], expected[0]))
        if mode == "angle":  # its error grows as the number of this angle is smaller
            length = theirs(kl.STFTSpectrogram("magnitude", **same)(x))[0]
            length.reshape(2, 3, 33, -1)[:, :, [0, -1]] = 0  # real ones: where a turn begins
            got, expected = (
                [length * np.cos(v), length * np.sin(v)] for v in (got[0], expected[0])
            )
        agree(got, expected, 2e-5)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"sequence_length": 50, "num_mel_bins": 12, "power_to_db": False, "mag_exp": 1.0},
        {"window": "hamming", "min_freq": 100.0, "max_freq": 3000.0, "sampling_rate": 8000},
    ],
)
def test_mel_spectrogram(said: dict[str, Any]) -> None:
    x = normal(2, 600)
    said = {"fft_length": 64, "sequence_stride": 20, "num_mel_bins": 10} | said
    (a,) = inputs(x, free=0)
    got = values(a | nn.mel_spectrogram(**said), [x])
    agree(got, theirs(kl.MelSpectrogram(**said)(x)), 1e-4)

"""Draws of layers of sequences: recurrent ones, attention, embeddings, norms, lookups, spectra."""

from __future__ import annotations

from typing import Any

from drawn_case import Case, Given, Strategy
from hypothesis import strategies as st

from neuralsym import layers as nn

sizes = st.integers(1, 4)
ACTIVATIONS = ["tanh", "relu", "sigmoid", "hard_sigmoid", "elu", "gelu", None]


def _free(draw: st.DrawFn) -> frozenset[int]:
    return frozenset(draw(st.sampled_from([(), (0,), (0, 1)])))


def _sequence(draw: st.DrawFn, features: int | None = None) -> Given:
    """[N, T, features], with a batch and perhaps a length left open."""
    return Given((draw(sizes), draw(sizes), features or draw(sizes)), free=_free(draw))


def _recurrent(draw: st.DrawFn, kind: str) -> Case:
    x = _sequence(draw)
    both = draw(st.booleans())
    layers = draw(st.integers(1, 2))
    settings: dict[str, Any] = {
        "units": draw(sizes),
        "activation": draw(st.sampled_from(ACTIVATIONS)),
        "use_bias": draw(st.booleans()),
        "num_layers": layers,
        "bidirectional": both,
        "return_sequences": draw(st.booleans()),
        "return_state": draw(st.booleans()),
        "go_backwards": not both and draw(st.booleans()),
        "merge_mode": draw(st.sampled_from(["concat", "sum", "ave", "mul", None])),
        "zero_output_for_mask": draw(st.booleans()),
    }
    if kind != "simple_rnn":
        settings["recurrent_activation"] = draw(st.sampled_from(["sigmoid", "hard_sigmoid"]))
    settings["reset_after" if kind == "gru" else "recurrent_bias"] = draw(st.booleans())
    inputs = [x]
    beside = draw(st.sampled_from(["nothing", "mask", "lengths"]))
    if beside == "mask":
        inputs.append(Given(x.shape[:2], "bool", free=x.free))
    elif beside == "lengths":
        inputs.append(Given(x.shape[:1], "int32", free=x.free - {1}, least=1, most=x.shape[1]))
    if draw(st.booleans()):
        count = layers * (1 + both) * (2 if kind == "lstm" else 1)
        inputs += [Given((x.shape[0], settings["units"]), free=x.free - {1})] * count
    return Case(settings, tuple(inputs))


def _cell(draw: st.DrawFn, kind: str) -> Case:
    batch, features, units = draw(sizes), draw(sizes), draw(sizes)
    settings: dict[str, Any] = {"units": units, "use_bias": draw(st.booleans())}
    settings["activation"] = draw(st.sampled_from(ACTIVATIONS))
    settings["reset_after" if kind == "gru" else "recurrent_bias"] = draw(st.booleans())
    inputs = [Given((batch, features))]
    if draw(st.booleans()):
        inputs += [Given((batch, units))] * (2 if kind == "lstm" else 1)
    return Case(settings, tuple(inputs))


def _rnn(draw: st.DrawFn) -> Case:
    cells = {
        "lstm": nn.lstm_cell(draw(sizes), name="one"),
        "gru": nn.gru_cell(draw(sizes), name="two"),
        "simple": nn.simple_rnn_cell(draw(sizes), name="three"),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(cells)), min_size=1, max_size=2, unique=True))
    settings = {
        "cell": [cells[c] for c in chosen],
        **{k: draw(st.booleans()) for k in ("return_sequences", "return_state", "go_backwards")},
    }
    return Case(settings, (_sequence(draw),))


def _conv_lstm(draw: st.DrawFn, rank: int) -> Case:
    space = tuple(draw(st.integers(2, 4)) for _ in range(rank))
    x = Given((draw(sizes), draw(sizes), draw(sizes), *space), free=_free(draw))
    settings: dict[str, Any] = {"filters": draw(sizes), "kernel_size": draw(st.integers(1, 3))}
    settings["strides"] = draw(st.integers(1, 2))
    for key in ("use_bias", "return_sequences", "return_state", "go_backwards"):
        settings[key] = draw(st.booleans())
    return Case(settings, (x,))


def _bidirectional(draw: st.DrawFn) -> Case:
    layer = draw(st.sampled_from([nn.lstm, nn.gru, nn.simple_rnn]))
    made = layer(draw(sizes), return_sequences=draw(st.booleans()))
    mode = draw(st.sampled_from(["concat", "sum", "ave", "mul", None]))
    return Case({"layer": made, "merge_mode": mode}, (_sequence(draw),))


def _time_distributed(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(3, 5))
    shape = tuple(draw(sizes) for _ in range(rank))
    layer = draw(st.sampled_from([nn.dense(3), nn.fully_connected(2), nn.relu(), nn.flatten()]))
    return Case({"layer": layer}, (Given(shape, free=_free(draw)),))


def _masks(draw: st.DrawFn) -> dict[str, Any]:
    return {k: draw(st.booleans()) for k in ("use_causal_mask", "return_attention_scores")}


def _attention(draw: st.DrawFn, additive: bool) -> Case:
    q = _sequence(draw)
    length = draw(sizes)
    key = Given((q.shape[0], length, q.shape[2]), free=q.free)
    value = Given((q.shape[0], length, draw(sizes)), free=q.free)
    settings = _masks(draw) | {"use_scale": draw(st.booleans())}
    if not additive:
        settings["score_mode"] = draw(st.sampled_from(["dot", "concat"]))
    # keys and values of two names for one length are as many only when they are fixed
    fixed = [Given(g.shape, free=g.free - {1}) for g in (value, key)]
    return Case(settings, draw(st.sampled_from([(q,), (q, key), (q, *fixed)])))


def _heads(draw: st.DrawFn, grouped: bool) -> Case:
    q = _sequence(draw)
    settings: dict[str, Any] = _masks(draw) | {
        "use_bias": draw(st.booleans()),
        "use_gate": draw(st.booleans()),
        "sliding_window": draw(st.sampled_from([None, 1, 2])),
    }
    if grouped:
        kv = draw(st.integers(1, 2))
        settings |= {
            "head_dim": draw(sizes),
            "num_key_value_heads": kv,
            "num_query_heads": kv * draw(st.integers(1, 2)),
        }
    else:
        settings |= {
            "num_heads": draw(sizes),
            "key_dim": draw(sizes),
            "value_dim": draw(st.sampled_from([None, 1, 3])),
            "output_shape": draw(st.sampled_from([None, 3, (2, 2)])),
            "packed": draw(st.booleans()),
        }
    value = Given((q.shape[0], draw(sizes), draw(sizes)), free=q.free)
    return Case(settings, draw(st.sampled_from([(q,), (q, value)])))


def _transformer_layer(draw: st.DrawFn, decoder: bool) -> Case:
    heads = draw(st.integers(1, 2))
    q = _sequence(draw, heads * draw(sizes))
    settings = {
        "num_heads": heads,
        "intermediate_dim": draw(sizes),
        "norm_first": draw(st.booleans()),
        "use_bias": draw(st.booleans()),
        "use_causal_mask": draw(st.booleans()),
    }
    memory = Given((q.shape[0], draw(sizes), draw(sizes)), free=q.free)
    return Case(settings, (q, memory) if decoder else (q,))


def _transformer(draw: st.DrawFn) -> Case:
    heads = draw(st.integers(1, 2))
    source, target = (_sequence(draw, 2 * heads) for _ in range(2))
    target = Given((source.shape[0], *target.shape[1:]), free=target.free)
    settings = {"num_heads": heads, "intermediate_dim": 3, "num_encoder_layers": draw(sizes)}
    return Case(settings | {"num_decoder_layers": 1}, (source, target))


def _table(draw: st.DrawFn, **more: Any) -> Case:
    shape = tuple(draw(st.lists(sizes, min_size=1, max_size=3)))
    x = Given(shape, draw(st.sampled_from(["int32", "int64"])), free=_free(draw) & {0}, most=3)
    return Case({"input_dim": 4, "output_dim": draw(sizes), **more}, (x,))


def _embedding(draw: st.DrawFn) -> Case:
    masked = draw(st.booleans())
    return _table(draw, mask_zero=masked, padding_idx=draw(st.sampled_from([None, 0, -1])))


def _embedding_bag(draw: st.DrawFn) -> Case:
    x = Given((draw(sizes), draw(sizes)), "int64", free=_free(draw), most=3)
    mode = draw(st.sampled_from(["mean", "sum", "max"]))
    settings = {"input_dim": 4, "output_dim": draw(sizes), "mode": mode}
    return Case(settings | {"padding_idx": draw(st.sampled_from([None, 1]))}, (x,))


def _reversible(draw: st.DrawFn) -> Case:
    if draw(st.booleans()):
        return _table(draw, tie_weights=draw(st.booleans()))
    settings = {"input_dim": 4, "output_dim": 3, "tie_weights": draw(st.booleans())}
    cap = draw(st.sampled_from([None, 2.0]))
    return Case(settings | {"logit_soft_cap": cap}, (_sequence(draw, 3),))


def _einsum(draw: st.DrawFn) -> Case:
    equation, rank, output, bias = draw(
        st.sampled_from(
            [
                ("abc,cd->abd", 3, (None, 3), "d"),
                ("...x,xy->...y", 3, 2, "y"),
                ("...x,xyz->...yz", 2, (2, 3), None),
                ("ab...,bc->ac...", 3, 2, "c"),
                ("abc,cde->abde", 3, (None, 2, 2), "de"),
            ]
        )
    )
    shape = tuple(draw(sizes) for _ in range(rank))
    free = frozenset(draw(st.sampled_from([(), (0,)])))
    settings = {"equation": equation, "output_shape": output, "bias_axes": bias}
    return Case(settings, (Given(shape, free=free),))


def _rotary(draw: st.DrawFn) -> Case:
    heads = draw(sizes)
    x = _sequence(draw, 2 * heads * draw(st.integers(1, 2)))
    return Case({"num_heads": heads, "max_length": 8, "interleaved": draw(st.booleans())}, (x,))


def _axes(draw: st.DrawFn, least: int = 0) -> tuple[Given, list[int]]:
    """A batch of any rank and some of its axes, which are fixed."""
    shape = tuple(draw(st.lists(sizes, min_size=2, max_size=4)))
    axes = draw(st.lists(st.integers(1, len(shape) - 1), min_size=1, unique=True))
    return Given(shape, free=frozenset({0})), axes


def _norm(draw: st.DrawFn, center: bool = True) -> Case:
    x, axes = _axes(draw)
    settings: dict[str, Any] = {"axis": axes, "scale": draw(st.booleans())}
    return Case(settings | ({"center": draw(st.booleans())} if center else {}), (x,))


def _group_norm(draw: st.DrawFn) -> Case:
    groups, rank = draw(sizes), draw(st.integers(3, 5))
    axis = draw(st.integers(1, rank - 1))
    shape = [draw(sizes) for _ in range(rank)]
    shape[axis] = groups * draw(sizes)
    return Case(
        {"groups": draw(st.sampled_from([groups, -1])), "axis": axis}, (Given(tuple(shape)),)
    )


def _batch_norm(draw: st.DrawFn) -> Case:
    x, axes = _axes(draw)
    return Case({"axis": axes[0], "center": draw(st.booleans())}, (x,))


def _space(draw: st.DrawFn, **settings: Any) -> Case:
    shape = tuple(draw(st.lists(sizes, min_size=3, max_size=4)))
    return Case(settings, (Given(shape),))


def _lookup(draw: st.DrawFn) -> Case:
    mode = draw(st.sampled_from(["int", "one_hot", "multi_hot", "count"]))
    shape = tuple(draw(st.lists(sizes, min_size=1, max_size=3)))
    settings = {
        "vocabulary": [3, 1, 7],
        "num_oov_indices": draw(st.integers(0, 3)),
        "mask_token": draw(st.sampled_from([None, 0])),
        "output_mode": mode,
    }
    return Case(settings, (Given(shape, "int64", most=9),))


def _words(draw: st.DrawFn) -> Case:
    case = _lookup(draw)
    settings = case.settings | {
        "vocabulary": ["b", "a"],
        "num_oov_indices": draw(st.integers(0, 1)),
    }
    settings["mask_token"] = draw(st.sampled_from([None, ""]))
    return Case(settings, (Given(case.inputs[0].shape, "string"),))


def _spectrogram(draw: st.DrawFn) -> Case:
    length = draw(st.integers(2, 9))
    settings = {
        "mode": draw(st.sampled_from(["log", "magnitude", "psd", "real", "imag", "angle", "stft"])),
        "frame_length": length,
        "frame_step": draw(st.integers(1, length)),
        "padding": draw(st.sampled_from(["valid", "same"])),
        "expand_dims": draw(st.booleans()),
        "window": draw(st.sampled_from(["hann", "blackman", None])),
    }
    x = Given((draw(sizes), draw(sizes), draw(st.integers(length, 30))))
    return Case(settings, (x,))


def _mel(draw: st.DrawFn) -> Case:
    size = draw(st.integers(4, 12))
    settings = {
        "fft_length": size,
        "sequence_stride": draw(st.integers(1, size)),
        "num_mel_bins": draw(sizes),
        "power_to_db": draw(st.booleans()),
        "min_power": 0.25,  # the logarithm of less would show the rounding of the transform
    }
    return Case(settings, (Given((draw(sizes), draw(st.integers(size, 40)))),))


def _of(function: Any, *args: Any) -> Strategy:
    return st.composite(lambda draw: function(draw, *args))()


TABLE: dict[str, Strategy] = {
    **{kind: _of(_recurrent, kind) for kind in ("lstm", "gru", "simple_rnn")},
    **{f"{kind}_cell": _of(_cell, kind) for kind in ("lstm", "gru", "simple_rnn")},
    **{f"conv_lstm{rank}d": _of(_conv_lstm, rank) for rank in (1, 2, 3)},
    "rnn": _of(_rnn),
    "bidirectional": _of(_bidirectional),
    "time_distributed": _of(_time_distributed),
    "masking": _of(lambda draw: Case({}, (_sequence(draw),))),
    "attention": _of(_attention, False),
    "additive_attention": _of(_attention, True),
    "multi_head_attention": _of(_heads, False),
    "grouped_query_attention": _of(_heads, True),
    "transformer_encoder_layer": _of(_transformer_layer, False),
    "transformer_decoder_layer": _of(_transformer_layer, True),
    "transformer": _of(_transformer),
    "embedding": _of(_embedding),
    "embedding_bag": _of(_embedding_bag),
    "reversible_embedding": _of(_reversible),
    "einsum_dense": _of(_einsum),
    "position_embedding": _of(lambda draw: Case({"max_length": 4}, (_sequence(draw),))),
    "sinusoidal_positions": _of(lambda draw: Case({}, (_sequence(draw),))),
    "rotary_embedding": _of(_rotary),
    "layer_norm": _of(_norm),
    "rms_norm": _of(_norm, False),
    "group_norm": _of(_group_norm),
    "normalisation": _of(_batch_norm),
    "instance_norm": _of(_space),
    "unit_norm": _of(lambda draw: (lambda c: Case({"axis": c[1]}, (c[0],)))(_axes(draw))),
    "local_response_norm": _of(lambda draw: _space(draw, size=draw(st.sampled_from([1, 3, 5])))),
    "integer_lookup": _of(_lookup),
    "string_lookup": _of(_words),
    "stft_spectrogram": _of(_spectrogram),
    "mel_spectrogram": _of(_mel),
}

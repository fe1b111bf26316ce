"""Recurrent, attention, transformer, embedding and normalising layers against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sequence_values import RNG, Array, agree, inputs, normal, values

from neuralsym import layers as nn
from neuralsym.layers.recurrent_weights import from_torch

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]


def drawn(module: Any) -> dict[str, Array]:
    """The module's parameters, drawn anew."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.from_numpy(normal(*parameter.shape) * np.float32(0.5)))
    module.eval()
    return {name: p.detach().numpy().copy() for name, p in module.named_parameters()}


def theirs(module: Any, *arrays: Any, **more: Any) -> list[Array]:
    """What the module gives, nested results in order."""

    def flat(value: Any) -> list[Array]:
        if value is None:
            return []
        if isinstance(value, (tuple, list)):
            return [a for v in value for a in flat(v)]
        return [value.numpy()]

    with torch.no_grad():
        return flat(module(*(torch.from_numpy(a) for a in arrays), **more))


KINDS = {
    "lstm": (torch.nn.LSTM, nn.lstm, torch.nn.LSTMCell, nn.lstm_cell, {"recurrent_bias": True}),
    "gru": (torch.nn.GRU, nn.gru, torch.nn.GRUCell, nn.gru_cell, {}),
    "simple_rnn": (
        torch.nn.RNN,
        nn.simple_rnn,
        torch.nn.RNNCell,
        nn.simple_rnn_cell,
        {"recurrent_bias": True},
    ),
}


def stack(kind: str, found: dict[str, Array], layers: int, both: bool) -> dict[str, Array]:
    made = {}
    for i in range(layers):
        forward = [v for k, v in found.items() if k.endswith(f"_l{i}")]
        backward = [v for k, v in found.items() if k.endswith(f"_l{i}_reverse")]
        for name, value in from_torch(kind, forward, backward if both else None).items():
            made[f"{name}_{i}" if i else name] = value
    return made


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent(kind: str, layers: int, both: bool, bias: bool, lengths: bool) -> None:
    theirs_of, ours_of, _, _, more = KINDS[kind]
    x, count = normal(3, 6, 5), np.array([6, 2, 4])
    module = theirs_of(5, 4, num_layers=layers, bidirectional=both, bias=bias, batch_first=True)
    weights = stack(kind, drawn(module), layers, both)
    states = [normal(3, 4) for _ in range(layers * (1 + both) * (1 + (kind == "lstm")))]
    per = 1 + (kind == "lstm")
    first = [torch.from_numpy(np.stack(states[i::per])) for i in range(per)]
    with torch.no_grad():
        flow: Any = torch.from_numpy(x)
        if lengths:
            pack = torch.nn.utils.rnn.pack_padded_sequence
            flow = pack(flow, torch.from_numpy(count), batch_first=True, enforce_sorted=False)
        y, final = module(flow, tuple(first) if kind == "lstm" else first[0])
        if lengths:
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
    final = final if kind == "lstm" else (final,)
    expected = [y.numpy()]
    expected += [f[i].numpy() for i in range(layers * (1 + both)) for f in final]
    a, b, *rest = inputs(x, count, *states)
    ours = ours_of(
        4,
        num_layers=layers,
        bidirectional=both,
        use_bias=bias,
        return_sequences=True,
        return_state=True,
        lengths=b if lengths else None,
        **more,
    )
    agree(values((a, *rest) | ours, [x, count, *states], weights), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_cells(kind: str) -> None:
    _, _, theirs_of, ours_of, more = KINDS[kind]
    x, states = normal(3, 5), [normal(3, 4) for _ in range(1 + (kind == "lstm"))]
    module = theirs_of(5, 4)
    weights = from_torch(kind, list(drawn(module).values()))
    given = tuple(torch.from_numpy(s) for s in states)
    expected = theirs(module, x, hx=given if kind == "lstm" else given[0])
    agree(values(inputs(x, *states) | ours_of(4, **more), [x, *states], weights), expected)


def heads(found: dict[str, Array], prefix: str = "", ours: str = "") -> dict[str, Array]:
    """torch's packed projections as the four of ours."""
    made = {}
    names = ("query", "key", "value")
    for name, w, b in zip(
        names,
        np.split(found[f"{prefix}in_proj_weight"], 3),
        np.split(found[f"{prefix}in_proj_bias"], 3),
        strict=True,
    ):
        made[f"{ours}{name}/kernel"], made[f"{ours}{name}/bias"] = w.T, b
    made[f"{ours}attention_output/kernel"] = found[f"{prefix}out_proj.weight"].T
    made[f"{ours}attention_output/bias"] = found[f"{prefix}out_proj.bias"]
    return made


@pytest.mark.parametrize("mode", ["plain", "padding", "added", "causal"])
def test_multi_head_attention(mode: str) -> None:
    q, k = normal(5, 5, 8), normal(5, 5, 8)
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    weights = heads(drawn(module))
    padding, added = np.arange(5) < np.array([[5], [3], [1], [2], [4]]), normal(5, 5)
    causal = np.tri(5, dtype=bool)
    said: dict[str, Any] = {
        "plain": {},
        "padding": {"key_padding_mask": torch.from_numpy(~padding)},
        "added": {"attn_mask": torch.from_numpy(added)},
        "causal": {"attn_mask": torch.from_numpy(~causal)},
    }[mode]
    expected = theirs(module, q, k, k, average_attn_weights=False, **said)
    a, b, c, d = inputs(q, k, padding, added)
    layer = nn.multi_head_attention(
        2,
        4,
        value_mask=c if mode == "padding" else None,
        attention_mask=d if mode == "added" else None,
        use_causal_mask=mode == "causal",
        return_attention_scores=True,
    )
    agree(values((a, b) | layer, [q, k, padding, added], weights), expected)


def test_packed_projections() -> None:
    x = normal(2, 5, 8)
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    found = drawn(module)
    weights = {
        "qkv/kernel": found["in_proj_weight"].T,
        "qkv/bias": found["in_proj_bias"],
        "attention_output/kernel": found["out_proj.weight"].T,
        "attention_output/bias": found["out_proj.bias"],
    }
    (a,) = inputs(x)
    got = values(a | nn.multi_head_attention(2, 4, packed=True), [x], weights)
    agree(got, theirs(module, x, x, x, need_weights=False))


def block(found: dict[str, Array], prefix: str, ours: str) -> dict[str, Array]:
    """The weights of one transformer layer."""
    made = heads(found, f"{prefix}self_attn.", f"{ours}self_attention/")
    if f"{prefix}multihead_attn.in_proj_weight" in found:
        made |= heads(found, f"{prefix}multihead_attn.", f"{ours}cross_attention/")
    for key, value in found.items():
        part, _, kind = key.removeprefix(prefix).rpartition(".")
        if not key.startswith(prefix) or part.split(".")[0] not in (
            *("linear1", "linear2", "norm1", "norm2", "norm3"),
        ):
            continue
        if part.startswith("linear"):
            made[f"{ours}{part}/" + ("kernel" if kind == "weight" else "bias")] = value.T
        else:
            made[f"{ours}{part}/" + ("gamma" if kind == "weight" else "beta")] = value
    return made


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_and_decoder_layer(norm_first: bool, activation: str) -> None:
    x, memory = normal(2, 5, 8), normal(2, 4, 8)
    said: dict[str, Any] = {"activation": activation, "norm_first": norm_first}
    module = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, **said)
    weights = block(drawn(module), "", "")
    mask = np.arange(5) < np.array([[5], [3]])
    expected = theirs(module, x, src_key_padding_mask=torch.from_numpy(~mask))[0]
    a, b = inputs(x, mask)
    got = values(a | nn.transformer_encoder_layer(2, 12, mask=b, **said), [x, mask], weights)[0]
    # torch gives zeros at padded places when it takes its fast path
    agree([got * mask[..., None]], [expected * mask[..., None]])
    module = torch.nn.TransformerDecoderLayer(8, 2, 12, batch_first=True, **said)
    weights = block(drawn(module), "", "")
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
    a, b = inputs(x, memory)
    got = values((a, b) | nn.transformer_decoder_layer(2, 12, **said), [x, memory], weights)
    agree(got, theirs(module, x, memory, tgt_mask=causal))


def test_transformer() -> None:
    source, target = normal(2, 4, 8), normal(2, 5, 8)
    module = torch.nn.Transformer(8, 2, 2, 1, 12, batch_first=True)
    found = drawn(module)
    weights = {}
    for i in range(2):
        weights |= block(found, f"encoder.layers.{i}.", f"encoder_{i}/")
    weights |= block(found, "decoder.layers.0.", "decoder_0/")
    for side in ("encoder", "decoder"):
        weights[f"{side}_norm/gamma"] = found[f"{side}.norm.weight"]
        weights[f"{side}_norm/beta"] = found[f"{side}.norm.bias"]
    a, b = inputs(source, target)
    ours = nn.transformer(2, 12, num_encoder_layers=2, num_decoder_layers=1, use_causal_mask=False)
    agree(values((a, b) | ours, [source, target], weights), theirs(module, source, target), 2e-5)


def test_grouped_query_attention() -> None:
    q, k, v = normal(2, 5, 8), normal(2, 5, 4), normal(2, 5, 4)
    eye8, eye4 = np.eye(8, dtype="f"), np.eye(4, dtype="f")
    a, b, c = inputs(q, v, k)
    weights = {
        "query/kernel": eye8,
        "key/kernel": eye4,
        "value/kernel": eye4,
        "attention_output/kernel": eye8,
    }
    layer = nn.grouped_query_attention(2, 4, 2, use_bias=False, use_causal_mask=True)
    split = [torch.from_numpy(t.reshape(2, 5, -1, 2)).transpose(1, 2) for t in (q, k, v)]
    attend = torch.nn.functional.scaled_dot_product_attention
    y = attend(*split, is_causal=True, enable_gqa=True).transpose(1, 2).reshape(2, 5, 8)
    agree(values((a, b, c) | layer, [q, v, k], weights), [y.numpy()])


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_embedding_bag(mode: Any, padding: int | None) -> None:
    ids = RNG.integers(0, 5, (4, 6))
    ids[0] = 2  # of padding alone
    module = torch.nn.EmbeddingBag(5, 3, mode=mode, padding_idx=padding)
    weights = {"embeddings": drawn(module)["weight"]}
    (a,) = inputs(ids)
    got = values(a | nn.embedding_bag(5, 3, mode, padding_idx=padding), [ids], weights)
    agree(got, theirs(module, ids))
    if mode == "sum":
        scale = normal(4, 6)
        a, b = inputs(ids, scale)
        got = values(
            (a, b) | nn.embedding_bag(5, 3, mode, padding_idx=padding), [ids, scale], weights
        )
        agree(got, theirs(module, ids, per_sample_weights=torch.from_numpy(scale)))


NORMS: list[tuple[Any, Any]] = [
    (torch.nn.LayerNorm((5, 6)), nn.layer_norm((-2, -1), 1e-5)),
    (torch.nn.RMSNorm(6, eps=1e-5), nn.rms_norm(epsilon=1e-5)),
    (torch.nn.GroupNorm(2, 4), nn.group_norm(2, 1e-5)),
    (torch.nn.InstanceNorm2d(4, affine=True), nn.instance_norm()),
    (torch.nn.LocalResponseNorm(3, 0.5, 0.6, 2.0), nn.local_response_norm(3, 0.5, 0.6, 2.0)),
    (torch.nn.LocalResponseNorm(5, 0.5), nn.local_response_norm(5, 0.5)),
    (lambda x: torch.nn.functional.normalize(x, dim=1), nn.unit_norm(1)),
]


@pytest.mark.parametrize(("module", "ours"), NORMS)
def test_norms(module: Any, ours: Any) -> None:
    x = normal(3, 4, 5, 6)
    found = drawn(module) if isinstance(module, torch.nn.Module) else {}
    weights = dict(zip(("gamma", "beta"), found.values(), strict=False))
    (a,) = inputs(x)
    agree(values(a | ours, [x], weights), theirs(module, x))

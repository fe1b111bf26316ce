"""Attention and the quantised LSTM of com.microsoft on drawn sizes; one program for many sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from contrib_oracle import Array, Drawn, agree, applied, close, computed, expected, fed, number
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym.core.graph import Graph
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options
from neuralsym.engines import onnx as engine

pytestmark = pytest.mark.oracle
EXAMPLES = settings(max_examples=12)


def drawn_mask(
    data: st.DataObject, draw: Drawn, batch: int, queries: int, keys: int
) -> Array | None:
    """A mask of some form; each query sees the first key."""
    form = data.draw(st.sampled_from(["none", "keys", "queries", "ends"]))
    if form == "none":
        return None
    if form == "ends":
        return np.array([data.draw(st.integers(1, keys)) for _ in range(batch)], np.int32)
    mask = draw.whole(*((batch, keys) if form == "keys" else (batch, queries, keys)))
    mask[..., 0] = 1
    return mask


def named(data: st.DataObject, inputs: list[Array | None], axes: str) -> list[tuple[int, int]]:
    """Some of the axes (`"0.1"`: axis 1 of input 0) that have names instead of sizes."""
    pairs = [(int(a), int(b)) for a, b in (word.split(".") for word in axes.split())]
    chosen = data.draw(st.lists(st.sampled_from(pairs), unique=True))
    there = [(i, a) for i, a in chosen if i < len(inputs)]
    return [(i, a) for i, a in there if a < np.ndim(inputs[i]) and inputs[i] is not None]


@given(st.data())
@EXAMPLES
def test_attention(data: st.DataObject) -> None:
    draw = Drawn(data.draw(st.integers(0, 999)))
    batch, length = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    heads, size = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    before = data.draw(st.sampled_from([None, 0, 1, 3]))
    hidden, total = heads * size, length + (before or 0)
    inputs = [
        draw.reals(batch, length, 6),
        draw.reals(6, 3 * hidden),
        draw.reals(3 * hidden) if data.draw(st.booleans()) else None,
        drawn_mask(data, draw, batch, length, total),
        None if before is None else draw.reals(2, batch, heads, before, size),
    ]
    if before is None and data.draw(st.booleans()):
        ones = data.draw(st.tuples(st.booleans(), st.booleans()))
        inputs.append(draw.reals(1 if ones[0] else batch, 1 if ones[1] else heads, length, total))
    attrs = {"num_heads": heads, "unidirectional": data.draw(st.integers(0, 1))}
    dynamic = named(data, inputs, "0.0 0.1 3.0 3.1 4.1 4.3 5.0 5.2 5.3")
    agree("Attention", inputs, attrs, outputs=1 if before is None else 2, dynamic=dynamic)


@given(st.data())
@EXAMPLES
def test_multi_head_attention(data: st.DataObject) -> None:
    draw = Drawn(data.draw(st.integers(0, 999)))
    batch, length = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    heads, size, wide = (data.draw(st.integers(1, 4)) for _ in range(3))
    keys = data.draw(st.integers(1, 6))
    hidden, values = heads * size, heads * wide
    inputs = [
        draw.reals(batch, length, hidden),
        draw.reals(batch, keys, hidden),
        draw.reals(batch, keys, values),
        draw.reals(2 * hidden + values) if data.draw(st.booleans()) else None,
        drawn_mask(data, draw, batch, length, keys),
        draw.reals(1, heads, length, keys) if data.draw(st.booleans()) else None,
    ]
    attrs = {"num_heads": heads, "scale": data.draw(st.sampled_from([0.0, 0.5]))}
    dynamic = named(data, inputs, "0.0 0.1 1.0 1.1 2.0 2.1 4.0 4.1 5.2 5.3")
    agree("MultiHeadAttention", inputs, attrs, dynamic=dynamic)


@pytest.mark.slow
@given(st.data())
@EXAMPLES
def test_grouped_attention(data: st.DataObject) -> None:
    draw, size = Drawn(data.draw(st.integers(0, 999))), 16
    heads, groups = data.draw(st.sampled_from([(2, 1), (4, 2), (3, 3)]))
    prompt = data.draw(st.booleans())
    batch = data.draw(st.integers(1, 3))
    new = data.draw(st.integers(1, 5)) if prompt or batch == 1 else 1
    before = 0 if prompt else data.draw(st.integers(1, 8))
    total = before + new
    lengths = [total, *(data.draw(st.integers(new, total)) for _ in range(batch - 1))]
    rotary = data.draw(st.booleans())
    turned = np.outer(np.arange(20), 1 / 10 ** np.linspace(0, 2, size // 2)).astype(np.float32)
    inputs = [
        draw.reals(batch, new, heads * size),
        *(draw.reals(batch, new, groups * size) for _ in range(2)),
        *(draw.reals(batch, groups, before, size) for _ in range(2)),
        np.array(lengths, np.int32) - 1,
        number(total, np.int32),
        *([np.cos(turned), np.sin(turned)] if rotary else [None, None]),
        None,
        draw.reals(1, heads, new, total) if data.draw(st.booleans()) else None,
    ]
    attrs = {
        "num_heads": heads,
        "kv_num_heads": groups,
        "do_rotary": int(rotary),
        "local_window_size": data.draw(st.sampled_from([-1, 1, 3])),
        "softcap": data.draw(st.sampled_from([0.0, 3.0])),
        "smooth_softmax": data.draw(st.integers(0, 1)),
    }
    dynamic = named(data, inputs, "0.0 0.1 1.0 1.1 2.0 2.1 3.0 3.2 4.0 4.2 5.0")
    symbols = applied("GroupQueryAttention", inputs, attrs, outputs=3, dynamic=dynamic)
    feeds = fed(inputs)
    got, want = computed(symbols, feeds), expected(symbols, feeds)
    close(got[0], want[0], tolerance=2e-5)
    for row, count in enumerate(lengths):  # what lies behind is unspecified
        for i in (1, 2):
            close(got[i][row, :, :count], want[i][row, :, :count])


@given(st.data())
@EXAMPLES
def test_quantised_lstm(data: st.DataObject) -> None:
    draw = Drawn(data.draw(st.integers(0, 999)))
    length, batch, size, hidden = (data.draw(st.integers(1, 4)) for _ in range(4))
    direction = data.draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    count = 2 if direction == "bidirectional" else 1
    given_ = data.draw(st.tuples(*[st.booleans()] * 5))
    ends = [length, *(data.draw(st.integers(1, length)) for _ in range(batch - 1))]
    optional = [
        draw.reals(count, 8 * hidden),
        np.array(ends, np.int32),
        draw.reals(count, batch, hidden),
        draw.reals(count, batch, hidden),
        draw.reals(count, 3 * hidden),
    ]
    scales = [(draw.rng.random(count) * 0.01 + 0.005).astype(np.float32) for _ in range(2)]
    zero = np.zeros(count, np.int8)
    inputs = [
        draw.reals(length, batch, size),
        draw.bytes(count, size, 4 * hidden, signed=True),
        draw.bytes(count, hidden, 4 * hidden, signed=True),
        *(v if there else None for v, there in zip(optional, given_, strict=True)),
        *(scales[0], zero, scales[1], zero),
    ]
    attrs = {"direction": direction, "hidden_size": hidden, "input_forget": int(given_[0])}
    how: dict[str, Any] = {"outputs": 3, "constants": (1, 2, 8, 9, 10, 11)}
    how["dynamic"] = named(data, inputs, "0.0 0.1 4.0 5.1 6.1")
    agree("DynamicQuantizeLSTM", inputs, attrs, **how)


def test_one_program_generates_step_by_step() -> None:
    """A prompt, then one token after another: the cache grows, the program stays."""
    draw, heads, groups, size = Drawn(1), 4, 2, 16
    turned = np.outer(np.arange(20), 1 / 10 ** np.linspace(0, 2, size // 2)).astype(np.float32)
    caches = [np.cos(turned), np.sin(turned)]

    def step(new: int, past: list[Array]) -> list[Array | None]:
        before = past[0].shape[2]
        return [
            draw.reals(1, new, heads * size),
            *(draw.reals(1, new, groups * size) for _ in range(2)),
            *past,
            np.array([before + new - 1], np.int32),
            number(before + new, np.int32),
            *caches,
        ]

    first = step(5, [np.zeros((1, groups, 0, size), np.float32)] * 2)
    attrs = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": 1}
    dynamic = [*((i, 1) for i in range(3)), (3, 2), (4, 2)]
    symbols = applied("GroupQueryAttention", first, attrs, outputs=3, dynamic=dynamic)
    graph = Graph({f"y{i}": symbol for i, symbol in enumerate(symbols)})
    instance = compile_graph(graph, Options(threads=1)).instance()
    session = onnxruntime.InferenceSession(engine.of_symbolic(graph).SerializeToString())
    inputs = first
    for _ in range(4):
        feeds = fed(inputs)
        for name, value in feeds.items():
            instance[name] = value
        instance.compute()
        got = [np.array(instance[f"y{i}"]) for i in range(3)]
        for a, b in zip(got, session.run(["y0", "y1", "y2"], feeds), strict=True):
            close(a, b)
        inputs = step(1, got[1:])

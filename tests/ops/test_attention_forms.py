"""Attention in all its forms against sums in float64, with sizes by name too, nothing in Python."""

from __future__ import annotations

import numpy as np
import pytest
from host_free import fed, run
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import ops
from neuralsym.dtypes import number_type

UNITS = {"float16": 2.0**-9, "bfloat16": 2.0**-6, "float32": 2.0**-19, "float64": 2.0**-47}


def exact(q, k, v, mask, past_key, past_value, valid, attrs):
    """Y, the present keys and values, and the four stages of the scores, in float64.

    q, k, v are [batch, heads, length, size].
    """
    if past_key is not None:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    present = k, v
    length, total = q.shape[2], k.shape[2]
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scale = attrs.get("scale") or 1 / np.sqrt(q.shape[3])
    stages = [q @ k.swapaxes(2, 3) * scale]
    cap = attrs.get("softcap", 0.0)
    stages.append(cap * np.tanh(stages[0] / cap) if cap else stages[0])
    allowed = np.ones((q.shape[0], 1, length, total), bool)
    offset = np.zeros(q.shape[0], int)
    if past_key is not None:
        offset += past_key.shape[2]
    elif valid is not None:
        offset = valid - length
    places = offset[:, None, None, None] + np.arange(length)[:, None]
    keys = np.arange(total)
    if attrs.get("is_causal"):
        allowed &= keys <= places
    for side, sign in (("left_window_size", 1), ("right_window_size", -1)):
        if attrs.get(side, -1) >= 0:
            allowed &= sign * (places - keys) <= attrs[side]
    if valid is not None:
        allowed &= keys < valid[:, None, None, None]
    bias = np.where(allowed, 0.0, -np.inf)
    if mask is not None:
        missing = [(0, 0)] * (mask.ndim - 1) + [(0, total - mask.shape[-1])]
        if mask.dtype == bool:
            mask = np.where(mask, 0.0, -np.inf)
        bias = bias + np.pad(mask.astype(np.float64), missing, constant_values=-np.inf)
    stages.append(stages[1] + bias)
    scores = stages[2]
    most = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(most), 0, most))
    total_power = powers.sum(-1, keepdims=True)
    stages.append(powers / np.where(total_power, total_power, 1))
    return stages[3] @ v, *present, stages


def packed(x):
    """[batch, heads, length, size] as [batch, length, heads * size]."""
    batch, heads, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.data())
def test_forms(data):
    def whole(low, high):
        return data.draw(st.integers(low, high))

    def coin():
        return data.draw(st.booleans())

    dtype = data.draw(st.sampled_from(sorted(UNITS)))
    kind = number_type(dtype).numpy
    rng = np.random.default_rng(whole(0, 99))
    batch, heads, group = whole(1, 2), whole(1, 2), whole(1, 2)
    length, kept, size, width = whole(1, 4), whole(1, 4), whole(1, 4), whole(1, 4)
    flat, cached = coin(), data.draw(st.sampled_from(["no", "past", "valid"]))

    def drawn(*shape):
        return rng.uniform(-1, 1, shape).astype(kind)

    q, k, v = (
        drawn(batch, heads * group, length, size),
        drawn(batch, heads, kept, size),
        drawn(batch, heads, kept, width),
    )
    arrays = {n: packed(a) if flat else a for n, a in (("q", q), ("k", k), ("v", v))}
    attrs = {}
    if flat:
        attrs |= {"q_num_heads": heads * group, "kv_num_heads": heads}
    total = kept
    if cached == "past":
        before = whole(0, 3)
        total += before
        arrays["past_key"] = drawn(batch, heads, before, size)
        arrays["past_value"] = drawn(batch, heads, before, width)
    if cached == "valid":
        arrays["valid"] = rng.integers(0, total + 1, batch)
    masked = data.draw(st.sampled_from(["no", "bool", "float"]))
    if masked != "no":
        shape = [batch, heads * group, length, total]
        shape = [s if coin() else 1 for s in shape[:-1]] + shape[-1:]
        shape = shape[whole(0, 2) :]
        least = int(max(arrays["valid"], default=0)) if cached == "valid" else 1
        if coin() and cached == "valid":
            shape[-1] = max(1, least)
        allowed = rng.random(shape) < 0.7
        arrays["mask"] = allowed if masked == "bool" else drawn(*shape)
    if coin():
        attrs["is_causal"] = 1
    for side in ("left_window_size", "right_window_size"):
        if whole(0, 3) == 0:
            attrs[side] = whole(0, 3)
    if coin():
        attrs["softcap"] = 0.5
    if coin():
        attrs["scale"] = 0.75
    mode = whole(0, 3)
    named = coin()
    leaves = dict(zip(arrays, fed(arrays, names_of(arrays, flat) if named else None), strict=True))
    order = ("q", "k", "v", "mask", "past_key", "past_value", "valid")
    count = 4 if cached != "valid" else 1
    outputs = ops.attention(
        *(leaves.get(n) for n in order), outputs=count, qk_matmul_output_mode=mode, **attrs
    )
    made = run(list(outputs) if count > 1 else [outputs], arrays)
    wide = {
        n: a.astype(np.float64) if a.dtype == kind and n != "mask" else a for n, a in arrays.items()
    }
    wide |= {n: a.astype(np.float64) for n, a in (("q", q), ("k", k), ("v", v))}
    y, *present, stages = exact(*(wide.get(n) for n in order), attrs)
    wanted = [packed(y) if flat else y, *present, stages[mode]]
    for value, right in zip(made, wanted, strict=False):
        assert value.dtype == kind and value.shape == right.shape
        value = value.astype(np.float64)
        np.testing.assert_allclose(value, right, rtol=0, atol=8 * UNITS[dtype])


def names_of(arrays, flat):
    """Names for what models leave open: the batch and the lengths."""
    shapes = {}
    for name, array in arrays.items():
        sizes = list(array.shape)
        if name in ("q", "k", "v"):
            sizes[0] = "N"
            sizes[1 if flat else 2] = "L" if name == "q" else "S"
        elif name.startswith("past"):
            sizes[0], sizes[2] = "N", "P"
        elif name == "valid":
            sizes[0] = "N"
        shapes[name] = sizes
    return shapes


@pytest.mark.parametrize("precision", ["float32", "float64", "float16", "bfloat16"])
def test_precision_of_the_softmax(precision):
    rng = np.random.default_rng(1)
    arrays = {n: rng.normal(size=(1, 2, 5, 8)).astype(np.float32) for n in "qkv"}
    made = run(ops.attention(*fed(arrays), softmax_precision=precision), arrays)
    wanted, *_ = exact(*arrays.values(), None, None, None, None, {})
    unit = max(UNITS[precision], UNITS["float32"])
    np.testing.assert_allclose(made, wanted, rtol=0, atol=8 * unit)


def test_values_of_another_number_type_than_the_keys():
    rng = np.random.default_rng(2)
    arrays = {n: rng.normal(size=(1, 2, 5, 8)).astype(np.float32) for n in "qk"}
    arrays["v"] = rng.normal(size=(1, 2, 5, 3)).astype(np.float16)
    made = run(ops.attention(*fed(arrays)), arrays)
    wide = [a.astype(np.float64) for a in arrays.values()]
    wanted, *_ = exact(*wide, None, None, None, None, {})
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, wanted, rtol=0, atol=4e-3)


def test_rows_without_any_key_are_zero():
    rng = np.random.default_rng(3)
    arrays = {n: rng.normal(size=(1, 1, 3, 4)).astype(np.float32) for n in "qkv"}
    arrays["mask"] = np.array([[True, True, True], [False] * 3, [True, False, False]])
    y = ops.attention(*fed(arrays), outputs=4, qk_matmul_output_mode=3)
    made, _, _, weights = run(list(y), arrays)
    assert not made[0, 0, 1].any() and not weights[0, 0, 1].any()
    np.testing.assert_allclose(made[0, 0, 2], arrays["v"][0, 0, 0], rtol=1e-6)

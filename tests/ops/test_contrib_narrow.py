"""The com.microsoft operators in half precision and bfloat16, against their own float32 results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from contrib_oracle import DOMAIN, Array, Drawn, applied, close, computed, fed, number

Case = tuple[str, list[Array | None], dict[str, Any]]
BATCH, LENGTH, HIDDEN = 2, 4, 8


def attention(d: Drawn) -> Case:
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
    inputs = [d.reals(BATCH, LENGTH, HIDDEN), d.reals(HIDDEN, 24) / 3, d.reals(24), mask]
    return "Attention", inputs, {"num_heads": 2, "unidirectional": 1}


def grouped(d: Drawn) -> Case:
    new = [d.reals(BATCH, 1, n) for n in (64, 32, 32)]
    past = [d.reals(BATCH, 2, 5, 16) for _ in range(2)]
    rows = [np.array([5, 3], np.int32), number(6, np.int32), d.reals(20, 8), d.reals(20, 8)]
    return "GroupQueryAttention", [*new, *past, *rows], {
        "num_heads": 4, "kv_num_heads": 2, "do_rotary": 1
    }  # fmt: skip


def skip_norm(d: Drawn) -> Case:
    rows = [d.reals(BATCH, LENGTH, HIDDEN) for _ in range(2)]
    return "SkipLayerNormalization", [*rows, *(d.reals(HIDDEN) for _ in range(3))], {}


def skip_rms(d: Drawn) -> Case:
    rows = [d.reals(BATCH, LENGTH, HIDDEN) for _ in range(2)]
    return "SkipSimplifiedLayerNormalization", [*rows, d.reals(HIDDEN), d.reals(HIDDEN)], {}


def rms(d: Drawn) -> Case:
    return "SimplifiedLayerNormalization", [d.reals(BATCH, LENGTH, HIDDEN), d.reals(HIDDEN)], {}


def embedding(d: Drawn) -> Case:
    ids, kinds = d.whole(2, 4, below=10), d.whole(2, 4)
    tables = [d.reals(n, HIDDEN) for n in (10, 6, 2)]
    return "EmbedLayerNormalization", [ids, kinds, *tables, d.reals(8), d.reals(8)], {}


def gelu(d: Drawn) -> Case:
    return "BiasGelu", [d.reals(3, 4), d.reals(4)], {}


def quick(d: Drawn) -> Case:
    return "QuickGelu", [d.reals(3, 4)], {}


def product(d: Drawn) -> Case:
    return "FusedMatMul", [d.reals(3, 4), d.reals(5, 4)], {"alpha": 0.5, "transB": 1}


def four_bits(d: Drawn) -> Case:
    scales = (d.rng.random((6, 2)) / 10).astype(np.float32)
    attrs = {"K": 32, "N": 6, "block_size": 16}
    return "MatMulNBits", [d.reals(3, 32), d.bytes(6, 2, 8), scales], attrs


def normal_floats(d: Drawn) -> Case:
    largest = d.rng.random(12).astype(np.float32)
    attrs = {"K": 32, "N": 6, "block_size": 16, "quant_type": 1}
    return "MatMulBnb4", [d.reals(3, 32), d.bytes(96), largest], attrs


def rows_of_table(d: Drawn) -> Case:
    scales = d.rng.random((6, 2)).astype(np.float32)
    inputs = [d.bytes(6, 16), d.whole(3, below=6), scales]
    return "GatherBlockQuantized", inputs, {"block_size": 16}


def group_norm(d: Drawn) -> Case:
    attrs = {"groups": 2, "activation": 1}
    return "GroupNorm", [d.reals(1, 2, 2, 8), d.reals(8), d.reals(8)], attrs


def gated(d: Drawn) -> Case:
    return "SwiGLU", [d.reals(2, 8)], {"limit": 1.5}


def convolution(d: Drawn) -> Case:
    return "FusedConv", [d.reals(1, 3, 8, 8), d.reals(4, 3, 3, 3)], {"activation": "Relu"}


def causal(d: Drawn) -> Case:
    inputs = [d.reals(BATCH, 6, 7), d.reals(6, 1, 4), d.reals(6), d.reals(BATCH, 6, 3)]
    return "CausalConvWithState", inputs, {}


QUICK = (attention, skip_norm, four_bits)
REST = (
    *(grouped, skip_rms, rms, embedding, gelu, quick, product, normal_floats),
    *(rows_of_table, group_norm, gated, convolution, causal),
)


@pytest.mark.parametrize("case", [*QUICK, *(pytest.param(c, marks=pytest.mark.slow) for c in REST)])
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_keep_to_float32(case: Callable[[Drawn], Case], kind: Any) -> None:
    name, inputs, attrs = case(Drawn(1))
    domain = "" if name == "SimplifiedLayerNormalization" else DOMAIN
    # Both start from numbers that the narrow type holds.
    narrow = [v.astype(kind) if v is not None and v.dtype == np.float32 else v for v in inputs]
    wide = [v if v is None or v.dtype != kind else v.astype(np.float32) for v in narrow]
    count = {"CausalConvWithState": 2, "GroupQueryAttention": 3}.get(name, 1)
    made = []
    for values in (narrow, wide):
        symbols = applied(name, values, attrs, outputs=count, domain=domain)
        made.append(computed(symbols, fed(values)))
    for a, b in zip(*made, strict=True):
        assert a.dtype == kind
        step = 2.0**-10 if kind is np.float16 else 2.0**-7
        largest = float(np.abs(b).max())
        close(a.astype(np.float32) / largest, b / largest, tolerance=4 * step)

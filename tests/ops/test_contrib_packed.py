"""Packed weights of com.microsoft, its quantised LSTM: compared with onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from contrib_oracle import Array, Drawn, agree, applied, close, computed, fed
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym.core.graph import Graph
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options
from neuralsym.errors import BadAttribute, OpError, ShapeMismatch

pytestmark = pytest.mark.oracle


@given(st.data())
@settings(max_examples=25)
def test_products_with_weights_of_few_bits(data: st.DataObject) -> None:
    draw = Drawn(data.draw(st.integers(0, 99)))
    bits, block = data.draw(st.sampled_from([2, 4, 8])), data.draw(st.sampled_from([16, 32]))
    k, n = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 9))
    blocks = -(-k // block)
    scales = (draw.rng.random((n, blocks)) * 0.1 + 0.01).astype(np.float32)
    # onnxruntime takes no real zero points for 8 bits.
    kinds = ["none", "bytes"] if bits == 8 else ["none", "bytes", "reals"]
    zeros: Array | None = None
    match data.draw(st.sampled_from(kinds)):
        case "bytes":
            zeros = draw.bytes(n, -(-blocks * bits // 8))
        case "reals":
            zeros = (draw.rng.random((n, blocks)) * 8).astype(np.float32)
    bias = draw.reals(n) if data.draw(st.booleans()) else None
    weights = draw.bytes(n, blocks, block * bits // 8)
    inputs = [draw.reals(2, 3, k), weights, scales, zeros, None, bias]
    attrs = {"K": k, "N": n, "bits": bits, "block_size": block}
    constants = (1, 2) if zeros is None else (1, 2, 3)
    agree("MatMulNBits", inputs, attrs, constants=constants, tolerance=1e-4)


def test_weights_that_only_the_run_knows_and_half_precision() -> None:
    draw = Drawn(1)
    attrs = {"K": 40, "N": 6, "bits": 4, "block_size": 16}
    scales = (draw.rng.random((6, 3)) * 0.1).astype(np.float32)
    inputs = [draw.reals(5, 40), draw.bytes(6, 3, 8), scales, draw.bytes(6, 2)]
    want = agree("MatMulNBits", inputs, attrs, tolerance=1e-4, dynamic=[(0, 0)])[0]
    half = [v.astype(np.float16) if v.dtype == np.float32 else v for v in inputs]
    got = computed(applied("MatMulNBits", half, attrs), fed(half))[0]
    close(got.astype(np.float32), want, tolerance=2e-2)
    # Flat tensors are those of older files.
    flat = [inputs[0], inputs[1], inputs[2].reshape(-1), inputs[3].reshape(-1)]
    close(computed(applied("MatMulNBits", flat, attrs), fed(flat))[0], want)
    # Every column may name its block itself.
    index = np.arange(40, dtype=np.int32) // 16
    named = [*inputs, index]
    close(computed(applied("MatMulNBits", named, attrs), fed(named))[0], want)


def test_an_omitted_projection() -> None:
    draw = Drawn(2)
    inputs = [draw.reals(3, 40), draw.bytes(6, 0, 8), draw.reals(6, 3), None, None, draw.reals(6)]
    attrs = {"K": 40, "N": 6, "bits": 4, "block_size": 16}
    got = agree("MatMulNBits", inputs, attrs)[0]
    bias = inputs[5]
    assert bias is not None
    close(got, np.broadcast_to(bias, (3, 6)).copy())


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("k", "n"), [(32, 6), (20, 5), (7, 3)])
def test_products_with_four_bit_floats(kind: int, k: int, n: int) -> None:
    draw = Drawn(3)
    packed = draw.bytes((n * k + 1) // 2)
    largest = draw.rng.random(-(-n * k // 16)).astype(np.float32)
    attrs: dict[str, Any] = {"K": k, "N": n, "block_size": 16, "quant_type": kind}
    agree("MatMulBnb4", [draw.reals(3, k), packed, largest], attrs, constants=(1, 2))
    # onnxruntime leaves most of the result out where B is not transposed; here A counts the rows.
    eye = [np.eye(k, dtype=np.float32), packed, largest]
    weights = computed(applied("MatMulBnb4", eye, attrs), fed(eye))[0].T
    a = draw.reals(3, n)
    turned = [a, packed, largest]
    got = computed(applied("MatMulBnb4", turned, {**attrs, "transB": 0}), fed(turned))[0]
    close(got, a @ weights)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_packed_tables(bits: int, zeros: bool) -> None:
    draw, rows, size, block = Drawn(4), 10, 64, 16
    table = draw.bytes(rows, size * bits // 8)
    scales = draw.rng.random((rows, size // block)).astype(np.float32)
    offset = draw.bytes(rows, -(-(size // block) * bits // 8)) if zeros else None
    index = np.array([[1, -1, 3], [99, 0, -11]])
    attrs = {"bits": bits, "block_size": block}
    constants = (0, 2, 3) if zeros else (0, 2)
    inputs = [table, index, scales, offset]
    agree("GatherBlockQuantized", inputs, attrs, constants=constants, dynamic=[(1, 0)])


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4])
def test_rows_of_tables_of_four_bits(kind: Any) -> None:
    draw = Drawn(5)
    low = -8 if kind is ml_dtypes.int4 else 0
    table, offset = (draw.rng.integers(low, low + 16, s).astype(kind) for s in ((6, 32), (6, 2)))
    scales = draw.rng.random((6, 2)).astype(np.float32)
    index = np.array([1, 3, 5], np.int32)
    attrs = {"block_size": 16}
    agree("GatherBlockQuantized", [table, index, scales, offset], attrs, constants=(0, 2, 3))
    index = np.array([1, 30, 5])
    half = [table, index, scales.astype(np.float16)]
    along = {**attrs, "gather_axis": 1, "quantize_axis": 1}
    agree("GatherBlockQuantized", half, along, constants=(0, 2), tolerance=1e-3)
    rows = [table, index, draw.rng.random((1, 32)).astype(np.float32)]
    across = {**attrs, "gather_axis": 1, "quantize_axis": 0}
    agree("GatherBlockQuantized", rows, across, constants=(0, 2))


def test_rows_of_tables_of_eight_bit_floats() -> None:
    draw = Drawn(6)
    table = draw.reals(6, 32).astype(ml_dtypes.float8_e4m3fn)
    inputs = [table, np.array([1, 3, 5], np.int32), draw.rng.random((1, 1)).astype(np.float32)]
    agree("GatherBlockQuantized", inputs, {"block_size": 0}, constants=(0, 2))


def lstm(
    direction: str,
    *,
    signed: bool = True,
    by_column: bool = False,
    given: str = "",
    batch: int = 2,
    hidden: int = 3,
) -> list[Array | None]:
    """Inputs of DynamicQuantizeLSTM; `given` has a letter for each of the optional ones."""
    draw, length, size = Drawn(7), 5, 4
    count = 2 if direction == "bidirectional" else 1
    shape = (count, 4 * hidden) if by_column else (count,)

    def scale() -> Array:
        return (draw.rng.random(shape) * 0.01 + 0.005).astype(np.float32)

    zero = np.zeros(shape, np.int8) if signed else np.full(shape, 128, np.uint8)
    return [
        draw.reals(length, batch, size),
        draw.bytes(count, size, 4 * hidden, signed=signed),
        draw.bytes(count, hidden, 4 * hidden, signed=signed),
        draw.reals(count, 8 * hidden) if "b" in given else None,
        np.array([length, length - 2], np.int32) if "l" in given else None,
        draw.reals(count, batch, hidden) if "h" in given else None,
        draw.reals(count, batch, hidden) if "c" in given else None,
        draw.reals(count, 3 * hidden) if "p" in given else None,
        *(scale(), zero, scale(), zero),
    ]


DIRECTIONS = pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
WEIGHTS = (1, 2, 8, 9, 10, 11)


@DIRECTIONS
@pytest.mark.parametrize(
    ("given", "signed", "by_column"),
    [("", True, False), ("bhc", True, True), ("bhcp", False, False), ("blhc", True, False)],
)
def test_quantised_lstm(direction: str, given: str, signed: bool, by_column: bool) -> None:
    inputs = lstm(direction, signed=signed, by_column=by_column, given=given)
    attrs = {"direction": direction, "hidden_size": 3}
    how: dict[str, Any] = {"constants": WEIGHTS, "outputs": 3}
    agree("DynamicQuantizeLSTM", inputs, attrs, **how)


@DIRECTIONS
@pytest.mark.parametrize("hidden", [3, 40])
@pytest.mark.parametrize(("given", "signed"), [("", True), ("bhc", False), ("bhcp", True)])
def test_quantised_lstm_of_constants(direction: str, given: str, signed: bool, hidden: int) -> None:
    inputs = lstm(direction, signed=signed, by_column=signed, given=given, hidden=hidden)
    attrs = {"direction": direction, "hidden_size": hidden}
    constants = (*WEIGHTS, 3, 7)
    how: dict[str, Any] = {"constants": constants, "outputs": 3}
    found = agree("DynamicQuantizeLSTM", inputs, attrs, **how)
    symbols = applied("DynamicQuantizeLSTM", inputs, attrs, **how)
    cell = compile_graph(Graph({f"y{i}": y for i, y in enumerate(symbols)}), Options(threads=2))
    assert [s.kernel.name for s in cell.program.steps if s.kernel] == ["quantised recurrent"]
    instance = cell.instance()
    for name, value in fed(inputs, constants).items():
        instance[name] = value
    instance.compute()
    for i, one in enumerate(found):
        np.testing.assert_array_equal(np.array(instance[f"y{i}"]), one)


@pytest.mark.parametrize(
    "attrs",
    [
        {"input_forget": 1},
        {
            "activations": ("HardSigmoid", "LeakyRelu", "Affine"),
            "activation_alpha": (0.2, 0.05, 0.7),
            "activation_beta": (0.4, 0.1),
            "clip": 1.5,
        },
        {"activations": ("Softsign", "ScaledTanh", "Elu"), "activation_alpha": (1.5, 0.8),
         "activation_beta": (0.5,)},
    ],
)  # fmt: skip
def test_activations_of_the_quantised_lstm(attrs: dict[str, Any]) -> None:
    inputs = lstm("forward", given="bh", batch=7)
    how: dict[str, Any] = {"constants": WEIGHTS, "outputs": 3, "dynamic": [(0, 0), (0, 1), (5, 1)]}
    agree("DynamicQuantizeLSTM", inputs, {"hidden_size": 3, **attrs}, **how)


def test_mistakes_are_named() -> None:
    draw = Drawn(8)
    x, w, s = draw.reals(3, 40), draw.bytes(6, 3, 8), draw.reals(6, 3)
    attrs = {"K": 40, "N": 6, "block_size": 16}
    with pytest.raises(BadAttribute, match="bits=3"):
        applied("MatMulNBits", [x, w, s], {**attrs, "bits": 3})
    with pytest.raises(BadAttribute, match="needs the attribute"):
        applied("MatMulNBits", [x, w, s], {"K": 40, "N": 6})
    with pytest.raises(OpError, match="MatMulNBits"):
        applied("MatMulNBits", [x[:, :30], w, s], attrs)
    index = np.array([0])
    with pytest.raises(BadAttribute, match="gather_axis must be 0"):
        applied("GatherBlockQuantized", [w[0], index, s], {"gather_axis": 1, "quantize_axis": 0})
    inputs = lstm("forward")
    with pytest.raises(ShapeMismatch, match="W has 1 directions, 2 are asked for"):
        applied("DynamicQuantizeLSTM", inputs, {"direction": "bidirectional"})
    with pytest.raises(BadAttribute, match="activations must name 3"):
        applied("DynamicQuantizeLSTM", inputs, {"activations": ("Tanh",)})
    inputs[0] = draw.reals(5, 2, 9)
    with pytest.raises(ShapeMismatch, match="X has 9 features, W takes 4"):
        applied("DynamicQuantizeLSTM", inputs)

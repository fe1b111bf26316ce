"""DFT and STFT of every length, axis and form against numpy in float64, without host steps."""

from __future__ import annotations

import numpy as np
import pytest
from host_free import fed, host_steps, run
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.kernels.signal_fft import roots_of_unity, transform
from neuralsym.cpu.options import Options
from neuralsym.dtypes import number_type
from neuralsym.errors import BadAttribute, ExecutionError, ShapeMismatch

UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}


def exact(x, length, axis, inverse, onesided):
    """numpy's transform in float64, real parts and imaginary ones along a last axis."""
    signal = x[..., 0].astype(np.float64)
    if x.shape[-1] == 2:
        signal = signal + 1j * x[..., 1].astype(np.float64)
    if inverse and onesided:
        return np.fft.irfft(signal, length, axis=axis)[..., None]
    made = (np.fft.ifft if inverse else np.fft.fft)(signal, length, axis=axis)
    if onesided:
        made = np.take(made, range(made.shape[axis] // 2 + 1), axis=axis)
    return np.stack([made.real, made.imag], axis=-1)


def close(made, wanted, dtype, length, inputs):
    """The error of a transform is a few units of the root of the sum of squares of its inputs."""
    size = np.sqrt(np.sum(np.square(inputs.astype(np.float64))) + 1e-300)
    bound = UNITS[dtype] * (8 * np.log2(length + 1) * size + 2 * np.abs(wanted))
    assert made.shape == wanted.shape
    assert np.all(np.abs(made.astype(np.float64) - wanted) <= bound)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_transforms(data):
    dtype = data.draw(st.sampled_from(sorted(UNITS)))
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    shape[axis] = data.draw(st.integers(1, 70))
    parts = data.draw(st.integers(1, 2))
    inverse, onesided = data.draw(st.booleans()), data.draw(st.booleans())
    if inverse and onesided and shape[axis] < 2:
        shape[axis] = 2
    length = data.draw(st.one_of(st.none(), st.integers(1, 80)))
    given_axis = data.draw(st.sampled_from([axis, axis - len(shape) - 1]))
    computed = data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.normal(size=(*shape, parts)).astype(number_type(dtype).numpy)
    settled = length
    if length is None:
        settled = 2 * (shape[axis] - 1) if inverse and onesided else shape[axis]
    arrays = {"x": x}
    if computed:  # axis and length come with the run
        arrays["axis"] = np.array(given_axis)
        if length is not None:
            arrays["length"] = np.array(length)
    leaves = dict(zip(arrays, fed(arrays), strict=True))
    y = ops.dft(
        leaves["x"],
        leaves.get("length", length),
        leaves.get("axis", given_axis),
        inverse=int(inverse),
        onesided=int(onesided),
    )
    made = run(y, arrays)
    assert made.dtype == x.dtype
    close(made, exact(x, settled, axis, inverse, onesided), dtype, settled, x)


@pytest.mark.parametrize("length", [1, 2, 37, 64, 97, 360, 1009, 2018, 4096, 3 * 5 * 7 * 11])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("parts", [1, 2])
def test_lengths(length, dtype, parts):
    rng = np.random.default_rng(length)
    x = rng.normal(size=(2, length, 3, parts)).astype(dtype)
    made = run(ops.dft(*fed({"x": x}), None, 1), {"x": x}, threads=2)
    close(made, exact(x, length, 1, False, False), dtype, length, x[0, :, 0])


def test_a_long_prime_length_takes_no_square_of_its_time():
    length = 65537
    plan = transform(length)
    assert plan.size == 2**18 and set(plan.factors.tolist()) <= {2, 4}
    x = np.random.default_rng(0).normal(size=(1, length, 2))
    made = run(ops.dft(*fed({"x": x})), {"x": x})
    close(made, exact(x, length, 1, False, False), "float64", length, x)


def test_spectra_of_real_signals_are_symmetric_to_the_last_bit():
    rng = np.random.default_rng(1)
    for length in (9, 10, 16, 74, 37):
        x = rng.normal(size=(1, length, 1)).astype(np.float32)
        y = run(ops.dft(*fed({"x": x})), {"x": x})[0]
        np.testing.assert_array_equal(y[1:], y[1:][::-1] * np.float32([1, -1]))
        assert y[0, 1] == 0 and (length % 2 or y[length // 2, 1] == 0)


@example(8)
@given(st.integers(1, 3000))
@settings(max_examples=30, deadline=None)
def test_roots_of_unity_are_exact_where_they_can_be(count):
    cosines, sines = np.split(roots_of_unity(count), 2)
    turns = np.arange(count) * (2 * np.pi / count)
    np.testing.assert_allclose(cosines, np.cos(turns), rtol=0, atol=2e-15)
    np.testing.assert_allclose(sines, np.sin(turns), rtol=0, atol=2e-15)
    np.testing.assert_array_equal(cosines[1:], cosines[1:][::-1])
    np.testing.assert_array_equal(sines[1:], -sines[1:][::-1])
    if count % 4 == 0:
        assert cosines[count // 4] == 0 and sines[count // 2] == 0


# -- STFT --------------------------------------------------------------------------------------
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_short_time_transforms(data):
    dtype = data.draw(st.sampled_from(sorted(UNITS)))
    batch, parts = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    frame = data.draw(st.integers(1, 24))
    length = frame + data.draw(st.integers(0, 30))
    by = data.draw(st.integers(1, 9))
    how = data.draw(st.sampled_from(["window", "length", "both", "none"]))
    onesided = data.draw(st.booleans())
    computed = data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    kind = number_type(dtype).numpy
    x = rng.normal(size=(batch, length, parts)).astype(kind)
    arrays = {"x": x}
    window = np.ones(frame)
    if how == "none":
        frame, window = length, np.ones(length)
    if how in ("window", "both"):
        arrays["window"] = rng.uniform(0.5, 1, frame).astype(kind)
        window = arrays["window"].astype(np.float64)
    if computed:
        arrays["by"] = np.array(by)
        if how in ("length", "both"):
            arrays["frame"] = np.array(frame)
    leaves = dict(zip(arrays, fed(arrays), strict=True))
    y = ops.stft(
        leaves["x"],
        leaves.get("by", by),
        leaves.get("window"),
        leaves.get("frame", frame if how in ("length", "both") else None),
        onesided=int(onesided),
    )
    made = run(y, arrays)
    count = (length - frame) // by + 1
    frames = np.stack([x[:, k * by : k * by + frame] for k in range(count)], axis=1)
    frames = frames.astype(np.float64) * window[:, None]
    wanted = exact(frames, frame, 2, False, onesided)
    # Weights are multiplied in the precision of the transform.
    close(made, wanted, dtype, 2 * frame, x)


def test_names_for_sizes_and_lengths_that_come_late():
    x = variable("x", ("N", "L", 1))
    size = variable("size", (), "int64")
    window = ops.hann_window(size)
    y = ops.stft(x, 4, window)
    cell = compile_graph(Graph([y]), Options(threads=1))
    assert not host_steps(cell)
    for length, frame in ((20, 8), (33, 7)):
        signal = np.random.default_rng(length).normal(size=(2, length, 1)).astype(np.float32)
        instance = cell.instance()
        instance["x"], instance["size"] = signal, np.array(frame)
        instance.compute()
        made = np.array(instance[next(iter(cell.program.outputs))])
        weights = np.sin(np.arange(frame) * np.pi / frame) ** 2
        count = (length - frame) // 4 + 1
        frames = np.stack([signal[:, 4 * k : 4 * k + frame] for k in range(count)], axis=1)
        wanted = exact(frames * weights[:, None], frame, 2, False, True)
        np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-5)


def test_mistakes_are_named():
    x = variable("x", (1, 16, 1))
    with pytest.raises(ShapeMismatch, match="window and frame_length"):
        ops.stft(x, 4, variable("w", (8,)), 6)
    with pytest.raises(ShapeMismatch, match="real or complex, not 3"):
        ops.dft(variable("x", (1, 16, 3)))
    with pytest.raises(BadAttribute, match="dft_length=0"):
        ops.dft(x, 0)
    y = ops.stft(x, 4, variable("w", ("W",)), variable("n", (), "int64"))
    feeds = {"x": np.zeros((1, 16, 1)), "w": np.ones(5), "n": np.array(8)}
    feeds = {k: v.astype(np.float32) if k != "n" else v for k, v in feeds.items()}
    with pytest.raises(ExecutionError, match="5 and 8 differ"):
        run(y, feeds)

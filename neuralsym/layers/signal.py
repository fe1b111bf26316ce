"""Spectrograms of sampled signals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, did_you_mean
from neuralsym.layers.base import require_between, require_shape
from neuralsym.layers.factory import plain_layer
from neuralsym.layers.waves import Stft
from neuralsym.layers.waves import window as window_of
from neuralsym.layers.weights import weight
from neuralsym.layers.window import LARGEST_AXIS

_SIDES: tuple[Literal["real", "imag"], ...] = ("real", "imag")
_LEAST = 1e-7
_MODES = ("log", "magnitude", "psd", "real", "imag", "angle", "stft")


@plain_layer
def stft_spectrogram(
    x: Symbol,
    mode: Literal["log", "magnitude", "psd", "real", "imag", "angle", "stft"] = "log",
    frame_length: int = 256,
    frame_step: int | None = None,
    fft_length: int | None = None,
    window: str | None = "hann",
    periodic: bool = False,
    scaling: Literal["density", "spectrum"] | None = "density",
    padding: Literal["valid", "same"] = "valid",
    expand_dims: bool = False,
    *,
    name: str | None = None,
) -> Symbol:
    """Frequencies over frames of a signal: [N, C, samples] -> [N, C * F, frames].

    F = fft_length // 2 + 1 frequencies, twice as many for mode "stft" (real, then imaginary
    parts). frame_step: half of frame_length unless given; fft_length: the next power of two.
    expand_dims: [N, C, frames, F]. window: "hann", "hamming", "blackman", "rectangular" or None.
    Weights real_kernel and imag_kernel [F, 1, frame_length] begin with the Fourier basis and may
    be trained, as in Keras (there [frame_length, 1, F]).

    Keras STFTSpectrogram (channels first); ONNX Conv, Mul, Add, Sqrt, Log.
    """
    if mode not in _MODES:
        raise BadAttribute(f"mode={mode!r}{did_you_mean(mode, _MODES)}: {', '.join(_MODES)}")
    if scaling not in (None, "density", "spectrum") or padding not in ("valid", "same"):
        raise BadAttribute(
            f"scaling={scaling!r}, padding={padding!r}: 'density', 'spectrum' or None, and "
            "'valid' or 'same'"
        )
    require_between("frame_length", frame_length, 1, LARGEST_AXIS)
    step = frame_step or max(frame_length // 2, 1)
    size = fft_length or 2 ** math.ceil(math.log2(frame_length))
    if not 1 <= step <= frame_length or not max(frame_length, 2) <= size <= LARGEST_AXIS:
        raise BadAttribute(
            f"frame_step={frame_step}, fft_length={fft_length}: a step of 1 to {frame_length}, "
            f"transforms of {max(frame_length, 2)} to {LARGEST_AXIS}"
        )
    if not window_of(window, frame_length, periodic).any():
        raise BadAttribute(f"window={window!r} of frame_length={frame_length} is zero everywhere")
    channels = int(require_shape(x, rank=3, axis=1)[1])
    count = size // 2 + 1
    parts: dict[str, Symbol] = {}
    for side in _SIDES:
        if mode not in _SIDES or mode == side:
            init = Stft(side, window, scaling, periodic)
            kernel = weight(f"{side}_kernel", (count, 1, frame_length), init, dtype=x.dtype)
            parts[side] = _filtered(x, kernel, step, padding == "same")
    y = _shown(mode, parts, count)
    if expand_dims:
        return ops.transpose(y, perm=(0, 2, 3, 1))  # [N, F, C, frames] so far
    wide = channels * (2 * count if mode == "stft" else count)
    return ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), [0, wide, -1])


def _filtered(x: Symbol, kernel: Symbol, step: int, same: bool) -> Symbol:
    """[N, C, samples] -> [N, F, C, frames], each channel by itself."""
    rows = ops.unsqueeze(x, [1])
    wide = ops.unsqueeze(kernel, [2])
    if not same:
        return ops.conv(rows, wide, strides=(1, step))
    samples, length = require_shape(x)[2], require_shape(kernel)[2]
    if not isinstance(samples, int):
        return ops.conv(rows, wide, strides=(1, step), auto_pad="SAME_UPPER")
    total = max((-(-samples // step) - 1) * step + length - samples, 0)
    return ops.conv(rows, wide, strides=(1, step), pads=(0, total // 2, 0, total - total // 2))


def _shown(mode: str, parts: Mapping[str, Symbol], count: int) -> Symbol:
    """What a mode shows of the real and imaginary parts [N, F, C, frames]."""
    if mode in _SIDES:
        return parts[mode]
    real, imag = parts["real"], parts["imag"]
    if mode == "stft":
        return ops.concat([real, imag], axis=1)
    if mode == "angle":
        return _angle(imag, real)
    power = real * real + imag * imag
    if mode == "psd":  # all but the first and last frequency stand for two
        twice = np.full((count, 1, 1), 2.0)
        twice[[0, -1]] = 1.0
        return power * constant(twice, str(power.dtype))
    length = ops.sqrt(ops.max([power, _LEAST]))
    return length if mode == "magnitude" else ops.log(ops.max([length, _LEAST]))


def _angle(y: Symbol, x: Symbol) -> Symbol:
    """The angle of (x, y), within half a turn either way; ONNX has no Atan2."""
    half = ops.where(y < 0.0, -math.pi, math.pi)
    right = ops.atan(y / x)
    beside = ops.where(x < 0.0, right + half, right)
    upright = ops.where(ops.equal(y, 0.0), 0.0, half * 0.5)
    return ops.where(ops.equal(x, 0.0), upright, beside)


@plain_layer
def mel_spectrogram(
    x: Symbol,
    fft_length: int = 2048,
    sequence_stride: int = 512,
    sequence_length: int | None = None,
    window: str | None = "hann",
    sampling_rate: int = 16000,
    num_mel_bins: int = 128,
    min_freq: float = 20.0,
    max_freq: float | None = None,
    power_to_db: bool = True,
    top_db: float = 80.0,
    mag_exp: float = 2.0,
    min_power: float = 1e-10,
    ref_power: float = 1.0,
    *,
    name: str | None = None,
) -> Symbol:
    """The power of mel bands over frames of a signal: [N, samples] -> [N, num_mel_bins, frames].

    The signal is mirrored at its ends by half of fft_length, frames are centred; sequence_length:
    samples under the window, fft_length unless given. Bands: triangles between min_freq and
    max_freq (half of sampling_rate) at even steps of 2595 log10(1 + f/700). mag_exp: the power of
    the magnitude. power_to_db: 10 log10(power / ref_power), at least min_power, and at most top_db
    below the largest value of the whole batch.

    Keras MelSpectrogram; ONNX Pad, STFT, ReduceSumSquare, MatMul, Log.
    """
    length = sequence_length or fft_length
    require_between("fft_length", fft_length, 2, LARGEST_AXIS)
    require_between("sequence_length", length, 1, fft_length)
    require_between("sequence_stride", sequence_stride, 1, 2**31 - 1)
    require_between("num_mel_bins", num_mel_bins, 1, LARGEST_AXIS)
    highest = max_freq or sampling_rate // 2
    if not 0 <= min_freq < highest < math.inf or not min_power > 0:
        raise BadAttribute(
            f"min_freq={min_freq}, max_freq={highest}, min_power={min_power}: rising, finite "
            "frequencies and a positive power are needed"
        )
    require_shape(x, rank=2)
    half = fft_length // 2
    y = ops.pad(x, [half, half], axes=[1], mode="reflect")
    before = (fft_length - length) // 2
    shape = np.zeros(fft_length)
    shape[before : before + length] = window_of(window, length, True)
    frames = ops.stft(
        ops.unsqueeze(y, [2]), np.int64(sequence_stride), constant(shape, str(x.dtype))
    )
    power = ops.reduce_sum_square(frames, [-1], keepdims=0)
    if mag_exp != 2:
        power = ops.pow(power, mag_exp / 2)
    bands = _bands(fft_length // 2 + 1, sampling_rate, num_mel_bins, min_freq, highest)
    y = ops.matmul(power, constant(bands, str(x.dtype)))
    if power_to_db:
        decibels = 10.0 / math.log(10.0)
        y = ops.log(ops.max([y, min_power])) * decibels
        y = y - decibels * math.log(max(abs(ref_power), min_power))
        y = ops.max([y, ops.reduce_max(y, keepdims=0) - top_db])
    return ops.transpose(y, perm=(0, 2, 1))


def _bands(count: int, rate: int, bands: int, lowest: float, highest: float) -> NDArray[np.float64]:
    """How much of each of `count` frequencies from 0 to rate / 2 each mel band holds."""

    def mel(frequency: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(1127.0 * np.log(1.0 + np.asarray(frequency) / 700.0))

    places = mel(np.linspace(0.0, rate / 2, count))[:, None]
    edges = np.linspace(mel(lowest), mel(highest), bands + 2)
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (places - low) / (centre - low), (high - places) / (high - centre)
    held = np.maximum(0.0, np.minimum(rising, falling))
    held[0] = 0.0  # a constant belongs to no band
    return held

"""Signals: Fourier transforms, their windows, and the mel scale."""

from __future__ import annotations

from neuralsym.core.op import Call
from neuralsym.core.types import Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import Contraction, Generator, bad, check_axis, check_choice, check_rank
from neuralsym.ops.generator import dtype_attribute
from neuralsym.ops.shapes import merged


class DFT(Contraction):
    """The discrete Fourier transform along an axis; complex numbers are a last axis of two."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "onesided", (0, 1))
        check_choice(call, "inverse", (0, 1))
        check_rank(call, 0, 2)
        _check_parts(call)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        shape = call.shape(0)
        if shape is None:
            return [TensorType(call.dtype(0))]
        axis = _scalar(call, 2) if call.has(2) else -2
        if axis is not None:
            axis = check_axis(call, axis, len(shape))
            if axis == len(shape) - 1:
                call.fail("the last axis holds real and imaginary parts; choose another axis", bad)
        length: Size = None
        if call.has(1):
            length = _scalar(call, 1)
            if length is not None and length < 1:
                call.fail(f"dft_length={length} must be at least 1", bad)
        elif axis is not None:
            length = shape[axis]
        onesided, inverse = bool(call.attr("onesided")), bool(call.attr("inverse"))
        if onesided and length is not None:
            if inverse and not call.has(1):
                if isinstance(length, int) and length < 2:
                    call.fail(f"{length} frequencies, half of the transform, tell no signal")
                length = 2 * (length - 1)
            elif not inverse:
                length = length // 2 + 1
        if axis is None:
            kept = not call.has(1) and not onesided  # whichever the axis, no size changes
            sizes: tuple[Size, ...] = shape[:-1] if kept else (None,) * (len(shape) - 1)
        else:
            sizes = tuple(length if i == axis else d for i, d in enumerate(shape[:-1]))
        return [TensorType(call.dtype(0), (*sizes, 1 if onesided and inverse else 2))]


class STFT(Contraction):
    """The Fourier transforms of overlapping frames of a signal [batch, length, 1 or 2]."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "onesided", (0, 1))
        check_rank(call, 0, 3, 3)
        if call.has(2):
            check_rank(call, 2, 1, 1)
        _check_parts(call)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        signal = call.shape(0)
        window = call.shape(2) if call.has(2) else None
        step = _scalar(call, 1)
        if step is not None and step < 1:
            call.fail(f"frame_step={step} must be at least 1", bad)
        length: Size = None
        if call.has(3):
            length = _scalar(call, 3)
        elif call.has(2):
            length = None if window is None else window[0]
        elif signal is not None:
            length = signal[1]
        if window is not None:
            merged(call, window[0], length, "the window and frame_length")
        if isinstance(length, int) and length < 1:
            call.fail(f"frame_length={length} must be at least 1", bad)
        frames: Size = None
        if signal is not None and signal[1] is not None and length is not None and step:
            frames = (signal[1] - length) // step + 1
            if isinstance(frames, int) and frames < 1:
                call.fail(f"a frame of {length} is longer than the signal")
        bins = None if length is None else length // 2 + 1 if call.attr("onesided") else length
        batch = signal[0] if signal is not None else None
        return [TensorType(call.dtype(0), (batch, frames, bins, 2))]


def _check_parts(call: Call) -> None:
    """The last axis holds a real number, or the two parts of a complex one."""
    shape = call.shape(0)
    if shape and isinstance(shape[-1], int) and shape[-1] not in (1, 2):
        call.fail(f"its last axis must hold 1 or 2 numbers, real or complex, not {shape[-1]}")


def _scalar(call: Call, index: int) -> int | None:
    """The known value of a scalar input."""
    value = call.known(index)
    if value is None or value.size != 1 or value.dtype == object:
        return None
    return int(value.reshape(-1)[0])


class SpectralWindow(Generator, abstract=True):
    """A vector of weights that fade towards both ends."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        check_rank(call, 0, 0, 0)
        dims = call.known_dims(0)
        size = dims[0] if dims else None
        if isinstance(size, int) and size < 0:
            call.fail(f"size={size} is negative", bad)
        dtype = dtype_attribute(call, "output_datatype") or NumberType.FLOAT32
        return [TensorType(dtype, (size,))]


class HannWindow(SpectralWindow):
    """The weights 1/2 - cos(2 pi n/N)/2."""


class HammingWindow(SpectralWindow):
    """The weights 25/46 - 21/46 cos(2 pi n/N)."""


class BlackmanWindow(SpectralWindow):
    """The weights 0.42 - cos(2 pi n/N)/2 + 0.08 cos(4 pi n/N)."""


class MelWeightMatrix(Generator):
    """The matrix [spectrum bins, mel bins] that sums a spectrum into bins of the mel scale."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        bins, length = _scalar(call, 0), _scalar(call, 1)
        rate = _scalar(call, 2)
        named = (("num_mel_bins", bins), ("dft_length", length), ("sample_rate", rate))
        for name, value in named:
            if value is not None and value < 1:
                call.fail(f"{name}={value} must be at least 1", bad)
        rows = None if length is None else length // 2 + 1
        dtype = dtype_attribute(call, "output_datatype") or NumberType.FLOAT32
        return [TensorType(dtype, (rows, bins))]

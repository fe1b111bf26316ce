"""Resampling along one axis as IR, by tables of where each place comes from and with what weight.

    y[..., o, i] = sum over taps k of weight[k][o] * x[..., offset[k][o] + i]

for all outer axes (up to four of any strides) and inner elements i, which are dense. Where there
is one inner element, the vectors lie along o and read by gathers, else along i. The variant
without weights copies elements of any size. The tables belong to the sizes of a run: the code
knows nothing of modes and sizes.

Descriptor: y, x, offsets (int64 bytes), weights (float32), number of taps, places along the axis,
byte stride of the axis in y, inner elements, then sizes of the outer axes, their strides in y and
their strides in x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from neuralsym.cpu.ir import Function, Module, mangled

LEVELS = 4
Term = Callable[[str], tuple[str, str]]
"""From a tap to the elements and the weights there."""


@dataclass(frozen=True)
class ResizeText:
    """What the text depends on: lanes, bytes of an element, and the taps, if they are weighted.

    taps: 0 copies elements; -1 reads the number of taps from the descriptor.
    """

    width: int
    itemsize: int
    taps: int


def resize_text(text: ResizeText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    module = Module()
    _Writer(module.function(name), text).write()
    return str(module)


class _Writer:
    def __init__(self, f: Function, text: ResizeText) -> None:
        self.f, self.text = f, text
        self.element = "float" if text.taps else f"i{8 * text.itemsize}"
        self.kind = f"<{text.width} x {self.element}>"
        self.offsets, self.weights = f.operand(2), f.operand(3)
        self.taps, self.count, self.stride, self.inner = (f.word(i) for i in range(4, 8))
        self.sizes = [f.word(8 + i) for i in range(LEVELS)]
        self.targets = [f.word(8 + LEVELS + i) for i in range(LEVELS)]
        self.sources = [f.word(8 + 2 * LEVELS + i) for i in range(LEVELS)]

    def write(self) -> None:
        f = self.f
        f.choose(f.compare("eq", self.inner, 1), [], self._gathers, self._stretches)
        f.do("ret i32 0")

    def _start(self, unit: str) -> tuple[str, str]:
        """Where line `unit` begins in y and in x."""
        f = self.f
        target, source = f.operand(0), f.operand(1)
        for level in reversed(range(LEVELS)):
            place = f.srem(unit, self.sizes[level])
            unit = f.sdiv(unit, self.sizes[level])
            target = f.at(target, f.mul(place, self.targets[level]))
            source = f.at(source, f.mul(place, self.sources[level]))
        return target, source

    def _lines(self) -> str:
        f = self.f
        total = self.sizes[0]
        for size in self.sizes[1:]:
            total = f.mul(total, size)
        return total

    # -- along the axis --------------------------------------------------------------------
    def _gathers(self) -> list[str]:
        f, width, item = self.f, self.text.width, self.text.itemsize
        low, high = f.share(self._lines())
        with f.loop(high, start=low) as unit:
            target, source = self._start(unit.index)
            whole = f.value(f"and i64 {self.count}, {-width}")
            with f.loop(whole, step=width) as at:
                made = self._sum(partial(self._gathered, source, at.index))
                f.store(self.kind, made, f.at(target, f.mul(at.index, item)), item)
            with f.loop(self.count, start=whole) as at:
                made = self._single(source, at.index, "0")
                f.store(self.element, made, f.at(target, f.mul(at.index, item)), item)
        return []

    def _gathered(self, source: str, place: str, tap: str) -> tuple[str, str]:
        """Elements and weights of `width` places."""
        f, width, item = self.f, self.text.width, self.text.itemsize
        entry = f.add(f.mul(tap, self.count), place)
        offsets = f.load(f"<{width} x i64>", f.at(self.offsets, f.mul(entry, 8)), 8)
        places = f.value(f"getelementptr i8, ptr {source}, <{width} x i64> {offsets}")
        name = f"@llvm.masked.gather.{mangled(self.kind)}.v{width}p0"
        pointers, mask = f"<{width} x ptr>", f"<{width} x i1>"
        f.module.declarations.add(
            f"declare {self.kind} {name}({pointers}, i32, {mask}, {self.kind})"
        )
        ones = "<" + ", ".join(["i1 true"] * width) + ">"
        value = f.value(
            f"call {self.kind} {name}({pointers} {places}, i32 {item}, {mask} {ones}, "
            f"{self.kind} zeroinitializer)"
        )
        if not self.text.taps:
            return value, ""
        return value, f.load(self.kind, f.at(self.weights, f.mul(entry, 4)))

    # -- along the inner elements ----------------------------------------------------------
    def _stretches(self) -> list[str]:
        f, width, item = self.f, self.text.width, self.text.itemsize
        low, high = f.share(f.mul(self._lines(), self.count))
        with f.loop(high, start=low) as unit:
            target, source = self._start(f.sdiv(unit.index, self.count))
            place = f.srem(unit.index, self.count)
            target = f.at(target, f.mul(place, self.stride))
            whole = f.value(f"and i64 {self.inner}, {-width}")
            with f.loop(whole, step=width) as at:
                offset = f.mul(at.index, item)
                made = self._sum(partial(self._dense, source, place, offset))
                f.store(self.kind, made, f.at(target, offset), item)
            with f.loop(self.inner, start=whole) as at:
                offset = f.mul(at.index, item)
                f.store(
                    self.element, self._single(source, place, offset), f.at(target, offset), item
                )
        return []

    def _entry(self, tap: str, place: str) -> tuple[str, str]:
        """The offset and the weight of one place."""
        f = self.f
        entry = f.add(f.mul(tap, self.count), place)
        offset = f.load("i64", f.at(self.offsets, f.mul(entry, 8)), 8)
        if not self.text.taps:
            return offset, ""
        return offset, f.load("float", f.at(self.weights, f.mul(entry, 4)))

    def _dense(self, source: str, place: str, offset: str, tap: str) -> tuple[str, str]:
        f = self.f
        jump, weight = self._entry(tap, place)
        value = f.load(self.kind, f.at(f.at(source, jump), offset), self.text.itemsize)
        return value, f.splat(weight, "float", self.text.width) if weight else ""

    def _single(self, source: str, place: str, offset: str) -> str:
        def term(tap: str) -> tuple[str, str]:
            jump, weight = self._entry(tap, place)
            at = self.f.at(self.f.at(source, jump), offset)
            return self.f.load(self.element, at, self.text.itemsize), weight

        return self._sum(term, self.element)

    def _sum(self, term: Term, kind: str = "") -> str:
        """The weighted sum of the taps, or the one element."""
        f, taps, kind = self.f, self.text.taps, kind or self.kind
        value, weight = term("0")
        if not taps:
            return value
        total = f.value(f"fmul {kind} {value}, {weight}")
        for k in range(1, taps):
            value, weight = term(str(k))
            total = f.call("fmuladd", kind, value, weight, total)
        if taps > 0:
            return total
        with f.loop(self.taps, (kind, total), start=1) as tap:
            value, weight = term(tap.index)
            tap.next(f.call("fmuladd", kind, value, weight, tap.values[0]))
        return tap.values[0]


# -- tables ------------------------------------------------------------------------------------
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sampling:
    """How positions and weights are found: the attributes of Resize, in its own spellings."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False

    def taps(self) -> int:
        """The taps of the text: as many as the mode has, -1 where the scale decides."""
        if self.mode == "nearest":
            return 0
        return -1 if self.antialias else {"linear": 2, "cubic": 4}[self.mode]


def positions(
    sampling: Sampling, size: int, count: int, scale: float, crop: tuple[float, float] = (0, 1)
) -> Floats:
    """Where in an axis of `size` each of `count` places lies.

    crop: the part of the axis that `tf_crop_and_resize` takes, of 0 to 1.
    """
    place = np.arange(count, dtype=np.float64)
    kind, whole = sampling.coordinates, scale * size
    if kind == "tf_crop_and_resize":
        # In float32 as far as others do it so: crops like to begin halfway between two places.
        first, last = map(np.float32, crop)
        start, span = float(first * np.float32(size - 1)), float(last - first) * (size - 1)
        return start + (place * span / (whole - 1) if whole != 1 else np.full(count, span / 2))
    if kind == "align_corners":
        return place * ((size - 1) / (whole - 1)) if whole != 1 else place * 0
    if kind == "asymmetric" and sampling.mode == "nearest":
        # In float32, as others do it: 3 / 0.6 is 5 there, and a bit less than 5 in float64.
        return (place.astype(np.float32) / np.float32(scale)).astype(np.float64)
    if kind == "asymmetric":
        return place / scale
    if kind == "pytorch_half_pixel" and whole == 1:
        return np.full(count, -0.5)
    moved = (place + 0.5) / scale - 0.5
    if kind == "half_pixel_symmetric":
        moved += size / 2 * (1 - count / whole)
    return moved


def outside(at: Floats, size: int) -> list[tuple[int, int]]:
    """The runs (first, how many) of places that lie off an axis, where a crop has another value."""
    off = np.concatenate([[False], ~((at >= 0) & (at <= size - 1)), [False]])
    edges = np.flatnonzero(off[1:] != off[:-1]).tolist()
    return [(a, b - a) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def tables(
    sampling: Sampling, size: int, count: int, scale: float, crop: tuple[float, float] = (0, 1)
) -> tuple[Places, Floats]:
    """Indices and weights [taps][count] of each place along an axis."""
    at = positions(sampling, size, count, scale, crop)
    # What lies off the axis, or nowhere, gets another value or the nearest one.
    at = np.clip(np.nan_to_num(at), -size - 4, 2 * size + 4)
    if sampling.mode == "nearest":
        rounding: dict[str, Callable[[Floats], Floats]] = {
            "floor": np.floor,
            "ceil": np.ceil,
            "round_prefer_floor": lambda p: np.ceil(p - 0.5),
            "round_prefer_ceil": lambda p: np.floor(p + 0.5),
        }
        near = rounding[sampling.nearest](at)
        index = np.clip(near, 0, size - 1).astype(np.int64)[None]
        return index, np.ones(index.shape)
    shrink = min(scale, 1.0) if sampling.antialias else 1.0
    reach = 1 if sampling.mode == "linear" else 2
    # A whole position belongs to the interval on its left.
    left = np.ceil(at).astype(np.int64) - 1
    before = -int(np.floor(-reach / shrink) + 1)
    steps = np.arange(-before, before + 2)[:, None]
    index = left + steps
    weights = _kernel(sampling, np.abs(index - at) * shrink)
    if sampling.antialias:
        weights /= weights.sum(0)
    if sampling.exclude_outside:
        weights = np.where((index < 0) | (index >= size), 0.0, weights)
        total = weights.sum(0)
        weights /= np.where(total == 0, 1.0, total)
    return np.clip(index, 0, size - 1), weights


def _kernel(sampling: Sampling, distance: Floats) -> Floats:
    """The weight at a distance: a hat, or Keys's cubic convolution."""
    if sampling.mode == "linear":
        return np.clip(1 - distance, 0, 1)
    a, d = sampling.cubic, distance
    inner = ((a + 2) * d - (a + 3)) * d * d + 1
    outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, inner, np.where(d < 2, outer, 0.0))


def outer_axes(
    sizes: Sequence[int], targets: Sequence[int], sources: Sequence[int]
) -> list[tuple[int, int, int]]:
    """The outer axes (size, stride in y, stride in x) joined and filled up to LEVELS."""
    made: list[tuple[int, int, int]] = []
    for size, t, s in zip(sizes, targets, sources, strict=True):
        if size == 1:
            continue
        if made and made[-1][1] == t * size and made[-1][2] == s * size:
            made[-1] = (made[-1][0] * size, t, s)
        else:
            made.append((size, t, s))
    assert len(made) <= LEVELS
    return [(1, 0, 0)] * (LEVELS - len(made)) + made

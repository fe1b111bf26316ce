"""A copy between two strided views of any rank: what transposes, slices, tiles and pads are.

    for each index (i0 ... in):  target[sum i*t] = source[sum i*s]

Descriptor: address of the target, address of the source, 1 where the workers share the last axis
and 0 where they share the first, then for each axis its size, the byte stride in the target and
the byte stride in the source (0 repeats a value, negative ones go backwards).

Nothing of a copy is in its code but the bytes of an element: missing axes have size 1, and the
innermost loop looks at its strides. So no batch size ever needs another kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.program import Word

TILE = 256
"""Positions that a transposing inner loop takes at once, so that its source lines stay in cache."""
DEPTH = 6
"""Loops of the common kernel; a copy that has more axes gets a kernel for their number."""
UNROLL = 4


@dataclass(frozen=True)
class Axis:
    """One axis of a copy: its size and its byte strides."""

    size: int
    target: int
    source: int


@dataclass(frozen=True)
class StridedText:
    """What the text depends on: loops, bytes of an element, bytes of a vector."""

    depth: int
    itemsize: int
    vector_bytes: int


@dataclass(frozen=True)
class StridedCopy:
    """One run of the kernel: byte offsets to add to the two addresses, axes, what is shared."""

    target: int
    source: int
    axes: tuple[Axis, ...]
    share_last: bool


def strided_copies(
    shape: Sequence[int],
    target: Sequence[int],
    source: Sequence[int],
    itemsize: int,
    workers: int = 1,
) -> list[StridedCopy]:
    """The runs that copy between two views; none where the shape has a zero."""
    axes = joined_axes(shape, target, source)
    if axes is None:
        return []
    return [
        StridedCopy(to, since, *_shared(part, workers))
        for to, since, part in _tiled(axes, itemsize)
    ]


def joined_axes(
    shape: Sequence[int], target: Sequence[int], source: Sequence[int]
) -> list[Axis] | None:
    """The axes of a copy with those joined that lie one after another on both sides.

    None when there is nothing to copy. A single element gives one axis of size 1.
    """
    if 0 in shape:
        return None
    made: list[Axis] = []
    for size, t, s in zip(shape, target, source, strict=True):
        if size == 1:
            continue
        if made and made[-1].target == t * size and made[-1].source == s * size:
            made[-1] = Axis(made[-1].size * size, t, s)
        else:
            made.append(Axis(size, t, s))
    return made or [Axis(1, 0, 0)]


def _tiled(axes: list[Axis], itemsize: int) -> list[tuple[int, int, list[Axis]]]:
    """The copies (target offset, source offset, axes) that make one, cut where it transposes.

    Where the innermost axis jumps in the source, the axis along which the source is densest goes
    next to it, and the innermost is cut into tiles that go outside: so the lines of the source
    that a tile touches are used up while they are in cache.
    """
    *outer, inner = axes
    if not outer or abs(inner.source) <= itemsize:
        return [(0, 0, axes)]
    dense = min((a for a in outer if a.source), key=lambda a: abs(a.source), default=outer[-1])
    outer.remove(dense)
    outer.append(dense)
    whole, rest = divmod(inner.size, TILE)
    if whole == 0 or (whole == 1 and not rest):
        return [(0, 0, [*outer, inner])]
    tile = Axis(whole, TILE * inner.target, TILE * inner.source)
    made = [(0, 0, [tile, *outer, Axis(TILE, inner.target, inner.source)])]
    if rest:
        done = whole * TILE
        last = [*outer, Axis(rest, inner.target, inner.source)]
        made.append((done * inner.target, done * inner.source, last))
    return made


def _shared(axes: list[Axis], workers: int) -> tuple[tuple[Axis, ...], bool]:
    """The axes with one in front that gives every worker its part, or True for the last one."""
    *outer, inner = axes
    if workers == 1 or (outer and outer[0].size >= 4 * workers):
        return tuple(axes), False
    largest = max(outer, key=lambda a: a.size, default=inner)
    if largest is inner or largest.size < min(4 * workers, inner.size):
        return tuple(axes), True
    outer.remove(largest)
    return (largest, *outer, inner), False


def strided_words(target: Word, source: Word, copy: StridedCopy) -> list[Word]:
    """The descriptor of a copy; axes that it lacks come second, so that the first is shared."""
    *outer, inner = copy.axes
    missing = (Axis(1, 0, 0),) * (DEPTH - len(copy.axes))
    words: list[Word] = [target, source, int(copy.share_last)]
    for axis in (*outer[:1], *missing, *outer[1:], inner):
        words += [axis.size, axis.target, axis.source]
    return words


def strided_form(copy: StridedCopy, itemsize: int, vector_bytes: int) -> StridedText:
    """The text that a copy needs."""
    return StridedText(max(len(copy.axes), DEPTH), itemsize, vector_bytes)


def strided_text(form: StridedText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    module = Module()
    f = module.function(name)
    last = 3 * form.depth
    share_last = f.compare("ne", f.word(2), 0)
    size, inner = f.word(3), f.word(last)
    low, high = f.share(size)
    first = f.select(share_last, "i64", 0, low), f.select(share_last, "i64", size, high)
    low, high = f.share(inner)
    bounds = f.select(share_last, "i64", low, 0), f.select(share_last, "i64", high, inner)
    strides = f.word(last + 1), f.word(last + 2)
    _Writer(f, form, first, bounds, strides).write(f.operand(0), f.operand(1))
    f.do("ret i32 0")
    return str(module)


class _Writer:
    def __init__(
        self,
        f: Function,
        form: StridedText,
        first: tuple[str, str],
        inner: tuple[str, str],
        strides: tuple[str, str],
    ) -> None:
        self.f, self.form = f, form
        self.first, self.inner, self.strides = first, inner, strides
        # What does not change from line to line.
        low, high = inner
        self.axes = [[f.word(3 + 3 * n + k) for k in range(3)] for n in range(form.depth - 1)]
        self.lanes = max(form.vector_bytes // form.itemsize, 1)
        self.whole = f.add(low, f.value(f"and i64 {f.sub(high, low)}, {-self.lanes}"))
        self.rest = f.sub(high, self.whole)
        self.some = f.compare("sgt", self.rest, 0)
        self.masks = form.itemsize in (4, 8)
        self.mask = f.lane_mask(self.rest, self.lanes) if self.masks else ""

    def write(self, target: str, source: str) -> None:
        """All lines: as vectors where the target is dense and the source is too or repeats one
        element, else element by element."""
        f, item = self.f, self.form.itemsize
        dense = [f.compare("eq", stride, item) for stride in self.strides]
        both = f.value(f"and i1 {dense[0]}, {dense[1]}")

        def apart() -> list[str]:
            if item > 8:
                return self._axis(0, target, source, self._sparse)
            repeats = f.compare("eq", self.strides[1], 0)
            f.choose(
                f.value(f"and i1 {dense[0]}, {repeats}"),
                [],
                lambda: self._axis(0, target, source, self._fill),
                lambda: self._axis(0, target, source, self._sparse),
            )
            return []

        f.choose(both, [], lambda: self._axis(0, target, source, self._dense), apart)

    def _axis(
        self, number: int, target: str, source: str, innermost: Callable[[str, str], None]
    ) -> list[str]:
        """The loop over an axis and those inside it."""
        f = self.f
        if number + 1 == self.form.depth:
            innermost(target, source)
            return []
        size, t, s = self.axes[number]
        low, high = self.first if number == 0 else ("0", size)
        with f.loop(high, start=low) as at:
            here = f.at(target, f.mul(at.index, t))
            there = f.at(source, f.mul(at.index, s))
            self._axis(number + 1, here, there, innermost)
        return []

    def _dense(self, target: str, source: str) -> None:
        f, item = self.f, self.form.itemsize
        vector = f"<{self.form.vector_bytes} x i8>"
        with f.loop(self.whole, start=self.inner[0], step=self.lanes) as at:
            offset = f.mul(at.index, item)
            value = f.load(vector, f.at(source, offset), 1)
            f.store(vector, value, f.at(target, offset), 1)
        if self.masks:
            with f.when(self.some):
                kind = f"<{self.lanes} x i{8 * item}>"
                offset = f.mul(self.whole, item)
                value = f.masked_load(kind, f.at(source, offset), self.mask, item)
                f.masked_store(kind, value, f.at(target, offset), self.mask, item)
        else:
            with f.loop(self.inner[1], start=self.whole) as at:
                self._element(target, source, f.mul(at.index, item), f.mul(at.index, item))

    def _fill(self, target: str, source: str) -> None:
        f, item = self.f, self.form.itemsize
        element, kind = f"i{8 * item}", f"<{self.lanes} x i{8 * item}>"
        value = f.load(element, source, item)
        vector = f.splat(value, element, self.lanes)
        if self.lanes == 1:
            kind = element
        with f.loop(self.whole, start=self.inner[0], step=self.lanes) as at:
            f.store(kind, vector, f.at(target, f.mul(at.index, item)), item)
        with f.loop(self.inner[1], start=self.whole) as at:
            f.store(element, value, f.at(target, f.mul(at.index, item)), item)

    def _sparse(self, target: str, source: str) -> None:
        f = self.f
        low, high = self.inner
        t, s = self.strides
        end = f.add(low, f.value(f"and i64 {f.sub(high, low)}, {-UNROLL}"))
        with f.loop(end, start=low, step=UNROLL) as at:
            for k in range(UNROLL):
                place = f.add(at.index, k)
                self._element(target, source, f.mul(place, t), f.mul(place, s))
        with f.loop(high, start=end) as at:
            self._element(target, source, f.mul(at.index, t), f.mul(at.index, s))

    def _element(self, target: str, source: str, to: str, since: str) -> None:
        f, item = self.f, self.form.itemsize
        kind, align = (f"i{8 * item}", item) if item <= 8 else ("<2 x i64>", 8)
        value = f.load(kind, f.at(source, since), align)
        f.store(kind, value, f.at(target, to), align)

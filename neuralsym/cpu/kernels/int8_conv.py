"""Convolutions of 8-bit integers over blocks of channels: ours with epilogue, ONNX's without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np

from neuralsym.core.leaves import OWN
from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.geometry import (
    channels,
    fixed,
    inner,
    plane,
    stored_array,
    widest_halo,
    window,
)
from neuralsym.cpu.kernels.int8 import (
    Array,
    Given,
    corrected_bias,
    given_of,
    int8_code,
    machine_of,
    narrow,
    need_bias,
    taken,
)
from neuralsym.cpu.library import ROWS, Form, Kernel, Library, Take
from neuralsym.cpu.machine import Target
from neuralsym.cpu.options import Options
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step, Word, owner
from neuralsym.cpu.templates.conv_plan import ConvShape
from neuralsym.cpu.templates.int8_form import QUAD
from neuralsym.cpu.templates.int8_parts import border_text
from neuralsym.cpu.templates.int8_plan import (
    Addresses,
    Int8Plan,
    conv_geometry,
    int8_words,
    is_depthwise,
    joined_groups,
    pack_int8_weights,
    plan_int8_conv,
    super_groups,
)

FEW_CHANNELS = 8
"""So few input channels are better read in blocks of one quad."""


class Int8Conv(Kernel):
    """A direct convolution whose sums are exact, rescaled while they are in registers."""

    name = "int8 conv"

    def __init__(self, target: Target, options: Options | None = None) -> None:
        super().__init__(target, options)
        self.borders: WeakKeyDictionary[Buffer, set[int | Buffer]] = WeakKeyDictionary()
        """With which zero points the convolutions of a program see each buffer."""

    def supports(self, step: Step) -> bool | str:
        found = given_of(step)
        if isinstance(found, str):
            return found
        for buffer in (found.x, found.z, step.outputs[0]):
            if buffer is None:
                continue
            if not 3 <= buffer.rank <= 5:
                return f"{buffer.name} has {buffer.rank} axes, the blocked kernels take 3 to 5"
            if not isinstance(channels(buffer), int):
                return f"the channels of {buffer.name} are not fixed"
        filters = fixed(found.w.tensor.shape or (None,))
        if filters is None or not all(filters) or len(filters) != found.x.rank:
            return "its weights are empty, or their sizes are not fixed"
        return True

    def needs(self, step: Step) -> Sequence[int]:
        found = taken(step)
        wanted = [found.x, found.w, found.bias, found.z, found.x_zero]
        return [i for i, b in enumerate(step.inputs) if b is not None and b in wanted]

    def forms(self, step: Step) -> Sequence[Form]:
        found, width = taken(step), self.target.width("int32")
        shape = _filters(found)
        halo = widest_halo(step, found.x, shape[2:])
        count = channels(found.x)
        assert isinstance(count, int)
        block = width
        quads = -(-count // QUAD) * QUAD
        few = count <= FEW_CHANNELS and quads < -(-count // width) * width
        if few and int(step.attr("group") or 1) == 1 and found.x.layout.block != width:
            block = QUAD
        takes: list[Take | None] = [ROWS] * len(step.inputs)
        for i, buffer in enumerate(step.inputs):
            if buffer is found.x:
                takes[i] = Take(block, halo)
            elif buffer is not None and buffer is found.z:
                takes[i] = Take(width)
        return [Form(tuple(takes), (Take(width),))]

    def adjust(self, step: Step) -> None:
        found = taken(step)
        self.borders.setdefault(owner(found.x), set()).add(found.x_zero)
        need_bias(step, found, _filters(found)[0], self.target.width("int32"))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        y = step.outputs[0]
        if 0 in sizes.shape(y):
            return []
        found = taken(step)
        shape = _shape(step, found, sizes)
        source, target = plane(found.x, sizes), plane(y, sizes)
        beside = plane(found.z, sizes) if found.z is not None else None
        weights = _Weights(step, found, shape)
        machine = machine_of(self.target, weights.narrow)
        plan = plan_int8_conv(shape, source, target, beside, found.output, machine, flip=found.flip)
        groups = super_groups(shape, machine.width, source.lanes)
        packed = step.pack(f"weights{plan.vectors}", lambda: weights.packed(plan, groups))
        bias, rows = corrected_bias(step, found, plan, lambda: weights.array)
        # A halo is zero already, unless another step has filled it.
        if any(shape.before + shape.after) and self.borders[owner(found.x)] != {0}:
            rows.append(_border(step, found, sizes))
        batch = sizes.shape(found.x)[0]
        geometry = conv_geometry(plan, shape, batch, source, target, beside)
        at = Addresses(
            inner(found.x, sizes),
            Operand(packed),
            Operand(bias),
            inner(y, sizes),
            None if found.z is None else inner(found.z, sizes),
        )
        name = "int8 depthwise conv" if plan.text.depthwise else "int8 conv"
        code = int8_code(plan.text, self.target.x86, name)
        return [*rows, Row(code, int8_words(plan, at, geometry, found.output))]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        filters = _filters(taken(step))
        return 2 * math.prod(sizes.shape(step.outputs[0])) * math.prod(filters[1:])


def _filters(found: Given) -> tuple[int, ...]:
    shape = fixed(found.w.tensor.shape or ())
    assert shape is not None
    return shape


def _shape(step: Step, found: Given, sizes: Sizes) -> ConvShape:
    """The convolution with the padding of this run."""
    filters = _filters(found)
    triples = window(step, filters[2:], sizes.shape(found.x)[2:]).triples()
    groups = int(step.attr("group") or 1)
    return ConvShape(filters[1] * groups, filters[0], *triples, groups=groups)


class _Weights:
    """The weights less their zero points, read when something needs them."""

    def __init__(self, step: Step, found: Given, shape: ConvShape) -> None:
        self.found, self.shape = found, shape
        self.plain = found.w.dtype.value == "int8" and not found.w_zero.any()
        self.narrow = self.plain or narrow(step, lambda: self.array)

    @property
    def array(self) -> Array:
        """[outputs][channels of a group][taps], int16."""
        values = stored_array(self.found.w).astype(np.int16)
        values = values.reshape(values.shape[0], values.shape[1], -1)
        return np.asarray(values - self.found.w_zero.astype(np.int16).reshape(-1, 1, 1))

    def packed(self, plan: Int8Plan, groups: int) -> Array:
        weights = self.array
        if not is_depthwise(self.shape):
            weights = joined_groups(weights, self.shape.groups, groups)
        return pack_int8_weights(weights, plan)


# -- the border: the zero point of the values --------------------------------------------------
def _border(step: Step, found: Given, sizes: Sizes) -> Row:
    """The row that writes the zero point to all that is not an inner pixel."""
    zero = found.x_zero
    if isinstance(zero, int):
        kind = found.x.dtype.numpy
        zero = step.pack("border", lambda: np.array([zero]).astype(kind))
    return border_row(found.x, Operand(zero), sizes)


def border_row(x: Buffer, value: Operand, sizes: Sizes) -> Row:
    """The row that fills the halo of a blocked buffer of bytes with the byte at `value`."""
    memory, strides = sizes.memory_shape(x), sizes.strides(x)
    pixel, padded = memory[-1], memory[2:-1]
    outside = np.ones(padded, bool)
    sides = zip(x.layout.halo or ((0, 0),) * len(padded), sizes.shape(x)[2:], strict=True)
    outside[tuple(slice(a, a + n) for (a, _), n in sides)] = False
    flat = np.concatenate([[False], outside.reshape(-1), [False]])
    edges = np.flatnonzero(flat[1:] != flat[:-1]).reshape(-1, 2) * pixel
    table = np.ascontiguousarray(edges, dtype=np.int64)
    words: list[Word] = [
        *(Operand(x), memory[0], memory[1], strides[0], strides[1]),
        *(table, len(table), value),
    ]
    return Row(_border_code(), words)


@cache
def _border_code() -> Code:
    return Code("border", "border", border_text("border"))


def register(library: Library) -> None:
    """Enter the kernel for every integer convolution."""
    for op, domain in (("IntegerConv", OWN), ("QLinearConv", ""), ("ConvInteger", "")):
        library.kernel(op, domain=domain)(Int8Conv)

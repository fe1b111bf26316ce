"""Convolution whose groups fill no whole vectors: each is padded to blocks of its own.

A row-major x [N][groups * each] is also [N * groups][each], so that one change of order gives
every group whole blocks; the dense kernel runs over them, and one change goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.kernels.activation import activation_of
from neuralsym.cpu.kernels.conv import B, W, X, Z, conv_code, products, shape_of, static_shape
from neuralsym.cpu.kernels.geometry import blockable, plane, registers, stored_array
from neuralsym.cpu.kernels.reorder import reorder_code
from neuralsym.cpu.kernels.widen import finish
from neuralsym.cpu.library import Kernel
from neuralsym.cpu.program import Buffer, Operand, Role, Row, Sizes, Step
from neuralsym.cpu.scalar_ir import supported
from neuralsym.cpu.templates.conv_plan import (
    ConvAddresses,
    ConvShape,
    conv_tables,
    conv_words,
    pack_conv_bias,
    pack_conv_weights,
    plan_conv,
)
from neuralsym.cpu.templates.layout import Plane
from neuralsym.cpu.templates.reorder import ReorderText, reorder_words


@dataclass(frozen=True)
class _Groups:
    """The padded problem: its shape, and the planes of one group and of all, on both sides."""

    shape: ConvShape
    source: Plane
    target: Plane
    whole_source: Plane
    whole_target: Plane


class PaddedGroups(Kernel):
    """Groups of at least half a vector, with stored weights; others are left to the loops."""

    name = "conv of padded groups"

    def supports(self, step: Step) -> bool | str:
        x, w, b = step.input(X), step.input(W), step.input(B)
        assert x is not None and w is not None
        answer = blockable([x, step.outputs[0]])
        if answer is not True:
            return answer
        shape = static_shape(step)
        width = self.target.width("float32")
        if shape is None or w.role is not Role.CONSTANT:
            return "its weights are not stored"
        if b is not None and b.role is not Role.CONSTANT:
            return "its bias is not stored"
        if shape.groups == 1 or not all(shape.kernel):
            return "it has one group"
        if 2 * min(shape.channels, shape.outputs) < width * shape.groups:
            return f"its {shape.groups} groups fill less than half a vector of {width}"
        expr = step.attr("activation")
        return True if expr is None else supported(expr, [x.dtype])

    def adjust(self, step: Step) -> None:
        x = step.input(X)
        assert x is not None

        def size(which: int) -> Any:
            def count(sizes: Sizes) -> int:
                found = self._groups(step, sizes)
                whole = found.whole_target if which else found.whole_source
                return whole.bytes(sizes.shape(x)[0])

            return count

        step.need_scratch("source", size(0))
        step.need_scratch("target", size(1))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, z, y = step.input(X), step.input(Z), step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        width = self.target.width("float32")
        found = self._groups(step, sizes)
        batch, groups = sizes.shape(x)[0], found.shape.groups
        scales = self.target.scales
        activation = activation_of(step.attr("activation"), scales=scales) if z is None else None
        plan = plan_conv(
            found.shape,
            found.whole_source,
            found.whole_target,
            width=width,
            registers=registers(self.target),
            activation=activation,
        )
        w, b = step.input(W), step.input(B)
        assert w is not None
        weights = step.pack(
            f"weights{plan.vectors}", lambda: pack_conv_weights(_padded(w, plan.shape), plan)
        )
        bias = step.pack(
            "bias", lambda: pack_conv_bias(None if b is None else _padded(b, plan.shape), plan)
        )
        source = Operand(step.scratch["source"].buffer)
        target = Operand(step.scratch["target"].buffer)
        inside = Operand(source.buffer, found.source.origin)
        before = replace(plane(x, sizes), channels=found.source.channels, batch_bytes=None)
        after = replace(plane(y, sizes), channels=found.target.channels, batch_bytes=None)
        tables = conv_tables(plan, found.whole_source, found.whole_target)
        addresses = ConvAddresses(
            inside,
            Operand(weights),
            Operand(bias),
            target,
            tables.tiles,
            tables.blocks,
            tables.taps,
        )
        entries = batch * groups
        into = reorder_words("block", Operand(x), inside, entries, before, found.source)
        words = conv_words(plan, addresses, batch, tables, found.whole_source, found.whole_target)
        back = reorder_words("unblock", target, Operand(y), entries, found.target, after)
        rows = [
            Row(reorder_code(ReorderText(width, "block")), into),
            Row(conv_code(plan.text), words),
            Row(reorder_code(ReorderText(width, "unblock")), back),
        ]
        return rows if z is None else [*rows, *finish(self.target, step, Operand(y), y, z, sizes)]

    def _groups(self, step: Step, sizes: Sizes) -> _Groups:
        x, y = step.input(X), step.outputs[0]
        assert x is not None
        width = self.target.width("float32")
        own = shape_of(step, sizes)
        groups = own.groups
        each, per = own.channels // groups, own.outputs // groups
        wide_in, wide_out = -(-each // width) * width, -(-per // width) * width
        shape = replace(own, channels=groups * wide_in, outputs=groups * wide_out)
        inner, made = plane(x, sizes), plane(y, sizes)
        halo = shape.halo(inner.size)
        source = Plane(each, inner.size, width, *halo)
        target = Plane(per, made.size, width)
        return _Groups(
            shape,
            source,
            target,
            replace(source, channels=groups * wide_in),
            replace(target, channels=groups * wide_out),
        )

    def is_apart(self, step: Step) -> bool:
        return True

    def complexity(self, step: Step, sizes: Sizes) -> int:
        return products(step, sizes)


def _padded(buffer: Buffer, shape: ConvShape) -> NDArray[Any]:
    """Weights or a bias with zeros for the outputs that groups are padded with."""
    array = stored_array(buffer)
    split = array.reshape(shape.groups, -1, *array.shape[1:])
    wide = shape.outputs // shape.groups
    room = np.zeros((shape.groups, wide, *array.shape[1:]), np.float32)
    room[:, : split.shape[1]] = split
    return room.reshape(-1, *array.shape[1:])

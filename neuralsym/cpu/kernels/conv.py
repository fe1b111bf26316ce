"""Conv and FusedConv on the SIMD templates: dense, grouped and depthwise, in blocks of channels.

Groups that fill no whole vectors are padded in `conv_groups`; what the templates do not take at all
(other types, weights of a run) goes to `conv_loop`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from neuralsym.core.leaves import OWN
from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.activation import activation_of
from neuralsym.cpu.kernels.conv_loop import ConvLoop
from neuralsym.cpu.kernels.conv_weights import need_room, pack_at_run_time, padded_bias
from neuralsym.cpu.kernels.geometry import (
    blockable,
    fixed,
    inner,
    plane,
    registers,
    stored_array,
    widest_halo,
    window,
)
from neuralsym.cpu.library import ROWS, Form, Kernel, Library, Take
from neuralsym.cpu.program import Operand, Role, Row, Sizes, Step
from neuralsym.cpu.templates.conv import conv_text
from neuralsym.cpu.templates.conv_form import ConvText
from neuralsym.cpu.templates.conv_plan import (
    ConvAddresses,
    ConvPlan,
    ConvShape,
    can_convolve,
    conv_tables,
    conv_words,
    pack_conv_bias,
    pack_conv_weights,
    plan_conv,
    wants_planar,
)
from neuralsym.cpu.templates.depthwise import (
    is_within_vectors,
    pack_depthwise_weights,
    plan_depthwise,
)
from neuralsym.cpu.templates.layout import Plane

X, W, B, Z = range(4)


class BlockedConv(Kernel):
    """A convolution over blocks of channels, or from plain order where the channels are few.

    Weights that are constants are packed once, others at every run.
    """

    name = "conv"

    def supports(self, step: Step) -> bool | str:
        x, w, z = step.input(X), step.input(W), step.input(Z)
        assert x is not None and w is not None
        answer = blockable([x, z, step.outputs[0]])
        if answer is not True:
            return answer
        shape = static_shape(step)
        if shape is None:
            return "the sizes of its weights are not fixed"
        if not all(shape.kernel) or not shape.channels or not shape.outputs:
            return "its weights are empty"
        width = self.target.width("float32")
        if not (can_convolve(shape, width) or is_within_vectors(shape, width)):
            return f"its {shape.groups} groups do not fill vectors of {width}"
        if activation_of(step.attr("activation")) is None:
            return "there is no vector code for its activation"
        return True

    def forms(self, step: Step) -> Sequence[Form]:
        width = self.target.width("float32")
        shape = static_shape(step)
        x, w = step.input(X), step.input(W)
        assert shape is not None and x is not None and w is not None
        halo = widest_halo(step, x, w.tensor.shape[2:])  # type: ignore[index, arg-type]
        block = width
        if wants_planar(shape, width):
            # Plain order needs room for a border only where there is one.
            block = 1 if any(map(any, halo)) else 0
        takes: list[Take | None] = [ROWS] * len(step.inputs)
        takes[X] = Take(block, halo) if block else ROWS
        if step.input(Z) is not None:
            takes[Z] = Take(width)
        return [Form(tuple(takes), (Take(width),))]

    def adjust(self, step: Step) -> None:
        w, b, x = step.input(W), step.input(B), step.input(X)
        shape = static_shape(step)
        assert shape is not None and w is not None and x is not None
        width = self.target.width("float32")
        if w.role is not Role.CONSTANT or (b is not None and b.role is not Role.CONSTANT):
            within = is_within_vectors(shape, width) and x.layout.block == width
            unroll = shape.channels // shape.groups if within else 1
            if not within and x.layout.block == width:
                unroll = width
            need_room(step, shape, width, unroll, within)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, z, y = step.input(X), step.input(Z), step.outputs[0]
        assert x is not None
        shape = shape_of(step, sizes)
        source, target = plane(x, sizes), plane(y, sizes)
        beside = plane(z, sizes) if z is not None else None
        if 0 in sizes.shape(y):
            return []
        plan = self._plan(step, shape, source, target, beside)
        weights, bias, before = self._weights(step, plan, sizes)
        tables = conv_tables(plan, source, target, beside)
        addresses = ConvAddresses(
            inner(x, sizes),
            weights,
            bias,
            inner(y, sizes),
            tables.tiles,
            tables.blocks,
            tables.taps,
            inner(z, sizes) if z is not None else None,
        )
        batch = sizes.shape(x)[0]
        words = conv_words(plan, addresses, batch, tables, source, target, beside)
        return [*before, Row(conv_code(plan.text), words)]

    def _plan(
        self, step: Step, shape: ConvShape, source: Plane, target: Plane, beside: Plane | None
    ) -> ConvPlan:
        width, count = self.target.width("float32"), registers(self.target)
        activation = activation_of(step.attr("activation"), scales=self.target.scales)
        within = is_within_vectors(shape, width) and source.lanes > 1
        options: dict[str, Any] = {"width": width, "registers": count, "activation": activation}
        if within:
            return plan_depthwise(shape, source, target, beside, **options)
        w = step.input(W)
        # Weights of a run are brought into the general order alone.
        halves = w is not None and w.role is Role.CONSTANT
        return plan_conv(shape, source, target, beside, halves=halves, **options)

    def _weights(
        self, step: Step, plan: ConvPlan, sizes: Sizes
    ) -> tuple[Operand, Operand, list[Row]]:
        """Packed weights and bias, and the rows that pack them if they are no constants."""
        w, b = step.input(W), step.input(B)
        assert w is not None
        before: list[Row] = []
        if w.role is Role.CONSTANT:
            pack = pack_depthwise_weights if plan.text.depthwise else pack_conv_weights
            # Plans with blocks alike read the same packed weights.
            weights = step.pack(
                f"weights{plan.vectors}{'p' * plan.planar}", lambda: pack(stored_array(w), plan)
            )
        else:
            weights, row = pack_at_run_time(step, w, plan, sizes)
            before.append(row)
        if b is None or b.role is Role.CONSTANT:
            bias = step.pack(
                "bias", lambda: pack_conv_bias(None if b is None else stored_array(b), plan)
            )
        else:
            bias, row = padded_bias(step, b, plan, sizes)
            before.append(row)
        return Operand(weights), Operand(bias), before

    def is_apart(self, step: Step) -> bool:
        return True

    def complexity(self, step: Step, sizes: Sizes) -> int:
        return products(step, sizes)


def products(step: Step, sizes: Sizes) -> int:
    """Floating-point operations of a convolution: a multiplication and an addition each."""
    w = step.input(W)
    assert w is not None
    return 2 * math.prod(sizes.shape(step.outputs[0])) * math.prod(sizes.shape(w)[1:])


def static_shape(step: Step) -> ConvShape | None:
    """What of the convolution does not depend on a run's sizes; pads are left out."""
    w = step.input(W)
    assert w is not None and w.tensor.shape is not None
    shape = fixed(w.tensor.shape)
    if shape is None:
        return None
    found = window(step, shape[2:], (1,) * (len(shape) - 2))
    kernel, strides, dilations, _, _ = found.triples()
    groups = int(step.attr("group") or 1)
    return ConvShape(shape[1] * groups, shape[0], kernel, strides, dilations, groups=groups)


def shape_of(step: Step, sizes: Sizes) -> ConvShape:
    """The convolution with the padding of this run."""
    x, w = step.input(X), step.input(W)
    assert x is not None and w is not None
    filters = sizes.shape(w)
    found = window(step, filters[2:], sizes.shape(x)[2:])
    groups = int(step.attr("group") or 1)
    return ConvShape(filters[1] * groups, filters[0], *found.triples(), groups=groups)


@lru_cache(maxsize=1024)
def conv_code(text: ConvText) -> Code:
    """The kernel of a text; equal texts give the same Code."""
    return Code("depthwise conv" if text.depthwise else "conv", "conv", conv_text(text, "conv"))


def register(library: Library) -> None:
    """Enter the kernels of this module, the general one to be tried last."""
    from neuralsym.cpu.kernels.conv_groups import PaddedGroups
    from neuralsym.cpu.kernels.winograd import WinogradConv

    for kernel in (ConvLoop, PaddedGroups, BlockedConv, WinogradConv):
        library.kernel("Conv")(kernel)
        library.kernel("FusedConv", domain=OWN)(kernel)

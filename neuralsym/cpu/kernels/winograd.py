"""Conv and FusedConv by Winograd's filtering, where that is faster than the direct sums.

It takes stored weights alone, which are transformed once, and none that are whole numbers: sums of
those are exact (the products of quantised tensors, which operators are expanded to; filters that
count), and would not be so with weights of fifths and thirds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.activation import activation_of
from neuralsym.cpu.kernels.conv import B, BlockedConv, W, X, Z, shape_of, static_shape
from neuralsym.cpu.kernels.geometry import fixed, inner, plane, registers, stored_array
from neuralsym.cpu.program import Buffer, Operand, Role, Row, Sizes, Step
from neuralsym.cpu.templates.conv_plan import ConvShape, wants_planar
from neuralsym.cpu.templates.layout import aligned
from neuralsym.cpu.templates.winograd import winograd_text
from neuralsym.cpu.templates.winograd_choice import candidates, choose_axes
from neuralsym.cpu.templates.winograd_form import WinogradText
from neuralsym.cpu.templates.winograd_plan import (
    WinogradAddresses,
    WinogradPlan,
    pack_winograd_weights,
    plan_winograd,
    winograd_tables,
    winograd_words,
)

WHOLE = "its weights are whole numbers, whose sums are to be exact"


class WinogradConv(BlockedConv):
    """Convolutions by few taps, dense, with stored weights.

    Where the size of images is known only in the run, each run's decides, and the direct kernel
    may run. Their number never does: one set of weights and one text serve all batches.
    """

    name = "winograd conv"

    def supports(self, step: Step) -> bool | str:
        if not self.options.winograd:
            return "Options(winograd=False) refuses it"
        answer = super().supports(step)
        if answer is not True:
            return answer
        x, w, b, y = step.input(X), step.input(W), step.input(B), step.outputs[0]
        shape = static_shape(step)
        assert shape is not None and x is not None and w is not None
        width = self.target.width("float32")
        if self.target.isa not in ("avx512", "avx2"):
            return f"{self.target.isa} has too few or too short vectors for it"
        if w.role is not Role.CONSTANT or (b is not None and b.role is not Role.CONSTANT):
            return "its weights are not stored"
        if not is_plain(shape) or wants_planar(shape, width):
            return "it takes dense convolutions without dilation, of two axes, of many channels"
        if not candidates(shape):
            taps, strides = (" x ".join(map(str, v[1:])) for v in (shape.kernel, shape.strides))
            return f"it has no transforms for {taps} taps of stride {strides}"
        assert w.constant is not None and y.tensor.shape is not None
        if w.constant.is_drawn and are_whole(w.value):
            return WHOLE
        size = fixed(y.tensor.shape[2:])
        if size is not None and choose_axes(shape, images_of(step), (1, *size)[-2:], width) is None:
            return "direct sums are faster for its sizes"
        return True

    def adjust(self, step: Step) -> None:
        super().adjust(step)

        def size(sizes: Sizes) -> int:
            plan = self._cut(step, sizes)
            return sizes.workers * plan.scratch_bytes if plan is not None else 0

        step.need_scratch("tiles", size)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        plan = self._cut(step, sizes)
        weights = None if plan is None else self._packed(step, plan)
        if plan is None or weights is None:
            return super().rows(step, sizes)
        x, b, z, y = step.input(X), step.input(B), step.input(Z), step.outputs[0]
        assert x is not None
        source, target = plane(x, sizes), plane(y, sizes)
        beside = plane(z, sizes) if z is not None else None
        addresses = WinogradAddresses(
            inner(x, sizes),
            Operand(weights),
            Operand(step.pack("bias", lambda: _padded(b, plan))),
            inner(y, sizes),
            Operand(step.scratch["tiles"].buffer),
            inner(z, sizes) if z is not None else None,
        )
        tables = winograd_tables(plan, source, target, beside)
        words = winograd_words(plan, addresses, tables, source, target, beside)
        return [Row(winograd_code(plan.text), words)]

    def _cut(self, step: Step, sizes: Sizes) -> WinogradPlan | None:
        """How this run's sizes are cut; None for direct sums."""
        x, y = step.input(X), step.outputs[0]
        assert x is not None and x.tensor.shape is not None
        shape, width = shape_of(step, sizes), self.target.width("float32")
        images, target = sizes.shape(x)[0], plane(y, sizes)
        axes = choose_axes(shape, images_of(step), target.size[1:], width)
        if axes is None or 0 in sizes.shape(y) or step.notes.get(WHOLE):
            return None
        return plan_winograd(
            shape,
            axes,
            images,
            target,
            step.input(Z) is not None,
            width=width,
            registers=registers(self.target),
            workers=sizes.workers,
            free=not isinstance(x.tensor.shape[0], int),
            activation=activation_of(step.attr("activation"), scales=self.target.scales),
        )

    def _packed(self, step: Step, plan: WinogradPlan) -> Buffer | None:
        """The transformed weights; None if the weights turn out to be whole numbers."""
        w = step.input(W)
        assert w is not None
        axes = (plan.text.rows.outputs, plan.text.columns.outputs)
        key = f"winograd {axes[0]} {axes[1]} {plan.text.vectors[0]}"
        if key not in step.constants:
            # A value that is made only now was not looked at before.
            array = stored_array(w)
            if are_whole(array):
                step.notes[WHOLE] = True
                return None
            return step.pack(key, lambda: pack_winograd_weights(array, plan))
        return step.constants[key]


def images_of(step: Step) -> int:
    """The number of images, 1 if it is not fixed."""
    shape = step.outputs[0].tensor.shape
    return shape[0] if shape and isinstance(shape[0], int) else 1


def is_plain(shape: ConvShape) -> bool:
    """Whether it is dense, without dilation, along two axes at most."""
    depth = (shape.kernel[0], shape.strides[0])
    return shape.groups == 1 and shape.dilations == (1, 1, 1) and depth == (1, 1)


def are_whole(weights: NDArray[Any]) -> bool:
    """Whether all weights are whole numbers."""
    flat = weights.reshape(-1)
    # Nearly always the first few tell.
    return all(bool(np.all(part == np.rint(part))) for part in (flat[:64], flat))


def _padded(b: Buffer | None, plan: WinogradPlan) -> NDArray[Any]:
    """The bias, zeros if there is none, in whole vectors."""
    bias = np.zeros(-(-plan.shape.outputs // plan.text.width) * plan.text.width, np.float32)
    if b is not None:
        bias[: plan.shape.outputs] = stored_array(b)
    return aligned(bias)


@lru_cache(maxsize=1024)
def winograd_code(text: WinogradText) -> Code:
    """The kernel of a text; equal texts give the same Code."""
    return Code("winograd conv", "winograd", winograd_text(text, "winograd"))

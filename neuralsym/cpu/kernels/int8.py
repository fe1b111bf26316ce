"""What the integer kernels share: the settings of their operators, packed weights, corrections.

An operator says which inputs are the values, the weights and the zero points, and what becomes of
the sums. The kernels take weights that are constants; a zero point of the values may come in the
run. The sums of (x - zx) * w are those of x * w less zx times the sum of the weights, which goes
into the bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.geometry import registers
from neuralsym.cpu.machine import Target
from neuralsym.cpu.program import Buffer, Operand, Role, Row, Step, Word
from neuralsym.cpu.templates.int8_dot import dot_of
from neuralsym.cpu.templates.int8_form import Int8Text
from neuralsym.cpu.templates.int8_parts import zero_point_text
from neuralsym.cpu.templates.int8_plan import (
    Int8Plan,
    Machine,
    Output,
    pack_bias_and_scales,
    weight_sums,
)
from neuralsym.cpu.templates.int8_product import int8_text
from neuralsym.dtypes import NumberType

Array = NDArray[Any]
BYTES = (NumberType.INT8, NumberType.UINT8)
BOUNDS = {NumberType.INT8: (-128, 127), NumberType.UINT8: (0, 255)}
SUMS = Output(NumberType.INT32)


@dataclass(frozen=True)
class Given:
    """The operands of an integer product.

    x_zero: a number, or a buffer of one that the run computes. w_zero: one number, or one for each
    output channel. scales: what sums are multiplied by, one number or one for each output channel.
    """

    x: Buffer
    w: Buffer
    x_zero: int | Buffer
    w_zero: Array
    output: Output
    bias: Buffer | None = None
    scales: Array | None = None
    z: Buffer | None = None

    @property
    def flip(self) -> bool:
        """Whether the values are signed: the kernels see them 128 higher."""
        return self.x.dtype is NumberType.INT8

    @property
    def shift(self) -> int:
        return 128 if self.flip else 0


def given_of(step: Step) -> Given | str:
    """The operands of a step, or why the kernels cannot take it."""
    found = _READERS[step.op.__name__](step)
    if isinstance(found, str):
        return found
    if found.x.dtype not in BYTES or found.w.dtype not in BYTES:
        return "the integer kernels multiply numbers of 8 bits"
    if found.x.is_settled:
        return f"{found.x.name} is a constant"
    if found.w.role is not Role.CONSTANT:
        return f"the weights {found.w.name} are no constant"
    if found.bias is not None and found.bias.role is not Role.CONSTANT:
        return f"the bias {found.bias.name} is no constant"
    return found


def taken(step: Step) -> Given:
    """The operands of a step that a kernel has taken."""
    found = given_of(step)
    assert isinstance(found, Given)
    return found


def _own(step: Step) -> Given | str:
    x, w, scales = step.inputs[:3]
    assert x is not None and w is not None and scales is not None
    if scales.role is not Role.CONSTANT:
        return "its scales are no constants"
    z = step.input(4)
    numbers = {name: step.attr(name) for name in ("zero", "low", "high")}
    output = Output(step.attr("output"), **numbers)
    if z is not None:
        if z.dtype not in BYTES:
            return f"its residual is {z.dtype.value}"
        output = replace(
            output,
            residual=z.dtype,
            keep=float(step.attr("keep")),
            other=float(step.attr("other")),
            other_zero=step.attr("z_zero"),
            sum_zero=step.attr("sum_zero"),
            sum_low=step.attr("sum_low"),
            sum_high=step.attr("sum_high"),
        )
    w_zero = np.array([step.attr("w_zero")])
    return Given(x, w, step.attr("x_zero"), w_zero, output, step.input(3), _flat(scales), z)


def _integer(step: Step) -> Given | str:
    """MatMulInteger and ConvInteger."""
    x, w = step.inputs[:2]
    assert x is not None and w is not None
    zx, zw = step.input(2), step.input(3)
    if zw is not None and zw.role is not Role.CONSTANT:
        return "the zero point of its weights is no constant"
    x_zero: int | Buffer = 0
    if zx is not None:
        if _count(zx) != 1:
            return "its values have several zero points"
        x_zero = int(_flat(zx)[0]) if zx.role is Role.CONSTANT else zx
    return Given(x, w, x_zero, np.array([0]) if zw is None else _flat(zw), SUMS)


def _linear(step: Step) -> Given | str:
    """QLinearConv and QLinearMatMul."""
    x, sx, zx, w, sw, zw, sy, zy = step.inputs[:8]
    assert x is not None and w is not None
    numbers = [b for b in (sx, zx, sw, zw, sy, zy) if b is not None]
    if any(b.role is not Role.CONSTANT for b in numbers):
        return "its scales and zero points are no constants"
    assert sx is not None and zx is not None and sw is not None and zw is not None
    assert sy is not None and zy is not None
    if any(_count(b) != 1 for b in (sx, zx, sy, zy)):
        return "its values have several scales"
    if zy.dtype not in BYTES or any(b.dtype is not NumberType.FLOAT32 for b in (sx, sw, sy)):
        return "the integer kernels have float32 scales and results of 8 bits"
    low, high = BOUNDS[zy.dtype]
    with np.errstate(all="ignore"):
        scales = _flat(sx) * _flat(sw) / _flat(sy)
    if not np.isfinite(scales).all():
        return "its scales are not finite"
    output = Output(zy.dtype, int(_flat(zy)[0]), low, high, exact=True)
    return Given(x, w, int(_flat(zx)[0]), _flat(zw), output, step.input(8), scales)


_READERS = {
    "IntegerConv": _own,
    "IntegerMatMul": _own,
    "ConvInteger": _integer,
    "MatMulInteger": _integer,
    "QLinearConv": _linear,
    "QLinearMatMul": _linear,
}


def _flat(buffer: Buffer) -> Array:
    return buffer.value.reshape(-1)


def _count(buffer: Buffer) -> int | None:
    shape = buffer.tensor.shape
    count = 1
    for d in shape or ():
        if not isinstance(d, int):
            return None
        count *= d
    return None if shape is None else count


# -- weights and corrections -------------------------------------------------------------------
def narrow(step: Step, weights: Callable[[], Array]) -> bool:
    """Whether weights less their zero points are signed bytes; remembered for the step."""
    if "narrow" not in step.notes:
        values = weights()
        step.notes["narrow"] = bool(values.min() >= -128 and values.max() <= 127)
    return bool(step.notes["narrow"])


def machine_of(target: Target, is_narrow: bool) -> Machine:
    """The target as planning sees it; wide weights are multiplied as 16-bit pairs."""
    dot = dot_of(target) if is_narrow else "pairs"
    return Machine(target.width("int32"), registers(target), dot)


@cache
def int8_code(text: Int8Text, x86: bool, name: str) -> Code:
    """The kernel of a text; equal texts give the same Code."""
    return Code(name, "int8", int8_text(text, x86, "int8"))


def corrected_bias(
    step: Step, given: Given, plan: Int8Plan, weights: Callable[[], Array]
) -> tuple[Buffer, list[Row]]:
    """Biases and scales as the kernel reads them, and the row that makes them in the run."""
    key = f"bias{plan.lanes}"

    def make() -> Array:
        known = given.x_zero if isinstance(given.x_zero, int) else 0
        bias = -(known + given.shift) * weight_sums(weights())
        if given.bias is not None:
            bias = bias + given.bias.value.reshape(-1).astype(np.int64)
        return pack_bias_and_scales(bias, given.scales, plan)

    packed = step.pack(key, make)
    if isinstance(given.x_zero, int):
        return packed, []
    sums = step.pack("sums", lambda: pack_bias_and_scales(weight_sums(weights()), None, plan))
    scratch = step.scratch["bias"].buffer
    words: list[Word] = [
        *(Operand(packed), Operand(sums), Operand(given.x_zero)),
        *(Operand(scratch), 2 * plan.lanes),
    ]
    code = _correct_code(given.x_zero.dtype is NumberType.INT8)
    return scratch, [Row(code, words, serial=True)]


def need_bias(step: Step, given: Given, outputs: int, width: int) -> None:
    """Ask for the memory of a bias that is made in the run."""
    if isinstance(given.x_zero, Buffer):
        step.need_scratch("bias", lambda sizes: 8 * (outputs + 8 * width))


@cache
def _correct_code(is_signed: bool) -> Code:
    text = zero_point_text("zero_point", "sext" if is_signed else "zext")
    return Code("zero point", "zero_point", text)

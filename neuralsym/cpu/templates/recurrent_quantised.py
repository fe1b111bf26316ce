"""Numbers rounded to bytes by their own range, as floats: what a quantised recurrence multiplies.

    scale = (high - low) / 255, zero = round(-low / scale)    over all numbers, 0 among them
    to[i] = clip(round(from[i] / scale) + zero, 0, 255) - zero

This is ONNX's DynamicQuantizeLinear, less the zero point; of nothing but zeros the scale is 1/255.
"""

from __future__ import annotations

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.lanes import horizontal
from neuralsym.cpu.vector_lanes import Lanes

QUANTISE_PARAMETERS = (
    ("from", "ptr"),
    ("to", "ptr"),
    ("stride", "i64"),
    ("low", "i64"),
    ("high", "i64"),
    ("count", "i64"),
)
"""Rows [low, high) of `count` numbers, `stride` bytes from one to the next on both sides."""
STEPS = 255.0


def quantised_text(width: int, name: str = "kernel") -> str:
    """The IR text of a kernel for one row. Descriptor: from, to, where the scale goes, count."""
    module = Module()
    emit_quantise(module, width)
    f = module.function(name)
    scale = call_quantise(f, f.operand(0), f.operand(1), "0", "0", "1", f.word(3))
    f.store("float", scale, f.operand(2), 4)
    f.do("ret i32 0")
    return str(module)


def call_quantise(f: Function, *values: str) -> str:
    """The scale, once the numbers are in their place."""
    pairs = zip(QUANTISE_PARAMETERS, values, strict=True)
    return f.value(f"call float @quantise({', '.join(f'{kind} {v}' for (_, kind), v in pairs)})")


def emit_quantise(module: Module, width: int) -> None:
    """Add float @quantise, which gives the scale."""
    f = module.function("quantise", QUANTISE_PARAMETERS, "float", True, "noinline")
    v, one = Lanes(f, "float", width), Lanes(f, "float", 1)
    nothing = v.number(0.0)

    def lanes(index: str) -> str:
        return f.lane_mask(f.sub("%count", index), width)

    with f.loop("%high", (v.kind, nothing), (v.kind, nothing), start="%low") as row:
        line = f.at("%from", f.mul(row.index, "%stride"))
        with f.loop("%count", *((v.kind, x) for x in row.values), step=width) as at:
            value = f.masked_load(v.kind, f.at(line, f.mul(at.index, 4)), lanes(at.index))
            low, high = at.values
            low = v.where(v.compare("olt", value, low), value, low)
            at.next(low, v.where(v.compare("ogt", value, high), value, high))
        row.next(*at.values)

    def pick(how: str) -> str:
        def better(a: str, b: str, count: int) -> str:
            some = Lanes(f, "float", count)
            return some.where(some.compare(how, a, b), a, b)

        return horizontal(f, row.values[how == "ogt"], "float", width, better)

    least, most = pick("olt"), pick("ogt")
    spread = one.where(one.compare("oeq", most, least), 1.0, one.sub(most, least))
    scale = one.div(spread, STEPS)
    zero = one.call("rint", one.neg(one.div(least, scale)))
    zero = one.below(one.above(zero, 0.0), STEPS)
    wide, offset = (f.splat(x, "float", width) for x in (scale, zero))
    with f.loop("%high", start="%low") as row:
        begin = f.mul(row.index, "%stride")
        with f.loop("%count", step=width) as at:
            place = f.add(begin, f.mul(at.index, 4))
            value = f.masked_load(v.kind, f.at("%from", place), lanes(at.index))
            whole = v.add(v.call("rint", v.div(value, wide)), offset)
            whole = v.sub(v.below(v.above(whole, 0.0), STEPS), offset)
            f.masked_store(v.kind, whole, f.at("%to", place), lanes(at.index))
    f.do(f"ret float {scale}")

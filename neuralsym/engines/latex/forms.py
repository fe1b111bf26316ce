"""How each operator is written: a form for what mathematics has a sign for, else a function name.

A form gives text and how tightly it binds; operands are put in parentheses where they bind less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor


class Binds(IntEnum):
    """How tightly an expression holds together."""

    CASES = 0
    LOGIC = 1
    RELATION = 2
    SUM = 3
    PRODUCT = 4
    SIGN = 5
    POWER = 6
    ATOM = 7


class Text(NamedTuple):
    """An expression and how tightly it binds."""

    text: str
    binds: Binds = Binds.ATOM


class Writer(Protocol):
    """What a form asks of the writer of a graph."""

    def operand(self, symbol: Symbol | None, least: Binds) -> str:
        """An operand, in parentheses where it binds less than `least`."""

    def number_of(self, symbol: Symbol | None) -> Any:
        """The elements of an input that is known, None otherwise."""

    def body(self, graph: Graph) -> str:
        """The name of a body, which is defined on lines of its own."""


Form = Callable[[Writer, Node], Text]


def call(name: str, inner: str, below: str = "") -> Text:
    """A function of something in parentheses; as the base of a power it stands in them itself."""
    sub = f"_{{{below}}}" if below else ""
    return Text(rf"{name}{sub}\left({inner}\right)", Binds.POWER)


def operator_name(name: str) -> str:
    return rf"\operatorname{{{escape(name)}}}"


def escape(text: str) -> str:
    """Text with the signs that LaTeX gives a meaning."""
    for sign in "_&%$#{}":
        text = text.replace(sign, "\\" + sign)
    return text.replace("^", r"\hat{}").replace("~", r"\sim ")


def default(writer: Writer, node: Node) -> Text:
    """The operator's name, its operands, and the settings that are not its defaults."""
    parts = [writer.operand(s, Binds.CASES) if s is not None else "-" for s in node.inputs]
    parts += [writer.operand(s, Binds.CASES) for s in node.captures]
    inner = ", ".join(parts)
    settings = ", ".join(
        rf"\mathrm{{{escape(key)}}}={_setting(writer, value)}"
        for key, value in node.attrs.items()
        if not _is_default(node, key, value)
    )
    joined = ";\\ ".join(part for part in (inner, settings) if part)
    return call(operator_name(node.op_type), joined)


def _is_default(node: Node, key: str, value: Any) -> bool:
    spec = node.op.schema.attributes.get(key)
    return value is None or (spec is not None and not spec.required and value == spec.default)


def _setting(writer: Writer, value: Any) -> str:
    if isinstance(value, Graph):
        return writer.body(value)
    if isinstance(value, Tensor):
        return rf"\mathrm{{{value.dtype}}}\,{list(value.shape)}"
    if isinstance(value, str):
        return rf"\text{{{escape(value)}}}"
    if isinstance(value, Sequence):
        return rf"\left({', '.join(_setting(writer, v) for v in value)}\right)"
    return number(value) if type(value) in (bool, int, float) else escape(str(value))


def number(value: float) -> str:
    """A number: 3, 0.25, 10^{-5}; a truth by its name."""
    if str(value) in ("True", "False"):
        return rf"\mathrm{{{str(value).lower()}}}"
    if value != value:
        return r"\mathrm{NaN}"
    if value in (float("inf"), float("-inf")):
        return r"\infty" if value > 0 else r"-\infty"
    text = f"{value:.7g}" if value % 1 else str(int(value)) if abs(value) < 1e7 else f"{value:.7g}"
    mantissa, exponent, power = text.partition("e")
    if not exponent:
        return text
    times = "" if mantissa == "1" else ("-" if mantissa == "-1" else rf"{mantissa} \cdot ")
    return f"{times}10^{{{int(power)}}}"


def _after(writer: Writer, symbol: Symbol | None, least: Binds) -> str:
    """An operand behind a sign: one that begins with a minus stands in parentheses."""
    text = writer.operand(symbol, least)
    return rf"\left({text}\right)" if text.startswith("-") else text


# -- families of forms ---------------------------------------------------------------------------
def _infix(sign: str, binds: Binds, *, right_tighter: bool = False) -> Form:
    """a sign b sign c: operands that bind as tightly stand as they are, but the last of a - b."""

    def form(writer: Writer, node: Node) -> Text:
        first, *others = node.inputs
        least = Binds(binds + 1) if right_tighter else binds
        parts = [writer.operand(first, binds), *(_after(writer, o, least) for o in others)]
        return Text(f" {sign} ".join(parts), binds)

    return form


def _relation(sign: str) -> Form:
    def form(writer: Writer, node: Node) -> Text:
        a, b = (writer.operand(s, Binds.SUM) for s in node.inputs)
        return Text(f"{a} {sign} {b}", Binds.RELATION)

    return form


def _function(name: str) -> Form:
    def form(writer: Writer, node: Node) -> Text:
        inner = ", ".join(writer.operand(s, Binds.CASES) for s in node.inputs)
        return call(name, inner)

    return form


def _between(left: str, right: str) -> Form:
    def form(writer: Writer, node: Node) -> Text:
        return Text(rf"\left{left}{writer.operand(node.inputs[0], Binds.CASES)}\right{right}")

    return form


def _prefix(sign: str, binds: Binds) -> Form:
    def form(writer: Writer, node: Node) -> Text:
        return Text(f"{sign}{_after(writer, node.inputs[0], binds)}", binds)

    return form


def _div(writer: Writer, node: Node) -> Text:
    a, b = (writer.operand(s, Binds.CASES) for s in node.inputs)
    return Text(rf"\frac{{{a}}}{{{b}}}", Binds.PRODUCT)


def _pow(writer: Writer, node: Node) -> Text:
    base, exponent = node.inputs
    return Text(
        f"{writer.operand(base, Binds.ATOM)}^{{{writer.operand(exponent, Binds.CASES)}}}",
        Binds.POWER,
    )


def _braced(name: str) -> Form:
    def form(writer: Writer, node: Node) -> Text:
        return Text(rf"{name}{{{writer.operand(node.inputs[0], Binds.CASES)}}}")

    return form


def _reciprocal(writer: Writer, node: Node) -> Text:
    return Text(rf"\frac{{1}}{{{writer.operand(node.inputs[0], Binds.CASES)}}}", Binds.PRODUCT)


def _where(writer: Writer, node: Node) -> Text:
    condition, a, b = (writer.operand(s, Binds.LOGIC) for s in node.inputs)
    rows = rf"{a} & \text{{if }} {condition} \\ {b} & \text{{otherwise}}"
    return Text(rf"\begin{{cases}} {rows} \end{{cases}}", Binds.CASES)


def _clip(writer: Writer, node: Node) -> Text:
    x, low, high = (*node.inputs, None, None)[:3]
    text = writer.operand(x, Binds.CASES)
    if low is not None:
        text = rf"\max\left({text}, {writer.operand(low, Binds.CASES)}\right)"
    if high is not None:
        text = rf"\min\left({text}, {writer.operand(high, Binds.CASES)}\right)"
    return Text(text, Binds.ATOM if low is not None or high is not None else Binds.CASES)


# -- matrices ------------------------------------------------------------------------------------
def _matmul(writer: Writer, node: Node) -> Text:
    a, b = node.inputs
    left, right = writer.operand(a, Binds.PRODUCT), _after(writer, b, Binds.SIGN)
    return Text(rf"{left} \, {right}", Binds.PRODUCT)


def _gemm(writer: Writer, node: Node) -> Text:
    a, b, *rest = node.inputs
    factors = []
    if node.attrs.get("alpha", 1.0) != 1.0:
        factors.append(number(node.attrs["alpha"]))
    for symbol, key in ((a, "transA"), (b, "transB")):
        turned = node.attrs.get(key, 0)
        text = writer.operand(symbol, Binds.ATOM if turned else Binds.SIGN)
        factors.append(rf"{text}^{{\top}}" if turned else text)
    text = r" \, ".join(factors)
    if not rest or rest[0] is None:
        return Text(text, Binds.PRODUCT)
    beta = node.attrs.get("beta", 1.0)
    times = "" if beta == 1.0 else rf"{number(beta)} \, "
    least = Binds.PRODUCT if times else Binds.SUM
    return Text(f"{text} + {times}{writer.operand(rest[0], least)}", Binds.SUM)


def _transpose(writer: Writer, node: Node) -> Text:
    perm = node.attrs.get("perm")
    rank = node.inputs[0].rank if node.inputs[0] is not None else None
    if rank == 2 and (perm is None or tuple(perm) == (1, 0)):
        return Text(rf"{writer.operand(node.inputs[0], Binds.ATOM)}^{{\top}}", Binds.POWER)
    return default(writer, node)


def _conv(writer: Writer, node: Node) -> Text:
    x, weight, *rest = node.inputs
    told = {
        k: v
        for k, v in node.attrs.items()
        if k in ("strides", "pads", "dilations", "group") and not _is_trivial(k, v)
    }
    below = ", ".join(rf"\mathrm{{{k}}}={_setting(writer, v)}" for k, v in told.items())
    star = rf" \ast_{{{below}}} " if below else r" \ast "
    text = f"{writer.operand(weight, Binds.SIGN)}{star}{writer.operand(x, Binds.SIGN)}"
    if rest and rest[0] is not None:
        return Text(f"{text} + {writer.operand(rest[0], Binds.SUM)}", Binds.SUM)
    return Text(text, Binds.PRODUCT)


def _is_trivial(key: str, value: Any) -> bool:
    usual = 0 if key == "pads" else 1
    values = value if isinstance(value, Sequence) else [value]
    return value is None or all(v == usual for v in values)


def _softmax(name: str) -> Form:
    def form(writer: Writer, node: Node) -> Text:
        axis = node.attrs.get("axis", -1)
        return call(operator_name(name), writer.operand(node.inputs[0], Binds.CASES), str(axis))

    return form


def _reduction(sign: str, binds: Binds = Binds.PRODUCT, *, function: bool = False) -> Form:
    """A sign with its axes below it: sum, product; or a function such as max."""

    def form(writer: Writer, node: Node) -> Text:
        axes = node.attrs.get("axes")
        if axes is None and len(node.inputs) > 1:
            known = writer.number_of(node.inputs[1])
            axes = None if known is None else known.reshape(-1).tolist()
        below = ", ".join(map(str, axes)) if axes is not None else ""
        if function:
            return call(sign, writer.operand(node.inputs[0], Binds.CASES), below)
        sub = f"_{{{below}}}" if below else ""
        return Text(f"{sign}{sub} {writer.operand(node.inputs[0], Binds.PRODUCT)}", binds)

    return form


def _named(name: str) -> Form:
    return _function(operator_name(name))


FORMS: dict[str, Form] = {
    "Add": _infix("+", Binds.SUM),
    "Sum": _infix("+", Binds.SUM),
    "Sub": _infix("-", Binds.SUM, right_tighter=True),
    "Mul": _infix(r"\cdot", Binds.PRODUCT),
    "Div": _div,
    "Pow": _pow,
    "Neg": _prefix("-", Binds.SIGN),
    "Abs": _between("|", "|"),
    "Floor": _between(r"\lfloor ", r"\rfloor "),
    "Ceil": _between(r"\lceil ", r"\rceil "),
    "Round": _between(r"\lfloor ", r"\rceil "),
    "Sqrt": _braced(r"\sqrt"),
    "Reciprocal": _reciprocal,
    "Exp": _function(r"\exp"),
    "Log": _function(r"\ln"),
    **{n.title(): _function(rf"\{n}") for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"A{n}": _function(rf"\arc{n}") for n in ("sin", "cos", "tan")},
    **{f"A{n}h": _named(f"ar{n}h") for n in ("sin", "cos", "tan")},
    "Max": _function(r"\max"),
    "Min": _function(r"\min"),
    "Mod": _infix(r"\bmod", Binds.PRODUCT, right_tighter=True),
    "Sign": _named("sgn"),
    "Erf": _named("erf"),
    "Sigmoid": _function(r"\sigma"),
    "Relu": _named("ReLU"),
    "Clip": _clip,
    "Identity": lambda writer, node: Text(writer.operand(node.inputs[0], Binds.CASES), Binds.CASES),
    "Equal": _relation("="),
    "Less": _relation("<"),
    "LessOrEqual": _relation(r"\le"),
    "Greater": _relation(">"),
    "GreaterOrEqual": _relation(r"\ge"),
    "And": _infix(r"\land", Binds.LOGIC),
    "Or": _infix(r"\lor", Binds.LOGIC, right_tighter=True),
    "Xor": _infix(r"\oplus", Binds.LOGIC, right_tighter=True),
    "Not": _prefix(r"\lnot ", Binds.SIGN),
    "Where": _where,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Transpose": _transpose,
    "Conv": _conv,
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log softmax"),
    "ReduceSum": _reduction(r"\sum"),
    "ReduceProd": _reduction(r"\prod"),
    "ReduceMax": _reduction(r"\max", function=True),
    "ReduceMin": _reduction(r"\min", function=True),
    "ReduceMean": _reduction(operator_name("mean"), function=True),
}
"""The operators of ONNX's own that have a form; the others are written by their names."""

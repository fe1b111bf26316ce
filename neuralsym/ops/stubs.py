"""Writes `__init__.pyi`, the types of the operator functions: `python -m neuralsym.ops.stubs`."""

from __future__ import annotations

import builtins
import inspect
import re
from pathlib import Path

import neuralsym.ops
from neuralsym.core.op import Op
from neuralsym.ops.aliases import ALIASES
from neuralsym.ops.functions import (
    Argument,
    annotation,
    arguments,
    function_name,
    operators,
    optional_outputs,
    output_fields,
    outputs_counts,
    outputs_name,
    required_outputs,
    variadic_output,
)
from neuralsym.ops.helpers import FUNCTIONS

PATH = Path(__file__).with_name("__init__.pyi")
_WIDTH = 100
_HEAD = '''"""The types of the operator functions; written by `python -m neuralsym.ops.stubs`."""

import builtins
from collections.abc import Sequence
from typing import Literal, NamedTuple, overload

from numpy.typing import ArrayLike, DTypeLike

'''
_TYPES = {
    "neuralsym.core.symbol": ["Symbol", "SymbolLike"],
    "neuralsym.core.tensor": ["Tensor"],
    "neuralsym.core.types": ["Type"],
    "neuralsym.dtypes": ["NumberType"],
}


def stub_text() -> str:
    """The text of the stub file, in the format that ruff gives it."""
    parts = [_HEAD + _imports()]
    for op in operators():
        parts += [_outputs_class(op, count) for count in outputs_counts(op)]
    parts += [_function(op) for op in operators()]
    parts.append(_aliases())
    parts.append(_star())
    return "\n".join(parts)


def _imports() -> str:
    """The types, and the functions written by hand from where they live."""
    homes = {home: list(names) for home, names in _TYPES.items()}
    for name, function in FUNCTIONS.items():
        if not hasattr(builtins, name):
            homes.setdefault(function.__module__, []).append(name)
    lines = []
    for home in sorted(homes):
        line = f"from {home} import {', '.join(sorted(homes[home]))}"
        if len(line) > _WIDTH:
            names = "".join(f"    {n},\n" for n in sorted(homes[home]))
            line = f"from {home} import (\n{names})"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _outputs_class(op: type[Op], count: int) -> str:
    fields = "\n".join(f"    {f}: Symbol" for f in output_fields(op, count))
    return f"class {outputs_name(op, count)}(NamedTuple):\n{fields}\n"


def _function(op: type[Op]) -> str:
    """One signature, or an overload for each number of outputs."""
    found = arguments(op)
    if variadic_output(op):
        return _signature(op, found, "tuple[Symbol, ...]")
    first = required_outputs(op)
    if not optional_outputs(op):
        return _signature(op, found, _result(op, first))
    made = []
    for count in range(first, op.schema.maximum_outputs + 1):
        made.append("@overload\n" + _signature(op, found, _result(op, count), count))
    return "\n".join(made)


def _result(op: type[Op], count: int) -> str:
    return "Symbol" if count == 1 else outputs_name(op, count)


def _signature(op: type[Op], found: list[Argument], result: str, count: int | None = None) -> str:
    words: list[str] = []
    starred = False
    for argument in found:
        if not argument.by_place and not starred:
            words.append("*")
            starred = True
        words.append(_parameter(argument, count))
    head = f"def {function_name(op)}("
    line = f"{head}{', '.join(words)}) -> {result}:"
    if len(line) > _WIDTH:
        line = head + "\n" + "".join(f"    {w},\n" for w in words) + f") -> {result}:"
    doc = (inspect.getdoc(op) or "").split("\n")[0]
    return f'{line}\n    """{doc}"""\n'


def _parameter(argument: Argument, count: int | None) -> str:
    if argument.kind == "outputs":
        default = f" = {count}" if count == argument.default else ""
        return f"outputs: Literal[{count}]{default}"
    # Functions called int and float hide the types of those names.
    words = re.sub(r"\b(int|float)\b", r"builtins.\1", annotation(argument))
    text = f"{argument.name}: {words}"
    if argument.default is inspect.Parameter.empty:
        return text
    value = repr(argument.default).replace("'", '"')
    return f"{text} = {value}"


def _aliases() -> str:
    names = {**ALIASES}
    for name in FUNCTIONS:
        if hasattr(builtins, name):
            names[name] = f"{name}_"
    for op in operators():
        if hasattr(builtins, function_name(op)):
            names[f"{function_name(op)}_"] = function_name(op)
    return "\n".join(f"{alias} = {name}" for alias, name in names.items()) + "\n"


def _star() -> str:
    names = "\n".join(f'    "{name}",' for name in neuralsym.ops.__all__)
    return f"__all__ = [\n{names}\n]\n"


if __name__ == "__main__":
    PATH.write_text(stub_text())

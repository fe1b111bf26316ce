"""The Python function of each operator, made from its class and schema.

Inputs come by place or name, in lower case; attributes by name, with ONNX's defaults. A variadic
input is a sequence. One output is a Symbol, several are a NamedTuple, a variadic output a tuple.
"""

from __future__ import annotations

import inspect
import keyword
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from neuralsym.core.op import OPS, Op, snake_case
from neuralsym.core.registry import DTYPE_ATTRIBUTES, apply
from neuralsym.core.schema import VERSIONS, AttributeSpec, Formal, onnx_type_name
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType, from_onnx, is_whole
from neuralsym.errors import BadAttribute, TypeMismatch, at_line, did_you_mean, user_line

_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True)
class Argument:
    """A parameter of an operator's function."""

    name: str
    kind: Literal["input", "inputs", "attribute", "outputs", "name"]
    by_place: bool
    default: Any = _EMPTY
    formal: Formal | None = None
    spec: AttributeSpec | None = None


def arguments(op: type[Op]) -> list[Argument]:
    """The parameters of the function: inputs, required attributes, then what is by name only."""
    schema = op.schema
    optional_inputs = any(f.kind == "optional" for f in schema.inputs)
    found: list[Argument] = []
    for place, formal in enumerate(schema.inputs):
        if formal.kind == "variadic":
            default: Any = () if place >= schema.minimum_inputs else _EMPTY
            found.append(Argument("inputs", "inputs", True, default, formal=formal))
        else:
            default = _EMPTY if formal.kind == "single" else None
            found.append(Argument(snake_case(formal.name), "input", True, default, formal=formal))
    specs = sorted(schema.attributes.values(), key=lambda s: s.name)
    for spec in specs:
        if spec.required:
            found.append(Argument(spec.name, "attribute", not optional_inputs, spec=spec))
    for spec in specs:
        if not spec.required:
            found.append(Argument(spec.name, "attribute", False, plain_default(spec), spec=spec))
    if optional_outputs(op):
        found.append(Argument("outputs", "outputs", False, required_outputs(op)))
    found.append(Argument("name", "name", False, None))
    names = [a.name for a in found]
    assert len(set(names)) == len(names), f"{op.__name__} has two arguments of one name: {names}"
    return found


def plain_default(spec: AttributeSpec) -> Any:
    """The default as a user would write it: number types by name, absent ones as None."""
    if spec.name in DTYPE_ATTRIBUTES and spec.kind == "INT":
        return str(from_onnx(spec.default)) if spec.default else None
    if isinstance(spec.default, float):
        return float(f"{spec.default:.7g}") + 0.0  # the schemas hold 0.01 as a float32
    return spec.default


def required_outputs(op: type[Op]) -> int:
    return max(op.schema.minimum_outputs, 1)


def optional_outputs(op: type[Op]) -> int:
    """How many outputs beyond the required ones may be asked for."""
    if variadic_output(op):
        return 0
    return op.schema.maximum_outputs - required_outputs(op)


def variadic_output(op: type[Op]) -> bool:
    return op.schema.outputs[-1].kind == "variadic"


# -- outputs -----------------------------------------------------------------------------------
def output_fields(op: type[Op], count: int) -> list[str]:
    return [snake_case(f.name) for f in op.schema.outputs[:count]]


def outputs_type(op: type[Op], count: int) -> Callable[..., tuple[Symbol, ...]]:
    """The NamedTuple of the first `count` outputs: `MaxPoolOutputs(y, indices)`."""
    made: Callable[..., tuple[Symbol, ...]] = _outputs_type(
        outputs_name(op, count), tuple(output_fields(op, count))
    )
    return made


@cache
def _outputs_type(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields, module="neuralsym.ops")


def outputs_counts(op: type[Op]) -> list[int]:
    """For how many outputs the function gives a NamedTuple."""
    if variadic_output(op):
        return []
    return list(range(max(required_outputs(op), 2), op.schema.maximum_outputs + 1))


def outputs_name(op: type[Op], count: int) -> str:
    """`LSTMOutputs` for all outputs, `LSTMOutputs2` for the first two of three."""
    return f"{op.__name__}Outputs{'' if count == op.schema.maximum_outputs else count}"


def _count_split(given: Mapping[str, Any]) -> int | None:
    number, sizes = given.get("num_outputs"), given.get("split")
    if number is not None:
        return int(number.__index__())
    if isinstance(sizes, Symbol):
        shape = sizes.shape
        return shape[0] if shape and isinstance(shape[0], int) else None
    return None if sizes is None else len(sizes)


def _count_steps(kept: int, groups: int) -> Callable[[Mapping[str, Any]], int | None]:
    return lambda given: len(given["inputs"]) // groups * kept


_COUNTS: dict[str, Callable[[Mapping[str, Any]], int | None]] = {
    "Split": _count_split,
    "Gradient": lambda given: len(given["xs"]),
    "Adagrad": _count_steps(2, 3),
    "Adam": _count_steps(3, 4),
    "Momentum": _count_steps(2, 3),
}
"""How many outputs an operator of variadic output has, told by its arguments."""


HAND_WRITTEN = ("Constant", "FlexAttention", "If", "Loop", "Scan", "SequenceMap")
"""Operators whose functions are written by hand: they take Python values or functions."""
FROM_FILES = ("SimplifiedLayerNormalization",)
"""Operators that are no part of ONNX, which files hold in its domain all the same."""


def operators() -> list[type[Op]]:
    """The ONNX operators whose functions are made here, in the order of their definition."""
    others = (*HAND_WRITTEN, *FROM_FILES)
    return [o for (domain, name), o in OPS.items() if domain in VERSIONS and name not in others]


# -- the function ------------------------------------------------------------------------------
def function_name(op: type[Op]) -> str:
    """`sin`, `and_`: the snake_case name, with an underscore where it is a keyword of Python."""
    return op.function + "_" * keyword.iskeyword(op.function)


def make_function(op: type[Op]) -> Callable[..., Any]:
    """The function that applies `op`; its signature, documentation and name are the schema's."""
    found = arguments(op)
    signature = inspect.Signature([_parameter(a) for a in found], return_annotation=_returns(op))
    places = [a for a in found if a.kind in ("input", "inputs")]
    attributes = [a.name for a in found if a.kind == "attribute"]
    count = None if variadic_output(op) else required_outputs(op)
    name = function_name(op)

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise _misused(name, signature, kwargs, error) from None
        inputs: list[Any] = []
        for place in places:
            value = given.get(place.name, None if place.default is _EMPTY else place.default)
            if place.kind == "inputs":
                inputs.extend(_several(name, value))
            else:
                inputs.append(value)
        attrs = {a: given[a] for a in attributes if a in given}
        wanted = count if count is not None else _variadic_count(op, name, given)
        outputs = given.get("outputs")
        made = apply(
            op,
            inputs,
            attrs,
            outputs=wanted if outputs is None else _whole(name, outputs),
            name=given.get("name"),
        )
        if count is None:
            return made
        return made[0] if len(made) == 1 else outputs_type(op, len(made))(*made)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "neuralsym.ops"
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__doc__ = documentation(op, found)
    return function


def _parameter(argument: Argument) -> inspect.Parameter:
    kind = (
        inspect.Parameter.POSITIONAL_OR_KEYWORD
        if argument.by_place
        else inspect.Parameter.KEYWORD_ONLY
    )
    return inspect.Parameter(
        argument.name, kind, default=argument.default, annotation=annotation(argument)
    )


_TYPES = {
    "INT": "int",
    "FLOAT": "float",
    "STRING": "str",
    "INTS": "Sequence[int] | int",
    "FLOATS": "Sequence[float] | float",
    "STRINGS": "Sequence[str] | str",
    "TENSOR": "Tensor | ArrayLike",
    "TENSORS": "Sequence[Tensor | ArrayLike]",
    "SPARSE_TENSOR": "Tensor | ArrayLike",
    "GRAPH": "Graph",
    "GRAPHS": "Sequence[Graph]",
    "TYPE_PROTO": "Type",
}


def annotation(argument: Argument) -> str:
    """The type of a parameter as Python text."""
    if argument.kind == "inputs":
        return "Sequence[SymbolLike]"
    if argument.kind == "outputs":
        return "int"
    if argument.kind == "name":
        return "str | None"
    if argument.kind == "input":
        assert argument.formal is not None
        tensors = all(t.startswith("tensor(") for t in argument.formal.allowed)
        base = "SymbolLike" if tensors else "Symbol"
    else:
        assert argument.spec is not None
        base = _TYPES[argument.spec.kind]
        if argument.spec.name in DTYPE_ATTRIBUTES and argument.spec.kind == "INT":
            base = "DTypeLike | NumberType"
    return f"{base} | None" if argument.default is None else base


def _returns(op: type[Op]) -> str:
    if variadic_output(op):
        return "tuple[Symbol, ...]"
    count = required_outputs(op)
    return "Symbol" if count == 1 else outputs_name(op, count)


def _several(name: str, value: Any) -> Sequence[Any]:
    if isinstance(value, Symbol) or not isinstance(value, (list, tuple)):
        what = "one Symbol" if isinstance(value, Symbol) else type(value).__name__
        raise TypeMismatch(
            f"{name}() takes a list of symbols, not {what}: write {name}([x, y])"
            f"{at_line(user_line())}"
        )
    return value


def _whole(name: str, outputs: Any) -> int:
    if not is_whole(outputs):
        raise BadAttribute(f"{name}(): outputs={outputs!r} is no number{at_line(user_line())}")
    return int(outputs)


def _variadic_count(op: type[Op], name: str, given: Mapping[str, Any]) -> int:
    count = _COUNTS[op.__name__](given)
    if count is None:
        raise BadAttribute(
            f"{name}() cannot tell how many outputs are wanted: give sizes of a known number, or "
            f"num_outputs=...{at_line(user_line())}"
        )
    return count


def _misused(
    name: str, signature: inspect.Signature, kwargs: Mapping[str, Any], error: TypeError
) -> BadAttribute:
    """The error of Python's own binding, with the function's name and a near word."""
    unknown = next((k for k in kwargs if k not in signature.parameters), None)
    hint = did_you_mean(unknown, signature.parameters) if unknown else ""
    return BadAttribute(f"{name}(): {error}{hint}{at_line(user_line())}")


# -- documentation -----------------------------------------------------------------------------
def documentation(op: type[Op], found: Sequence[Argument]) -> str:
    """The operator's sentence, its inputs and attributes with types and defaults, its source."""
    lines = [inspect.getdoc(op) or "", ""]
    inputs = [a for a in found if a.formal is not None]
    attributes = [a for a in found if a.spec is not None]
    if inputs:
        lines.append("Inputs:")
        lines += [f"    {a.name}: {_input_words(a)}" for a in inputs]
    if attributes:
        lines.append("Attributes:")
        lines += [f"    {a.name}: {_attribute_words(a)}" for a in attributes]
    if optional_outputs(op):
        names = output_fields(op, op.schema.maximum_outputs)
        lines.append(f"Outputs: {', '.join(names)}; outputs=n gives the first n.")
    lines.append("")
    lines.append("Raises an OpError that names the line of the call when these do not fit.")
    domain = f" of {op.domain}, since version" if op.domain else ", since opset"
    lines.append(f"ONNX {op.__name__}{domain} {op.schema.since}.")
    return "\n".join(lines)


def _input_words(argument: Argument) -> str:
    assert argument.formal is not None
    words = allowed_words(argument.formal.allowed)
    if argument.kind == "inputs":
        return f"a sequence of {words}"
    return f"{words}, optional" if argument.formal.kind == "optional" else words


@cache
def _tensor_names() -> dict[str, NumberType]:
    return {onnx_type_name(kind): kind for kind in NumberType}


def allowed_words(allowed: frozenset[str]) -> str:
    """The number types allowed, in the order of their table."""
    names = _tensor_names()
    kinds = [kind for name, kind in names.items() if name in allowed]
    others = sorted({a.split("(")[0] for a in allowed if a not in names})
    words = {"seq": "a sequence", "optional": "an optional", "map": "a map"}
    parts = [words.get(o, o) for o in others]
    if len(kinds) > 12:
        common = set(names.values()) - set(kinds)
        plain = [k for k in common if k.numpy.itemsize > 1 or k in ("bool", "int8", "uint8")]
        parts.insert(0, f"any number type but {', '.join(sorted(plain))}" if plain else "any type")
    else:
        parts = [", ".join(kinds)] * bool(kinds) + parts
    return " or ".join(parts) if parts else "any type"


def _attribute_words(argument: Argument) -> str:
    assert argument.spec is not None
    kind = annotation(argument).replace(" | None", "")
    if argument.default is _EMPTY:
        return f"{kind}, required"
    return f"{kind}, default {argument.default!r}"

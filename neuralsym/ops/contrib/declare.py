"""Schemas of the com.microsoft operators, which the onnx package does not know, in short notation.

Inputs and outputs are texts such as `"A:T A_scale:F A_zero_point:T? rest:V*"`: a name, the variable
of its type, and `?` for what may be omitted or `*` for any number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neuralsym.core.schema import AttributeSpec, Formal, Kind, Schema

DOMAIN = "com.microsoft"
MANY = 2**31 - 1
FLOAT = ("float",)
FLOATS = ("float", "float16", "bfloat16")
WIDE = ("float", "float16", "bfloat16", "double")
BYTES = ("int8", "uint8")
SHORTS = ("int16", "uint16")
INT32 = ("int32",)
INT64 = ("int64",)
BOOL = ("bool",)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
NUMBERS = (*INTEGERS, *WIDE)
ANY = (*NUMBERS, "bool", "string", "complex64", "complex128")
_KINDS: dict[type, str] = {int: "INT", float: "FLOAT", str: "STRING"}


def needed(kind: str) -> AttributeSpec:
    """An attribute that must be given."""
    return AttributeSpec("", kind, required=True)


def optional(kind: str) -> AttributeSpec:
    """An attribute that may be omitted and has no default."""
    return AttributeSpec("", kind)


def declare(
    name: str,
    inputs: str,
    outputs: str,
    types: Mapping[str, tuple[str, ...]],
    attributes: Mapping[str, Any] | None = None,
    *,
    domain: str = DOMAIN,
) -> Schema:
    """The schema of an operator.

    types: the ONNX names of the number types that each variable allows. attributes: the default of
    each, which tells its kind, or `needed(kind)` or `optional(kind)`.
    """
    taken = tuple(_formal(word, types) for word in inputs.split())
    given = tuple(_formal(word, types) for word in outputs.split())
    return Schema(
        name=name,
        domain=domain,
        inputs=taken,
        outputs=given,
        attributes={k: _attribute(k, v) for k, v in (attributes or {}).items()},
        minimum_inputs=_fewest(taken),
        maximum_inputs=_most(taken),
        minimum_outputs=_fewest(given),
        maximum_outputs=_most(given),
    )


def _formal(word: str, types: Mapping[str, tuple[str, ...]]) -> Formal:
    name, variable = word.split(":")
    kind: Kind = "single"
    if variable[-1] in "?*":
        kind = "optional" if variable[-1] == "?" else "variadic"
        variable = variable[:-1]
    allowed = frozenset(f"tensor({t})" for t in types[variable])
    return Formal(name, kind, variable, allowed, homogeneous=kind != "variadic")


def _attribute(name: str, given: Any) -> AttributeSpec:
    if isinstance(given, AttributeSpec):
        return AttributeSpec(name, given.kind, given.required, given.default)
    # A file holds float32.
    default = float(np.float32(given)) if isinstance(given, float) else given
    return AttributeSpec(name, _KINDS[type(given)], default=default)


def _fewest(formals: tuple[Formal, ...]) -> int:
    """How many must be given: up to the last that may not be omitted."""
    return max((i + 1 for i, f in enumerate(formals) if f.kind != "optional"), default=0)


def _most(formals: tuple[Formal, ...]) -> int:
    return MANY if formals[-1].kind == "variadic" else len(formals)

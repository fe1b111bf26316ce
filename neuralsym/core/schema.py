"""A frozen view of the ONNX operator schemas at one pinned opset.

The schemas of the onnx package are the source: inputs, outputs, attributes with defaults, allowed
types. They are read at `OPSET`, so a newer onnx package does not change what a release means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from neuralsym.dtypes import NumberType
from neuralsym.errors import BadAttribute

OPSET = 28
ML_OPSET = 5
VERSIONS = {
    "": OPSET,
    "ai.onnx.ml": ML_OPSET,
    "ai.onnx.preview": 1,
    "ai.onnx.preview.training": 1,
}

Kind = Literal["single", "optional", "variadic"]


@dataclass(frozen=True)
class Formal:
    """A formal input or output: its kind, its type variable and the ONNX types that it allows."""

    name: str
    kind: Kind
    variable: str
    allowed: frozenset[str]
    minimum: int = 1
    homogeneous: bool = True


@dataclass(frozen=True)
class AttributeSpec:
    """An attribute: ONNX kind (`INT`, `FLOATS`, `GRAPH`, ...), whether required, its default."""

    name: str
    kind: str
    required: bool = False
    default: Any = None


@dataclass(frozen=True)
class Schema:
    """What an operator takes and gives."""

    name: str
    domain: str = ""
    since: int = 1
    inputs: tuple[Formal, ...] = ()
    outputs: tuple[Formal, ...] = ()
    attributes: dict[str, AttributeSpec] = field(default_factory=dict)
    minimum_inputs: int = 0
    maximum_inputs: int = 0
    minimum_outputs: int = 1
    maximum_outputs: int = 1
    has_body: bool = False
    doc: str = ""

    def formal_input(self, index: int) -> Formal:
        """The formal that actual input `index` belongs to."""
        return self.inputs[min(index, len(self.inputs) - 1)]

    def formal_output(self, index: int) -> Formal:
        return self.outputs[min(index, len(self.outputs) - 1)]


@cache
def onnx_schema(name: str, domain: str = "") -> Schema:
    """The schema of an ONNX operator at the pinned opset of its domain."""
    import onnx.defs

    try:
        found = onnx.defs.get_schema(name, VERSIONS[domain], domain)
    except onnx.defs.SchemaError:
        raise BadAttribute(f"ONNX has no operator {name!r} in domain {domain!r}") from None
    return schema_of(found)


def schema_of(found: Any) -> Schema:
    """A schema of the onnx package, of any version, in our form."""
    has_body = getattr(found, "has_function", False) or getattr(
        found, "has_context_dependent_function", False
    )
    return Schema(
        name=found.name,
        domain=found.domain,
        since=found.since_version,
        inputs=tuple(_formal(f) for f in found.inputs),
        outputs=tuple(_formal(f) for f in found.outputs),
        attributes={k: _attribute(a) for k, a in found.attributes.items()},
        minimum_inputs=found.min_input,
        maximum_inputs=found.max_input,
        minimum_outputs=found.min_output,
        maximum_outputs=found.max_output,
        has_body=has_body,
        doc=found.doc or "",
    )


def _formal(formal: Any) -> Formal:
    kinds: dict[str, Kind] = {"Single": "single", "Optional": "optional", "Variadic": "variadic"}
    return Formal(
        name=formal.name,
        kind=kinds[formal.option.name],
        variable=formal.type_str,
        allowed=frozenset(formal.types),
        minimum=formal.min_arity,
        homogeneous=formal.is_homogeneous,
    )


def _attribute(attribute: Any) -> AttributeSpec:
    import onnx.helper

    default = None
    if attribute.default_value.name:
        default = plain_attribute(onnx.helper.get_attribute_value(attribute.default_value))
    kind = attribute.type.name
    return AttributeSpec(attribute.name, kind, attribute.required, default)


def plain_attribute(value: Any) -> Any:
    """An attribute of onnx.helper as plain Python: str for bytes, tuples for lists."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, (list, tuple)) or type(value).__name__.startswith("Repeated"):
        return tuple(plain_attribute(v) for v in value)
    return value


def onnx_type_name(dtype: NumberType) -> str:
    """How the schemas spell a tensor of `dtype`: `tensor(float)`."""
    special = {
        NumberType.FLOAT32: "float",
        NumberType.FLOAT64: "double",
    }
    return f"tensor({special.get(dtype, str(dtype))})"

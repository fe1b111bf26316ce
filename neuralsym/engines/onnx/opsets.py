"""The lowest opset that a node can be written in.

A version of an operator accepts a node when it has the attributes that the node uses, takes its
inputs and outputs in number and type, and means the same. The walk goes from the newest version
down to the first that does not accept, so every opset from there on is good.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import cache
from typing import Any

from neuralsym.core.infer import type_name
from neuralsym.core.schema import VERSIONS, plain_attribute
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Type
from neuralsym.engines.onnx.meaning import CHANGED
from neuralsym.engines.onnx.older_op import is_older
from neuralsym.errors import FormatError, at_line

LOWEST = 7
"""The oldest opset that can be asked for."""
DEFAULT = 18
"""Files are written in this opset or a newer one unless another is asked for."""


@cache
def history() -> dict[tuple[str, str], tuple[Any, ...]]:
    """The onnx schemas of each (domain, operator), oldest first, up to the pinned opsets."""
    import onnx.defs

    found: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.since_version <= VERSIONS.get(schema.domain, 0):
            found.setdefault((schema.domain, schema.name), []).append(schema)
    return {k: tuple(sorted(v, key=lambda s: s.since_version)) for k, v in found.items()}


def schema_at(domain: str, name: str, opset: int) -> Any | None:
    """The schema that `opset` means by an operator; None where it has none yet."""
    versions = history().get((domain, name), ())
    index = bisect_right([s.since_version for s in versions], opset)
    return versions[index - 1] if index else None


def lowest(node: Node, floor: int = 1) -> tuple[int, str]:
    """The lowest version of the node's operator that accepts it, and why no lower one does.

    Versions that `floor` includes are not told apart.
    """
    if is_older(node):
        return node.op.schema.since, ""
    domain = node.op.domain
    versions = history().get((domain, node.op_type))
    if versions is None:
        return 1, ""  # no operator of ONNX's, though it lies in the domain of ONNX
    good = versions[-1].since_version
    reason = f"{node.op_type} is new in version {versions[0].since_version}"
    newer: Any = None
    for schema in reversed(versions):
        refused = _refusal(node, schema, newer, versions[-1])
        if refused:
            return good, refused
        good, newer = schema.since_version, schema
        if good <= floor:
            break
    return good, reason


def _refusal(node: Node, schema: Any, newer: Any, newest: Any) -> str:
    """Why `schema` cannot express the node; nothing when it can."""
    version = schema.since_version
    if newer is not None:
        crossed = newer.since_version
        changed = CHANGED.get((node.op_type, crossed))
        if changed:
            said = changed(node)
            if said:
                return f"version {crossed} of {node.op_type} {said}"
        if crossed == 11 and _negative(node):
            return f"a negative axis of {node.op_type} needs version 11"
        if schema.deprecated:
            return f"version {version} of {node.op_type} is deprecated"
    return _attributes(node, schema, newest) or types_refused(node, schema)


def refuse_taken_out(node: Node, imports: Mapping[str, int]) -> None:
    """Raise FormatError for an operator that the version chosen for its domain has no longer."""
    domain = node.op.domain
    schema = None if is_older(node) else schema_at(domain, node.op_type, imports.get(domain, 0))
    if schema is not None and schema.deprecated:
        before = schema.since_version - 1
        raise FormatError(
            f"{node.describe()} cannot be written beside operators of {domain or 'ai.onnx'} "
            f"{imports[domain]}: it was taken out after version {before}, which is the newest for "
            f"it; write them to files of their own{at_line(node.where)}"
        )


@cache
def copying(type: Type) -> int:
    """The lowest version of Identity that takes values of this type."""
    name, found = type_name(type), history()["", "Identity"]
    good = found[-1].since_version
    for schema in reversed(found):
        if name not in schema.inputs[0].types:
            break
        good = schema.since_version
    return int(good)


def _negative(node: Node) -> bool:
    for name in ("axis", "axes"):
        value = node.attr(name)
        if any(v < 0 for v in (value if isinstance(value, tuple) else (value or 0,))):
            return True
    return False


def _attributes(node: Node, schema: Any, newest: Any) -> str:
    have = defaults(schema)
    for name, value in node.attrs.items():
        if name not in have and value != defaults(newest)[name][1]:
            return f"version {schema.since_version} has no attribute {name}"
    for name, (required, default) in have.items():
        if name in node.attrs:
            continue
        wanted = defaults(newest).get(name)
        if required:
            return f"version {schema.since_version} requires the attribute {name}"
        if wanted is not None and wanted[1] != default:
            return f"version {schema.since_version} has another default of {name}"
    return ""


def defaults(schema: Any) -> dict[str, tuple[bool, Any]]:
    """The attributes of a schema: whether required, and the default (None where it has none)."""
    return _defaults(schema.domain, schema.name, schema.since_version)


@cache
def _defaults(domain: str, name: str, version: int) -> dict[str, tuple[bool, Any]]:
    from onnx.helper import get_attribute_value

    schema = schema_at(domain, name, version)
    assert schema is not None
    made: dict[str, tuple[bool, Any]] = {}
    for attribute in schema.attributes.values():
        default = attribute.default_value
        value = plain_attribute(get_attribute_value(default)) if default.name else None
        made[attribute.name] = (attribute.required, value)
    return made


def types_refused(node: Node, schema: Any) -> str:
    """Why a schema does not take the node's inputs and outputs; nothing when it does."""
    version = schema.since_version
    bound: dict[str, str] = {}
    given: tuple[tuple[str, tuple[Symbol | None, ...], tuple[Any, ...], int, int], ...] = (
        ("input", node.inputs, *_formals(schema)[0]),
        ("output", node.outputs, *_formals(schema)[1]),
    )
    for side, symbols, formals, low, high in given:
        if not low <= len(symbols) <= high:
            return f"version {version} takes {low} to {high} {side}s, not {len(symbols)}"
        for i, symbol in enumerate(symbols):
            variable, allowed, optional, uniform = formals[min(i, len(formals) - 1)]
            if symbol is None:
                if not optional:
                    return f"version {version} requires {side} {i}"
                continue
            name = type_name(symbol.type)
            if name not in allowed:
                return f"version {version} does not take {name} as {side} {i}"
            if uniform and bound.setdefault(variable, name) != name:
                return f"version {version} wants {side} {i} to be {bound[variable]} too"
    return ""


@cache
def _formals_of(domain: str, name: str, version: int) -> tuple[Any, Any]:
    schema = schema_at(domain, name, version)
    assert schema is not None
    return (
        (_rows(schema.inputs), schema.min_input, schema.max_input),
        (_rows(schema.outputs), schema.min_output, schema.max_output),
    )


def _formals(schema: Any) -> tuple[Any, Any]:
    found: tuple[Any, Any] = _formals_of(schema.domain, schema.name, schema.since_version)
    return found


def _rows(formals: Any) -> tuple[tuple[str, frozenset[str], bool, bool], ...]:
    """(type variable, allowed types, optional, of one type) of each formal."""
    return tuple(
        (
            f.type_str,
            frozenset(f.types),
            f.option.name == "Optional",
            f.is_homogeneous and "(" not in f.type_str,
        )
        for f in formals
    )

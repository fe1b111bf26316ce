"""Operators that are not ONNX's: ours in other domains, and those that only the file knows.

The latter are read so that they can be written again and given a kernel. The types of their
outputs are what the file declares, or what the user's typer gives. Where there is neither, a type
is assumed that the nodes behind accept, and the user is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnx import NodeProto

from neuralsym.core.custom import Use, custom_op
from neuralsym.core.leaves import OWN
from neuralsym.core.op import OPS
from neuralsym.core.registry import apply
from neuralsym.core.schema import VERSIONS, onnx_type_name
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx.attributes import kind_of, read_as_it_is
from neuralsym.engines.onnx.declared import declared_type
from neuralsym.engines.onnx.opsets import history, schema_at
from neuralsym.errors import FormatError, did_you_mean

if TYPE_CHECKING:
    from neuralsym.engines.onnx.frame import Frame
    from neuralsym.engines.onnx.origin import Origin

_LIKELY = (NumberType.FLOAT32, NumberType.INT64, NumberType.BOOL, *NumberType)


def beyond_onnx(
    frame: Frame,
    domain: str,
    proto: NodeProto,
    inputs: Sequence[Symbol | None],
    where: Origin,
) -> Sequence[Symbol]:
    """The outputs of an operator that is not ONNX's: one of ours, or one kept as it came.

    Raises FormatError for one of ONNX's own domains that does not exist there.
    """
    from neuralsym.engines.onnx.frame import outputs_of

    said = f"{frame.label}: {where.label} is"
    if domain == OWN:
        raise FormatError(
            f"{said} of domain {domain!r}, whose operators are neuralsym's own inner ones, which "
            "no file holds"
        )
    op = OPS.get((domain, proto.op_type))
    if op is None and domain in VERSIONS:
        names = [n for d, n in history() if d == domain]
        there = f" of domain {domain!r}" if domain else ""
        raise FormatError(
            f"{said} an operator{there} that ONNX does not have and the file does not define"
            f"{did_you_mean(proto.op_type, names)}"
        )
    if op is None:
        return custom_node(frame, domain, proto, inputs, where)
    attrs, captures = frame.attributes(proto, inputs)
    outputs = outputs_of(proto)
    count = max(len(outputs), 1)
    made = apply(op, inputs, attrs, outputs=count, captures=captures, where=where)
    return frame.settled(made[0].node, outputs)


def custom_node(
    frame: Frame,
    domain: str,
    proto: NodeProto,
    inputs: Sequence[Symbol | None],
    where: Origin,
) -> Sequence[Symbol]:
    """The outputs of a node of an operator that is not known here."""
    from neuralsym.engines.onnx.frame import outputs_of

    if "\0" in proto.op_type:
        raise FormatError(f"{frame.label}: {proto.op_type!r} is no name of an operator")
    attrs, captures = frame.attributes(proto, inputs, read_as_it_is)
    kinds: dict[str, str] = {}
    lists: list[str] = []
    for name, attribute, _ in frame.given(proto):
        kind = kind_of(attribute)
        if kind == "GRAPHS" and name not in attrs:
            lists.append(name)
            kinds |= {f"{name}[{i}]": "GRAPH" for i in range(len(attribute.graphs))}
        else:
            kinds[name] = kind
    outputs = outputs_of(proto)
    typer = frame.reader.typers(proto.op_type, domain)
    types: list[Type] = []
    guessed: list[int] = []
    for i, name in enumerate(outputs):
        declared = frame.declared.get(name)
        type_ = None if declared is None else declared_type(declared, None)
        if type_ is None:
            type_ = _assumed(frame, name, inputs)
            if name and typer is None:
                guessed.append(i)
                frame.reader.assumed.append(f"{name!r} of {where.label} as {type_}")
        types.append(type_)
    use = Use(
        domain,
        proto.op_type,
        frame.imports.get(domain, 1),
        kinds,
        len(inputs),
        tuple(types),
        tuple(i for i, name in enumerate(outputs) if not name),
        tuple(guessed),
        tuple(lists),
    )
    op = custom_op(use, typer)
    made = apply(op, inputs, attrs, outputs=len(outputs), captures=captures, where=where)
    return frame.settled(made[0].node, outputs)


def _assumed(frame: Frame, name: str, inputs: Sequence[Symbol | None]) -> Type:
    """A number type that those who read the value take: that of the first input if it will do."""
    allowed = _allowed(frame, name) if name else None
    tensors = (s.type for s in inputs if s is not None)
    first = next((t.dtype for t in tensors if isinstance(t, TensorType)), None)
    for dtype in (first, *_LIKELY):
        if dtype is not None and (allowed is None or onnx_type_name(dtype) in allowed):
            return TensorType(dtype)
    return TensorType(first or NumberType.FLOAT32)


def _allowed(frame: Frame, name: str) -> set[str] | None:
    """The types that the operators of ONNX which read a value all take; None where none does."""
    found: set[str] | None = None
    for node, place in frame.readers.get(name, ()):
        domain = "" if node.domain == "ai.onnx" else node.domain
        schema = schema_at(domain, node.op_type, frame.imports.get(domain, 1))
        if schema is not None and schema.inputs:
            formal = schema.inputs[min(place, len(schema.inputs) - 1)]
            found = set(formal.types) if found is None else found & set(formal.types)
    return found

"""Calls of a file's own functions: each is read anew in the place of its call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnx import FunctionProto, NodeProto

from neuralsym.core.symbol import Symbol, output_name
from neuralsym.errors import GraphError

if TYPE_CHECKING:
    from neuralsym.engines.onnx.frame import Bound, Frame
    from neuralsym.engines.onnx.origin import Origin


def call(
    around: Frame,
    function: FunctionProto,
    proto: NodeProto,
    inputs: Sequence[Symbol | None],
    where: Origin,
) -> list[Symbol | None]:
    """The outputs of a call in the graph `around`.

    Inner names get the call's name as a prefix; results have the names that they have at the call.
    Raises GraphError for more inputs or outputs than the function has.
    """
    reader = around.reader
    reader.enter()
    if len(inputs) > len(function.input) or len(proto.output) > len(function.output):
        raise GraphError(
            f"{where} has {len(inputs)} inputs and {len(proto.output)} outputs, "
            f"its function {len(function.input)} and {len(function.output)}"
        )
    # A function that names no version of a domain means the model's.
    imports = {**reader.imports, **reader.versions(function.opset_import)}
    first = next((name for name in proto.output if name), proto.name)
    prefix = reader.unique(around.prefix + (proto.name or first))
    frame = around.inside(function.node, imports, _bound(around, function, proto), prefix)
    given = [(f, name) for f, name in zip(function.output, proto.output, strict=False) if name]
    for value in function.value_info:
        frame.declared[value.name] = value.type
    for formal, name in given:
        if name in around.declared:
            frame.declared.setdefault(formal, around.declared[name])
    for formal, symbol in zip(function.input, inputs, strict=False):
        if symbol is not None:
            frame.values[formal] = symbol
    frame.absent = {*function.input} - {*frame.values}
    for formal, name in given:
        frame.renamed[formal] = around.full(name)
    wanted = [formal for formal, _ in given]
    found = dict(zip(wanted, frame.run(wanted), strict=True))
    around.names.update(frame.names)
    reader.depth -= 1
    return [
        _result(around, found[formal], name, where) if name else None
        for formal, name in zip(function.output, proto.output, strict=False)
    ]


def _bound(around: Frame, function: FunctionProto, proto: NodeProto) -> dict[str, Bound]:
    """The function's attributes: those of the call, else the function's defaults."""
    from neuralsym.engines.onnx.frame import Bound

    bound = {a.name: Bound(a, around) for a in function.attribute_proto}
    bound.update({name: Bound(found, home) for name, found, home in around.given(proto)})
    return bound


def _result(around: Frame, symbol: Symbol, name: str, where: Origin) -> Symbol:
    """A function's result under the name that it has at the call."""
    if output_name(symbol.node.name or "", symbol.index) == around.full(name):
        return symbol
    return around.copied(symbol, name, where)

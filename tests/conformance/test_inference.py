"""Our types against those of onnx's own inference, for every value of every model of its suite.

Never less precise, never contradictory; both have to infer for themselves, since the declared
shapes are taken off, and sizes of the inputs are names in some of the runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import onnx_cases
import pytest
from onnx import GraphProto, ModelProto, TypeProto, shape_inference

from neuralsym.core.dim import substitute
from neuralsym.core.graph import Graph
from neuralsym.core.proto import type_from_proto
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import MapType, OptionalType, SequenceType, Size, TensorType, Type
from neuralsym.engines import onnx as engine

LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light"
KINDS = (*onnx_cases.KINDS, "light")
OUTER = ("sequence_type", "optional_type")

NEGATIVE = "onnx splits 5 entries into 2, 2, 2 and -1, in a branch that is never taken"
EXCEPTIONS = {
    ("node/test_affine_grid_3d_expanded", "Split"): NEGATIVE,
    ("node/test_affine_grid_3d_align_corners_expanded", "Split"): NEGATIVE,
    ("node/test_loop13_seq", "Loop"): "the file calls the elements scalars, they are vectors",
}
"""Where onnx tells what is not so: (case, operator) and why."""
ABSENT = {"node/test_scan_sum": ("sum_out", "scan_out")}
"""Values inside of a Scan of opset 8, which becomes a Scan in a Scan."""


# -- the models ---------------------------------------------------------------------------------
@cache
def models(kind: str) -> dict[str, ModelProto]:
    if kind == "light":
        return {f"light/{p.stem}": onnx.load(str(p)) for p in sorted(LIGHT.glob("*.onnx"))}
    names = [n for n in onnx_cases.names() if n.startswith(f"{kind}/")]
    return {name: onnx_cases.find(name).model for name in names}


def tensor_of(proto: TypeProto) -> TypeProto.Tensor | None:
    """The tensor type inside of sequences and optionals."""
    while proto.WhichOneof("value") in OUTER:
        proto = getattr(proto, proto.WhichOneof("value")).elem_type
    return proto.tensor_type if proto.WhichOneof("value") == "tensor_type" else None


def undeclared(model: ModelProto) -> ModelProto:
    """The model without the shapes of its outputs and inner values."""
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.value_info[:]
    for value in made.graph.output:
        tensor = tensor_of(value.type)
        if tensor is not None:
            tensor.ClearField("shape")
    return made


def with_names(model: ModelProto, name: Callable[[int, int, int], str]) -> ModelProto:
    """The model with names for sizes of its inputs: `name(input, axis, size)`, "" keeps it."""
    made = undeclared(model)
    stored = {t.name for t in made.graph.initializer}
    fed = [v for v in made.graph.input if v.name not in stored]
    for i, value in enumerate(fed):
        tensor = tensor_of(value.type)
        for axis, dim in enumerate(tensor.shape.dim if tensor is not None else ()):
            wanted = name(i, axis, dim.dim_value) if dim.HasField("dim_value") else ""
            if wanted:
                dim.dim_param = wanted
    return made


MODES: dict[str, Callable[[ModelProto], ModelProto]] = {
    "as it is": lambda model: model,
    "undeclared": undeclared,
    "first axis, a name for each size": lambda model: with_names(
        model, lambda i, axis, size: "" if axis else f"d{size}"
    ),
    "first axis, a name for each input": lambda model: with_names(
        model, lambda i, axis, size: "" if axis else f"x{i}"
    ),
    "all axes, a name for each size": lambda model: with_names(
        model, lambda i, axis, size: f"d{size}"
    ),
    "all axes, a name for each": lambda model: with_names(
        model, lambda i, axis, size: f"x{i}_{axis}"
    ),
}
SLOW = pytest.mark.slow
REPEATED = [mode for mode in MODES if "all axes" in mode or "each input" in mode]
"""Runs that find what the others find unless rules are changed."""


# -- both inferences ----------------------------------------------------------------------------
def inferred(model: ModelProto) -> tuple[ModelProto, bool]:
    """The model with what onnx infers, and whether its strict mode refused it."""
    try:
        found = shape_inference.infer_shapes(model, True, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError:
        return shape_inference.infer_shapes(model, data_prop=True), True
    return found, False


def pairs(theirs: GraphProto, ours: Graph) -> Iterator[tuple[str, Symbol | None, TypeProto]]:
    """(name, our symbol, their type) of all values that results need, those of bodies too."""
    needed = needed_by_results(theirs)
    for node in theirs.node:
        if node.op_type == "Constant" and node.output[0] not in ours:
            needed.discard(node.output[0])  # only bodies use it, where it stands under another name
    for value in (*theirs.value_info, *theirs.output):
        if value.name in needed and value.type.WhichOneof("value") is not None:
            mine = [ours[value.name]] if value.name in ours else [None]
            yield value.name, mine[0], value.type
    for node in theirs.node:
        bodies = {a.name: a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH}
        named = [o for o in node.output if o in needed]
        if not bodies or not named:
            continue
        holder = ours[named[0]].node
        while holder not in ours.bodies:  # a name may have gone to a copy of the value
            assert holder.op_type == "Identity"
            holder = holder.operands[0].node
        for attribute, body in bodies.items():
            yield from pairs(body, ours.bodies[holder][attribute])


def needed_by_results(graph: GraphProto) -> set[str]:
    """The values that the outputs depend on."""
    needed = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if needed.isdisjoint(node.output):
            continue
        needed.update(node.input)
        for attribute in node.attribute:
            needed |= needed_by_results(attribute.g)
    return needed


# -- their comparison ---------------------------------------------------------------------------
def shortcoming(ours: Type, theirs: Type) -> str:
    """What we do not know of a value, or contradict; nothing where all is well."""
    if isinstance(theirs, TensorType):
        if not isinstance(ours, TensorType) or ours.dtype is not theirs.dtype:
            return "another type"
        if theirs.shape is None:
            return ""
        if ours.shape is None:
            return "no rank"
        if len(ours.shape) != len(theirs.shape):
            return "another rank"
        found = map(size_shortcoming, ours.shape, theirs.shape)
        return ", ".join(filter(None, found))
    if isinstance(theirs, MapType):
        return "" if ours == theirs else "another map"
    if type(ours) is not type(theirs):
        return "another kind"
    assert isinstance(ours, (SequenceType, OptionalType))
    return shortcoming(ours.element, theirs.element)


def size_shortcoming(ours: Size, theirs: Size) -> str:
    if isinstance(theirs, int):
        if isinstance(ours, int):
            return "" if ours == theirs else f"{ours} for {theirs}"
        return f"{ours} for {theirs}"
    told = theirs is not None and not str(theirs).startswith("unk__")  # onnx's word for unknown
    return f"nothing for {theirs}" if told and ours is None else ""


def is_zero_for_a_name(name: str, symbol: Symbol, theirs: Type) -> bool:
    """onnx's rule of Attention multiplies sizes that are names as if they were 0."""
    zero = isinstance(theirs, TensorType) and 0 in (theirs.shape or ())
    return zero and symbol.op_type == "Attention" and "_attention_" in name


@pytest.mark.parametrize(
    "mode", [pytest.param(m, marks=SLOW if m in REPEATED else ()) for m in MODES]
)
@pytest.mark.parametrize("kind", KINDS)
def test_never_less_than_onnx(kind: str, mode: str) -> None:
    found: list[str] = []
    excepted: set[tuple[str, str]] = set()
    refused: list[str] = []
    compared = 0
    for name, given in models(kind).items():
        model = MODES[mode](given)
        theirs, refusal = inferred(model)
        if refusal:
            refused.append(name)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*declares types that contradict")
            ours = engine.to_symbolic(model)
        for value, symbol, proto in pairs(theirs.graph, ours):
            if symbol is None:
                if value not in ABSENT.get(name, ()):
                    found.append(f"{name}: {value} is not there")
                continue
            compared += 1
            type_ = type_from_proto(proto)
            said = shortcoming(symbol.type, type_)
            if not said or ("all" in mode and is_zero_for_a_name(name, symbol, type_)):
                continue
            if (name, symbol.op_type) in EXCEPTIONS:
                excepted.add((name, symbol.op_type))
            else:
                found.append(f"{name}: {value} of {symbol.op_type}: {symbol.type}, {type_}: {said}")
    assert not found, "\n".join(found)
    assert compared >= len(models(kind))
    if mode == "as it is":
        assert refused == [n for n in refused if n == "node/test_mvn"], "onnx takes its own models"
        assert excepted == {key for key in EXCEPTIONS if key[0].startswith(f"{kind}/")}


@SLOW
def test_more_than_onnx_where_sizes_are_names() -> None:
    """In the whole suite with names for all sizes, we know far more of the results' sizes."""
    ours_known = theirs_known = 0
    for kind in onnx_cases.KINDS:
        for given in models(kind).values():
            model = MODES["all axes, a name for each"](given)
            theirs, _ = inferred(model)
            ours = engine.to_symbolic(model)
            for value in theirs.graph.output:
                mine, other = ours[value.name].type, type_from_proto(value.type)
                if isinstance(mine, TensorType) and isinstance(other, TensorType):
                    ours_known += sum(d is not None for d in mine.shape or ())
                    theirs_known += sum(
                        d is not None and not str(d).startswith("unk__") for d in other.shape or ()
                    )
    assert ours_known > 1.4 * theirs_known


def test_sizes_come_true() -> None:
    """Expressions of the inputs' sizes, given these, are the sizes of the expected outputs."""
    found: list[str] = []
    told = 0
    for name in onnx_cases.names():
        case = onnx_cases.find(name)
        ours = engine.to_symbolic(with_names(case.model, lambda i, axis, size: f"x{i}_{axis}"))
        for inputs, outputs in case.data:
            sizes = {
                f"x{i}_{axis}": size
                for i, value in enumerate(inputs)
                if isinstance(value, np.ndarray)
                for axis, size in enumerate(value.shape)
            }
            for declared, wanted in zip(case.model.graph.output, outputs, strict=True):
                type_ = ours[declared.name].type
                if not isinstance(type_, TensorType) or type_.shape is None or wanted is None:
                    continue
                made = [None if d is None else substitute(d, sizes) for d in type_.shape]
                told += sum(isinstance(d, int) for d in made)
                fits = [
                    not isinstance(d, int) or d == w
                    for d, w in zip(made, wanted.shape, strict=True)
                ]
                if not all(fits):
                    found.append(f"{name}: {declared.name} is {type_}, really {wanted.shape}")
    assert not found, "\n".join(found)
    assert told > 5000

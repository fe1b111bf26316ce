"""Operators over every number type that ONNX allows: compiled loops compute and move them all."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from kernel_cases import cell_of, leaves, run_cell

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import constant, variable
from neuralsym.core.op import OPS
from neuralsym.core.registry import call
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.cpu.library import Library
from neuralsym.cpu.lower import Lowering, lower
from neuralsym.cpu.machine import Target
from neuralsym.cpu.options import Options
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import Elementwise
from neuralsym.ops.evaluate import evaluate_graph

STRING, BOOL = NumberType.STRING, NumberType.BOOL
COMPLEX = (NumberType.COMPLEX64, NumberType.COMPLEX128)
ATTRIBUTES: dict[str, dict[str, Any]] = {"BitShift": {"direction": "LEFT"}}
SCALARS = {"Clip": (1, 2)}
"""Inputs that are no tensors."""


def hosts(program: Any) -> list[str]:
    return [s.op.__name__ for s in program.steps if isinstance(s.kernel, HostKernel)]


def named(schema_type: str) -> NumberType:
    """`tensor(double)` -> float64"""
    return NumberType(
        {"float": "float32", "double": "float64"}.get(schema_type[7:-1], schema_type[7:-1])
    )


def applications(op: Any) -> Any:
    """The types of the inputs, as tuples: all that the schema allows for one or two parameters."""
    formals = op.schema.inputs
    choices: dict[str, list[NumberType]] = {}
    for formal in formals:
        found = [named(t) for t in sorted(formal.allowed) if t.startswith("tensor(")]
        choices[formal.variable] = [t for t in found if t is not STRING]
    for kinds in product(*choices.values()):
        types = dict(zip(choices, kinds, strict=True))
        yield tuple(types[formal.variable] for formal in formals)


OTHERS = ("Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "StringConcat")
"""Operators with tests of their own, or of strings alone."""
ELEMENTWISE = sorted(
    name
    for (domain, name), op in OPS.items()
    if not domain and issubclass(op, Elementwise) and name not in OTHERS
)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_elementwise_operator_is_compiled_for_every_type(name):
    """Programs are made, not run: what the loops compute is tested elsewhere."""
    lowering = Lowering(Library.default(), Target.of(None), Options(), lambda body: None)
    op, count = OPS["", name], 0
    for kinds in applications(op):
        single = SCALARS.get(name, ())
        inputs = [
            variable(f"x{i}", () if i in single or ("Linear" in name and i) else (2, 3), kind)
            for i, kind in enumerate(kinds)
        ]
        attrs = dict(ATTRIBUTES.get(name, {}))
        if name == "Mod" and kinds[0].is_float:
            attrs["fmod"] = 1
        out = call(name, *inputs, **attrs)
        program = lower(Graph([out]), lowering)
        assert not hosts(program), kinds
        count += 1
    assert count


# -- movement ----------------------------------------------------------------------------------
def ints(*numbers: int) -> Any:
    return constant(np.array(numbers, np.int64))


def rows(x: Any, start: int, end: int) -> Any:
    return call("Slice", x, ints(start), ints(end), ints(0))


MOVES: dict[str, Callable[[Any], Any]] = {
    "BitCast": lambda x: call("BitCast", x, to=x.dtype),
    "Concat": lambda x: call("Concat", x, x, axis=1),
    "DepthToSpace": lambda x: call(
        "DepthToSpace", call("Reshape", x, ints(1, 4, 3, 1)), blocksize=2
    ),
    "Expand": lambda x: call("Expand", x, ints(2, 3, 4)),
    "Flatten": lambda x: call("Flatten", x),
    "Gather": lambda x: call("Gather", x, ints(2, 0), axis=1),
    "GatherElements": lambda x: call("GatherElements", x, constant(np.zeros((1, 4), np.int64))),
    "GatherND": lambda x: call("GatherND", x, constant(np.array([[0, 1], [2, 3]]))),
    "Identity": lambda x: call("Identity", x),
    "Pad": lambda x: call("Pad", x, ints(1, 0, 0, 2), mode="edge"),
    "Reshape": lambda x: call("Reshape", x, ints(4, 3)),
    "ReverseSequence": lambda x: call("ReverseSequence", x, ints(1, 2, 3, 1)),
    "ScatterElements": lambda x: call(
        "ScatterElements", x, constant(np.zeros((1, 4), np.int64)), rows(x, 1, 2)
    ),
    "ScatterND": lambda x: call("ScatterND", x, constant(np.array([[0]])), rows(x, 1, 2)),
    "Slice": lambda x: call("Slice", x, ints(-1), ints(-10), ints(1), ints(-2)),
    "SpaceToDepth": lambda x: call(
        "SpaceToDepth", call("Reshape", x, ints(1, 3, 2, 2)), blocksize=2
    ),
    "Squeeze": lambda x: call("Squeeze", call("Unsqueeze", x, ints(0)), ints(0)),
    "Tile": lambda x: call("Tile", x, ints(2, 2)),
    "Transpose": lambda x: call("Transpose", x),
    "Trilu": lambda x: call("Trilu", x),
    "Where": lambda x: call("Where", constant(np.array([[True], [False], [True]])), x, x),
}


MOVED = [k for k in NumberType if k is not STRING and not k.startswith("float6")]
"""Of values of 6 bits, ONNX knows only conversions."""


def allowed(name: str, kind: NumberType) -> bool:
    types = OPS["", name].schema.inputs[1 if name == "Where" else 0].allowed
    return kind in [named(t) for t in types if t.startswith("tensor(")]


@pytest.mark.parametrize("kind", MOVED)
def test_every_movement_is_compiled_for_every_type_and_keeps_the_bits(kind):
    rng, size = np.random.default_rng(0), kind.itemsize
    if kind is BOOL:
        x = rng.integers(0, 2, (3, 4)).astype(bool)
    else:
        bits = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4e2m1": 4}.get(kind, 8)
        raw = rng.integers(0, 1 << bits, (3, 4 * size)).astype(np.uint8)
        x = raw.view(kind.numpy)
    names = [name for name in MOVES if allowed(name, kind)]
    assert len(names) > 3
    v = variable("x0", x.shape, kind)
    outs = [MOVES[name](v) for name in names]
    cell = cell_of(outs, [v])
    assert not hosts(cell.program)
    wanted = evaluate_graph(Graph(outs, [v]), {v: x}, outs)
    for name, made, right in zip(names, run_cell(cell, {"x0": x}), wanted, strict=True):
        assert made.dtype == kind.numpy and made.shape == right.shape, name
        assert made.tobytes() == np.ascontiguousarray(right).tobytes(), name


# -- shapes and chains -------------------------------------------------------------------------
@pytest.mark.parametrize("rank", [9, 13, 30])
def test_loops_of_many_axes(rank):
    rng = np.random.default_rng(rank)
    a = rng.normal(size=[2 if i % 2 and i < 20 else 1 for i in range(rank)]).astype(np.float32)
    b = rng.normal(size=[1 if i % 2 or i > 8 else 2 for i in range(rank)]).astype(np.float32)
    symbols, fed = leaves([a, b])
    cell = cell_of([call("Add", *symbols)], symbols)
    assert [s.kernel.name for s in cell.program.steps] == ["loop"]
    np.testing.assert_array_equal(run_cell(cell, fed)[0], a + b)


@pytest.mark.parametrize("kind", ["int4", "uint2", "float8e4m3fn", "float8e5m2fnuz", "float4e2m1"])
def test_narrow_values_between_wide_ones_stay_in_registers(kind):
    """One loop, which rounds to the narrow type in passing."""
    x = np.random.default_rng(3).normal(size=(5, 77)).astype(np.float32)
    v = variable("x0", x.shape, "float32")
    narrow = call("Cast", call("Clip", v, np.float32(0), np.float32(2)), to=kind)
    cell = cell_of([call("Mul", call("Cast", narrow, to="float32"), np.float32(3))], [v])
    assert [s.kernel.name for s in cell.program.steps] == ["loop"]
    dtype = NumberType(kind).numpy
    wanted = np.clip(x, 0, 2).astype(dtype).astype(np.float32) * np.float32(3)
    np.testing.assert_array_equal(run_cell(cell, {"x0": x})[0], wanted)

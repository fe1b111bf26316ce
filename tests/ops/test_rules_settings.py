"""Where the value of an input tells the shape of the result, knowing the value gives it whole.

The engine relies on that: it reads such values in the middle of a run and asks the rule again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from rules_harness import Var, ints

from neuralsym.core.infer import infer
from neuralsym.core.leaves import Variable, constant, variable
from neuralsym.core.op import Call, find_op
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import SequenceType, TensorType


class Setting(NamedTuple):
    """Inputs (arrays are the settings), attributes, and the shapes that these give."""

    op: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...]


def number(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


X = Var((2, 3, 8, 10))
REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
SETTINGS = [
    Setting("Range", (number(2), number(11), number(3)), {}, ((3,),)),
    Setting("Range", tuple(np.float32(v) for v in (0, 1, 0.3)), {}, ((4,),)),
    Setting("ConstantOfShape", (ints(2, 0, 5),), {}, ((2, 0, 5),)),
    Setting("Expand", (Var((3, 1)), ints(2, 1, 4)), {}, ((2, 3, 4),)),
    Setting("Reshape", (X, ints(0, -1, 5)), {}, ((2, 48, 5),)),
    Setting("Reshape", (Var((2, 0)), ints(0, 7)), {"allowzero": 1}, ((0, 7),)),
    Setting("Tile", (Var((2, 3)), ints(2, 0)), {}, ((4, 0),)),
    Setting("Pad", (Var((2, 3)), ints(1, 0, -1, 2)), {}, ((2, 5),)),
    Setting("Pad", (Var((2, 3)), ints(1, 2), None, ints(-1)), {}, ((2, 6),)),
    Setting("Slice", (Var((8, 9)), ints(1), ints(-1), ints(1), ints(2)), {}, ((8, 4),)),
    Setting("Slice", (Var((8, 9)), ints(7, -1), ints(-99, 3)), {}, ((0, 0),)),
    Setting("Split", (Var((7, 2)), ints(3, 0, 4)), {}, ((3, 2), (0, 2), (4, 2))),
    Setting("Squeeze", (Var((1, 3, 1)), ints(-1)), {}, ((1, 3),)),
    Setting("Unsqueeze", (Var((3,)), ints(0, -1)), {}, ((1, 3, 1),)),
    Setting("TopK", (Var((4, 9)), ints(3)), {"axis": 0, "largest": 0}, ((3, 9), (3, 9))),
    Setting("TopK", (Var((4, 9)), ints(5)), {}, ((4, 5), (4, 5))),
    Setting("OneHot", (Var((2, 3), "int64"), number(6), Var((2,))), {"axis": 1}, ((2, 6, 3),)),
    Setting("OneHot", (Var((2,), "int64"), np.float32(6), Var((2,))), {}, ((2, 6),)),
    Setting("Compress", (Var((3, 4)), np.array([True, False, True])), {"axis": 0}, ((2, 4),)),
    Setting("Compress", (Var((3, 4)), np.array([False, True])), {}, ((1,),)),
    Setting("CenterCropPad", (X, ints(9, 3)), {"axes": (3, 2)}, ((2, 3, 3, 9),)),
    Setting("Resize", (X, None, floats(1, 1, 0.5, 2.5)), {}, ((2, 3, 4, 25),)),
    Setting("Resize", (X, None, None, ints(5, 6)), {"axes": (2, 3)}, ((2, 3, 5, 6),)),
    Setting(
        "Resize",
        (X, None, None, ints(16, 15)),
        {"axes": (2, 3), "keep_aspect_ratio_policy": "not_larger"},
        ((2, 3, 12, 15),),
    ),
    Setting("AffineGrid", (Var((2, 2, 3)), ints(2, 3, 5, 6)), {}, ((2, 5, 6, 2),)),
    Setting("AffineGrid", (Var((2, 3, 4)), ints(2, 3, 4, 5, 6)), {}, ((2, 4, 5, 6, 3),)),
    Setting(
        "Col2Im", (Var((1, 20, 9)), ints(5, 5), ints(2, 2)), {"dilations": (2, 2)}, ((1, 5, 5, 5),)
    ),
    Setting(
        "MaxUnpool",
        (Var((1, 1, 2, 2)), Var((1, 1, 2, 2), "int64"), ints(1, 1, 5, 5)),
        {"kernel_shape": (2, 2), "strides": (2, 2)},
        ((1, 1, 5, 5),),
    ),
    Setting("HannWindow", (number(9),), {}, ((9,),)),
    Setting("HammingWindow", (number(9),), {}, ((9,),)),
    Setting("BlackmanWindow", (np.array(9, np.int32),), {}, ((9,),)),
    Setting("DFT", (Var((1, 8, 1)), number(5)), {}, ((1, 5, 2),)),
    Setting("DFT", (Var((1, 8, 9, 2)), None, number(1)), {"onesided": 1}, ((1, 5, 9, 2),)),
    Setting("DFT", (Var((1, 8, 9, 2)), number(6), number(-3)), {"inverse": 1}, ((1, 6, 9, 2),)),
    Setting("STFT", (Var((2, 64, 1)), number(8), None, number(16)), {}, ((2, 7, 9, 2),)),
    Setting("STFT", (Var((2, 64, 1)), number(8), Var((16,))), {"onesided": 0}, ((2, 7, 16, 2),)),
    Setting(
        "MelWeightMatrix",
        (number(8), number(16), Var((), "int64"), Var(()), Var(())),
        {},
        ((9, 8),),
    ),
    Setting("CumSum", (Var((2, 3)), number(-1)), {}, ((2, 3),)),
    Setting("CumProd", (Var((2, 3)), number(1)), {}, ((2, 3),)),
    Setting("Trilu", (Var((2, 3)), number(-1)), {"upper": 0}, ((2, 3),)),
    *(
        Setting(f"Reduce{name}", (X, ints(-1, 0)), {"keepdims": keep}, (shape,))
        for name in REDUCTIONS
        for keep, shape in ((0, (3, 8)), (1, (1, 3, 8, 1)))
    ),
]
FIXED = ("CumSum", "CumProd", "Trilu")
"""Operators whose settings tell nothing about the shape, which is known all the same."""


def case_name(setting: Setting) -> str:
    given = ["x" if isinstance(g, np.ndarray) else "_" for g in setting.inputs]
    return f"{setting.op}-{''.join(given)}"


def fed(index: int, var: Var) -> Symbol:
    return variable(f"i{index}", var.shape, var.dtype)


def shapes(setting: Setting, made: list[Symbol | None]) -> list[tuple[Any, ...] | None]:
    call = Call(find_op(setting.op), tuple(made), setting.attrs, len(setting.shapes))
    types, _ = infer(call)
    assert all(isinstance(t, TensorType) for t in types)
    return [t.shape for t in types if isinstance(t, TensorType)]


@pytest.mark.parametrize("setting", SETTINGS, ids=case_name)
def test_constant_settings_give_the_shape(setting: Setting) -> None:
    made = [
        None if g is None else fed(i, g) if isinstance(g, Var) else constant(g)
        for i, g in enumerate(setting.inputs)
    ]
    assert shapes(setting, made) == list(setting.shapes)


@pytest.mark.parametrize("setting", SETTINGS, ids=case_name)
def test_settings_that_become_known_give_the_shape(setting: Setting) -> None:
    """A computed input whose value is told: what the engine asks in the middle of a run."""
    made: list[Symbol | None] = []
    for i, given in enumerate(setting.inputs):
        if given is None or isinstance(given, Var):
            made.append(None if given is None else fed(i, given))
            continue
        tensor = Tensor.of(given)
        type_ = TensorType(tensor.dtype, tensor.shape)
        node = Node(Variable, (), {"type": type_}, (type_,), known=(np.asarray(given),))
        made.append(node.outputs[0])
    assert shapes(setting, made) == list(setting.shapes)


@pytest.mark.parametrize("setting", SETTINGS, ids=case_name)
def test_settings_of_the_run_leave_open_only_what_they_tell(setting: Setting) -> None:
    made = [
        None if g is None else fed(i, g if isinstance(g, Var) else Var(g.shape, str(g.dtype)))
        for i, g in enumerate(setting.inputs)
    ]
    found = shapes(setting, made)
    assert (None in [d for shape in found for d in shape or (None,)]) != (setting.op in FIXED)
    for shape, wanted in zip(found, setting.shapes, strict=True):
        assert shape is not None, "the settings' lengths tell the rank"
        assert len(shape) == len(wanted)
        for size, told in zip(shape, wanted, strict=True):
            assert size is None or size == told


def test_sizes_of_sequences() -> None:
    made = [fed(0, Var((7, 2))), constant(ints(3, 4))]
    (type_,), _ = infer(Call(find_op("SplitToSequence"), tuple(made), {}, 1))
    assert isinstance(type_, SequenceType)
    assert isinstance(type_.element, TensorType)
    assert type_.element.shape == (None, 2)
    (type_,), _ = infer(Call(find_op("SplitToSequence"), (made[0], constant(number(7))), {}, 1))
    assert isinstance(type_, SequenceType)
    assert isinstance(type_.element, TensorType)
    assert type_.element.shape == (7, 2)


# -- shapes of which a part is known -------------------------------------------------------------
def joined(*parts: Symbol) -> Symbol:
    from neuralsym import ops

    return ops.concat([p if p.rank else ops.unsqueeze(p, ints(0)) for p in parts], axis=0)


@pytest.mark.parametrize("op", ["Reshape", "Expand", "ConstantOfShape"])
def test_what_is_known_of_a_joined_shape_counts(op: str) -> None:
    """Exporters write Concat(Shape(x)[0], computed, 5): its first and last sizes are known."""
    from neuralsym import ops

    x = variable("x", ("N", 1, 1) if op == "Expand" else ("N", 4, 5))
    computed = variable("computed", (1,), "int64")
    shape = joined(ops.shape(x, end=1), computed, constant(ints(5)))
    inputs = (shape,) if op == "ConstantOfShape" else (x, shape)
    (type_,), _ = infer(Call(find_op(op), inputs, {}, 1))
    assert isinstance(type_, TensorType)
    assert type_.shape is not None
    middle = 4 if op == "Reshape" else None  # what is left of N*4*5 beside N and 5
    assert [str(d) for d in type_.shape] == ["N", str(middle), "5"]


def test_two_unknown_sizes_of_a_reshape_stay_unknown() -> None:
    from neuralsym import ops

    x = variable("x", ("N", 4, 5))
    two = variable("two", (2,), "int64")
    y = ops.reshape(x, joined(two, constant(ints(5))))
    assert y.shape == (None, None, 5)
    free = ops.reshape(x, joined(variable("one", (1,), "int64"), constant(ints(-1))))
    assert free.shape == (None, None)


# -- shapes that are taken apart and put together --------------------------------------------------
@pytest.mark.parametrize("place", [0, 2, -1])
def test_sizes_read_and_replaced_in_a_shape(place: int) -> None:
    from neuralsym import ops

    shape = ops.shape(variable("x", ("N", 4, "W")))
    names = ["N", "4", "W"]
    for read in (
        ops.gather_elements(shape, ints(place)),
        ops.gather_nd(shape, np.array([[place]], np.int64)),
        ops.gather_nd(shape, ints(place)),
    ):
        assert [str(d) for d in read.known.reshape(-1).tolist()] == [names[place]]
    wanted = [*names]
    wanted[place] = "7"
    for made in (
        ops.scatter_elements(shape, ints(place), ints(7)),
        ops.scatter_nd(shape, np.array([[place]], np.int64), ints(7)),
    ):
        assert made.known is not None
        assert [str(d) for d in made.known.tolist()] == wanted
        assert [str(d) for d in ops.constant_of_shape(made).shape or ()] == wanted


def test_replacements_that_only_the_run_tells() -> None:
    from neuralsym import ops

    shape = ops.shape(variable("x", ("N", 4, "W")))
    twice = np.array([[1], [-2]], np.int64)
    assert ops.scatter_nd(shape, twice, ints(7, 8)).known is None
    assert ops.scatter_nd(shape, np.array([[5]], np.int64), ints(7)).known is None
    assert ops.scatter_nd(shape, np.array([[1]], np.int64), ints(7), reduction="add").known is None
    assert ops.gather_elements(shape, ints(-4)).known is None
    assert ops.scatter_elements(shape, variable("at", (1,), "int64"), ints(7)).known is None


def test_what_is_known_of_other_settings_counts() -> None:
    """A dynamic interpolation: batch and channels are the input's, height and width computed."""
    from neuralsym import ops

    x = variable("x", ("N", 4, "H", "W"))
    computed = variable("computed", (2,), "int64")
    sizes = joined(ops.shape(x, end=2), computed)
    resized = ops.resize(x, None, None, sizes)
    assert [str(d) for d in resized.shape or ()] == ["N", "4", "None", "None"]
    cropped = ops.center_crop_pad(x, sizes)
    assert [str(d) for d in cropped.shape or ()] == ["N", "4", "None", "None"]
    tiled = ops.tile(x, joined(constant(ints(2, 1)), computed))
    assert [str(d) for d in tiled.shape or ()] == ["N*2", "4", "None", "None"]
    pads = joined(constant(ints(0, 1, 0)), computed, constant(ints(1, 0, 2)))
    padded = ops.pad(x, pads)
    assert [str(d) for d in padded.shape or ()] == ["None", "6", "H", "None"]


def test_joins_of_nothing_again_and_again_are_read_in_no_time() -> None:
    from neuralsym import ops

    nothing = variable("nothing", (0,), "int64")
    for _ in range(5):
        nothing = ops.concat([nothing] * 2000, axis=0)
    shape = ops.concat([nothing, variable("one", (1,), "int64"), constant(ints(3))], axis=0)
    assert ops.expand(variable("x", (1, 1)), shape).shape == (None, 3)

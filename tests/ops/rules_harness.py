"""Compares an operator's own rule with onnx's inference, with real values and with itself.

One case is checked three ways: our sizes are those that onnx infers, those that its reference
evaluator really gives, and, with names in the place of sizes, those that come out when the names
are given their sizes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

import neuralsym.ops  # noqa: F401  (defines the operators)
from neuralsym.core.dim import substitute
from neuralsym.core.infer import check_types, infer_with_onnx
from neuralsym.core.leaves import constant, variable
from neuralsym.core.op import Call, find_op
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import TensorType, Type, shape_text
from neuralsym.errors import OpError

Shape = tuple[Any, ...]


@dataclass(frozen=True)
class Var:
    """A fed input."""

    shape: Shape
    dtype: str = "float32"


Input = Var | np.ndarray | None


def symbol_of(given: Input, index: int) -> Symbol | None:
    if given is None:
        return None
    if isinstance(given, Var):
        return variable(f"i{index}", given.shape, given.dtype)
    return constant(given)


def call_of(op: str, inputs: Sequence[Input], attrs: dict[str, Any], count: int = 1) -> Call:
    symbols = tuple(symbol_of(g, i) for i, g in enumerate(inputs))
    stored = {k: tuple(v) if isinstance(v, list) else v for k, v in attrs.items()}
    return Call(find_op(op), symbols, stored, count)


def own_types(call: Call) -> list[Type] | None:
    check_types(call)
    call.op.check(call)
    types = call.op.infer(call)
    return None if types is None else list(types[: call.count])


def own_shapes(
    op: str, inputs: Sequence[Input], attrs: dict[str, Any], count: int = 1
) -> list[Shape | None]:
    types = own_types(call_of(op, inputs, attrs, count))
    assert types is not None, f"{op} has no rule of its own here"
    return [t.shape for t in types if isinstance(t, TensorType)]


def named(inputs: Sequence[Input], by_size: bool) -> tuple[list[Input], dict[str, int]]:
    """The fed inputs with names for sizes: one for equal sizes, or one for each axis."""
    sizes: dict[str, int] = {}
    made: list[Input] = []
    for k, given in enumerate(inputs):
        if not isinstance(given, Var):
            made.append(given)
            continue
        shape = []
        for axis, size in enumerate(given.shape):
            name = f"d{size}" if by_size else f"x{k}_{axis}"
            sizes[name] = size
            shape.append(name)
        made.append(Var(tuple(shape), given.dtype))
    return made, sizes


def fits(shape: Shape | None, real: Shape | None) -> bool:
    """Whether what is known of `shape` is what `real` says."""
    if shape is None or real is None:
        return True
    return len(shape) == len(real) and all(
        a is None or b is None or a == b for a, b in zip(shape, real, strict=True)
    )


def onnx_shapes(call: Call) -> list[Shape | None] | None:
    """What onnx infers; None when it refuses or gives a negative size."""
    try:
        types = infer_with_onnx(call)
    except OpError:
        return None
    shapes = [t.shape for t in types if isinstance(t, TensorType)]
    negative = any(isinstance(d, int) and d < 0 for s in shapes for d in s or ())
    return None if negative else shapes


def real_shapes(
    op: str, inputs: Sequence[Input], attrs: dict[str, Any], count: int
) -> list[Shape] | None:
    """The shapes that the reference evaluator's values have; None when it fails."""
    arrays = {}
    for i, given in enumerate(inputs):
        if isinstance(given, Var):
            arrays[f"i{i}"] = np.ones(given.shape, given.dtype)
        elif given is not None:
            arrays[f"i{i}"] = given
    names = [f"i{i}" if g is not None else "" for i, g in enumerate(inputs)]
    outputs = [f"o{k}" for k in range(count)]
    node = onnx.helper.make_node(op, names, outputs, **attrs)
    infos = [
        onnx.helper.make_tensor_value_info(
            n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
        )
        for n, a in arrays.items()
    ]
    results = [onnx.helper.make_tensor_value_info(o, 0, None) for o in outputs]
    graph = onnx.helper.make_graph([node], "g", infos, results)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)])
    try:
        values = ReferenceEvaluator(model).run(None, arrays)
    except Exception:  # it reports what it cannot do in many ways
        return None
    return [np.shape(v) for v in values]


def check_case(
    op: str,
    inputs: Sequence[Input],
    attrs: dict[str, Any] | None = None,
    count: int = 1,
    *,
    exact: bool = True,
    real: bool = True,
    stricter: bool = False,
    laxer: bool = False,
    by_size: bool = True,
) -> None:
    """Check one static case and its symbolic form.

    `exact`: no size may be unknown. `stricter`: we may refuse what onnx's inference lets pass
    (then real values must fail too, if they are asked). `laxer`: onnx may refuse what we take.
    """
    attrs = attrs or {}
    call = call_of(op, inputs, attrs, count)
    theirs = onnx_shapes(call)
    values = real_shapes(op, inputs, attrs, count) if real else None
    ours, refusal = _ours(op, inputs, attrs, count)
    if ours is None:
        assert "\n" not in refusal.split("\n  at ")[0]
        assert stricter or theirs is None, f"we refuse, onnx gives {theirs}: {refusal}"
        empty = any(0 in v for v in values or ())  # where nothing fits, it gives nothing
        fails = values is None or (stricter and empty)
        assert fails, f"we refuse, the values have {values}: {refusal}"
        return
    text = f"{op}({inputs}, {attrs}): ours {ours}, onnx {theirs}, values {values}"
    assert laxer or theirs is not None, f"onnx refuses {text}"
    for k, shape in enumerate(ours):
        assert fits(shape, theirs[k] if theirs else None), text
        assert fits(shape, values[k] if values else None), text
        if exact:
            assert shape is not None and None not in shape, text
    free, sizes = named(inputs, by_size)
    symbolic = own_shapes(op, free, attrs, count)
    for shape, expected in zip(symbolic, ours, strict=True):
        if shape is None:
            assert not exact, f"no rank from {free}: {text}"
            continue
        found = tuple(None if d is None else substitute(d, sizes) for d in shape)
        assert fits(found, expected), f"{shape} gives {found} from {free}: {text}"
        assert not exact or None not in found, f"{shape} from {free}: {text}"


def _ours(
    op: str, inputs: Sequence[Input], attrs: dict[str, Any], count: int
) -> tuple[list[Shape | None] | None, str]:
    """Our shapes, or the message of our refusal."""
    try:
        return own_shapes(op, inputs, attrs, count), ""
    except OpError as error:
        return None, str(error)


def ints(*values: int) -> NDArray[np.int64]:
    """A known vector of int64."""
    return np.array(values, np.int64)


def shown(shapes: Iterable[Shape | None]) -> list[str]:
    """Shapes as a user reads them."""
    return [shape_text(shape) for shape in shapes]

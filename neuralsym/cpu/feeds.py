"""What a run is fed: checked against the inputs, and the sizes that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.dim import Dim
from neuralsym.core.dim import evaluate as evaluate_dim
from neuralsym.core.types import TensorType
from neuralsym.cpu.program import Buffer, Program, Role, Sizes, is_plain_name
from neuralsym.errors import ShapeMismatch, TypeMismatch


def as_fed(buffer: Buffer, value: Any) -> NDArray[Any]:
    """The value as an array of the input's dtype and rank.

    An array must have the dtype; Python numbers and lists take it. Raises TypeMismatch or
    ShapeMismatch.
    """
    wanted = buffer.dtype.numpy
    if not isinstance(value, (np.ndarray, np.generic)):
        try:
            value = np.asarray(value, dtype=wanted)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeMismatch(
                f"input {buffer.name!r} is {buffer.type}; this is no array of it: {error}"
            ) from None
    array = np.asarray(value)
    if array.dtype != wanted:
        raise TypeMismatch(
            f"input {buffer.name!r} is {buffer.type}, it was given {array.dtype}; "
            f"convert it with .astype({str(wanted)!r})"
        )
    declared = buffer.tensor.shape
    if declared is not None and (
        array.ndim != len(declared)
        or any(isinstance(d, int) and d != n for d, n in zip(declared, array.shape, strict=True))
    ):
        raise ShapeMismatch(
            f"input {buffer.name!r} is {buffer.type}, it was given shape {array.shape}"
        )
    return array


def bind_sizes(
    program: Program, shapes: Mapping[str, tuple[int, ...]], workers: int, given: Mapping[str, int]
) -> Sizes:
    """The sizes of a run from the shapes of its inputs; ShapeMismatch where they contradict.

    `given` are names bound beforehand, which the shapes must agree with.
    """
    names = dict(given)
    told = dict.fromkeys(given, "the instance")
    for name, places in program.dims.items():
        for source, axis in places:
            if source not in shapes:
                continue
            size = shapes[source][axis]
            if names.setdefault(name, size) != size:
                raise ShapeMismatch(
                    f"dimension {name} is {names[name]} by {told[name]}, but {size} by "
                    f"input {source!r} (axis {axis} of {shapes[source]})"
                )
            told.setdefault(name, f"input {source!r}")
    for source, shape in shapes.items():
        _solve(program.inputs[source], shape, names)
    sizes = Sizes(names, workers)
    for source, shape in shapes.items():
        sizes.bind(program.inputs[source], shape)
    return sizes


def _solve(buffer: Buffer, shape: tuple[int, ...], names: dict[str, int]) -> None:
    """Bind the one unknown name of a dimension such as 4*N + 2."""
    for dim, size in zip(buffer.tensor.shape or (), shape, strict=False):
        if not isinstance(dim, Dim) or is_plain_name(dim):
            continue
        free = sorted(dim.names - names.keys())
        if len(free) != 1:
            continue
        low = evaluate_dim(dim, {**names, free[0]: 0})
        step = evaluate_dim(dim, {**names, free[0]: 1}) - low
        if step > 0 and size >= low and (size - low) % step == 0:
            names[free[0]] = (size - low) // step


def shown_names(shapes: Iterable[Iterable[object]]) -> set[str]:
    """The names that values of such shapes tell: those alone in a dimension, or like N in 4*N + 2.

    `x//4` does not tell x.
    """
    dims = [d for shape in shapes for d in shape if isinstance(d, Dim)]
    found = {str(d) for d in dims if is_plain_name(d)}
    for dim in dims:
        free = dim.names - found
        if len(free) == 1:
            (name,) = free
            others = dict.fromkeys(dim.names, 1)
            low, high = (evaluate_dim(dim, {**others, name: n}) for n in (0, 1))
            if high > low:
                found.add(name)
    return found


def tensor_inputs(program: Program) -> dict[str, Buffer]:
    """The inputs that lie in memory; the others are Python objects."""
    return {n: b for n, b in program.inputs.items() if b.role is Role.INPUT}


def dimension_names(buffer: Buffer) -> set[str]:
    """The names in a buffer's shape."""
    if not isinstance(buffer.type, TensorType):
        return set()
    return {n for d in buffer.type.shape or () if isinstance(d, Dim) for n in d.names}

"""Myelin's operations that take rows of a table by indices, or add to them."""

from __future__ import annotations

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.engines.flow.helpers import Build, Built, flattened, ints, rank_of, zeros_for
from neuralsym.engines.flow.step import Step


def _gather(step: Step) -> Built:
    """Rows of a table; the last axis of the indices is a multi-index where they have two or more.

    With a third input, indices below zero give it in the place of a row.
    """
    table, indices, *rest = step.take(2, 3)
    batch = step.integer("batch", 0) or 0
    oov = rest[0] if rest else None
    if oov is None:
        return _rows(step, table, indices, batch)
    outside = ops.less(indices, ops.constant(0, str(indices.dtype)))
    rows = _rows(step, table, ops.max([indices, ops.constant(0, str(indices.dtype))]), batch)
    if rank_of(step, indices) >= 2:
        outside = ops.cast(
            ops.reduce_max(ops.cast(outside, to="int32"), np.array([-1]), keepdims=0), to="bool"
        )
    spread = rank_of(step, rows) - rank_of(step, outside)
    if spread > 0:
        axes = np.arange(rank_of(step, outside), rank_of(step, rows))
        outside = ops.unsqueeze(outside, axes)
    return ops.where(outside, oov, rows)


def _rows(step: Step, table: Symbol, indices: Symbol, batch: int = 0) -> Symbol:
    if rank_of(step, indices) < 2:
        return ops.gather(table, indices, axis=batch)
    return ops.gather_nd(table, ints(indices), batch_dims=batch)


def _gather_v2(step: Step) -> Built:
    """TensorFlow's: along an axis, the indices in the place of the axis."""
    table, indices, *rest = step.take(2, 3)
    return ops.gather(table, indices, axis=step.known(2, "axis")[0] if rest else 0)


def _gather_nd(step: Step) -> Built:
    table, indices = step.take(2)
    return ops.gather_nd(table, ints(indices))


def _pooled(how: str) -> Build:
    """The sum, average or maximum of the rows at indices; those below zero are left out."""

    def build(step: Step) -> Built:
        table, indices, *_ = step.take(2, 3)
        width = rank_of(step, table) - 1
        flat = flattened(indices)
        zero = ops.constant(0, str(flat.dtype))
        inside = ops.greater_or_equal(flat, zero)
        rows = ops.gather(table, ops.max([flat, zero]), axis=0)
        mask = ops.unsqueeze(inside, np.arange(1, width + 1))
        first = np.array([0])
        number = str(table.dtype)
        if how == "max":
            lowest = ops.constant(-np.inf, number)
            made = ops.reduce_max(ops.where(mask, rows, lowest), first, keepdims=1)
        else:
            kept = ops.where(mask, rows, ops.constant(0, number))
            made = ops.reduce_sum(kept, first, keepdims=1)
            if how == "avg":
                count = ops.reduce_sum(ops.cast(mask, to=number), first, keepdims=1)
                made = ops.div(made, ops.max([count, ops.constant(1, number)]))
        out = step.declared()
        return made if out is None or out.rank() != width else ops.squeeze(made, first)

    return build


def _scatter(step: Step) -> Built:
    """Zeros of the result's shape with values added at indices."""
    indices, values, *_ = step.take(2, 4)
    out = step.declared()
    shape = list(out.shape) if out is not None else []
    if not shape or min(shape) < 1:
        step.wrong("the shape of its result must be declared")
    return scattered(step, zeros_for(shape, values), indices, values)


def scattered(step: Step, target: Symbol, indices: Symbol, values: Symbol) -> Symbol:
    if rank_of(step, indices) < 2:
        indices = ops.unsqueeze(indices, np.array([-1]))
    if step.op.flag_attr("pooled"):
        count = ops.slice(ops.shape(indices), [0], [1])
        shape = ops.concat([count, ops.slice(ops.shape(target), [1], [2**31])], axis=0)
        values = ops.expand(values, shape)
    return ops.scatter_nd(target, ints(indices), values, reduction="add")


def _one_hot(step: Step) -> Built:
    index, *rest = step.take(1, 2)
    depth = step.integer("depth")
    out = step.declared()
    if depth is None and out is not None and out.rank():
        depth = out.shape[-1]
    if depth is None:
        step.wrong("attribute depth is missing")
    number = str((out.dtype if out is not None else None) or NumberType.FLOAT32)
    marks = ops.one_hot(index, np.array(depth), ops.constant(np.array([0, 1]), number))
    return ops.mul(marks, rest[0]) if rest else marks


LOOKUPS: dict[str, Build] = {
    "Gather": _gather,
    "GatherV2": _gather_v2,
    "GatherNd": _gather_nd,
    "GatherSum": _pooled("sum"),
    "GatherAvg": _pooled("avg"),
    "GatherMax": _pooled("max"),
    "Lookup": _pooled("sum"),
    "Scatter": _scatter,
    "OneHot": _one_hot,
}
"""The operations by type."""

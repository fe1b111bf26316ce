"""Softmax, normalisation, dropout, pooling and recurrent layers with their old meaning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.engines.onnx.constants import ints, like
from neuralsym.engines.onnx.raise_older.old import Old


def coerced(old: Old) -> Sequence[Symbol] | None:
    """One softmax over all axes from `axis` on."""
    x, axis = old.input(), old.attrs.get("axis", 1)
    rank = x.rank
    if axis == -1 or (rank is not None and axis == rank - 1):
        old.attrs["axis"] = -1
        return None
    flat = old.op(old.op_type, old.op("Flatten", x, axis=axis), axis=1)
    return [old.op("Reshape", flat, old.op("Shape", x), allowzero=1)]


# -- batch normalisation -----------------------------------------------------------------------
def batch_norm(old: Old) -> Sequence[Symbol] | None:
    """Outputs beside the first are those of training, unless `is_test` says otherwise.

    The number of outputs decides, as the text of every version has it; `is_test` of 1 and 6,
    which is 0 by default, only counts where there are several.
    """
    test, spatial = old.take("is_test", 0), old.take("spatial", 1)
    if old.count == 1:
        return None if spatial else [_normalised(old, old.input(3), old.input(4))]
    if test:  # nothing is learnt: the statistics stay as they are
        if spatial:
            y = old.apply("BatchNormalization", old.inputs, old.attrs)[0]
        else:
            y = _normalised(old, old.input(3), old.input(4))
        return [y, *[old.input(3), old.input(4)] * 2][: old.count]
    mean, var = _statistics(old, [0, *range(2, old.rank())] if spatial else [0])
    if spatial:
        attrs = {**old.attrs, "training_mode": 1}
        made = old.apply("BatchNormalization", old.inputs, attrs, 3)
    else:
        momentum = old.attrs.get("momentum", 0.9)
        running = [
            old.op(
                "Add",
                old.op("Mul", before, like(before, momentum)),
                old.op("Mul", now, like(now, 1 - momentum)),
            )
            for before, now in ((old.input(3), mean), (old.input(4), var))
        ]
        made = (_normalised(old, mean, var), *running)
    return [*made, mean, var][: old.count]


def _statistics(old: Old, axes: Sequence[int]) -> tuple[Symbol, Symbol]:
    """Mean and variance of this batch."""
    x = old.input()
    wide = old.op("ReduceMean", x, ints(axes))
    away = old.op("Sub", x, wide)
    var = old.op("ReduceMean", old.op("Mul", away, away), ints(axes), keepdims=0)
    return old.op("Squeeze", wide, ints(axes)), var


def _normalised(old: Old, mean: Symbol, var: Symbol) -> Symbol:
    """The formula, for statistics of each element of an entry of the batch."""
    x, scale, bias = (old.input(i) for i in range(3))
    deviation = old.op("Sqrt", old.op("Add", var, like(x, old.attrs.get("epsilon", 1e-5))))
    scaled = old.op("Div", old.op("Sub", x, mean), deviation)
    return old.op("Add", old.op("Mul", scaled, scale), bias)


def group_norm(old: Old) -> Sequence[Symbol]:
    """Scale and bias of each group, repeated for its channels."""
    x, groups = old.input(0), old.attrs["num_groups"]
    channels = x.shape[1] if x.shape is not None and len(x.shape) > 1 else None
    if isinstance(channels, int):
        wide: Symbol = ints([groups, channels // groups])
    else:
        size = old.op("Div", old.op("Shape", x, start=1, end=2), ints([groups]))
        wide = old.op("Concat", ints([groups]), size, axis=0)
    both = []
    for i in (1, 2):
        column = old.op("Unsqueeze", old.input(i), ints([1]))
        both.append(old.op("Reshape", old.op("Expand", column, wide), ints([-1])))
    old.attrs["stash_type"] = x.dtype.onnx
    return old.again(x, *both)


def dropout(old: Old) -> Sequence[Symbol]:
    """Files of before training existed in ONNX are run for inference.

    1 and 6 could say so by `is_test`, whose default is training; no runtime ever took them at
    that word. A mask tells what is kept, as 12 says: all of it.
    """
    old.take("is_test")
    ratio = old.take("ratio", 0.5)
    results = old.again(old.input(), constant(np.float32(ratio)))
    if old.count > 1 and old.version < 10:
        return [results[0], old.cast(results[1], old.tensor().dtype)]
    return results


# -- pooling -----------------------------------------------------------------------------------
# Before 22 a window that would start in the padding at the end has a place in the shape by the
# text, and no value: it covers nothing. onnxruntime and the reference leave it out in every
# version, and so does ours.
def lp_pool(old: Old) -> Sequence[Symbol] | None:
    """The power of version 1 may be any number: the mean of powers, times their number."""
    power = old.attrs.get("p", 2.0)
    if "kernel_shape" not in old.attrs:
        old.refuse("it has no kernel_shape")
    if float(power).is_integer():
        old.attrs["p"] = int(power)
        return None
    old.take("p")
    x, size = old.input(), float(np.prod(old.attrs["kernel_shape"]))
    mean = old.op("AveragePool", _powers(old, x, power), count_include_pad=1, **old.attrs)
    return [old.op("Pow", old.op("Mul", mean, like(x, size)), like(x, 1 / power))]


def global_lp_pool(old: Old) -> Sequence[Symbol] | None:
    power = old.take("p", 2.0)
    if float(power).is_integer():
        old.attrs["p"] = int(power)
        return None
    x = old.input()
    total = old.op("ReduceSum", _powers(old, x, power), ints(range(2, old.rank())))
    return [old.op("Pow", total, like(x, 1 / power))]


def _powers(old: Old, x: Symbol, power: float) -> Symbol:
    return old.op("Pow", old.op("Abs", x), like(x, power))


# -- recurrent layers --------------------------------------------------------------------------
def recurrent(old: Old) -> None:
    """An output was only needless to give without `output_sequence`: who wants it names it."""
    old.take("output_sequence")
    if old.attrs.get("direction") == "foward":  # so written in the schema of version 1
        old.attrs["direction"] = "forward"

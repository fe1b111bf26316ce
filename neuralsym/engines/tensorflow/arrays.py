"""TensorFlow's operations that cut, join, fill and look up arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.engines.flow.elementwise import ELEMENTWISE
from neuralsym.engines.flow.helpers import Build, Built, ints
from neuralsym.engines.flow.operations import OPERATIONS
from neuralsym.engines.flow.step import Step

_END = np.iinfo(np.int64).max


def _at(*axes: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(axes, np.int64)


def _of_tensorflow(step: Step) -> bool:
    """Whether an operation of a type that Myelin has too says so by TensorFlow's attributes."""
    return any(name in step.op.attrs for name in ("T", "Tparams", "Tindices", "num_split"))


def _strided_slice(step: Step) -> Built:
    """Python's subscript: beginnings, ends, steps, and a bit for each entry of `masks`."""
    x, begin, end, _ = step.take(4)
    steps = step.known(3, "steps")
    masks = {
        name: step.integer(f"{name}_mask", 0) or 0
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }

    def marked(name: str, i: int) -> bool:
        return bool(masks[name] >> i & 1)

    count = len(steps)
    dotted = [i for i in range(count) if marked("ellipsis", i)]
    axis, places, added, dropped = 0, [], [], []
    for i in range(count):
        if marked("ellipsis", i):
            if x.rank is None:
                step.wrong("the rank of its input is not known")
            rest = [j for j in range(i + 1, count) if not marked("new_axis", j)]
            axis = x.rank - len(rest)
        elif marked("new_axis", i):
            added.append((i, axis))
        else:
            places.append((i, axis))
            dropped += [axis] if marked("shrink_axis", i) else []
            axis += 1
    if len(dotted) > 1:
        step.wrong("has more than one ellipsis")
    cut = [(i, a) for i, a in places if _cuts(marked, i, steps)]
    if cut:
        starts = _ends(
            begin, [i for i, _ in cut], [marked("begin", i) for i, _ in cut], steps, True
        )
        stops = _stops(begin, end, cut, marked, steps)
        axes = np.array([a for _, a in cut], np.int64)
        x = ops.slice(x, starts, stops, axes, np.array([steps[i] for i, _ in cut], np.int64))
    if dropped:
        x = ops.squeeze(x, _at(*dropped))
    if added:
        # Where a new axis comes: behind those that are kept before it, and other new ones.
        wanted = []
        for number, (_, a) in enumerate(added):
            wanted.append(a - sum(d < a for d in dropped) + number)
        x = ops.unsqueeze(x, _at(*wanted))
    return x


def _cuts(marked: Callable[[str, int], bool], i: int, steps: Sequence[int]) -> bool:
    """Whether an entry takes less than the whole axis as it is."""
    whole = marked("begin", i) and marked("end", i) and steps[i] == 1
    return marked("shrink_axis", i) or not whole


def _ends(
    given: Symbol, entries: Sequence[int], whole: Sequence[bool], steps: Sequence[int], begin: bool
) -> Symbol | np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Beginnings or ends of some entries; those marked stand for all there is."""
    edges = [
        (0 if begin else _END) if steps[i] > 0 else (_END if begin else -_END) for i in entries
    ]
    if given.known is not None and given.known.dtype.kind in "iu":
        values = given.known.reshape(-1)
        found = [e if w else int(values[i]) for i, w, e in zip(entries, whole, edges, strict=True)]
        return np.array(found, np.int64)
    taken = ops.gather(ints(given), np.array(entries, np.int64), axis=0)
    if not any(whole):
        return taken
    return ops.where(np.array(whole), np.array(edges, np.int64), taken)


def _stops(
    begin: Symbol,
    end: Symbol,
    cut: Sequence[tuple[int, int]],
    marked: Callable[[str, int], bool],
    steps: Sequence[int],
) -> Symbol | np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The ends of a slice; an entry that takes one element ends behind it."""
    entries = [i for i, _ in cut]
    single = np.array([marked("shrink_axis", i) for i in entries])
    stops = _ends(end, entries, [marked("end", i) for i in entries], steps, False)
    if not single.any():
        return stops
    first = _ends(begin, entries, [False] * len(entries), steps, True)
    if isinstance(first, np.ndarray) and isinstance(stops, np.ndarray):
        return np.where(single, np.where(first == -1, _END, first + 1), stops)
    first = ops.constant(first) if isinstance(first, np.ndarray) else first
    behind = ops.where(ops.equal(first, _at(-1)), _at(_END), ops.add(first, _at(1)))
    return ops.where(single, behind, stops)


def _gather(step: Step) -> Built:
    """TensorFlow's Gather takes rows by indices of any rank; Myelin's takes multi-indices."""
    if not _of_tensorflow(step):
        return OPERATIONS["Gather"](step)
    table, indices = step.take(2)
    return ops.gather(table, indices, axis=0)


def _gather_v2(step: Step) -> Built:
    table, indices, *rest = step.take(2, 3)
    axis = step.known(2, "axis")[0] if rest else 0
    batch = step.integer("batch_dims", 0) or 0
    if not batch:
        return ops.gather(table, indices, axis=axis)
    if table.rank is None or indices.rank is None:
        step.wrong("the ranks of its inputs are not known")
    axis, batch = axis % table.rank, batch % indices.rank
    if axis != batch:
        step.wrong(f"batch_dims={batch} with axis={axis} is not known; {batch} would be")
    return ops.gather_nd(table, ops.unsqueeze(ints(indices), _at(-1)), batch_dims=batch)


def _split(step: Step) -> Built:
    """TensorFlow has the axis first, Myelin the value."""
    if "num_split" not in step.op.attrs:
        return OPERATIONS["Split"](step)
    _, x = step.take(2)
    count = step.integer("num_split", 1)
    parts = ops.split(x, axis=step.known(0, "axis")[0], num_outputs=count)
    return list(parts) if count != 1 else [x]


def _split_v(step: Step) -> Built:
    x, _, _ = step.take(3)
    axis = step.known(2, "axis")[0]
    wanted = step.known(1, "sizes")
    if -1 in wanted:
        length = (x.shape or ())[axis] if x.shape else None
        if not isinstance(length, int):
            step.wrong("one of its sizes is what is left of an axis of unknown size")
        wanted = [length - sum(w for w in wanted if w != -1) if w == -1 else w for w in wanted]
    return list(ops.split(x, np.array(wanted, np.int64), axis=axis))


def _concat(step: Step) -> Built:
    """TensorFlow's first Concat has the axis before the values, Myelin's has it behind them."""
    first = step.inputs[0] if step.inputs else None
    if _of_tensorflow(step) and first is not None and first.rank == 0 and first.known is not None:
        return ops.concat(step.inputs[1:], axis=step.known(0, "axis")[0])
    return OPERATIONS["Concat"](step)


def _one_hot(step: Step) -> Built:
    if len(step.inputs) != 4:
        return OPERATIONS["OneHot"](step)
    index, depth, on, off = step.inputs
    axis = step.integer("axis", -1)
    values = ops.concat([ops.unsqueeze(v, _at(0)) for v in (off, on)], axis=0)
    return ops.one_hot(index, depth, values, axis=-1 if axis is None else axis)


def _pad(mode: str) -> Build:
    def build(step: Step) -> Built:
        x, pads, *value = step.take(2, 3)
        kind = step.op.attr("mode", mode).lower() if mode == "reflect" else mode
        if kind == "symmetric":
            step.wrong("symmetric borders are not known; reflect and constant ones are")
        if pads.known is not None:
            found = np.array(step.known(1, "paddings"), np.int64)
            return ops.pad(x, np.concatenate([found[0::2], found[1::2]]), *value, mode=kind)
        turned = ops.reshape(ops.transpose(ints(pads), perm=(1, 0)), _at(-1))
        return ops.pad(x, turned, *value, mode=kind)

    return build


def _reverse(step: Step) -> Built:
    x, _ = step.take(2)
    axes = step.known(1, "axes")
    if step.inputs[1].dtype == NumberType.BOOL:
        axes = [i for i, turn in enumerate(axes) if turn]
    if not axes:
        return ops.identity(x)
    ends = np.full(len(axes), -_END)
    return ops.slice(x, np.full(len(axes), -1), ends, np.array(axes), np.full(len(axes), -1))


def _reverse_sequence(step: Step) -> Built:
    x, lengths = step.take(2)
    time, batch = step.integer("seq_dim", 1) or 0, step.integer("batch_dim", 0) or 0
    return ops.reverse_sequence(x, ints(lengths), batch_axis=batch, time_axis=time)


def _where(step: Step) -> Built:
    """The places of what is not zero, a row for each."""
    return ops.transpose(ops.non_zero(step.take(1)[0]), perm=(1, 0))


def _select(step: Step) -> Built:
    """Of three; Myelin's Select of two gives zeros where the condition fails."""
    if len(step.inputs) != 3:
        return ELEMENTWISE["Select"](*step.take(2))
    condition, x, y = step.inputs
    if step.op.type == "Select" and condition.rank == 1 and x.rank is not None and x.rank > 1:
        condition = ops.unsqueeze(condition, np.arange(1, x.rank))
    return ops.where(condition, x, y)


def _filled(value: int) -> Build:
    def build(step: Step) -> Built:
        (x,) = step.take(1)
        return ops.expand(ops.constant(value, str(x.dtype)), ops.shape(x))

    return build


def _broadcast(step: Step) -> Built:
    x, shape = step.take(2)
    return ops.expand(x, ints(shape))


def _top_k(step: Step) -> Built:
    x, *rest = step.take(1, 2)
    k = ops.reshape(ints(rest[0]), _at(1)) if rest else _at(step.integer("k", 1) or 1)
    values, places = ops.top_k(x, k, axis=-1, largest=1, sorted=1)
    return values, ops.cast(places, to="int32")


def _cumulated(how: Callable[..., Symbol]) -> Build:
    def build(step: Step) -> Built:
        x, axis = step.take(2)
        exclusive, backwards = (int(step.op.flag_attr(n)) for n in ("exclusive", "reverse"))
        return how(x, axis, exclusive=exclusive, reverse=backwards)

    return build


def _shape(step: Step) -> Built:
    wanted = step.op.attr("out_type", "int32")
    made = [ops.shape(x) for x in step.inputs]
    return made if wanted == "int64" else [ops.cast(s, to="int32") for s in made]


def _scatter_nd(step: Step) -> Built:
    indices, updates, shape = step.take(3)
    zeros = ops.expand(ops.constant(0, str(updates.dtype)), ints(shape))
    return ops.scatter_nd(zeros, ints(indices), updates, reduction="add")


def _updated(reduction: str) -> Build:
    def build(step: Step) -> Built:
        x, indices, updates = step.take(3)
        return ops.scatter_nd(x, ints(indices), updates, reduction=reduction)

    return build


def _band(step: Step) -> Built:
    """What lies around the diagonal; a negative number of diagonals is all of them."""
    x, _, _ = step.take(3)
    lower, upper = step.known(1, "lower diagonals")[0], step.known(2, "upper diagonals")[0]
    made = x if upper < 0 else ops.trilu(x, np.array(upper), upper=0)
    return made if lower < 0 else ops.trilu(made, np.array(-lower), upper=1)


ARRAYS: dict[str, Build] = {
    "StridedSlice": _strided_slice,
    "Gather": _gather,
    "GatherV2": _gather_v2,
    "Split": _split,
    "SplitV": _split_v,
    "Concat": _concat,
    "OneHot": _one_hot,
    "Pad": _pad("constant"),
    "PadV2": _pad("constant"),
    "MirrorPad": _pad("reflect"),
    "ReverseV2": _reverse,
    "Reverse": _reverse,
    "ReverseSequence": _reverse_sequence,
    "Where": _where,
    "Select": _select,
    "SelectV2": _select,
    "ZerosLike": _filled(0),
    "OnesLike": _filled(1),
    "BroadcastTo": _broadcast,
    "TopKV2": _top_k,
    "Cumsum": _cumulated(ops.cum_sum),
    "Cumprod": _cumulated(ops.cum_prod),
    "Shape": _shape,
    "ShapeN": _shape,
    "ScatterNd": _scatter_nd,
    "TensorScatterUpdate": _updated("none"),
    "TensorScatterAdd": _updated("add"),
    "MatrixBandPart": _band,
}
"""Operations on arrays by their type."""

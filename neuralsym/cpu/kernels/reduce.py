"""Reductions over any axes, of row-major tensors and over the pixels of blocked ones; ArgMax,
ArgMin, CumSum and CumProd along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.geometry import blockable, channels
from neuralsym.cpu.kernels.movement import settled
from neuralsym.cpu.library import ROWS, Form, Kernel, Library, Take
from neuralsym.cpu.program import Operand, Role, Row, Sizes, Step, Word
from neuralsym.cpu.templates import scan
from neuralsym.cpu.templates.lanes import COMPUTED
from neuralsym.cpu.templates.reduce import How, ReduceText, reduce_text
from neuralsym.errors import ShapeMismatch

OPERATORS: dict[str, How] = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceProd": "prod",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceSumSquare": "sum_square",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
}
GROUPS = 3
"""Runs of kept and of reduced axes that the kernel has loops for."""


class Reduce(Kernel):
    """One value for each place of the axes that are kept (templates/reduce.py)."""

    def supports(self, step: Step) -> bool | str:
        x = step.inputs[0]
        assert x is not None
        if x.dtype not in COMPUTED:
            return f"no compiled loops over {x.dtype}"
        flags = _flags(step, x.rank, _told_axes(step))
        if flags is None:
            flags = [i % 2 == 0 for i in range(x.rank)]  # the worst that the run may bring
        groups = [flag for i, flag in enumerate(flags) if not i or flag != flags[i - 1]]
        if max(groups.count(True), groups.count(False)) > GROUPS:
            return f"kept and reduced axes alternate more than {GROUPS} times"
        return True

    def needs(self, step: Step) -> Sequence[int]:
        return [0]

    def settings(self, step: Step) -> Sequence[int]:
        return [1]

    def forms(self, step: Step) -> Sequence[Form]:
        plain = super().forms(step)
        x = step.inputs[0]
        assert x is not None
        width = self.target.width("float32")
        if blockable([x]) is not True or width == 1:
            return plain
        count = channels(x)
        if not isinstance(count, int) or count % width:
            return plain  # the lanes beyond the last channel are no outputs
        flags = _flags(step, x.rank, _told_axes(step))
        if flags != [False, False, *[True] * (x.rank - 2)]:
            return plain
        rest = (ROWS,) * (len(step.inputs) - 1)
        return [*plain, Form((Take(width), *rest), (ROWS,))]

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        flags = _flags(step, x.rank, settled(step, 1, sizes) or [])
        assert flags is not None
        dims, strides = sizes.memory_shape(x), sizes.strides(x)
        if x.layout.block:
            dims = (*dims[:2], *sizes.shape(x)[2:], dims[-1])
            flags = [*flags, False]
        words = reduce_words(dims, strides, flags)
        source = Operand(x, sizes.origin(x) if x.layout.halo else 0)
        text = ReduceText(
            OPERATORS[step.op.__name__], x.dtype, self.target.vector_bytes, self.target.fma
        )
        return [Row(reduce_code(text), [Operand(y), source, *words])]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        x = step.inputs[0]
        assert x is not None
        return prod(sizes.shape(x))


def _flags(step: Step, rank: int, axes: list[int] | None) -> list[bool] | None:
    """Of each axis, whether it is reduced; None where the axes are not known yet."""
    if axes is None:
        return None
    if not axes:
        return [not step.attr("noop_with_empty_axes")] * rank
    return [i in {a % rank for a in axes} for i in range(rank)]


def _told_axes(step: Step) -> list[int] | None:
    """The axes, where they are known for all runs."""
    buffer = step.input(1)
    if buffer is None:
        return []
    value = buffer.value if buffer.role is Role.CONSTANT else buffer.known
    if value is None or value.dtype == object:
        return None
    return [int(a) for a in value.reshape(-1).tolist()]


def reduce_words(dims: Sequence[int], strides: Sequence[int], flags: Sequence[bool]) -> list[Word]:
    """The descriptor behind the addresses: columns?, terms, kept axes, reduced axes."""
    axes: list[tuple[int, int, bool]] = []
    for size, stride, flag in zip(dims, strides, flags, strict=True):
        if size == 1:
            continue
        if axes and axes[-1][2] is flag and axes[-1][1] == stride * size:
            axes[-1] = (axes[-1][0] * size, stride, flag)
        else:
            axes.append((size, stride, flag))
    words: list[Word] = [
        int(bool(axes) and not axes[-1][2]),
        prod(d for d, flag in zip(dims, flags, strict=True) if flag),
    ]
    for wanted in (False, True):
        some = [(size, stride) for size, stride, flag in axes if flag is wanted]
        some = [(1, 0)] * (GROUPS - len(some)) + some
        words += [size for size, _ in some] + [stride for _, stride in some]
    return words


@cache
def reduce_code(text: ReduceText) -> Code:
    """The kernel of one reduction over one type."""
    return Code(f"{text.how} of {text.kind}", "reduce", reduce_text(text, "reduce"))


class Scan(Kernel):
    """A walk along one axis (templates/scan.py)."""

    def supports(self, step: Step) -> bool | str:
        x = step.inputs[0]
        assert x is not None
        return x.dtype in COMPUTED or f"no compiled loops over {x.dtype}"

    def words(self, step: Step, sizes: Sizes, axis: int) -> list[Word]:
        """The descriptor's addresses and sizes."""
        x = step.inputs[0]
        assert x is not None
        shape = sizes.shape(x)
        axis %= len(shape)
        parts = (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
        return [Operand(step.outputs[0]), Operand(x), *parts]

    def text(self, step: Step, how: scan.How, last: bool = False) -> scan.ScanText:
        x = step.inputs[0]
        assert x is not None
        return scan.ScanText(how, x.dtype, self.target.vector_bytes, last, self.target.fma)

    def complexity(self, step: Step, sizes: Sizes) -> int:
        x = step.inputs[0]
        assert x is not None
        return prod(sizes.shape(x))


class Arg(Scan):
    """The place of the largest or smallest element along an axis."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        if 0 in sizes.shape(step.outputs[0]):
            return []
        x = step.inputs[0]
        assert x is not None
        if 0 in sizes.shape(x):
            raise ShapeMismatch(
                f"{step.describe()}: {x.name} is {list(sizes.shape(x))} here: an empty axis has no "
                "such element"
            )
        how: scan.How = "arg_max" if step.op.__name__ == "ArgMax" else "arg_min"
        text = self.text(step, how, bool(step.attr("select_last_index")))
        return [Row(scan_code(text), self.words(step, sizes, step.attr("axis")))]


class Running(Scan):
    """Running sums or products along an axis."""

    def needs(self, step: Step) -> Sequence[int]:
        return [0]

    def settings(self, step: Step) -> Sequence[int]:
        return [1]

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        if 0 in sizes.shape(step.outputs[0]):
            return []
        (axis,) = settled(step, 1, sizes) or [0]
        words = self.words(step, sizes, int(axis))
        flags = [int(bool(step.attr(name))) for name in ("exclusive", "reverse")]
        text = self.text(step, "sum" if step.op.__name__ == "CumSum" else "prod")
        return [Row(scan_code(text), [*words, *flags])]


@cache
def scan_code(text: scan.ScanText) -> Code:
    """The kernel of one walk over one type."""
    return Code(f"{text.how} of {text.kind}", "scan", scan.scan_text(text, "scan"))


def register(library: Library) -> None:
    """Register the kernels of this module."""
    for op in OPERATORS:
        library.kernel(op, name="reduce")(Reduce)
    for op in ("ArgMax", "ArgMin"):
        library.kernel(op, name="arg")(Arg)
    for op in ("CumSum", "CumProd"):
        library.kernel(op, name="running")(Running)

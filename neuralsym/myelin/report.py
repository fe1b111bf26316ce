"""Myelin's table of where the time of a cell goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from neuralsym.cpu.profile import operations_of
from neuralsym.summary import table

if TYPE_CHECKING:
    from neuralsym.myelin.network import Cell, Instance


def report(cell: Cell, instances: Sequence[Instance]) -> str:
    """The table of a cell's steps over all its instances."""
    runs = sum(i.invocations for i in instances)
    if not runs:
        return f"Profile of {cell.name}: it has not computed"
    spent: dict[str, tuple[int, str]] = {}
    for instance in instances:
        for row in instance.profile():
            total = spent.get(row.step, (0, ""))[0] + row.nanoseconds
            spent[row.step] = total, row.kernel or row.op
    sizes = next(i for i in instances if i.invocations).sizes
    work = {s.name: operations_of(s, sizes) for s in cell.compiled.program.steps}
    total = sum(time for time, _ in spent.values()) or 1
    rows, before = [], 0
    for step, (time, kernel) in spent.items():
        before += time
        speed = work.get(step, 0) * runs / time if time else 0.0
        rows.append(
            (
                f"{100 * time / total:.2f}%",
                f"{100 * before / total:.2f}%",
                f"{time / runs / 1e3:.3f} μs",
                f"{speed:.3f}",
                kernel,
                step,
            )
        )
    whole = sum(work.get(step, 0) for step in spent)
    last = ("100.00%", "100.00%", f"{total / runs / 1e3:.3f} μs", f"{whole * runs / total:.3f}")
    rows.append((*last, "TOTAL", ""))
    target = cell.compiled.target
    head = [
        f"Profile for {runs} invocations of {cell.name} with {whole} operations",
        f"CPU: {target.cpu}, vectors of {8 * target.vector_bytes} bits, "
        f"{cell.compiled.workers} workers",
    ]
    names = ("percent", "accum%", "time", "gflops", "kernel", "step")
    return "\n".join((*head, *table(names, rows, right=range(4))))

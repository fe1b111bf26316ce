"""Compiling a graph: passes, lowering, code, in order; each stage can be seen as text.

`NEURALSYM_DUMP=passes,program,plan,kernels` writes those stages to the standard error stream, or to
files in the directory that `NEURALSYM_DUMP_DIR` names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from neuralsym.core.custom import with_typers
from neuralsym.core.graph import Graph
from neuralsym.cpu.defer import defer
from neuralsym.cpu.dump import describe_plan, describe_program
from neuralsym.cpu.library import Library
from neuralsym.cpu.lower import Lowering, has_kernel, lower
from neuralsym.cpu.machine import Target
from neuralsym.cpu.options import Options
from neuralsym.cpu.pinned import pinning, unpin
from neuralsym.cpu.runtime import Cell
from neuralsym.cpu.store import Store

if TYPE_CHECKING:
    from neuralsym.rewrite.driver import Trace

LEVEL = 2
"""The optimisation level of the passes."""


def compile_graph(
    graph: Graph,
    options: Options | None = None,
    library: Library | None = None,
    progress: Callable[[int, int, str], object] | None = None,
    *,
    inner: bool = False,
    draft: bool = False,
) -> Cell:
    """The graph as a cell, ready to make instances.

    progress: called as kernels become ready with how many, out of how many, and the name.
    inner: the graph is the body of a control-flow step, which one worker runs. draft: kernels of a
    large network may be drafts at first, which `Cell.improve` replaces.
    Raises NoKernel when nothing can run a node, BadAttribute for options the machine lacks.
    """
    from neuralsym.rewrite.driver import Trace

    options = options or Options()
    library = library or Library.default()
    target = Target.of(options.isa)
    lowering = Lowering(
        library,
        target,
        options,
        lambda body: compile_graph(body, options, library, progress, inner=True),
    )
    trace = Trace()
    graph = run_passes(graph, lowering, trace)
    _dump("passes", graph.name, lambda: str(graph))
    program = lower(graph, lowering)
    _dump("program", graph.name, lambda: describe_program(program))
    store = Store.of(options.cache_dir)
    draft = draft and not options.profile
    cell = Cell(program, target, store, options, progress, team=not inner, draft=draft)
    cell.rewrites = trace.summary()
    cell.prepare()
    _dump("plan", graph.name, lambda: "\n".join(map(describe_plan, cell.plans())))
    _dump("kernels", graph.name, lambda: "\n".join(code.ir() for code in cell.codes()))
    return cell


def run_passes(graph: Graph, lowering: Lowering, trace: Trace | None = None) -> Graph:
    """Parts that wait for ranks, expansions of nodes without kernels, and the standard passes.

    Operators for which the library has kernels beside neuralsym's own are not fused.

    `trace`, where given, is told what each rule and pass did. With Options.debug the graph is
    verified after each of the standard passes.
    """
    from neuralsym.passes.decompose import decompose
    from neuralsym.passes.pipeline import optimise

    graph = defer(graph)
    graph = with_typers(graph, lowering.library.find_typer)
    graph = decompose(graph, lambda node: not has_kernel(node, lowering))
    transformers = list(lowering.library.transformers())
    own = lowering.library.own_operators()
    if own:
        transformers.append((pinning(own), ""))  # after those of the user's, which see them
    debug = lowering.options.debug
    graph = optimise(graph, LEVEL, trace, transformers=transformers, check=debug)
    if own:
        graph = unpin(graph)
    return defer(graph)  # a known branch that was inlined may wait for ranks too


def explain(cell: Cell) -> str:
    """What the passes did, then which kernel each step got, and why others refused."""
    lines: list[str] = []
    if cell.rewrites:
        done = ", ".join(f"{name} {count}" for name, count in cell.rewrites.items())
        lines.append(f"passes: {done}")
    for step in cell.program.steps:
        kernel = step.kernel.name if step.kernel else "none"
        shapes = ", ".join(str(b.type) for b in step.outputs)
        lines.append(f"{step.name}: {step.op.__name__} -> {shapes}  by {kernel}")
        lines += [f"    not {name}: {reason}" for name, reason in step.refusals]
    return "\n".join(lines)


def _dump(stage: str, name: str, text: Callable[[], str]) -> None:
    """Write a stage if NEURALSYM_DUMP asks for it."""
    if stage not in os.environ.get("NEURALSYM_DUMP", "").split(","):
        return
    directory = os.environ.get("NEURALSYM_DUMP_DIR")
    if directory:
        safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
        path = Path(directory) / f"{safe}.{stage}.txt"
        path.write_text(text() + "\n", encoding="utf-8")
    else:
        print(f"--- {stage} of {name}\n{text()}", file=sys.stderr)

"""From a graph to a program: a buffer for each value, a step for each node, a kernel for each step.

The ladder: a kernel of the library (the last registered first), the loop over the elements that an
operator's `scalar` states, a host step. What only a host step would take has been written with
other operators before, where it can be (passes/decompose.py). Layouts are settled in cpu/layout.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neuralsym.core.custom import Custom
from neuralsym.core.dim import Dim
from neuralsym.core.graph import Graph, rebuild
from neuralsym.core.leaves import Variable, is_stored, stored
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import TensorType, Type, is_numeric
from neuralsym.cpu.agreement import relies_on_sizes
from neuralsym.cpu.defer import Deferred
from neuralsym.cpu.feeds import dimension_names, shown_names
from neuralsym.cpu.layout import assign_layouts
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.machine import Target
from neuralsym.cpu.options import Options
from neuralsym.cpu.program import Buffer, Program, Role, Segment, Step, is_plain_name, owner
from neuralsym.errors import NoKernel, OpError, at_line


@dataclass
class Lowering:
    """What lowering needs besides the graph; kernels are made once for each program."""

    library: Library
    target: Target
    options: Options
    compile_body: Callable[[Graph], Any]
    """Compiles the body of a control-flow operator to a cell."""
    made: dict[type[Kernel], Kernel] = field(default_factory=dict)

    def kernel(self, kind: type[Kernel]) -> Kernel:
        found = self.made.get(kind)
        if found is None:
            found = self.made[kind] = kind(self.target, self.options)
        return found


def lower(graph: Graph, lowering: Lowering) -> Program:
    """The program of a graph: buffers, steps, kernels, layouts, segments."""
    typed = name_unknown_sizes(graph)
    buffers: dict[Symbol, Buffer] = {}
    steps: list[Step] = []
    given = input_names(graph, typed)
    bound = set(given)
    last = set(graph.outputs) | set(graph.updates.values())
    for node in graph.nodes:
        for symbol in node.outputs:
            name, told = graph.value_name(symbol), typed.get(symbol, symbol)
            buffers[symbol] = _buffer(name, symbol, told, symbol in last, given)
        if node.op is Variable or is_stored(node.outputs[0]):
            continue
        if all(buffers[s].known is not None for s in node.outputs):
            continue  # the plan writes what sizes alone tell
        new = typed.get(node.outputs[0], node.outputs[0]).node
        step = _step(graph.names[node], node, new, buffers)
        step.relies_on_sizes = relies_on_sizes(new)
        select(step, lowering, defines(step, bound))
        steps.append(step)
    program = Program(
        graph.name,
        [Segment(steps)],
        {n: buffers[s] for n, s in zip(graph.input_names, graph.inputs, strict=True)},
        {n: buffers[s] for n, s in zip(graph.output_names, graph.outputs, strict=True)},
        {graph.names[k.node]: buffers[v] for k, v in graph.updates.items()},
        _shown_dims(graph, typed),
    )
    results = {*program.outputs.values(), *program.updates.values()}
    steps = without_dead(steps, results, given)
    steps = assign_layouts(steps, results, lowering)
    for step in steps:
        kernel = step.kernel
        assert kernel is not None
        _compile_bodies(step, lowering)
        kernel.adjust(step)
    program.segments = split(steps, set(given), program.inputs.values())
    for number, step in enumerate(program.steps):
        step.number = number
    return program


# -- buffers and steps -------------------------------------------------------------------------
def _buffer(name: str, symbol: Symbol, typed: Symbol, last: bool, given: set[str]) -> Buffer:
    type_ = typed.type
    host = not is_numeric(type_)
    if symbol.node.op is Variable:
        init = symbol.node.attrs.get("init")
        return Buffer(name, type_, Role.HOST if host else Role.INPUT, constant=init)
    if is_stored(symbol):
        role = Role.HOST if host else Role.CONSTANT
        return Buffer(name, type_, role, constant=stored(symbol))
    if host:
        return Buffer(name, type_, Role.HOST)
    known = typed.known
    if known is not None and not _sizes_only(known, given):
        known = None
    return Buffer(name, type_, Role.OUTPUT if last else Role.LOCAL, known=known)


def _sizes_only(known: Any, given: set[str]) -> bool:
    """Whether a known value is whole numbers and sizes that the inputs tell."""
    if known.dtype != object:
        return bool(known.dtype.kind in "iu")
    return all(
        d.names <= given if isinstance(d, Dim) else isinstance(d, (int, np.integer))
        for d in known.reshape(-1).tolist()
    )


def _step(name: str, node: Node, typed: Node, buffers: dict[Symbol, Buffer]) -> Step:
    return Step(
        node.op,
        typed.attrs,
        name,
        tuple(None if s is None else buffers[s] for s in node.inputs),
        tuple(buffers[s] for s in node.outputs),
        node.where,
        tuple(buffers[s] for s in node.captures),
        typed,
    )


# -- sizes that depend on data -----------------------------------------------------------------
def input_names(graph: Graph, typed: dict[Symbol, Symbol]) -> set[str]:
    """The names of dimensions that the inputs' shapes tell."""
    found: set[str] = set()
    for symbol in graph.inputs:
        type_ = typed.get(symbol, symbol).type
        if is_numeric(type_):
            for d in type_.shape or ():
                if isinstance(d, Dim):
                    found |= d.names
    return found


def name_unknown_sizes(graph: Graph) -> dict[Symbol, Symbol]:
    """Symbols with a name in the place of each size that depends on data, for those that change.

    A run binds such a name when the step that makes the value has run; everything behind it is
    then planned like any other symbolic shape.
    """
    new: dict[Symbol, Symbol] = {}
    given = [s.tensor.shape for s in graph.inputs if is_numeric(s.type)]
    bound = shown_names(shape for shape in given if shape is not None)
    for node in graph.nodes:
        inputs = tuple(None if s is None else new.get(s, s) for s in node.inputs)
        made = node
        if inputs != node.inputs:
            try:
                made = rebuild(node, inputs)
            except OpError:
                made = node  # its declared type stands; the run checks what comes
        name = graph.names[node]
        fed = made.op is Variable
        types = tuple(_named(s.type, f"{name}:{s.index}", bound, fed) for s in made.outputs)
        if any(a is not b.type for a, b in zip(types, made.outputs, strict=True)):
            known = tuple(s.known for s in made.outputs)
            made = Node(made.op, inputs, made.attrs, types, known=known, where=node.where)
        if made is not node:
            new.update(zip(node.outputs, made.outputs, strict=True))
        for symbol in made.outputs:
            if is_numeric(symbol.type):
                bound |= {
                    n for d in symbol.tensor.shape or () if isinstance(d, Dim) for n in d.names
                }
    return new


def _named(type_: Type, where: str, bound: set[str], fed: bool) -> Type:
    """The type with names for sizes that nothing tells before; inputs share those of one form."""
    if not isinstance(type_, TensorType) or type_.shape is None:
        return type_
    shape = tuple(
        Dim.name(f"?{d}" if fed and d is not None else f"?{where}.{i}")
        if d is None or (isinstance(d, Dim) and not d.names <= bound and not is_plain_name(d))
        else d
        for i, d in enumerate(type_.shape)
    )
    return type_ if shape == type_.shape else TensorType(type_.dtype, shape)


def defines(step: Step, bound: set[str]) -> list[Buffer]:
    """The outputs whose shapes only the running step tells; their names become bound."""
    found = []
    for buffer in step.outputs:
        if buffer.role is Role.HOST:
            continue
        names = dimension_names(buffer)
        if buffer.tensor.shape is None or not names <= bound:
            found.append(buffer)
            bound |= names
    return found


def split(steps: Iterable[Step], bound: set[str], inputs: Iterable[Buffer]) -> list[Segment]:
    """The segments: each ends behind a host step that defines shapes, or before a step with
    settings that were not computed when the segment began."""
    from neuralsym.cpu.kernels.host import HostKernel

    segments = [Segment()]
    ready: set[Buffer] = set()  # what was computed before the segment
    written = set(inputs)
    for step in steps:
        late = step.late
        if not all(owner(b) in ready for b in late):
            segments.append(Segment())
            ready |= written
        segment = segments[-1]
        segment.steps.append(step)
        written.update(owner(b) for b in step.outputs)
        found = defines(step, bound)
        if late:
            segment.late.append(step)
            segment.reads += [b for b in late if b not in segment.reads]
        elif found:
            assert isinstance(step.kernel, HostKernel)
            segment.defines = found
            segments.append(Segment())
            ready |= written
    return segments


def _shown_dims(graph: Graph, typed: dict[Symbol, Symbol]) -> dict[str, list[tuple[str, int]]]:
    shown: dict[str, list[tuple[str, int]]] = {}
    for name, symbol in zip(graph.input_names, graph.inputs, strict=True):
        type_ = typed.get(symbol, symbol).type
        if is_numeric(type_):
            for axis, d in enumerate(type_.shape or ()):
                if is_plain_name(d):
                    shown.setdefault(str(d), []).append((name, axis))
    return shown


# -- kernels -----------------------------------------------------------------------------------
def has_kernel(node: Node, lowering: Lowering) -> bool:
    """Whether a kernel of the library or the loop over elements would take the node."""
    expression = getattr(node.op, "expression", None)
    if expression is not None and expression(node) is not None:
        return True
    kinds = list(lowering.library.kernels(node.op.__name__, node.op.domain))
    if not kinds:
        return False
    symbols = (*(s for s in node.inputs if s is not None), *node.captures, *node.outputs)
    buffers = {s: _buffer("", s, s, False, set()) for s in symbols}
    step = _step("", node, node, buffers)
    return any(lowering.kernel(kind).supports(step) is True for kind in kinds)


def select(step: Step, lowering: Lowering, depends_on_data: Sequence[Buffer] = ()) -> None:
    """Give the step its kernel, and note why others refused. NoKernel if nothing runs it."""
    from neuralsym.cpu.kernels.elementwise import ElementwiseKernel
    from neuralsym.cpu.kernels.host import HostKernel, LastResort

    op = step.op
    candidates: list[type[Kernel]] = [
        *lowering.library.kernels(op.__name__, op.domain),
        ElementwiseKernel,
        LastResort,
    ]
    blocked = _only_on_host(step)
    for kind in candidates:
        kernel = lowering.kernel(kind)
        refusal = "" if issubclass(kind, HostKernel) else blocked
        if not refusal:
            answer = kernel.supports(step)
            refusal = "" if answer is True else str(answer)
        if not refusal and depends_on_data and not issubclass(kind, HostKernel):
            refusal = _cannot_tell(step, kernel, depends_on_data)
        if not refusal:
            step.kernel = kernel
            return
        step.refusals.append((kind.name, refusal))
    reasons = "".join(f"\n  {name}: {reason}" for name, reason in step.refusals)
    raise NoKernel(f"nothing can run {step.describe()}{reasons}{at_line(step.where)}")


def _cannot_tell(step: Step, kernel: Kernel, depends_on_data: Sequence[Buffer]) -> str:
    """Why the settings of the kernel would not tell the shapes that depend on data, if so."""
    given = (step.input(i) for i in kernel.settings(step))
    if any(b is not None and not b.is_settled for b in given):
        return ""
    return f"the shape of {depends_on_data[0].name} depends on data"


def _only_on_host(step: Step) -> str:
    """Why no compiled kernel can run the step, if so."""
    for buffer in (*step.operands, *step.outputs):
        if buffer.role is Role.HOST:
            return f"{buffer.name} is a {buffer.type}, which only host steps handle"
        if buffer.tensor.shape is None:
            return f"the rank of {buffer.name} is not known{_typer_hint(step)}"
    return ""


def _typer_hint(step: Step) -> str:
    """How to tell what an operator of a file's own domain gives."""
    op = step.op
    if not issubclass(op, Custom):
        return ""
    return (
        f"; tell it by library.typer({op.__name__!r}, ..., domain={op.domain!r}) before load(), "
        "or in the file's value_info"
    )


def without_dead(steps: list[Step], results: set[Buffer], given: set[str]) -> list[Step]:
    """The steps that the results need, seeing only those inputs that kernels really read.

    A step is also needed for the sizes that it tells.
    """
    telling: dict[str, Buffer] = {}
    bound = set(given)
    for step in steps:
        for buffer in defines(step, bound):
            for name in dimension_names(buffer):
                telling.setdefault(name, buffer)
    wanted: set[Buffer] = set()

    def want(buffer: Buffer) -> None:
        wanted.add(buffer)
        wanted.update(telling[n] for n in dimension_names(buffer) if n in telling)

    for buffer in results:
        want(buffer)
    kept: list[Step] = []
    for step in reversed(steps):
        if not any(b in wanted for b in step.outputs):
            continue
        kept.append(step)
        assert step.kernel is not None
        settings = set(step.kernel.settings(step))
        needed = settings.union(step.kernel.needs(step))
        for buffer in step.captures + step.outputs:
            want(buffer)
        inputs: list[Buffer | None] = []
        for i, given_buffer in enumerate(step.inputs):
            ready = given_buffer is not None and given_buffer.is_settled
            inputs.append(given_buffer if ready or i in needed else None)
            if given_buffer is not None and i in needed and not (ready and i in settings):
                want(given_buffer)
        step.inputs = tuple(inputs)
    return kept[::-1]


def _compile_bodies(step: Step, lowering: Lowering) -> None:
    if step.op is Deferred:
        step.notes["compile"] = lowering.compile_body
        return
    for name, value in step.attrs.items():
        if isinstance(value, Graph):
            step.notes[name] = lowering.compile_body(value)

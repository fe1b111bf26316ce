"""Programs and plans as text, for people and for golden tests."""

from __future__ import annotations

from neuralsym.core.graph import Graph
from neuralsym.core.tensor import Tensor
from neuralsym.cpu.plan import Plan
from neuralsym.cpu.program import Buffer, Program, owner


def describe_program(program: Program) -> str:
    """A line for each step: outputs, operator, kernel, inputs, and layouts where not plain."""
    lines = [f"program {program.name}"]
    lines += [f"  input {_buffer(b)}" for b in program.inputs.values()]
    for number, segment in enumerate(program.segments):
        if len(program.segments) > 1:
            lines.append(f"segment {number}")
        for step in segment.steps:
            outputs = ", ".join(map(_buffer, step.outputs))
            inputs = ", ".join("-" if b is None else b.name for b in step.inputs)
            attrs = "".join(
                f" {k}={v}"
                for k, v in step.attrs.items()
                if not isinstance(v, (Graph, Tensor)) and len(str(v)) < 80
            )
            kernel = step.kernel.name if step.kernel else "none"
            lines.append(f"  {outputs} = {step.op.__name__}({inputs}){attrs} by {kernel}")
    lines += [f"  output {name}: {b.name}" for name, b in program.outputs.items()]
    lines += [f"  update {name}: {b.name}" for name, b in program.updates.items()]
    return "\n".join(lines)


def describe_plan(plan: Plan) -> str:
    """The sizes, the places of buffers in the block, and the rows."""
    sizes = ", ".join(f"{n}={v}" for n, v in plan.sizes.key)
    lines = [f"plan for {sizes or 'fixed sizes'}: {plan.nbytes} bytes, {len(plan.rows)} rows"]
    for buffer, offset in sorted(plan.places.items(), key=lambda item: (item[1], item[0].name)):
        lines.append(f"  {offset:>10} {buffer.name}")
    for row, step in zip(plan.rows.tolist(), plan.row_steps, strict=True):
        kernel = step.kernel.name if step.kernel else "none"
        flags = " serial" if row[2] else ""
        lines.append(f"  row {step.name} by {kernel}{flags}")
    return "\n".join(lines)


def _buffer(buffer: Buffer) -> str:
    text = f"{buffer.name}: {buffer.type}"
    if buffer.layout.block:
        text += f" blocks of {buffer.layout.block}"
    if buffer.layout.halo:
        text += f" halo {buffer.layout.halo}"
    if owner(buffer) is not buffer:
        text += f" in {owner(buffer).name}"
    return text

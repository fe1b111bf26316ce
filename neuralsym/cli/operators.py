"""`neuralsym doctor --ops`: every operator, the versions that are read, and how it runs.

How it runs is asked of the code: what the library holds, what the operator's class says of itself.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import neuralsym.ops
from neuralsym.cli.output import check_place
from neuralsym.cli.suite import RANDOM, Count, Key, Tally
from neuralsym.cli.suite import count as count_cases
from neuralsym.core.leaves import Constant, variable
from neuralsym.core.op import OPS, Call, Op
from neuralsym.core.schema import VERSIONS
from neuralsym.cpu.kernels import standard_library
from neuralsym.cpu.kernels.host import ArrayStep, HostKernel
from neuralsym.engines.onnx.opsets import history
from neuralsym.engines.onnx.order import GRADIENT
from neuralsym.errors import BadAttribute, OpError, did_you_mean
from neuralsym.ops.base import Elementwise
from neuralsym.ops.contrib.declare import DOMAIN
from neuralsym.ops.expanded import has_usable_body
from neuralsym.summary import table

PAGE = Path(neuralsym.ops.__file__).resolve().parent.parent.parent / "docs" / "operators.md"
"""Where a checkout keeps the table; an installed package has none."""
HEAD = ("operator", "versions", "how it runs", "passed", "on the host")
TITLES = {"": "ai.onnx"}

INTRODUCTION = """\
# Operators

Made by `neuralsym doctor --ops --cases --write docs/operators.md`, from the code and a run of
onnx's backend suite; not to be edited.

* **versions**: those that can be read. Older ones are raised to the newest when a file is read,
  with their old meaning.
* **how it runs**, in the order of trying; what one way refuses (a rare type, a setting) goes to the
  next, at last to the host.
  **kernel** (its names): compiled for the operator.
  **loop**: compiled from the operator's own expression for one element, fused with its neighbours.
  **compiled loops**: the size of the result depends on the data, so Python allocates between
  compiled loops that count and fill.
  **expansion**: written with other operators. **function body**: ONNX's own definition by others.
  **sizes**: a value that follows from shapes alone, written when planning.
  **control**: the bodies are compiled, Python counts the turns.
  **host**: a step in Python, by numpy or onnx's reference evaluator.
* **passed**: cases of onnx's suite whose file holds the operator, and how many of them pass.
  **on the host**: in how many of them it ran as a host step.
"""


@dataclass(frozen=True)
class Row:
    """An operator as the code has it; `ways` in the order of trying."""

    domain: str
    name: str
    versions: tuple[int, ...]
    ways: tuple[str, ...]

    @property
    def key(self) -> Key:
        return self.domain, self.name

    def cells(self, tally: Tally | None, counted: bool = True) -> tuple[str, ...]:
        """The columns of the table as text."""
        passed = f"{tally.passed} of {tally.cases}" if tally else "none has it" if counted else ""
        host = str(tally.host) if tally and tally.host else ""
        return self.name, ", ".join(map(str, self.versions)), "; ".join(self.ways), passed, host


# -- what the code says ------------------------------------------------------------------------
def rows() -> list[Row]:
    """All operators, also those that only old files have, by domain and name."""
    order = list(VERSIONS)
    keys = {key for key in OPS if key[0] in (*VERSIONS, DOMAIN)} | history().keys()
    ordered = sorted(
        keys, key=lambda key: (order.index(key[0]) if key[0] in order else len(order), key[1])
    )
    return [Row(*key, versions(*key), ways(*key)) for key in ordered]


def versions(domain: str, name: str) -> tuple[int, ...]:
    """The versions of an operator that are read: all that there are."""
    found = history().get((domain, name))
    if found is None:
        return (OPS[domain, name].schema.since,)
    return tuple(schema.since_version for schema in found)


def ways(domain: str, name: str) -> tuple[str, ...]:
    """How an operator runs, in the order of trying."""
    op = OPS.get((domain, name))
    if op is None or (domain, name) == GRADIENT:
        return ("read as other operators",)
    if op is Constant:
        return ("constant",)
    kinds = list(standard_library().kernels(name, domain))
    compiled = dict.fromkeys(k.name for k in kinds if not issubclass(k, HostKernel))
    found = [f"kernel ({', '.join(compiled)})"] if compiled else []
    if has_expression(op):
        found.append("loop")
    if any(issubclass(k, ArrayStep) for k in kinds):
        found.append("compiled loops")
    stepped = (k for k in kinds if issubclass(k, HostKernel) and not issubclass(k, ArrayStep))
    found += dict.fromkeys(k.name for k in stepped)
    if op.expansion.__func__ is not Op.expansion.__func__:  # type: ignore[attr-defined]
        found.append("expansion")
    elif has_usable_body(op):
        found.append("function body")
    planned = ("sizes",) if is_made_of_sizes(op) else ()
    return (*planned, *(found or ["host"]))


def has_expression(op: type[Op]) -> bool:
    """Whether the operator states what one element is, from which a loop is made."""
    if not issubclass(op, Elementwise):
        return False
    own = op.expression.__func__ is not Elementwise.expression.__func__  # type: ignore[attr-defined]
    return own or op.scalar is not None


def is_made_of_sizes(op: type[Op]) -> bool:
    """Whether a shape alone tells the operator's value."""
    schema = op.schema
    if (schema.minimum_inputs, schema.maximum_inputs) != (1, 1):
        return False
    if any(spec.required for spec in schema.attributes.values()):
        return False
    try:
        values = op.fold(Call(op, (variable("x", (2, 3)),), {}, 1))
    except OpError:
        return False
    return values is not None and values[0] is not None


# -- the table -----------------------------------------------------------------------------------
def show(given: argparse.Namespace) -> int:
    """Print the table, or write the page; 1 where a case does not pass that could."""
    check_place(given.write)
    found = rows()
    counted = count_cases() if given.cases else None
    if given.write:
        path = Path(given.write)
        path.write_text(page(found, counted or Count()), encoding="utf-8")
        print(f"wrote {path}")
    else:
        shown = [row for row in found if fnmatch(row.name.lower(), given.ops.lower())]
        if not shown:
            hint = did_you_mean(given.ops, [row.name for row in found])
            raise BadAttribute(f"no operator is like {given.ops!r}{hint}")
        print("\n".join(terminal(shown, counted)))
    for name, reason in counted.failed.items() if counted else ():
        print(f"{name} does not pass: {reason}")
    return 1 if counted and set(counted.failed.values()) - {RANDOM} else 0


def terminal(found: Sequence[Row], counted: Count | None) -> list[str]:
    """Lines for a terminal; without a count, the numbers of the page where there is one."""
    tallies = counted.operators if counted else stored_tallies()
    body = []
    for row in found:
        name, *rest = row.cells(tallies.get(row.key), bool(tallies))
        body.append((f"{row.domain}.{name}" if row.domain else name, *rest))
    lines = table(HEAD, body, right=(3, 4))
    if counted is None and tallies:
        lines.append(f"cases as counted in {PAGE.name}; --cases runs onnx's suite and counts anew")
    elif counted is None:
        lines.append("--cases runs onnx's suite and counts the cases of each operator")
    else:
        lines += totals(counted)
    return lines


def totals(counted: Count) -> list[str]:
    passed = sum(t.passed for t in counted.kinds.values())
    every = sum(t.cases for t in counted.kinds.values())
    parts = ", ".join(f"{kind} {t.passed} of {t.cases}" for kind, t in counted.kinds.items())
    return [f"{passed:,} of {every:,} cases pass: {parts}"] if every else []


def page(found: Sequence[Row], counted: Count) -> str:
    """The page as Markdown."""
    lines = [INTRODUCTION, *(f"{line}." for line in totals(counted)), ""]
    if counted.failed:
        lines += ["Cases that do not pass:", ""]
        lines += [f"* `{name}`: {reason}" for name, reason in sorted(counted.failed.items())]
        lines.append("")
    for domain in dict.fromkeys(row.domain for row in found):
        lines += [f"## {TITLES.get(domain, domain)}, version {VERSIONS.get(domain, 1)}", ""]
        lines += [_line(HEAD), _line(("---",) * len(HEAD))]
        lines += [
            _line(row.cells(counted.operators.get(row.key), bool(counted.operators)))
            for row in found
            if row.domain == domain
        ]
        lines.append("")
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


class Stored(NamedTuple):
    """A line of the page: what the code said when it was written, and what was counted."""

    versions: str
    ways: str
    passed: str
    host: str


def stored(path: Path = PAGE) -> dict[Key, Stored]:
    """The lines of the page by operator; none where there is no page."""
    domains = {title: domain for domain, title in TITLES.items()}
    found: dict[Key, Stored] = {}
    domain = ""
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        if line.startswith("## "):
            title = line[3:].partition(",")[0]
            domain = domains.get(title, title)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == len(HEAD) and cells[0] not in ("---", HEAD[0]):
            found[domain, cells[0]] = Stored(*cells[1:])
    return found


def stored_tallies(path: Path = PAGE) -> Mapping[Key, Tally]:
    """The numbers of the page."""
    made: dict[Key, Tally] = {}
    for key, line in stored(path).items():
        numbers = re.fullmatch(r"(\d+) of (\d+)", line.passed)
        if numbers:
            made[key] = Tally(int(numbers[2]), int(numbers[1]), int(line.host or 0))
    return made

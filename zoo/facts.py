"""What is known about the networks of the zoo.

counts.txt keeps what was counted, so that listing all networks builds none of them. The tests
count each anew, and write the file when they are run with --update-golden.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from neuralsym.summary import summarize
from neuralsym.zoo.labels import class_names
from neuralsym.zoo.preprocess import Preprocessing
from neuralsym.zoo.registry import Entry, find

STORED = Path(__file__).with_name("counts.txt")


class Counts(NamedTuple):
    """Numbers of a network: trainable weights, batch-norm statistics, constants, multiply-adds."""

    trainable: int
    statistics: int
    constants: int
    macs: int


def count(entry: Entry) -> Counts:
    """The counts of its graph, which is built for it; no weight is drawn."""
    made = summarize(entry.make().graph)
    assert isinstance(made.macs, int)
    return Counts(made.trainable, made.statistics, made.constants, made.macs)


@cache
def stored() -> dict[str, Counts]:
    """What counts.txt says, by the names of networks."""
    lines = STORED.read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {name: Counts(*(int(n.replace(",", "")) for n in numbers)) for name, *numbers in rows}


WIDTHS = (26, 13, 12, 12, 18)


def store(found: dict[str, Counts]) -> None:
    """Write counts.txt."""
    rows: list[tuple[str, ...]] = [("# network", *Counts._fields)]
    rows += [(name, *(f"{n:,}" for n in found[name])) for name in sorted(found)]
    lines = [
        name.ljust(WIDTHS[0])
        + "".join(n.rjust(w) for n, w in zip(numbers, WIDTHS[1:], strict=True))
        for name, *numbers in rows
    ]
    STORED.write_text("\n".join(lines) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Info:
    """What is known about a network; counted, not measured.

    params: trainable weights and batch-norm statistics; constants: numbers that the file needs
    beside them; macs: multiply-adds of one entry. input_shape: (channels, height, width), or
    (length,) of a text, which has no preprocessing; classes: 0 where the answer is none.
    """

    name: str
    params: int
    trainable: int
    constants: int
    macs: int
    input_shape: tuple[int, ...]
    classes: int
    preprocessing: Preprocessing | None
    paper: str
    source: str
    accuracy: str
    aliases: tuple[str, ...]

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called, in order; () where nothing is known."""
        return class_names(self.name)

    @property
    def top1(self) -> float | None:
        """The first number of `accuracy`, in percent; None where none was published."""
        first = self.accuracy.partition(" ")[0]
        return float(first) if first not in ("", "-") else None

    def facts(self) -> list[tuple[str, Any]]:
        """Every field but the name, without those that say nothing."""
        found = ((f.name, getattr(self, f.name)) for f in fields(self) if f.name != "name")
        return [(name, value) for name, value in found if value not in ("", (), None)]


@cache
def _info(name: str) -> Info:
    entry = find(name)
    counts = stored().get(name) or count(entry)
    return Info(
        name=name,
        params=counts.trainable + counts.statistics,
        trainable=counts.trainable,
        constants=counts.constants,
        macs=counts.macs,
        input_shape=entry.size,
        classes=entry.classes,
        preprocessing=entry.preprocessing,
        paper=entry.paper,
        source=entry.source,
        accuracy=entry.accuracy,
        aliases=entry.aliases,
    )


def info(name: str) -> Info:
    """What is known about a network: counts, input, preprocessing, classes, paper, accuracy."""
    return _info(find(name).name)

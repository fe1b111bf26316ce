"""`neuralsym bench`: how fast a model runs, alone or in turn with other runtimes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from neuralsym.cli.models import open_network, sizes
from neuralsym.cli.output import Progress, check_place
from neuralsym.measure import Measurement, batch_feed, measure
from neuralsym.summary import table


def bench(given: argparse.Namespace) -> int:
    """Measure, print the table, and write it as JSON where asked; 1 if the outputs differ."""
    check_place(given.json)
    network = open_network(given.model)
    path = Path(given.model)
    feed = batch_feed(network, given.batch, given.seed, sizes(given.dim))
    against = [name for name in (given.against or "").split(",") if name]
    with Progress("compiling") as progress:
        found = measure(
            network,
            against,
            threads=given.threads,
            feed=feed,
            model=path if path.exists() else None,
            clock=given.clock,
            seconds=given.seconds,
            rounds=given.rounds,
            spinning=given.spinning,
            progress=progress,
        )
    print("\n".join(report(found)))
    if given.json:
        text = json.dumps(found.as_dict(), indent=1)
        Path(given.json).write_text(text + "\n", encoding="utf-8")
        print(f"wrote {given.json}")
    agreements = [a for side in found.peers for a in side.agreements]
    wrong = [a for a in agreements if not a.holds]
    for agreement in wrong:
        print(f"  {agreement}")
    return 1 if wrong else 0


def report(found: Measurement) -> list[str]:
    """The lines of a measurement: under what conditions, a table of the runtimes, the peak."""
    shapes = ", ".join(f"{n} {list(s)}" for n, s in found.shapes.items())
    many = "s" if found.threads > 1 else ""
    where = f" pinned to CPU {', '.join(map(str, found.cpus))}" if found.cpus else ""
    clock = "CPU time" if found.clock == "cpu" else "time on the wall"
    first = found.ours.timing
    rounds = f"medians of {len(first.seconds)} rounds"
    lines = [
        f"{found.network}: {shapes}",
        f"{found.threads} thread{many}{where}; {clock}, {rounds}, in turn",
    ]
    head = ["runtime", "ms", "spread", "ratio", "GFLOP/s", "of peak", "difference"]
    rows = []
    for side in found.sides:
        ours = side is found.ours
        rows.append(
            (
                f"{side.name} {side.version}",
                f"{1e3 * side.timing.median:.4g}",
                f"{1e3 * side.timing.spread:.2g}",
                "" if ours else f"{found.ratio(side):.2f}",
                f"{found.speed(side) / 1e9:.1f}" if found.operations else "",
                f"{100 * found.share(side):.0f} %" if found.operations else "",
                "" if ours else side.problem or f"{side.difference:.1e}",
            )
        )
    lines += table(head, rows, right=range(1, 7))
    if found.peers:
        lines.append("ratio: over 1 where neuralsym is faster; difference: relative to the largest")
    if found.operations:
        work = f"{found.operations / 1e9:.3g} G operations a run"
        lines.append(f"{work}; peak measured: {found.peak / 1e9:.1f} GFLOP/s a thread")
    return lines

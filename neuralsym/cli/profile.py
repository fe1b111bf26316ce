"""`neuralsym profile`: where the time of a run goes, as a table and as a picture."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from neuralsym.chart import Bar, bar_chart
from neuralsym.cli.models import open_network, sizes
from neuralsym.cli.output import Progress, check_place
from neuralsym.cpu.peak import measured_peak
from neuralsym.cpu.profile import StepTime, grouped
from neuralsym.measure import batch_feed, profile
from neuralsym.summary import table


def show(given: argparse.Namespace) -> int:
    """Run with timed steps, print them, and draw and write them where asked."""
    check_place(given.svg)
    check_place(given.json)
    network = open_network(given.model)
    feed = batch_feed(network, given.batch, given.seed, sizes(given.dim))
    with Progress("compiling") as progress:
        times = profile(
            network, threads=given.threads, feed=feed, runs=given.runs, progress=progress
        )
    cell = network.cell
    peak = measured_peak(cell.target, cell.store) * given.threads
    if given.by == "op":
        times = grouped(times, lambda t: t.op)
    elif given.by == "kernel":
        times = grouped(times, lambda t: f"{t.op}: {t.kernel}")
    shown = times
    if given.top is not None:
        longest = sorted(times, key=lambda t: -t.seconds)[: given.top]
        shown = [t for t in times if t in longest]
    many = "s" if given.threads > 1 else ""
    what = f"{given.threads} thread{many}, medians of {given.runs} runs"
    shapes = ", ".join(f"{n} {list(v.shape)}" for n, v in feed.items())
    print(f"{network.name}: {shapes}; {what}")
    print("\n".join(rows(times, shown, peak)))
    if given.svg:
        total = sum(t.seconds for t in times)
        title = f"{network.name}: {1e3 * total:.3f} ms"
        drawn = bar_chart(title, bars(shown), f"{shapes}; {what}", total=total)
        Path(given.svg).write_text(drawn, encoding="utf-8")
        print(f"wrote {given.svg}")
    if given.json:
        made = [dataclasses.asdict(t) for t in times]
        text = json.dumps({"peak": peak, "steps": made}, indent=1)
        Path(given.json).write_text(text + "\n", encoding="utf-8")
        print(f"wrote {given.json}")
    return 0


def rows(times: Sequence[StepTime], shown: Sequence[StepTime], peak: float) -> list[str]:
    """The table of the steps in `shown`, and the totals of all `times`.

    peak: floating-point operations a second of all threads together.
    """
    total = sum(t.seconds for t in times) or 1.0
    work = sum(t.operations for t in times)
    moved = sum(t.nbytes for t in times)
    whole = StepTime("total", "", "", total, work, moved, sum(t.steps for t in times))
    merged = any(t.steps > 1 for t in times)
    head = ["step", "operator", "kernel", "us", "share", "GFLOP/s", "of peak", "MB", "GB/s"]
    body = []
    for t in (*shown, whole):
        name = f"{t.name} ({t.steps})" if merged else t.name
        speed = (
            (f"{t.gflops:.1f}", f"{100e9 * t.gflops / peak:.0f} %") if t.operations else ("", "")
        )
        body.append(
            (
                *(name, t.op, t.kernel, f"{1e6 * t.seconds:.2f}"),
                f"{100 * t.seconds / total:.1f} %",
                *speed,
                f"{t.nbytes / 1e6:.3f}",
                f"{t.gigabytes:.1f}" if t.nbytes else "",
            )
        )
    lines = table(head, body, right=range(3, 9))
    if len(shown) < len(times):
        lines.append(f"the {len(shown)} longest of {len(times)}; the totals are of all")
    lines.append(f"peak measured: {peak / 1e9:.1f} GFLOP/s; MB: inputs and outputs, each once")
    return lines


def bars(times: Sequence[StepTime]) -> list[Bar]:
    """The steps as bars, coloured by operator and kernel."""
    made = []
    for t in times:
        note = f"{1e6 * t.seconds:.1f} us"
        if t.operations:
            note += f", {t.gflops:.1f} GFLOP/s"
        detail = f"{t.op} {t.name!r}\nkernel {t.kernel}\n{note}, {t.nbytes / 1e6:.3f} MB"
        kind = t.op if t.kernel in ("", t.op.lower()) else f"{t.op}: {t.kernel}"
        made.append(Bar(t.name, t.seconds, kind, note, detail))
    return made

"""The table of how fast neuralsym is beside other runtimes, as Markdown.

    python tests/benchmarks/bench_table.py [PATTERN ...] [--runs 3] [--seconds 10] [-o FILE]
        [--into README.md] [--list]

Every row is measured in processes of its own, so that a failure loses this row only, and `runs`
times, each one interleaved; the run with the median ratio is shown with the least and the greatest
ratio. `--into` puts the table between the two marks that a page has for it. The machine should be
idle. Clocks never fail a test, so pytest does not collect this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench_models import build
from bench_start import starts

import neuralsym
from neuralsym import Network, load, zoo
from neuralsym.cpu.machine import Target
from neuralsym.cpu.options import Options
from neuralsym.cpu.peak import measured_peak
from neuralsym.cpu.profile import operations, repeated
from neuralsym.cpu.store import Store
from neuralsym.engines import onnx
from neuralsym.measure import CLOCKS, Measurement, batch_feed, interleave, measure, pinned
from neuralsym.peers import PEERS, open_peer

ROW_TIMEOUT = 900
MARKS = ("<!-- bench_table.py: begin -->", "<!-- bench_table.py: end -->")

CONVOLUTIONAL = {
    "resnet50": 1.25,
    "squeezenet1_0": 1.4,
    "squeezenet1_1": 1.4,
    "inception_v3": 1.3,
    "resnet18": 1.5,
    "vgg16": 1.6,
    "densenet121": 1.1,
    "mobilenet_v2": 1.0,
    "mobilenet_v3_large": 1.0,
    "efficientnet_b0": 1.0,
}
"""Networks of the zoo, and the ratio that each is to reach first."""

SMALL = {"mlp": 2.7, "lstm": 1.5, "transformer": 1.0}
CELLS = {"784x10": 20.0, "mlp": 3.0, "lstm_cell": 12.0}
SCALING, BUSY = 1.7, 1 / 1.3


@dataclass(frozen=True)
class Result:
    """One measurement: ours beside theirs; a ratio over 1 says that ours is better."""

    ours: float
    theirs: float
    ratio: float
    unit: str
    peer: str
    note: str = ""


class Row(NamedTuple):
    """A line of the table: `first` is the ratio that it is to reach."""

    name: str
    first: float
    run: Callable[[float], Result]
    """Called with the seconds that it may take."""


def rows() -> Iterator[Row]:
    """Every row that can run with the networks that there are."""
    networks = {n: first for n, first in CONVOLUTIONAL.items() if n in zoo.models()}
    both = {**networks, **SMALL}
    for name, first in both.items():
        yield Row(name, first, partial(against_peers, name, 1))
    for name, first in CELLS.items():
        yield Row(f"{name}, in the cell", first, partial(in_the_cell, name))
    for name in both:
        yield Row(f"{name}, batch 8", 1.0, partial(against_peers, name, 8))
    for name in networks:
        yield Row(f"{name}, two threads over one", SCALING, partial(scaling, name))
    if "resnet50" in networks:
        yield Row("resnet50, two threads beside a busy process", BUSY, partial(busy, "resnet50"))
        yield Row("resnet50, start, warm cache", 1.0, partial(starting, "resnet50", True))
        yield Row("resnet50, start, empty cache", 0.5, partial(starting, "resnet50", False))
    for name in ("mlp", *(n for n in ("squeezenet1_1", "resnet50", "inception_v3") if n in both)):
        yield Row(f"{name}, peak memory", 1.0, partial(memory, name))
    if "resnet50" in networks:
        yield Row("resnet50, int8 QDQ", 1.0, partial(quantised, "resnet50"))


# -- what is measured ------------------------------------------------------------------------
def installed(names: Iterable[str] = tuple(PEERS)) -> list[str]:
    """Those of the peers that can be imported."""
    found = [name for name in names if find_spec(name)]
    if not found:
        raise RuntimeError(f"none of {', '.join(names)} is installed")
    return found


def against_peers(name: str, batch: int, seconds: float) -> Result:
    """One thread: the fastest of the peers beside us."""
    found = measure(build(name), installed(), batch=batch, seconds=seconds)
    return _result(found)


def _result(found: Measurement) -> Result:
    best = min(found.peers, key=lambda side: side.timing.median)
    others = [f"{s.name} {1e3 * s.timing.median:.4g} ms" for s in found.peers if s is not best]
    spread = found.ours.timing.spread / found.ours.timing.median
    worst = max(found.peers, key=lambda side: side.difference)
    notes = [
        *others,
        f"{100 * found.share(found.ours):.0f} % of peak",
        f"quartiles {100 * spread:.0f} % apart",
        f"difference {worst.difference:.0e}",
    ]
    problem = next((s.problem for s in found.peers if s.problem), "")
    ours, theirs = found.ours.timing.median, best.timing.median
    return Result(1e3 * ours, 1e3 * theirs, found.best, "ms", best.name, "; ".join(notes) + problem)


def in_the_cell(name: str, seconds: float) -> Result:
    """Our compiled code without Python's call, beside onnxruntime's `session.run`."""
    network = build(name)
    feed = batch_feed(network, 1 if name == "mlp" else None)
    with pinned(1):
        peer = open_peer(*installed(["onnxruntime"]), network, feed)
        instance = network.compile(threads=1).cell.instance()
        for key, value in feed.items():
            instance[key] = value
        instance.compute()
        many = 1000
        calls: dict[str, Callable[[], object]] = {
            "ours": repeated(instance, many),
            "call": instance.compute,
            "theirs": lambda: peer.run(feed),
        }
        times = interleave(calls, CLOCKS["cpu"], seconds=seconds)
    ours, theirs = times["ours"].median / many, times["theirs"].median
    speed = operations(instance) / ours / 1e9
    note = f"{speed:.0f} GFLOP/s; `instance.compute()` {1e9 * times['call'].median:.0f} ns"
    return Result(1e9 * ours, 1e9 * theirs, theirs / ours, "ns", peer.name, note)


def scaling(name: str, seconds: float) -> Result:
    """Two threads beside one, on the wall."""
    return _two_beside_one(build(name), seconds)


def busy(name: str, seconds: float) -> Result:
    """The same while another process computes all the time."""
    command = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(command) as other:
        try:
            return _two_beside_one(build(name), seconds)
        finally:
            other.kill()


def _two_beside_one(network: Network, seconds: float) -> Result:
    feed = batch_feed(network, 1)
    with pinned(2):
        sides = {count: Network(network.model).compile(threads=count) for count in (1, 2)}
        calls: dict[str, Callable[[], object]] = {
            str(count): partial(side.run, feed) for count, side in sides.items()
        }
        times = interleave(calls, seconds=seconds)
        equal = all(
            np.array_equal(a, b)
            for a, b in zip(*(s.run(feed).values() for s in sides.values()), strict=True)
        )
    one, two = times["1"].median, times["2"].median
    note = "the same bits" if equal else "NOT THE SAME BITS"
    return Result(1e3 * two, 1e3 * one, one / two, "ms", "one thread", note)


@contextmanager
def exported(network: Network) -> Iterator[Path]:
    """The network as a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{network.name}.onnx")
        onnx.save(network.model, path)
        yield path


def starting(name: str, warm: bool, seconds: float) -> Result:
    """From the start of a process to its first answer, on the wall."""
    network = build(name)
    with exported(network) as path:
        found = starts(path, batch_feed(network, 1), max(3, int(seconds)), warm=warm)
    ours, theirs = (float(np.median([s.seconds for s in found[k]])) for k in found)
    return Result(ours, theirs, theirs / ours, "s", "onnxruntime")


def memory(name: str, seconds: float) -> Result:
    """The most resident memory of a process that loads and answers once, the cache warm."""
    network = build(name)
    with exported(network) as path:
        found = starts(path, batch_feed(network, 1), 3, warm=True)
    ours, theirs = (float(np.median([s.nbytes for s in found[k]])) / 2**20 for k in found)
    return Result(ours, theirs, theirs / ours, "MiB", "onnxruntime")


def quantised(name: str, seconds: float) -> Result:
    """8-bit weights and activations, as onnxruntime's own tool writes them."""
    from onnxruntime import quantization

    network = build(name)
    feeds = [batch_feed(network, 1, seed) for seed in range(2)]

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(feeds)

        def get_next(self) -> object:
            return next(self.rest, None)

    with exported(network) as path:
        small = path.with_name("int8.onnx")
        quantization.quantize_static(
            path, small, Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True
        )
        peers = installed(["onnxruntime"])
        return _result(measure(load(small), peers, batch=1, model=small, seconds=seconds))


# -- the table -------------------------------------------------------------------------------
def run_row(name: str, seconds: float) -> None:
    """What a row's own process does: measure, and print the result as JSON, the last line."""
    row = next(r for r in rows() if r.name == name)
    print(json.dumps(asdict(row.run(seconds))), flush=True)


def results_of(row: Row, runs: int, seconds: float) -> list[Result] | str:
    """The results of the runs, or why there are none."""
    command = [sys.executable, __file__, "--row", row.name, "--seconds", str(seconds)]
    # The package that this process has found, installed or not.
    paths = [str(Path(neuralsym.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    found: list[Result] = []
    for _ in range(runs):
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=ROW_TIMEOUT,
                check=False,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {ROW_TIMEOUT} s"
        lines = done.stdout.strip().splitlines()
        if done.returncode or not lines:
            said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            return said[-1]
        found.append(Result(**json.loads(lines[-1])))
    return found


def line(row: Row, found: list[Result] | str) -> str:
    """The row in Markdown."""
    first = f"{row.first:.2f}"
    if isinstance(found, str):
        failed = found.replace("|", "\\|")[:200]
        return f"| {row.name} | | | | {first} | failed: {failed} |"
    ordered = sorted(found, key=lambda r: r.ratio)
    middle = ordered[(len(ordered) - 1) // 2]  # of an even number the lower one
    ratio = f"{middle.ratio:.2f}"
    if len(ordered) > 1:
        ratio += f" ({ordered[0].ratio:.2f} to {ordered[-1].ratio:.2f})"
    mark = "" if middle.ratio >= row.first else " below"
    unit = middle.unit
    return (
        f"| {row.name} | {middle.ours:.4g} {unit} | {middle.theirs:.4g} {unit} {middle.peer} "
        f"| **{ratio}** | {first}{mark} | {middle.note} |"
    )


def head(runs: int, seconds: float) -> list[str]:
    """On what and how: the lines before the table."""
    target = Target.of()
    peak = measured_peak(target, Store.of(Options().cache_dir)) / 1e9
    names = ("onnxruntime", "openvino", "numpy", "llvmlite")
    versions = ", ".join(f"{name} {_version(name)}" for name in names)
    return [
        f"{_processor()} ({os.cpu_count()} processors, LLVM's {target.cpu}, vectors of "
        f"{8 * target.vector_bytes} bits; {peak:.0f} GFLOP/s a core at best), "
        f"Python {platform.python_version()}, neuralsym {neuralsym.__version__}, {versions}.",
        f"One thread and batch 1 where nothing else is said; {runs} interleaved "
        f"run{'' if runs == 1 else 's'} of {seconds:g} s a line, medians of each; a ratio over 1 "
        "says that neuralsym is better.",
        "",
        "| | neuralsym | beside it | ratio | wanted first | |",
        "|---|---|---|---|---|---|",
    ]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for text in info.read_text(encoding="utf-8").splitlines():
            if text.startswith("model name"):
                return text.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def put_into(page: Path, lines: Sequence[str]) -> None:
    """Replace what stands between the MARKS of a page."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise SystemExit(f"{page} lacks the lines {MARKS[0]} and {MARKS[1]}")
    page.write_text("\n".join([before + begin, "", *lines, "", end + after]), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("patterns", nargs="*", default=["*"], help='rows, such as "resnet*"')
    parser.add_argument("--runs", type=int, default=3, help="of each row (3)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run (10)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the table")
    parser.add_argument("--into", type=Path, metavar="PAGE", help="put it between a page's marks")
    parser.add_argument("--list", action="store_true", help="the names of the rows")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        run_row(given.row, given.seconds)
        return 0
    chosen = [r for r in rows() if any(fnmatch(r.name, p) for p in given.patterns)]
    if given.list:
        print("\n".join(r.name for r in chosen))
        return 0
    lines = head(given.runs, given.seconds)
    print("\n".join(lines), flush=True)
    for row in chosen:
        lines.append(line(row, results_of(row, given.runs, given.seconds)))
        print(lines[-1], flush=True)
        if given.output:  # after each row, so that nothing is lost
            given.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if given.into:
        put_into(given.into, lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

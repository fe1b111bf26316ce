"""How fast a network runs, alone or beside other runtimes in the same minute of the same cores.

Runs alternate, both sides are pinned to the same processors and given as many threads, and what
they compute is compared. Clocks tell nothing certain on a shared machine: that is why there are
medians, spreads and ratios rather than single times.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from neuralsym.core.dim import Dim
from neuralsym.cpu.emit import Progress
from neuralsym.cpu.peak import measured_peak
from neuralsym.cpu.profile import StepTime, operations, profile_instance
from neuralsym.errors import BadAttribute, did_you_mean
from neuralsym.network import Network
from neuralsym.peers import PEERS, Peer, open_peer
from neuralsym.testing import Agreement, agreement, random_feed

Clock = Literal["cpu", "wall"]
CLOCKS: dict[Clock, Callable[[], float]] = {"cpu": time.process_time, "wall": time.perf_counter}

SAMPLE_SECONDS = 1e-3
"""A shorter run is repeated until a sample takes so long: the clocks themselves cost up to 1 us."""

FEWEST = 5
"""Rounds, however slow the network is."""


@dataclass(frozen=True)
class Timing:
    """The seconds that one call took, in each round; the mean where a round has several calls."""

    seconds: tuple[float, ...]
    calls: int = 1

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))

    @property
    def quartiles(self) -> tuple[float, float]:
        low, high = np.percentile(self.seconds, [25, 75])
        return float(low), float(high)

    @property
    def spread(self) -> float:
        """The distance between the quartiles."""
        low, high = self.quartiles
        return high - low


@dataclass(frozen=True)
class Side:
    """A runtime in a comparison: its times, and how its outputs agree with ours."""

    name: str
    version: str
    timing: Timing
    agreements: tuple[Agreement, ...] = ()

    @property
    def difference(self) -> float:
        """The largest difference from our outputs, relative to the largest value of each."""
        return max((a.relative for a in self.agreements), default=0.0)

    @property
    def problem(self) -> str:
        """What keeps an output from being comparable; "" if nothing does."""
        return next((f"{a.name}: {a.problem}" for a in self.agreements if a.problem), "")


@dataclass(frozen=True)
class Measurement:
    """A network's times, and its peers' in the same rounds.

    operations: floating-point ones of a run as the kernels count them, 0 where they do not; the
    nominal work, so a peer's speed is told by the same number. peak: floating-point operations a
    second of one core.
    """

    network: str
    shapes: Mapping[str, tuple[int, ...]]
    threads: int
    cpus: tuple[int, ...]
    clock: Clock
    operations: int
    peak: float
    ours: Side
    peers: tuple[Side, ...] = field(default=())

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.ours, *self.peers)

    @property
    def best(self) -> float:
        """The ratio to the fastest peer; over 1 if neuralsym is faster than all."""
        return min(self.ratio(side) for side in self.peers)

    def ratio(self, side: Side) -> float:
        """The side's median time by ours: over 1 where neuralsym is faster."""
        return side.timing.median / self.ours.timing.median

    def speed(self, side: Side) -> float:
        """Floating-point operations a second."""
        return self.operations / side.timing.median

    def share(self, side: Side) -> float:
        """Of what all its threads could do at the measured peak."""
        return self.speed(side) / (self.peak * self.threads)

    def as_dict(self) -> dict[str, Any]:
        """Everything, in types that JSON has."""
        return {
            "network": self.network,
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "threads": self.threads,
            "cpus": list(self.cpus),
            "clock": self.clock,
            "operations": self.operations,
            "peak": self.peak,
            "sides": [
                {
                    "name": side.name,
                    "version": side.version,
                    "median": side.timing.median,
                    "quartiles": list(side.timing.quartiles),
                    "rounds": len(side.timing.seconds),
                    "calls": side.timing.calls,
                    "ratio": self.ratio(side),
                    "speed": self.speed(side),
                    "share": self.share(side),
                    "difference": None if side.problem else side.difference,
                    "problem": side.problem,
                    "seconds": list(side.timing.seconds),
                }
                for side in self.sides
            ],
        }


def measure(
    network: Network,
    against: Sequence[str] = (),
    *,
    threads: int = 1,
    batch: int | None = None,
    feed: Mapping[str, Any] | None = None,
    model: Path | None = None,
    clock: Clock | None = None,
    seconds: float = 10.0,
    rounds: int | None = None,
    spinning: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Measurement:
    """Time a network, and the same model in other runtimes (`against`, names of PEERS).

    threads: for each side, all pinned to the same processors. batch: as for `batch_feed`. feed:
    random values from `seed` if None. model: the .onnx file that the peers open; what
    `Network.save` would write otherwise. clock: "cpu" (of the process; the default for one thread)
    or "wall" (for several). rounds: how many, or as many as fit into `seconds` of all sides
    together. spinning: let the workers of onnxruntime spin when they have nothing to do, which is
    its default, but takes the cores from the side that is being timed. progress: as for
    `Network.compile`.

    The network is compiled anew with these options and stays so. Raises BadAttribute for a peer
    that is unknown, not installed or refuses the model, and for threads that the machine lacks.
    """
    for name in against:
        if name not in PEERS:
            raise BadAttribute(
                f"no runtime {name!r} to measure against{did_you_mean(name, PEERS)}; "
                f"there are {', '.join(PEERS)}"
            )
    clock = clock or ("cpu" if threads == 1 else "wall")
    if clock not in CLOCKS:
        raise BadAttribute(f"clock is one of {', '.join(get_args(Clock))}, not {clock!r}")
    given = batch_feed(network, batch, seed) if feed is None else dict(feed)
    with pinned(threads) as cpus:
        network.compile(threads=threads, profile=False, progress=progress)
        peers = [
            open_peer(name, network, given, model, threads=threads, spinning=spinning)
            for name in against
        ]
        results = network.run(given)
        agreements = [_agreements(results, peer, given) for peer in peers]
        calls: dict[str, Callable[[], object]] = {"neuralsym": lambda: network.run(given)}
        calls |= {peer.name: _call(peer, given) for peer in peers}
        timings = interleave(calls, CLOCKS[clock], seconds=seconds, rounds=rounds)
        cell = network.cell
        peak = measured_peak(cell.target, cell.store)
    instance = cell.instance()
    for name, value in given.items():
        if name in cell.program.inputs:
            instance[name] = value
    instance.compute()
    from neuralsym import __version__

    return Measurement(
        network.name,
        {name: np.shape(value) for name, value in given.items()},
        threads,
        cpus,
        clock,
        operations(instance),
        peak,
        Side("neuralsym", __version__, timings["neuralsym"]),
        tuple(
            Side(peer.name, peer.version, timings[peer.name], tuple(found))
            for peer, found in zip(peers, agreements, strict=True)
        ),
    )


def _call(peer: Peer, feed: Mapping[str, Any]) -> Callable[[], object]:
    return lambda: peer.run(feed)


def _agreements(ours: Mapping[str, Any], peer: Peer, feed: Mapping[str, Any]) -> list[Agreement]:
    theirs = zip(ours, peer.run(feed), strict=True)
    return [agreement(name, ours[name], value) for name, value in theirs]


def batch_feed(
    network: Network,
    batch: int | None = None,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Random inputs whose free first axis is `batch`; BadAttribute where none is free.

    Where only another axis is free, as in a sequence with its steps first, that one is the batch.
    `sizes` are those of other names.
    """
    known = dict(sizes or {})
    if batch is not None:
        needed = [p.shape for p in network.inputs if p.shape and not p.default]
        firsts = [shape[0] for shape in needed]
        names = {str(d) for d in firsts if isinstance(d, Dim) and d.is_name}
        if not names:
            free = {str(d) for s in needed for d in s if isinstance(d, Dim) and d.is_name}
            names = free - known.keys() if len(free - known.keys()) == 1 else set()
        if not names and any(d != batch for d in firsts):
            shapes = ", ".join(str(p) for p in network.inputs)
            raise BadAttribute(
                f"{network.name!r} takes no batch of {batch}: the first axis is not free "
                f"({shapes}); export it with a name there, such as N"
            )
        known |= dict.fromkeys(names, batch)
    return dict(random_feed(network, seed, known))


def interleave(
    calls: Mapping[str, Callable[[], object]],
    clock: Callable[[], float] = time.perf_counter,
    *,
    seconds: float = 10.0,
    rounds: int | None = None,
) -> dict[str, Timing]:
    """Time calls in turn, A B A B ..., after warming each up.

    rounds: so many; otherwise as many as fit into `seconds` on the wall, but FEWEST at least. A
    call much shorter than SAMPLE_SECONDS is made several times a round. The garbage collector
    rests.
    """
    if rounds is not None and rounds < 1:
        raise BadAttribute(f"a measurement takes at least 1 round, not {rounds}")
    repeats = {name: _repeats(call, clock) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    collects = gc.isenabled()
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        done = 0
        while done < (rounds or FEWEST) or (rounds is None and time.perf_counter() < end):
            for name, call in calls.items():
                samples[name].append(_sample(call, clock, repeats[name]) / repeats[name])
            done += 1
    finally:
        if collects:
            gc.enable()
    return {name: Timing(tuple(found), repeats[name]) for name, found in samples.items()}


def _sample(call: Callable[[], object], clock: Callable[[], float], count: int) -> float:
    """The time that `count` calls take."""
    turns = range(count)
    began = clock()
    for _ in turns:
        call()
    return clock() - began


def _repeats(call: Callable[[], object], clock: Callable[[], float]) -> int:
    """How often to call for one sample; the calls made to find out are the warm-up."""
    for _ in range(2):
        call()
    count = 1
    while True:
        # The best of three: whoever was interrupted once is not slow.
        took = min(_sample(call, clock, count) for _ in range(3))
        if took >= SAMPLE_SECONDS or count >= 1 << 20:
            return count
        count = max(count * 2, min(int(count * SAMPLE_SECONDS / max(took, 1e-9)), count * 100))


def profile(
    network: Network,
    *,
    threads: int = 1,
    batch: int | None = None,
    feed: Mapping[str, Any] | None = None,
    runs: int = 20,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[StepTime]:
    """The median time of each step of a network, with its work, in the order of the run.

    The arguments are those of `measure`. The network is compiled anew with these options and stays
    so; each step costs some 50 ns more than without the timing.
    """
    given = batch_feed(network, batch, seed) if feed is None else dict(feed)
    with pinned(threads):
        network.compile(threads=threads, profile=True, progress=progress)
        instance = network.cell.instance()
        for name, value in given.items():
            if name in network.cell.program.inputs:
                instance[name] = value
        return profile_instance(instance, runs)


@contextmanager
def pinned(threads: int) -> Iterator[tuple[int, ...]]:
    """Hold every thread of the process to `threads` processors; gives their numbers.

    Those are of different cores as far as there are as many. Threads that start within inherit
    it; at the end each thread has what it had, those started within what the caller had.
    BadAttribute if the process may not use so many. Where the system knows no affinity nothing is
    pinned and the result is empty.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield ()
        return
    before = os.sched_getaffinity(0)
    if not 1 <= threads <= len(before):
        raise BadAttribute(
            f"{threads} threads cannot be pinned: this process may use {len(before)} processors"
        )
    chosen = _spread_out(before)[:threads]
    old = _pin(lambda thread: chosen)
    try:
        yield tuple(chosen)
    finally:
        _pin(lambda thread: old.get(thread, before))


def _pin(cpus: Callable[[int], Iterable[int]]) -> dict[int, set[int]]:
    """Pin each thread of the process to the processors told for it; gives those that it had."""
    tasks = Path("/proc/self/task")
    threads = [int(entry.name) for entry in tasks.iterdir()] if tasks.exists() else [0]
    old: dict[int, set[int]] = {}
    for thread in threads:
        try:
            old[thread] = os.sched_getaffinity(thread)
            os.sched_setaffinity(thread, cpus(thread))
        except ProcessLookupError:
            continue  # it has ended in the meantime
    return old


def _spread_out(cpus: set[int]) -> list[int]:
    """Processors in the order in which to take them: one of each core before any core's second."""
    seen: dict[str, int] = {}
    order: list[tuple[int, int]] = []
    for cpu in sorted(cpus):
        file = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            core = file.read_text(encoding="utf-8")
        except OSError:
            core = str(cpu)
        seen[core] = seen.get(core, -1) + 1
        order.append((seen[core], cpu))
    return [cpu for _, cpu in sorted(order)]

"""How long a picture takes in the zoo's networks, against onnxruntime in the same run.

    python tests/benchmarks/bench_zoo.py [NETWORK ...] [--threads N] [--batch N] [--seconds S]

Runs are interleaved, both sides are held to the same number of threads, and times are medians:
CPU time of the process for one thread, wall time for several. A ratio over one means that
neuralsym is faster. Clocks never fail a test, so pytest does not collect this file.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import onnxruntime

from neuralsym import testing, zoo
from neuralsym.engines import onnx

NETWORKS = ("resnet18", "resnet50", "squeezenet1_0", "squeezenet1_1", "inception_v3", "mnist")


def measure(name: str, threads: int, batch: int, seconds: float) -> str:
    network = zoo.create(name).compile(threads=threads)
    feed = testing.random_feed(network, sizes={"N": batch})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        onnx.of_symbolic(network.model).SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
    )
    ours = network.run(feed)
    theirs = dict(zip([p.name for p in network.outputs], session.run(None, feed), strict=True))
    agreements = [testing.agreement(n, ours[n], theirs[n]) for n in ours]
    worst = max(a.relative for a in agreements)
    clock = time.process_time if threads == 1 else time.perf_counter
    sides = {"ours": lambda: network.run(feed), "theirs": lambda: session.run(None, feed)}
    times: dict[str, list[float]] = {side: [] for side in sides}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["ours"]) < 5:
        for side, run in sides.items():
            began = clock()
            run()
            times[side].append(clock() - began)
    medians = {side: 1e3 * statistics.median(t) for side, t in times.items()}
    ratio = medians["theirs"] / medians["ours"]
    spread = np.subtract(*np.percentile(times["ours"], [75, 25])) * 1e3
    return (
        f"{name:14} {medians['ours']:9.3f} {medians['theirs']:12.3f} {ratio:7.2f} "
        f"{spread:8.3f} {worst:10.1e} {len(times['ours']):5}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each network")
    given = parser.parse_args()
    print(f"{given.threads} thread(s), batch {given.batch}; milliseconds, medians")
    print("network             ours  onnxruntime   ratio  quartile difference  runs")
    for name in given.networks:
        print(measure(name, given.threads, given.batch, given.seconds), flush=True)


if __name__ == "__main__":
    main()

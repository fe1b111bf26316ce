"""How long a picture takes in the zoo's networks, against onnxruntime in the same run.

    python tests/benchmarks/bench_zoo.py [NETWORK ...] [--threads N] [--batch N] [--seconds S]

A line for each network, by `neuralsym.measure`; `neuralsym bench` tells more of one. The whole
table is made by bench_table.py. Clocks never fail a test, so pytest does not collect this file.
"""

from __future__ import annotations

import argparse

from bench_models import build

from neuralsym.measure import measure

NETWORKS = ("resnet18", "resnet50", "squeezenet1_0", "squeezenet1_1", "inception_v3", "mnist")


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
        found = measure(
            build(name),
            ["onnxruntime"],
            threads=given.threads,
            batch=given.batch,
            seconds=given.seconds,
        )
        ours, theirs = found.ours.timing, found.peers[0].timing
        print(
            f"{name:14} {1e3 * ours.median:9.3f} {1e3 * theirs.median:12.3f} {found.best:7.2f} "
            f"{1e3 * ours.spread:8.3f} {found.peers[0].difference:10.1e} {len(ours.seconds):5}",
            flush=True,
        )


if __name__ == "__main__":
    main()

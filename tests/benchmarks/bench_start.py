"""What a process costs that loads a model and answers once: its time and its memory.

    python tests/benchmarks/bench_start.py RUNTIME MODEL FEED

is such a process (RUNTIME: neuralsym or onnxruntime; FEED: an .npz). bench_table.py starts them.
The process prints its peak of resident memory, in bytes, when it has its answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HIGHEST = "VmHWM:"


class Start(NamedTuple):
    """Seconds from the start of the process to its answer, and its most bytes until then."""

    seconds: float
    nbytes: int


def answer(runtime: str, model: str, feed: str) -> None:
    """Load, run once on one thread, and say so."""
    values = dict(np.load(feed))
    if runtime == "neuralsym":
        import neuralsym

        neuralsym.load(model, options=neuralsym.Options(threads=1)).run(values)
    else:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        session.run(None, values)
    print(peak_memory(), flush=True)


def peak_memory() -> int:
    """The most resident memory that this process has had, in bytes.

    Linux's counter of the address space, where there is one: the one of `resource` begins with
    what the parent had.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith(HIGHEST):
                return 1024 * int(line.split()[1])
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def start(runtime: str, model: Path, feed: Path, environment: Mapping[str, str]) -> Start:
    """Start such a process and wait for its answer."""
    command = [sys.executable, __file__, runtime, str(model), str(feed)]
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        took = time.perf_counter() - began
        said = process.stderr.read()
    if process.returncode or not line.strip():
        raise RuntimeError(f"{runtime} gave no answer: {said.strip()[-500:]}")
    return Start(took, int(line))


def warm_up(model: Path, feed: Path, environment: Mapping[str, str]) -> None:
    """Fill the cache that `environment` names: by `neuralsym warmup` and by a run."""
    subprocess.run(
        [sys.executable, "-m", "neuralsym", "warmup", str(model), "--threads", "1"],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,  # what it leaves out, the run fills in
    )
    start("neuralsym", model, feed, environment)


def starts(
    model: Path, feed: Mapping[str, Any], rounds: int, *, warm: bool
) -> dict[str, list[Start]]:
    """Processes of both runtimes in turn; ours with a warm cache or an empty one."""
    found: dict[str, list[Start]] = {"neuralsym": [], "onnxruntime": []}
    with tempfile.TemporaryDirectory() as folder:
        values = Path(folder, "feed.npz")
        np.savez(values, **feed)
        full = {"NEURALSYM_CACHE_DIR": str(Path(folder, "cache"))}
        if warm:
            warm_up(model, values, full)
        for number in range(rounds):
            cache = full if warm else {"NEURALSYM_CACHE_DIR": str(Path(folder, f"empty{number}"))}
            found["neuralsym"].append(start("neuralsym", model, values, cache))
            found["onnxruntime"].append(start("onnxruntime", model, values, {}))
    return found


if __name__ == "__main__":
    answer(*sys.argv[1:])

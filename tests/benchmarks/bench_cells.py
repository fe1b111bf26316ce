"""Small networks at the limit: what a computation of a cell costs, inside and from Python.

    python tests/benchmarks/bench_cells.py [--seconds 5]

Each network is written as a .flow file, compiled by `neuralsym.myelin` and measured in turn with
onnxruntime on one thread: compute in the cell (called a thousand times over without Python), a call
`data.compute()` with the input in place, a call that sets the input first, onnxruntime's
`session.run` and its IOBinding. Times are the process's CPU time, medians.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from bench_models import build

from neuralsym.cpu.profile import repeated
from neuralsym.measure import CLOCKS, batch_feed, interleave, pinned
from neuralsym.myelin import Network
from neuralsym.summary import table

CELLS = {"784x10": "784x10", "mlp": "784-128-64-10", "lstm_cell": "LSTM cell 32 -> 64"}
MANY = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each network (5)")
    given = parser.parse_args()
    head = ["network", "in the cell", "compute()", "over it", "set and compute()"]
    head += ["session.run", "IOBinding", "run / cell", "IOBinding / cell", "run / compute()"]
    rows = [measured(name, given.seconds) for name in CELLS]
    print(f"onnxruntime {onnxruntime.__version__}, one thread, batch 1, nanoseconds of CPU")
    print("\n".join(table(head, rows, right=range(1, len(head)))))


def measured(name: str, seconds: float) -> list[str]:
    """The row of one network."""
    network = build(name)
    feed = batch_feed(network, 1)
    with tempfile.TemporaryDirectory() as folder, pinned(1):
        flow, model = Path(folder, "cell.flow"), Path(folder, "cell.onnx")
        network.save(flow)
        network.save(model)
        data = Network.compile(flow, threads=1).cells[0].instance()
        for key, value in feed.items():
            data[key] = value
        data.compute()
        session = _session(model)
        first, *_ = feed
        picture = feed[first]
        binding = _binding(session, feed)

        def set_and_compute() -> None:
            data[first] = picture
            data.compute()

        calls: dict[str, Callable[[], object]] = {
            "cell": repeated(data, MANY),
            "compute": data.compute,
            "set": set_and_compute,
            "run": lambda: session.run(None, feed),
            "binding": lambda: session.run_with_iobinding(binding),
        }
        times = interleave(calls, CLOCKS["cpu"], seconds=seconds)
        _check(data, session.run(None, feed), [o.name for o in session.get_outputs()])
    ns = {key: 1e9 * sample.median for key, sample in times.items()}
    ns["cell"] /= MANY
    row = [CELLS[name]]
    row += [f"{v:.0f}" for v in (ns["cell"], ns["compute"], ns["compute"] - ns["cell"], ns["set"])]
    row += [f"{ns['run']:.0f}", f"{ns['binding']:.0f}"]
    for over in (ns["run"] / ns["cell"], ns["binding"] / ns["cell"], ns["run"] / ns["compute"]):
        row.append(f"{over:.2f}")
    return row


def _session(model: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _binding(
    session: onnxruntime.InferenceSession, feed: dict[str, np.ndarray]
) -> onnxruntime.IOBinding:
    binding = session.io_binding()
    for key, value in feed.items():
        binding.bind_ortvalue_input(key, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return binding


def _check(data: object, expected: list[np.ndarray], names: list[str]) -> None:
    """Both sides answer alike: what is compared is the same computation."""
    for name, value in zip(names, expected, strict=True):
        found = data[name]  # type: ignore[index]
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()

"""Other runtimes to measure against: the same model, the same feed, as many threads.

Each is opened as its makers advise for one answer at a time: shapes fixed, float32 arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neuralsym.core.dim import Dim
from neuralsym.errors import BadAttribute
from neuralsym.network import Network


@dataclass(frozen=True)
class Peer:
    """An opened model of another runtime: `run(feed)` gives its outputs in the model's order."""

    name: str
    version: str
    run: Callable[[Mapping[str, Any]], Sequence[Any]]


@dataclass(frozen=True)
class _Job:
    """What a runtime is to open: the model as a file or as bytes, and for what."""

    model: str | bytes
    shapes: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, int]
    """Of the names of dimensions."""
    threads: int
    spinning: bool


def open_peer(
    name: str,
    network: Network,
    feed: Mapping[str, Any],
    model: Path | None = None,
    *,
    threads: int = 1,
    spinning: bool = False,
) -> Peer:
    """Open a network in the runtime called `name`, a key of PEERS; see `measure.measure`.

    Raises BadAttribute where the runtime is not installed or refuses the model.
    """
    from neuralsym.engines import onnx

    sizes: dict[str, int] = {}
    for port in network.inputs:
        if port.name in feed and port.shape is not None:
            for dim, size in zip(port.shape, np.shape(feed[port.name]), strict=True):
                if isinstance(dim, Dim) and dim.is_name:
                    sizes[str(dim)] = size
    # Files of other formats are ours alone to read.
    given = model is not None and model.suffix == ".onnx"
    job = _Job(
        str(model) if given else onnx.of_symbolic(network.model).SerializeToString(),
        {n: np.shape(v) for n, v in feed.items()},
        sizes,
        threads,
        spinning,
    )
    try:
        peer = PEERS[name](job)
        peer.run(feed)  # some refuse a model no earlier
        return peer
    except ImportError:
        raise BadAttribute(
            f"{name} is not installed: `pip install {name}`, or measure without it"
        ) from None
    except Exception as error:  # whatever their errors are called
        raise BadAttribute(f"{name} refuses {network.name!r}: {error}") from error


def _onnxruntime(job: _Job) -> Peer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(job.spinning)))
    for name, size in job.sizes.items():
        options.add_free_dimension_override_by_name(name, size)
    session = onnxruntime.InferenceSession(job.model, options, providers=["CPUExecutionProvider"])

    def run(feed: Mapping[str, Any]) -> Sequence[Any]:
        values: Sequence[Any] = session.run(None, feed)
        return values

    return Peer("onnxruntime", onnxruntime.__version__, run)


def _openvino(job: _Job) -> Peer:
    import openvino

    model = openvino.Core().read_model(job.model)
    model.reshape({name: list(shape) for name, shape in job.shapes.items()})
    settings = {
        "INFERENCE_NUM_THREADS": job.threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,  # the process is pinned as a whole
    }
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    count = len(model.outputs)

    def run(feed: Mapping[str, Any]) -> Sequence[Any]:
        results = request.infer(feed, share_inputs=True)
        return [results[i] for i in range(count)]

    return Peer("openvino", openvino.__version__.split("-")[0], run)


PEERS: dict[str, Callable[[_Job], Peer]] = {"onnxruntime": _onnxruntime, "openvino": _openvino}
"""What a network can be measured against."""

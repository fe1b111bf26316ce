"""What every test of an exported file does: load it, run it, write it, and run it again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import neuralsym
from neuralsym.cpu.library import Library
from neuralsym.engines import onnx as engine

Array = np.ndarray[Any, Any]


def agree(
    source: Path | bytes | onnx.ModelProto,
    feeds: Sequence[Any],
    wanted: Sequence[Any],
    *,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    library: Library | None = None,
) -> neuralsym.Network:
    """Check the results of a file, and of the file that is written from it.

    `feeds` are the inputs in order, `wanted` what the framework gives for them. A type that the
    file declares and that contradicts its nodes is no fault of ours.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*declares types that contradict")
        network = neuralsym.load(source, library=library)
    _compare(network, feeds, wanted, rtol, atol)
    file = engine.of_symbolic(network.model).SerializeToString()
    again = neuralsym.load(file, library=library)
    assert [str(p) for p in again.outputs] == [str(p) for p in network.outputs]
    _compare(again, feeds, wanted, rtol, atol)
    return network


def _compare(
    network: neuralsym.Network,
    feeds: Sequence[Any],
    wanted: Sequence[Any],
    rtol: float,
    atol: float,
) -> None:
    names = [port.name for port in network.inputs if not port.default]
    assert len(names) == len(feeds), f"{names} for {len(feeds)} arrays"
    results = list(network.run(dict(zip(names, feeds, strict=True))).values())
    assert len(results) == len(wanted)
    for got, want in zip(results, wanted, strict=True):
        _same(got, want, rtol, atol)


def _same(got: Any, want: Any, rtol: float, atol: float) -> None:
    if isinstance(want, list) and isinstance(got, list):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            _same(a, b, rtol, atol)
    elif isinstance(want, Mapping):
        assert sorted(got) == sorted(want)
        for key in want:
            np.testing.assert_allclose(got[key], want[key], rtol, atol)
    else:
        want = np.asarray(want)
        assert got.shape == want.shape
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want.astype(got.dtype), rtol, atol)
        else:
            np.testing.assert_array_equal(got, want)

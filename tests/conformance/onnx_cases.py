"""onnx's own backend suite as test parameters, and a comparison stricter than its runner's."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from neuralsym.cli import suite
from neuralsym.cli.suite import Case

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
COUNTS = {"node": 1884, "simple": 23, "pytorch-converted": 82, "pytorch-operator": 35}
"""Cases of each kind in onnx 1.23; a newer onnx has more."""
SAMPLE = 8
"""The default run takes one case in so many."""


@cache
def _collected() -> dict[str, Case]:
    return {case.name: case for case in suite.cases(KINDS)}


def names() -> list[str]:
    """All cases, as kind/test_name."""
    return list(_collected())


def sampled(names: Iterable[str], one_in: int = SAMPLE) -> list[Any]:
    """The names as test parameters: one in so many, by a hash, the others marked slow."""
    return [
        pytest.param(n, marks=pytest.mark.slow if zlib.crc32(n.encode()) % one_in else ())
        for n in names
    ]


def find(name: str) -> Case:
    """The case of that name, its values as arrays, lists of arrays, or None."""
    return _collected()[name]


def assert_same(value: Any, wanted: Any, rtol: float, atol: float, what: str) -> None:
    """Value, dtype, shape and kind of object are as wanted."""
    if isinstance(wanted, list):
        assert isinstance(value, Sequence), f"{what}: {type(value).__name__}, not a sequence"
        assert len(value) == len(wanted), f"{what}: {len(value)} elements, not {len(wanted)}"
        for k, (a, b) in enumerate(zip(value, wanted, strict=True)):
            assert_same(a, b, rtol, atol, f"{what}[{k}]")
        return
    if wanted is None:
        assert value is None, f"{what}: {value!r}, not None"
        return
    assert isinstance(value, np.ndarray), f"{what}: {type(value).__name__}, not an array"
    assert value.shape == wanted.shape, f"{what}: shape {value.shape}, not {wanted.shape}"
    assert value.dtype == wanted.dtype, f"{what}: {value.dtype}, not {wanted.dtype}"
    if wanted.dtype == object:
        assert value.tolist() == wanted.tolist(), what
        return
    if wanted.dtype.name == "bfloat16":
        rtol = max(rtol, 2.0**-6)  # two units in the last place, as in the suite's runner
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(value, wanted, err_msg=what)
        return
    if wanted.dtype.kind != "c":
        value, wanted = value.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(value, wanted, rtol=rtol, atol=atol, err_msg=what)

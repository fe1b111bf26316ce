"""onnx's own backend suite, as cases that can be run on an engine and compared.

The node cases are made by onnx's Python code, the others lie as files in its package; one form
for both here. Comparisons are those of the suite's own runner, and stricter where it forgets.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
COUNTS = {"node": 1884, "simple": 23, "pytorch-converted": 82, "pytorch-operator": 35}
"""Cases of each kind in onnx 1.23; a newer onnx has more."""
SAMPLE = 8
"""The default run takes one case in so many."""


class Case(NamedTuple):
    """A model with what it is fed and what it must give, one list of each for every data set."""

    model: ModelProto
    data_sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


@cache
def _collected() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite divides by zero to make its cases
        from onnx.backend.test.loader import load_model_tests

        return {f"{kind}/{c.name}": c for kind in KINDS for c in load_model_tests(kind=kind)}


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
    made = _collected()[name]
    if made.model is not None:
        sets = [([plain(v) for v in i], [plain(v) for v in o]) for i, o in made.data_sets]
        return Case(made.model, sets, made.rtol, made.atol)
    folder = Path(made.model_dir)
    model = onnx.load(str(folder / "model.onnx"))
    stored = {t.name for t in model.graph.initializer}
    fed = [i for i in model.graph.input if i.name not in stored]
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        inputs = [_read(data / f"input_{k}.pb", v) for k, v in enumerate(fed)]
        outputs = [_read(data / f"output_{k}.pb", v) for k, v in enumerate(model.graph.output)]
        sets.append((inputs, outputs))
    return Case(model, sets, made.rtol, made.atol)


def _read(path: Path, declared: onnx.ValueInfoProto) -> Any:
    kinds = {
        "tensor_type": onnx.TensorProto,
        "sequence_type": onnx.SequenceProto,
        "optional_type": onnx.OptionalProto,
    }
    value = kinds[declared.type.WhichOneof("value")]()
    value.ParseFromString(path.read_bytes())
    return plain(value)


def plain(value: Any) -> Any:
    """A value of the suite as an array (strings as objects), a list, or None."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return plain(numpy_helper.to_list(value))
    if isinstance(value, onnx.OptionalProto):
        return plain(numpy_helper.to_optional(value))
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "USO":
        words = [v.decode() if isinstance(v, bytes) else v for v in value.ravel().tolist()]
        strings = np.empty(len(words), object)
        strings[:] = words
        return strings.reshape(value.shape)
    return value


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

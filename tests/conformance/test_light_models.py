"""The nine `light_*` networks of the onnx package: loaded, run, written back, run elsewhere.

They are IR 3, opset 9, with all weights listed as inputs; the package stores their outputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.backend.test.case.model import collect_testcases

from neuralsym import load
from neuralsym.engines import onnx as engine

FOLDER = Path(onnx.backend.test.__file__).parent / "data" / "light"
CASES = {case.name: case for case in collect_testcases() if case.url and "/light_" in case.url}


def test_all_nine_are_here() -> None:
    assert len(CASES) == 9


QUICK = {"test_resnet50", "test_shufflenet", "test_squeezenet"}


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in sorted(CASES)]
)
def test_light_model(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = FOLDER / f"light_{case.model_name.removeprefix('light_')}.onnx"
    network = load(path)
    assert len(network.inputs) == 1, "below IR 4 an initializer that is listed as input is constant"
    port = network.inputs[0]
    feed = {port.name: ramp(tuple(port.shape or ()))}
    expected = read_tensor(path.with_name(f"{path.stem}_output_0.pb"))

    (result,) = network.run(feed).values()
    np.testing.assert_allclose(result, expected, rtol=case.rtol, atol=case.atol)

    saved = engine.save(network.model, tmp_path / "again.onnx")
    onnx.checker.check_model(str(saved[0]), full_check=True)
    session = onnxruntime.InferenceSession(str(saved[0]), providers=["CPUExecutionProvider"])
    (other,) = session.run(None, feed)
    np.testing.assert_allclose(other, expected, rtol=case.rtol, atol=case.atol)


def ramp(shape: tuple[Any, ...]) -> NDArray[np.float32]:
    """The input that the package's runner feeds: values rising from 0 to 1."""
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def read_tensor(path: Path) -> NDArray[Any]:
    proto = onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(proto)

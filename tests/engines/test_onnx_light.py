"""The 9 `light_*` models of the onnx package: IR 3, opset 9, all weights listed as inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from neuralsym.core.leaves import Constant, Variable, Weight
from neuralsym.engines import onnx as engine

LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))


@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_light_models(path: Path, tmp_path: Path) -> None:
    """IR 3, opset 9, all weights listed as inputs: one input is left."""
    proto = onnx.load(str(path))
    assert proto.ir_version == 3
    model = engine.read_model(path)
    stored = {t.name for t in proto.graph.initializer}
    assert model.graph.input_names == tuple(
        i.name for i in proto.graph.input if i.name not in stored
    )
    assert model.graph.output_names == tuple(o.name for o in proto.graph.output)
    assert {n for node_ in proto.graph.node for n in node_.output} >= {
        model.graph.value_name(s)
        for n in model.graph.nodes
        for s in n.outputs
        if n.op not in (Variable, Weight, Constant) and n.where and n.name
    }
    model.graph.check()
    (written,) = engine.save(model, tmp_path / "again.onnx")
    onnx.checker.check_model(str(written), full_check=True)
    assert engine.of_symbolic(engine.read_model(written)) == engine.load(written)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "path",
    [
        p if "shuffle" in p.stem or "squeeze" in p.stem else pytest.param(p, marks=pytest.mark.slow)
        for p in LIGHT
    ],
    ids=lambda p: p.stem,
)
def test_light_models_compute_the_same(path: Path) -> None:
    graph = engine.to_symbolic(path)
    ((name, shape),) = [(s.name, s.shape) for s in graph.inputs]
    feed = {name: np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    values = []
    for model in (path.read_bytes(), engine.of_symbolic(graph).SerializeToString()):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        values.append(onnxruntime.InferenceSession(model, options).run(None, feed)[0])
    np.testing.assert_allclose(values[1], values[0], rtol=1e-4, atol=1e-6)

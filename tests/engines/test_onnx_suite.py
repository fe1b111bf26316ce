"""onnx's own backend suite: every model is read, written, and is the same when read again."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import onnx
import pytest

from neuralsym.engines import onnx as engine
from neuralsym.engines.onnx.checking import check_draft
from neuralsym.engines.onnx.write import draft

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


@cache
def cases() -> dict[str, object]:
    import warnings

    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite divides by zero to make its cases
        return {f"{kind}/{c.name}": c for kind in KINDS for c in load_model_tests(kind=kind)}


def comes_back(name: str) -> str:
    """What is wrong with the round trip of a case; nothing when it is right."""
    case = cases()[name]
    model = case.model  # type: ignore[attr-defined]
    if model is None:
        model = onnx.load(str(Path(case.model_dir) / "model.onnx"))  # type: ignore[attr-defined]
    read = engine.read_model(model.SerializeToString())
    stored = {t.name for t in model.graph.initializer}
    overridable = model.ir_version >= 4
    inputs = [i.name for i in model.graph.input if overridable or i.name not in stored]
    if [*read.graph.input_names] != inputs:
        return f"inputs {read.graph.input_names}, not {inputs}"
    if [*read.graph.output_names] != [o.name for o in model.graph.output]:
        return f"outputs {read.graph.output_names}"
    check_draft(draft(read))
    written = engine.of_symbolic(read)
    if engine.of_symbolic(engine.read_model(written)) != written:
        return "another model when read again"
    return ""


@pytest.mark.filterwarnings("ignore:.*declares types that contradict")
def test_a_sample_of_the_suite() -> None:
    sample = [name for name in cases() if zlib.crc32(name.encode()) % 16 == 0]
    assert len(sample) > 100
    assert {name: wrong for name in sample if (wrong := comes_back(name))} == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*declares types that contradict")
@pytest.mark.parametrize("part", range(16))
def test_the_whole_suite(part: int) -> None:
    names = [n for n in cases() if zlib.crc32(n.encode()) % 16 == part]
    assert {n: wrong for n in names if (wrong := comes_back(n))} == {}

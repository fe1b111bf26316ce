"""docs/operators.md says what the code says; how it is made, and the command that makes it."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from neuralsym.cli import main, operators, suite
from neuralsym.cli.operators import PAGE, Row, Stored, rows, stored, stored_tallies, ways
from neuralsym.core.op import OPS
from neuralsym.engines.onnx.opsets import history

AGAIN = "run `neuralsym doctor --ops --cases --write docs/operators.md`"


@pytest.fixture(scope="module")
def found() -> list[Row]:
    return rows()


def test_every_operator_is_there(found: list[Row]) -> None:
    keys = [row.key for row in found]
    assert len(keys) == len(set(keys))
    assert set(keys) >= history().keys(), "all that onnx knows"
    apart = ("neuralsym", "test")  # the compiler's own, and those that other tests define
    assert set(keys) >= {key for key in OPS if not key[0].startswith(apart)}
    assert all(row.versions and row.ways for row in found)


def test_the_page_is_what_the_code_says(found: list[Row]) -> None:
    kept = stored()
    assert kept.keys() == {row.key for row in found}, AGAIN
    told = {row.key: row.cells(None)[1:3] for row in found}
    assert {key: line[:2] for key, line in kept.items()} == told, AGAIN


def test_the_page_counts_every_case_of_the_suite() -> None:
    expected: Counter[suite.Key] = Counter()
    for case in suite.cases():
        expected.update(suite.held(case.model))
    tallies = stored_tallies()
    assert {key: tally.cases for key, tally in tallies.items()} == dict(expected), AGAIN
    for key, tally in tallies.items():
        assert 0 <= tally.passed <= tally.cases, key
        assert 0 <= tally.host <= tally.cases, key


def test_how_an_operator_runs() -> None:
    assert ways("", "Add") == ("loop",)
    assert "conv" in ways("", "Conv")[0].removeprefix("kernel (").rstrip(")").split(", ")
    assert ways("", "If") == ("control",)
    assert ways("", "NonZero") == ("compiled loops",)
    assert ways("", "StringNormalizer") == ("host",)
    assert ways("", "Shape")[0] == "sizes"
    assert ways("", "Constant") == ("constant",)
    assert ways("", "Upsample") == ("read as other operators",)
    assert ways("", "Celu") == ("loop", "function body")
    assert "expansion" in ways("ai.onnx.preview.training", "Adam")


def test_numeric_operators_do_not_run_on_the_host_alone(found: list[Row]) -> None:
    """Only strings, regular expressions, images, sequences, optionals and maps may."""
    allowed = {
        *("ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement"),
        *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
        *("SequenceLength", "SplitToSequence", "StringConcat", "StringNormalizer", "StringSplit"),
        *("RegexFullMatch", "ImageDecoder", "TfIdfVectorizer"),
        *("CastMap", "DictVectorizer", "ZipMap"),
    }
    assert {row.name for row in found if row.ways == ("host",)} <= allowed


# -- counting ------------------------------------------------------------------------------------
def model(op: str, **attrs: object) -> object:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(op, ["x"], ["y"], **attrs)
    return helper.make_model(
        helper.make_graph([node], "g", [x], [y]),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=9,
    )


X = np.arange(3, dtype=np.float32)


def test_what_a_case_comes_to() -> None:
    right = suite.Case("node/right", model("Neg"), [([X], [-X])], 1e-3, 1e-7)
    assert suite.outcome(right) == ("", set())
    wrong = right._replace(data=[([X], [X])])
    assert suite.outcome(wrong)[0].startswith("Not equal to tolerance")
    other_type = right._replace(data=[([X], [-X.astype(np.float64)])])
    assert suite.outcome(other_type)[0]
    unknown = right._replace(model=model("Nonsense"))
    assert "Nonsense" in suite.outcome(unknown)[0]
    drawn = right._replace(model=model("RandomUniformLike"))
    assert suite.outcome(drawn)[0] == suite.RANDOM


def test_operators_inside_of_bodies_and_functions_count() -> None:
    inner = helper.make_node("Neg", ["a"], ["b"])
    function = helper.make_function(
        "mine", "F", ["a"], ["b"], [inner], [helper.make_opsetid("", 20)]
    )
    branch = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["c"])],
        "branch",
        [],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, [3])],
    )
    nodes = [
        helper.make_node("F", ["x"], ["z"], domain="mine"),
        helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch),
    ]
    graph = helper.make_graph(nodes, "g", [], [])
    made = helper.make_model(graph, functions=[function])
    assert suite.held(made) == {("", "Neg"), ("", "Abs"), ("", "If")}


# -- the command ---------------------------------------------------------------------------------
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--ops"]) == 0
    out = capsys.readouterr().out
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert " loop" in lines["Add"]
    assert "1, 6, 7, 13, 14" in lines["Add"]
    assert "ai.onnx.ml.Scaler" in lines
    assert "com.microsoft.FusedConv" in lines
    assert "--cases runs onnx's suite" in out
    assert main(["doctor", "--ops", "reduce*"]) == 0
    out = capsys.readouterr().out
    assert "ReduceSum" in out
    assert "Softmax" not in out
    assert main(["doctor", "--ops", "Convv"]) == 1
    assert "did you mean 'Conv'" in capsys.readouterr().err


def test_the_command_writes_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: list[Row]
) -> None:
    count = suite.Count(
        {"node": suite.Tally(3, 2, 1)},
        {("", "Add"): suite.Tally(3, 2, 0), ("ai.onnx.ml", "Scaler"): suite.Tally(1, 1, 1)},
        {"node/test_add": "it is wrong"},
    )
    monkeypatch.setattr(operators, "count_cases", lambda: count)
    path = tmp_path / "page.md"
    given = argparse.Namespace(ops="*", cases=True, write=str(path))
    assert operators.show(given) == 1
    text = path.read_text("utf-8")
    assert "2 of 3 cases pass: node 2 of 3." in text
    assert "* `node/test_add`: it is wrong" in text
    assert stored(path)["", "Add"] == Stored("1, 6, 7, 13, 14", "loop", "2 of 3", "")
    assert stored_tallies(path) == count.operators
    assert stored(path).keys() == {row.key for row in found}
    count.failed["node/test_add"] = suite.RANDOM
    assert operators.show(given) == 0, "what cannot be compared is no failure"
    assert stored(tmp_path / "nothing.md") == {}
    assert PAGE.name == "operators.md"


def test_flags_that_belong_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--cases"]) == 1
    assert "belong to --ops" in capsys.readouterr().err

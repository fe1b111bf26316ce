"""DOT: a statement for each box and edge, clusters for scopes, strings that stay strings."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from neuralsym import Graph, ops, zoo
from neuralsym.engines import dot
from neuralsym.engines.dot.caption import is_telling, short, times, type_text
from neuralsym.engines.dot.outline import outline
from neuralsym.errors import BadAttribute, FormatError

STRING = r'"(?:[^"\\]|\\.)*"'
ATTRIBUTES = rf"\[(?:\w+=(?:{STRING}|[\w]+)(?:, )?)+\]"
STATEMENTS = {
    "node": re.compile(rf" *n\d+ {ATTRIBUTES}"),
    "edge": re.compile(rf"  n\d+ -> n\d+ {ATTRIBUTES}"),
    "cluster": re.compile(rf' *subgraph "cluster_\d+" \{{ (?:\w+={STRING};? ?)+'),
    "default": re.compile(r"  (?:graph|node|edge) \[.*\]"),
    "end": re.compile(r" *\}"),
}


def statements(text: str) -> dict[str, list[str]]:
    """The lines of a document by their kinds, each one whole."""
    first, *lines = text.splitlines()
    assert re.fullmatch(rf"digraph {STRING} \{{", first)
    found: dict[str, list[str]] = {kind: [] for kind in STATEMENTS}
    level = 1
    for line in lines:
        kind = next(k for k, pattern in STATEMENTS.items() if pattern.fullmatch(line))
        found[kind].append(line)
        level += (kind == "cluster") - (kind == "end")
        assert level >= 0
    assert level == 0
    return found


def small() -> Graph:
    x = ops.variable("x", ("N", 4))
    kernel = ops.constant([[1.0] * 3] * 4)
    return Graph({"y": ops.softmax(ops.relu(x @ kernel), axis=0)}, name="small")


def test_a_small_graph() -> None:
    text = dot.of_symbolic(small())
    found = statements(text)
    assert len(found["node"]) == 5
    assert [re.findall(r'label="(.*?)"', line)[0] for line in found["node"]] == [
        "x\\nfloat32[N, 4]",
        "MatMul\\nB 4×3",
        "Relu",
        "Softmax axis 0",
        "y\\nfloat32[N, 3]",
    ]
    assert [re.findall(r"n\d+ -> n\d+", line)[0] for line in found["edge"]] == [
        f"n{i} -> n{i + 1}" for i in range(4)
    ]
    assert 'label="N×4"' in found["edge"][0]
    assert text == dot.of_symbolic(small())


@pytest.mark.parametrize("depth", [0, 1, None])
def test_scopes_are_clusters(depth: int | None) -> None:
    graph = zoo.create("resnet18").graph
    found = statements(dot.of_symbolic(graph, depth))
    made = outline(graph)
    view = made.view(made.depth if depth is None else depth)
    assert len(found["node"]) == len(view.shown())
    assert len(found["edge"]) == len(view.links())
    assert len(found["cluster"]) == len(view.opened) - 1
    if depth == 0:
        assert any("stage1" in line and "peripheries=2" in line for line in found["node"])


def test_what_is_in_names_stays_in_their_strings() -> None:
    hostile = '"]; evil [label="<b>&amp;\\n\\" } {'
    x = ops.variable(hostile, (2,))
    graph = Graph({f"{hostile} out": ops.relu(x, name=f"{hostile}/op")}, name=hostile)
    found = statements(dot.of_symbolic(graph))
    assert len(found["node"]) == 3


def test_bodies_are_clusters_and_feeding_is_dashed() -> None:
    x = ops.variable("x", ("N", 4))
    y = ops.if_(ops.variable("flag", (), "bool"), lambda: ops.relu(x), lambda: ops.tanh(x))
    z = ops.loop(3, None, lambda i, s: s * 2.0, y)
    text = dot.of_symbolic(Graph({"z": z}))
    found = statements(text)
    for name in ("then_branch", "else_branch", "body"):
        assert any(f'label="{name}"' in line for line in found["cluster"])
    assert "style=dashed" in text


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "small.dot"
    dot.save(small(), path)
    text = path.read_text(encoding="utf-8")
    assert text == dot.of_symbolic(small())
    dot.save(text, path)
    assert path.read_text(encoding="utf-8") == text
    with pytest.raises(FormatError, match="there is no folder"):
        dot.save(small(), tmp_path / "no" / "small.dot")
    with pytest.raises(FormatError, match="is a folder"):
        dot.save(small(), tmp_path)
    with pytest.raises(FormatError, match="written only"):
        dot.load(path)
    with pytest.raises(FormatError, match="written only"):
        dot.to_symbolic(text)
    with pytest.raises(BadAttribute, match="depth is -2"):
        dot.of_symbolic(small(), -2)


def test_graphviz_reads_it(tmp_path: Path) -> None:
    program = shutil.which("dot")
    if program is None:
        pytest.skip("Graphviz is not installed")
    path = tmp_path / "net.dot"
    dot.save(zoo.create("resnet18").graph, path)
    made = subprocess.run([program, "-Tplain", str(path)], capture_output=True, check=True)
    assert made.stdout.startswith(b"graph")


def test_words() -> None:
    x = ops.variable("x", ("N", 3, "H", None))
    assert type_text(x.type) == "N×3×H×?"
    assert type_text(ops.variable("i", (), "int64").type) == "int64 scalar"
    assert times(ops.variable("x", ("N + 1", 2)).tensor.shape or ()) == "N + 1 × 2"
    assert short("a" * 50, 10) == "a" * 9 + "…"
    assert short("a\x00b\nc") == "a b c"
    assert is_telling("fc", "Gemm") and is_telling("conv1", "Conv")
    for name in ("Conv_output_0", "conv", "conv_12", "Conv_3_output_0"):
        assert not is_telling(name, "Conv")
    assert not is_telling("378") and not is_telling("onnx::MatMul_378")

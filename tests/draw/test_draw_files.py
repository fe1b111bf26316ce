"""Pictures as files: well-formed, of themselves alone, the same bytes each time, honest errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from neuralsym import Graph, Network, draw, load, ops, zoo
from neuralsym.cli import main
from neuralsym.core.model import Model
from neuralsym.engines import flow
from neuralsym.engines.dot.outline import outline
from neuralsym.errors import BadAttribute, FormatError

SVG = "{http://www.w3.org/2000/svg}"
NASTY = """</script><script>alert("1")</script> & 'x' {{body}} \\n ]]> <!-- é 漢字"""


def small() -> Network:
    return zoo.create("lstm_text")


def nasty() -> Graph:
    x = ops.variable(f"in {NASTY}", ("N", 4))
    return Graph({f"out {NASTY}": ops.relu(ops.exp(x, name=f"op {NASTY}"))}, name=f"net {NASTY}")


class Page(HTMLParser):
    """The elements of a page, with a check that each is closed where it must be."""

    VOID = ("meta", "input", "br", "rect", "path")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_an_svg_is_well_formed_and_has_each_box_once() -> None:
    graph = zoo.create("resnet18").graph
    for depth in (0, 1, 9):
        root = ElementTree.fromstring(draw.svg(graph, depth))
        assert root.tag == f"{SVG}svg"
        named = Counter(g.get("data-name") for g in root.iter(f"{SVG}g") if g.get("data-name"))
        view = outline(graph).view(depth)
        assert named == Counter(part.name for part in view.shown())
        opened = {g.get("data-group") for g in root.iter(f"{SVG}g") if g.get("data-group")}
        assert opened == {group.name for group in view.opened if group.parent}
        for text in root.iter(f"{SVG}text"):
            assert text.text


def test_names_are_escaped() -> None:
    graph = nasty()
    root = ElementTree.fromstring(draw.svg(graph))
    names = {g.get("data-name") for g in root.iter(f"{SVG}g")}
    assert {f"in {NASTY}", f"op {NASTY}", f"out {NASTY}"} <= names
    page = Page(draw.html(graph))
    assert sum(tag == "script" for tag, _ in page.found) == 1
    assert {f"in {NASTY}", f"op {NASTY}"} <= {attrs.get("data-name") for _, attrs in page.found}


def test_a_page_refers_to_nothing_outside_itself() -> None:
    for text in (draw.html(small().graph), draw.html(nasty())):
        page = Page(text)
        assert not {"link", "img", "iframe", "object", "base"} & {tag for tag, _ in page.found}
        assert not {"src", "href", "onload", "onclick"} & {
            a for _, attrs in page.found for a in attrs
        }
        assert set(re.findall(r"https?:[^\s\"']*", text)) == {"http://www.w3.org/2000/svg"}
        assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", text)


def test_the_script_of_a_page_knows_every_box_and_wire() -> None:
    graph = zoo.create("resnet18").graph
    text = draw.html(graph)
    made = outline(graph)
    details = json.loads(re.search(r"const DETAILS = (.*);", text)[1])  # type: ignore[index]
    wires = json.loads(re.search(r"const WIRES = (.*);", text)[1])  # type: ignore[index]
    page = Page(text)
    numbers = [int(a["data-i"] or -1) for _, a in page.found if "data-i" in a]
    assert sorted(numbers) == list(range(len(details)))
    names = {int(a["data-i"] or -1): a["data-name"] for _, a in page.found if "data-name" in a}
    assert Counter(names.values()) == Counter(box.name for box in made.boxes)
    ends = Counter((names[path[0]], names[path[-1]], value) for path, value, _, _ in wires)
    assert ends == Counter({(w.source.name, w.target.name, w.value): 1 for w in made.wires})
    stem = next(i for i, name in names.items() if name == "stem/conv_bn/conv2d")
    assert "strides: (2, 2)" in details[stem]
    closed = sum("closed" in (a.get("class") or "").split() for _, a in page.found)
    assert closed == len(made.groups) - len(made.view().opened)


def test_the_script_is_well_formed(tmp_path: Path) -> None:
    import shutil

    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script = re.search(r"<script>(.*)</script>", draw.html(nasty()), re.S)
    assert script
    file = tmp_path / "page.js"
    file.write_text(script[1], encoding="utf-8")
    subprocess.run([node, "--check", str(file)], check=True, timeout=60)


@pytest.mark.parametrize("suffix", draw.SUFFIXES)
def test_the_same_graph_gives_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        path = zoo.create("mobilenet_v3_small").plot(tmp_path / f"{name}{suffix}")
        assert path == tmp_path / f"{name}{suffix}"
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_nothing_is_drawn_for_a_picture() -> None:
    network = zoo.create("lstm_text")
    draw.svg(network.graph)
    draw.html(network.graph)
    assert not any(w.node.attrs["value"].is_drawn for w in network.graph.weights)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    network = small()
    for name in ("net.png", "net", "net.SVGZ"):
        with pytest.raises(FormatError, match=r"a picture is \.svg, \.html or \.dot"):
            network.plot(tmp_path / name)
    (tmp_path / "folder.svg").mkdir()
    for suffix in draw.SUFFIXES:
        with pytest.raises(FormatError, match="there is no folder"):
            network.plot(tmp_path / "nowhere" / f"net{suffix}")
    with pytest.raises(FormatError, match="is a folder"):
        network.plot(tmp_path / "folder.svg")
    for suffix in draw.SUFFIXES:
        with pytest.raises(BadAttribute, match="depth is -1"):
            network.plot(tmp_path / f"net{suffix}", depth=-1)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.svg"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tmp_path / "small.onnx")
    small().save(model)
    for suffix in draw.SUFFIXES:
        assert main(["draw", model, "-o", str(tmp_path / f"small{suffix}"), "--depth", "0"]) == 0
        assert f"wrote {tmp_path / f'small{suffix}'}" in capsys.readouterr().out
    names = {g.get("data-name") for g in ElementTree.parse(tmp_path / "small.svg").iter(f"{SVG}g")}
    assert "lstm" in names and "lstm/lstm" not in names
    assert main(["draw", model, "-o", str(tmp_path / "small.gif")]) == 1
    assert "a picture is" in capsys.readouterr().err
    assert main(["draw", model, "-o", str(tmp_path / "no" / "small.svg")]) == 1
    with pytest.raises(SystemExit):
        main(["draw", model, "-o", "small.svg", "--depth", "-1"])


def test_a_saved_network_is_drawn_as_the_one_that_was_saved(tmp_path: Path) -> None:
    network = zoo.create("resnet18")
    network.save(tmp_path / "net.onnx")
    names = [
        [part.name for part in outline(n.graph).view(1).shown()]
        for n in (network, load(tmp_path / "net.onnx"))
    ]
    assert [n.replace("fc", "logits") for n in names[0]] == names[1]  # a file has one name for both


def test_the_functions_of_a_flow_are_drawn_side_by_side(tmp_path: Path) -> None:
    x, z = ops.variable("x", (4,)), ops.variable("z", (4,))
    first = Graph({"a": ops.relu(x)}, name="first")
    second = Graph({"b": ops.tanh(z) + 1.0}, name="second")
    flow.save(Model({"first": first, "second": second}), tmp_path / "two.flow")
    network = load(tmp_path / "two.flow")
    root = ElementTree.parse(network.plot(tmp_path / "two.svg"))
    assert {"first", "second"} <= {g.get("data-group") for g in root.iter(f"{SVG}g")}
    text = network.plot(tmp_path / "two.dot").read_text(encoding="utf-8")
    assert text.startswith('digraph "first, second"')
    assert text.count("subgraph") == 2


def test_notebooks_show_a_drawing() -> None:
    network = small()
    text = network._repr_html_()
    assert text == network.graph._repr_html_()
    assert "<style" not in text and "<script" not in text and "id=" not in text, "it is not alone"
    inside = text[text.index("<svg") : text.index("</svg>") + 6]
    assert ElementTree.fromstring(inside).tag == f"{SVG}svg"
    assert "#ffffff" in text, "white also where the notebook is dark"
    y = ops.variable("x", (4,))
    for _ in range(draw.LARGEST):
        y = ops.relu(y)
    large = Graph({"y": y}, name="<large>")._repr_html_()
    assert len(large) < 300 and "&lt;Graph '&lt;large&gt;'" in large and "602 boxes" in large


def test_the_page_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = Path(__file__).parents[2] / "docs"
    monkeypatch.chdir(tmp_path)
    for block in re.findall(
        r"```python\n(.*?)```", (docs / "pictures.md").read_text("utf-8"), re.S
    ):
        exec(block, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lstm_text.html", "lstm_text.svg"]
    shown = (docs / "lstm_text.svg").read_text("utf-8")
    assert shown == (tmp_path / "lstm_text.svg").read_text("utf-8"), "plot it anew: it has changed"


def test_what_needs_no_picture_loads_no_drawing() -> None:
    program = "import neuralsym, neuralsym.network, sys; print('neuralsym.draw' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"

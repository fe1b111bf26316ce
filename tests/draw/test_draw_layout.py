"""Layouts: every node once, boxes apart, lines from box to box that cross no other."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import Graph, draw, ops, zoo
from neuralsym.core.leaves import Constant, Weight
from neuralsym.draw.layers import Link, arrange
from neuralsym.draw.place import Frame, Layout, lines_of, place, title_of
from neuralsym.draw.text import SIZE, SMALL, width
from neuralsym.engines.dot.caption import OUTPUT, derived
from neuralsym.engines.dot.outline import Box, Group, outline
from neuralsym.errors import BadAttribute

NETS = ("resnet18", "inception_v3", "lstm_text", "mobilenet_v3_small", "vit_b_16")


def layout(graph: Graph, depth: int | None = None) -> Layout:
    return place(outline(graph).view(depth))


def apart(a: Frame, b: Frame) -> bool:
    return (
        a.x + a.width <= b.x
        or b.x + b.width <= a.x
        or a.y + a.height <= b.y
        or b.y + b.height <= a.y
    )


def overlaps(frames: list[Frame]) -> Iterator[tuple[Frame, Frame]]:
    """Pairs that overlap, of frames in the order of y."""
    frames = sorted(frames, key=lambda f: f.y)
    for i, a in enumerate(frames):
        for b in frames[i + 1 :]:
            if b.y >= a.y + a.height:
                break
            if not apart(a, b):
                yield a, b


def check(made: Layout) -> None:
    """What holds of every layout."""
    shown = made.view.shown()
    frames = {part: made.frames[part] for part in shown}
    assert not list(overlaps(list(frames.values())))
    whole = made.frames[made.view.outline.whole]
    for group in made.view.opened:
        around = made.frames[group]
        inside = [made.frames[part] for part in group.parts]
        assert not list(overlaps(inside))
        for own in inside:
            assert own.x >= around.x
            assert own.y >= around.y
            assert own.x + own.width <= around.x + around.width + 0.01
            assert own.y + own.height <= around.y + around.height + 0.01
    assert len(made.lines) == len(made.view.links())
    starts: dict[tuple[object, str], set[tuple[float, float]]] = {}
    for line in made.lines:
        source, target = frames[line.source], frames[line.target]
        (x, y), (u, v) = line.points[0], line.points[-1]
        drawn = starts.setdefault((line.source, line.wire.value), set())
        leaves = abs(y - source.y - source.height) < 0.01 and abs(x - middle(source)) < 0.01
        assert leaves or (x, y) in drawn, "a line begins at its box, or on a line of its value"
        drawn.update(line.points)
        assert abs(v - target.y) < 0.01
        assert target.x <= u <= target.x + target.width
        assert all(0 <= a <= whole.width and 0 <= b <= whole.height for a, b in line.points)


def middle(frame: Frame) -> float:
    return frame.x + frame.width / 2


def crossed(made: Layout) -> Iterator[str]:
    """Lines that run through boxes; what bends lies in the rectangle of its ends."""
    frames = [(part, made.frames[part]) for part in made.view.shown()]
    for line in made.lines:
        for (x, y), (u, v) in pairwise(line.points):
            piece = Frame(min(x, u) - 0.05, min(y, v) + 0.1, abs(u - x) + 0.1, abs(v - y) - 0.2)
            if piece.height < 0 and abs(u - x) < 0.1:
                continue
            for part, frame in frames:
                if not apart(piece, frame):
                    yield f"{line.wire.value} through {part.name}"


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("depth", [0, None, pytest.param(9, marks=pytest.mark.slow)])
def test_networks_of_the_zoo(name: str, depth: int | None) -> None:
    made = layout(zoo.create(name).graph, depth)
    check(made)
    assert not list(crossed(made))


@pytest.mark.parametrize("name", NETS)
def test_every_operator_has_one_box_and_every_weight_counts_once(name: str) -> None:
    network = zoo.create(name)
    graph = network.graph
    made = outline(graph)
    beside = derived(graph)
    inputs, outputs = set(graph.input_names), list(graph.output_names)
    wanted = Counter(outputs)
    wanted.update(
        graph.names[n] for n in graph.nodes if n.op not in (Weight, Constant) and n not in beside
    )
    assert Counter(box.name for box in made.boxes) == wanted
    assert inputs <= wanted.keys()
    totals = network.summary(as_dict=True)
    assert totals is not None
    assert made.whole.parameters == totals["parameters"]
    top = [part for part in made.whole.parts if isinstance(part, Group)]
    assert made.whole.operators == len(made.boxes) - len(inputs) - len(outputs)
    assert sum(group.operators for group in top) <= made.whole.operators
    for depth in range(made.depth + 1):
        view = made.view(depth)
        assert set(view.ends) == set(made.boxes)
        assert len(view.shown()) == len(set(view.shown()))


def test_resnet50_reads_as_stem_stages_and_blocks_on_one_page() -> None:
    graph = zoo.create("resnet50").graph
    closed = [part.name for part in outline(graph).view(0).shown()]
    assert closed[:6] == ["input", "stem", "stage1", "stage2", "stage3", "stage4"]
    made = layout(graph)
    names = [part.name for part in made.view.shown()]
    assert names.count("stage3/block6") == 1
    page = made.frames[made.view.outline.whole]
    assert page.width < 1000
    assert page.height < 1300, "long chains are folded into columns"
    block = next(part for part in made.view.shown() if part.name == "stage2/block1")
    assert isinstance(block, Group)
    assert lines_of(block) == ("bottleneck · 381,952 parameters",)
    assert "N×512×28×28" in {label.text for label in made.labels}


def test_boxes_say_settings_and_weights_in_short() -> None:
    made = outline(zoo.create("resnet18").graph)
    said = {box.name: box.caption for box in made.boxes}
    stem = said["stem/conv_bn/conv2d"]
    assert (stem.title, stem.lines) == ("Conv 7×7", ("stride 2, pad 3", "kernel 64×3×7×7"))
    norm = said["stem/conv_bn/normalisation"]
    assert norm.lines[-1] == "gamma, beta, mean, variance 64"
    assert said["fc"].lines == ("fc", "kernel 512×1000", "bias 1000")
    assert any("pads: (3, 3, 3, 3)" in line for line in stem.detail)


def test_text_is_narrower_than_its_box() -> None:
    made = layout(zoo.create("vit_b_16").graph, 9)
    for part in made.view.shown():
        frame = made.frames[part]
        assert width(title_of(part), SIZE, bold=True) < frame.width - 8
        assert all(width(line, SMALL) < frame.width - 8 for line in lines_of(part))


def test_the_estimate_of_widths_is_not_below_a_font() -> None:
    fonts = pytest.importorskip("PIL.ImageFont")
    try:
        plain = fonts.truetype("DejaVuSans.ttf", 100)
        bold = fonts.truetype("DejaVuSans-Bold.ttf", 100)
    except OSError:
        pytest.skip("DejaVu Sans is not installed")
    words = ("BatchNormalization", "kernel 64×3×7×7", "stride 2, pad (0, 1, 0, 1)", "WwMm@_ijl")
    for word in (*words, "encoder_block · 7,087,872 parameters", "N × (H + 1)//2 × W"):
        assert width(word, 100) >= plain.getlength(word) * 0.98
        assert width(word, 100, bold=True) >= bold.getlength(word) * 0.97


def test_depth_is_checked() -> None:
    made = outline(zoo.create("lstm_text").graph)
    for depth in (-1, 1.5, True, "1"):
        with pytest.raises(BadAttribute, match="depth"):
            made.view(depth)  # type: ignore[arg-type]
    assert made.view(1000).opened == frozenset(made.groups)


def test_names_of_files_give_scopes() -> None:
    x = ops.variable("x", (4,))
    y = x
    for name in ("a.0.relu", "a.0.tanh", "a.1.relu", "a.1.exp", "head"):
        y = ops.relu(y, name=name)
    made = outline(Graph({"y": y}))
    assert [group.name for group in made.groups] == ["", "a", "a/0", "a/1"]
    slashes = ops.relu(ops.relu(ops.relu(x, name="/b/c/one.1"), name="/b/c/two.1"), name="/b/d")
    assert [g.name for g in outline(Graph({"y": slashes})).groups] == ["", "b", "b/c"]


def test_bodies_are_groups_beside_their_node() -> None:
    x = ops.variable("x", ("N", 4))
    flag = ops.variable("flag", (), "bool")
    y = ops.if_(flag, lambda: ops.relu(x), lambda: ops.tanh(x) * 2.0)
    z = ops.loop(3, None, lambda i, s: ops.sigmoid(s) + x, y)
    graph = Graph({"z": z})
    made = outline(graph)
    bodies = [group.label for group in made.groups if group.what == "body"]
    assert sorted(bodies) == ["body", "else_branch", "then_branch"]
    kinds = Counter(box.caption.title.split()[0] for box in made.boxes)
    assert kinds["Sigmoid"] == kinds["Tanh"] == kinds["Relu"] == kinds["Loop"] == kinds["If"] == 1
    assert any(wire.fed for wire in made.wires)
    for depth in range(made.depth + 1):
        check(layout(graph, depth))


def test_values_that_weights_alone_give_are_lines() -> None:
    x = ops.variable("x", ("N", 4))
    kernel = ops.transpose(ops.constant([[1.0, 2.0, 3.0, 4.0]] * 3), perm=(1, 0))
    made = outline(Graph({"y": x @ kernel}))
    assert [box.caption.title for box in made.boxes] == ["x", "MatMul", "y"]
    assert made.boxes[1].caption.lines == ("B 4×3 by Transpose",)
    assert any("made by Transpose perm (1, 0)" in line for line in made.boxes[1].caption.detail)
    given_out = outline(Graph({"y": x @ kernel, "k": kernel}))
    assert sum("Transpose" in box.caption.title for box in given_out.boxes) == 1


def test_groups_in_a_circle() -> None:
    x = ops.variable("x", (4,))
    a = ops.relu(ops.exp(x, name="a/exp"), name="a/relu")
    b = ops.tanh(ops.neg(a, name="b/neg"), name="b/tanh")
    back = ops.add(a, ops.abs(b, name="a/abs"), name="a/add")
    graph = Graph({"y": ops.mul(back, b, name="b/mul")})
    for depth in (0, 1):
        check(layout(graph, depth))


def test_a_constant_that_is_an_output_is_a_line_of_it() -> None:
    graph = Graph({"c": ops.constant([1.0, 2.0]), "y": ops.variable("x", (2,))})
    boxes = {box.name: box for box in outline(graph).boxes}
    assert boxes["c"].caption.lines[-1] == "constant 2"
    check(layout(graph))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs whose names put nodes into scopes, of which some lie in circles."""
    values = [ops.variable(f"in{i}", ("N", 4)) for i in range(draw(st.integers(1, 3)))]
    scopes = ["", "a/", "a/b/", "a/c/", "d/", "d/a/b/"]
    for i in range(draw(st.integers(1, 24))):
        name = f"{draw(st.sampled_from(scopes))}n{i}"
        left, right = (values[draw(st.integers(0, len(values) - 1))] for _ in range(2))
        if draw(st.booleans()):
            values.append(ops.add(left, right, name=name))
        else:
            values.append(ops.relu(left, name=name))
    used = {s for v in values for s in v.node.operands}
    return Graph([v for v in values if v not in used])


@settings(max_examples=40, deadline=None)
@given(graphs(), st.sampled_from([0, 1, 2, None, 5]))
def test_random_graphs(graph: Graph, depth: int | None) -> None:
    made = layout(graph, depth)
    check(made)
    if not any(b[1] < a[1] for line in made.lines for a, b in pairwise(line.points)):
        assert not list(crossed(made))
    boxes = [part for part in made.view.shown() if isinstance(part, Box)]
    names = [box.name for box in boxes if box.kind is not OUTPUT]
    assert len(names) == len(set(names))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=40))
def test_rows(pairs: list[tuple[int, int]]) -> None:
    links = [Link(a, b, str(a)) for a, b in pairs]
    made = arrange(15, links, frozenset({0}) - {b for _, b in pairs}, frozenset())
    assert sorted(cell for row in made.rows for cell in row) == list(range(len(made.row_of)))
    kept = [link for link in links if link.source != link.target]
    assert len(made.paths) == len(kept)
    for link, path in zip(kept, made.paths, strict=True):
        assert (path[0], path[-1]) == (link.source, link.target)
        steps = [made.row_of[b] - made.row_of[a] for a, b in pairwise(path)]
        assert steps == [steps[0]] * len(steps)
        assert abs(steps[0]) == 1
    forward = all(a < b for a, b in pairs)
    assert not forward or all(made.row_of[p[0]] < made.row_of[p[-1]] for p in made.paths)


def test_two_thousand_nodes_take_no_time() -> None:
    y = previous = ops.variable("x", (4,))
    for i in range(1000):
        previous, y = y, ops.add(ops.relu(y), previous) if i % 3 else ops.relu(ops.exp(y))
    graph = Graph({"y": y})
    assert len(graph.nodes) > 2000
    began = time.process_time()
    text = draw.svg(graph)
    assert time.process_time() - began < 6
    assert text.count("data-name=") == 2002

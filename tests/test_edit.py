"""Editing networks that exist: more layers, a part of it, another head, weights by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import neuralsym
import neuralsym.layers as nn
from neuralsym import ops, zoo
from neuralsym.core.graph import Graph
from neuralsym.errors import BadAttribute, GraphError, ShapeMismatch
from neuralsym.network import Network

F = np.float32


@pytest.fixture
def saved(tmp_path: Path) -> Network:
    """A small network as it is when it has been read from a file."""
    x = nn.input(("N", 3, 8, 8))
    body = x | nn.conv2d(4, 3) | nn.relu | nn.global_avg_pool2d() | nn.flatten()
    net = body | nn.dense(5, name="classifier") | nn.get_network("small", outputs="logits")
    path = tmp_path / "small.onnx"
    net.save(path)
    return neuralsym.load(path)


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(F)


def softmax(v: np.ndarray) -> np.ndarray:
    e = np.exp(v - v.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_layers_are_piped_onto_a_loaded_network(saved: Network, x: np.ndarray) -> None:
    logits = saved(x)
    longer = saved.extend(nn.softmax(), outputs="probs")
    np.testing.assert_allclose(longer(x), softmax(logits), rtol=1e-6)
    assert [p.name for p in longer.outputs] == ["probs"]
    assert list(longer.weights) == list(saved.weights)
    np.testing.assert_array_equal(saved(x), logits)  # it is as it was
    piped = saved | nn.relu | nn.get_network()
    np.testing.assert_array_equal(piped(x), np.maximum(logits, 0))


def test_a_network_is_cut_at_a_name(saved: Network, x: np.ndarray) -> None:
    body = saved.cut("flatten")
    assert body(x).shape == (2, 4)
    assert [p.name for p in body.outputs] == ["flatten"]
    assert list(body.weights) == ["conv2d/kernel", "conv2d/bias"]
    head = saved.cut("logits", inputs=["flatten"])
    assert [p.name for p in head.inputs] == ["flatten"]
    np.testing.assert_allclose(head(body(x)), saved(x), rtol=1e-6, atol=1e-7)
    both = saved.cut(["flatten", "logits"])
    assert list(both.run(x)) == ["flatten", "logits"]


def test_the_head_is_replaced(saved: Network, x: np.ndarray) -> None:
    other = saved.replace_head(nn.dense(2, name="fresh"), seed=3)
    assert [str(p) for p in other.outputs] == ["logits: float32[N, 2]"]
    assert list(other.weights) == ["conv2d/kernel", "conv2d/bias", "fresh/kernel", "fresh/bias"]
    np.testing.assert_array_equal(other.weights["conv2d/kernel"], saved.weights["conv2d/kernel"])
    features = saved.cut("flatten")(x)
    expected = features @ other.weights["fresh/kernel"] + other.weights["fresh/bias"]
    np.testing.assert_allclose(other(x), expected, rtol=1e-5, atol=1e-6)
    again = saved.replace_head(nn.dense(2, name="fresh"), seed=3)
    np.testing.assert_array_equal(again.weights["fresh/kernel"], other.weights["fresh/kernel"])
    early = saved.replace_head(nn.flatten() | nn.dense(2), at="relu")
    assert early(x).shape == (2, 2)


def test_a_zoo_network_keeps_what_it_says_and_its_weights() -> None:
    net = zoo.squeezenet1_1(size=64, batch=1, seed=7)
    tuned = net.replace_head(nn.conv2d(10, 1) | nn.relu | nn.global_avg_pool2d() | nn.flatten())
    assert tuned.metadata == net.metadata
    assert tuned.outputs[0].shape == (1, 10)
    shared = [n for n in net.weights if n in tuned.weights]
    assert len(shared) == len(net.weights) - 2
    np.testing.assert_array_equal(tuned.weights[shared[3]], net.weights[shared[3]])


def test_several_outputs_are_piped_as_a_tuple(x: np.ndarray) -> None:
    made = nn.input(("N", 3, 8, 8))
    net = (made | nn.relu, made | nn.sigmoid) | nn.get_network()
    total = net.extend(lambda pair: ops.add(*pair), outputs="sum")
    np.testing.assert_allclose(total(x), sum(net.run(x).values()), rtol=1e-6)
    with pytest.raises(GraphError, match="2 outputs; say with at="):
        net.replace_head(nn.flatten() | nn.dense(2))


def test_mistakes_name_the_line(saved: Network) -> None:
    with pytest.raises(GraphError, match=r"cut: graph 'small' .* 'flaten'.*flatten"):
        saved.cut("flaten")
    with pytest.raises(GraphError, match=r"test_edit\.py"):
        saved.cut("flaten")
    with pytest.raises(TypeError, match="a layer or a function"):
        saved.extend(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        saved | 3
    with pytest.raises(BadAttribute, match="2 names"):
        saved.extend(nn.relu, outputs=["a", "b"])
    with pytest.raises(ShapeMismatch, match="conv2d"):
        saved.extend(nn.conv2d(3, 3))
    plain = nn.input((2, 3)) | nn.relu | nn.get_network()
    with pytest.raises(GraphError, match="no Gemm"):
        plain.replace_head(nn.dense(3))


def test_a_flow_file_is_a_network_too(saved: Network, x: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "small.flow"
    assert saved.save(path) == [path]
    net = neuralsym.load(path)
    np.testing.assert_array_equal(net(x), saved(x))
    net.set_weight("conv2d/bias", np.ones(4, F))
    assert not np.array_equal(net(x), saved(x))
    described = zoo.squeezenet1_1(size=64)
    described.save(path)
    assert neuralsym.load(path).metadata == described.metadata


def test_an_output_that_stays_keeps_its_name(saved: Network, x: np.ndarray) -> None:
    both = saved.extend(lambda y: (y, y | nn.softmax(name="probs")))
    made = both.run(x)
    assert list(made) == ["logits", "probs"]
    np.testing.assert_array_equal(made["logits"], saved(x))


def test_a_part_goes_on_updating_what_it_reads() -> None:
    step = ops.variable("step", (3,))
    count = ops.variable("count", (3,), init=np.zeros(3, F))
    total = count + step
    unread = ops.variable("unread", (3,), init=np.zeros(3, F))
    outputs = {"double": total * 2.0, "other": unread * 1.0}
    graph = Graph(outputs, updates={count: total, unread: unread + step})
    part = Network(graph).cut("double")
    assert [part.graph.names[s.node] for s in part.graph.updates] == ["count"]
    given = part.cut("double", inputs="count")
    assert not given.graph.updates


def test_what_is_no_name_and_no_symbol_is_refused(saved: Network) -> None:
    here = r"\n  at .*test_edit.py:"
    with pytest.raises(
        TypeError, match="cut: outputs is a name or a sequence of names, not 3" + here
    ):
        saved.cut(3)  # type: ignore[arg-type]
    with pytest.raises(BadAttribute, match="cut: outputs names no value" + here):
        saved.cut([])
    with pytest.raises(BadAttribute, match="cut: outputs names 'logits' twice" + here):
        saved.cut(["logits", "logits"])
    with pytest.raises(TypeError, match="replace_head: at is a name.*" + here):
        saved.replace_head(nn.dense(2), at=3)  # type: ignore[arg-type]
    with pytest.raises(BadAttribute, match=r"extend: <lambda> gave NoneType; .*" + here):
        saved.extend(lambda _: None)
    with pytest.raises(BadAttribute, match="extend: seed='a' is not an integer" + here):
        saved.extend(nn.relu, seed="a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="keep_io is True or False, not 'x'" + here):
        saved.to_float16(keep_io="x")  # type: ignore[arg-type]
    with pytest.raises(BadAttribute, match="extend: '' is no name.*" + here):
        saved.extend(nn.relu, outputs="")

"""FlowBuilder over TensorFlow: what it computes is computed, under its names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorflow_checks import F, close, floats

import neuralsym
from neuralsym import myelin
from neuralsym.engines import tensorflow as engine
from neuralsym.errors import FormatError
from neuralsym.myelin import Flow, FlowBuilder, Network

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
tf2 = pytest.importorskip("tensorflow", reason="tensorflow is not installed")
tf: Any = tf2.compat.v1

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]


# -- the seed's two programs ---------------------------------------------------------------------
class Digits:
    """Pictures of which each class has bright pixels of its own, in the place of a download."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def next_batch(self, count: int) -> tuple[Any, Any]:
        kinds = self.rng.integers(0, 10, count)
        pictures = self.rng.random((count, 784), F) * (self.rng.random((count, 784)) < 0.1)
        for row, kind in enumerate(kinds):
            pictures[row, 78 * kind : 78 * kind + 20] = 1
        return pictures, np.eye(10, dtype=F)[kinds]


@pytest.fixture
def old_graph() -> Iterator[None]:
    """A graph of its own; placeholders want one that does not run eagerly."""
    with tf2.Graph().as_default():
        yield


@pytest.mark.parametrize("resources", [False, True], ids=["variables", "resources"])
def test_the_programs_of_the_seed(tmp_path: Path, resources: bool, old_graph: None) -> None:
    mnist = Digits(1)
    with tf.variable_scope("", use_resource=resources):
        # Create the model.
        x = tf.placeholder(tf.float32, [None, 784], name="x")
        W = tf.Variable(tf.zeros([784, 10]), name="W", use_resource=resources)
        b = tf.Variable(tf.zeros([10]), name="b", use_resource=resources)
        y = tf.add(tf.matmul(x, W), b, name="y")

        # Define loss and optimizer.
        y_ = tf.placeholder(tf.float32, [None, 10])
        cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y))
        train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)

    # Train model.
    sess = tf.InteractiveSession()
    tf.global_variables_initializer().run()
    for _ in range(100):
        batch_xs, batch_ys = mnist.next_batch(100)
        sess.run(train_step, feed_dict={x: batch_xs, y_: batch_ys})

    # Save model to flow file.
    flow = Flow()
    builder = FlowBuilder(sess, flow)
    builder.add(flow.func("classifier"), [x], [y])
    flow.save(tmp_path / "mnist.flow")

    images, labels = Digits(2).next_batch(64)
    expected = sess.run(y, {x: images})
    assert (expected.argmax(1) == labels.argmax(1)).mean() > 0.9
    tf.train.Saver().save(sess, str(tmp_path / "mnist.ckpt"))
    sess.close()
    check_classifier(tmp_path / "mnist.flow", images, expected)

    with tf2.Graph().as_default():
        # Load Tensorflow checkpoint.
        sess = tf.Session()
        saver = tf.train.import_meta_graph(str(tmp_path / "mnist.ckpt.meta"))
        saver.restore(sess, str(tmp_path / "mnist.ckpt"))

        # Create Myelin flow.
        flow = Flow()
        builder = FlowBuilder(sess, flow)

        # Extract flow from graph.
        inputs = [sess.graph.get_tensor_by_name("x:0")]
        outputs = [sess.graph.get_tensor_by_name("y:0")]
        builder.add(flow.func("classifier"), inputs, outputs)

        # Save flow.
        flow.save(tmp_path / "again.flow")
        sess.close()
    check_classifier(tmp_path / "again.flow", images, expected)
    assert (tmp_path / "again.flow").read_bytes() == (tmp_path / "mnist.flow").read_bytes()


def check_classifier(path: Path, images: Any, expected: Any) -> None:
    flow = Flow.load(path)
    assert flow.version == 4
    types = [op.type for op in flow.func("classifier").ops]
    assert types in (["MatMul", "Add"], ["MatMul", "AddV2"])
    assert flow.var("x").name == "x:0"
    assert flow.var("x").shape == [-1, 784]
    assert flow.var("W").shape == [784, 10]
    assert flow.op("MatMul").attrs["transpose_a"] == "false"
    assert flow.op("MatMul").attrs["T"] == "float32"
    network = Network.compile(path)
    classifier = network.cell("classifier")
    data = classifier.instance()
    for image, want in zip(images, expected, strict=True):
        data["x"] = image[None]
        data.compute()
        close(data["y"][0], want)
    close(neuralsym.load(path)(images), expected)


# -- what a flow says ----------------------------------------------------------------------------
def test_attributes_shapes_and_names(old_graph: None) -> None:
    x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x")
    free = tf.placeholder(tf.float32, [None, None], name="free")
    any_rank = tf.placeholder(tf.float32, None, name="any")
    filters = tf.constant(floats(3, 3, 3, 4), name="filters")
    y = tf.nn.conv2d(x, filters, [1, 2, 2, 1], "SAME", name="conv")
    z = tf.add(tf.reduce_sum(free), tf.exp(any_rank), name="z")
    flow = Flow()
    with tf.Session() as session:
        builder = FlowBuilder(session, flow)
        builder.add(flow.func("picture"), ["x"], [y])
        builder.add(flow.func("sums"), [free, "any:0"], [z])
        assert flow.var("free").shape == [0, 0]
        assert flow.var("any").shape == [0]
    conv = flow.op("conv")
    assert (conv.type, conv.attrs["strides"], conv.attrs["padding"]) == (
        "Conv2D",
        "1,2,2,1",
        "SAME",
    )
    assert (conv.attrs["T"], conv.attrs["use_cudnn_on_gpu"]) == ("float32", "true")
    assert flow.var("conv").shape == [-1, 4, 4, 4]
    assert flow.var("filters").name == "filters:0"
    value = tf2.make_ndarray(filters.op.get_attr("value"))
    np.testing.assert_array_equal(flow.var("filters").array(), value)
    assert str(Network.compile(flow).cell("picture").parameter("x").type) == "float32[1, 8, 8, 3]"


def test_shapes_are_computed_on_a_feed(old_graph: None) -> None:
    x = tf.placeholder(tf.float32, [None, None], name="x")
    y = tf.matmul(x, x, transpose_b=True, name="y")
    flow = Flow()
    with tf.Session() as session:
        builder = FlowBuilder(session, flow)
        builder.add(flow.func("f"), [x], [y])
        with pytest.raises(FormatError, match=r"builder\.feed"):
            builder.compute_shapes()
        builder.feed = {x: floats(3, 5)}
        builder.compute_shapes()
    assert (flow.var("x").shape, flow.var("y").shape) == ([3, 5], [3, 3])


def test_functions_of_a_flow_share_variables(old_graph: None) -> None:
    x = tf.placeholder(tf.float32, [1, 4], name="x")
    w = tf.Variable(floats(4, 4), name="w")
    hidden = tf.matmul(x, w, name="hidden")
    y = tf.matmul(hidden, w, name="y")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value = floats(1, 4)
        wanted = session.run([hidden, y], {x: value})
        flow = Flow()
        builder = FlowBuilder(session, flow)
        builder.add(flow.func("first"), [x], [hidden])
        builder.add(flow.func("second"), [hidden], [y])
    assert sum(v.data is not None for v in flow.vars.values()) == 1
    network = Network.compile(Flow.from_bytes(flow.to_bytes()))
    first, second = (network.cell(n).instance() for n in ("first", "second"))
    first["x"] = value
    first.compute()
    second["hidden"] = first["hidden"]
    second.compute()
    close(first["hidden"], wanted[0])
    close(second["y"], wanted[1])


def test_an_output_that_is_read_and_an_input_that_is_one(old_graph: None) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.negative(x, name="y")
    z = tf.exp(y, name="z")
    graph = engine.to_symbolic(tf.get_default_graph(), inputs=[x], outputs=[y, z, x])
    assert graph.output_names[:2] == ("y", "z")
    found = list(neuralsym.Network(graph).run(F([1, 2])).values())
    for got, want in zip(found, ([-1, -2], np.exp([-1, -2]), [1, 2]), strict=True):
        close(got, np.array(want, F))


# -- where graphs come from ----------------------------------------------------------------------
class Scaled(tf2.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.w = tf2.Variable(floats(4, 3), name="w")
        self.b = tf2.Variable(floats(3), name="b", trainable=False)

    @tf2.function(input_signature=[tf2.TensorSpec([None, 4], tf2.float32, name="x")])  # type: ignore[misc]
    def __call__(self, x: Any) -> Any:
        return {"sum": x @ self.w + self.b, "best": tf2.argmax(x, 1)}


def test_functions_models_and_folders(tmp_path: Path) -> None:
    module, x = Scaled(), floats(5, 4)
    wanted = module(x)
    folder = tmp_path / "saved"
    tf2.saved_model.save(module, str(folder))
    concrete = module.__call__.get_concrete_function()
    opened: list[Any] = [
        module,
        module.__call__,
        concrete,
        folder,
        tf2.saved_model.load(str(folder)),
    ]
    for source in opened:
        graph = engine.to_symbolic(source)
        assert graph.input_names == ("x",)
        assert sorted(graph.output_names) == ["best", "sum"]
        assert {graph.names[w.node] for w in graph.weights} == {"w", "b"}
        found = neuralsym.Network(graph).run({"x": x})
        close(found["sum"], wanted["sum"])
        close(found["best"], wanted["best"])
    assert str(neuralsym.load(folder).inputs[0]) == "x: float32[N, 4]"
    flow = Flow()
    FlowBuilder(concrete, flow).add(flow.func("f"))
    assert {"w", "b"} <= set(flow.vars)
    cell = Network.compile(flow, batch_size=5).cell("f").instance()
    cell["x"] = x
    cell.compute()
    best, total = sorted(flow.outputs(flow.func("f")), key=lambda v: v.rank())
    close(cell[best.name], wanted["best"])
    close(cell[total.name], wanted["sum"])


def test_a_frozen_graph(tmp_path: Path, old_graph: None) -> None:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    w = tf.Variable(floats(4, 3), name="w")
    y = tf.nn.softmax(tf.matmul(x, w), name="y")
    value = floats(2, 4)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        wanted = session.run(y, {x: value})
        frozen = tf.graph_util.convert_variables_to_constants(
            session, tf.get_default_graph().as_graph_def(), ["y"]
        )
    (tmp_path / "frozen.pb").write_bytes(frozen.SerializeToString())
    for source in (frozen, engine.load(tmp_path / "frozen.pb")):
        graph = engine.to_symbolic(source)
        assert (graph.input_names, graph.output_names) == (("x",), ("y",))
        close(neuralsym.Network(graph)(value), wanted)
    flow = Flow()
    FlowBuilder(frozen, flow).add(flow.func("f"), ["x"], ["y"])
    assert flow.var("w").learnable is False
    assert [op.type for op in flow.func("f").ops] == ["MatMul", "Softmax"]


# -- what goes wrong -----------------------------------------------------------------------------
def test_errors_say_what_is_missing(tmp_path: Path, old_graph: None) -> None:
    x = tf.placeholder(tf.float32, [3], name="x")
    v = tf.Variable(floats(3), name="v")
    unknown = tf.math.lgamma(x + v, name="odd")
    flow = Flow()
    with tf.Session() as session:
        builder = FlowBuilder(session, flow)
        with pytest.raises(FormatError, match="no tensor 'xx'; did you mean 'x'"):
            builder.add(flow.func("f"), ["xx"], ["odd"])
        with pytest.raises(FormatError, match="'v' has no value in the session: run the init"):
            builder.add(flow.func("f"), [x], [unknown])
        session.run(tf.global_variables_initializer())
        flow = Flow()
        FlowBuilder(session, flow).add(flow.func("f"), [x], [unknown])
    tried = r"'odd' \(Lgamma\): neuralsym does not know .*Myelin's types and TensorFlow's"
    with pytest.raises(FormatError, match=tried):
        Network.compile(flow)
    with pytest.raises(FormatError, match="has its value in a session"):
        engine.to_symbolic(tf.get_default_graph(), inputs=[x], outputs=["odd"])
    with pytest.raises(FormatError, match=r"comes in a session, .*not in int"):
        FlowBuilder(3, flow)
    with pytest.raises(FormatError, match="is no SavedModel"):
        engine.load(tmp_path)
    (tmp_path / "bad.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(FormatError, match="is no GraphDef"):
        engine.load(tmp_path / "bad.pb")
    with pytest.raises(FormatError, match="does not say what it takes"):
        engine.to_symbolic(tf2.function(lambda a: a + 1))
    for write in (engine.of_symbolic, lambda g: engine.save(g, tmp_path / "x.pb")):
        with pytest.raises(FormatError, match="writes no TensorFlow graphs"):
            write(neuralsym.load)


def test_the_builder_is_public_and_late() -> None:
    assert "FlowBuilder" in myelin.__all__
    assert myelin.FlowBuilder is FlowBuilder
    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        _ = myelin.nonesuch

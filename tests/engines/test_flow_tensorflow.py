"""Flows and graphs from TensorFlow: what it computes is computed, under its names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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

RNG = np.random.default_rng(5)
F = np.float32


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(F)


def close(got: Any, want: Any, within: float = 1e-6) -> None:
    """Equal to so much of the largest element; sums of n products differ by n roundings."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=0, atol=within * max(np.abs(want).max(), 1))


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


# -- operations ----------------------------------------------------------------------------------
W = floats(3, 3, 4, 8)
PICTURE = floats(2, 7, 6, 4)


STATISTICS = floats(4), floats(4), floats(4), np.abs(floats(4)) + F(0.5)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "conv": (lambda x: tf2.nn.relu6(tf2.nn.conv2d(x, W, [1, 2, 2, 1], "SAME")), (PICTURE,)),
    "explicit pads": (
        lambda x: tf2.nn.conv2d(x, W, 1, [[0, 0], [1, 2], [0, 1], [0, 0]], dilations=2),
        (PICTURE,),
    ),
    "depthwise": (
        lambda x: tf2.nn.depthwise_conv2d(x, W[:, :, :, :2], [1, 1, 1, 1], "VALID"),
        (PICTURE,),
    ),
    "pools": (
        lambda x: (tf2.nn.max_pool2d(x, 3, 2, "SAME"), tf2.nn.avg_pool2d(x, [2, 3], 2, "SAME")),
        (PICTURE,),
    ),
    "batch norm": (
        lambda x: tf.nn.fused_batch_norm(x, *STATISTICS, 1e-3, is_training=False)[0],
        (PICTURE,),
    ),
    "resizing": (
        lambda x: (
            tf2.image.resize(x, (5, 9)),
            tf2.image.resize(x, (13, 4), "nearest"),
            tf.image.resize_bilinear(x, (5, 9), align_corners=True),
            tf.image.resize_nearest_neighbor(x, (5, 9)),
        ),
        (PICTURE,),
    ),
    "cubic resizing": (lambda x: tf2.image.resize(x, (9, 9), "bicubic"), (PICTURE,)),
    "depth and space": (
        lambda x: (tf2.nn.depth_to_space(x, 2), tf2.nn.space_to_depth(x[:, :6], 2)),
        (PICTURE,),
    ),
    "local norm": (lambda x: tf2.nn.local_response_normalization(x, 2, 1.0, 0.3, 0.7), (PICTURE,)),
    "subscripts": (
        lambda x: (
            x[..., ::-1],
            x[1, tf2.newaxis, 2:-1:2],
            x[:, -1],
            x[tf2.newaxis, ..., tf2.newaxis, 0],
            x[-1:, 5:2:-1, ..., 1:3],
        ),
        (PICTURE,),
    ),
    "moving subscripts": (lambda x, n: x[:, n : n + 2, n], (PICTURE, np.int32(3))),
    "sizes": (
        lambda x: (
            tf2.reshape(x, [tf2.shape(x)[0], -1]),
            tf2.fill([tf2.shape(x)[1], 2], 0.5),
            tf2.zeros_like(x) + tf2.ones_like(x),
            tf2.broadcast_to(x[0, 0, 0], tf2.shape(x)),
        ),
        (PICTURE,),
    ),
    "lookups": (
        lambda x, i: (
            tf2.gather(x, i, axis=1),
            tf2.gather(x, i),
            tf2.gather(x, i, axis=1, batch_dims=1),
            tf2.gather_nd(x, tf2.stack([i, i], -1)),
            tf2.one_hot(i, 4, on_value=2.0, off_value=-1.0, axis=0),
        ),
        (floats(2, 3, 4), np.array([[1, 0], [0, 1]], np.int32)),
    ),
    "parts": (
        lambda x: (
            *tf2.split(x, 2, axis=1),
            *tf2.split(x, [1, -1], axis=0),
            tf2.stack(tf2.unstack(x, axis=1), axis=1),
            tf2.concat([x, x], -1),
            tf2.tile(x, [1, 2]),
            tf2.expand_dims(x, 1),
        ),
        (floats(3, 4),),
    ),
    "borders": (
        lambda x: (
            tf2.pad(x, [[1, 0], [0, 2]], constant_values=3.0),
            tf2.pad(x, [[1, 0], [0, 2]], "REFLECT"),
            tf2.reverse(x, [0, 1]),
            tf2.reverse_sequence(x, [1, 3, 2], seq_axis=1),
        ),
        (floats(3, 4),),
    ),
    "choices": (
        lambda x: (
            tf2.where(x > 0),
            tf2.where(x > 0, x, -x),
            *tf2.math.top_k(x, 2),
            tf2.cumsum(x, 1, exclusive=True, reverse=True),
            tf2.linalg.band_part(x, 1, 0),
            tf2.argmax(x, 1),
            tf2.clip_by_value(x, -0.5, 0.5),
        ),
        (floats(3, 4),),
    ),
    "numbers": (
        lambda x, y: (
            x // y, x % y, tf2.truncatediv(x, y), tf2.truncatemod(x, y),
            tf2.bitwise.bitwise_and(x, y),
            tf2.cast(x, tf2.float32) / tf2.cast(y, tf2.float32), tf2.pow(x, 2), x == y, x != y,
        ),
        (np.array([-7, 7, 5, -6], np.int32), np.array([2, -3, 5, 4], np.int32)),
    ),
    "elementwise": (
        lambda x: (
            tf2.nn.leaky_relu(x, 0.1), tf2.nn.selu(x), tf2.math.log1p(tf2.abs(x)),
            tf2.math.expm1(x), tf2.math.erfc(x),
            tf2.math.divide_no_nan(x, tf2.nn.relu(x)), tf2.math.is_nan(x),
            tf2.math.rsqrt(tf2.abs(x)), tf2.math.squared_difference(x, 1.0), tf2.round(x),
            tf2.add_n([x, x, x]), tf2.nn.log_softmax(x), tf2.nn.l2_loss(x), tf2.norm(x, axis=1),
        ),
        (floats(3, 4),),
    ),
    "reductions": (
        lambda x: (
            tf2.reduce_mean(x, [0, 2], keepdims=True), tf2.reduce_max(x), tf2.reduce_prod(x, 1),
            tf2.reduce_any(x > 0, 1), tf2.reduce_logsumexp(x, 1), tf2.reduce_sum(x, []),
        ),
        (floats(2, 3, 4),),
    ),
    "products": (
        lambda x: (
            tf2.einsum("bij,bkj->bik", x, x), tf2.matmul(x, x, transpose_a=True),
            tf2.linalg.matvec(x, x[:, 0]), tf2.tensordot(x, x, [[2], [2]]),
        ),
        (floats(2, 3, 4),),
    ),
    "scattering": (
        lambda x: (
            tf2.scatter_nd([[1], [1], [3]], x, [5, 4]),
            tf2.tensor_scatter_nd_update(x, [[1]], x[:1]),
            tf2.tensor_scatter_nd_add(x, [[1], [1]], x[:2]),
        ),
        (floats(3, 4),),
    ),
}  # fmt: skip


def check(function: Callable[..., Any], feeds: Sequence[Any], within: float = 1e-6) -> None:
    specs = [tf2.TensorSpec(np.shape(f), np.asarray(f).dtype) for f in feeds]
    wanted = tf2.nest.flatten(tf2.function(function)(*feeds))
    network = neuralsym.Network(engine.to_symbolic(function, inputs=specs))
    names = [p.name for p in network.inputs]
    found = list(network.run(dict(zip(names, feeds, strict=True))).values())
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        close(got, want.numpy(), within)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operations(name: str) -> None:
    function, feeds = FUNCTIONS[name]
    # TensorFlow takes cubic weights from a table of 1024 steps.
    check(function, feeds, {"resizing": 4e-6, "cubic resizing": 2 / 1024}.get(name, 1e-6))


def _power(x: Any, n: Any) -> Any:
    """A loop that a condition ends, with a branch inside of it."""

    def step(total: Any) -> Any:
        small = tf2.reduce_sum(total) < 10
        return [tf2.cond(small, lambda: total * 3.0, lambda: total + x)]

    return tf2.while_loop(lambda t: tf2.reduce_sum(t) < n, step, [x])


def _collected(x: Any) -> Any:
    """Lists that are read and written, of which the last elements stay zero."""
    array = tf2.TensorArray(tf2.float32, 6, element_shape=[3])

    def step(i: Any, array: Any, total: Any) -> Any:
        total = total + x[i]
        return i + 1, array.write(i, total), total

    _, array, total = tf2.while_loop(
        lambda i, *_: i < 4, step, (tf2.constant(0), array, tf2.zeros(3))
    )
    return array.stack(), total


def test_loops() -> None:
    check(_power, [np.abs(floats(3)) + F(0.1), F(50)])
    check(_collected, [floats(5, 3)])
    graph = engine.to_symbolic(_collected, inputs=[tf2.TensorSpec([5, 3], tf2.float32)])
    assert [n.op_type for n in graph.nodes].count("Loop") == 1
    flow = Flow()
    source = engine.open_source(_collected, [tf2.TensorSpec([5, 3], tf2.float32)])
    FlowBuilder(source, flow).add(flow.func("f"))
    again = Network.compile(Flow.from_bytes(flow.to_bytes()))
    assert [c.name for c in again.cells] == ["f"]


# -- Keras ---------------------------------------------------------------------------------------
def layers() -> Any:
    keras = pytest.importorskip("keras", reason="keras is not installed")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("keras runs over another framework: KERAS_BACKEND=tensorflow")
    return keras


def _conv(keras: Any) -> Any:
    layers = keras.layers
    return [
        keras.Input((9, 8, 3)), layers.ZeroPadding2D(1), layers.Conv2D(6, 3, strides=2),
        layers.BatchNormalization(), layers.ReLU(), layers.DepthwiseConv2D(3, padding="same"),
        layers.MaxPooling2D(2, padding="same"), layers.Conv2DTranspose(4, 3, 2, padding="same"),
        layers.AveragePooling2D(2), layers.Flatten(), layers.Dropout(0.5),
        layers.Dense(5, activation="softmax"),
    ]  # fmt: skip


def _recurrent(keras: Any) -> Any:
    layers = keras.layers
    return [
        keras.Input((None, 3)), layers.LSTM(5, return_sequences=True),
        layers.Bidirectional(layers.GRU(4, return_sequences=True)),
        layers.SimpleRNN(3, return_sequences=True), layers.LSTM(4), layers.Dense(2),
    ]  # fmt: skip


@pytest.mark.parametrize(("build", "shape"), [(_conv, (2, 9, 8, 3)), (_recurrent, (2, 6, 3))])
def test_keras_models(build: Callable[[Any], Any], shape: tuple[int, ...], tmp_path: Path) -> None:
    keras = layers()
    model = keras.Sequential(build(keras))
    for variable in model.weights:
        positive = "variance" in variable.path or "gamma" in variable.path
        value = RNG.uniform(0.5, 1.5, variable.shape) if positive else 0.4 * floats(*variable.shape)
        variable.assign(value)
    x, other = floats(*shape), floats(*shape)
    wanted = model(x).numpy()
    assert np.abs(wanted - model(other).numpy()).max() > 1e-4
    graph = engine.to_symbolic(model)
    assert {graph.names[w.node] for w in graph.weights} >= {v.path for v in model.trainable_weights}
    network = neuralsym.Network(graph)
    assert network.name == model.name
    close(network(x), wanted, 2e-6)
    close(network(other), model(other), 2e-6)
    model.export(str(tmp_path / "exported"), verbose=False)
    close(neuralsym.load(tmp_path / "exported")(x), wanted, 2e-6)
    network.save(tmp_path / "again.onnx")
    close(neuralsym.load(tmp_path / "again.onnx")(x), wanted, 2e-6)


def test_keras_models_with_several_inputs_and_outputs() -> None:
    keras = layers()
    ids, numbers = keras.Input((4,), dtype="int32", name="ids"), keras.Input((3,), name="numbers")
    x = keras.layers.Embedding(9, 5, mask_zero=True)(ids)
    x = keras.layers.LSTM(3)(x)
    both = keras.layers.Concatenate()([keras.layers.Add()([x, numbers]), numbers])
    first = keras.layers.Dense(2, name="first")(both)
    second = keras.layers.Dense(1, name="second", activation="sigmoid")(both)
    model = keras.Model({"ids": ids, "numbers": numbers}, {"a": first, "b": second})
    feed = {"ids": RNG.integers(0, 9, (2, 4)).astype(np.int32), "numbers": floats(2, 3)}
    network = neuralsym.Network(engine.to_symbolic(model))
    assert {p.name for p in network.inputs} == {"ids", "numbers"}
    found, wanted = network.run(feed), model(feed)
    for name in ("a", "b"):
        close(found[name], wanted[name])

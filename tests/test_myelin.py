"""Myelin's classes: a flow is compiled, its cells compute in instances, channels chain them."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from neuralsym.errors import BadAttribute, FormatError, InputError, NeuralsymError, ShapeMismatch
from neuralsym.myelin import Channel, Flow, Instance, Library, Network

F = np.float32
RNG = np.random.default_rng(5)
W, B = RNG.normal(size=(784, 10)).astype(F), RNG.normal(size=10).astype(F)


def classifier() -> Flow:
    """The seed's network as TensorFlow's extraction writes it, names with :0 and short aliases."""
    flow = Flow()
    x = flow.var("x:0", "float32", [-1, 784])
    x.aliases.append("x")
    w, b = flow.var("W", "float32", [784, 10], W), flow.var("b", "float32", [10], B)
    product, y = flow.var("MatMul:0", "float32", [-1, 10]), flow.var("y:0", "float32", [-1, 10])
    func = flow.func("classifier")
    for name, type_, inputs, output in (
        ("MatMul", "MatMul", (x, w), product),
        ("y", "Add", (product, b), y),
    ):
        op = flow.op(name, type_)
        for var in inputs:
            op.add_input(var)
        op.add_output(output)
        func.add(op)
    return flow


@pytest.fixture
def network(tmp_path: Path) -> Network:
    classifier().save(tmp_path / "mnist.flow")
    return Network.compile(tmp_path / "mnist.flow", threads=1)


def test_the_seeds_program(network: Network) -> None:
    cell = network.cell("classifier")
    assert network.cells == [cell]
    x, y = cell.parameter("x"), cell.parameter("y")
    assert (x.name, x.shape, str(x.dtype)) == ("x:0", (1, 784), "float32")
    assert (y.name, y.shape) == ("y:0", (1, 10))
    data = Instance(cell)
    picture = RNG.random((1, 784), dtype=F)
    data["x"] = picture
    data.compute()
    found = data["y"]
    np.testing.assert_allclose(found, picture @ W + B, rtol=1e-5, atol=1e-5)
    data["x"] = np.zeros((1, 784), F)
    data.compute()
    np.testing.assert_array_equal(data["y"], B[None])
    assert np.shares_memory(found, data["y"])  # a view, not a copy
    data.clear()
    with pytest.raises(InputError, match="x:0"):
        data.compute()
    np.testing.assert_array_equal(network["W"], W)


def test_the_batch_size_can_be_set(network: Network) -> None:
    network.set_batch_size(3)
    data = network.cell("classifier").instance()
    x = RNG.random((3, 784), dtype=F)
    data["x"] = x
    data.compute()
    np.testing.assert_allclose(data["y"], x @ W + B, rtol=1e-5, atol=1e-5)
    again = Network.compile(classifier(), batch_size=2)
    assert again.cell("classifier").parameter("x").shape == (2, 784)
    flow = classifier()
    flow.batch_size = 4
    assert Network.compile(flow).batch_size == 4
    with pytest.raises(BadAttribute, match="batch size"):
        network.set_batch_size(0)


def _compute_in_threads(network: Network, runs: int) -> None:
    cell = network.cell("classifier")
    pictures = RNG.random((16, 1, 784), dtype=F)
    alone = cell.instance()
    expected = []
    for picture in pictures:
        alone["x"] = picture
        alone.compute()
        expected.append(alone["y"].copy())
    wrong: list[int] = []

    def work(number: int) -> None:
        data = cell.instance()
        for i in range(runs):
            k = (i * 7 + number) % len(pictures)
            data["x"] = pictures[k]
            data.compute()
            if not np.array_equal(data["y"], expected[k]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_many_instances_compute_at_once(network: Network) -> None:
    _compute_in_threads(network, 300)


@pytest.mark.slow
def test_eight_threads_of_ten_thousand_computations(network: Network) -> None:
    _compute_in_threads(network, 10_000)


# -- recurrent cells and state -------------------------------------------------------------------
U, V = (RNG.normal(size=(4, 4)).astype(F) / 2 for _ in range(2))


def recurrent() -> Flow:
    """h_out = tanh(x U + h_in V), with the connector `hidden` over h_in and h_out."""
    flow = Flow()
    x, h_in, h_out = (flow.var(n, "float32", [1, 4]) for n in ("x", "h_in", "h_out"))
    h_in.ref = h_out.ref = True
    parts = {n: flow.var(n, "float32", [1, 4]) for n in ("a", "b", "c")}
    u, v = flow.var("U", "float32", [4, 4], U), flow.var("V", "float32", [4, 4], V)
    for name, type_, inputs, output in (
        ("h", "Tanh", (parts["c"],), h_out),
        ("xu", "MatMul", (x, u), parts["a"]),
        ("hv", "MatMul", (h_in, v), parts["b"]),
        ("sum", "Add", (parts["a"], parts["b"]), parts["c"]),
    ):
        op = flow.op(name, type_)
        for var in inputs:
            op.add_input(var)
        op.add_output(output)
        flow.func("rnn").add(op)
    flow.cnx("hidden").add(h_in)
    flow.cnx("hidden").add(h_out)
    return Flow.from_bytes(flow.to_bytes())


def test_a_channel_carries_the_state_along_a_sequence() -> None:
    network = Network.compile(recurrent(), threads=1)
    cell = network.cell("rnn")
    xs = RNG.normal(size=(6, 1, 4)).astype(F)
    hidden = network.channel("hidden", 7)
    data = cell.instance()
    for step, x in enumerate(xs):
        data["x"] = x
        data.connect("h_in", hidden, step)
        data.connect("h_out", hidden, step + 1)
        data.compute()
    h = np.zeros((1, 4))
    for step, x in enumerate(xs):
        h = np.tanh(x @ U + h @ V)
        np.testing.assert_allclose(hidden[step + 1], h, rtol=1e-5, atol=1e-6)
    assert hidden.array().shape == (7, 4)
    np.testing.assert_array_equal(hidden[0], np.zeros((1, 4)))


def test_instances_are_linked_to_each_other() -> None:
    cell = Network.compile(recurrent(), threads=1).cell("rnn")
    first, second = cell.instance(), cell.instance()
    second.connect("h_in", first, "h_out")
    x = np.ones((1, 4), F)
    first["x"] = second["x"] = x
    first["h_in"] = np.zeros((1, 4), F)
    first.compute()
    second.compute()
    np.testing.assert_allclose(second["h_out"], np.tanh(x @ U + np.tanh(x @ U) @ V), rtol=1e-5)


def test_channels_grow_and_shrink() -> None:
    channel = Network.compile(recurrent()).cell("rnn").channel("h_in")
    assert len(channel) == 0
    channel.push(np.full((1, 4), 2, F))
    assert channel.push().sum() == 0
    assert [float(e.sum()) for e in channel] == [8, 0]
    channel.pop()
    channel.resize(3)
    assert len(channel) == 3
    assert channel[np.int64(2)].shape == (1, 4)
    channel.reset(2)
    assert channel.array().tolist() == [[0] * 4] * 2
    with pytest.raises(ShapeMismatch, match=r"\(1, 4\), came \(4,\)"):
        channel[0] = np.zeros(4, F)
    with pytest.raises(InputError, match="no element 5"):
        channel[5]
    with pytest.raises(InputError, match="no element True"):
        channel[True]
    with pytest.raises(NeuralsymError, match="empty"):
        Channel(channel.format).pop()


def test_cells_share_what_one_of_them_assigns() -> None:
    flow = Flow()
    total = flow.var("total", "float32", [2], np.zeros(2, F))
    x, new, twice = (flow.var(n, "float32", [2]) for n in ("x", "new", "twice"))
    add, assign, read = flow.op("add", "Add"), flow.op("assign", "Assign"), flow.op("read", "Add")
    for op, inputs in ((add, (total, x)), (assign, (total, new)), (read, (total, total))):
        for var in inputs:
            op.add_input(var)
    add.add_output(new)
    read.add_output(twice)
    flow.func("count").add(add)
    flow.func("count").add(assign)
    flow.func("look").add(read)
    network = Network.compile(flow, threads=1)
    data, look = network.cell("count").instance(), network.cell("look").instance()
    look.compute()
    assert look["twice"].tolist() == [0, 0]
    for i in range(3):
        data["x"] = F([1, i])
        data.compute()
    look.compute()
    assert look["twice"].tolist() == [6, 6]
    assert network["total"].tolist() == [3, 3]


# -- reports and mistakes ------------------------------------------------------------------------
def test_the_profile_is_myelins_table(tmp_path: Path) -> None:
    network = Network.compile(classifier(), threads=1, profile=True)
    data = network.cell("classifier").instance()
    data["x"] = np.ones((1, 784), F)
    for _ in range(20):
        data.compute()
    text = network.profile()
    assert "Profile for 20 invocations of classifier with" in text
    head = next(line for line in text.splitlines() if line.startswith("percent"))
    assert head.split() == ["percent", "accum%", "time", "gflops", "kernel", "step"]
    assert "TOTAL" in text
    assert "cell classifier" in network.explain()
    assert "x:0" in str(network.cell("classifier"))
    with pytest.raises(BadAttribute, match="profile=True"):
        Network.compile(classifier()).profile()


def test_kernels_of_the_users_own() -> None:
    library = Library()

    @library.kernel("Tanh")
    def tanh(x: np.ndarray, y: np.ndarray) -> None:
        for i in range(x.size):
            y.flat[i] = 42.0

    flow = Flow()
    op = flow.op("t", "Tanh")
    op.add_input(flow.var("x", "float32", [3]))
    op.add_output(flow.var("y", "float32", [3]))
    flow.func("f").add(op)
    data = Network.compile(flow, library, threads=1).cell("f").instance()
    data["x"] = np.zeros(3, F)
    data.compute()
    assert data["y"].tolist() == [42, 42, 42]


def test_mistakes_name_what_there_is(network: Network) -> None:
    with pytest.raises(NeuralsymError, match=r"no cell 'clasifier'.*classifier"):
        network.cell("clasifier")
    data = network.cell("classifier").instance()
    with pytest.raises(InputError, match="no input 'z'"):
        data["z"] = 1
    with pytest.raises(ShapeMismatch, match="783"):
        data["x"] = np.zeros((1, 783), F)
    with pytest.raises(InputError, match="no input or output 'q'"):
        data.connect("q", data, "y")
    with pytest.raises(NeuralsymError, match="no connector"):
        network.channel("hidden")
    with pytest.raises(FormatError, match="no function"):
        Network.compile(Flow())

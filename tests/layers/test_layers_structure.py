"""Names, sharing, seeds and the forms of a pipe."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from neuralsym import Graph, GraphError, Network, ShapeMismatch, Symbol
from neuralsym import layers as nn
from neuralsym.layers.weights import weight


@nn.layer
def block(x: Symbol, filters: int, name: str | None = None) -> Symbol:
    """Two convolutions with weights of their own."""
    return x | nn.conv2d(filters, 3) | nn.relu | nn.conv2d(filters, 3)


def picture() -> Symbol:
    return nn.input(("N", 3, 8, 8))


def test_names_count_per_kind_in_their_scope() -> None:
    network = picture() | nn.conv2d(4, 3) | nn.relu | nn.conv2d(4, 3) | nn.get_network()
    assert list(network.weights) == [
        "conv2d/kernel", "conv2d/bias", "conv2d_1/kernel", "conv2d_1/bias",
    ]  # fmt: skip
    assert [p.name for p in network.outputs] == ["conv2d_1"]
    network = picture() | block(4) | block(4, name="last") | nn.get_network()
    assert list(network.weights)[::2] == [
        "block/conv2d/kernel", "block/conv2d_1/kernel",
        "last/conv2d/kernel", "last/conv2d_1/kernel",
    ]  # fmt: skip


def test_scopes_and_names_of_ones_own() -> None:
    x = picture()
    with nn.scope("stem"):
        x = x | nn.conv2d(4, 3, name="first") | nn.conv2d(4, 3)
    network = x | nn.get_network()
    assert list(network.weights)[::2] == ["stem/first/kernel", "stem/conv2d/kernel"]


def test_a_name_given_twice_is_refused_with_both_lines() -> None:
    x = picture() | nn.conv2d(4, 3, name="a")
    y = x | nn.conv2d(4, 3, name="a")
    with pytest.raises(GraphError, match=r"'a/kernel'|'a'") as raised:
        y | nn.get_network()
    assert str(raised.value).count(f"{Path(__file__).name}:") == 2


def test_a_layer_applied_twice_shares_its_weights() -> None:
    tower = nn.conv2d(4, 3) | nn.relu
    a, b = nn.input(("N", 3, 8, 8), name="a"), nn.input(("N", 3, 8, 8), name="b")
    assert len(((a | tower, b | tower) | nn.add() | nn.get_network()).weights) == 2
    fresh = (a | tower, b | (nn.conv2d(4, 3) | nn.relu)) | nn.add() | nn.get_network()
    assert len(fresh.weights) == 4
    layer = nn.conv2d(4, 3)
    assert len(((a | layer, b | layer.copy()) | nn.add() | nn.get_network()).weights) == 4


def test_sharing_reaches_layers_made_inside() -> None:
    shared = block(3)
    network = picture() | shared | shared | nn.get_network()
    assert len(network.weights) == 4
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    once = picture() | shared | nn.get_network()
    once.load_weights({n: network.weights[n] for n in network.weights})
    np.testing.assert_allclose(network(x), once(once(x)), rtol=1e-5, atol=1e-5)


def test_a_shared_layer_on_another_shape_names_both() -> None:
    layer = nn.linear(4)
    nn.input(("N", 3)) | layer
    with pytest.raises(ShapeMismatch, match=r"\(3, 4\)[\s\S]*\(5, 4\)[\s\S]*copy"):
        nn.input(("N", 5)) | layer


def digest(network: Network, prefix: str = "") -> str:
    parts = [network.weights[n].tobytes() for n in network.weights if n.startswith(prefix)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_the_same_seed_gives_the_same_bytes_on_every_machine() -> None:
    def made(seed: int) -> Network:
        return picture() | nn.conv2d(4, 3) | nn.fully_connected(5) | nn.get_network(seed=seed)

    assert digest(made(0)) == digest(made(0)) != digest(made(1))
    assert digest(made(0))[:16] == GOLDEN


GOLDEN = "a074d356db45125b"


def test_weights_do_not_depend_on_other_layers() -> None:
    short = picture() | nn.conv2d(4, 3) | nn.get_network()
    long = picture() | nn.conv2d(4, 3) | nn.conv2d(4, 3) | nn.get_network()
    assert digest(short) == digest(long, "conv2d/")
    named = picture() | nn.conv2d(3, 5) | nn.conv2d(4, 3, name="x") | nn.get_network()
    alone = picture() | nn.conv2d(4, 3, name="x") | nn.get_network()
    assert digest(named, "x/") == digest(alone)


def test_building_and_counting_draw_nothing() -> None:
    network = picture() | block(4) | nn.get_network()
    str(network), str(network.graph), network.summary(as_dict=True)
    assert not any(network.weights.tensor(n).is_drawn for n in network.weights)


def test_initialisers_by_name_object_and_array() -> None:
    kernel = np.arange(12, dtype=np.float32).reshape(3, 4)
    network = nn.input(("N", 3)) | nn.linear(4, kernel_initializer=kernel) | nn.get_network()
    np.testing.assert_array_equal(network.weights["linear/kernel"], kernel)
    network = nn.input(("N", 3)) | nn.linear(4, bias_initializer="ones") | nn.get_network()
    np.testing.assert_array_equal(network.weights["linear/bias"], np.ones(4))


def test_fans_are_those_of_oihw() -> None:
    """Owl's rule on [64, 128, 1, 1] would give a bound of 0.019."""
    network = nn.input(("N", 128, 4, 4)) | nn.conv2d(64, 1) | nn.get_network()
    bound = np.sqrt(6 / (128 + 64))
    largest = np.abs(network.weights["conv2d/kernel"]).max()
    assert 0.99 * bound < largest <= bound


def test_auto_pad_only_where_pads_cannot_be_told() -> None:
    def conv(x: Symbol, strides: int) -> Symbol:
        return x | nn.conv2d(4, 3, strides)

    free = nn.input(("N", 3, "H", "W"))
    assert "auto_pad" not in conv(free, 1).attrs
    assert conv(free, 2).attrs["auto_pad"] == "SAME_UPPER"
    assert str(conv(free, 2).shape[2]) == "(H + 1)//2"  # type: ignore[index]
    assert conv(picture(), 2).attrs["pads"] == (0, 0, 1, 1)


def test_forms_of_get_network() -> None:
    x = nn.input(("N", 4))
    y, z = x | nn.linear(2, name="y"), x | nn.linear(3, name="z")
    assert [p.name for p in ((y, z) | nn.get_network()).outputs] == ["y", "z"]
    assert [p.name for p in (y | nn.get_network).outputs] == ["y"]
    named = (y, z) | nn.get_network("two", outputs=["a", "b"])
    assert named.name == "two"
    assert list(named.run(np.ones((1, 4)))) == ["a", "b"]
    both = y | nn.get_network(outputs={"extra": z})
    assert [p.name for p in both.outputs] == ["y", "extra"]


def test_a_weight_without_network_has_a_value_too() -> None:
    graph = Graph(nn.input(("N", 3)) | nn.linear(2))
    assert Network(graph)(np.ones((1, 3))).shape == (1, 2)


def test_a_layer_of_ones_own() -> None:
    @nn.layer
    def scaled(x: Symbol, factor: float, *, name: str | None = None) -> Symbol:
        """Multiply by a weight and a number."""
        return x * weight("scale", (1,), "ones") * factor

    network = nn.input(("N", 3)) | scaled(2.0) | nn.get_network()
    assert list(network.weights) == ["scaled/scale"]
    np.testing.assert_array_equal(network(np.ones((1, 3))), np.full((1, 3), 2.0))


SNIPPET = """
from neuralsym import Network, Symbol, zoo
from neuralsym.layers import add, conv2d, fork, get_network, input, layer, relu

x = input(("N", 3, 8, 8))
reveal_type(conv2d)
reveal_type(x | conv2d(8, 3) | relu)
reveal_type(x | fork(conv2d(8, 1), conv2d(8, 3)) | add())
reveal_type(x | relu | get_network())
conv2d("8", 3)
conv2d(8, 3, stride=2)
zoo.resnet50(clases=3)
reveal_type(zoo.resnet50(batch=1, size=(64, 96)))
x | conv2d
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_type_checkers_see_pipes(tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text(SNIPPET)
    root = Path(__file__).resolve().parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "snippet.py")],
        cwd=root,
        capture_output=True,
        text=True,
    )
    lines = [line.split(": ", 1)[1] for line in done.stdout.splitlines() if "snippet.py" in line]
    assert "filters: int" in lines[0]
    assert 'Revealed type is "neuralsym.core.symbol.Symbol"' in lines[1]
    assert 'Revealed type is "neuralsym.core.symbol.Symbol"' in lines[2]
    assert 'Revealed type is "neuralsym.network.Network"' in lines[3]
    assert any('"str"; expected "int"' in line for line in lines)
    assert any('did you mean "strides"' in line or '"stride"' in line for line in lines)
    assert any('"clases"' in line and "error" in line for line in lines)
    assert any("Network" in line for line in lines[-3:-1])
    assert any("error" in line for line in lines[-1:])

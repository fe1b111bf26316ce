"""Kernels, operators and packages of users': what they register runs, and what fails is named."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np
import pytest

import neuralsym.layers as nn
from neuralsym import Graph, Network, ops
from neuralsym.cpu import library as libraries
from neuralsym.cpu.library import Library
from neuralsym.errors import BadAttribute, ExecutionError, NoKernel

X = np.random.default_rng(0).normal(size=(1, 4, 6, 6)).astype(np.float32)


def sevens(x: Any, y: Any) -> None:
    for i in range(x.size):
        y.flat[i] = 7


def run(library: Library) -> Network:
    """A network whose Relu stands between operators that it would be fused with."""
    x = nn.input((1, 4, 6, 6))
    net = x | nn.conv2d(4, 3) | nn.relu | nn.sigmoid | nn.get_network()
    return net.compile(library=library, threads=1)


def test_a_kernel_of_ones_own_is_not_fused_away() -> None:
    library = Library.default()
    library.kernel("Relu", name="sevens")(sevens)
    net = run(library)
    np.testing.assert_allclose(net(X), 1 / (1 + np.exp(-7.0)), rtol=1e-6)
    assert "by sevens" in net.explain()


def test_in_bodies_too() -> None:
    library = Library.default()
    library.kernel("Relu", name="sevens")(sevens)
    x = ops.variable("x", (3,))
    made = ops.if_(ops.reduce_sum(x) > 0, lambda: ops.relu(x) * 2.0, lambda: -x)
    net = Network(Graph({"y": made})).compile(library=library, threads=1)
    assert net(np.ones(3, np.float32)).tolist() == [14, 14, 14]
    assert net(-np.ones(3, np.float32)).tolist() == [1, 1, 1]


def test_the_last_registered_is_tried_first_and_refusals_are_told() -> None:
    library = Library.default()
    library.kernel("Relu", name="first")(sevens)

    @library.kernel("Relu", name="of three")
    def of_three(x: Any, y: Any, z: Any) -> None:
        pass

    text = run(library).explain()
    assert "by first" in text
    assert "not of three: the function takes 3 arrays" in text


def test_a_transformer_sees_the_operators_that_have_kernels() -> None:
    library = Library.default()
    library.kernel("Relu", name="sevens")(sevens)
    seen: list[int] = []

    def count(graph: Graph) -> Graph:
        seen.append(len(graph.find("Relu")))
        return graph

    library.transformer(count)
    run(library)
    assert seen == [1]


def raises(x: Any, y: Any) -> None:
    if x.size > 3:
        raise ValueError("too many")


def beyond(x: Any, y: Any) -> None:
    for i in range(1000):
        y[0, 0, 0, i] = 1


def unknown(x: Any, y: Any) -> None:
    y.frobnicate(3)


@pytest.mark.parametrize("function", [raises, beyond])
def test_a_kernel_that_fails_is_named(function: Any) -> None:
    library = Library.default()
    library.kernel("Relu", name="mine")(function)
    with pytest.raises(ExecutionError, match=r"Relu 'relu' failed in kernel 'mine': .*exception"):
        run(library)(X)


def test_a_kernel_that_cannot_be_compiled_is_named() -> None:
    library = Library.default()
    library.kernel("Relu", name="mine")(unknown)
    with pytest.raises(NoKernel, match=r"kernel mine cannot be compiled(.|\n)*frobnicate"):
        run(library)


# -- packages ------------------------------------------------------------------------------------
class Entry:
    """An entry point of an installed package."""

    def __init__(self, name: str, hook: Any) -> None:
        self.name, self.value, self.hook = name, f"package:{name}", hook

    def load(self) -> Any:
        return self.hook


def test_installed_packages_register_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(library: Library) -> None:
        raise RuntimeError("no luck")

    entries = [
        Entry("good", lambda library: library.kernel("Relu", name="installed")(sevens)),
        Entry("bad", broken),
    ]

    def entry_points(group: str) -> list[Entry]:
        return entries if group == libraries.ENTRY_POINTS else []

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    libraries.installed_library.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"entry point 'bad' \(package:bad\).*no luck"):
            library = Library.default()
        assert "by installed" in run(library).explain()
        library.kernel("Relu", name="over it")(sevens)
        assert "by over it" in run(library).explain()
    finally:
        monkeypatch.undo()
        libraries.installed_library.cache_clear()


def test_what_is_no_operator_and_no_library_is_said() -> None:
    library = Library.default()
    with pytest.warns(UserWarning, match="for 'ReLU', which ONNX has not; did you mean 'Relu'"):
        library.kernel("ReLU")(sevens)
    library.kernel("ReLU", domain="org.example")(sevens)
    here = r"\n  at .*test_own_kernels.py:"
    with pytest.raises(BadAttribute, match="by name, not 3 and ''" + here):
        library.kernel(3)  # type: ignore[arg-type]
    with pytest.raises(BadAttribute, match="a typer is a function, not 3" + here):
        library.typer("Scale", 3, domain="org.example")  # type: ignore[arg-type]
    network = nn.input(("N", 3)) | nn.relu | nn.get_network()
    with pytest.raises(TypeError, match="library is a Library, not str: Library.default.*" + here):
        network.compile(library="mine")  # type: ignore[arg-type]

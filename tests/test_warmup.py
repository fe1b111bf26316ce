"""Compiled programs on disk: a later process neither reads the model nor compiles it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import neuralsym
from neuralsym import Network, ops
from neuralsym.cli import main
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.core.model import Model
from neuralsym.cpu.options import Options
from neuralsym.layers import conv2d, fully_connected, get_network, input, relu

X = np.random.default_rng(0).normal(size=(1, 3, 12, 12)).astype(np.float32)
OPTIONS = Options(threads=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    network = input(("N", 3, 12, 12)) | conv2d(20, 3) | relu | fully_connected(5) | get_network("n")
    network.save(tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def stored(path: Path) -> Network:
    """The file's network after a warm-up; not read."""
    assert neuralsym.load(path, options=OPTIONS).warmup()
    network = neuralsym.load(path, options=OPTIONS)
    assert network._read is None
    return network


def test_it_gives_the_same_bits_without_reading_the_file(path: Path) -> None:
    plain = neuralsym.load(path, options=OPTIONS)
    wanted = plain.run(X)
    network = stored(path)
    for feed in (X, {plain.inputs[0].name: X}):
        made = network.run(feed)
        assert made.keys() == wanted.keys()
        for name, value in made.items():
            np.testing.assert_array_equal(value, wanted[name])
    assert network._read is None


def test_what_it_is_not_for_reads_the_file(path: Path) -> None:
    network = stored(path)
    two = np.concatenate([X, X])
    wanted = neuralsym.load(path, options=OPTIONS)(two)
    np.testing.assert_array_equal(network(two), wanted)
    np.testing.assert_array_equal(network(X), wanted[:1])
    assert stored(path).inputs[0].shape is not None
    assert len(stored(path).weights) == 4


def test_a_changed_weight_counts(path: Path) -> None:
    network = stored(path)
    (bias,) = [n for n in network.weights if "fully_connected" in n and "bias" in n]
    before = network(X)
    network.set_weight(bias, np.full(5, 7, np.float32))
    np.testing.assert_allclose(network(X), before + 7, rtol=1e-5)


def test_another_file_in_its_place_is_another_network(path: Path, tmp_path: Path) -> None:
    stored(path)
    other = input(("N", 3, 12, 12)) | conv2d(20, 3) | relu | fully_connected(5)
    (other | get_network("n", seed=9)).save(tmp_path / "other.onnx")
    path.write_bytes((tmp_path / "other.onnx").read_bytes())
    wanted = neuralsym.load(path.read_bytes())(X)
    np.testing.assert_allclose(neuralsym.load(path, options=OPTIONS)(X), wanted, rtol=1e-6)


def test_other_options_compile(path: Path) -> None:
    stored(path)
    assert neuralsym.load(path, options=Options(threads=2))._read is not None
    assert neuralsym.load(path, options=Options(threads=1, profile=True))._read is not None
    assert neuralsym.load(path, options=OPTIONS).compile(threads=1)._read is None


def test_a_damaged_program_is_made_again(path: Path, cache_dir: Path) -> None:
    wanted = stored(path)(X)
    for entry in cache_dir.glob("*.plan"):
        if entry.stat().st_size > 1000:
            data = bytearray(entry.read_bytes())
            data[-100] ^= 1
            entry.write_bytes(data)
    network = neuralsym.load(path, options=OPTIONS)
    assert network._read is not None
    np.testing.assert_array_equal(network(X), wanted)


def test_a_program_with_steps_of_unknown_size_is_not_stored(tmp_path: Path) -> None:
    x = variable("x", (5,))
    network = Network(Model.of(Graph({"y": ops.non_zero(x)})))
    network.save(tmp_path / "some.onnx")
    assert not neuralsym.load(tmp_path / "some.onnx").warmup()
    with pytest.raises(neuralsym.errors.InputError, match="no dimension 'M'"):
        network.warmup(M=2)


def test_the_command_and_what_a_later_process_imports(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["warmup", str(path), "--threads", "1", "--dim", "N=1"]) == 0
    assert "the compiled program is stored" in capsys.readouterr().out
    program = (
        "import sys, numpy, neuralsym\n"
        "from neuralsym.cpu.options import Options\n"
        f"net = neuralsym.load({str(path)!r}, options=Options(threads=1))\n"
        "net.run(numpy.zeros((1, 3, 12, 12), 'float32'))\n"
        "heavy = 'onnx numba llvmlite neuralsym.ops neuralsym.passes neuralsym.cpu.emit '\n"
        "heavy += 'neuralsym.weights.formats neuralsym.engines'\n"
        "print([name for name in heavy.split() if name in sys.modules])"
    )
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ, check=True
    )
    assert made.stdout.strip() == "[]"

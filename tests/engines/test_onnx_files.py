"""Files on disk: written whole or not at all, external data, size, and what is no model."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_weight
from neuralsym.core.model import Model
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType
from neuralsym.engines import onnx as engine
from neuralsym.errors import FormatError

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 5000


def lazy(name: str, *shape: int, drawn: list[str] | None = None):
    def make() -> np.ndarray:
        if drawn is not None:
            drawn.append(name)
        return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)

    return make_weight(Tensor(NumberType.FLOAT32, shape, make), name=name)


def small(drawn: list[str] | None = None) -> Graph:
    x = ops.variable("x", ("N", 50))
    hidden = ops.relu(ops.matmul(x, lazy("w0", 50, 70, drawn=drawn)) + lazy("b0", 70, drawn=drawn))
    fixed = ops.constant(np.arange(10), name="fixed")
    return Graph({"y": ops.matmul(hidden, lazy("w1", 70, 10, drawn=drawn)) + ops.cast(fixed, to=1)})


def run(path: Path, x: np.ndarray) -> np.ndarray:
    value: np.ndarray = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]
    return value


# -- one file ----------------------------------------------------------------------------------
def test_a_file_has_the_bytes_of_its_model(tmp_path: Path) -> None:
    graph = small()
    (path,) = engine.save(graph, tmp_path / "a.onnx")
    model = engine.of_symbolic(graph)
    assert path.read_bytes() == model.SerializeToString(deterministic=True)
    engine.save(model, tmp_path / "b.onnx")
    engine.save(Model.of(graph), str(tmp_path / "c.onnx"))
    assert (tmp_path / "b.onnx").read_bytes() == path.read_bytes()
    assert (tmp_path / "c.onnx").read_bytes() == path.read_bytes()
    assert engine.load(path) == engine.load(path.read_bytes()) == model
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx", "b.onnx", "c.onnx"]


def test_a_loaded_graph_is_the_same(tmp_path: Path) -> None:
    graph = small()
    (path,) = engine.save(graph, tmp_path / "a.onnx")
    again = engine.read_model(path).graph
    assert str(again) == str(graph)
    for a, b in zip(graph.weights, again.weights, strict=True):
        assert a.name == b.name
        np.testing.assert_array_equal(a.node.attrs["value"].value, b.node.attrs["value"].value)


def test_weights_are_made_for_the_writing_only(tmp_path: Path) -> None:
    drawn: list[str] = []
    graph = small(drawn)
    engine.save(graph, tmp_path / "a.onnx")
    assert sorted(drawn) == ["b0", "w0", "w1"]
    assert not any(w.node.attrs["value"].is_drawn for w in graph.weights)


MEMORY = """
import resource, sys
import numpy as np
from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_weight
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType
from neuralsym.engines import onnx as engine

def weight(i):
    make = lambda: np.full((1024, 4096), i, np.float32)
    return make_weight(Tensor(NumberType.FLOAT32, (1024, 4096), make), name=f"w{i}")

x = ops.variable("x", (1024, 4096))
y = x
for i in range(16):
    y = y + weight(i)
graph = Graph(y)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
engine.save(graph, sys.argv[1], limit=int(sys.argv[2]))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("limit", [2**31, 2**20])
def test_memory_stays_bounded(tmp_path: Path, limit: int) -> None:
    """16 weights of 16 MiB each are written with about one of them in memory."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "a.onnx"), str(limit)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) > 16 * 2**24
    assert int(done.stdout) < 64


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    engine.save(small(), path)
    before = path.read_bytes()

    def fail() -> np.ndarray:
        raise MemoryError("no more")

    bad = make_weight(Tensor(NumberType.FLOAT32, (5000,), fail), name="bad")
    for limit in (2**31, 1):
        with pytest.raises(MemoryError):
            engine.save(Graph(lazy("w", 5000) + bad), path, limit=limit)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["a.onnx"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    graph = small()
    with pytest.raises(FormatError, match="no folder"):
        engine.save(graph, tmp_path / "none" / "a.onnx")
    with pytest.raises(FormatError, match="is a folder"):
        engine.save(graph, tmp_path)
    with pytest.raises(FormatError, match="cannot be written"):
        engine.save(graph, tmp_path / ("a" * 300 + ".onnx"))


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.onnx").symlink_to(tmp_path / "real.onnx")
    assert engine.save(small(), tmp_path / "link.onnx") == [tmp_path / "real.onnx"]
    assert (tmp_path / "link.onnx").is_symlink()
    assert engine.read_model(tmp_path / "link.onnx").graph.output_names == ("y",)


def test_values_of_unknown_rank(tmp_path: Path) -> None:
    """onnx's checker cannot say such an output; onnxruntime runs it."""
    x, shape = ops.variable("x", (4,)), ops.variable("shape", ("rank",), "int64")
    graph = Graph({"y": ops.reshape(x, shape)})
    (path,) = engine.save(graph, tmp_path / "a.onnx")
    feed = {"x": np.arange(4, dtype=np.float32), "shape": np.array([2, 2])}
    value = onnxruntime.InferenceSession(str(path)).run(None, feed)[0]
    assert value.tolist() == [[0, 1], [2, 3]]
    assert engine.read_model(path).graph["y"].shape is None


# -- external data -----------------------------------------------------------------------------
@pytest.mark.oracle
def test_above_the_limit_the_data_lies_beside(tmp_path: Path) -> None:
    graph = small()
    path, data = engine.save(graph, tmp_path / "big.onnx", limit=LIMIT)
    assert (path.name, data.name) == ("big.onnx", "big.onnx.data")
    assert path.stat().st_size < LIMIT
    onnx.checker.check_model(str(path), full_check=True)
    proto = onnx.load(str(path), load_external_data=False)
    apart = {t.name for t in proto.graph.initializer if t.external_data}
    assert apart == {"w0", "w1"}
    x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    engine.save(graph, tmp_path / "whole.onnx")
    np.testing.assert_array_equal(run(path, x), run(tmp_path / "whole.onnx", x))
    assert engine.load(path) == engine.of_symbolic(graph)


def test_external_weights_are_mapped(tmp_path: Path) -> None:
    path, _ = engine.save(small(), tmp_path / "big.onnx", limit=LIMIT)
    value = engine.read_model(path).graph["w0"].node.attrs["value"].value
    assert not value.flags.owndata
    assert not value.flags.writeable
    np.testing.assert_array_equal(value.reshape(-1), np.linspace(-1, 1, 3500, dtype=np.float32))


def test_saving_over_the_file_that_the_weights_come_from(tmp_path: Path) -> None:
    path, data = engine.save(small(), tmp_path / "big.onnx", limit=LIMIT)
    before = path.read_bytes(), data.read_bytes()
    model = engine.read_model(path)
    assert engine.save(model, path, limit=LIMIT) == [path, data]
    assert (path.read_bytes(), data.read_bytes()) == before
    engine.save(model, path)
    assert engine.load(path) == engine.of_symbolic(small())


def external(location: str, tmp_path: Path, **entries: str) -> Path:
    """A model of 4 floats that lie in `location`."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [value],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [tensor],
    )
    path = tmp_path / "model" / "m.onnx"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(helper.make_model(graph, ir_version=8).SerializeToString())
    return path


@pytest.mark.parametrize("whole", [True, False])
def test_external_data_of_others(tmp_path: Path, whole: bool) -> None:
    entries = {} if whole else {"offset": "8", "length": "16", "checksum": "0"}
    path = external("sub/w.bin", tmp_path, **entries)
    (path.parent / "sub").mkdir()
    array = np.arange(4, dtype=np.float32)
    (path.parent / "sub" / "w.bin").write_bytes(b"" if whole else b"12345678")
    with (path.parent / "sub" / "w.bin").open("ab") as file:
        file.write(array.tobytes())
    value = engine.read_model(path).graph["w"].node.attrs["value"].value
    np.testing.assert_array_equal(value, array)
    loaded = engine.load(path).graph.initializer[0]
    np.testing.assert_array_equal(numpy_helper.to_array(loaded), array)


@pytest.mark.parametrize(
    ("location", "entries", "said"),
    [
        ("../secret.bin", {}, "outside of the folder"),
        ("sub/../../secret.bin", {}, "outside of the folder"),
        ("/etc/passwd", {}, "outside of the folder"),
        ("C:\\secret.bin", {}, "outside of the folder"),
        ("..\\secret.bin", {}, "outside of the folder"),
        ("link.bin", {}, "outside of the folder"),
        ("", {}, "outside of the folder"),
        ("a\0b", {}, "outside of the folder"),
        ("none.bin", {}, "not in"),
        ("w.bin", {"offset": "4"}, "12 bytes, not 16"),
        ("w.bin", {"offset": "-4"}, "which has only 16"),
        ("w.bin", {"length": "1000"}, "which has only 16"),
        ("w.bin", {"length": "x"}, "no sensible"),
    ],
)
def test_external_data_that_is_not_read(
    tmp_path: Path, location: str, entries: dict[str, str], said: str
) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    path = external(location, tmp_path, **entries)
    (path.parent / "sub").mkdir()
    (path.parent / "link.bin").symlink_to(tmp_path / "secret.bin")
    (path.parent / "w.bin").write_bytes(bytes(16))
    for read in (engine.read_model, engine.load):
        with pytest.raises(FormatError, match=said):
            read(path)
    with pytest.raises(FormatError, match="not read from a file"):
        engine.read_model(path.read_bytes())


# -- what is no model --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"hello, this is a text file\n", "it is text"),
        (b"PK\x03\x04rest of a zip", "zip archive"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"version https://git-lfs.github.com/spec/v1\noid 1", "git lfs pull"),
        (b"<!doctype html><html>", "web page"),
        (b"\x80\x04\x95pickle", "pickle"),
        (bytes(range(256)), "bytes are broken"),
        (b"\x08\x08", "no graph"),
    ],
)
def test_files_that_are_no_model(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    for given in (path, str(path)):
        for read in (engine.read_model, engine.load, engine.to_symbolic):
            with pytest.raises(FormatError, match=said) as raised:
                read(given)
            assert str(path) in str(raised.value)
    with pytest.raises(FormatError, match=said):
        engine.read_model(content)


def test_a_truncated_file(tmp_path: Path) -> None:
    whole = engine.of_symbolic(small()).SerializeToString()
    for length in (1, 10, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.onnx").write_bytes(whole[:length])
        with pytest.raises(FormatError, match=r"cut\.onnx"):
            engine.read_model(tmp_path / "cut.onnx")


def test_places_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"there is no file .*none\.onnx"):
        engine.read_model(tmp_path / "none.onnx")
    engine.save(small(), tmp_path / "a.onnx")
    with pytest.raises(FormatError, match=r"is a folder.*a\.onnx"):
        engine.read_model(tmp_path)
    with pytest.raises(FormatError, match="cannot be read"):
        engine.read_model(tmp_path / "a.onnx" / "b.onnx")
    with pytest.raises(FormatError, match="cannot be read"):
        engine.read_model("a\0b")
    with pytest.raises(FormatError, match="not int"):
        engine.read_model(3)  # type: ignore[arg-type]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (path,) = engine.save(small(), tmp_path / "a.onnx")
    path.chmod(0)
    with pytest.raises(FormatError, match="Permission denied"):
        engine.read_model(path)


# -- depth -------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_chain_of_50_000_nodes(tmp_path: Path) -> None:
    y = ops.variable("x", ("N", 4))
    for _ in range(25_000):
        y = ops.relu(y) + 1.0
    graph = Graph(y)
    start = time.perf_counter()
    (path,) = engine.save(graph, tmp_path / "chain.onnx")
    again = engine.read_model(path).graph
    assert time.perf_counter() - start < 30
    assert len(again.nodes) == len(graph.nodes)
    assert again.output_names == graph.output_names

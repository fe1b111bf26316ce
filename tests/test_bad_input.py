"""Files and graphs that are wrong: a clear error of ours, never a crash or a traceback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from neuralsym import (
    ExecutionError,
    FormatError,
    Graph,
    GraphError,
    InputError,
    Network,
    NeuralsymError,
    ShapeMismatch,
    WeightsError,
    load,
    ops,
)

FLOAT = TensorProto.FLOAT


def model(nodes: list[onnx.NodeProto], opset: int = 18, domain: str = "") -> bytes:
    x = helper.make_tensor_value_info("x", FLOAT, [2])
    y = helper.make_tensor_value_info("y", FLOAT, [2])
    graph = helper.make_graph(nodes, "g", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)])
    made.ir_version = 8
    return made.SerializeToString()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"absent\.onnx"):
        load(tmp_path / "absent.onnx")


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(FormatError, match=r"folder\.onnx"):
        load(tmp_path / "folder.onnx")


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x07", bytes(1000), b"\xff" * 64])
def test_content_that_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"broken\.onnx"):
        load(path)


def test_a_model_that_was_cut_off(tmp_path: Path) -> None:
    x = ops.variable("x", (1000,))
    network = Network(Graph({"y": x + np.arange(1000, dtype=np.float32)}))
    path = tmp_path / "whole.onnx"
    network.save(path)
    data = path.read_bytes()
    for length in (1, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(NeuralsymError):
            load(path)


def test_an_unknown_operator() -> None:
    with pytest.raises(NeuralsymError, match="Frobnicate"):
        load(model([helper.make_node("Frobnicate", ["x"], ["y"])])).run(np.ones(2))


def test_an_operator_that_is_almost_known() -> None:
    with pytest.raises(NeuralsymError, match="Relu"):
        load(model([helper.make_node("ReLU", ["x"], ["y"])])).run(np.ones(2))


@pytest.mark.parametrize("opset", [0, 99])
def test_an_unsupported_opset(opset: int) -> None:
    with pytest.raises(FormatError, match=str(opset)):
        load(model([helper.make_node("Relu", ["x"], ["y"])], opset=opset))


def test_a_cycle() -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    with pytest.raises(GraphError, match=r"itself|cycle"):
        load(model(nodes))


def test_a_value_that_nothing_makes() -> None:
    with pytest.raises(NeuralsymError, match=r"nothing|'z'"):
        load(model([helper.make_node("Add", ["x", "z"], ["y"])]))


def test_a_value_that_is_made_twice() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Exp", ["x"], ["y"])]
    with pytest.raises(GraphError, match="'y'"):
        load(model(nodes))


def test_an_attribute_of_nonsense() -> None:
    node = helper.make_node("Flatten", ["x"], ["y"], axis=-(2**62))
    with pytest.raises(NeuralsymError, match="axis"):
        load(model([node]))


def test_a_missing_folder_to_save_into(tmp_path: Path) -> None:
    network = Network(Graph({"y": ops.variable("x", (2,)) + 1}))
    with pytest.raises((FormatError, OSError), match="absent"):
        network.save(tmp_path / "absent" / "m.onnx")


def test_an_opset_that_is_no_number(tmp_path: Path) -> None:
    network = Network(Graph({"y": ops.variable("x", (2,)) * 2}))
    with pytest.raises(FormatError, match="opset='9' is no whole number"):
        network.save(tmp_path / "x.onnx", opset="9")  # type: ignore[arg-type]


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    network = Network(Graph({"y": ops.variable("x", (2,)) * 2}))
    with pytest.raises(WeightsError, match=r"there is no file .*absent\.npz"):
        network.load_weights(tmp_path / "absent.npz")


def test_a_warning_stands_at_the_users_line(tmp_path: Path) -> None:
    node = helper.make_node("Scale", ["x"], ["m"], domain="org.example")
    x, y = (helper.make_tensor_value_info(name, FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([node, helper.make_node("Relu", ["m"], ["y"])], "g", [x], [y])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("org.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports), tmp_path / "scale.onnx")
    for source in (tmp_path / "scale.onnx", onnx.load(tmp_path / "scale.onnx")):
        with pytest.warns(UserWarning, match="types are assumed") as seen:
            load(source)
        assert [w.filename for w in seen] == [__file__]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    network = Network(Graph({"y": ops.regex_full_match(ops.variable("x", (2,), "string"))}))
    network.save(path)
    before = path.read_bytes()
    with pytest.raises(FormatError, match="RegexFullMatch"):
        network.save(path, opset=18)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_another_suffix(tmp_path: Path) -> None:
    network = Network(Graph({"y": ops.variable("x", (2,)) + 1}))
    with pytest.raises(FormatError, match=r"\.txt"):
        network.save(tmp_path / "m.txt")


def test_a_shape_of_the_run_that_does_not_fit() -> None:
    """Inference can only give [2, 8], so it may not take the step away: its check is needed."""
    x, shape = ops.variable("x", (2, 8)), ops.variable("shape", (2,), dtype="int64")
    network = Network(Graph({"y": ops.expand(x, shape)}))
    ones = np.ones((2, 8), np.float32)
    assert network.run({"x": ones, "shape": [1, 8]})["y"].shape == (2, 8)
    with pytest.raises(ExecutionError, match="sizes 2 and 3 on axis -2 do not broadcast"):
        network.run({"x": ones, "shape": [3, 8]})


# -- what asks for nothing, or for too much -------------------------------------------------------
def test_no_outputs_are_no_question() -> None:
    network = Network(Graph({"y": ops.variable("x", (2,)) * 2}))
    x = np.ones(2, np.float32)
    for nothing in ([], (), {}.keys()):
        with pytest.raises(InputError, match="outputs is empty; leave it out to have all"):
            network.run(x, outputs=nothing)
    assert network.run(x, outputs=["y"]).keys() == network.run(x).keys()


def test_more_axes_than_arrays_can_have() -> None:
    widest = ops.variable("x", (1,) * 64)
    assert Network(Graph({"y": widest * 2}))(np.ones((1,) * 64, np.float32)).ndim == 64
    with pytest.raises(ShapeMismatch, match="65 axes; a tensor has at most 64"):
        ops.variable("x", (1,) * 65)
    with pytest.raises(ShapeMismatch, match="would have 65 axes; at most 64 can be"):
        ops.unsqueeze(widest, [0])
    with pytest.raises(ShapeMismatch, match="would have 80 axes"):
        ops.reshape(ops.constant(np.ones(1, np.int64)), (1,) * 80)
    with pytest.raises(ShapeMismatch, match="would have 127 axes"):
        ops.gather(widest, np.zeros((1,) * 64, np.int64))

"""Flows that hold TensorFlow's own operation types are read without TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neuralsym
from neuralsym.engines import tensorflow as engine
from neuralsym.engines.flow import Flow, Operation, read_model
from neuralsym.errors import FormatError
from neuralsym.myelin import FlowBuilder, Network
from neuralsym.ops.evaluate import evaluate_graph

F = np.float32
RNG = np.random.default_rng(3)
PICTURE = RNG.standard_normal((1, 5, 6, 3)).astype(F)
FILTER = RNG.standard_normal((3, 3, 3, 2)).astype(F)


def operation(
    flow: Flow, name: str, type_: str, inputs: dict[str, Any], **attrs: object
) -> Operation:
    """An operation with one result; inputs are constants, or None for variables that are there."""
    op = flow.op(name, type_)
    for key, value in inputs.items():
        var = flow.var(key)
        if value is not None:
            array = np.asarray(value)
            var.type, var.shape, var.data = array.dtype.name, list(array.shape), array
        op.add_input(var)
    for key, text in attrs.items():
        op.add_attr(key, text)
    op.add_output(flow.var(f"{name}:0", "float32"))
    return op


def computed(type_: str, x: Any, others: dict[str, Any], **attrs: object) -> Any:
    """What a file with one operation gives for x."""
    flow = Flow()
    flow.var("x", np.asarray(x).dtype.name, list(np.shape(x)))
    names = {"x": None, **others} if "axis_first" not in others else {"axis_first": 0, "x": None}
    op = operation(flow, "y", type_, names, **attrs)
    op.outputs[0].type = ""
    flow.func("f").add(op)
    graph = read_model(Flow.from_bytes(flow.to_bytes()), 1, engine.TENSORFLOW).graph
    return evaluate_graph(graph, {graph["x"]: np.asarray(x)})[0]


def convolved(x: Any, w: Any, strides: int, before: int, after: int) -> Any:
    """Channels last, by the definition."""
    x = np.pad(x, ((0, 0), (before, after), (before, after), (0, 0)))
    high, wide = ((size - 3) // strides + 1 for size in x.shape[1:3])
    made = np.zeros((len(x), high, wide, w.shape[3]))
    for i in range(high):
        for j in range(wide):
            cut = x[:, strides * i : strides * i + 3, strides * j : strides * j + 3]
            made[:, i, j] = np.tensordot(cut, w, 3)
    return made


def test_convolutions_have_their_channels_last() -> None:
    found = computed("Conv2D", PICTURE, {"w": FILTER}, strides="1,1,1,1", padding="SAME")
    np.testing.assert_allclose(found, convolved(PICTURE, FILTER, 1, 1, 1), rtol=1e-5, atol=1e-5)
    found = computed("Conv2D", PICTURE, {"w": FILTER}, strides="1,2,2,1", padding="VALID")
    np.testing.assert_allclose(found, convolved(PICTURE, FILTER, 2, 0, 0), rtol=1e-5, atol=1e-5)
    first = PICTURE.transpose(0, 3, 1, 2).copy()
    settings = {"strides": "1,1,2,2", "padding": "VALID", "data_format": "NCHW"}
    again = computed("Conv2D", first, {"w": FILTER}, **settings)
    np.testing.assert_allclose(again.transpose(0, 2, 3, 1), found, rtol=1e-6, atol=1e-6)


def test_pools_put_the_odd_element_of_padding_last() -> None:
    x = np.arange(12, dtype=F).reshape(1, 3, 4, 1)
    found = computed("MaxPool", x, {}, ksize="1,2,2,1", strides="1,2,2,1", padding="SAME")
    assert found[0, :, :, 0].tolist() == [[5, 7], [9, 11]]
    found = computed("AvgPool", x, {}, ksize="1,2,2,1", strides="1,2,2,1", padding="SAME")
    assert found[0, :, :, 0].tolist() == [[2.5, 4.5], [8.5, 10.5]]


def test_subscripts() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    ends: dict[str, Any] = {"a": [0, 2, 0], "b": [0, -4, 0], "s": [1, -1, 1]}
    found = computed("StridedSlice", x, ends, begin_mask=1, end_mask=5, shrink_axis_mask=4)
    np.testing.assert_array_equal(found, x[:, 2:-4:-1, 0])
    ends = {"a": [0, 0, -1], "b": [0, 0, 0], "s": [1, 1, 1]}
    settings = {"new_axis_mask": 1, "ellipsis_mask": 2, "shrink_axis_mask": 4}
    found = computed("StridedSlice", x, ends, **settings)
    np.testing.assert_array_equal(found, x[np.newaxis, ..., -1])


def test_one_word_of_two_meanings() -> None:
    table, rows = np.arange(6, dtype=F).reshape(3, 2), np.array([[0, 1], [2, 0]])
    assert computed("Gather", table, {"i": rows}).tolist() == [1, 4]
    assert computed("Gather", table, {"i": rows}, Tparams="float32").shape == (2, 2, 2)
    assert computed("Split", table.T, {"axis_first": 0}, num_split=2).tolist() == [[0, 2, 4]]


def counting(limit: int = 4) -> Flow:
    """total += item[i], kept in a list, for i up to a limit."""
    flow = Flow()
    flow.var("items", "float32", [6, 2])
    flow.var("shape", "int32", [1], np.array([2], np.int32))
    operation(flow, "kept", "TensorListReserve", {"shape": None, "n": np.int32(4)})
    operation(flow, "list", "TensorListFromTensor", {"items": None, "shape": None})
    for name in ("kept:0", "list:0"):
        flow.var(name).type = ""
    loop = operation(
        flow, "loop", "While",
        {"zero": np.int32(0), "kept:0": None, "start": np.zeros(2, F), "list:0": None},
    )  # fmt: skip
    loop.outputs[0].type = ""
    loop.add_output(flow.var("loop:1"))
    loop.add_output(flow.var("loop:2", "float32"))
    func = flow.func("f")
    for name in ("kept", "list", "loop"):
        func.add(flow.op(name))
    body, cond = flow.func("body"), flow.func("cond")
    body.add(operation(flow, "next", "AddV2", {"i": None, "one": np.int32(1)}))
    body.add(operation(flow, "item", "TensorListGetItem", {"all": None, "i": None, "shape": None}))
    body.add(operation(flow, "sum", "AddV2", {"item:0": None, "t": None}))
    body.add(operation(flow, "set", "TensorListSetItem", {"l": None, "i": None, "sum:0": None}))
    cond.add(operation(flow, "less", "Less", {"i": None, "limit": np.int32(limit)}))
    flow.var("next:0").type, flow.var("set:0").type, flow.var("less:0").type = "int32", "", "bool"
    for role, outputs in (("body", "next:0,set:0,sum:0,all"), ("cond", "less:0")):
        loop.add_attr(role, role)
        loop.add_attr(f"{role}_inputs", "i,l,t,all")
        loop.add_attr(f"{role}_outputs", outputs)
    func.add(operation(flow, "stack", "TensorListStack", {"loop:1": None, "shape": None}))
    for name in ("loop:2", "stack:0"):
        flow.var(name).output = True
    return Flow.from_bytes(flow.to_bytes())


@pytest.mark.parametrize("limit", [4, 2])
def test_loops_and_lists(limit: int, tmp_path: Path) -> None:
    counting(limit).save(tmp_path / "loop.flow")
    graph = neuralsym.load(tmp_path / "loop.flow").graph
    (loop,) = graph.find("Loop")
    assert loop.inputs[0] is not None
    assert loop.inputs[0].known == limit  # so that sizes are known, and no condition is computed
    items = RNG.standard_normal((6, 2)).astype(F)
    found = evaluate_graph(graph, {graph["items"]: items})
    sums = np.cumsum(items[:limit], 0, dtype=F)
    np.testing.assert_allclose(found[0], sums[-1], rtol=1e-6)
    np.testing.assert_allclose(found[1], np.pad(sums, ((0, 4 - limit), (0, 0))), rtol=1e-6)


def test_cells_have_such_operations() -> None:
    flow = Flow()
    flow.var("x", "float32", [-1, 5, 6, 3])
    settings = {"strides": "1,1,1,1", "padding": "SAME"}
    flow.func("f").add(operation(flow, "y", "Conv2D", {"x": None, "w": FILTER}, **settings))
    data = Network.compile(flow).cell("f").instance()
    data["x"] = PICTURE
    data.compute()
    np.testing.assert_allclose(data["y"], convolved(PICTURE, FILTER, 1, 1, 1), rtol=1e-5, atol=1e-5)


def test_calls_that_cannot_be() -> None:
    flow = counting()
    flow.op("sum").add_attr("f", "body")
    flow.op("sum").add_attr("f_inputs", "i")
    with pytest.raises(FormatError, match=r"'sum' \(AddV2\): function 'body' calls itself"):
        read_model(flow, 1, engine.TENSORFLOW)
    flow = counting()
    flow.op("loop").add_attr("body_inputs", "i")
    with pytest.raises(FormatError, match=r"'loop' \(While\): its functions do not take what"):
        read_model(flow, 1, engine.TENSORFLOW)
    flow = counting()
    flow.op("loop").add_attr("cond", "body2")
    with pytest.raises(FormatError, match="cond is 'body2', no function; did you mean 'body'"):
        read_model(flow, 1, engine.TENSORFLOW)


def test_what_is_not_known_is_named() -> None:
    with pytest.raises(FormatError, match=r"operation 'y' \(Conv2E\): .* did you mean 'Conv2D'"):
        computed("Conv2E", PICTURE, {"w": FILTER})
    with pytest.raises(FormatError, match=r"'y' \(Conv2D\): attribute padding='EVEN' is none of"):
        computed("Conv2D", PICTURE, {"w": FILTER}, padding="EVEN")
    with pytest.raises(FormatError, match=r"'y' \(FusedBatchNormV3\): it is in training mode"):
        computed("FusedBatchNormV3", PICTURE, {n: np.ones(3, F) for n in "abcd"})


def test_tensorflow_is_an_extra_that_is_imported_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    for use in (lambda: FlowBuilder(object(), Flow()), lambda: engine.to_symbolic("model")):
        with pytest.raises(FormatError, match=r"pip install 'neuralsym\[tensorflow\]'"):
            use()

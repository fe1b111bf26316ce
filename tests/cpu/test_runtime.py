"""Cells and instances: feeding, sizes, errors, state, threads, objects, control flow."""

from __future__ import annotations

import copy
import os
import pickle
import threading

import numpy as np
import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.core.op import Op
from neuralsym.core.schema import Formal, Schema
from neuralsym.cpu.compiler import compile_graph, explain
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.options import Options
from neuralsym.errors import ExecutionError, InputError, ShapeMismatch, TypeMismatch

ONE = Options(threads=1)


def run(graph, options=ONE, **feed):
    instance = compile_graph(graph, options).instance()
    for name, value in feed.items():
        instance[name] = value
    instance.compute()
    return instance


def test_parameters_and_explanation():
    x = variable("x", ("N", 4))
    cell = compile_graph(Graph({"y": ops.exp(x)}), ONE)
    assert [(p.name, p.kind) for p in cell.parameters][:2] == [("x", "input"), ("y", "output")]
    assert str(cell.parameter("x").shape[0]) == "N"
    assert "loop" in explain(cell)


def test_what_does_not_fit_is_refused():
    x = variable("x", ("N", 4))
    z = variable("z", ("N", 4))
    instance = compile_graph(Graph({"y": x + z}), ONE).instance()
    with pytest.raises(InputError, match="no input 'w'"):
        instance["w"] = np.ones(3)
    with pytest.raises(TypeMismatch, match="float64"):
        instance["x"] = np.ones((2, 4))
    with pytest.raises(ShapeMismatch, match=r"\(2, 5\)"):
        instance["x"] = np.ones((2, 5), np.float32)
    with pytest.raises(ShapeMismatch):
        instance["x"] = np.ones((2, 4, 1), np.float32)
    instance["x"] = np.ones((2, 4), np.float32)
    with pytest.raises(InputError, match="'z'"):
        instance.compute()
    instance["z"] = np.ones((3, 4), np.float32)
    with pytest.raises(ShapeMismatch, match="dimension N is 2"):
        instance.compute()
    instance["z"] = np.ones((2, 4), np.float32)
    with pytest.raises(ExecutionError, match="before compute"):
        instance["y"]
    instance.compute()
    np.testing.assert_array_equal(instance["y"], np.full((2, 4), 2, np.float32))
    instance.clear()
    with pytest.raises(InputError):
        instance.compute()


def test_sizes_that_do_not_broadcast_are_refused_not_read_beyond():
    x, y = variable("x", ("A",)), variable("y", ("B",))
    instance = compile_graph(Graph({"z": x + y}), ONE).instance()
    instance["x"], instance["y"] = np.ones(3, np.float32), np.ones(1, np.float32)
    instance.compute()
    instance["y"] = np.ones(2, np.float32)
    with pytest.raises(ShapeMismatch, match="broadcast"):
        instance.compute()


def test_expressions_of_names_are_solved_and_checked():
    x = variable("x", ("2*N",) if False else ("N*2",))
    y = variable("y", ("N",))
    instance = compile_graph(Graph({"a": ops.relu(x), "b": ops.relu(y)}), ONE).instance()
    instance["x"], instance["y"] = np.ones(6, np.float32), np.ones(3, np.float32)
    instance.compute()
    instance["y"] = np.ones(4, np.float32)
    with pytest.raises(ShapeMismatch):
        instance.compute()
    alone = compile_graph(Graph({"a": ops.relu(x)}), ONE).instance()
    alone["x"] = np.ones(10, np.float32)
    alone.compute()
    assert alone["a"].shape == (10,)


def test_defaults_hold_unless_fed():
    x = variable("x", (3,))
    bias = variable("bias", init=np.array([1, 2, 3], np.float32))
    cell = compile_graph(Graph({"y": x + bias}), ONE)
    instance = cell.instance()
    instance["x"] = np.zeros(3, np.float32)
    instance.compute()
    np.testing.assert_array_equal(instance["y"], [1, 2, 3])
    instance["bias"] = np.array([5, 5, 5], np.float32)
    instance.compute()
    np.testing.assert_array_equal(instance["y"], [5, 5, 5])
    instance.clear()
    instance["x"] = np.zeros(3, np.float32)
    instance.compute()
    np.testing.assert_array_equal(instance["y"], [1, 2, 3])


def test_state_is_written_back_to_the_cell():
    x = variable("x", (2,))
    total = variable("total", init=np.zeros(2, np.float32))
    new = total + x
    cell = compile_graph(Graph({"y": new * np.float32(1)}, updates={total: new}), ONE)
    first, second = cell.instance(), cell.instance()
    for i, instance in enumerate((first, second, first)):
        instance["x"] = np.array([1, 10], np.float32)
        instance.compute()
        np.testing.assert_array_equal(instance["y"], np.array([1, 10]) * (i + 1))
    np.testing.assert_array_equal(cell.state["total"], [3, 30])


def test_outputs_may_be_inputs_constants_or_views():
    x = variable("x", (2, 3))
    graph = Graph(
        {
            "same": x,
            "flat": ops.reshape(x, np.array([6])),
            "fixed": ops.constant(np.arange(3.0)),
            "sizes": ops.shape(x),
        }
    )
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    instance = run(graph, x=a)
    np.testing.assert_array_equal(instance["same"], a)
    np.testing.assert_array_equal(instance["flat"], a.reshape(6))
    np.testing.assert_array_equal(instance["fixed"], np.arange(3.0))
    np.testing.assert_array_equal(instance["sizes"], [2, 3])


def test_shape_arithmetic_costs_no_step():
    x = variable("x", ("N", 6))
    rows = ops.gather(ops.shape(x), np.array([0]))
    y = ops.reshape(x, ops.concat([rows, np.array([2, 3])], axis=0))
    cell = compile_graph(Graph({"y": y, "rows": rows}), ONE)
    assert not any(isinstance(s.kernel, HostKernel) for s in cell.program.steps)
    instance = cell.instance()
    for n in (2, 5):
        a = np.random.default_rng(n).normal(size=(n, 6)).astype(np.float32)
        instance["x"] = a
        instance.compute()
        np.testing.assert_array_equal(instance["y"], a.reshape(n, 2, 3))
        np.testing.assert_array_equal(instance["rows"], [n])


def test_sizes_that_depend_on_data_split_the_program():
    x = variable("x", ("N",))
    places = ops.non_zero(ops.relu(x))
    taken = ops.gather(x, ops.squeeze(places, np.array([0])))
    y = ops.exp(taken) + np.float32(1)
    cell = compile_graph(Graph({"y": y, "places": places}), ONE)
    assert len(cell.program.segments) > 1
    instance = cell.instance()
    for a in ([-1, 2, 0, 3], [1, 1, 1, 1], [-1, -2], [5], [-1, 2, 0, 4]):
        a = np.array(a, np.float32)
        instance["x"] = a
        instance.compute()
        np.testing.assert_array_equal(instance["places"], np.nonzero(np.maximum(a, 0)))
        np.testing.assert_allclose(instance["y"], np.exp(a[a > 0]) + 1, rtol=1e-6)


def test_a_program_may_end_with_a_shape_that_depends_on_data():
    x = variable("x", ("N",))
    instance = run(Graph({"y": ops.non_zero(x)}), x=np.array([0, 1, 2], np.float32))
    np.testing.assert_array_equal(instance["y"], [[1, 2]])


def test_sequences_live_beside_the_arena():
    x = variable("x", ("N",))
    made = ops.sequence_construct([x * np.float32(2), ops.relu(x)])
    back = ops.sequence_at(made, np.int64(1))
    instance = run(
        Graph({"all": made, "y": back + x, "n": ops.sequence_length(made)}),
        x=np.array([-1, 2], np.float32),
    )
    np.testing.assert_array_equal(instance["y"], [-1, 4])
    assert instance["n"] == 2
    assert [list(a) for a in instance["all"]] == [[-2, 4], [0, 2]]


def test_if_runs_compiled_branches():
    x, flag = variable("x", ("N",)), variable("flag", (), "bool")
    y = ops.if_(flag, lambda: ops.exp(x) + x, lambda: -x)
    cell = compile_graph(Graph({"y": y + np.float32(1)}), ONE)
    assert any(s.kernel.name == "control" for s in cell.program.steps)
    instance = cell.instance()
    a = np.array([0.5, -1], np.float32)
    instance["x"], instance["flag"] = a, np.array(True)
    instance.compute()
    np.testing.assert_allclose(instance["y"], np.exp(a) + a + 1, rtol=1e-6)
    instance["flag"] = np.array(False)
    instance.compute()
    np.testing.assert_array_equal(instance["y"], 1 - a)


def test_loop_compiles_its_body_once():
    x, n = variable("x", (3,)), variable("n", (), "int64")
    y = ops.loop(n, None, lambda i, state: state * np.float32(2) + x, x)
    cell = compile_graph(Graph({"y": y}), ONE)
    instance = cell.instance()
    a = np.array([1, 2, 3], np.float32)
    for trips in (0, 3, 5):
        instance["x"], instance["n"] = a, np.array(trips)
        instance.compute()
        expected = a
        for _ in range(trips):
            expected = expected * 2 + a
        np.testing.assert_array_equal(instance["y"], expected)


class Broken(Op):
    """An operator whose kernels fail."""

    domain = "test.runtime"
    schema = Schema(
        "Broken",
        "test.runtime",
        inputs=(Formal("X", "single", "T", frozenset()),),
        outputs=(Formal("Y", "single", "T", frozenset()),),
        minimum_inputs=1,
        maximum_inputs=1,
    )

    @classmethod
    def infer(cls, call):
        return [call.type(0)]


def broken(x, name="bad"):
    from neuralsym.core.registry import apply

    return apply(Broken, [x], name=name)[0]


def test_errors_of_host_steps_name_the_node_and_the_line():
    class Raises(HostKernel):
        name = "raises"

        def compute(self, step, values):
            raise ZeroDivisionError("on purpose")

    library = Library.default()
    library.kernel("Broken", domain="test.runtime")(Raises)
    graph = Graph({"y": broken(variable("x", (2,)), "bad")})
    instance = compile_graph(graph, ONE, library).instance()
    instance["x"] = np.zeros(2, np.float32)
    for _ in range(2):
        with pytest.raises(
            ExecutionError, match=r"Broken 'bad'.*on purpose(.|\n)*test_runtime"
        ) as e:
            instance.compute()
        assert isinstance(e.value.__cause__, ZeroDivisionError)


def test_errors_of_kernels_name_the_node():
    def fails(x, y):
        return 7

    library = Library.default()
    library.kernel("Broken", domain="test.runtime")(fails)
    graph = Graph({"y": broken(variable("x", (2,)), "bad")})
    instance = compile_graph(graph, ONE, library).instance()
    instance["x"] = np.zeros(2, np.float32)
    with pytest.raises(ExecutionError, match=r"Broken 'bad'.*status 7"):
        instance.compute()


def test_functions_and_classes_as_kernels():
    library = Library.default()

    @library.kernel("Broken", domain="test.runtime")
    def triple(x, y):
        for i in range(x.shape[0]):
            y[i] = 3 * x[i]

    @library.kernel("Broken", domain="test.runtime")
    class Never(Kernel):
        name = "never"

        def supports(self, step):
            return "it never does"

    cell = compile_graph(Graph({"y": broken(variable("x", ("N",)))}), ONE, library)
    assert "not never: it never does" in explain(cell)
    instance = cell.instance()
    instance["x"] = np.arange(5, dtype=np.float32)
    instance.compute()
    np.testing.assert_array_equal(instance["y"], 3 * np.arange(5, dtype=np.float32))


@pytest.mark.parametrize("threads", [1, 2])
def test_instances_run_at_once(threads):
    x = variable("x", ("N", 64))
    y = ops.tanh(x) * np.float32(2) + ops.sigmoid(x)
    cell = compile_graph(Graph({"y": y}), Options(threads=threads))
    wrong = []

    def work(seed):
        instance = cell.instance()
        rng = np.random.default_rng(seed)
        for _ in range(30):
            a = rng.normal(size=(int(rng.integers(1, 9)), 64)).astype(np.float32)
            instance["x"] = a
            instance.compute()
            expected = np.tanh(a) * 2 + 1 / (1 + np.exp(-a))
            if not np.allclose(instance["y"], expected, rtol=1e-5, atol=1e-6):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_nothing_compiled_pickles():
    cell = compile_graph(Graph({"y": ops.relu(variable("x", (2,)))}), ONE)
    for thing in (cell, cell.instance(), cell.program):
        with pytest.raises(TypeError, match="never pickled"):
            pickle.dumps(thing)
        with pytest.raises(TypeError):
            copy.copy(thing)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs():
    cell = compile_graph(Graph({"y": ops.relu(variable("x", (2,)))}), Options(threads=2))
    instance = cell.instance()
    instance["x"] = np.array([-1, 1], np.float32)
    instance.compute()
    child = os.fork()
    if not child:
        status = 1
        try:
            instance.compute()
            status = 0 if list(instance["y"]) == [0, 1] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_profile_tells_each_step():
    x = variable("x", (1000,))
    cell = compile_graph(Graph({"y": ops.tanh(x)}), Options(threads=1, profile=True))
    instance = cell.instance()
    instance["x"] = np.ones(1000, np.float32)
    instance.compute()
    (row,) = instance.profile()
    assert row.nanoseconds > 0


def test_stages_can_be_dumped(monkeypatch, tmp_path):
    monkeypatch.setenv("NEURALSYM_DUMP", "passes,program,plan,kernels")
    monkeypatch.setenv("NEURALSYM_DUMP_DIR", str(tmp_path))
    compile_graph(Graph({"y": ops.tanh(variable("x", (8,)))}, name="net"), ONE)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "net.kernels.txt",
        "net.passes.txt",
        "net.plan.txt",
        "net.program.txt",
    ]
    assert "define i32" in (tmp_path / "net.kernels.txt").read_text()


def test_an_instance_that_has_settled_still_takes_whatever_may_come() -> None:
    x = ops.variable("x", ("N", 3))
    instance = compile_graph(Graph({"y": x * 2.0}), Options(threads=1)).instance()
    ones = np.ones((2, 3), np.float32)
    instance["x"] = ones
    instance.compute()
    first = instance["y"]
    instance["x"] = 3 * ones  # straight into its place
    instance.compute()
    assert instance["y"] is first
    assert first.tolist() == [[6] * 3] * 2
    instance["x"] = np.ones((4, 3), np.float32)  # of another size
    instance.compute()
    assert instance["y"].shape == (4, 3)
    instance["x"] = ones[::-1, ::-1]  # not contiguous
    instance.compute()
    assert instance["y"].tolist() == [[2] * 3] * 2
    with pytest.raises(ShapeMismatch):
        instance["x"] = np.ones((2, 4), np.float32)
    instance.compute()
    assert instance["y"].tolist() == [[2] * 3] * 2
    instance.clear()
    with pytest.raises(ExecutionError, match="no value before compute"):
        instance["y"]
    with pytest.raises(InputError, match="was not fed"):
        instance.compute()
    instance["x"] = ones
    instance.compute()
    assert instance["y"].tolist() == [[2] * 3] * 2

"""Network: feeding, results, weights, options, threads and pickles, as a user meets them."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

from neuralsym import Graph, InputError, Network, ShapeMismatch, TypeMismatch, WeightsError, ops
from neuralsym.layers import fully_connected, get_network, input, relu


@pytest.fixture
def affine() -> Network:
    x = ops.variable("x", ("N", 3))
    return Network(Graph({"y": x * 2 + 1, "z": x - 1}, name="affine"))


@pytest.fixture
def dense() -> Network:
    return input(("N", 4)) | fully_connected(5, name="fc") | relu | get_network("dense")


def test_feeds_by_dict_array_and_sequence(affine: Network) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = {"y": x * 2 + 1, "z": x - 1}
    for feed in ({"x": x}, x, [x], (x,)):
        results = affine.run(feed)
        assert list(results) == ["y", "z"]
        for name, value in wanted.items():
            np.testing.assert_array_equal(results[name], value)


def test_onnxruntimes_order_of_arguments_is_understood(affine: Network) -> None:
    x = np.ones((1, 3), np.float32)
    assert list(affine.run(None, {"x": x})) == ["y", "z"]
    assert list(affine.run(["z"], {"x": x})) == ["z"]
    assert list(affine.run({"x": x}, ["z", "y"])) == ["y", "z"]


def test_any_value_of_the_graph_can_be_asked_for(dense: Network) -> None:
    x = np.ones((2, 4), np.float32)
    kernel, bias = dense.weights["fc/kernel"], dense.weights["fc/bias"]
    found = dense.run(x, ["fc"])["fc"]
    np.testing.assert_allclose(found, x @ kernel + bias, rtol=1e-5)


def test_results_are_fresh_arrays(affine: Network) -> None:
    first = affine.run(np.zeros((1, 3)))["y"]
    second = affine.run(np.ones((1, 3)))["y"]
    np.testing.assert_array_equal(first, np.ones((1, 3)))
    np.testing.assert_array_equal(second, np.full((1, 3), 3.0))


def test_float64_and_python_numbers_are_cast_to_a_float_input(affine: Network) -> None:
    for value in (np.ones((1, 3)), [[1, 1, 1]], [[1.0, 1.0, 1.0]]):
        result = affine.run({"x": value})["y"]
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, np.full((1, 3), 3.0))


def test_another_dtype_is_refused_with_its_name(affine: Network) -> None:
    with pytest.raises(TypeMismatch, match=r"input x: float32.* int32"):
        affine.run({"x": np.ones((1, 3), np.int32)})
    with pytest.raises(TypeMismatch, match="takes numbers"):
        affine.run({"x": [["a", "b", "c"]]})


def test_a_wrong_shape_is_refused_with_axis_and_sizes(affine: Network) -> None:
    with pytest.raises(ShapeMismatch, match=r"\(2, 4\): axis 1 is 4, not 3"):
        affine.run(np.ones((2, 4), np.float32))
    with pytest.raises(ShapeMismatch, match=r"array\[None\] adds it"):
        affine.run(np.ones(3, np.float32))


def test_missing_unknown_and_surplus_inputs_are_named(affine: Network) -> None:
    with pytest.raises(InputError, match="needs the input x"):
        affine.run({})
    with pytest.raises(InputError, match="no input 'X'; did you mean 'x'"):
        affine.run({"X": np.ones((1, 3))})
    with pytest.raises(InputError, match="2 values came"):
        affine.run([np.ones((1, 3)), np.ones((1, 3))])
    with pytest.raises(InputError, match="no output 'yy'"):
        affine.run(np.ones((1, 3)), ["yy"])
    with pytest.raises(InputError, match="no output 'nothing'; it has 'y'"):
        affine.run(np.ones((1, 3)), ["nothing"])
    with pytest.raises(TypeMismatch, match="takes numbers, came array of <U1"):
        affine.run(np.array([["a", "b", "c"]]))


def test_equal_names_must_have_equal_sizes() -> None:
    a, b = ops.variable("a", ("N", 2)), ops.variable("b", ("N", 2))
    network = Network(Graph({"y": a + b}))
    with pytest.raises(ShapeMismatch, match="N"):
        network.run({"a": np.ones((2, 2)), "b": np.ones((3, 2))})


def test_the_batch_is_free_down_to_none(dense: Network) -> None:
    for n in (1, 3, 17, 0):
        assert dense(np.ones((n, 4), np.float32)).shape == (n, 5)


def test_a_weight_is_changed_by_name(dense: Network) -> None:
    x = np.ones((1, 4), np.float32)
    before = dense(x)
    dense.set_weight("fc/kernel", np.zeros((4, 5)))
    dense.set_weight("fc/bias", np.arange(5))
    np.testing.assert_array_equal(dense(x), [[0, 1, 2, 3, 4]])
    assert not np.array_equal(before, dense(x))


def test_weights_that_do_not_fit_are_listed_together(dense: Network) -> None:
    with pytest.raises(WeightsError, match="did you mean 'fc/kernel'"):
        dense.set_weight("fc/kernal", np.zeros((4, 5)))
    with pytest.raises(WeightsError, match=r"\(4, 5\), came \(5, 4\)"):
        dense.set_weight("fc/kernel", np.zeros((5, 4)))
    with pytest.raises(WeightsError, match=r"missing 'fc/bias'[\s\S]*unexpected 'bias'"):
        dense.load_weights({"fc/kernel": np.zeros((4, 5)), "bias": np.zeros(5)})


def test_weights_load_from_npz_and_onnx(dense: Network, tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    values = {"fc/kernel": np.full((4, 5), 0.5, np.float32), "fc/bias": np.zeros(5, np.float32)}
    np.savez(folder / "w.npz", **values)
    dense.load_weights(folder / "w.npz")
    np.testing.assert_array_equal(dense(np.ones((1, 4))), np.full((1, 5), 2.0))
    dense.save(folder / "m.onnx")
    other = input(("N", 4)) | fully_connected(5, name="fc") | relu | get_network("other", seed=5)
    other.load_weights(folder / "m.onnx")
    np.testing.assert_array_equal(other.weights["fc/kernel"], values["fc/kernel"])
    (folder / "empty.npz").write_bytes(b"")
    with pytest.raises(WeightsError, match=r"empty\.npz"):
        dense.load_weights(folder / "empty.npz")


def test_a_variable_with_a_value_may_be_left_out() -> None:
    x = ops.variable("x", init=np.array([1, 2], np.float32))
    network = Network(Graph({"y": x * 10}))
    np.testing.assert_array_equal(network.run()["y"], [10, 20])
    np.testing.assert_array_equal(network.run({"x": [3, 4]})["y"], [30, 40])
    np.testing.assert_array_equal(network.run()["y"], [10, 20])


def test_runs_from_several_threads_do_not_mix(dense: Network) -> None:
    inputs = [np.full((2, 4), i, np.float32) for i in range(8)]
    wanted = [dense(x) for x in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(50):
            if not np.array_equal(dense(inputs[i]), wanted[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_pickles_as_its_graph(dense: Network) -> None:
    x = np.ones((1, 4), np.float32)
    wanted = dense(x)
    copy = pickle.loads(pickle.dumps(dense))
    np.testing.assert_array_equal(copy(x), wanted)
    assert copy.options == dense.options


def test_summary_counts_without_drawing(dense: Network) -> None:
    lines: list[str] = []
    dense.summary(lines.append)
    assert "fc" in lines[0]
    assert "Parameters: 25" in lines[0]
    totals = dense.summary(as_dict=True)
    assert totals is not None
    assert totals["parameters"] == 25
    assert totals["macs"] == 20
    assert not dense.weights.tensor("fc/kernel").is_drawn


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (0, 0), (1, 1), (3, 1), (1, 3), (3, 3)])
def test_named_sizes_broadcast_as_numpys_do(sizes: tuple[int, int]) -> None:
    x, y = ops.variable("x", ("N", 2)), ops.variable("y", ("M", 2))
    network = Network(Graph({"sum": x + y, "shape": ops.shape(x + y)}))
    a, b = (np.full((size, 2), size, np.float32) for size in sizes)
    found = network.run({"x": a, "y": b})
    np.testing.assert_array_equal(found["sum"], a + b)
    assert found["shape"].tolist() == list((a + b).shape)

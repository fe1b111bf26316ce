"""Networks in float16 and in 8-bit integers: what changes, and that it is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import neuralsym
import neuralsym.layers as nn
from neuralsym import ops, zoo
from neuralsym.cli import main
from neuralsym.core.graph import Graph
from neuralsym.errors import BadAttribute, InputError
from neuralsym.network import Network
from neuralsym.passes.qdq import Levels, Range, weight_scales
from neuralsym.quantize import quantize_static
from neuralsym.testing import compare

F = np.float32


def small(classes: int = 6) -> Network:
    """Convolutions with a batch norm, a residual, a pool, a concatenation and a dense layer."""
    x = nn.input(("N", 3, 16, 16))
    y = x | nn.conv2d(16, 3) | nn.batch_norm(gamma_initializer="ones") | nn.relu
    y = (y | nn.conv2d(16, 3) | nn.relu) + y | nn.max_pool2d(2)
    y = [y | nn.conv2d(8, 1) | nn.relu, y | nn.avg_pool2d(3, 1, "same")] | nn.concat()
    return (
        y | nn.global_avg_pool2d() | nn.dense(classes) | nn.get_network("small", outputs="logits")
    )


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(24, 3, 16, 16)).astype(F)


# -- int8 ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["minmax", "percentile"])
def test_a_quantised_network_answers_nearly_the_same(
    pictures: np.ndarray, method: str, tmp_path: Path
) -> None:
    net = small()
    labels = net(pictures).argmax(1)
    made = quantize_static(net, pictures, method=method, labels=labels)  # type: ignore[arg-type]
    report = made.report.outputs[0]
    assert made.report.samples == 24
    assert made.report.after < made.report.before / 3
    assert report.sqnr > 25
    assert report.accuracy == (1.0, report.agreement)
    assert report.agreement is not None
    assert report.agreement > 0.9
    error = np.abs(made.network(pictures) - net(pictures)).max() / np.abs(net(pictures)).max()
    np.testing.assert_allclose(report.largest, error, rtol=1e-5)
    assert "signal to noise" in str(made.report)
    assert "accuracy 100.0 % ->" in str(made.report)
    made.network.save(tmp_path / "q.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "q.onnx"), full_check=True)
    stored = {t.name: t.data_type for t in onnx.load(tmp_path / "q.onnx").graph.initializer}
    assert list(stored.values()).count(onnx.TensorProto.INT8) == 4
    assert list(stored.values()).count(onnx.TensorProto.INT32) == 4  # biases


def test_products_become_integer_kernels(pictures: np.ndarray) -> None:
    made = quantize_static(small(), pictures).network.compile(threads=1)
    steps = [line.split(" -> ")[0].split(": ")[-1] for line in made.explain().splitlines()]
    assert steps.count("IntegerConv") == 3
    assert "IntegerMatMul" in steps
    assert "Conv" not in steps


@pytest.mark.oracle
def test_other_runtimes_agree_on_the_quantised_file(pictures: np.ndarray, tmp_path: Path) -> None:
    made = quantize_static(small(), pictures)
    made.network.save(tmp_path / "q.onnx", opset=21)  # the reference knows it from 19 on
    reference = ReferenceEvaluator(str(tmp_path / "q.onnx"))
    found = reference.run(None, {"input": pictures[:2]})[0]
    ours = made.network(pictures[:2])
    # One level of the dense layer's input is the most that sums in another order move.
    assert np.abs(found - ours).max() < 0.02 * np.abs(ours).max()


def test_scales_reach_over_what_was_seen() -> None:
    levels = Levels.of(Range(-1.0, 3.0))
    assert np.isclose(levels.scale, 4 / 255)
    assert levels.zero == 64
    assert Levels.of(Range(0.5, 2.0)).zero == 0  # zero is always a level
    assert Levels.of(Range(0.0, 0.0)).scale == 1
    weights = np.array([[1.0, -2.0], [0.0, 0.0]], F)
    np.testing.assert_allclose(weight_scales(weights, 0), [2 / 127, 1])
    np.testing.assert_allclose(weight_scales(weights, None), 2 / 127)


def test_samples_come_as_arrays_dicts_and_feeds(pictures: np.ndarray) -> None:
    net = small()
    reports = [
        quantize_static(net, given).report
        for given in (pictures, {"input": pictures}, [pictures[:12], {"input": pictures[12:]}])
    ]
    assert [r.samples for r in reports] == [24, 24, 24]
    assert reports[0].outputs[0].sqnr == reports[1].outputs[0].sqnr


def test_mistakes_are_said(pictures: np.ndarray) -> None:
    net = small()
    with pytest.raises(InputError, match="no sample"):
        quantize_static(net, [])
    with pytest.raises(BadAttribute, match=r"no method 'minmx'.*minmax"):
        quantize_static(net, pictures, method="minmx")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="labels of shape"):
        quantize_static(net, pictures, labels=[1, 2])
    broken = pictures.copy()
    broken[3] = np.nan
    with pytest.raises(InputError, match="infinite or NaN"):
        quantize_static(net, broken)
    with pytest.raises(BadAttribute, match="percentile"):
        quantize_static(net, pictures, percentile=3)


# -- float16 -------------------------------------------------------------------------------------
def test_float16_halves_the_weights_and_keeps_inputs_and_outputs(pictures: np.ndarray) -> None:
    net = small()
    half = net.to_float16()
    assert [str(p) for p in (*half.inputs, *half.outputs)] == [
        str(p) for p in (*net.inputs, *net.outputs)
    ]
    assert list(half.weights) == list(net.weights)
    assert {str(half.weights.tensor(n).dtype) for n in half.weights} == {"float16"}
    expected = net(pictures)
    # Half a unit in the last place of 11 bits for each of five layers, with room for sums.
    np.testing.assert_allclose(half(pictures), expected, atol=20 * 2**-11 * np.abs(expected).max())
    whole = net.to_float16(keep_io=False)
    assert {str(p.dtype) for p in (*whole.inputs, *whole.outputs)} == {"float16"}
    np.testing.assert_array_equal(
        whole(pictures.astype(np.float16)).astype(F), half(pictures.astype(np.float16).astype(F))
    )


@pytest.mark.oracle
def test_float16_files_run_elsewhere(tmp_path: Path) -> None:
    net = zoo.squeezenet1_1(size=32, batch=1).to_float16()
    found = compare(net, reference="onnxruntime", rtol=0, atol=0.02)
    assert all(a.holds for a in found)


def test_what_has_no_float16_stays(tmp_path: Path) -> None:
    from neuralsym import ops

    x = ops.variable("x", ("N", 2, 4, 4))
    bigger = ops.resize(x, None, np.array([1, 1, 1.5, 1.5], F), mode="linear")
    branch = ops.if_(ops.reduce_sum(x) > 0, lambda: bigger + 1, lambda: bigger - 1)
    net = Network(Graph({"y": ops.relu(branch), "n": ops.shape(x)}))
    half = net.to_float16()
    data = np.random.default_rng(0).random((2, 2, 4, 4), dtype=F)
    found, expected = half.run(data), net.run(data)
    np.testing.assert_allclose(found["y"], expected["y"], atol=2e-3)
    np.testing.assert_array_equal(found["n"], expected["n"])


def test_scales_of_integers_stay() -> None:
    x = ops.variable("x", ("N", 4), "uint8")
    scales, zero, weights = (F(0.1), F(0.0123), F(0.7)), np.uint8(3), np.eye(4, 3, dtype=np.int8)
    y = ops.qlinear_matmul(x, scales[0], zero, weights, scales[1], np.int8(0), scales[2], zero)
    half = Network(Graph({"y": y})).to_float16()
    node = next(n for n in half.graph.nodes if n.op_type == "QLinearMatMul")
    assert "float16" not in {str(s.dtype) for s in node.inputs if s is not None}


def test_weights_beyond_float16_are_told() -> None:
    net = small().replace_head(nn.dense(2, name="head"))
    net.set_weight("head/bias", np.array([1e6, 0], F))
    half = net.to_float16()
    with pytest.warns(UserWarning, match=r"1 values of 'head/bias' are beyond float16"):
        assert half.weights["head/bias"][0] == 65504


# -- the command ---------------------------------------------------------------------------------
def test_the_command_converts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, samples = tmp_path / "small.onnx", tmp_path / "samples.npz"
    net = small()
    net.save(model)
    x = np.random.default_rng(0).normal(size=(8, 3, 16, 16)).astype(F)
    np.savez(samples, input=x, labels=net(x).argmax(1))
    out = tmp_path / "q.onnx"
    arguments = [
        "convert",
        str(model),
        "-o",
        str(out),
        "--dtype",
        "int8",
        "--calibrate",
        str(samples),
    ]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "calibrated on 8 samples" in printed
    assert "accuracy 100.0 % ->" in printed
    assert out.stat().st_size < model.stat().st_size
    half = tmp_path / "half.onnx"
    assert main(["convert", str(model), "-o", str(half), "--dtype", "float16"]) == 0
    assert neuralsym.load(half)(x).shape == (8, 6)
    flow = tmp_path / "small.flow"
    assert main(["convert", str(model), "-o", str(flow)]) == 0
    np.testing.assert_array_equal(neuralsym.load(flow)(x), net(x))
    exported = tmp_path / "zoo.onnx"
    arguments = [
        "export",
        "squeezenet1_1",
        "--size",
        "32",
        "--dtype",
        "float16",
        "-o",
        str(exported),
    ]
    assert main(arguments) == 0
    assert exported.stat().st_size < 2_600_000


def test_the_command_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small().save(tmp_path / "small.onnx")
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK\x03\x04 and nothing more")
    base = ["convert", str(tmp_path / "small.onnx"), "-o", str(tmp_path / "q.onnx")]
    for more, said in (
        (["--dtype", "int8"], "needs --calibrate"),
        (["--calibrate", "x.npy"], "belongs to --dtype int8"),
        (["--dtype", "int8", "--calibrate", str(tmp_path / "x.npy")], "no file or folder"),
        (["--dtype", "int8", "--calibrate", str(tmp_path)], "no images"),
        (["--dtype", "int8", "--calibrate", str(broken)], "is no .npy or .npz file of numbers"),
    ):
        assert main([*base, *more]) != 0
        assert said in capsys.readouterr().err


# -- what networks there are -----------------------------------------------------------------------
def test_a_kernel_that_layers_share_is_shared_in_integers(tmp_path: Path) -> None:
    again = nn.conv2d(3, 3, bias_initializer="random_normal", name="again")
    y = nn.input(("N", 3, 8, 8)) | again | nn.relu | again | nn.relu | again
    net = y | nn.global_avg_pool2d() | nn.get_network()
    samples = np.random.default_rng(0).normal(size=(8, 3, 8, 8)).astype(F)
    made = quantize_static(net, samples)
    kinds = [str(made.network.weights.tensor(w).dtype) for w in made.network.weights]
    assert kinds.count("int8") == 1
    assert made.report.outputs[0].sqnr > 25
    made.network.save(tmp_path / "q.onnx")
    loaded = neuralsym.load(tmp_path / "q.onnx")
    np.testing.assert_array_equal(loaded(samples), made.network(samples))


def test_a_quantised_network_can_be_quantised(pictures: np.ndarray) -> None:
    once = quantize_static(small(), pictures).network
    twice = quantize_static(once, pictures)
    assert twice.report.outputs[0].sqnr > 25


def test_that_nothing_is_quantised_is_told(pictures: np.ndarray) -> None:
    with pytest.warns(UserWarning, match="nothing of 'small' is quantised.*before to_float16"):
        quantize_static(small().to_float16(), pictures)


def test_samples_and_labels_that_fit_nothing_are_refused(pictures: np.ndarray) -> None:
    here = "test_quantize.py:"
    with pytest.raises(InputError, match=rf"not str: np.load reads a file\n  at .*{here}"):
        quantize_static(small(), "pictures.npz")
    with pytest.raises(TypeError, match=rf"takes a Network, not str.*\n  at .*{here}"):
        quantize_static("net.onnx", pictures)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="labels are integers from 0 to 5, for 'logits'"):
        quantize_static(small(), pictures, labels=np.full(24, 6))
    flat = nn.input((8, 4)) | nn.dense(1) | nn.get_network()
    with pytest.raises(InputError, match=r"no output is \[N, classes\]"):
        quantize_static(flat, np.ones((8, 4), F), labels=np.zeros(8, int))
    with pytest.raises(InputError, match="5 samples do not fill the network's batch of 8"):
        quantize_static(flat, np.ones((5, 4), F))
    with pytest.raises(BadAttribute, match=rf"batch='a' is no positive integer\n  at .*{here}"):
        quantize_static(small(), pictures, batch="a")  # type: ignore[arg-type]


def counting() -> Network:
    """A recurrent network whose state is kept between the runs."""
    x, h = ops.variable("x", (2, 4)), ops.variable("h", (2, 5), init=np.zeros((2, 5), F))
    new = ops.tanh(ops.concat([x, h], axis=1) | nn.dense(5, name="cell"))
    return Network(Graph({"y": new | nn.dense(2, name="out")}, updates={h: new}))


def steps_of(net: Network, dtype: str = "float32") -> np.ndarray:
    draws = np.random.default_rng(1).normal(size=(4, 2, 4))
    return np.stack([net.run({"x": d.astype(dtype)})["y"].astype(F) for d in draws])


def test_what_is_kept_between_runs_is_kept_in_other_numbers() -> None:
    wanted = steps_of(counting())
    np.testing.assert_allclose(steps_of(counting().to_float16()), wanted, atol=4e-3)
    inside = counting().to_float16(keep_io=False)
    np.testing.assert_allclose(steps_of(inside, "float16"), wanted, atol=4e-3)
    net = counting()
    made = quantize_static(net, [{"x": np.full((2, 4), v, F)} for v in (-3, 3)]).network
    np.testing.assert_array_equal(steps_of(net), wanted)  # as if nobody had run it
    np.testing.assert_allclose(steps_of(made), wanted, atol=0.1)

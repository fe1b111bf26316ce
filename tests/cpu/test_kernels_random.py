"""Random operators: numpy's numbers for a seed, the right statistics without one."""

from __future__ import annotations

import numpy as np
import pytest

from neuralsym import Network, ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.core.model import Model
from neuralsym.cpu.kernels.host import ArrayStep, HostKernel
from neuralsym.errors import ExecutionError


def network(**outputs):
    return Network(Model.of(Graph(outputs)))


def compiled(net):
    steps = net._compile(()).cell.program.steps
    return all(
        not isinstance(s.kernel, HostKernel) or isinstance(s.kernel, ArrayStep) for s in steps
    )


def test_seeds_give_numpys_numbers():
    shape = (3, 1000)
    net = network(
        u=ops.random_uniform(shape, low=-2.0, high=3.0, seed=7.0),
        n=ops.random_normal(shape, mean=1.0, scale=0.5, seed=11.0),
        d=ops.random_normal(shape, dtype="float64", seed=4294967040.0),
    )
    assert compiled(net)
    made, again = net.run({}), net.run({})
    state = np.random.RandomState
    np.testing.assert_array_equal(made["u"], (state(7).rand(*shape) * 5 - 2).astype(np.float32))
    normal = (state(11).randn(*shape) * 0.5 + 1).astype(np.float32)
    np.testing.assert_allclose(made["n"], normal, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(made["d"], state(4294967040).randn(*shape), rtol=1e-14, atol=1e-15)
    for name in made:
        np.testing.assert_array_equal(made[name], again[name], err_msg=name)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_without_a_seed_each_run_draws_anew(dtype):
    x = variable("x", ("N",), dtype)
    net = network(u=ops.random_uniform_like(x, low=2.0, high=4.0), n=ops.random_normal_like(x))
    feed = {"x": np.zeros(20000).astype(x.dtype.numpy)}
    one, two = net.run(feed), net.run(feed)
    for values in (one, two):
        u, n = values["u"].astype(np.float64), values["n"].astype(np.float64)
        assert values["u"].dtype == x.dtype.numpy
        assert u.min() >= 2
        assert u.max() <= 4
        # Five standard errors of each statistic.
        assert abs(u.mean() - 3) < 5 * np.sqrt(1 / 3 / 20000)
        assert abs(n.mean()) < 5 / np.sqrt(20000) + 1e-2 * (dtype == "bfloat16")
        assert abs(n.var() - 1) < 5 * np.sqrt(2 / 20000) + 1e-2 * (dtype == "bfloat16")
        assert abs((n**4).mean() - 3) < 5 * np.sqrt(96 / 20000) + 5e-2 * (dtype == "bfloat16")
    assert np.any(one["u"] != two["u"])
    assert np.any(one["n"] != two["n"])


def test_bernoulli_draws_one_with_the_probability():
    p = variable("p", (5, "N"))
    net = network(y=ops.bernoulli(p, dtype="int32"), s=ops.bernoulli(p, seed=3.0))
    assert compiled(net)
    chances = np.repeat(np.array([[0.0], [0.1], [0.5], [0.9], [1.0]], np.float32), 20000, 1)
    made = net.run({"p": chances})
    for values in made.values():
        assert set(np.unique(values)) <= {0, 1}
        error = 5 * np.sqrt(chances[:, 0] * (1 - chances[:, 0]) / 20000)
        assert np.all(np.abs(values.mean(1) - chances[:, 0]) <= error + 1e-6)
    assert made["y"].dtype == np.int32
    np.testing.assert_array_equal(made["s"], net.run({"p": chances})["s"])


def test_multinomial_draws_by_log_probabilities():
    logits = variable("x", (2, 3))
    net = network(y=ops.multinomial(logits, sample_size=30000, seed=5.0, dtype="int64"))
    assert compiled(net)
    p = np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    with np.errstate(divide="ignore"):
        values = net({"x": (np.log(p) + 3.5).astype(np.float32)})
    assert values.shape == (2, 30000)
    assert values.dtype == np.int64
    for row, chances in zip(values, p, strict=True):
        share = np.bincount(row, minlength=3) / 30000
        assert np.all(np.abs(share - chances) <= 5 * np.sqrt(chances * (1 - chances) / 30000))
    with pytest.raises(ExecutionError, match=r"row 1 .* no probabilities"):
        net({"x": np.array([[0, 0, 0], [np.nan, 0, 0]], np.float32)})


def test_dropout_in_training_follows_numpy():
    x, ratio = variable("x", (4, "N")), variable("ratio", ())
    training = variable("training", (), "bool")
    y, mask = ops.dropout(x, ratio, training, seed=9, outputs=2)
    net = network(y=y, mask=mask)
    assert compiled(net)
    data = np.random.default_rng(0).normal(size=(4, 50)).astype(np.float32)
    made = net.run({"x": data, "ratio": np.float32(0.25), "training": np.array(True)})
    kept = np.random.RandomState(9).uniform(0, 1, data.shape) >= 0.25
    np.testing.assert_array_equal(made["mask"], kept)
    np.testing.assert_allclose(made["y"], kept * data / 0.75, rtol=1e-6)
    off = net.run({"x": data, "ratio": np.float32(0.25), "training": np.array(False)})
    np.testing.assert_array_equal(off["y"], data)
    assert off["mask"].all()
    with pytest.raises(ExecutionError, match=r"Dropout.*ratio is 1.0"):
        net.run({"x": data, "ratio": np.float32(1), "training": np.array(True)})


def test_dropout_at_inference_costs_nothing():
    x = variable("x", (2, 3))
    y, mask = ops.dropout(x, outputs=2)
    net = network(y=y * 2.0, mask=mask)
    steps = net._compile(()).cell.program.steps
    assert not any(isinstance(s.kernel, HostKernel) for s in steps)
    made = net.run({"x": np.ones((2, 3), np.float32)})
    np.testing.assert_array_equal(made["y"], np.full((2, 3), 2.0))
    assert made["mask"].all()
    assert made["mask"].dtype == np.bool_


def test_batch_normalisation_in_training():
    rng = np.random.default_rng(3)
    x = variable("x", ("N", 3, "H", "W"))
    s, b, m, v = (variable(n, (3,)) for n in "sbmv")
    made = ops.batch_normalization(x, s, b, m, v, training_mode=1, momentum=0.8, outputs=3)
    net = network(y=made[0], mean=made[1], variance=made[2])
    assert not any(isinstance(s.kernel, HostKernel) for s in net._compile(()).cell.program.steps)
    feed = {n: rng.uniform(0.5, 2, 3).astype(np.float32) for n in "sbmv"}
    data = feed["x"] = rng.normal(size=(4, 3, 5, 2)).astype(np.float32)
    result = net.run(feed)
    wide = data.astype(np.float64)
    mean, variance = wide.mean((0, 2, 3)), wide.var((0, 2, 3))
    y = (wide - mean[:, None, None]) / np.sqrt(variance + 1e-5)[:, None, None]
    y = y * feed["s"][:, None, None] + feed["b"][:, None, None]
    np.testing.assert_allclose(result["y"], y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result["mean"], feed["m"] * 0.8 + mean * 0.2, rtol=1e-5)
    np.testing.assert_allclose(result["variance"], feed["v"] * 0.8 + variance * 0.2, rtol=1e-5)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalisation_of_zeros_is_zero(p):
    x = variable("x", (3, 4))
    net = network(y=ops.lp_normalization(x, p=p, axis=1))
    assert not any(isinstance(s.kernel, HostKernel) for s in net._compile(()).cell.program.steps)
    data = np.array([[1, -2, 3, 4], [0, 0, 0, 0], [0, 0, -1e-3, 0]], np.float32)
    norm = (np.abs(data) ** p).sum(1, keepdims=True) ** (1 / p)
    expected = np.divide(data, norm, out=np.zeros_like(data), where=norm > 0)
    np.testing.assert_allclose(net({"x": data}), expected, rtol=1e-6)

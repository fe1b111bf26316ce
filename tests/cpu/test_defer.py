"""Values of unknown rank: what depends on them is compiled for the ranks that come."""

from __future__ import annotations

import numpy as np

from neuralsym import Network, ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_variable
from neuralsym.core.model import Model
from neuralsym.core.types import TensorType
from neuralsym.cpu.kernels.deferred import DeferredKernel
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.dtypes import NumberType


def unranked(name, dtype=NumberType.FLOAT32):
    return make_variable(name, TensorType(dtype))


def network(**outputs):
    return Network(Model.of(Graph(outputs)))


def parts(net):
    """The cells that were compiled for ranks."""
    steps = net._compile(()).cell.program.steps
    found = [s.notes["parts"] for s in steps if isinstance(s.kernel, DeferredKernel)]
    return [pool.cell for p in found for pool in p._pools.values()]


def test_inputs_of_any_rank():
    x, y = unranked("x"), unranked("y")
    net = network(sum=ops.relu(x + y), product=ops.matmul(x, y))
    rng = np.random.default_rng(0)
    for a, b in (((2, 3), (3, 3)), ((5, 3), (3, 3)), ((4, 2, 3), (3, 3)), ((7, 3), (3, 3))):
        feed = {"x": rng.normal(size=a).astype("f4"), "y": rng.normal(size=b).astype("f4")}
        if a[-2] != b[-2]:
            feed["x"] = np.broadcast_to(feed["x"][..., :1, :], (*a[:-2], 3, 3)).copy()
        made = net(feed)
        np.testing.assert_allclose(made["sum"], np.maximum(feed["x"] + feed["y"], 0), rtol=1e-6)
        np.testing.assert_allclose(made["product"], feed["x"] @ feed["y"], rtol=1e-5, atol=1e-6)
    cells = parts(net)
    assert len(cells) == 2, "one for each combination of ranks"
    assert not any(isinstance(s.kernel, HostKernel) for c in cells for s in c.program.steps)


def test_a_shape_whose_length_is_fed():
    shape = make_variable("shape", TensorType(NumberType.INT64, (None,)))
    x = make_variable("x", TensorType(NumberType.FLOAT32, (12,)))
    net = network(y=ops.exp(ops.reshape(x, shape)))
    data = np.linspace(-1, 1, 12, dtype=np.float32)
    for wanted in ([3, 4], [12], [2, 3, 2], [4, 3]):
        made = net({"x": data, "shape": np.array(wanted)})
        np.testing.assert_allclose(made, np.exp(data).reshape(wanted), rtol=1e-6)
    assert len(parts(net)) == 3


def test_the_part_before_stays_as_it_is():
    x = make_variable("x", TensorType(NumberType.FLOAT32, (2, 6)))
    condition = make_variable("c", TensorType(NumberType.BOOL, ()))
    inner = ops.relu(x) * 2.0
    (branched,) = [ops.if_(condition, lambda: ops.reshape(inner, [3, 4]), lambda: inner[0])]
    net = network(y=ops.softmax(branched), inner=inner)
    data = np.random.default_rng(1).normal(size=(2, 6)).astype("f4")
    for truth in (True, False, True):
        made = net({"x": data, "c": np.array(truth)})
        before = 2 * np.maximum(data, 0)
        np.testing.assert_array_equal(made["inner"], before)
        rows = before.reshape(3, 4) if truth else before[0]
        exps = np.exp(rows - rows.max(-1, keepdims=True))
        np.testing.assert_allclose(made["y"], exps / exps.sum(-1, keepdims=True), rtol=1e-5)
    assert len(parts(net)) == 2

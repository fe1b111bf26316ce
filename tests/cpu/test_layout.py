"""Layouts: regions stay in blocks, orders change at their borders, halos are zero."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.core.op import Op
from neuralsym.core.registry import apply
from neuralsym.core.schema import Formal, Schema
from neuralsym.cpu import compiler
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.cpu.library import Form, Kernel, Library, Take
from neuralsym.cpu.options import Options
from neuralsym.passes.concats import nest_prefixes

ONE = Options(threads=1)
BLOCK, HALO = 4, ((1, 2), (2, 1))
ANY = Formal("X", "variadic", "T", frozenset(), 1)


class Blocky(Op):
    """Doubles its input, in blocks."""

    domain = "test.layout"
    schema = Schema(
        "Blocky",
        "test.layout",
        inputs=(ANY,),
        outputs=(Formal("Y", "single", "T", frozenset()),),
        minimum_inputs=1,
        maximum_inputs=1,
    )

    @classmethod
    def infer(cls, call):
        return [call.type(0)]


class Doubling(HostKernel):
    """Takes blocks with a halo and gives blocks."""

    name = "blocky"

    def forms(self, step):
        return [Form((Take(BLOCK, HALO),), (Take(BLOCK),))]

    def compute(self, step, values):
        array = values[0]
        strides = array.strides
        start = array.__array_interface__["data"][0] - strides[2] - 2 * strides[3]
        rows, columns = array.shape[2] + 3, array.shape[3] + 3
        size = rows * strides[2]
        for n, c in np.ndindex(array.shape[:2]):
            memory = ctypes.string_at(start + n * strides[0] + c * strides[1], size)
            plane = np.frombuffer(memory, np.float32).reshape(rows, columns, BLOCK).copy()
            plane[1:-2, 2:-1] = 0
            assert not plane.any(), "the halo is not zero"
        return [array * 2]


class Joining(Kernel):
    """Concat along channels: its inputs are written in place."""

    name = "join"

    def forms(self, step):
        return [Form((Take(BLOCK),) * len(step.inputs), (Take(BLOCK),), joins=True)]

    def rows(self, step, sizes):
        return []


@pytest.fixture
def library(monkeypatch):
    monkeypatch.setattr(compiler, "LEVEL", 0)
    made = Library.default()
    made.kernel("Blocky", domain="test.layout")(Doubling)
    made.kernel("Concat")(Joining)
    return made


def blocky(x):
    return apply(Blocky, [x])[0]


def check(graph, library, **feed):
    cell = compile_graph(graph, ONE, library)
    instance = cell.instance()
    for _ in range(2):
        for name, value in feed.items():
            instance[name] = value
        instance.compute()
    return cell, instance


def reorders(cell):
    return [s.name for s in cell.program.steps if s.op.__name__ == "Reorder"]


def picture(channels, n=2):
    rng = np.random.default_rng(channels)
    return rng.normal(size=(n, channels, 5, 6)).astype(np.float32) + 1


@pytest.mark.parametrize("channels", [3, 4, 8, 10])
def test_a_region_is_entered_and_left_once(library, channels):
    x = variable("x", ("N", channels, "H", "W"))
    y = blocky(blocky(blocky(x)))
    a = picture(channels)
    cell, instance = check(Graph({"y": y}), library, x=a)
    np.testing.assert_array_equal(instance["y"], a * 8)
    assert len(reorders(cell)) == 2


def test_elementwise_stays_in_blocks(library):
    x = variable("x", ("N", 8, "H", "W"))
    bias = np.arange(8, dtype=np.float32).reshape(8, 1, 1)
    y = ops.sigmoid(blocky(x) + ops.constant(bias)) * blocky(x) + np.float32(3)
    a = picture(8)
    cell, instance = check(Graph({"y": blocky(y)}), library, x=a)
    expected = 2 * (1 / (1 + np.exp(-(2 * a + bias))) * 2 * a + 3)
    np.testing.assert_allclose(instance["y"], expected, rtol=1e-5)
    assert len(reorders(cell)) == 2


def test_channels_that_do_not_fill_blocks_leave_elementwise_plain(library):
    x = variable("x", ("N", 6, "H", "W"))
    a = picture(6)
    y = ops.exp(blocky(x)) + np.float32(1)
    _, instance = check(Graph({"y": blocky(y)}), library, x=a)
    np.testing.assert_allclose(instance["y"], 2 * (np.exp(2 * a) + 1), rtol=1e-5)


def test_gates_broadcast_in_blocks(library):
    x = variable("x", ("N", 8, "H", "W"))
    g = variable("g", ("N", 8, 1, 1))
    a, gate = picture(8), picture(8)[:, :, :1, :1]
    y = blocky(x) * blocky(g)
    _, instance = check(Graph({"y": y}), library, x=a, g=np.ascontiguousarray(gate))
    np.testing.assert_allclose(instance["y"], a * gate * 4, rtol=1e-6)


def test_a_result_of_the_program_is_plain_and_its_blocks_are_shared(library):
    x = variable("x", ("N", 4, "H", "W"))
    inner = blocky(x)
    a = picture(4)
    cell, instance = check(Graph({"inner": inner, "y": blocky(inner)}), library, x=a)
    np.testing.assert_array_equal(instance["inner"], a * 2)
    np.testing.assert_array_equal(instance["y"], a * 4)
    assert len(reorders(cell)) == 3  # into blocks, and each of two results out of them


def test_branches_of_a_concat_are_written_in_place(library):
    x = variable("x", ("N", 4, "H", "W"))
    first, second = blocky(x), blocky(blocky(x))
    whole = ops.concat([first, second, x, first], axis=1)
    a = picture(4)
    y = blocky(whole)
    cell, instance = check(Graph({"y": y}), library, x=a)
    expected = 2 * np.concatenate([2 * a, 4 * a, a, 2 * a], axis=1)
    np.testing.assert_array_equal(instance["y"], expected)
    # x into blocks, x and the second use of a branch into their parts, and the result out.
    assert len(reorders(cell)) == 4


def test_concats_may_nest(library):
    x = variable("x", ("N", 4, "H", "W"))
    inner = ops.concat([blocky(x), blocky(blocky(x))], axis=1)
    y = ops.concat([inner, blocky(inner)], axis=1)
    a = picture(4)
    _, instance = check(Graph({"y": blocky(y)}), library, x=a)
    part = np.concatenate([2 * a, 4 * a], axis=1)
    np.testing.assert_array_equal(instance["y"], 2 * np.concatenate([part, 2 * part], axis=1))


def test_a_dense_block_shares_one_buffer(library):
    x = variable("x", ("N", 4, "H", "W"))
    parts = [blocky(x)]
    for _ in range(3):
        parts.append(blocky(ops.concat(parts, axis=1) if len(parts) > 1 else parts[0]))
    y = blocky(ops.concat(parts, axis=1))
    a = picture(4)
    cell, instance = check(nest_prefixes(Graph({"y": y})), library, x=a)
    expected = [2 * a]
    for _ in range(3):
        expected.append(2 * np.concatenate(expected, axis=1))
    np.testing.assert_array_equal(instance["y"], 2 * np.concatenate(expected, axis=1))
    assert len(reorders(cell)) == 2  # into blocks and out of them: the parts lie in their places

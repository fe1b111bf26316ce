"""Patterns, rules and the driver."""

from __future__ import annotations

import numpy as np
import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.parse import parse_graph
from neuralsym.core.symbol import Node, Symbol
from neuralsym.errors import GraphError
from neuralsym.rewrite.driver import Trace, rewrite
from neuralsym.rewrite.pattern import P
from neuralsym.rewrite.rule import Result, reject, rule

CONV = """\
input x: float32[N, 3, 8, 8]
weight w: float32[4, 3, 3, 3]
weight b: float32[4]
c: float32[N, 4, 6, 6] = Conv(x, w{bias}; strides=(1, 1))
r: float32[N, 4, 6, 6] = Relu(c)
output r
"""


def test_patterns_bind_symbols_and_nodes() -> None:
    pattern = P.Relu(P.Conv("x", P.const("w"), P.optional("b")).named("conv")).named("relu")
    graph = parse_graph(CONV.format(bias=", b"))
    (node,) = graph.find(pattern)
    match = pattern(node)
    assert match is not None
    assert match.parts == {
        "x": graph["x"],
        "w": graph["w"],
        "b": graph["b"],
        "conv": graph["c"].node,
        "relu": node,
    }
    assert match.nodes == (node, graph["c"].node)
    without = parse_graph(CONV.format(bias=""))
    match = pattern(without["r"].node)
    assert match is not None
    assert match.parts["b"] is None


def test_patterns_that_do_not_fit() -> None:
    graph = parse_graph(CONV.format(bias=", b"))
    relu, conv = graph["r"].node, graph["c"].node
    assert P.Relu(P.const("c"))(relu) is None
    assert P.Conv("x", "w")(conv) is None  # it has a bias too
    assert P.Conv()(conv) is not None
    assert P.Conv("x", "x", "b")(conv) is None
    assert P.Conv(strides=(2, 2))(conv) is None
    assert P.Conv(strides=lambda s: s[0] == 1, group=1)(conv) is not None
    assert P.op("Sin", "Relu")("x")(relu) is not None
    with pytest.raises(GraphError, match="did you mean 'Relu'"):
        P.Rellu("x")


def test_commutative_operators_match_in_either_order() -> None:
    x = ops.variable("x", (3,))
    pattern = P.Mul("x", P.Sigmoid("x"))
    for product in (x * ops.sigmoid(x), ops.sigmoid(x) * x):
        assert pattern(product.node) is not None
    assert pattern((x * ops.sigmoid(x + 1.0)).node) is None
    assert P.Sub("x", 1.0)((x - 1.0).node) is not None
    assert P.Sub("x", 1.0)((1.0 - x).node) is None
    assert P.Sub("x", P.const(None, 1.4142135, 1e-6))((x - np.sqrt(2)).node) is not None


@rule(P.Relu(P.Relu("x")))
def relu_once(x: Symbol) -> Result:
    """relu(relu(x)) = relu(x)"""
    return ops.relu(x)


@rule(P.Identity("x"))
def no_identity(x: Symbol) -> Result:
    """identity(x) = x"""
    return x


def chain(*names: str) -> Graph:
    y = ops.variable("x", (3,))
    for name in names:
        y = getattr(ops, name)(y)
    return Graph(y)


def test_a_value_keeps_its_name() -> None:
    graph = parse_graph("input x: float32[3]\na = Relu(x)\nb = Relu(a)\nc = Sin(b)\noutput c")
    made = rewrite(graph, [relu_once])
    assert str(made).splitlines()[1:] == [
        "input x: float32[3]",
        "b: float32[3] = Relu(x)",
        "c: float32[3] = Sin(b)",
        "output c",
    ]


def test_a_fixed_point_is_reached() -> None:
    graph = chain("relu", "identity", "relu", "relu", "identity", "identity", "relu", "sin")
    made = rewrite(graph, [no_identity, relu_once])
    assert [n.op_type for n in made] == ["Variable", "Relu", "Sin"]
    assert rewrite(made, [no_identity, relu_once]) is made


def test_a_match_whose_inside_is_used_elsewhere_is_refused() -> None:
    x = ops.variable("x", (3,))
    inner = ops.relu(x, name="inner")
    outer = ops.relu(inner, name="outer")
    for graph in (Graph(outer + inner), Graph((outer, inner))):
        trace = Trace()
        assert rewrite(graph, [relu_once], trace) is graph
        assert [str(e) for e in trace.refused] == [
            "relu_once at outer: no, Relu 'inner' is used elsewhere too"
        ]


def test_the_trace_says_what_fired() -> None:
    trace = Trace()
    rewrite(chain("relu", "relu"), [relu_once], trace)
    assert str(trace) == "relu_once at relu_1"


def test_a_rule_may_refuse() -> None:
    @rule(P.Softmax("x").named("softmax"))
    def only_last(x: Symbol, softmax: Node) -> Result:
        return reject("the axis is the last") if softmax.attr("axis") == -1 else x

    trace = Trace()
    y = ops.softmax(ops.variable("x", (3, 3)), axis=-1)
    rewrite(Graph(y), [only_last], trace)
    assert trace.refused[0].reason == "the axis is the last"


def test_new_nodes_stand_where_the_old_ones_stood() -> None:
    x = ops.variable("x", (3,))
    y = ops.relu(ops.relu(x))
    (node,) = rewrite(Graph(y), [relu_once]).find("Relu")
    assert node.where == y.node.where


def test_rules_that_undo_each_other_are_reported() -> None:
    @rule(P.Sin("x"))
    def to_cos(x: Symbol) -> Result:
        return ops.cos(x)

    @rule(P.Cos("x"))
    def to_sin(x: Symbol) -> Result:
        return ops.sin(x)

    with pytest.raises(GraphError, match="undo each other"):
        rewrite(chain("sin"), [to_cos, to_sin])


def test_a_rule_of_another_type_is_reported() -> None:
    @rule(P.Sin("x"))
    def wrong(x: Symbol) -> Result:
        return ops.cast(x, "int32")

    with pytest.raises(GraphError, match="rule wrong puts int32"):
        rewrite(chain("sin"), [wrong])


def test_an_output_in_use_is_not_dropped() -> None:
    @rule(P.TopK("x", "k"))
    def first_only(x: Symbol, k: Symbol) -> Result:
        return ops.top_k(x, k).values

    values, indices = ops.top_k(ops.variable("x", (3,)), [2])
    trace = Trace()
    graph = Graph((values, indices))
    assert rewrite(graph, [first_only], trace) is graph
    assert trace.refused[0].reason == "another of its outputs is used"


def test_rules_go_into_bodies() -> None:
    x, c = ops.variable("x", (3,)), ops.variable("c", (), "bool")
    y = ops.if_(c, lambda: ops.relu(ops.relu(x)), lambda: x)
    made = rewrite(Graph(y), [relu_once])
    assert str(made).count("Relu(") == 1
    made.check()


def test_the_rules_algebra_is_its_documentation() -> None:
    assert relu_once.doc == "relu(relu(x)) = relu(x)"
    assert relu_once.name == "relu_once"

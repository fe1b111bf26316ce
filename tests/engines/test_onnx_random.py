"""Models put together at random of nodes, nested bodies and functions, against onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_models import F1, node, tensor, value

from neuralsym.core.graph import Graph
from neuralsym.engines import onnx as engine
from neuralsym.ops.evaluate import evaluate_graph

UNARY = ["Neg", "Abs", "Sign", "Relu", "Identity", "Floor"]
BINARY = ["Add", "Sub", "Mul", "Max", "Min"]


@dataclass
class Maker:
    """Makes graphs of vectors of two floats; names come from a few, so that they meet often."""

    random: Random
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    count: int = 0

    def name(self, taken: set[str]) -> str:
        free = [n for n in (f"v{i}" for i in range(400)) if n not in taken]
        made = self.random.choice(free[:6])
        taken.add(made)
        return made

    def nodes(
        self, usable: list[str], flags: list[str], taken: set[str], depth: int, attrs: list[str]
    ) -> list[onnx.NodeProto]:
        """Some nodes; what they give is added to `usable`."""
        made: list[onnx.NodeProto] = []
        for _ in range(self.random.randint(1, 4)):
            made.append(self.node(usable, flags, taken, depth, attrs))
            usable += [name for name in made[-1].output if name]
        return made

    def node(
        self, usable: list[str], flags: list[str], taken: set[str], depth: int, attrs: list[str]
    ) -> onnx.NodeProto:
        pick = self.random.choice
        what = self.random.random()
        self.count += 1
        called = pick(["", f"n{self.count}"])
        if what < 0.2 and depth and flags:
            # Branches may share names, which later nodes may not have.
            inner, used = [], set[str]()
            for _ in range(2):
                names = set(taken)
                inner.append(self.body(usable, flags, names, depth - 1, attrs))
                used |= names
            taken |= used
            ends = {"then_branch": inner[0], "else_branch": inner[1]}
            return node("If", [pick(flags)], [self.name(taken)], called, **ends)
        if what < 0.3 and depth:
            return self.loop(usable, flags, taken, depth - 1, attrs)
        if what < 0.5 and self.functions:
            function = pick(self.functions)
            given = [pick(usable) for _ in function.input]
            outputs = [self.name(taken) for _ in function.output]
            made = node(function.name, given, outputs, called, domain="my")
            if function.attribute_proto and self.random.random() < 0.5:
                made.attribute.append(helper.make_attribute("slope", pick([0.5, 2.0, -1.0])))
            return made
        if what < 0.6:
            made = node("LeakyRelu", [pick(usable)], [self.name(taken)], called)
            if attrs and self.random.random() < 0.7:
                made.attribute.append(
                    onnx.AttributeProto(name="alpha", type=1, ref_attr_name="slope")
                )
            return made
        if what < 0.8:
            return node(pick(UNARY), [pick(usable)], [self.name(taken)], called)
        return node(pick(BINARY), [pick(usable), pick(usable)], [self.name(taken)], called)

    def body(
        self, usable: list[str], flags: list[str], taken: set[str], depth: int, attrs: list[str]
    ) -> onnx.GraphProto:
        inside = list(usable)
        stored = []
        if self.random.random() < 0.4:
            stored.append(tensor(self.name(taken), [self.random.randint(-3, 3), 1]))
            inside.append(stored[0].name)
        made = self.nodes(inside, flags, taken, depth, attrs)
        last = self.random.choice([name for n in made for name in n.output])
        return helper.make_graph(made, "body", [], [value(last)], stored)

    def loop(
        self, usable: list[str], flags: list[str], taken: set[str], depth: int, attrs: list[str]
    ) -> onnx.NodeProto:
        names = set(taken)
        trip, go, state = (self.name(names) for _ in range(3))
        inside = [*usable, state]
        made = self.nodes(inside, [*flags, go], names, depth, attrs)
        last = self.random.choice([name for n in made for name in n.output])
        on = self.name(names)
        made.append(node("Identity", [go], [on]))
        body = helper.make_graph(
            made, "loop", [value(trip, (), 7), value(go, (), 9), value(state)],
            [value(on, (), 9), value(last)],
        )  # fmt: skip
        taken |= names
        start = self.random.choice(usable)
        return node("Loop", ["two", "", start], [self.name(taken)], body=body)

    def function(self, number: int) -> onnx.FunctionProto:
        taken: set[str] = {"two"}
        inputs = [self.name(taken) for _ in range(self.random.randint(1, 2))]
        usable = list(inputs)
        attrs = ["slope"] if self.random.random() < 0.5 else []
        count = node("Constant", [], ["two"], value_int=2)
        flag = self.name(taken)
        compare = node("Equal", [inputs[0], inputs[-1]], [self.name(taken)])
        flags = [flag]
        made = [count, compare, node("ReduceSum", [inputs[0]], [self.name(taken)], keepdims=0)]
        made.append(node("IsNaN", [made[-1].output[0]], [flag]))
        made += self.nodes(usable, flags, taken, 1, attrs)
        results = [n for m in made[4:] for n in m.output]
        self.random.shuffle(results)
        imports = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
        return helper.make_function(
            "my", f"F{number}", inputs, results[: self.random.randint(1, 2)], made, imports,
            attribute_protos=[helper.make_attribute("slope", 0.25)] if attrs else [],
        )  # fmt: skip

    def model(self) -> onnx.ModelProto:
        for number in range(self.random.randint(0, 3)):
            self.functions.append(self.function(number))
        usable, flags, taken = ["x", "w"], ["flag"], {"x", "w", "flag", "two"}
        made = self.nodes(usable, flags, taken, 3, []) + self.nodes(usable, flags, taken, 2, [])
        results = list(dict.fromkeys([usable[-1], self.random.choice(usable[2:])]))
        graph = helper.make_graph(
            made, "g", [value("x"), value("flag", (), 9)], [value(n) for n in results],
            [tensor("w", [3, -2]), tensor("two", 2, np.int64)],
        )  # fmt: skip
        imports = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
        model = helper.make_model(graph, ir_version=9, opset_imports=imports)
        model.functions.extend(self.functions)
        return model


def disordered(part: Any, random: Random) -> None:
    """The nodes of a graph and of all that is in it in any order, which our reader allows."""
    for each in part.node:
        for attribute in each.attribute:
            if attribute.HasField("g"):
                disordered(attribute.g, random)
    nodes = list(part.node)
    random.shuffle(nodes)
    del part.node[:]
    part.node.extend(nodes)


def values(graph: Graph, feeds: dict[str, Any]) -> list[Any]:
    named = dict(zip(graph.input_names, graph.inputs, strict=True))
    return list(evaluate_graph(graph, {named[k]: v for k, v in feeds.items()}))


@pytest.mark.oracle
@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_models_at_random(random: Random) -> None:
    model = Maker(random).model()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    for part in (model.graph, *model.functions):
        disordered(part, random)
    graph = engine.to_symbolic(model).check()
    written = engine.of_symbolic(graph)
    onnx.checker.check_model(written, full_check=True)
    again = engine.to_symbolic(written)
    assert engine.of_symbolic(again) == written
    for flag in (True, False):
        feeds = {"x": np.array([-2, 0.5], F1), "flag": np.array(flag)}
        wanted = session.run(None, feeds)
        for each in (graph, again):
            for got, want in zip(values(each, feeds), wanted, strict=True):
                np.testing.assert_array_equal(got, want)

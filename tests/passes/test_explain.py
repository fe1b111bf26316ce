"""What `network.explain()` says of the passes: each rule that fired and how often."""

from __future__ import annotations

import numpy as np

from neuralsym import Network, ops
from neuralsym.core.graph import Graph
from neuralsym.passes.pipeline import optimise
from neuralsym.rewrite.driver import Trace


def _net() -> Graph:
    x = ops.variable("x", ("N", 4, 8, 8))
    w = np.full((4, 4, 3, 3), 0.05, np.float32)
    y = x
    for _ in range(3):
        y = ops.conv(y, w, pads=(1, 1, 1, 1))
        y = y * ops.sigmoid(y)
    return Graph({"y": ops.identity(y)})


def test_rules_are_counted() -> None:
    trace = Trace()
    optimise(_net(), trace=trace)
    assert trace.summary()["swish"] == "3 times"
    assert trace.summary()["drop_identity"] == "once"
    assert trace.summary()["epilogue"] == "3 nodes fewer"


def test_explain_begins_with_the_passes() -> None:
    first, *steps = Network(_net()).explain().splitlines()
    assert first.startswith("passes: ")
    assert "swish 3 times" in first and "epilogue 3 nodes fewer" in first
    assert any("FusedConv" in step for step in steps)


def test_nothing_is_said_where_nothing_fired() -> None:
    text = Network(Graph({"y": ops.softmax(ops.variable("x", ("N", 3)))})).explain()
    assert not text.startswith("passes: ")

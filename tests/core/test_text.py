"""The text form: one line a node, the same graph read back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_weight
from neuralsym.core.parse import parse_graph
from neuralsym.core.scalar import apply, argument
from neuralsym.core.tensor import Tensor
from neuralsym.core.text import expression_text, name_text
from neuralsym.dtypes import NumberType
from neuralsym.errors import FormatError

EVERYTHING = """\
graph everything
input x: float32[N, 3, (H + 1)//2, ?]
input k: float32[2] = [0.5, -1.0]
input words: string[2] = ["a b", "c"]
input any: float32[...]
input many: sequence(float32[N])
weight "odd name, yes": float32[8, 3, 3, 3]
weight mean: float32[2] = [1.0, nan]; trainable=0
weight huge: float32[100]
constant c: int64[] = 3
constant half: float16[1] = [0.5]
constant z: complex64[1] = [(1+2j)]
constant empty: int64[0] = []
conv: float32[N, 8, (H + 1)//2 - 2, ?] = Conv(x, "odd name, yes"; dilations=(1, 1))
scope/clip: float32[N, 8, (H + 1)//2 - 2, ?] = Clip(conv, _, huge_scalar)
best: float32[2], best:1: int64[2] = TopK(k, three; axis=0, largest=1)
nested: float32[2] = If(flag | k)
  else_branch body
    input k_1: float32[2]
    relu: float32[2] = Relu(k_1)
    output relu
  then_branch body
    input k_2: float32[2]
    output k_2
output scope/clip
output where = best:1
output nested
update k = nested
"""


def test_everything_reads_back() -> None:
    text = EVERYTHING.replace("Clip(conv, _, huge_scalar)", "Relu(conv)").replace(
        "TopK(k, three; axis=0, largest=1)", "TopK(k, two; axis=0)"
    )
    text = text.replace("constant empty", "constant two: int64[1] = [2]\nconstant empty")
    text = text.replace("input any", "input flag: bool[]\ninput any")
    text = text.replace("best:1: int64[2]", "where: int64[2]").replace("where = best:1", "where")
    graph = parse_graph(text)
    again = str(graph)
    assert str(parse_graph(again)) == again
    graph.check()
    lines = again.splitlines()
    used = [line for line in text.splitlines() if not line.startswith(("weight", "constant"))]
    assert [line for line in lines if not line.startswith(("weight", "constant"))] == used


def test_what_is_written() -> None:
    x = ops.variable("x", ("N", 3))
    w = make_weight(Tensor.of(np.eye(3, dtype=np.float32)), name="w")
    graph = Graph({"probs": ops.softmax(x @ w + 1.0, axis=1)}, name="tiny")
    assert str(graph) == (
        "graph tiny\n"
        "input x: float32[N, 3]\n"
        "weight w: float32[3, 3]\n"
        'constant "constant": float32[] = 1.0\n'
        "matmul: float32[N, 3] = MatMul(x, w)\n"
        'add: float32[N, 3] = Add(matmul, "constant")\n'
        "probs: float32[N, 3] = Softmax(add; axis=1)\n"
        "output probs"
    )


def test_lazy_weights_are_not_drawn() -> None:
    def never() -> Any:
        raise AssertionError("drawn")

    lazy = make_weight(Tensor(NumberType.FLOAT32, (1,), never), name="lazy")
    assert "weight lazy: float32[1]\n" in str(Graph(lazy + 1.0))


def test_types_may_be_left_out_and_weights_are_zeros() -> None:
    graph = parse_graph(
        """
        # comments and indentation as a whole do not matter
        input x: float32[2, 3]
        weight w: float32[3, 4]
        y = MatMul(x, w)
        output y
        """
    )
    assert str(graph["y"].type) == "float32[2, 4]"
    assert not graph["w"].attrs["value"].value.any()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("y = Relu(nothing)", "nothing is called 'nothing'"),
        ("y = Relu(x", "is missing"),
        ("y = Relu(x) more", "nothing more should follow"),
        ("y = Relu(x; slope=1)", "no attribute 'slope'"),
        ("y: int64[3] = Relu(x)", "is declared"),
        ("x = Relu(x)", "given twice"),
        ("weight w: float32[N]", "known shape"),
        ("constant c: float32[2] = [1.0]", "has shape"),
        ("constant c: float32[1] = [what]", "is no value"),
        ("y: float33[3] = Relu(x)", "float33"),
    ],
)
def test_bad_text_names_its_line(line: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason) as error:
        parse_graph(f"input x: float32[3]\n{line}\noutput x")
    assert "line 2" in str(error.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("conv/kernel:0", "conv/kernel:0"),
        ("a.b-c_1", "a.b-c_1"),
        ("a b", '"a b"'),
        ("x:", '"x:"'),
        ("_", '"_"'),
        ("12", '"12"'),
        ('q"', '"q\\""'),
        ("é", '"é"'),
        ("input", '"input"'),
    ],
)
def test_names_are_quoted_where_they_must(name: str, text: str) -> None:
    assert name_text(name) == text
    graph = Graph({"out": ops.relu(ops.variable(name, (3,)))})
    assert parse_graph(str(graph)).input_names == (name,)


def test_expressions_that_share_parts_stay_short() -> None:
    x = argument(0)
    for _ in range(60):
        x = apply("add", x, x)
    assert len(expression_text(x)) < 2000
    assert expression_text(x).startswith("[t0 = add(x0, x0); t1 = add(t0, t0);")

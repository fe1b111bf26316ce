"""StringNormalizer by its specification, where onnx's reference evaluator does more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.ops.evaluate import evaluate_graph

WORDS = ["Über", "", "the", "The", "café"]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, WORDS),
        ({"case_change_action": "UPPER"}, ["ÜBER", "", "THE", "THE", "CAFÉ"]),
        ({"case_change_action": "LOWER"}, ["über", "", "the", "the", "café"]),
        ({"stopwords": ["THE", "café"]}, ["Über", ""]),
        ({"stopwords": ["the"], "is_case_sensitive": 1}, ["Über", "", "The", "café"]),
        ({"stopwords": ["the", "", "über", "café"], "case_change_action": "UPPER"}, [""]),
    ],
)
@pytest.mark.parametrize("row", [False, True])
def test_only_stopwords_are_removed(settings: Any, wanted: list[str], row: bool) -> None:
    given = np.array([WORDS] if row else WORDS, object)
    x = ops.variable("x", given.shape, "string")
    made = Graph(ops.string_normalizer(x, **settings))
    (got,) = evaluate_graph(made, {x: given})
    assert isinstance(got, np.ndarray)
    assert got.tolist() == ([wanted] if row else wanted)

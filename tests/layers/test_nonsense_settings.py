"""Settings that mean nothing: each layer answers at the user's line, with no error of Python's."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from drawn_case import Case, Strategy
from drawn_elementwise import TABLE as ELEMENTWISE
from drawn_spatial import TABLE as SPATIAL
from hypothesis import HealthCheck, Phase, given, seed, settings

from neuralsym import NeuralsymError
from neuralsym import layers as nn

TABLE = {**SPATIAL, **ELEMENTWISE}
NONSENSE: list[Any] = [
    *(None, "x", "", -1, 0, 10**12, 2**70, 1.5, -7.5, float("nan"), float("inf"), True, 1j, b"a"),
    *((), (0,), (2, -1), (1, 2, 3, 4, 5), [[1]], [[1, 2], [3]], ("a", "b"), [None, None], {}),
    *(np.array([1, 2]), np.array(2), np.float32(2.0), np.int64(2), slice(None), object()),
    lambda x: x,
]


def example(strategy: Strategy) -> Case:
    """One draw, the same in every run."""
    found: list[Case] = []

    @settings(
        max_examples=2,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @seed(3)
    @given(strategy)
    def run(case: Case) -> None:
        found.append(case)

    run()
    return found[-1]


def answered(name: str) -> None:
    case = example(TABLE[name])
    xs = [
        nn.input(("N", *given.shape[1:]), given.dtype, name=f"x{i}")
        for i, given in enumerate(case.inputs)
    ]
    layer = getattr(nn, name)
    for key in layer.settings:
        for value in NONSENSE:
            made = dataclasses.replace(case, settings={**case.settings, key: value})
            try:
                layer(**made.settings)(xs[0] if case.alone and len(xs) == 1 else tuple(xs))
            except (NeuralsymError, TypeError) as error:
                if "test_nonsense_settings.py:" not in str(error):
                    raise AssertionError(f"{key}={value!r}: no line of the user's") from error


@pytest.mark.parametrize("name", sorted(TABLE)[::9])
def test_some_layers_answer(name: str) -> None:
    answered(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_layer_answers(name: str) -> None:
    answered(name)

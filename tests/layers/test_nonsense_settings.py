"""Settings that mean nothing: each layer answers at the user's line, with no error of Python's."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest
from drawn_case import Case, Strategy
from drawn_layers import TABLE
from hypothesis import HealthCheck, Phase, given, seed, settings

from neuralsym import BadAttribute, NeuralsymError
from neuralsym import layers as nn

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
    for key in inspect.signature(layer).parameters:
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


@pytest.mark.parametrize("key", ["shape", "dtype", "name", "layout"])
def test_an_input_answers(key: str) -> None:
    for value in NONSENSE:
        try:
            nn.input(**{"shape": ("N", 3), key: value})
        except (NeuralsymError, TypeError) as error:
            if "test_nonsense_settings.py:" not in str(error):
                raise AssertionError(f"{key}={value!r}: no line of the user's") from error


def test_a_stack_of_layers_has_an_end() -> None:
    x = nn.input(("N", 4, 8))
    with pytest.raises(BadAttribute, match=r"num_layers=1000000000000: .* not over 1000"):
        x | nn.lstm(3, num_layers=10**12)
    with pytest.raises(BadAttribute, match=r"num_encoder_layers=1000000000000: .* not over 1000"):
        (x, x) | nn.transformer(2, num_encoder_layers=10**12)


def test_a_weight_that_no_memory_holds_is_named() -> None:
    net = nn.input(("N", 8)) | nn.dense(10**12, name="wide") | nn.get_network()
    with pytest.raises(BadAttribute, match=r"weight 'wide/kernel' of shape \[8, 1000000000000\]"):
        net.weights["wide/kernel"]

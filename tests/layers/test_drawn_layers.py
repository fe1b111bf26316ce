"""Layers with settings drawn at random: the checker takes each file, and its shapes are true.

A layer may refuse a combination, but then it names itself and the line. The settings come from
drawn_layers.py.
"""

from __future__ import annotations

import pytest
from drawn_case import Case, check
from drawn_layers import TABLE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuralsym import layers as nn
from neuralsym.layers.factory import Factory

drawn = st.sampled_from(sorted(TABLE)).flatmap(lambda n: st.tuples(st.just(n), TABLE[n]))


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(drawn)
def test_files_are_valid_and_their_shapes_true(case: tuple[str, Case]) -> None:
    check(*case)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TABLE))
def test_files_of_each_layer_and_what_they_compute(name: str) -> None:
    """More draws of each, with our results beside onnxruntime's; not all of them are refused."""
    taken: list[bool] = []

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(TABLE[name])
    def run(case: Case) -> None:
        taken.append(check(name, case, values=True))

    run()
    assert any(taken)


def test_families_are_drawn_whole() -> None:
    """A layer that is added to a module without a line in the table would go untried."""
    every = {name: getattr(nn, name) for name in nn.__all__}
    factories = {name: f for name, f in every.items() if isinstance(f, Factory)}
    drawn_here = {id(every[name]) for name in TABLE}
    modules = {f.function.__module__ for f in factories.values() if id(f) in drawn_here}
    missing = [
        name
        for name, f in factories.items()
        if f.function.__module__ in modules and id(f) not in drawn_here
    ]
    assert not missing

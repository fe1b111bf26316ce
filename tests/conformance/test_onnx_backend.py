"""onnx's own backend suite on the compiled engine, with the suite's tolerances.

Every case runs as it is, then written and read again; most of them are slow tests.
"""

from __future__ import annotations

import warnings

import numpy as np
import onnx_cases
import pytest

from neuralsym import Network, load
from neuralsym.engines import onnx as engine

RANDOM = {name for name in onnx_cases.names() if name.startswith("node/test_bernoulli")}
"""Cases with numbers that nothing prescribes: their statistics are tested."""
CASES = onnx_cases.sampled(name for name in onnx_cases.names() if name not in RANDOM)


def network_of(case: onnx_cases.Case, *, again: bool) -> Network:
    """The case's model, loaded; with `again` also written and loaded once more."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*declares types that contradict")
        network = load(case.model)
    return load(engine.of_symbolic(network.model).SerializeToString()) if again else network


def run(name: str, *, again: bool) -> None:
    case = onnx_cases.find(name)
    network = network_of(case, again=again)
    needed = [p.name for p in network.inputs if not p.default]
    for inputs, expected in case.data:
        results = network.run(dict(zip(needed, inputs, strict=True)))
        assert len(results) == len(expected)
        for (output, value), wanted in zip(results.items(), expected, strict=True):
            onnx_cases.assert_same(value, wanted, case.rtol, case.atol, output)


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    run(name, again=False)


@pytest.mark.parametrize("name", CASES)
def test_case_written_and_read_again(name: str) -> None:
    run(name, again=True)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", sorted(RANDOM))
def test_drawn_case(name: str, again: bool) -> None:
    """1 with the probability that the input states; in a body of ONNX's with that of the rest.

    (The expanded cases hold Greater(uniform, p), against the text of Bernoulli: a file's word
    stands.)
    """
    case = onnx_cases.find(name)
    network = network_of(case, again=again)
    ((p,), (expected,)) = case.data[0]
    runs = 400
    drawn = np.array([network(p) for _ in range(runs)])
    assert drawn.dtype == expected.dtype
    assert drawn.shape[1:] == expected.shape
    assert set(np.unique(drawn)) <= {0, 1}
    expanded = name.endswith("expanded")
    chances = 1 - p if expanded else p
    if "seed" in name:
        uniform = np.random.RandomState(0).rand(*p.shape)
        assert np.all(drawn == (uniform.astype(p.dtype) > p if expanded else uniform < p))
    else:
        error = 5 * np.sqrt(chances * (1 - chances) / runs)  # five standard errors
        assert np.all(np.abs(drawn.astype(np.float64).mean(0) - chances) <= error)


def test_the_suite_is_whole() -> None:
    for kind, count in onnx_cases.COUNTS.items():
        assert sum(n.startswith(f"{kind}/") for n in onnx_cases.names()) >= count

"""onnx's own backend suite on the compiled engine, with the suite's tolerances.

Every case runs as it is, then written and read again; all together take half a minute.
"""

from __future__ import annotations

import warnings

import onnx_cases
import pytest

from neuralsym import load
from neuralsym.engines import onnx as engine

RANDOM = "draws random numbers that nothing prescribes"
TRAINING = "gradients are not taken over: neuralsym is for inference"
KNOWN = {
    "node/test_bernoulli": RANDOM,
    "node/test_bernoulli_double": RANDOM,
    "node/test_bernoulli_double_expanded": RANDOM,
    "node/test_bernoulli_expanded": RANDOM,
    "node/test_bernoulli_seed": RANDOM,
    "node/test_bernoulli_seed_expanded": RANDOM,
    "simple/test_gradient_of_add": TRAINING,
    "simple/test_gradient_of_add_and_mul": TRAINING,
}
"""Cases that do not pass, each with its reason; one that begins to pass fails its test."""


CASES = [
    pytest.param(
        name,
        marks=pytest.mark.xfail(reason=KNOWN[name], strict=KNOWN[name] is not RANDOM)
        if name in KNOWN
        else (),
    )
    for name in onnx_cases.names()
]


def run(name: str, *, again: bool) -> None:
    case = onnx_cases.find(name)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*declares types that contradict")
        network = load(case.model)
    if again:
        network = load(engine.of_symbolic(network.model).SerializeToString())
    needed = [p.name for p in network.inputs if not p.default]
    for inputs, expected in case.data_sets:
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


def test_the_suite_is_whole() -> None:
    for kind, count in onnx_cases.COUNTS.items():
        assert sum(n.startswith(f"{kind}/") for n in onnx_cases.names()) >= count

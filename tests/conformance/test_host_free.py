"""Which of onnx's cases must run without a step in Python: those of numeric operators."""

from __future__ import annotations

import re
import warnings

import onnx_cases
import pytest

from neuralsym import load
from neuralsym.cpu.kernels.host import HostKernel

COMPILED = re.compile(
    r"node/test_(attention|flexattention|linear_attention|rotary_embedding|causal_conv|swiglu|"
    r"tensorscatter|einsum|dft|stft|hannwindow|hammingwindow|blackmanwindow|melweightmatrix|"
    r"sce|nllloss|adagrad|adam|momentum)"
)
"""Their expanded forms hold bodies and generators, which other tests look at."""
CASES = [
    name
    for name in onnx_cases.names()
    if COMPILED.match(name) and not name.endswith(("_expanded", "_expanded_ver18"))
]


@pytest.mark.parametrize("name", CASES)
def test_no_step_is_python(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = load(onnx_cases.find(name).model)
    steps = network._compile(()).cell.program.steps
    assert not [s.describe() for s in steps if isinstance(s.kernel, HostKernel)]


def test_the_list_is_not_empty() -> None:
    assert len(CASES) > 150

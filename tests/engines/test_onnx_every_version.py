"""Every version of every operator that ONNX lists is read and means what it meant.

A runtime gives the same for the model as it is and for what we write of it after reading: so what
is compared is the raising, not the runtime. Where no runtime has the old version, a newer one that
says the same is written by hand; where one is wrong about it, the reason stands beside.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import onnxruntime
import pytest
from every_operator import NORM, OWN, Case, F, One, case_of, floats, ints, model_of

from every_operator import P, X  # isort: skip
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from neuralsym.engines import onnx as engine
from neuralsym.engines.onnx.checking import check_draft
from neuralsym.engines.onnx.opsets import history
from neuralsym.engines.onnx.write import draft
from neuralsym.errors import NeuralsymError
from neuralsym.network import Network

Pair = tuple[str, str, int]
Values = list[Any]

_BEFORE_13 = "takes the axis alone, where all axes from it on are one"
WRONG: dict[tuple[str, int, str], str] = {
    **{
        (name, version, "reference"): _BEFORE_13
        for name in ("Hardmax", "LogSoftmax", "Softmax")
        for version in (1, 11)
    },
    ("BatchNormalization", 9, "reference"): "takes the statistics of the batch",
    ("RoiAlign", 10, "reference"): "shifts by half a pixel, which is new in 16",
    ("AveragePool", 1, "reference"): "counts the padding, which the text leaves out",
}
"""(operator, version, runtime) that does not do what the text of that version says."""

RANDOM = {
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
    *("RandomUniform", "RandomUniformLike"),
}
"""Operators of which shapes and types are compared; their numbers are tested elsewhere."""

NOWHERE_RIGHT = {
    ("", "Optional", 28): "the reference gives a list of the value, onnxruntime has it not yet",
    ("", "OptionalGetElement", 28): "the same",
    ("ai.onnx.ml", "DictVectorizer", 1): "a vector of the values' type by the text; onnxruntime "
    "gives a matrix, the reference doubles",
}
"""What no runtime can be compared with but itself."""

UNRUNNABLE = {("ai.onnx.preview.training", "Gradient", 1)}
"""What no runtime computes: it is only read and written."""


def newer(name: str, version: int) -> tuple[One, int] | None:
    """What an old version that no runtime has would be in one that a runtime has."""
    low = P[0, :, 0][:, None]
    if name in ("Add", "Div", "Greater", "Less", "Mul", "Pow", "Sub"):
        return One([P if name == "Pow" else X, low]), 9
    if name in ("Mean", "Sum"):
        return One([X, X + 1, X * 2]), 8
    if name in ("GRU", "LSTM", "RNN"):
        one = case_of_one(name, 7)
        attrs = {k: v for k, v in one.attrs.items() if version >= 3 or k == "hidden_size"}
        return One(one.inputs, attrs, one.outputs), 7
    table: dict[str, tuple[One, int]] = {
        "AveragePool": (One([floats(1, 2, 4, 6)], _pooling()), 7),
        "BatchNormalization": (One([X, *NORM], {"epsilon": 1e-3}), 9),
        "Cast": (One([X], {"to": TensorProto.INT32}), 9),
        "Clip": (One([X, np.array(-0.5, F), np.array(0.5, F)]), 11),
        "Concat": (One([X, X], {"axis": 1}), 4),
        "Dropout": (One([X], {"ratio": 0.3}), 7),
        "Equal": (One([np.arange(6).reshape(2, 3), ints(0, 3)[:, None]]), 7),
        "Gemm": (One([floats(2, 3), floats(4, 3), floats(4)], {"transB": 1, "alpha": 0.5}), 7),
        "GlobalLpPool": (case_of_one("GlobalLpPool", 2), 2),
        "InstanceNormalization": (One([X, *NORM[:2]]), 6),
        "MaxRoiPool": (case_of_one("MaxRoiPool", 1), 1),
        "Multinomial": (case_of_one("Multinomial", 7), 7),
        "PRelu": (One([X, floats(3)[:, None]]), 7),
        "Selu": (One([X], {"alpha": 1.6732, "gamma": 1.0507}), 6),
        "Split": (One([X], {"split": [1, 3], "axis": 2}, 2), 2),
        "Tile": (One([X, ints(1, 2, 1)], {}, 1, [1]), 6),
        "Upsample": (One([floats(1, 2, 4, 6), np.array([1, 1, 2, 3], F)], {}, 1, [1]), 9),
    }
    return table.get(name)


def case_of_one(name: str, version: int) -> One:
    made = OWN[name](version)
    assert isinstance(made, One)
    return made


def _pooling() -> dict[str, Any]:
    return {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 1, 0, 1]}


def pairs() -> Iterator[Pair]:
    for (domain, name), schemas in sorted(history().items()):
        for schema in schemas:
            yield domain, name, schema.since_version


def taken_out(pair: Pair) -> bool:
    """Whether a version is the one that took an operator out, so that no model has it."""
    schema = next(s for s in history()[pair[:2]] if s.since_version == pair[2])
    return bool(schema.deprecated) and pair[1] != "GroupNormalization"


def by_onnxruntime(case: Case) -> Values:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    loaded = onnxruntime.InferenceSession(case.model.SerializeToString(), options)
    names = {i.name for i in loaded.get_inputs()}
    values: Values = loaded.run(None, {k: v for k, v in case.feed.items() if k in names})
    return values


def by_reference(case: Case) -> Values:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        values: Values = ReferenceEvaluator(case.model).run(None, case.feed)
    return values


RUNTIMES: dict[str, Callable[[Case], Values]] = {
    "onnxruntime": by_onnxruntime,
    "reference": by_reference,
}


def attempt(runtime: str, case: Case) -> Values | None:
    """What a runtime gives; None where it has not the operator."""
    try:
        return RUNTIMES[runtime](case)
    except Exception:  # each runtime has a dozen kinds of errors for this
        return None


def differences(got: Any, wanted: Any, exact: bool = True) -> str:
    """What is wrong with a value; nothing when it is right."""
    if isinstance(wanted, dict):
        if set(got) != set(wanted):
            return f"keys {set(got)}, not {set(wanted)}"
        return "".join(differences(got[k], wanted[k], exact) for k in wanted)
    if isinstance(wanted, (list, tuple)):
        if len(got) != len(wanted):
            return f"{len(got)} values, not {len(wanted)}"
        return "".join(differences(a, b, exact) for a, b in zip(got, wanted, strict=True))
    a, b = np.asarray(got), np.asarray(wanted)
    if a.dtype.kind in "OU":
        return "" if a.tolist() == b.tolist() else f"{a}, not {b}"
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape}, not {b.dtype}{b.shape}"
    if not exact:
        return ""
    # A few units in the last place: runtimes sum in different orders.
    rtol, atol = (2.0**-8, 2.0**-10) if a.dtype.itemsize <= 2 else (2e-5, 2e-6)
    near = np.allclose(a.astype(float), b.astype(float), rtol, atol, equal_nan=True)
    return "" if near else f"{a}, not {b}"


def said(pair: Pair) -> list[tuple[str, Values]]:
    """What the runtimes that are right about a version give for it."""
    domain, name, version = pair
    found: list[tuple[str, Values]] = []
    for runtime in RUNTIMES:
        if (name, version, runtime) in WRONG:
            continue
        values = attempt(runtime, case_of(*pair))
        if values is not None:
            found.append((runtime, values))
    other = newer(name, version) if not found else None
    if other is not None:
        one, later = other
        feed = {
            f"x{i}": a for i, a in enumerate(one.inputs) if a is not None and i not in one.stored
        }
        case = Case(model_of(name, later, one, domain), feed)
        values = attempt("onnxruntime", case)
        if values is not None:
            found.append(("onnxruntime", values))
    return found


@cache
def written(pair: Pair) -> Case:
    case = case_of(*pair)
    graph = engine.to_symbolic(case.model)
    check_draft(draft(graph))
    model = engine.of_symbolic(graph)
    names = {v.name for v in model.graph.input}
    return Case(model, {k: v for k, v in case.feed.items() if k in names})


def what_is_wrong(pair: Pair) -> str:
    """What a version that was raised does otherwise; nothing when it is right."""
    try:
        raised = written(pair)
    except NeuralsymError as error:
        return str(error)
    compared = False
    values = {runtime: attempt(runtime, raised) for runtime in RUNTIMES}
    for runtime, wanted in said(pair):
        got = values[runtime]
        if got is None:  # it has the version, not the one that is written
            got = next((v for v in values.values() if v is not None), None)
        if got is None:
            continue
        compared = True
        wrong = differences(got, wanted, pair[1] not in RANDOM)
        if wrong:
            return f"{runtime}: {wrong}"
    if pair == ("", "Constant", 11):  # a sparse value, which no runtime takes in that version
        return differences(attempt("onnxruntime", raised), [np.array([0, 2, 0], F)])
    return "" if compared or pair in UNRUNNABLE else "no runtime has it"


def test_there_is_a_case_of_every_version() -> None:
    missing = []
    for pair in pairs():
        if taken_out(pair):
            continue
        case = case_of(*pair)
        domain, name, version = pair
        nodes = [n for n in case.model.graph.node if n.op_type == name]
        opsets = {o.domain: o.version for o in case.model.opset_import}
        if not nodes or opsets[domain] != version:
            missing.append(pair)
    assert not missing
    assert len([*pairs()]) >= 659


@pytest.mark.oracle
@pytest.mark.parametrize("part", range(4))
def test_every_version_means_what_it_meant(part: int) -> None:
    todo = [p for p in list(pairs())[part::4] if not taken_out(p)]
    assert {pair: wrong for pair in todo if (wrong := what_is_wrong(pair))} == {}


@pytest.mark.oracle
def test_runtimes_are_wrong_where_it_says_so() -> None:
    """Each exception is needed: the runtime gives another value for the raised model."""
    for (name, version, runtime), reason in WRONG.items():
        old = attempt(runtime, case_of("", name, version))
        new = attempt(runtime, written(("", name, version)))
        assert old is not None
        assert new is not None
        assert differences(new, old), (name, version, reason)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_every_version_runs_on_the_engine(part: int) -> None:
    wrong = {}
    for pair in list(pairs())[part::8]:
        if taken_out(pair) or pair in UNRUNNABLE or pair in NOWHERE_RIGHT:
            continue
        case = case_of(*pair)
        network = Network(engine.to_symbolic(case.model))
        got = [*network.run(case.feed).values()]
        found = [differences(got, v, pair[1] not in RANDOM) for _, v in said(pair)]
        if found and all(found):
            wrong[pair] = found[0]
    assert wrong == {}

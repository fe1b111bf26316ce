"""onnx's backend suite run on neuralsym, to count what passes and what is left to host steps.

A case belongs to every operator that its file holds. Values, shapes, types and tolerances are
compared by onnx's own runner.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.backend.test
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, numpy_helper
from onnx.backend.test.runner import Runner

from neuralsym.cli.output import Progress
from neuralsym.cpu.kernels.host import LastResort
from neuralsym.cpu.runtime import Cell
from neuralsym.errors import NeuralsymError
from neuralsym.network import Network, load

Key = tuple[str, str]
"""A domain and an operator."""
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")
RANDOM = "it draws numbers that nothing prescribes, so only their statistics can be tested"
LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light"


class Case(NamedTuple):
    """A model with lists of inputs and of expected outputs; a value is an array, a list or None."""

    name: str
    model: ModelProto
    data: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


@dataclass
class Tally:
    """Of the cases that hold an operator: how many pass, and in how many it is a host step."""

    cases: int = 0
    passed: int = 0
    host: int = 0


@dataclass
class Count:
    """What a run of the suite found: by kind, by operator, and what did not pass and why."""

    kinds: dict[str, Tally] = field(default_factory=dict)
    operators: dict[Key, Tally] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def count(kinds: Sequence[str] = KINDS) -> Count:
    """Run the cases of these kinds; about a minute when the kernels are compiled."""
    found = Count()
    with Progress("onnx's suite") as progress:
        for case in cases(kinds):
            reason, hosted = outcome(case)
            if reason:
                found.failed[case.name] = reason
            kind = found.kinds.setdefault(case.name.partition("/")[0], Tally())
            tallies = {key: found.operators.setdefault(key, Tally()) for key in held(case.model)}
            for key, tally in [(None, kind), *tallies.items()]:
                tally.cases += 1
                tally.passed += not reason
                tally.host += key in hosted if key else bool(hosted)
            progress(sum(t.cases for t in found.kinds.values()), 0, case.name)
    return found


def outcome(case: Case) -> tuple[str, set[Key]]:
    """Why a case does not pass, if so, and the operators that Python computed in it."""
    hosted: set[Key] = set()
    network: Network | None = None
    with warnings.catch_warnings(action="ignore"):
        try:
            network = load(case.model)
            hosted = host_steps(network.cell)
            for inputs, expected in case.data:
                needed = [port.name for port in network.inputs if not port.default]
                results = network.run(dict(zip(needed, inputs, strict=True)))
                compare(list(results.values()), expected, case.rtol, case.atol)
        except (NeuralsymError, AssertionError) as error:
            if network is not None and not all(n.op.deterministic for n in network.graph.nodes):
                return RANDOM, hosted
            return next(filter(None, map(str.strip, str(error).splitlines())), "?"), hosted
    return "", hosted


def compare(results: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float) -> None:
    """Raise AssertionError unless values are as the suite's runner wants them."""
    assert len(results) == len(expected), f"{len(results)} values instead of {len(expected)}"
    for value, wanted in zip(results, expected, strict=True):
        if isinstance(wanted, list):
            compare(value, wanted, rtol, atol)
        elif wanted is None:
            assert value is None, "a value where none should be"
        else:
            Runner.assert_similar_outputs([wanted], [value], rtol, atol)


def host_steps(cell: Cell) -> set[Key]:
    """The operators that the last resort computes in a cell and its bodies."""
    found: set[Key] = set()
    for step in cell.program.steps:
        if isinstance(step.kernel, LastResort):
            found.add((step.op.domain, step.op.__name__))
        for note in step.notes.values():
            if isinstance(note, Cell):
                found |= host_steps(note)
    return found


# -- the cases ---------------------------------------------------------------------------------
def cases(kinds: Iterable[str] = KINDS) -> Iterator[Case]:
    """The cases of onnx's suite of these kinds, read as they are asked for."""
    for kind in kinds:
        if kind == "light":
            yield from map(_light, sorted(LIGHT.glob("*.onnx")))
            continue
        with warnings.catch_warnings(action="ignore"):  # some are made by dividing by zero
            from onnx.backend.test.loader import load_model_tests

            found = load_model_tests(kind=kind)
        for case in found:
            name = f"{kind}/{case.name}"
            if case.model is not None:
                sets = case.data_sets or ()
                data = [([plain(v) for v in i], [plain(v) for v in o]) for i, o in sets]
                yield Case(name, case.model, data, case.rtol, case.atol)
            elif case.model_dir is not None:
                yield _stored(name, Path(case.model_dir), case.rtol, case.atol)


def _stored(name: str, folder: Path, rtol: float, atol: float) -> Case:
    """A case that lies as files in the onnx package."""
    model = onnx.load(str(folder / "model.onnx"))
    initial = {t.name for t in model.graph.initializer}
    fed = [value for value in model.graph.input if value.name not in initial]
    data = []
    for part in sorted(folder.glob("test_data_set_*")):
        inputs = [_read(part / f"input_{i}.pb", v) for i, v in enumerate(fed)]
        outputs = [_read(part / f"output_{i}.pb", v) for i, v in enumerate(model.graph.output)]
        data.append((inputs, outputs))
    return Case(name, model, data, rtol, atol)


def _light(path: Path) -> Case:
    """One of the large networks without their weights; the runner feeds them a ramp."""
    model = onnx.load(str(path))
    initial = {t.name for t in model.graph.initializer}
    fed = [v for v in model.graph.input if v.name not in initial]
    inputs = [Runner.generate_dummy_data(value) for value in fed]
    outputs = [
        _read(path.with_name(f"{path.stem}_output_{i}.pb"), v)
        for i, v in enumerate(model.graph.output)
    ]
    return Case(f"light/{path.stem}", model, [(inputs, outputs)], 1e-3, 1e-7)


def _read(path: Path, declared: ValueInfoProto) -> Any:
    kinds: dict[str, type[Any]] = {
        "sequence_type": onnx.SequenceProto,
        "optional_type": onnx.OptionalProto,
    }
    value = kinds.get(declared.type.WhichOneof("value") or "", onnx.TensorProto)()
    value.ParseFromString(path.read_bytes())
    return plain(value)


def plain(value: Any) -> Any:
    """A value of the suite as an array, strings as objects, or as a list or None."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    elif isinstance(value, onnx.SequenceProto):
        value = numpy_helper.to_list(value)
    elif isinstance(value, onnx.OptionalProto):
        value = numpy_helper.to_optional(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "USO":
        return array
    words = [v.decode() if isinstance(v, bytes) else v for v in array.reshape(-1).tolist()]
    strings = np.empty(len(words), object)
    strings[:] = words
    return strings.reshape(array.shape)


def held(model: ModelProto) -> set[Key]:
    """The operators that a file holds, also in bodies and functions."""
    own = {(f.domain, f.name) for f in model.functions}
    found: set[Key] = set()
    stack: list[NodeProto] = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    while stack:
        node = stack.pop()
        key = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
        if (node.domain, node.op_type) not in own:
            found.add(key)
        for attribute in node.attribute:
            graphs: list[GraphProto] = [attribute.g, *attribute.graphs]
            stack.extend(inner for graph in graphs for inner in graph.node)
    return found

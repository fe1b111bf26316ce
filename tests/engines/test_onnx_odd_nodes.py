"""Nodes of every version with something missing, wrong or unknown.

What is broken is refused in our words; what only the run knows is read, and written in older
opsets or refused there.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import onnx
import pytest
from every_operator import Case, case_of
from lowering import lowered
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto
from test_onnx_every_version import Pair, attempt, differences, pairs, taken_out
from test_onnx_lower import newest

from neuralsym.engines import onnx as engine
from neuralsym.errors import FormatError, NeuralsymError

Change = Callable[[NodeProto, GraphProto], None]


# -- breaking ----------------------------------------------------------------------------------
def without_attribute(i: int) -> Change:
    def change(node: NodeProto, graph: GraphProto) -> None:
        del node.attribute[i]

    return change


def odd_value(i: int) -> Change:
    """A number far out of range, a word that means nothing."""

    def change(node: NodeProto, graph: GraphProto) -> None:
        attribute = node.attribute[i]
        attribute.i, attribute.f = -99, -1e30
        if attribute.ints:
            attribute.ints[0] = -99
        if attribute.floats:
            attribute.floats[0] = float("nan")
        if attribute.s:
            attribute.s = b"nonsense"

    return change


def other_kind(i: int, kind: int) -> Change:
    def change(node: NodeProto, graph: GraphProto) -> None:
        attribute = node.attribute[i]
        name = attribute.name
        attribute.Clear()
        attribute.name, attribute.type = name, kind
        if kind == AttributeProto.STRING:
            attribute.s = b"x"
        else:
            attribute.ints.extend([5, -7, 2**62])

    return change


def without_input(i: int) -> Change:
    def change(node: NodeProto, graph: GraphProto) -> None:
        node.input[i] = ""

    return change


def cut_inputs(i: int) -> Change:
    def change(node: NodeProto, graph: GraphProto) -> None:
        del node.input[i:]

    return change


def more_outputs(node: NodeProto, graph: GraphProto) -> None:
    node.output.extend(["more", "and_more", "yet_more"])
    graph.output.add(name="more")


def rankless(node: NodeProto, graph: GraphProto) -> None:
    for value in graph.input:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")


def scalars(node: NodeProto, graph: GraphProto) -> None:
    rankless(node, graph)
    for value in graph.input:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()


def free_sizes(node: NodeProto, graph: GraphProto) -> None:
    for value in graph.input:
        if value.type.HasField("tensor_type"):
            for k, dim in enumerate(value.type.tensor_type.shape.dim):
                dim.dim_param = f"{value.name}_{k}"


def free_batch(node: NodeProto, graph: GraphProto) -> None:
    for value in graph.input:
        if value.type.HasField("tensor_type") and value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].dim_param = "N"


def changes(node: NodeProto) -> Iterator[tuple[str, Change]]:
    for i, attribute in enumerate(node.attribute):
        yield f"without {attribute.name}", without_attribute(i)
        yield f"odd {attribute.name}", odd_value(i)
        yield f"text {attribute.name}", other_kind(i, AttributeProto.STRING)
        yield f"numbers {attribute.name}", other_kind(i, AttributeProto.INTS)
    for i in range(len(node.input)):
        yield f"without input {i}", without_input(i)
        yield f"{i} inputs", cut_inputs(i)
    rest = (more_outputs, rankless, scalars, free_sizes)
    yield from ((change.__name__, change) for change in rest)


def changed(model: ModelProto, name: str, change: Change) -> ModelProto:
    made = ModelProto()
    made.CopyFrom(model)
    node = next(n for n in made.graph.node if n.op_type == name)
    change(node, made.graph)
    return made


def crashes(pair: Pair, keep: Callable[[str], bool]) -> dict[tuple[Pair, str], str]:
    """What raises anything but an error of ours."""
    model, name = case_of(*pair).model, pair[1]
    node = next(n for n in model.graph.node if n.op_type == name)
    found: dict[tuple[Pair, str], str] = {}
    for label, change in changes(node):
        if not keep(f"{pair} {label}"):
            continue
        try:
            engine.to_symbolic(changed(model, name, change))
        except NeuralsymError:
            continue
        except Exception as error:
            found[pair, label] = repr(error)
    return found


@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_broken_nodes() -> None:
    found: dict[tuple[Pair, str], str] = {}
    for pair in pairs():
        if not taken_out(pair):
            found |= crashes(pair, lambda label: zlib.crc32(label.encode()) % 12 == 0)
    assert found == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_all_broken_nodes(part: int) -> None:
    found: dict[tuple[Pair, str], str] = {}
    for pair in list(pairs())[part::4]:
        if not taken_out(pair):
            found |= crashes(pair, lambda label: True)
    assert found == {}


# -- not knowing -------------------------------------------------------------------------------
def unknown(name: str, version: int, change: Change, opsets: tuple[int, ...]) -> dict[int, str]:
    """What an older opset's file of a node with unknown sizes does otherwise."""
    case = case_of("", name, version)
    try:
        graph = engine.to_symbolic(changed(case.model, name, change))
    except NeuralsymError:
        return {}
    wanted = attempt("onnxruntime", Case(engine.of_symbolic(graph), case.feed))
    wrong: dict[int, str] = {}
    for opset in opsets:
        try:
            model = lowered(graph, opset)
        except FormatError as error:
            if "checker" in str(error):
                wrong[opset] = str(error)
            continue
        got = attempt("onnxruntime", Case(model, case.feed))
        if got is not None and wanted is not None and (said := differences(got, wanted)):
            wrong[opset] = said
    return wrong


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", [free_batch, free_sizes, rankless])
def test_sizes_that_only_the_run_knows(change: Change) -> None:
    rows = [r for r in newest() if zlib.crc32(r[0].encode()) % 4 == 0]
    assert {r: w for r in rows if (w := unknown(*r, change, (9, 12, 17)))} == {}


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", [free_batch, free_sizes, rankless])
def test_sizes_of_all_operators_that_only_the_run_knows(change: Change) -> None:
    opsets = (7, 8, 10, 11, 13, 15, 18, 21)
    assert {r: w for r in newest() if (w := unknown(*r, change, opsets))} == {}


def test_the_unchanged_case_is_whole() -> None:
    """A change leaves the case that it starts from alone."""
    model = case_of("", "Slice", 13).model
    before = model.SerializeToString()
    changed(model, "Slice", free_sizes)
    assert model.SerializeToString() == before
    assert isinstance(model, onnx.ModelProto)

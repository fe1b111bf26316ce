"""Every operator and whole networks in files of an older opset, and what is refused there by name.

The checker passes each file, and onnxruntime's result of it is compared with the result of the
file in the lowest opset that needs no rewriting.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from every_operator import Case, case_of
from lowering import Array, F, agree, floats, lowered, run
from test_onnx_every_version import RANDOM, attempt, differences, taken_out
from test_onnx_suite import cases

from neuralsym import ops, zoo
from neuralsym.core.graph import Graph
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Symbol
from neuralsym.engines import onnx as engine
from neuralsym.engines.onnx.lower import RULES
from neuralsym.engines.onnx.opsets import history
from neuralsym.engines.onnx.write import draft
from neuralsym.errors import FormatError

# It asks onnxruntime for a locale that few machines have.
NOT_RUN = {"StringNormalizer"}


# -- every operator ----------------------------------------------------------------------------
def newest() -> list[tuple[str, int]]:
    found = []
    for (domain, name), schemas in sorted(history().items()):
        versions = [s.since_version for s in schemas]
        versions = [v for v in versions if not taken_out((domain, name, v))]
        if not domain and name not in RANDOM | NOT_RUN:
            found.append((name, versions[-1]))
    return found


def what_is_wrong(name: str, version: int, opsets: Sequence[int]) -> dict[int, str]:
    """What goes wrong with an operator's case in some opsets."""
    case = case_of("", name, version)
    graph = engine.to_symbolic(case.model)
    whole = Case(engine.of_symbolic(graph), case.feed)
    wanted = attempt("onnxruntime", whole) or attempt("reference", whole)
    assert wanted is not None
    wrong: dict[int, str] = {}
    for opset in opsets:
        try:
            model = lowered(graph, opset)
        except FormatError as error:
            text = str(error).splitlines()[0]
            if f" cannot be written in opset {opset}: " not in text or "give opset=" not in text:
                wrong[opset] = text
            continue
        got = attempt("onnxruntime", Case(model, case.feed))
        if got is not None:
            difference = differences(got, wanted)
            if difference:
                wrong[opset] = difference
    return wrong


@pytest.mark.oracle
def test_every_operator_at_several_opsets() -> None:
    wrong = {(n, v): found for n, v in newest() if (found := what_is_wrong(n, v, (8, 11, 16)))}
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("part", range(4))
def test_every_operator_at_every_opset(part: int) -> None:
    rows = newest()[part::4]
    assert {row: found for row in rows if (found := what_is_wrong(*row, range(7, 28)))} == {}


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_cases_of_the_suite(part: int) -> None:
    """An eighth of onnx's node cases, in some older opsets, by onnxruntime."""
    found = {
        n: c
        for n, c in cases().items()
        if n.startswith("node/") and zlib.crc32(n.encode()) % 8 == 5
    }
    wrong = {}
    for name, case in list(found.items())[part::4]:
        if "bernoulli" in name:
            continue
        model = case.model  # type: ignore[attr-defined]
        graph = engine.to_symbolic(model.SerializeToString())
        values = case.data_sets[0][0]  # type: ignore[attr-defined]
        feed = {i.name: v for i, v in zip(model.graph.input, values, strict=True)}
        wanted = attempt("onnxruntime", Case(engine.of_symbolic(graph), feed))
        for opset in (7, 9, 10, 11, 12, 14, 17, 19, 21) if wanted is not None else ():
            try:
                older = lowered(graph, opset)
            except FormatError as error:
                if "checker" in str(error):
                    wrong[name, opset] = str(error)
                continue
            got = attempt("onnxruntime", Case(older, feed))
            if got is not None and (said := differences(got, wanted)):
                wrong[name, opset] = said
    assert wrong == {}


LOWEST = {
    **dict.fromkeys(
        ["Abs", "BatchNormalization", "Celu", "Clip", "Conv", "ConvTranspose", "DepthToSpace"], 7
    ),
    **dict.fromkeys(["Dropout", "Elu", "Equal", "Expand", "Flatten", "Gather", "Gemm", "GRU"], 7),
    **dict.fromkeys(["GlobalMaxPool", "GreaterOrEqual", "GroupNormalization", "HardSwish"], 7),
    **dict.fromkeys(["If", "IsInf", "IsNaN", "LSTM", "LayerNormalization", "LessOrEqual"], 7),
    **dict.fromkeys(["LogSoftmax", "Loop", "Max", "MeanVarianceNormalization", "Mish", "Pad"], 7),
    **dict.fromkeys(["ReduceL2", "ReduceLogSumExp", "ReduceMean", "ReduceSum", "Reshape"], 7),
    **dict.fromkeys(["Resize", "Round", "Shape", "Sign", "Slice", "Softmax"], 7),
    **dict.fromkeys(["SpaceToDepth", "Split", "Squeeze", "SwiGLU", "Swish", "TopK"], 7),
    **dict.fromkeys(["Unsqueeze", "Upsample", "Where", "RMSNormalization", "ThresholdedRelu"], 7),
    **dict.fromkeys(["Erf", "Gelu", "NonZero", "OneHot", "Scan"], 9),
    **dict.fromkeys(["DynamicQuantizeLinear", "Mod", "QuantizeLinear"], 10),
    **dict.fromkeys(["CumSum", "Range", "SequenceAt"], 11),
    **dict.fromkeys(["Attention", "DequantizeLinear"], 7),
    "DFT": 17,
    "GridSample": 16,  # its case is cubic
    "RoiAlign": 16,
    "STFT": 17,
}
"""The lowest opset that can say the case of an operator."""


def test_operators_reach_down_as_far_as_they_can() -> None:
    versions = dict(newest())
    found = {}
    for name in LOWEST:
        graph = engine.to_symbolic(case_of("", name, versions[name]).model)
        for opset in range(7, 28):
            try:
                draft(graph, opset)
            except FormatError:
                continue
            found[name] = opset
            break
    assert found == LOWEST


def test_rules_speak_of_operators_that_exist() -> None:
    for name in RULES:
        assert ("", name) in history(), name


# -- whole graphs ------------------------------------------------------------------------------
def network() -> Graph:
    """Convolutions, batch norm, relu6, a residual, pooling, dropout, a classifier."""
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> Array:
        return (rng.standard_normal(shape) / 4).astype(F)

    x = ops.variable("image", ("N", 3, 12, 12))
    y = ops.conv(x, weight(8, 3, 3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    y = ops.batch_normalization(y, weight(8) + 1, weight(8), weight(8), np.abs(weight(8)) + F(0.5))
    y = ops.clip(y, F(0), F(6))
    y = y + ops.hard_swish(ops.conv(y, weight(8, 8, 3, 3), pads=(1, 1, 1, 1)))
    y = ops.max_pool(y, kernel_shape=(2, 2), strides=(2, 2), ceil_mode=1)
    y = ops.reduce_mean(y, np.array([2, 3]), keepdims=0)
    y = ops.dropout(y, F(0.2))
    y = ops.gemm(y, weight(8, 5))
    return Graph({"probs": ops.softmax(y, axis=-1)})


def transformer() -> Graph:
    """One block of attention: layer norms, heads by reshaping, gelu, a mask of a triangle."""
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> Array:
        return (rng.standard_normal(shape) / 4).astype(F)

    x = ops.variable("tokens", ("N", 6, 8))
    y = ops.layer_normalization(x, weight(8) + 1, weight(8))
    heads = ops.split(y @ weight(8, 24), num_outputs=3, axis=-1)
    q, k, v = (
        ops.transpose(ops.reshape(h, np.array([0, 6, 2, 4])), perm=(0, 2, 1, 3)) for h in heads
    )
    scores = q @ ops.transpose(k, perm=(0, 1, 3, 2)) * F(0.5)
    mask = ops.trilu(ops.constant(np.ones((6, 6), bool)), upper=0)
    scores = ops.where(mask, scores, F(-1e9))
    y = ops.softmax(scores, axis=-1) @ v
    y = x + ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), np.array([0, 6, 8]))
    y = y + ops.gelu(ops.rms_normalization(y, weight(8)) @ weight(8, 16)) @ weight(16, 8)
    return Graph({"out": y[:, -1], "norm": ops.reduce_l2(y, np.array([-1]))})


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("build", "name", "shape", "lowest"),
    [(network, "image", (2, 3, 12, 12), 7), (transformer, "tokens", (2, 6, 8), 9)],
)
def test_networks(
    build: Callable[[], Graph], name: str, shape: tuple[int, ...], lowest: int
) -> None:
    graph, x = build(), floats(*shape)
    agree(graph, {name: x}, range(lowest, 24), rtol=1e-4)
    model = lowered(graph, lowest)
    assert [o.name for o in model.graph.output] == list(graph.output_names)
    assert [i.name for i in model.graph.input] == [name]
    assert engine.to_symbolic(model).output_names == graph.output_names


@pytest.mark.oracle
def test_bodies_are_lowered_too() -> None:
    """What a loop's body and what lies around it use; its captures are outer names still."""
    x = floats(2, 3)
    scale = ops.hard_swish(ops.variable("x", (2, 3)))

    def step(i: Symbol, s: Symbol) -> tuple[Symbol, Symbol]:
        t = ops.softmax(s + scale, axis=0)
        return t, ops.reduce_sum(ops.hard_swish(t), np.array([-1]))

    results = ops.loop(3, None, step, ops.variable("x0", (2, 3)))
    agree(Graph(results), {"x": x, "x0": x}, (7, 9, 11, 13))


@pytest.mark.oracle
def test_a_saved_file_runs(tmp_path: Path) -> None:
    graph, x = network(), floats(1, 3, 12, 12)
    path = tmp_path / "old.onnx"
    engine.save(graph, path, opset=9)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == 9
    assert model.ir_version == 4
    # Settings became attributes, so nothing is stored that no node reads.
    used = {name for node in model.graph.node for name in node.input}
    assert {t.name for t in model.graph.initializer} <= used
    wanted = run(engine.of_symbolic(graph), {"image": x})
    np.testing.assert_allclose(run(model, {"image": x})[0], wanted[0], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("name", ["mnist", "squeezenet1_1", "resnet18"])
def test_models_of_the_zoo(name: str) -> None:
    made_ = zoo.create(name)
    graph = getattr(made_, "graph", made_)
    x = floats(1, *(int(s) for s in graph.inputs[0].shape[1:]))
    agree(graph, {graph.input_names[0]: x}, (7, 9, 11, 13), rtol=1e-3)


# -- what cannot be said -----------------------------------------------------------------------
def test_a_refusal_says_what_where_why_and_what_to_do() -> None:
    y = ops.cum_sum(ops.variable("x", (2, 3)), np.array(0), name="running")
    with pytest.raises(FormatError) as caught:
        engine.of_symbolic(Graph(y), opset=9)
    text = str(caught.value)
    assert text.startswith("CumSum 'running' cannot be written in opset 9: CumSum is new in ")
    assert "the lowest that can say it is 11: give opset=11" in text
    assert f"{Path(__file__).name}:" in text


def test_the_lowest_opset_is_the_one_that_rewriting_reaches() -> None:
    """Gelu is new in 20, yet its body is said from 9 on."""
    with pytest.raises(FormatError, match="the lowest that can say it is 9"):
        engine.of_symbolic(Graph(ops.gelu(ops.variable("x", (3,)))), opset=8)


def test_operators_taken_out_beside_newer_ones() -> None:
    tree, other = (
        engine.to_symbolic(case_of("ai.onnx.ml", name, version).model).outputs[0]
        for name, version in (("TreeEnsembleRegressor", 1), ("TreeEnsemble", 5))
    )
    x = ops.variable("x", (2, 2))
    both = [apply(s.node.op, [x], s.node.attrs)[0] for s in (tree, other)]
    with pytest.raises(FormatError, match=r"TreeEnsembleRegressor .*taken out after version 4"):
        engine.of_symbolic(Graph(both))

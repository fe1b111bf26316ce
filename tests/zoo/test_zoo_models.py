"""The zoo's networks: exact counts, options, files, and answers that depend on the input."""

from __future__ import annotations

import hashlib
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from zoo_networks import PUBLISHED, agree, draw_statistics, entries, families, need_room, small

from neuralsym import BadAttribute, Network, ShapeMismatch, load, testing, zoo
from neuralsym.layers import initializers
from neuralsym.zoo import facts
from neuralsym.zoo.registry import find

AGAIN = "zoo/counts.txt is old: run this test with --update-golden"
# What stands for a family in the default run, where that is not its smallest network.
STANDS = {"resnet": "resnet18", "squeezenet": "squeezenet1_1"}
# Families none of whose networks is small enough for it; test_zoo_narrow.py has narrow ones.
LARGE = ("alexnet", "convnext", "inception_resnet_v2", "maxvit", "nasnet", "swin", "vgg", "vit")
QUICK = {
    STANDS.get(family, names[0]) for family, names in families().items() if family not in LARGE
}
# What is tried on few networks in the default run: the same bytes twice, files loaded again.
FEW = ("mnist", "resnet18", "squeezenet1_1", "mobilenet_v3_small")


def slow_unless(quick: Any, names: Any = None) -> list[Any]:
    """All networks; those that are not quick only where slow tests are asked for."""
    return [
        name if name in quick else pytest.param(name, marks=pytest.mark.slow)
        for name in names or zoo.models()
    ]


@cache
def counted(name: str) -> facts.Counts:
    return facts.count(find(name))


def test_the_list_is_whole() -> None:
    assert zoo.models() == sorted(PUBLISHED)
    assert zoo.models("squeeze*") == ["squeezenet1_0", "squeezenet1_1"]
    assert zoo.info("resnet50_v1").name == "resnet50_keras"


@pytest.mark.parametrize("name", zoo.models())
def test_counts_are_as_published(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters to the last one, multiply-adds to a million; no weight is drawn."""

    def draws(*_: object) -> None:
        raise AssertionError("a weight was drawn")

    monkeypatch.setattr(initializers, "Stream", draws)
    found, published = counted(name), PUBLISHED[name]
    assert (found.trainable, found.statistics) == published[:2]
    if published.mmacs is not None:
        assert found.macs / 1e6 == pytest.approx(published.mmacs, abs=1.1)


def test_stored_counts_are_those_of_the_graphs(request: pytest.FixtureRequest) -> None:
    found = {name: counted(name) for name in zoo.models()}
    if request.config.getoption("--update-golden"):
        facts.store(found)
    else:
        assert facts.stored() == found, AGAIN


def test_every_entry_says_what_it_is() -> None:
    for name in zoo.models():
        info = zoo.info(name)
        assert len(info.class_names) in (0, info.classes)
        if info.preprocessing is not None:
            assert info.input_shape[1:] == info.preprocessing.size
            assert info.preprocessing.resize >= min(info.preprocessing.size)
        assert info.source
        if info.classes == 1000:
            assert info.paper
            assert info.class_names[283] == "Persian cat"
        assert info.top1 is None or 40 < info.top1 < 100


def test_counting_draws_nothing() -> None:
    network = zoo.resnet18()
    network.summary(lambda text: None)
    assert not any(network.weights.tensor(n).is_drawn for n in network.weights)


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(BadAttribute, match="resnet50"):
        zoo.create("resnet51")


def test_options() -> None:
    network = zoo.squeezenet1_1(batch=2, classes=7, size=(64, 96), softmax=True)
    assert [str(p) for p in network.inputs] == ["input: float32[2, 3, 64, 96]"]
    assert [str(p) for p in network.outputs] == ["probs: float32[2, 7]"]
    result = network(np.random.default_rng(0).random((2, 3, 64, 96), np.float32))
    np.testing.assert_allclose(result.sum(1), 1, rtol=1e-5)
    features = zoo.resnet18(top=False, size=64)
    assert [str(p) for p in features.outputs] == ["features: float32[N, 512, 2, 2]"]


@pytest.mark.parametrize("options", [{"classes": 0}, {"size": 0}, {"size": (1, 2, 3)}])
def test_options_of_nonsense(options: dict[str, Any]) -> None:
    with pytest.raises(BadAttribute):
        zoo.resnet18(**options)


@pytest.mark.parametrize("name", slow_unless(QUICK))
def test_answers(name: str, tmp_path: Path) -> None:
    """Ours equals onnxruntime's, at two batch sizes, and depends on the input."""
    need_room(name, 5)
    network = draw_statistics(small(name))
    given = entries(network, 3)
    (path,) = network.save(tmp_path / "m.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {network.inputs[0].name: given})
    agree(network(given), expected)
    tolerance = 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(network(given[:1]), expected[:1], rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", slow_unless(FEW))
def test_answers_of_files(name: str, tmp_path: Path) -> None:
    """What was saved and loaded again gives the same bits."""
    need_room(name, 5)
    network = draw_statistics(small(name))
    given = entries(network, 2)
    (path,) = network.save(tmp_path / "m.onnx")
    np.testing.assert_array_equal(load(path)(given), network(given))


@pytest.mark.parametrize("name", slow_unless(FEW))
def test_exports_are_byte_equal(name: str, tmp_path: Path) -> None:
    need_room(name, 3)
    digests = set()
    for i in range(2):
        (path,) = small(name, seed=3).save(tmp_path / f"{i}.onnx")
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_the_answer_is_right_to_what_float32_allows() -> None:
    """Against a float64 evaluation; a float32 network of this depth keeps some six digits."""
    network = draw_statistics(zoo.resnet18(size=32, classes=10))
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
    exact = testing.reference_outputs(in_float64(network), {"input": x.astype(np.float64)}, "onnx")
    (expected,) = exact.values()
    np.testing.assert_allclose(network(x), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def in_float64(network: Network) -> Network:
    """The same network in float64."""
    from neuralsym.engines import onnx as engine

    model = engine.of_symbolic(network.model)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    del model.graph.value_info[:]
    return load(model)


@pytest.mark.parametrize("name", slow_unless(FEW))
def test_untrained_answers_are_of_a_sensible_size(name: str) -> None:
    """As the weights are drawn: neither saturated nor constant, however deep the network."""
    need_room(name, 3)
    network = small(name)
    logits = network(entries(network, 2))
    assert 1e-4 < np.abs(logits).max() < (100 if zoo.info(name).classes else 300)
    assert np.abs(logits[0] - logits[1]).max() > 1e-2 * np.abs(logits).max()


def test_networks_of_other_things_than_classes_of_pictures() -> None:
    text = zoo.lstm_text(batch=2, size=7, classes=30, softmax=True)
    assert [str(p) for p in text.inputs] == ["tokens: int64[2, 7]"]
    result = text(np.arange(14).reshape(2, 7))
    assert result.shape == (2, 30)
    np.testing.assert_allclose(result.sum(1), 1, rtol=1e-5)
    style = zoo.style_transfer(size=(20, 34))
    assert [str(p) for p in style.outputs] == ["picture: float32[N, 3, 20, 36]"]
    with pytest.raises(BadAttribute, match="no classes"):
        zoo.style_transfer(classes=3)
    with pytest.raises(BadAttribute, match="size"):
        zoo.lstm_text(size=(3, 4))
    with pytest.raises(BadAttribute, match="no pictures"):
        zoo.preprocess("lstm_text")


def test_transformers_say_which_sizes_they_take() -> None:
    """Swin fills its maps up to whole windows, the others cannot."""
    assert zoo.swin_t(size=(60, 75)).outputs
    assert zoo.vit_b_16(size=(32, 64)).weights.tensor("embedding/position").shape == (1, 9, 768)
    with pytest.raises(ShapeMismatch, match=r"vit_b_16 at size 100x100: .*patches of 16x16"):
        zoo.vit_b_16(size=100)
    with pytest.raises(ShapeMismatch, match=r"maxvit_t at size 200x200: .*multiples of 224"):
        zoo.maxvit_t(size=200)


def test_mistaken_options_say_what_there_is() -> None:
    wrong: dict[str, Any] = {"clases": 3}
    with pytest.raises(BadAttribute, match=r"'clases'.*'classes'[\s\S]*test_zoo_models\.py:"):
        zoo.resnet18(**wrong)
    with pytest.raises(BadAttribute, match="top=True"):
        zoo.resnet18(softmax=True, top=False)
    with pytest.raises(ShapeMismatch, match=r"inception_v3 at size 64x64: .*larger input"):
        zoo.inception_v3(size=64)


def test_help_shows_the_options_and_their_defaults() -> None:
    parameters = inspect.signature(zoo.inception_v3).parameters
    assert {n: p.default for n, p in parameters.items()} == {
        "batch": "N", "classes": 1000, "size": (299, 299), "softmax": False, "top": True, "seed": 0,
    }  # fmt: skip
    assert inspect.signature(zoo.mnist).parameters["classes"].default == 10
    assert "probabilities instead of logits" in str(zoo.resnet50.__doc__)

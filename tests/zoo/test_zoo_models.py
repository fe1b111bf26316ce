"""The zoo's networks: exact counts, options, files, and answers that depend on the input."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from neuralsym import BadAttribute, Network, ShapeMismatch, load, testing, zoo

# Trainable parameters and batch-norm statistics as torchvision and Keras 3.15 count them.
PARAMETERS = {
    "resnet18": (11_689_512, 9_600),
    "resnet34": (21_797_672, 17_024),
    "resnet50": (25_557_032, 53_120),
    "resnet101": (44_549_160, 105_344),
    "resnet152": (60_192_808, 151_424),
    "resnet50_keras": (25_583_592, 53_120),
    "resnet101_keras": (44_601_832, 105_344),
    "resnet152_keras": (60_268_520, 151_424),
    "squeezenet1_0": (1_248_424, 0),
    "squeezenet1_1": (1_235_496, 0),
    "inception_v3": (23_834_568, 34_432),
    "inception_v3_keras": (23_817_352, 34_432),
    "mnist": (4_200_848, 6),
    "densenet121": (7_978_856, 83_648),
    "densenet121_keras": (7_978_856, 83_648),
    "densenet161": (28_681_000, 219_936),
    "densenet169": (14_149_480, 158_400),
    "densenet169_keras": (14_149_480, 158_400),
    "densenet201": (20_013_928, 229_056),
    "densenet201_keras": (20_013_928, 229_056),
    "efficientnet_b0": (5_288_548, 42_016),
    "efficientnet_b0_keras": (5_288_548, 42_022),
    "efficientnet_b1": (7_794_184, 62_048),
    "efficientnet_b1_keras": (7_794_184, 62_054),
    "efficientnet_b2": (9_109_994, 67_568),
    "efficientnet_b2_keras": (9_109_994, 67_574),
    "efficientnet_b3": (12_233_232, 87_296),
    "efficientnet_b3_keras": (12_233_232, 87_302),
    "efficientnet_b4": (19_341_616, 125_200),
    "efficientnet_b4_keras": (19_341_616, 125_206),
    "efficientnet_b5": (30_389_784, 172_736),
    "efficientnet_b5_keras": (30_389_784, 172_742),
    "efficientnet_b6": (43_040_704, 224_432),
    "efficientnet_b6_keras": (43_040_704, 224_438),
    "efficientnet_b7": (66_347_960, 310_720),
    "efficientnet_b7_keras": (66_347_960, 310_726),
    "efficientnet_v2_b0": (7_139_704, 60_608),
    "efficientnet_v2_b1": (8_141_052, 71_072),
    "efficientnet_v2_b2": (10_096_086, 82_288),
    "efficientnet_v2_b3": (14_358_406, 109_216),
    "efficientnet_v2_l": (118_515_272, 512_576),
    "efficientnet_v2_l_keras": (118_515_272, 512_576),
    "efficientnet_v2_m": (54_139_356, 292_032),
    "efficientnet_v2_m_keras": (54_139_356, 292_032),
    "efficientnet_v2_s": (21_458_488, 153_872),
    "efficientnet_v2_s_keras": (21_458_488, 153_872),
    "googlenet": (6_624_904, 14_560),
    "mnasnet0_5": (2_218_512, 20_624),
    "mnasnet0_75": (3_170_208, 29_808),
    "mnasnet1_0": (4_383_312, 37_920),
    "mnasnet1_3": (6_282_256, 48_816),
    "regnet_x_16gf": (54_278_536, 111_168),
    "regnet_x_1_6gf": (9_190_136, 43_504),
    "regnet_x_32gf": (107_811_560, 162_016),
    "regnet_x_3_2gf": (15_296_552, 62_560),
    "regnet_x_400mf": (5_495_976, 37_856),
    "regnet_x_800mf": (7_259_656, 37_312),
    "regnet_x_8gf": (39_572_648, 90_464),
    "regnet_y_128gf": (644_812_894, 415_072),
    "regnet_y_16gf": (83_590_140, 122_816),
    "regnet_y_1_6gf": (11_202_430, 52_672),
    "regnet_y_32gf": (145_046_770, 158_288),
    "regnet_y_3_2gf": (19_436_338, 66_160),
    "regnet_y_400mf": (4_344_144, 27_152),
    "regnet_y_800mf": (6_432_512, 30_432),
    "regnet_y_8gf": (39_381_472, 86_528),
    "resnet101_v2": (44_577_896, 97_664),
    "resnet152_v2": (60_236_904, 143_744),
    "resnet50_v2": (25_568_360, 45_440),
    "resnext101_32x8d": (88_791_336, 202_880),
    "resnext101_64x4d": (83_455_272, 202_880),
    "resnext50_32x4d": (25_028_904, 68_224),
    "shufflenet_v2_x0_5": (1_366_792, 7_952),
    "shufflenet_v2_x1_0": (2_278_604, 16_180),
    "shufflenet_v2_x1_5": (3_503_624, 23_440),
    "shufflenet_v2_x2_0": (7_393_996, 33_716),
    "wide_resnet101_2": (126_886_696, 137_856),
    "wide_resnet50_2": (68_883_240, 68_224),
    "mobilenet_v2": (3_504_872, 34_112),
    "mobilenet_v2_keras": (3_504_872, 34_112),
    "mobilenet_v3_large": (5_483_032, 24_400),
    "mobilenet_v3_large_keras": (5_483_032, 24_400),
    "mobilenet_v3_small": (2_542_856, 12_112),
    "mobilenet_v3_small_keras": (2_542_856, 12_112),
    "convnext_base": (88_591_464, 0),
    "convnext_base_keras": (88_591_464, 0),
    "convnext_large": (197_767_336, 0),
    "convnext_large_keras": (197_767_336, 0),
    "convnext_small": (50_223_688, 0),
    "convnext_small_keras": (50_223_688, 0),
    "convnext_tiny": (28_589_128, 0),
    "convnext_tiny_keras": (28_589_128, 0),
    "convnext_xlarge_keras": (350_196_968, 0),
    "maxvit_t": (30_919_624, 47_616),
    "swin_b": (87_768_224, 0),
    "swin_s": (49_606_258, 0),
    "swin_t": (28_288_354, 0),
    "swin_v2_b": (87_930_848, 0),
    "swin_v2_s": (49_737_442, 0),
    "swin_v2_t": (28_351_570, 0),
    "vit_b_16": (86_567_656, 0),
    "vit_b_32": (88_224_232, 0),
    "vit_h_14": (632_045_800, 0),
    "vit_l_16": (304_326_632, 0),
    "vit_l_32": (306_535_400, 0),
}
# Multiply-adds of one picture in millions, torchvision's own figures.
MMACS = {
    "resnet18": 1814,
    "resnet34": 3664,
    "resnet50": 4089,
    "resnet101": 7801,
    "resnet152": 11514,
    "squeezenet1_0": 819,
    "squeezenet1_1": 349,
    "inception_v3": 5713,
    "mobilenet_v2": 301,
    "mobilenet_v3_large": 217,
    "mobilenet_v3_small": 57,
    "efficientnet_b0": 386,
    "efficientnet_b1": 687,
    "efficientnet_b2": 1088,
    "efficientnet_b3": 1827,
    "efficientnet_b4": 4394,
    "efficientnet_b5": 10266,
    "efficientnet_b6": 19068,
    "efficientnet_b7": 37746,
    "efficientnet_v2_l": 56080,
    "efficientnet_v2_m": 24582,
    "efficientnet_v2_s": 8366,
    "convnext_base": 15355,
    "convnext_large": 34361,
    "convnext_small": 8684,
    "convnext_tiny": 4456,
    "maxvit_t": 5558,
    "swin_b": 15431,
    "swin_s": 8741,
    "swin_t": 4491,
    "swin_v2_b": 20325,
    "swin_v2_s": 11546,
    "swin_v2_t": 5940,
    "vit_b_16": 17564,
    "vit_b_32": 4409,
    "vit_l_16": 61555,
    "vit_l_32": 15378,
}
SMALL = {"inception_v3": 75, "inception_v3_keras": 75, "maxvit_t": 224}
QUICK = ("resnet18", "squeezenet1_1", "mnist")


def slow_unless_quick(names: Any) -> list[Any]:
    return [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in sorted(names)]


def small(name: str, **options: Any) -> Network:
    """The network for small pictures, so that a test is quick."""
    size = 32 if name == "mnist" else SMALL.get(name, 64)
    return zoo.create(name, size=size, **options)


def draw_statistics(network: Network, seed: int = 1) -> Network:
    """Draw what batch norms hold: with gamma 1 and mean 0 a fold that drops them would pass."""
    rng = np.random.default_rng(seed)
    drawn: dict[str, NDArray[np.float32]] = {}
    for name in network.weights:
        shape = network.weights.tensor(name).shape
        kind = name.rpartition("/")[2]
        if kind in ("gamma", "variance"):
            drawn[name] = rng.uniform(0.5, 1.5, shape).astype(np.float32)
        elif kind in ("beta", "mean"):
            drawn[name] = rng.normal(0, 0.3, shape).astype(np.float32)
    network.load_weights(drawn, strict=False)
    return network


def test_the_list_is_whole() -> None:
    assert zoo.models() == sorted(PARAMETERS)
    assert zoo.models("squeeze*") == ["squeezenet1_0", "squeezenet1_1"]
    assert zoo.info("resnet50_v1").name == "resnet50_keras"


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_parameters_are_exact(name: str) -> None:
    info = zoo.info(name)
    trainable, statistics = PARAMETERS[name]
    assert (info.trainable, info.params) == (trainable, trainable + statistics)


@pytest.mark.parametrize("name", sorted(MMACS))
def test_multiply_adds(name: str) -> None:
    assert zoo.info(name).macs / 1e6 == pytest.approx(MMACS[name], abs=1.1)


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


@pytest.mark.parametrize("name", slow_unless_quick(PARAMETERS))
def test_answers(name: str, tmp_path: Path) -> None:
    """Ours equals onnxruntime's, at two batch sizes, and depends on the input."""
    network = draw_statistics(small(name))
    rng = np.random.default_rng(0)
    port = network.inputs[0]
    shape = tuple(port.shape or ())[1:]
    pictures = rng.standard_normal((3, *shape)).astype(np.float32)
    (path,) = network.save(tmp_path / "m.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for batch in (pictures[:1], pictures):
        (expected,) = session.run(None, {"input": batch})
        tolerance = 1e-4 * np.abs(expected).max()
        np.testing.assert_allclose(network(batch), expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(load(path)(batch), expected, rtol=0, atol=tolerance)
    spread = np.abs(expected[0] - expected[1]).max()
    assert np.isfinite(expected).all()
    assert spread > 10 * tolerance, "the answer hardly depends on the input"


@pytest.mark.parametrize("name", slow_unless_quick(PARAMETERS))
def test_exports_are_byte_equal(name: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", slow_unless_quick(PARAMETERS))
def test_untrained_answers_are_of_a_sensible_size(name: str) -> None:
    """As the weights are drawn: neither saturated nor constant, however deep the network."""
    network = small(name)
    port = network.inputs[0]
    rng = np.random.default_rng(0)
    pictures = rng.standard_normal((2, *tuple(port.shape or ())[1:])).astype(np.float32)
    logits = network(pictures)
    assert 1e-4 < np.abs(logits).max() < 100
    assert np.abs(logits[0] - logits[1]).max() > 1e-2 * np.abs(logits).max()


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

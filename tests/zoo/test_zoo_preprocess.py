"""Pictures in, classes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from neuralsym import BadAttribute, FormatError, ShapeMismatch, load, zoo
from neuralsym.zoo import Preprocessing


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("torch", [(1 - 0.485) / 0.229, (0.2 - 0.456) / 0.224, (0 - 0.406) / 0.225]),
        ("tf", [1.0, -0.6, -1.0]),
        ("caffe", [0 - 103.939, 51 - 116.779, 255 - 123.68]),
        ("unit", [1.0, 0.2, 0.0]),
        ("raw", [255.0, 51.0, 0.0]),
    ],
)
def test_modes(mode: str, expected: list[float]) -> None:
    picture = np.broadcast_to(np.array([255, 51, 0], np.uint8), (4, 6, 3))
    made = Preprocessing.of_dict(
        {"mode": mode, "resize": 4, "size": [4, 6], "interpolation": "bilinear"}
    )(picture)
    assert made.shape == (1, 3, 4, 6)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made[0, :, 1, 2], expected, rtol=1e-5, atol=1e-6)


def test_a_file_is_resized_and_cut_from_the_middle(tmp_path: Path) -> None:
    left = np.zeros((100, 300, 3), np.uint8)
    left[:, 100:200] = 255  # only the middle third is white
    Image.fromarray(left).save(tmp_path / "wide.png")
    made = zoo.preprocess("mnist")(tmp_path / "wide.png")
    assert made.shape == (1, 3, 32, 32)
    np.testing.assert_allclose(made[0, :, :, 4:-4], 1)


def test_grey_is_one_channel() -> None:
    """A grey picture stays as it is, colours are weighed by how bright they look."""
    digits = zoo.preprocess("mnist_lenet")
    grey = np.arange(28 * 28, dtype=np.uint8).reshape(28, 28)
    made = digits(grey)
    assert made.shape == (1, 1, 28, 28)
    np.testing.assert_allclose(made[0, 0], grey, rtol=1e-5)
    red = np.broadcast_to(np.array([255, 0, 0], np.uint8), (28, 28, 3))
    np.testing.assert_allclose(digits(red), 255 * 0.299, rtol=1e-5)
    np.testing.assert_array_equal(zoo.preprocess_for(zoo.mnist_lenet(), red), digits(red))


def test_several_pictures_make_a_batch() -> None:
    pictures = np.zeros((5, 32, 32, 3), np.uint8)
    assert zoo.preprocess("mnist")(pictures).shape == (5, 3, 32, 32)
    assert zoo.preprocess("mnist")([pictures[0], pictures[1]]).shape == (2, 3, 32, 32)


def test_a_saved_network_knows_its_preprocessing(tmp_path: Path) -> None:
    zoo.squeezenet1_1(size=64, classes=3).save(tmp_path / "m.onnx")
    network = load(tmp_path / "m.onnx")
    picture = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    made = zoo.preprocess_for(network, picture)
    np.testing.assert_array_equal(made, zoo.preprocess("squeezenet1_1").at((64, 64))(picture))


def test_what_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "no.png").write_text("no picture")
    with pytest.raises(FormatError, match=r"no\.png"):
        zoo.preprocess("mnist")(tmp_path / "no.png")
    with pytest.raises(ShapeMismatch, match="height, width, 3"):
        zoo.preprocess("mnist")(np.zeros((3, 32, 32)))


def test_decode(tmp_path: Path) -> None:
    (best,) = zoo.decode("mnist", [[0.0, 2.0, 1.0]], top=2)
    assert [p.index for p in best] == [1, 2]
    assert best[0].label == "class 1"
    assert best[0].score == pytest.approx(np.exp(2) / (1 + np.exp(1) + np.exp(2)))
    logits = np.zeros((1, 1000))
    logits[0, 283] = 9
    ((cat,),) = zoo.decode("resnet50", logits, top=1)
    assert (cat.index, cat.label) == (283, "Persian cat")
    assert zoo.decode("resnet50", [[0.0, 1.0]])[0][0].label == "class 1", "a head of one's own"
    (path,) = zoo.squeezenet1_1().save(tmp_path / "m.onnx")
    assert zoo.decode(load(path), logits, top=1) == zoo.decode("resnet50", logits, top=1)
    ((first,),) = zoo.decode(None, [[0.1, 0.9]], top=1, labels=["cat", "dog"])
    assert (first.label, first.score) == ("dog", pytest.approx(0.9))
    with pytest.raises(ShapeMismatch):
        zoo.decode("mnist", [1.0, 2.0])
    with pytest.raises(ShapeMismatch, match="1 labels for 2"):
        zoo.decode("mnist", [[1.0, 2.0]], labels=["cat"])


def test_pictures_that_would_be_taken_wrongly() -> None:
    prepare = zoo.preprocess("resnet18")
    with pytest.warns(UserWarning, match="values within 0 to 1"):
        prepare(np.full((224, 224, 3), 0.5))
    here = r"\n  at .*test_zoo_preprocess.py:"
    with pytest.raises(FormatError, match="NaN" + here):
        prepare(np.full((224, 224, 3), np.nan))
    with pytest.raises(ShapeMismatch, match=r"uint8\[0, 5, 3\]" + here):
        prepare(np.zeros((0, 5, 3), np.uint8))
    with pytest.raises(FormatError, match="60000 x 1 is too thin.*" + here):
        prepare(np.zeros((1, 60000, 3), np.uint8))
    with pytest.raises(TypeError, match="takes a Network, not str: preprocess.*" + here):
        zoo.preprocess_for("resnet18", np.zeros((9, 9, 3), np.uint8))  # type: ignore[arg-type]


def test_answers_that_are_none() -> None:
    here = r"\n  at .*test_zoo_preprocess.py:"
    with pytest.raises(BadAttribute, match="NaN is no score" + here):
        zoo.decode("resnet18", np.full((1, 1000), np.nan))
    with pytest.raises(BadAttribute, match=r"takes numbers \[N, classes\]" + here):
        zoo.decode("resnet18", "wok")  # type: ignore[arg-type]
    with pytest.raises(BadAttribute, match="top='a' is no positive number.*" + here):
        zoo.decode("resnet18", np.ones((1, 1000)), top="a")  # type: ignore[arg-type]
    assert zoo.class_names(zoo.resnet18(size=32, classes=5)) == ()
    assert zoo.class_names(zoo.resnet18(size=32))[1] == "goldfish"


def test_sizes_and_names_of_other_types() -> None:
    made = zoo.resnet18(size=np.int64(32), classes=np.int64(5))  # type: ignore[arg-type]
    assert made.inputs[0].shape[1:] == (3, 32, 32)  # type: ignore[index]
    with pytest.raises(BadAttribute, match=r"size=1\.5 is neither"):
        zoo.resnet18(size=1.5)  # type: ignore[arg-type]
    with pytest.raises(BadAttribute, match="no option 'name'"):
        zoo.resnet18(name="mine")  # type: ignore[call-arg]
    with pytest.raises(BadAttribute, match="no network"):
        zoo.create(["resnet18"])  # type: ignore[arg-type]

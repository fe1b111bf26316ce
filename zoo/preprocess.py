"""Pictures as networks take them.

Modes, on pictures of RGB values 0 to 255: "torch" scales to 0..1, then subtracts ImageNet's mean
and divides by its deviation; "tf" scales to -1..1; "caffe" turns RGB to BGR and subtracts the
means; "unit" scales to 0..1; "raw" leaves the values as they are, for networks that scale inside;
"grey" makes one channel of three, 0 to 255.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralsym.errors import BadAttribute, FormatError, ShapeMismatch, at_line, user_line, warn
from neuralsym.network import Network
from neuralsym.weights.imagenet import DEVIATION, MEAN

Mode = Literal["torch", "tf", "caffe", "unit", "raw", "grey"]
Interpolation = Literal["bilinear", "bicubic"]
BRIGHTNESS = np.array([0.299, 0.587, 0.114], np.float32)
BGR_MEAN = np.array([103.939, 116.779, 123.68], np.float32)

_MOST_PIXELS = 2**28

Picture = str | PathLike[str] | ArrayLike


@dataclass(frozen=True)
class Preprocessing:
    """How pictures become the input of a network; call it with them.

    resize: the shorter side before `size` = (height, width) is cut from the middle.
    """

    mode: Mode
    resize: int
    size: tuple[int, int]
    interpolation: Interpolation = "bilinear"

    def at(self, size: tuple[int, int]) -> Preprocessing:
        """The same for another input size; the margin around the cut keeps its share."""
        if size == self.size:
            return self
        resize = round(self.resize * min(size) / min(self.size))
        return replace(self, size=size, resize=max(resize, *size))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of_dict(given: dict[str, Any]) -> Preprocessing:
        """What `as_dict` gave; FormatError for anything else."""
        try:
            sizes = tuple(int(n) for n in given["size"])
            made = Preprocessing(
                given["mode"], int(given["resize"]), (sizes[0], sizes[1]), given["interpolation"]
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FormatError(f"{given!r} describes no preprocessing ({error})") from None
        if made.mode not in _SCALE or made.interpolation not in get_args(Interpolation):
            raise FormatError(f"unknown preprocessing {made.mode!r}, {made.interpolation!r}")
        return made

    def __call__(self, pictures: Picture | Sequence[Picture]) -> NDArray[np.float32]:
        """float32[N, 3, height, width] of one picture or several; one channel in mode "grey".

        A picture is a file or an array [H, W, 3] (or [H, W] in grey) of values 0 to 255; an array
        [N, H, W, 3] is several. Files, and arrays of another size, need Pillow. Raises
        FormatError for what is no picture, ShapeMismatch for an array of another rank; warns of
        values within 0 to 1.
        """
        if isinstance(pictures, (str, PathLike)):
            several: Sequence[Any] = [pictures]
        elif isinstance(pictures, np.ndarray):
            several = list(pictures) if pictures.ndim == 4 else [pictures]
        elif isinstance(pictures, Sequence) and pictures:
            several = pictures
        else:
            several = [pictures]
        try:
            return np.stack([self._one(p) for p in several])
        except (FormatError, ShapeMismatch) as error:
            raise type(error)(f"{error}{at_line(user_line())}") from None

    def _one(self, picture: Any) -> NDArray[np.float32]:
        if isinstance(picture, (str, PathLike)):
            array = self._fitted(_read(Path(picture)))
        else:
            array = _colours(picture)
            if array.shape[:2] != self.size:
                array = self._fitted(_as_image(array))
        scaled = _SCALE[self.mode](array.astype(np.float32))
        return np.ascontiguousarray(scaled.transpose(2, 0, 1), dtype=np.float32)

    def _fitted(self, image: Any) -> NDArray[Any]:
        """A Pillow image resized by its shorter side, and its middle."""
        from PIL import Image

        width, height = image.size
        share = self.resize / min(width, height)
        wide, high = (
            max(round(n * share), m) for n, m in zip(image.size, self.size[::-1], strict=True)
        )
        if wide * high > _MOST_PIXELS:
            raise FormatError(f"a picture of {width} x {height} is too thin to be resized; cut it")
        method = getattr(Image.Resampling, self.interpolation.upper())
        image = image.convert("RGB").resize((wide, high), method)
        top, left = (high - self.size[0]) // 2, (wide - self.size[1]) // 2
        array: NDArray[Any] = np.asarray(image)
        return array[top : top + self.size[0], left : left + self.size[1]]

    def __str__(self) -> str:
        height, width = self.size
        side = f"shorter side {self.resize} ({self.interpolation})"
        return f"{self.mode}, {side}, middle {height}x{width}"


def _torch(x: NDArray[np.float32]) -> NDArray[Any]:
    scaled: NDArray[Any] = (x / np.float32(255) - MEAN) / DEVIATION
    return scaled


def _caffe(x: NDArray[np.float32]) -> NDArray[Any]:
    shifted: NDArray[Any] = x[..., ::-1] - BGR_MEAN
    return shifted


_SCALE: dict[Mode, Callable[[NDArray[np.float32]], NDArray[Any]]] = {
    "torch": _torch,
    "tf": lambda x: x / np.float32(127.5) - np.float32(1),
    "caffe": _caffe,
    "unit": lambda x: x / np.float32(255),
    "raw": lambda x: x,
    "grey": lambda x: (x @ BRIGHTNESS)[..., None],
}


def _colours(picture: Any) -> NDArray[Any]:
    try:
        array = np.asarray(picture)
    except ValueError:  # rows of several lengths
        raise ShapeMismatch("a picture is numbers [height, width, 3], came uneven rows") from None
    if array.ndim == 2:
        array = np.repeat(array[..., None], 3, axis=2)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype.kind not in "uif" or not array.size:
        raise ShapeMismatch(
            f"a picture is numbers [height, width, 3], came {array.dtype}{list(array.shape)}"
        )
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise FormatError("a picture holds infinite numbers or NaN")
        if 0 < array.max() <= 1:
            warn("a picture has values within 0 to 1; they are taken as 0 to 255")
    return array


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise FormatError(
            "reading and resizing pictures needs Pillow: pip install 'neuralsym[images]'"
        ) from None
    return Image


def _as_image(array: NDArray[Any]) -> Any:
    return _pillow().fromarray(np.clip(np.rint(array), 0, 255).astype(np.uint8))


def _read(path: Path) -> Any:
    image = _pillow()
    try:
        made = image.open(path)
        made.load()
    except Exception as error:  # what Pillow's readers raise is not listed anywhere
        raise FormatError(f"{path} cannot be read as a picture: {error}") from None
    return made


def preprocess(name: str) -> Preprocessing:
    """The preprocessing of a network of the zoo: `preprocess("resnet50")("photo.jpg")`."""
    from neuralsym.zoo.registry import find

    found = find(name).preprocessing
    if found is None:
        raise BadAttribute(
            f"{name} takes no pictures, so there is no preprocessing of them{at_line(user_line())}"
        )
    return found


def preprocess_for(network: Network, pictures: Picture | Sequence[Picture]) -> NDArray[np.float32]:
    """Pictures for a network: as its file says, else in "torch" mode at the size of its input.

    Raises ShapeMismatch where the input is no batch of pictures of three colours, or of one in
    mode "grey".
    """
    if not isinstance(network, Network):
        raise TypeError(
            f"preprocess_for takes a Network, not {type(network).__name__}: preprocess(name) is "
            f"for a name{at_line(user_line())}"
        )
    shape = network.inputs[0].shape if network.inputs else None
    if shape is None or len(shape) != 4 or shape[1] not in (1, 3):
        said = ", ".join(map(str, network.inputs)) or "none"
        raise ShapeMismatch(f"input {said} takes no pictures [N, 3, H, W]{at_line(user_line())}")
    text = network.metadata.get("preprocessing", "")
    height, width = shape[2:]
    if text:
        try:
            made = Preprocessing.of_dict(json.loads(text))
        except (json.JSONDecodeError, TypeError) as error:
            raise FormatError(f"the model's preprocessing cannot be read: {error}") from None
    elif isinstance(height, int) and isinstance(width, int):
        made = Preprocessing("torch", round(max(height, width) * 256 / 224), (height, width))
    else:
        made = Preprocessing("torch", 256, (224, 224))
    if shape[1] != (1 if made.mode == "grey" else 3):
        raise ShapeMismatch(f"input {network.inputs[0]} takes no pictures of mode {made.mode!r}")
    if isinstance(height, int) and isinstance(width, int):
        made = made.at((height, width))
    return made(pictures)

"""Files of weights, one reader for each format: names and shapes at once, numbers when needed.

A file is never trusted: no code of it runs, sizes are checked against its bytes before anything
is made, and what is wrong is a WeightsError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np

from neuralsym.core.files import Bytes, read_file, replacing, target_of
from neuralsym.core.tensor import Tensor
from neuralsym.errors import FormatError, GraphError, WeightsError, did_you_mean
from neuralsym.weights.names import Framework
from neuralsym.weights.published import check_published


@dataclass(frozen=True)
class Stored:
    """The arrays of a file or dict by their names there.

    framework: whose names and axes the format has, where it can be told. label: what messages
    call it. refused: what there is of no array, and why.
    """

    tensors: Mapping[str, Tensor]
    framework: Framework | None = None
    label: str = "these weights"
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Format:
    """Where its reader lies, and whose names its files have; `whole` readers take the path."""

    reader: str
    framework: Framework | None = None
    whole: bool = False


_TORCH = _Format("torch:read_torch", "torch")
READERS: dict[str, _Format] = {
    ".safetensors": _Format("safetensors:read_safetensors"),
    ".npz": _Format("npz:read_npz"),
    ".pth": _TORCH,
    ".pt": _TORCH,
    ".bin": _TORCH,
    ".ckpt": _TORCH,
    ".tar": _TORCH,  # checkpoint.pth.tar, which is no tar file
    ".h5": _Format("keras:read_hdf5", "keras"),
    ".hdf5": _Format("keras:read_hdf5", "keras"),
    ".keras": _Format("keras:read_keras", "keras"),
    ".onnx": _Format("onnx:read_onnx", whole=True),
}
"""By suffix."""


def read_weights(path: Path) -> Stored:
    """The arrays of a file by its suffix; WeightsError where it cannot be read."""
    found = READERS.get(path.suffix.lower())
    if found is None:
        hint = did_you_mean(path.suffix, READERS)
        known = ", ".join(READERS)
        raise WeightsError(f"{path}: weights are read from {known}, not {path.suffix!r}{hint}")
    module, _, name = found.reader.partition(":")
    try:
        given: Path | Bytes = path if found.whole else read_file(path, path.suffix)
    except FormatError as error:
        raise WeightsError(str(error)) from None
    try:
        if isinstance(given, np.ndarray):
            check_published(path, given)
        reader = getattr(import_module(f"{__name__}.{module}"), name)
        tensors: Mapping[str, Tensor] = reader(given)
    except (FormatError, GraphError) as error:
        raise WeightsError(f"{path} cannot be read as {path.suffix}: {error}") from None
    return Stored(tensors, found.framework, str(path))


WRITERS: dict[str, str] = {
    ".npz": "npz:write_npz",
    ".safetensors": "safetensors:write_safetensors",
}
"""By suffix."""


def write_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name; the file appears when it is complete. Raises FormatError."""
    found = WRITERS.get(path.suffix.lower())
    if found is None:
        known = " or ".join(WRITERS)
        raise FormatError(f"{path}: weights are saved as {known}, not {path.suffix!r}")
    module, _, name = found.partition(":")
    write = getattr(import_module(f"{__name__}.{module}"), name)
    target = target_of(path, f"weights{path.suffix}")
    with replacing(path, [target]) as (file,):
        write(file, tensors)

"""The initializers of an .onnx file, by name."""

from __future__ import annotations

from pathlib import Path

from neuralsym.core.tensor import Tensor
from neuralsym.engines.onnx import read_model
from neuralsym.weights import Weights


def read_onnx(path: Path) -> dict[str, Tensor]:
    """The stored parameters of a model; raises FormatError for what is no model."""
    weights = Weights(read_model(path).graph)
    return {name: weights.tensor(name) for name in weights}

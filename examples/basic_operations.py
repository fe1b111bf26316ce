"""Seed example 1: an expression of two variables, its ONNX file, and its value.

z = exp(sin(x)^2 + cos(x)^2) + 10 y^2, which is e + 10 y^2 whatever x is.
"""

import math
import sys
from pathlib import Path

import numpy as np

from neuralsym import Graph, Network, load, ops


def main(folder: Path) -> float:
    x = ops.variable("X")  # a scalar; shapes are given by shape=(2, 3)
    y = ops.variable("Y")
    z = ops.exp(ops.sin(x) ** 2 + ops.cos(x) ** 2) + 10 * y**2
    path = folder / "basic_operations.onnx"
    Network(Graph({"z": z}, name="basic_operations")).save(path)

    result = load(path).run({"X": math.pi, "Y": 3.0})
    print(f"z = {result['z']} for X = pi, Y = 3; expected {math.e + 90:.5f}")
    assert np.isclose(result["z"], math.e + 90, rtol=1e-6)
    return float(result["z"])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())

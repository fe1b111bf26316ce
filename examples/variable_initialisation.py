"""Seed example 2: a variable with a default value.

In the file it is an overridable initializer: a run may leave it out, or give another value. Any
ONNX runtime sees it so.
"""

import sys
from pathlib import Path

import numpy as np

from neuralsym import Graph, Network, load, ops


def main(folder: Path) -> None:
    init = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    x = ops.variable("X", init=init)
    path = folder / "variable_initialisation.onnx"
    Network(Graph({"y": ops.sin(x)}, name="variable_initialisation")).save(path)

    network = load(path)
    print("X left out:", network.run({})["y"], sep="\n")
    ones = np.ones((2, 3), np.float32)
    print("X given as ones:", network.run({"X": ones})["y"], sep="\n")
    np.testing.assert_allclose(network.run({})["y"], np.sin(init), rtol=1e-6)
    np.testing.assert_allclose(network.run({"X": ones})["y"], np.sin(ones), rtol=1e-6)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())

"""Seed example 3: a small convolutional network by chained layers, as a file, run on a batch."""

import sys
from pathlib import Path

import numpy as np

from neuralsym import load
from neuralsym.layers import (
    activation,
    conv2d,
    fully_connected,
    get_network,
    input,
    max_pool2d,
    normalisation,
)


def main(folder: Path) -> None:
    network = (
        input((100, 3, 32, 32))  # the batch is part of the shape; a name would leave it free
        | normalisation()
        | conv2d(32, (3, 3), strides=1)
        | activation("relu")
        | max_pool2d((2, 2), strides=2, padding="valid")
        | fully_connected(512)
        | activation("relu")
        | fully_connected(10)
        | activation("softmax", axis=1)
        | get_network("mnist")
    )
    network.summary()
    path = folder / "neural_network.onnx"
    network.save(path)

    images = np.random.default_rng(0).random((100, 3, 32, 32), dtype=np.float32)
    answers = load(path)(images)
    print(f"answers {answers.shape}, each row sums to one: {np.allclose(answers.sum(1), 1)}")
    assert answers.shape == (100, 10)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())

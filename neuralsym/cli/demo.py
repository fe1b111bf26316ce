"""`neuralsym demo`: the main job on one page. A network by `|`, its file, its answer, the check."""

from __future__ import annotations

import argparse
import filecmp
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym import load, testing
from neuralsym.cli.output import Progress, check_place
from neuralsym.layers import (
    activation,
    conv2d,
    fully_connected,
    get_network,
    input,
    max_pool2d,
    normalisation,
)
from neuralsym.network import Network

DEFINITION = """\
net = (
    input(("N", 3, 32, 32))
    | normalisation()
    | conv2d(32, (3, 3))
    | activation("relu")
    | max_pool2d((2, 2))
    | fully_connected(512)
    | activation("relu")
    | fully_connected(10)
    | activation("softmax", axis=1)
    | get_network("mnist")
)"""

SEVEN = """
...........
.#########.
.#########.
.......###.
......###..
......###..
.....###...
.....###...
....###....
....###....
..........."""


def define() -> Network:
    """The network of DEFINITION; a test holds the two together."""
    return (
        input(("N", 3, 32, 32))
        | normalisation()
        | conv2d(32, (3, 3))
        | activation("relu")
        | max_pool2d((2, 2))
        | fully_connected(512)
        | activation("relu")
        | fully_connected(10)
        | activation("softmax", axis=1)
        | get_network("mnist")
    )


def picture() -> NDArray[np.float32]:
    """A seven on a 32 x 32 canvas, white on black, as a batch of one: float32[1, 3, 32, 32]."""
    glyph = np.array([[c == "#" for c in row] for row in SEVEN.split()], np.float32)
    canvas = np.zeros((32, 32), np.float32)
    large = np.kron(glyph, np.ones((2, 2), np.float32))
    top, left = (32 - large.shape[0]) // 2, (32 - large.shape[1]) // 2
    canvas[top : top + large.shape[0], left : left + large.shape[1]] = large
    return np.broadcast_to(canvas, (1, 3, 32, 32)).copy()


def _place(network: Network) -> Path:
    """mnist.onnx, or a name counted on where another file is called so."""
    with TemporaryDirectory() as folder:
        (made,) = network.save(Path(folder, "mnist.onnx"))
        place, number = Path("mnist.onnx"), 0
        while place.exists() and not (place.is_file() and filecmp.cmp(made, place, shallow=False)):
            number += 1
            place = Path(f"mnist_{number}.onnx")
    return place


def run(given: argparse.Namespace) -> int:
    if given.output is not None:
        check_place(given.output)
    print("A network, defined by chaining layers:\n")
    print(DEFINITION, "\n", sep="\n")
    network = define()
    network.summary()
    written = network.save(given.output or _place(network))
    sizes = ", ".join(f"{p} ({p.stat().st_size:,} bytes)" for p in written)
    print(f"\nSaved as {sizes}; weights are random, drawn from seed 0.")

    loaded = load(written[0])
    began = time.perf_counter()
    with Progress("compiling") as progress:
        loaded.compile(progress=progress)
    print(f"Loaded and compiled for this CPU in {time.perf_counter() - began:.2f} s.")
    image = picture()
    print("\nIts input, a drawn seven in 3 x 32 x 32:")
    print("\n".join("".join("#" if v else "." for v in row) for row in image[0, 0, 4:28, 4:28:2]))
    result = loaded(image)
    print("\nIts answer (untrained, so any digit is as good):")
    print("  " + "  ".join(f"{digit}: {p:.4f}" for digit, p in enumerate(result[0])))
    print(f"  it sees a {int(result[0].argmax())}")
    return 0 if _check(loaded, image) else 1


def _check(network: Network, image: Any) -> bool:
    """Whether the other runtimes give the same, printed."""
    holds = True
    runtimes: list[tuple[testing.Reference, str]] = [("onnx", "onnx's reference evaluator")]
    if find_spec("onnxruntime"):
        runtimes.append(("onnxruntime", "onnxruntime"))
    print()
    for reference, name in runtimes:
        for found in testing.compare(network, image, reference):
            print(f"Against {name}: {found}")
            holds = holds and found.holds
    if len(runtimes) == 1:
        print("(onnxruntime is not installed; with it, the demo compares with it too)")
    return holds

"""What the tests of the zoo share: published counts, small inputs, weights worth comparing."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from neuralsym import Network, zoo
from neuralsym.zoo.registry import find


class Published(NamedTuple):
    """A row of published.txt; mmacs is None where nobody says."""

    trainable: int
    statistics: int
    mmacs: float | None


def _published() -> dict[str, Published]:
    lines = Path(__file__).with_name("published.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.replace(",", "").split() for line in lines if not line.startswith("#"))
    return {
        name: Published(int(trainable), int(statistics), None if mmacs == "-" else float(mmacs))
        for name, trainable, statistics, mmacs in rows
    }


PUBLISHED = _published()

# The input of the tests, small but with something left after the last stride; the first that fits.
SIZES = {
    "mnist": 32,
    "mnist_*": 28,
    "cifar10_*": 32,
    "lstm_text": 20,
    "vit_h_14": 56,
    "inception_*": 75,
    "xception*": 71,
    "maxvit_t": 224,
    "vgg16_keras": 32,
    "*": 64,
}


def size_of(name: str) -> int:
    return next(size for pattern, size in SIZES.items() if fnmatchcase(name, pattern))


def small(name: str, **options: Any) -> Network:
    """The network for small pictures, so that a test is quick."""
    return zoo.create(name, size=size_of(name), **options)


def entries(network: Network, count: int, seed: int = 0) -> NDArray[Any]:
    """Random pictures, or numbers of characters where a network takes text."""
    rng = np.random.default_rng(seed)
    shape = (count, *tuple(network.inputs[0].shape or ())[1:])
    entry = find(network.name or "")
    if entry.dtype == "int64":
        return rng.integers(0, 100, shape)
    pictures = rng.standard_normal(shape).astype(np.float32)
    raw = entry.preprocessing is not None and entry.preprocessing.mode in ("raw", "grey")
    return 128 + 64 * pictures if raw else pictures


def families() -> dict[str, list[str]]:
    """The networks of each file of the zoo, the smallest first."""
    found: dict[str, list[str]] = {}
    for name in zoo.models():
        found.setdefault(find(name).make.__module__.rpartition(".")[2], []).append(name)
    return {
        family: sorted(names, key=lambda name: PUBLISHED[name].trainable)
        for family, names in sorted(found.items())
    }


def draw_statistics(network: Network, seed: int = 1) -> Network:
    """Draw what norms hold: with gamma 1 and mean 0 a fold that drops them would pass."""
    rng = np.random.default_rng(seed)
    drawn: dict[str, NDArray[np.float32]] = {}
    for name in network.weights:
        shape = network.weights.tensor(name).shape
        kind = name.rpartition("/")[2]
        if kind in ("gamma", "variance"):
            drawn[name] = rng.uniform(0.5, 1.5, shape).astype(np.float32)
        elif kind in ("beta", "mean"):
            drawn[name] = rng.normal(0, 0.3, shape).astype(np.float32)
    if drawn:
        network.load_weights(drawn, strict=False)
    return network


def need_room(name: str, copies: int) -> None:
    """Skip where the machine has no room for so many copies of the weights of a network."""
    needed = 4 * copies * PUBLISHED[name].trainable
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > free:
        pytest.skip(f"{name} needs {needed / 2**30:.0f} GiB, {free / 2**30:.0f} are free")


def agree(given: NDArray[Any], expected: NDArray[Any]) -> None:
    """Two answers are equal to 1e-4 of the largest number, and hang on the picture far more."""
    tolerance = 1e-4 * np.abs(expected).max()
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(given, expected, rtol=0, atol=tolerance)
    spread = np.abs(expected[0] - expected[1]).max()
    assert spread > 10 * tolerance, "the answer hardly depends on the input"

"""Running layers of sequences on drawn weights, for comparing them with what others compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym import Network, Symbol
from neuralsym import layers as nn

Array = NDArray[Any]


def inputs(*arrays: Array, free: int = 1) -> list[Symbol]:
    """An input for each array, called a, b, ...; its first axes are free."""
    names = iter(ascii_lowercase)
    made = []
    for array in arrays:
        sizes = [*("NT"[: min(free, array.ndim)]), *array.shape[min(free, array.ndim) :]]
        kind = "string" if array.dtype.kind in "OU" else array.dtype
        made.append(nn.input(tuple(sizes), kind, name=next(names)))
    return made


def put(network: Network, weights: Mapping[str, Array]) -> None:
    """Weights by the end of their names."""
    for key, value in weights.items():
        (name,) = [n for n in network.weights if n == key or n.endswith("/" + key)]
        shape = network.weights.tensor(name).shape
        network.set_weight(name, np.asarray(value).reshape(shape))


def values(
    outputs: Symbol | Sequence[Symbol],
    arrays: Sequence[Array],
    weights: Mapping[str, Array] | None = None,
) -> list[Array]:
    """What the outputs are for these arrays, fed to inputs a, b, ..."""
    network: Network = outputs | nn.get_network()  # type: ignore[assignment]
    put(network, weights or {})
    known = {i.name for i in network.inputs}
    feed = {n: a for n, a in zip(ascii_lowercase, arrays, strict=False) if n in known}
    return list(network.run(feed).values())


def agree(got: Sequence[Array], expected: Sequence[Array], tolerance: float = 1e-5) -> None:
    """As many arrays of the same shapes; no error above `tolerance` of the largest value."""
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        scale = max(1.0, float(np.abs(b).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


RNG = np.random.Generator(np.random.Philox(31))


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype("f")


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

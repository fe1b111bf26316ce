"""What the tests over TensorFlow share: random arrays, and comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

RNG = np.random.default_rng(5)
F = np.float32


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(F)


def close(got: Any, want: Any, within: float = 1e-6) -> None:
    """Equal to so much of the largest element; sums of n products differ by n roundings."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=0, atol=within * max(np.abs(want).max(), 1))

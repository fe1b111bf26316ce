"""Comparing what layers compute with sums in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def close(value: NDArray[Any], expected: NDArray[Any]) -> None:
    """The same shape, and no error above 1e-5 of the largest value."""
    assert value.shape == expected.shape
    scale = np.abs(expected).max(initial=1e-30)
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-5 * scale)

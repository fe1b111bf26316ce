"""Random settings and pictures for layers over space beside those of Keras and torch."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
DRAWS = 6


class Draw:
    """Random settings: one generator for each test."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def each(self, rank: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.whole(low, high) for _ in range(rank))

    def pairs(self, rank: int, high: int) -> Any:
        made = tuple(self.each(2, 0, high) for _ in range(rank))
        return made[0] if rank == 1 else made

    def choice(self, *values: Any) -> Any:
        return values[self.whole(0, len(values) - 1)]

    def real(self, low: float, high: float) -> float:
        return float(np.float32(self.rng.uniform(low, high)))

    def array(self, *shape: int) -> Array:
        return self.rng.standard_normal(shape).astype(np.float32)

    def image(self, rank: int, channels: int, low: int = 5, high: int = 9) -> Array:
        """[N, C, *space]; Keras gets it with the channels last."""
        return self.array(2, channels, *self.each(rank, low, high))

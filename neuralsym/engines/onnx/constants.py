"""Constants that nodes get when they are said in another version of ONNX, newer or older."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor


def ints(values: Any) -> Symbol:
    """Whole numbers as int64, in the shape that they are given in."""
    return constant(np.array(values, np.int64))


def like(symbol: Symbol, value: Any) -> Symbol:
    """Numbers as a constant of the symbol's type."""
    with np.errstate(over="ignore"):  # what float16 cannot hold is infinity
        return constant(Tensor.of(np.array(value).astype(symbol.dtype.numpy), symbol.dtype))

"""The import of TensorFlow, which is an extra: late, and with a message that says how to get it."""

from __future__ import annotations

import importlib
from typing import Any

from neuralsym.errors import FormatError


def tensorflow() -> Any:
    """The module `tensorflow`; FormatError, naming the extra, where it is not installed."""
    return load("tensorflow")


def load(module: str) -> Any:
    """A module of TensorFlow; FormatError where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise FormatError(
            f"TensorFlow's graphs are read by TensorFlow itself, and {module} cannot be imported "
            f"({error}): pip install 'neuralsym[tensorflow]'"
        ) from None

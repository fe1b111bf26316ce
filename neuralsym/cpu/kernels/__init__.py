"""The kernels that neuralsym comes with, one module for each family of operators.

A module that is listed in `MODULES` has `register(library)`, which enters its kernels; of several
for one operator the one entered last is tried first.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from neuralsym.cpu.library import Library

MODULES = (
    "views",
    "reorder_host",
    "reorder",
    "conv",
    "pool",
    "matmul",
    "matmul_few",
    "matmul_column",
    "movement",
    "gather",
    "reduce",
    "normalise",
    "resize",
    "indexed",
    "select",
    "grid",
    "roi",
    "suppress",
    "deform",
    "unpool",
    "fill",
    "batched",
    "elimination",
    "concat",
    "batch_norm",
    "softmax",
    "conv_transpose",
    "random",
    "control",
    "recurrent",
    "ml",
    "quantize",
    "int8_conv",
    "int8_matmul",
    "int8_pool",
    "complex",
    "attention",
    "attention_state",
    "signal",
    "signal_windows",
    "deferred",
)


@cache
def standard_library() -> Library:
    """All of neuralsym's own kernels; made once."""
    library = Library()
    for name in MODULES:
        import_module(f"{__name__}.{name}").register(library)
    return library

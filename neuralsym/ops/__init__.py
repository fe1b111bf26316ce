"""The operators of ONNX as typed functions on symbols: `ops.sin(x)`, `ops.conv(x, w, pads=...)`.

Every function is made from the operator's class and schema. Those whose name is a builtin of
Python (`max`, `slice`, `float`, ...) are there under that name and with an underscore behind it
(`max_`); `from neuralsym.ops import *` gives only the second, so that it shadows nothing.
"""

import builtins
from functools import cache
from typing import Any

from neuralsym.core.op import Op
from neuralsym.ops import (  # noqa: F401  (they define the operators)
    activation,
    attention,
    cast,
    contrib,
    control,
    convolution,
    detection,
    generator,
    grams,
    helpers,
    image,
    indexing,
    linear,
    logical,
    loss,
    math,
    ml,
    ml_models,
    ml_svm,
    ml_tables,
    normalise,
    pool,
    quantize,
    reduction,
    reshape,
    rnn,
    selection,
    sequence,
    signal,
    tensor,
    text,
    training,
)
from neuralsym.ops.aliases import ALIASES
from neuralsym.ops.functions import (
    function_name,
    make_function,
    operators,
    outputs_counts,
    outputs_name,
    outputs_type,
)


def _named() -> dict[str, type[Op]]:
    """The operator of every function, by each of the function's names."""
    found = {function_name(op): op for op in operators()}
    found.update({alias: found[name] for alias, name in ALIASES.items()})
    return found | {f"{name}_": op for name, op in found.items() if hasattr(builtins, name)}


_OPERATORS = _named()
__all__ = [name for name in _OPERATORS | helpers.FUNCTIONS if not hasattr(builtins, name)]


@cache
def _outputs() -> dict[str, tuple[type[Op], int]]:
    """The operator and the number of its outputs that each named tuple is for."""
    return {outputs_name(op, n): (op, n) for op in operators() for n in outputs_counts(op)}


def __getattr__(name: str) -> Any:
    """A function, or a type of results: made when somebody asks for it."""
    if name in _OPERATORS:
        made: Any = _function(_OPERATORS[name])
    elif name[0].isupper() and name in _outputs():
        made = outputs_type(*_outputs()[name])
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    return sorted({*globals(), *_OPERATORS, *_outputs()})


_function = cache(make_function)
# Some modules have the name of a function.
globals().update({name: __getattr__(name) for name in _OPERATORS if name in globals()})
globals().update(helpers.FUNCTIONS)

"""The operators of ONNX as typed functions on symbols: `ops.sin(x)`, `ops.conv(x, w, pads=...)`.

Every function is made from the operator's class and schema. Those whose name is a builtin of
Python (`max`, `slice`, `float`, ...) are there under that name and with an underscore behind it
(`max_`); `from neuralsym.ops import *` gives only the second, so that it shadows nothing.
"""

import builtins

from neuralsym.core.leaves import constant, variable
from neuralsym.core.op import OPS
from neuralsym.core.schema import VERSIONS
from neuralsym.ops import (  # noqa: F401  (they define the operators)
    activation,
    attention,
    convolution,
    detection,
    generator,
    image,
    indexing,
    linear,
    logical,
    loss,
    math,
    ml,
    normalise,
    pool,
    quantize,
    reduction,
    rnn,
    sequence,
    signal,
    tensor,
    text,
    training,
)
from neuralsym.ops.aliases import ALIASES
from neuralsym.ops.functions import function_name, make_function
from neuralsym.ops.helpers import complex_, float_, int_, ones, pi, zeros
from neuralsym.ops.helpers import tensor as _tensor

_OWN_FUNCTION = ("Constant", "If", "Loop", "Scan", "SequenceMap")
"""Operators whose functions are written by hand."""
_OWN = {
    "variable": variable,
    "constant": constant,
    "float_": float_,
    "int_": int_,
    "complex_": complex_,
    "pi": pi,
    "tensor": _tensor,
    "zeros": zeros,
    "ones": ones,
    "float": float_,
    "int": int_,
    "complex": complex_,
}


def _all_functions() -> dict[str, object]:
    """Every public name with its function."""
    found: dict[str, object] = {
        function_name(op): make_function(op)
        for (domain, name), op in OPS.items()
        if domain in VERSIONS and name not in _OWN_FUNCTION
    }
    found.update({alias: found[name] for alias, name in ALIASES.items()})
    found.update({f"{n}_": f for n, f in found.items() if hasattr(builtins, n)})
    found.update(_OWN)
    return found


globals().update(_all_functions())
__all__ = sorted(n for n in _all_functions() if not hasattr(builtins, n))

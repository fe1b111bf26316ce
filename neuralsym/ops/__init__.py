"""The operators of ONNX as typed functions on symbols: `ops.sin(x)`, `ops.conv(x, w, pads=...)`.

Every function is made from the operator's class and schema. Those whose name is a builtin of
Python (`max`, `slice`, `float`, ...) are there under that name and with an underscore behind it
(`max_`); `from neuralsym.ops import *` gives only the second, so that it shadows nothing.
"""

import builtins
from typing import Any

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


def _public() -> dict[str, Any]:
    """Every public function by each of its names."""
    found = {function_name(op): make_function(op) for op in operators()}
    found.update({alias: found[name] for alias, name in ALIASES.items()})
    found.update({f"{name}_": f for name, f in found.items() if hasattr(builtins, name)})
    return found | helpers.FUNCTIONS


_PUBLIC = _public()
globals().update(_PUBLIC)
globals().update(
    {outputs_name(op, n): outputs_type(op, n) for op in operators() for n in outputs_counts(op)}
)
__all__ = [name for name in _PUBLIC if not hasattr(builtins, name)]

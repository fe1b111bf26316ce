"""The operators of domain com.microsoft that onnxruntime's tools write into files.

Each is known by name and schema, so that files keep it, and is written with ONNX operators, which
is how it is checked, inferred and run. They have no functions in `neuralsym.ops`: many have the
name of an ONNX operator with another meaning.
"""

from neuralsym.ops.contrib import (  # noqa: F401  (they define the operators)
    activation,
    attention,
    fused,
    grouped,
    lstm,
    normalise,
    packed,
    position,
    quantised,
    quantised_linear,
    recurrent,
    signal,
    tensor,
)

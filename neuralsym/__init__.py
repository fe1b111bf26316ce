"""Neural networks as symbolic graphs: layers chained by `|`, ONNX in and out, a compiling engine.

The public names are found here and loaded when first used, so that importing the package costs
nothing: neither onnx nor numba is imported before it is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from neuralsym.errors import (
    BadAttribute,
    ExecutionError,
    FormatError,
    GraphError,
    InputError,
    NeuralsymError,
    NoKernel,
    OpError,
    ShapeMismatch,
    TypeMismatch,
    WeightsError,
)

if TYPE_CHECKING:
    from neuralsym import backend, draw, engines, layers, myelin, ops, testing, zoo
    from neuralsym.core.graph import Graph
    from neuralsym.core.symbol import Symbol
    from neuralsym.cpu.options import Options
    from neuralsym.network import Network, load

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "Symbol",
    "Network",
    "Options",
    "load",
    "layers",
    "ops",
    "zoo",
    "engines",
    "draw",
    "testing",
    "backend",
    "myelin",
    "NeuralsymError",
    "OpError",
    "TypeMismatch",
    "ShapeMismatch",
    "BadAttribute",
    "GraphError",
    "FormatError",
    "NoKernel",
    "ExecutionError",
    "InputError",
    "WeightsError",
    "__version__",
]

# Public name -> the module that it lives in. A module that is public itself stands for itself.
_HOMES = {
    "Graph": "neuralsym.core.graph",
    "Symbol": "neuralsym.core.symbol",
    "Network": "neuralsym.network",
    "Options": "neuralsym.cpu.options",
    "load": "neuralsym.network",
    "layers": "neuralsym.layers",
    "ops": "neuralsym.ops",
    "zoo": "neuralsym.zoo",
    "engines": "neuralsym.engines",
    "draw": "neuralsym.draw",
    "testing": "neuralsym.testing",
    "backend": "neuralsym.backend",
    "myelin": "neuralsym.myelin",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(home)
    value = module if home == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

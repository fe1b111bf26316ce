"""Activations by name: `activation`, and what other layers do with their `activation=`.

The activations themselves are in rectifiers.py, sigmoids.py and softmaxes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, did_you_mean
from neuralsym.layers import rectifiers, sigmoids, softmaxes
from neuralsym.layers.base import label
from neuralsym.layers.factory import Factory, layer
from neuralsym.layers.noise import identity

Activation: TypeAlias = str | Callable[[Symbol], Symbol] | None
"""The setting of other layers: a name, a layer or function of a symbol, or None for none."""

NAMES: dict[str, Any] = {
    **{
        name: made
        for module in (rectifiers, sigmoids, softmaxes)
        for name, made in vars(module).items()
        if isinstance(made, Factory)
    },
    "exp": sigmoids.exponential,
    "linear": identity,
    "identity": identity,
}
"""Every activation by its name; Keras's names, with those of torch and Owl where they differ."""

_LOOSE = {name.replace("_", ""): name for name in NAMES}


@layer
def activation(
    x: Symbol,
    /,
    function: str | Callable[[Symbol], Symbol],
    *,
    name: str | None = None,
    **settings: Any,
) -> Symbol:
    """An activation by name, or any function of a symbol.

    Names are Keras's; "ReLU", "HardSigmoid" and the like are understood. `settings` go to the
    activation of that name: `activation("softmax", axis=1)`. BadAttribute for an unknown name,
    with the nearest; TypeError for a setting that it does not have.

    Keras Activation; Owl activation; ONNX what the activation of that name is.
    """
    return activate(x, function, **settings)


def activate(x: Symbol, function: Activation, **settings: Any) -> Symbol:
    """x through what another layer's `activation=` says, in that layer's own scope."""
    if function is None:
        return x
    found: Any = find(function) if isinstance(function, str) else function
    if not callable(found):
        raise BadAttribute(f"activation={found!r}: a name or a function of a symbol is needed")
    if not isinstance(found, Factory):
        result = found(x, **settings)
    elif found is rectifiers.prelu or found not in NAMES.values():
        # It may have weights: a layer inside.
        result = found.make((), settings)(x)
    else:
        found.check((), settings)
        result = found.function(x, **settings)
    if not isinstance(result, Symbol):
        raise BadAttribute(
            f"activation={label(found)}: a function of a symbol gives a symbol, this one gave "
            f"{type(result).__name__}"
        )
    return result


def find(name: str) -> Any:
    """The activation called `name`; BadAttribute with the nearest if there is none."""
    key = name.lower().replace("_", "")
    if key not in _LOOSE:
        hint = did_you_mean(name.lower(), NAMES)
        raise BadAttribute(f"unknown activation {name!r}{hint}\n  known: {', '.join(NAMES)}")
    return NAMES[_LOOSE[key]]

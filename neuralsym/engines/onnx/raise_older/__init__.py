"""Older versions of operators, raised to the newest with their old meaning.

A row of `ADAPTERS` holds for the versions below a number. A version that no row speaks of means
the same as the newest, but for defaults that changed, which are then written out. What cannot be
raised is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.op import OPS
from neuralsym.core.symbol import Symbol
from neuralsym.engines.onnx.opsets import defaults, history
from neuralsym.engines.onnx.raise_older import (
    elementwise,
    network,
    resizing,
    scan,
    settings,
)
from neuralsym.engines.onnx.raise_older.old import Adapter, Old
from neuralsym.errors import NeuralsymError

__all__ = ["ADAPTERS", "Old", "raise_node"]


def raise_node(old: Old) -> Sequence[Symbol] | None:
    """The outputs in terms of the newest operators; None when the node stays as it is.

    Attributes may be changed in place. Raises FormatError for a version that cannot be raised.
    """
    newest = history()[old.domain, old.op_type][-1]
    version = old.version
    given = max((i + 1 for i, s in enumerate(old.inputs) if s is not None), default=0)
    if given > old.schema.max_input:
        old.refuse(f"it takes {old.schema.max_input} inputs, {given} were given")
    if version != newest.since_version or newest.deprecated:
        old.attrs.pop("consumed_inputs", None)
        latest = defaults(newest)
        for name, (_, default) in defaults(old.schema).items():
            other = latest.get(name)
            if name not in old.attrs and other and default is not None and other[1] != default:
                old.attrs[name] = default
        for below, adapter in ADAPTERS.get(old.op_type, ()):
            if version < below:
                try:
                    return adapter(old)
                except NeuralsymError:
                    raise
                except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                    old.refuse(f"an attribute is missing or of the wrong type ({error})")
    if (old.domain, old.op_type) not in OPS:
        old.refuse("the operator was taken out of ONNX")
    return None


def _label_encoder(old: Old) -> Sequence[Symbol]:
    """Version 1 counted the places in one list of texts; the first counts where two are equal."""
    classes = old.take("classes_strings", ())
    places: dict[str, int] = {}
    for i, name in enumerate(classes):
        places.setdefault(name, i)
    if old.tensor().dtype == "string":
        old.take("default_string")
        old.attrs |= {"keys_strings": tuple(places), "values_int64s": tuple(places.values())}
    else:
        old.take("default_int64")
        old.attrs |= {"keys_int64s": tuple(range(len(classes))), "values_strings": classes}
    return old.again()


_REDUCTIONS = ["L1", "L2", "Max", "Mean", "Min", "Prod", "SumSquare"]
_BINARY = ["Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"]

ADAPTERS: dict[str, tuple[tuple[int, Adapter], ...]] = {
    **{f"Reduce{name}": ((18, settings.axes),) for name in _REDUCTIONS},
    **dict.fromkeys(_BINARY, ((7, elementwise.broadcast),)),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), ((13, network.coerced),)),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), ((7, network.recurrent),)),
    **dict.fromkeys(("ReduceLogSum", "ReduceLogSumExp"), ((28, elementwise.reduced_in_float),)),
    "BatchNormalization": ((14, network.batch_norm),),
    "Cast": ((6, settings.cast),),
    "Clip": ((11, settings.bounds),),
    "Concat": ((4, settings.concat),),
    "DFT": ((20, settings.dft),),
    "Dropout": ((12, network.dropout),),
    "Erf": ((13, elementwise.in_float),),
    "Gemm": ((7, elementwise.gemm),),
    "GlobalLpPool": ((2, network.global_lp_pool),),
    "GridSample": ((20, resizing.grid_sample),),
    "GroupNormalization": ((21, network.group_norm),),
    "LabelEncoder": ((2, _label_encoder),),
    "LpPool": ((2, network.lp_pool),),
    "OneHot": ((11, elementwise.one_hot),),
    "PRelu": ((7, elementwise.slope),),
    "Pad": ((11, settings.pads),),
    "ReduceSum": ((13, settings.axes),),
    "Reshape": ((5, settings.reshape),),
    "Resize": ((19, resizing.resize),),  # tf2onnx goes on to write what 13 took away
    "RoiAlign": ((16, resizing.roi_align),),
    "Scan": ((9, scan.scan),),
    "Scatter": ((99, lambda old: [old.op("ScatterElements", *old.inputs, **old.attrs)]),),
    "Slice": ((10, settings.slices),),
    "Split": ((18, settings.split),),
    "Squeeze": ((13, settings.axes),),
    "Tile": ((6, settings.tile),),
    "TopK": ((10, settings.top),),
    "Unsqueeze": ((13, settings.axes),),
    "Upsample": ((99, resizing.upsample),),
}
"""For each operator, in rising order: the adapter of the versions below a number."""

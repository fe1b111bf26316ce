"""Older versions of operators, raised to the newest with their old meaning.

A row of `ADAPTERS` holds for the versions below a number. A version that no row speaks of means
the same as the newest, but for defaults that changed, which are then written out. What cannot be
raised is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from onnx import TensorProto

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import constant, make_variable
from neuralsym.core.op import OPS, find_op
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Node, Symbol, body_level
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx.opsets import defaults, history
from neuralsym.errors import FormatError, NeuralsymError, Where, at_line

Given = Symbol | None


@dataclass
class Old:
    """A node as its file has it; `schema` is onnx's for that version of the operator."""

    op_type: str
    domain: str
    schema: Any
    inputs: tuple[Given, ...]
    attrs: dict[str, Any]
    captures: tuple[Symbol, ...]
    count: int
    where: Where
    made: set[Node] = field(default_factory=set)
    used: set[Symbol] = field(default_factory=set)

    def op(self, name: str, *inputs: Given, **attrs: Any) -> Symbol:
        """Apply an operator of the newest version."""
        return self.apply(name, inputs, attrs)[0]

    def apply(
        self, name: str, inputs: Sequence[Given], attrs: dict[str, Any], outputs: int = 1
    ) -> tuple[Symbol, ...]:
        symbols = apply(
            find_op(name, self.domain), inputs, attrs, outputs=outputs, where=self.where
        )
        self.made.add(symbols[0].node)
        self.used.update(s for s in inputs if s is not None)
        return symbols

    def again(self, *inputs: Given) -> tuple[Symbol, ...]:
        """The same operator with other inputs and the attributes that are left."""
        return self.apply(self.op_type, inputs or self.inputs, self.attrs, self.count)

    def input(self, index: int = 0) -> Symbol:
        symbol = self.inputs[index] if index < len(self.inputs) else None
        if symbol is None:
            self.refuse(f"its input {index} is missing")
        return symbol

    def tensor(self, index: int = 0) -> TensorType:
        return self.input(index).tensor

    def take(self, name: str, default: Any = None) -> Any:
        """An attribute that the newest version does not have; it is removed."""
        return self.attrs.pop(name, default)

    def refuse(self, reason: str) -> NoReturn:
        version = self.schema.since_version
        raise FormatError(
            f"{self.op_type} of version {version} cannot be read: {reason}; export the model in a "
            f"newer opset{at_line(self.where)}"
        )


Adapter = Callable[[Old], Sequence[Symbol] | None]


def raise_node(old: Old) -> Sequence[Symbol] | None:
    """The outputs in terms of the newest operators; None when the node stays as it is.

    Attributes may be changed in place. Raises FormatError for a version that cannot be raised.
    """
    newest = history()[old.domain, old.op_type][-1]
    version = old.schema.since_version
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
                except (AttributeError, IndexError, TypeError, ValueError) as error:
                    old.refuse(f"an attribute is missing or of the wrong type ({error})")
    if (old.domain, old.op_type) not in OPS:
        old.refuse("the operator was taken out of ONNX")
    return None


def _ints(values: Sequence[int]) -> Symbol:
    return constant(np.array(values, np.int64))


def _like(symbol: Symbol, value: float) -> Symbol:
    """A scalar of the symbol's type."""
    return constant(Tensor.of(np.array(value).astype(symbol.dtype.numpy), symbol.dtype))


# -- attributes that became inputs -------------------------------------------------------------
def _axes(old: Old) -> Sequence[Symbol]:
    axes = old.take("axes")
    return old.again(old.input(), *([] if axes is None else [_ints(axes)]))


def _bounds(old: Old) -> Sequence[Symbol]:
    x = old.input()
    low, high = old.take("min"), old.take("max")
    bounds = [None if bound is None else _like(x, bound) for bound in (low, high)]
    return old.again(x, *bounds)


def _pads(old: Old) -> Sequence[Symbol]:
    pads = old.take("pads", old.attrs.get("paddings"))
    old.take("paddings")
    if pads is None:
        old.refuse("it has no pads")
    return old.again(old.input(), _ints(pads), _like(old.input(), old.take("value", 0.0)))


def _reshape(old: Old) -> Sequence[Symbol]:
    return old.again(old.input(), _ints(old.take("shape", ())))


def _slice(old: Old) -> Sequence[Symbol]:
    starts, ends, axes = old.take("starts"), old.take("ends"), old.take("axes")
    rows = [starts, ends] if axes is None else [starts, ends, axes]
    return old.again(old.input(), *map(_ints, rows))


def _split(old: Old) -> Sequence[Symbol]:
    sizes = old.take("split")
    old.attrs.setdefault("axis", 0)
    if sizes is not None:
        return old.again(old.input(), _ints(sizes))
    if len(old.inputs) < 2:
        old.attrs["num_outputs"] = old.count
    return old.again()


def _top(old: Old) -> Sequence[Symbol]:
    return old.again(old.input(), _ints([old.take("k")]))


def _dropout(old: Old) -> Sequence[Symbol]:
    """Files of before training existed in ONNX are run for inference."""
    old.take("is_test")
    ratio = old.take("ratio", 0.5)
    results = old.again(old.input(), constant(np.float32(ratio)))
    if old.count > 1 and old.schema.since_version < 10:
        return [results[0], old.op("Cast", results[1], to=old.tensor().dtype.onnx)]
    return results


def _dft(old: Old) -> Sequence[Symbol]:
    length = old.inputs[1] if len(old.inputs) > 1 else None
    return old.again(old.input(), length, constant(np.int64(old.take("axis", 1))))


# -- other meanings ----------------------------------------------------------------------------
def _coerced(old: Old) -> Sequence[Symbol] | None:
    """One softmax over all axes from `axis` on."""
    x, axis = old.input(), old.attrs.get("axis", 1)
    rank = x.rank
    if axis == -1 or (rank is not None and axis == rank - 1):
        old.attrs["axis"] = -1
        return None
    flat = old.op(old.op_type, old.op("Flatten", x, axis=axis), axis=1)
    return [old.op("Reshape", flat, old.op("Shape", x))]


def _broadcast(old: Old) -> Sequence[Symbol]:
    """The second input lines up with the first from `axis` on."""
    axis, wanted = old.take("axis"), old.take("broadcast", 0)
    a, b = old.input(0), old.input(1)
    if wanted and axis is not None:
        if a.rank is None or b.rank is None:
            old.refuse("it broadcasts inputs of unknown rank")
        behind = a.rank - axis % max(a.rank, 1) - b.rank
        if behind > 0:
            b = old.op("Unsqueeze", b, _ints(range(b.rank, b.rank + behind)))
    return old.again(a, b)


def _slope(old: Old) -> Sequence[Symbol]:
    """A slope for each channel."""
    x, slope = old.input(0), old.input(1)
    if x.rank is not None and x.rank > 2 and slope.rank == 1 and slope.shape != (1,):
        slope = old.op("Unsqueeze", slope, _ints(range(1, x.rank - 1)))
    return old.again(x, slope)


def _batch_norm(old: Old) -> Sequence[Symbol] | None:
    old.take("is_test")
    if old.count > 1:
        old.refuse("its outputs beside the first are those of training")
    if old.take("spatial", 1):
        return None
    x, scale, bias, mean, var = (old.input(i) for i in range(5))
    deviation = old.op("Sqrt", old.op("Add", var, _like(x, old.attrs.get("epsilon", 1e-5))))
    scaled = old.op("Div", old.op("Sub", x, mean), deviation)
    return [old.op("Add", old.op("Mul", scaled, scale), bias)]


def _cast(old: Old) -> None:
    to = old.attrs.get("to")
    if isinstance(to, str):
        old.attrs["to"] = int(TensorProto.DataType.Value(to.upper()))


def _concat(old: Old) -> None:
    old.attrs.setdefault("axis", 1)


def _gemm(old: Old) -> None:
    old.take("broadcast")


def _float_power(old: Old) -> None:
    if "p" in old.attrs:
        if old.attrs["p"] != int(old.attrs["p"]):
            old.refuse(f"its power {old.attrs['p']} is no integer")
        old.attrs["p"] = int(old.attrs["p"])


def _recurrent(old: Old) -> None:
    old.take("output_sequence")
    if old.attrs.get("direction") == "foward":  # so written in the schema of version 1
        old.attrs["direction"] = "forward"


def _roi_align(old: Old) -> None:
    old.attrs["coordinate_transformation_mode"] = "output_half_pixel"


def _grid_sample(old: Old) -> None:
    names = {"bilinear": "linear", "bicubic": "cubic"}
    mode = old.attrs.get("mode", "bilinear")
    old.attrs["mode"] = names.get(mode, mode)


def _group_norm(old: Old) -> Sequence[Symbol]:
    """Scale and bias of each group, repeated for its channels."""
    x, groups = old.input(0), old.attrs["num_groups"]
    channels = x.shape[1] if x.shape is not None and len(x.shape) > 1 else None
    if not isinstance(channels, int):
        old.refuse("the number of its channels is unknown")
    repeats = _ints([1, channels // groups])
    both = []
    for i in (1, 2):
        column = old.op("Unsqueeze", old.input(i), _ints([1]))
        both.append(old.op("Reshape", old.op("Tile", column, repeats), _ints([channels])))
    old.attrs["stash_type"] = x.dtype.onnx
    return old.again(x, *both)


def _resize(old: Old) -> Sequence[Symbol]:
    return _scaled(old, old.input(), old.input(1), old.attrs.get("mode", "nearest"))


def _upsample(old: Old) -> Sequence[Symbol]:
    mode = old.attrs.get("mode", "nearest")
    if len(old.inputs) > 1:
        return _scaled(old, old.input(), old.input(1), mode)
    scales = old.take("scales")
    if scales is None:
        scales = (1.0, 1.0, old.take("height_scale"), old.take("width_scale"))
    return _scaled(old, old.input(), constant(np.array(scales, np.float32)), mode)


def _scaled(old: Old, x: Symbol, scales: Symbol, mode: str) -> Sequence[Symbol]:
    """Before 11, coordinates were divided by the scale, nearest ones rounded to the inside."""
    if "linear" in mode:
        way = {"coordinate_transformation_mode": "asymmetric", "mode": "linear"}
        return [old.op("Resize", x, None, scales, **way)]

    def nearest(x: Symbol, scales: Symbol, rounding: str) -> Symbol:
        way = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
        return old.op("Resize", x, None, scales, mode="nearest", **way)

    known = scales.known
    if known is not None and np.all(known >= 1):
        return [nearest(x, scales, "floor")]
    one = constant(np.float32(1))
    larger = nearest(x, old.op("Max", scales, one), "floor")
    return [nearest(larger, old.op("Min", scales, one), "ceil")]


def _scan(old: Old) -> Sequence[Symbol]:
    """A scan of each entry of the batch."""
    if old.inputs[0] is not None:
        old.refuse("it has sequence lengths")
    given = [old.input(i) for i in range(1, len(old.inputs))]
    if directions := old.take("directions"):
        old.attrs["scan_input_directions"] = directions
    with body_level():
        entries = [make_variable(None, _without_batch(old, s.type)) for s in given]
        around = tuple(make_variable(None, s.type) for s in old.captures)
        op = find_op("Scan")
        inner = apply(op, entries, old.attrs, outputs=old.count, captures=around, where=old.where)
        body = Graph(inner, [*entries, *around])
    attrs = {"body": body, "num_scan_inputs": len(given)}
    made = apply(op, given, attrs, outputs=old.count, captures=old.captures, where=old.where)
    old.made.add(made[0].node)
    return made


def _without_batch(old: Old, type: Type) -> Type:
    if not isinstance(type, TensorType) or type.shape == ():
        old.refuse(f"{type} has no batch axis")
    return TensorType(type.dtype, None if type.shape is None else type.shape[1:])


def _scatter(old: Old) -> Sequence[Symbol]:
    return [old.op("ScatterElements", *old.inputs, **old.attrs)]


def _tile(old: Old) -> Sequence[Symbol]:
    x, tiles, axis = old.input(0), old.input(1).known, old.input(2).known
    if x.rank is None or tiles is None or axis is None:
        old.refuse("its repeats depend on data")
    repeats = [1] * x.rank
    repeats[int(axis.reshape(-1)[0])] = int(tiles.reshape(-1)[0])
    return old.again(x, _ints(repeats))


def _label_encoder(old: Old) -> Sequence[Symbol]:
    classes = old.take("classes_strings", ())
    numbers = tuple(range(len(classes)))
    if old.tensor().dtype is NumberType.STRING:
        old.take("default_string")
        old.attrs |= {"keys_strings": classes, "values_int64s": numbers}
    else:
        old.take("default_int64")
        old.attrs |= {"keys_int64s": numbers, "values_strings": classes}
    return old.again()


_REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare"]
_BINARY = ["Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"]

ADAPTERS: dict[str, tuple[tuple[int, Adapter], ...]] = {
    **{f"Reduce{name}": ((18, _axes),) for name in _REDUCTIONS},
    **dict.fromkeys(_BINARY, ((7, _broadcast),)),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), ((13, _coerced),)),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), ((7, _recurrent),)),
    "BatchNormalization": ((14, _batch_norm),),
    "Cast": ((6, _cast),),
    "Clip": ((11, _bounds),),
    "Concat": ((4, _concat),),
    "DFT": ((20, _dft),),
    "Dropout": ((12, _dropout),),
    "Gemm": ((7, _gemm),),
    "GlobalLpPool": ((2, _float_power),),
    "GridSample": ((20, _grid_sample),),
    "GroupNormalization": ((21, _group_norm),),
    "LabelEncoder": ((2, _label_encoder),),
    "LpPool": ((2, _float_power),),
    "PRelu": ((7, _slope),),
    "Pad": ((11, _pads),),
    "ReduceSum": ((13, _axes),),
    "Reshape": ((5, _reshape),),
    "Resize": ((11, _resize),),
    "RoiAlign": ((16, _roi_align),),
    "Scan": ((9, _scan),),
    "Scatter": ((99, _scatter),),
    "Slice": ((10, _slice),),
    "Split": ((18, _split),),
    "Squeeze": ((13, _axes),),
    "Tile": ((6, _tile),),
    "TopK": ((10, _top),),
    "Unsqueeze": ((13, _axes),),
    "Upsample": ((99, _upsample),),
}
"""For each operator, in rising order: the adapter of the versions below a number."""

"""Applying operators: lifting of Python values, attributes, arity, inference, and the node."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralsym.core.infer import infer, type_name
from neuralsym.core.leaves import constant
from neuralsym.core.op import Call, Op, find_op
from neuralsym.core.schema import AttributeSpec, Formal
from neuralsym.core.scope import CURRENT, check_name
from neuralsym.core.symbol import Node, Symbol, SymbolLike
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import BadAttribute, TypeMismatch, Where, at_line, did_you_mean, user_line


def apply(
    op: type[Op],
    inputs: Sequence[SymbolLike | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    outputs: int | None = None,
    name: str | None = None,
    captures: tuple[Symbol, ...] = (),
    where: Where | None = None,
) -> tuple[Symbol, ...]:
    """Apply `op` and give its outputs.

    Numbers and arrays among `inputs` become constants of the type that their place asks for.
    `outputs` is how many outputs are wanted; the default is the required ones. Raises an OpError
    that names the user's line.
    """
    where = where or user_line()
    check_name(name)
    schema = op.schema
    symbols = _lifted(op, inputs, where)
    while symbols and symbols[-1] is None:
        symbols.pop()
    if not schema.minimum_inputs <= len(symbols) <= schema.maximum_inputs:
        wanted = _span(schema.minimum_inputs, schema.maximum_inputs)
        raise BadAttribute(
            f"{op.__name__} takes {wanted} inputs, {len(symbols)} were given{at_line(where)}"
        )
    for i, symbol in enumerate(symbols):
        if symbol is None and schema.formal_input(i).kind != "optional":
            formal = schema.formal_input(i).name
            raise BadAttribute(f"{op.__name__}: its input {formal} is missing{at_line(where)}")
    count = schema.minimum_outputs if outputs is None else outputs
    count = max(count, 1)
    if not max(schema.minimum_outputs, 1) <= count <= max(schema.maximum_outputs, 1):
        wanted = _span(schema.minimum_outputs, schema.maximum_outputs)
        raise BadAttribute(f"{op.__name__} has {wanted} outputs, not {count}{at_line(where)}")
    checked = check_attributes(op, attrs or {}, where)
    call = Call(op, tuple(symbols), checked, count, where, captures)
    types, known = infer(call)
    return Node(
        op,
        call.inputs,
        checked,
        types,
        known=known,
        name=name,
        scope=CURRENT.get(),
        where=where,
        captures=captures,
    ).outputs


def _span(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low} or more" if high > 1000 else f"{low} to {high}"


# -- attributes --------------------------------------------------------------------------------
def check_attributes(op: type[Op], attrs: Mapping[str, Any], where: Where | None) -> dict[str, Any]:
    """The attributes in their stored form; None means omitted. Raises BadAttribute."""
    made: dict[str, Any] = {}
    specs = op.schema.attributes
    for name, value in attrs.items():
        spec = specs.get(name)
        if spec is None:
            hint = did_you_mean(name, specs)
            raise BadAttribute(f"{op.__name__} has no attribute {name!r}{hint}{at_line(where)}")
        if value is None:
            continue
        try:
            made[name] = _attribute(spec, value)
        except (TypeError, ValueError, OverflowError) as error:
            raise BadAttribute(
                f"{op.__name__}: {name}={value!r} is not {_KINDS[spec.kind]} ({error})"
                f"{at_line(where)}"
            ) from None
    for name, spec in specs.items():
        if spec.required and name not in made:
            raise BadAttribute(f"{op.__name__} needs the attribute {name}=...{at_line(where)}")
    return made


_KINDS = {
    "INT": "an integer",
    "FLOAT": "a number",
    "STRING": "text",
    "INTS": "a sequence of integers",
    "FLOATS": "a sequence of numbers",
    "STRINGS": "a sequence of texts",
    "TENSOR": "a tensor",
    "TENSORS": "a sequence of tensors",
    "SPARSE_TENSOR": "a sparse tensor",
    "GRAPH": "a graph",
    "GRAPHS": "a sequence of graphs",
    "TYPE_PROTO": "a type",
}
DTYPE_ATTRIBUTES = {
    *("to", "dtype", "output_dtype", "output_datatype"),
    *("softmax_precision", "stash_type", "precision"),
}
"""Attributes of ONNX kind INT that name a number type; they take its name or numpy's type."""
_INT64 = range(-(2**63), 2**63)


def _attribute(spec: AttributeSpec, value: Any) -> Any:
    kind = spec.kind
    if kind in ("INTS", "FLOATS", "STRINGS", "TENSORS", "GRAPHS"):
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            value = (value,)
        single = AttributeSpec(spec.name, kind[:-1])
        return tuple(_attribute(single, v) for v in value)
    if kind == "INT":
        if spec.name in DTYPE_ATTRIBUTES and not hasattr(value, "__index__"):
            return number_type(value).onnx  # `to="float16"` of Cast and its kin
        number = operator.index(value)
        if number not in _INT64:
            raise ValueError("it does not fit 64 bits")
        return number
    if kind == "FLOAT":
        if isinstance(value, str):
            raise TypeError("it is text")
        return float(np.float32(value))
    if kind == "STRING":
        if isinstance(value, bytes):
            return value.decode("utf-8", "surrogateescape")
        if not isinstance(value, str):
            raise TypeError("it is not text")
        return str(value)
    if kind == "TENSOR":
        return value if isinstance(value, Tensor) else Tensor.of(value)
    return value


# -- lifting -----------------------------------------------------------------------------------
def _lifted(
    op: type[Op], inputs: Sequence[SymbolLike | None], where: Where | None
) -> list[Symbol | None]:
    if all(s is None or isinstance(s, Symbol) for s in inputs):
        return list(inputs)  # type: ignore[arg-type]
    formals = op.schema.inputs
    bound: dict[str, NumberType] = {}
    for i, given in enumerate(inputs):
        if isinstance(given, Symbol) and isinstance(given.type, TensorType) and formals:
            bound.setdefault(op.schema.formal_input(i).variable, given.type.dtype)
    made: list[Symbol | None] = []
    for i, given in enumerate(inputs):
        if given is None or isinstance(given, Symbol):
            made.append(given)
            continue
        formal = op.schema.formal_input(i)
        made.append(_lift(op, formal, given, bound.get(formal.variable), where))
    return made


def _lift(
    op: type[Op], formal: Formal, given: Any, partner: NumberType | None, where: Where | None
) -> Symbol:
    """A number or array as a constant of its partner's type, or of one that its place allows."""
    try:
        tensor = Tensor.of(given)
    except (TypeMismatch, ValueError, TypeError, OverflowError) as error:
        raise TypeMismatch(
            f"{op.__name__}: {formal.name} is {type(given).__name__}, neither a Symbol nor a "
            f"number nor an array ({error}){at_line(where)}"
        ) from None
    target = partner or _allowed(formal, tensor.dtype)
    if target is None or target is tensor.dtype:
        return constant(tensor)
    typed = isinstance(given, (np.ndarray, Tensor))
    widened = tensor.dtype is NumberType.FLOAT64 and target.is_float  # numpy's default
    cast = None if typed and not widened else _converted(tensor, target)
    if cast is None:
        what = f"an array of {tensor.dtype}" if typed else repr(given)
        mend = f"; use array.astype({str(target)!r})" if typed else ""
        if not typed and tensor.dtype is not NumberType.STRING:
            mend = f"; use ops.cast(x, {str(tensor.dtype)!r}) on its partner"
        raise TypeMismatch(
            f"{op.__name__}: {formal.name} is {what}, which is no value of {target}, the type "
            f"that is needed{mend}{at_line(where)}"
        )
    return constant(Tensor.of(cast, target))


def _converted(tensor: Tensor, target: NumberType) -> Any:
    """A number in another type that can hold it: 2.0 is no int64, 300 no uint8, 1j no float."""
    own, value = tensor.dtype, tensor.value
    if NumberType.STRING in (own, target) or (
        own.startswith("complex") and not target.startswith("complex")
    ):
        return None
    if own.is_float and not (target.is_float or target.startswith("complex")):
        return None  # a float means real arithmetic, even where it happens to be whole
    cast = value.astype(target.numpy)
    if target.is_float or target.startswith("complex"):
        return cast
    return cast if np.array_equal(cast.astype(value.dtype), value) else None


def _allowed(formal: Formal, own: NumberType) -> NumberType | None:
    """The type of a lone constant: its own where allowed, else the first that is natural."""
    if not formal.allowed or type_name(TensorType(own)) in formal.allowed:
        return None
    for choice in (NumberType.INT64, NumberType.FLOAT32, NumberType.INT32, NumberType.BOOL):
        if type_name(TensorType(choice)) in formal.allowed:
            return choice
    return None


# -- Python's operators ------------------------------------------------------------------------
_BITWISE = {"And": "BitwiseAnd", "Or": "BitwiseOr", "Xor": "BitwiseXor", "Not": "BitwiseNot"}


def load_operators() -> None:
    """Have the operators of ONNX defined, which nothing needs before one is named."""
    import neuralsym.ops  # noqa: F401


def call(name: str, *inputs: SymbolLike | None, **attrs: Any) -> Symbol:
    """The first output of the ONNX operator `name`."""
    return apply(find_op(name), inputs, attrs)[0]


def apply_operator(name: str, *operands: SymbolLike) -> Symbol:
    """What a Python operator means on symbols.

    `& | ^ ~` are logical on booleans and bitwise on integers; `//` and `%` round to minus
    infinity, as Python's do.
    """
    load_operators()
    for operand in operands:
        if callable(operand) and not isinstance(operand, Symbol):
            raise TypeMismatch(
                f"a Symbol and {getattr(operand, '__name__', operand)!r} cannot be combined by "
                f"{name}: operators bind tighter than |, so write (x | f) + y{at_line(user_line())}"
            )
    dtypes = [s.dtype for s in operands if isinstance(s, Symbol)]
    if name in _BITWISE and dtypes and dtypes[0].is_integer:
        return call(_BITWISE[name], *operands)
    if name == "FloorDiv":
        a, b = operands
        if dtypes[0].is_float:
            return call("Floor", call("Div", a, b))
        return call("Div", call("Sub", a, call("Mod", a, b)), b)
    if name == "Mod" and dtypes[0].is_float:
        a, b = operands
        return call("Sub", a, call("Mul", call("Floor", call("Div", a, b)), b))
    return call(name, *operands)


def index_symbol(x: Symbol, index: Any) -> Symbol:
    """numpy's basic indexing as Slice, Gather, Squeeze and Unsqueeze."""
    load_operators()
    parts = list(index) if isinstance(index, tuple) else [index]
    rank = x.rank
    taken = sum(1 for p in parts if p is not None and p is not Ellipsis)
    if Ellipsis in [p for p in parts if not isinstance(p, (Symbol, np.ndarray))]:
        if rank is None:
            raise TypeMismatch(f"x[...] needs a known rank, x is {x.type}{at_line(user_line())}")
        at = next(i for i, p in enumerate(parts) if p is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (rank - taken)
    if rank is not None and taken > rank:
        raise BadAttribute(f"{taken} indices for {x.type}{at_line(user_line())}")
    starts: list[int] = []
    ends: list[int] = []
    axes: list[int] = []
    steps: list[int] = []
    squeezed: list[int] = []
    added: list[int] = []
    gathers: list[tuple[int, SymbolLike]] = []
    axis = 0
    for position, part in enumerate(parts):
        if part is None:
            added.append(position - len(squeezed))
            continue
        if isinstance(part, slice):
            if part != slice(None):
                step = 1 if part.step is None else int(part.step)
                big = 2**62
                starts.append((0 if step > 0 else big) if part.start is None else part.start)
                ends.append((big if step > 0 else -big) if part.stop is None else part.stop)
                axes.append(axis)
                steps.append(step)
        elif isinstance(part, (Symbol, np.ndarray, list)):
            gathers.append((axis, part))
        elif hasattr(part, "__index__"):
            start = int(part.__index__())
            starts.append(start)
            ends.append(2**62 if start == -1 else start + 1)
            axes.append(axis)
            steps.append(1)
            squeezed.append(axis)
        else:
            raise BadAttribute(f"{part!r} is no index of a Symbol{at_line(user_line())}")
        axis += 1
    if len(gathers) > 1 or (gathers and (squeezed or added)):
        raise BadAttribute(f"use ops.gather_nd for several index arrays{at_line(user_line())}")
    _check_indices(x, starts, axes, squeezed)
    if starts:
        x = call("Slice", x, *(np.array(v, np.int64) for v in (starts, ends, axes, steps)))
    for at, indices in gathers:
        x = call("Gather", x, indices, axis=at)
    if squeezed:
        x = call("Squeeze", x, np.array(squeezed, np.int64))
    if added:
        x = call("Unsqueeze", x, np.array(added, np.int64))
    return x


def _check_indices(x: Symbol, starts: list[int], axes: list[int], squeezed: list[int]) -> None:
    for start, axis in zip(starts, axes, strict=True):
        size = x.shape[axis] if x.shape is not None else None
        if axis in squeezed and isinstance(size, int) and not -size <= start < size:
            raise BadAttribute(
                f"index {start} is out of range for axis {axis} of {x.type}{at_line(user_line())}"
            )

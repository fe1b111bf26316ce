"""Tables and maps of ai.onnx.ml: keys to values, categories to columns, maps to and from tensors.

Keys are searched for by `ml_parts.FindKey`, compiled where they are numbers; strings and maps are
looked up in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from neuralsym.core import registry
from neuralsym.core.leaves import constant
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import MapType, SequenceType, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import ExecutionError
from neuralsym.ops.base import bad, check_choice, check_rank
from neuralsym.ops.expansions import converted
from neuralsym.ops.ml import Learned, floats
from neuralsym.ops.ml_parts import FindKey


def _one_of(call: Call, *names: str) -> str:
    """The one attribute of those that is given; BadAttribute for none or two."""
    found = [name for name in names if call.attr(name) is not None and call.attr(name) != ()]
    if len(found) != 1:
        call.fail(
            f"one of {', '.join(names)} must be given, not {' and '.join(found) or 'none'}", bad
        )
    return found[0]


# -- tables ------------------------------------------------------------------------------------
class OneHotEncoder(Learned):
    """A new last axis with a 1 at the place of the category.

    With zeros=0 an unknown category is an error. Floats are cut to whole numbers.
    """

    @classmethod
    def check(cls, call: Call) -> None:
        name = _one_of(call, "cats_int64s", "cats_strings")
        if (name == "cats_strings") != (call.dtype(0) is NumberType.STRING):
            call.fail(f"{name} cannot be found in {call.dtype(0)}", bad)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        shape = call.shape(0)
        count = len(call.attr("cats_int64s") or call.attr("cats_strings"))
        return [floats(None if shape is None else (*shape, count))]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        (x,), call = node.inputs, registry.call
        assert x is not None
        keys = _tensor(node.attr("cats_int64s") or node.attr("cats_strings"))
        if x.dtype is not NumberType.STRING:
            x = converted(x, NumberType.INT64)
        attrs = {"keys": keys, "strict": int(not node.attr("zeros"))}
        (place,) = registry.apply(FindKey, [x], attrs)
        every = constant(np.arange(keys.size))
        hit = call("Equal", call("Unsqueeze", place, np.array([-1])), every)
        return [converted(hit, NumberType.FLOAT32)]


def _tensor(values: Sequence[Any]) -> Tensor:
    """Numbers as int64 or float64, texts as strings."""
    if isinstance(values[0], str):
        return Tensor.of(np.array(list(values), dtype=object))
    kind = np.float64 if isinstance(values[0], float) else np.int64
    return Tensor.of(np.array(values, kind))


def _mapped(x: Symbol, keys: Tensor, values: Tensor) -> Symbol:
    """The value beside the key that each element is, the one behind the last where it is none."""
    if keys.dtype is not NumberType.STRING:
        kind = NumberType.FLOAT64 if keys.dtype.is_float else NumberType.INT64
        keys, x = Tensor.of(keys.value, kind), converted(x, kind)
    (place,) = registry.apply(FindKey, [x], {"keys": keys})
    return registry.call("Gather", constant(values), place, axis=0)


class CategoryMapper(Learned):
    """Strings to numbers or numbers to strings, by a table; of equal keys the last counts."""

    @classmethod
    def check(cls, call: Call) -> None:
        texts, numbers = call.attr("cats_strings") or (), call.attr("cats_int64s") or ()
        if len(texts) != len(numbers):
            call.fail(f"{len(texts)} cats_strings for {len(numbers)} cats_int64s", bad)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        texts = call.dtype(0) is NumberType.STRING
        return [TensorType(NumberType.INT64 if texts else NumberType.STRING, call.shape(0))]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        (x,) = node.inputs
        assert x is not None
        texts = np.array([*(node.attr("cats_strings") or ()), node.attr("default_string")], object)
        numbers = np.array([*(node.attr("cats_int64s") or ()), node.attr("default_int64")])
        # The default of what is sought stands last, and is no key.
        keys, values = (texts, numbers) if x.dtype is NumberType.STRING else (numbers, texts)
        return [_mapped(x, Tensor.of(keys[:-1]), Tensor.of(values))]


class LabelEncoder(Learned):
    """Keys to values, by a table.

    Of equal keys the last counts, as the specification says (onnxruntime takes the first). NaN is
    a key like others.
    """

    keys = ("keys_tensor", "keys_strings", "keys_int64s", "keys_floats")
    values = ("values_tensor", "values_strings", "values_int64s", "values_floats")

    @classmethod
    def check(cls, call: Call) -> None:
        keys, values = cls.table(call)
        if keys.dtype is not call.dtype(0):
            call.fail(f"its keys are {keys.dtype}", bad)
        if keys.size + 1 != values.size:
            call.fail(f"{keys.size} keys for {values.size - 1} values", bad)

    @classmethod
    def table(cls, call: Call | Node) -> tuple[Tensor, Tensor]:
        """The keys, and the values with the default behind them."""
        found = []
        for names in (cls.keys, cls.values):
            given = [n for n in names if call.attr(n) is not None]
            if len(given) != 1:
                message = f"one of {', '.join(names)} must be given, not {len(given)}"
                if isinstance(call, Call):
                    call.fail(message, bad)
                raise bad(message)
            found.append(_column(call.attr(given[0]), given[0]))
        keys, values = found
        default = call.attr("default_tensor")
        if default is not None and default.dtype is values.dtype:
            last = default.value.reshape(-1)[:1]
        elif values.dtype is NumberType.STRING:
            last = np.array([call.attr("default_string")], dtype=object)
        else:
            name = "default_float" if values.dtype.is_float else "default_int64"
            last = np.array([call.attr(name)], values.dtype.numpy)
        return keys, Tensor.of(np.concatenate([values.value, last]))

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(cls.table(call)[1].dtype, call.shape(0))]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        (x,) = node.inputs
        assert x is not None
        return [_mapped(x, *cls.table(node))]


def _column(value: Any, name: str) -> Tensor:
    """A list or tensor attribute as a vector of its own number type."""
    if isinstance(value, Tensor):
        return Tensor.of(value.value.reshape(-1), value.dtype)
    kind: Any = object
    if not name.endswith("strings"):
        kind = np.float32 if name.endswith("floats") else np.int64
    return Tensor.of(np.array(list(value), kind))


# -- maps --------------------------------------------------------------------------------------
class CastMap(Learned):
    """The values of a map, in the order of its keys, as a row of a tensor.

    Sparse maps have zeros (empty strings) at the keys below `max_map` that they lack.
    """

    kinds: ClassVar[dict[str, str]] = {
        "TO_FLOAT": "float32",
        "TO_STRING": "string",
        "TO_INT64": "int64",
    }

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "cast_to", tuple(cls.kinds))
        check_choice(call, "map_form", ("DENSE", "SPARSE"))

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        width = call.attr("max_map") if call.attr("map_form") == "SPARSE" else None
        return [TensorType(NumberType(cls.kinds[call.attr("cast_to")]), (1, width))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> list[NDArray[Any]]:
        (given,), kind = values, node.outputs[0].dtype
        texts = kind is NumberType.STRING
        pairs = sorted(given.items())
        if node.attr("map_form") == "SPARSE":
            count = node.attr("max_map")
            wrong = [key for key, _ in pairs if not 0 <= key < count]
            if wrong:
                raise ExecutionError(f"{node.describe()}: key {wrong[0]} is not below {count}")
            filled = {**dict.fromkeys(range(count), "" if texts else 0), **dict(pairs)}
            pairs = sorted(filled.items())
        made = np.empty((1, len(pairs)), dtype=kind.numpy)
        try:
            made[0] = [_as(kind, value) for _, value in pairs]
        except ValueError as error:
            raise ExecutionError(f"{node.describe()}: {error}") from error
        return [made]


def _as(kind: NumberType, value: Any) -> Any:
    """A value of a map as text or as a number; a float as the shortest text that tells it."""
    if kind is NumberType.STRING:
        return value if isinstance(value, str) else str(np.float32(value))
    return float(value) if kind.is_float else int(float(value))


class DictVectorizer(Learned):
    """The values of a map in the order of a vocabulary, zero (or empty) for keys that it lacks.

    A vector, as the specification says, where onnxruntime gives a matrix of one row.
    """

    @classmethod
    def check(cls, call: Call) -> None:
        _one_of(call, "int64_vocabulary", "string_vocabulary")

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        given = call.input(0).type
        assert isinstance(given, MapType) and isinstance(given.value, TensorType)
        count = len(call.attr("int64_vocabulary") or call.attr("string_vocabulary"))
        return [TensorType(given.value.dtype, (count,))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> list[NDArray[Any]]:
        (given,), kind = values, node.outputs[0].dtype
        words = node.attr("int64_vocabulary") or node.attr("string_vocabulary")
        unknown = given.keys() - set(words)
        if unknown:
            raise ExecutionError(f"{node.describe()}: no key {min(unknown)!r} in its vocabulary")
        missing: Any = "" if kind is NumberType.STRING else 0
        made = np.empty(len(words), dtype=kind.numpy)
        made[:] = [given.get(word, missing) for word in words]
        return [made]


class ZipMap(Learned):
    """Each row of probabilities as a map from class labels."""

    @classmethod
    def check(cls, call: Call) -> None:
        name = _one_of(call, "classlabels_int64s", "classlabels_strings")
        check_rank(call, 0, 1, 2)
        shape, count = call.shape(0), len(call.attr(name))
        if shape and isinstance(shape[-1], int) and shape[-1] != count:
            call.fail(f"{name} has {count} labels for {shape[-1]} columns", bad)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        text = call.attr("classlabels_strings")
        key = NumberType.STRING if text else NumberType.INT64
        return [SequenceType(MapType(key, TensorType(NumberType.FLOAT32, ())))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> list[list[dict[Any, float]]]:
        labels = node.attr("classlabels_int64s") or node.attr("classlabels_strings")
        rows = np.atleast_2d(values[0]).tolist()
        if rows and len(rows[0]) != len(labels):
            raise ExecutionError(f"{node.describe()}: {len(labels)} labels, {len(rows[0])} columns")
        return [[dict(zip(labels, row, strict=True)) for row in rows]]

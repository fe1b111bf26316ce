"""The number types: one table of what each is called by the seed, ONNX, numpy and Myelin."""

from __future__ import annotations

from enum import StrEnum
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from neuralsym.errors import TypeMismatch, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class NumberType(StrEnum):
    """A number type, equal to its name: `NumberType.FLOAT32 == "float32"`."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"
    BOOL = "bool"
    STRING = "string"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT8E4M3FN = "float8e4m3fn"
    FLOAT8E4M3FNUZ = "float8e4m3fnuz"
    FLOAT8E5M2 = "float8e5m2"
    FLOAT8E5M2FNUZ = "float8e5m2fnuz"
    FLOAT8E8M0 = "float8e8m0"
    FLOAT4E2M1 = "float4e2m1"
    FLOAT6E2M3 = "float6e2m3"
    FLOAT6E3M2 = "float6e3m2"
    INT4 = "int4"
    UINT4 = "uint4"
    INT2 = "int2"
    UINT2 = "uint2"

    @property
    def row(self) -> Row:
        return TABLE[self]

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type of an array of these; the newest floats come from ml_dtypes."""
        name = self.row.numpy
        if hasattr(np, name):
            found: np.dtype[Any] = np.dtype(getattr(np, name))
        else:
            import ml_dtypes

            found = np.dtype(getattr(ml_dtypes, name))
        return found

    @property
    def onnx(self) -> int:
        """The value of `TensorProto.DataType`."""
        return self.row.onnx

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory; the sub-byte types take a byte each there."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self.startswith(("float", "bfloat"))

    @property
    def is_integer(self) -> bool:
        return self.startswith(("int", "uint"))

    @property
    def is_numeric(self) -> bool:
        return self not in (NumberType.BOOL, NumberType.STRING)


class Row(NamedTuple):
    """The spellings of one number type."""

    seed: str
    onnx: int
    numpy: str
    myelin: str | None


TABLE: dict[NumberType, Row] = {
    NumberType.FLOAT32: Row("SNT_Float", 1, "float32", "float32"),
    NumberType.FLOAT64: Row("SNT_Double", 11, "float64", "float64"),
    NumberType.FLOAT16: Row("SNT_Float16", 10, "float16", "float16"),
    NumberType.BFLOAT16: Row("SNT_Bfloat16", 16, "bfloat16", "bfloat16"),
    NumberType.COMPLEX64: Row("SNT_Complex32", 14, "complex64", "complex64"),
    NumberType.COMPLEX128: Row("SNT_Complex64", 15, "complex128", "complex128"),
    NumberType.BOOL: Row("SNT_Bool", 9, "bool_", "bool"),
    NumberType.STRING: Row("SNT_String", 8, "object_", "string"),
    NumberType.INT8: Row("SNT_Int8", 3, "int8", "int8"),
    NumberType.INT16: Row("SNT_Int16", 5, "int16", "int16"),
    NumberType.INT32: Row("SNT_Int32", 6, "int32", "int32"),
    NumberType.INT64: Row("SNT_Int64", 7, "int64", "int64"),
    NumberType.UINT8: Row("SNT_Uint8", 2, "uint8", "uint8"),
    NumberType.UINT16: Row("SNT_Uint16", 4, "uint16", "uint16"),
    NumberType.UINT32: Row("SNT_Uint32", 12, "uint32", "uint32"),
    NumberType.UINT64: Row("SNT_Uint64", 13, "uint64", "uint64"),
    NumberType.FLOAT8E4M3FN: Row("SNT_Float8E4M3FN", 17, "float8_e4m3fn", None),
    NumberType.FLOAT8E4M3FNUZ: Row("SNT_Float8E4M3FNUZ", 18, "float8_e4m3fnuz", None),
    NumberType.FLOAT8E5M2: Row("SNT_Float8E5M2", 19, "float8_e5m2", None),
    NumberType.FLOAT8E5M2FNUZ: Row("SNT_Float8E5M2FNUZ", 20, "float8_e5m2fnuz", None),
    NumberType.FLOAT8E8M0: Row("SNT_Float8E8M0", 24, "float8_e8m0fnu", None),
    NumberType.FLOAT4E2M1: Row("SNT_Float4E2M1", 23, "float4_e2m1fn", None),
    NumberType.FLOAT6E2M3: Row("SNT_Float6E2M3", 27, "float6_e2m3fn", None),
    NumberType.FLOAT6E3M2: Row("SNT_Float6E3M2", 28, "float6_e3m2fn", None),
    NumberType.INT4: Row("SNT_Int4", 22, "int4", None),
    NumberType.UINT4: Row("SNT_Uint4", 21, "uint4", None),
    NumberType.INT2: Row("SNT_Int2", 26, "int2", None),
    NumberType.UINT2: Row("SNT_Uint2", 25, "uint2", None),
}

_ALIASES = {
    "float": NumberType.FLOAT32,
    "double": NumberType.FLOAT64,
    "half": NumberType.FLOAT16,
    "int": NumberType.INT32,
    "long": NumberType.INT64,
    "bool_": NumberType.BOOL,
    "str": NumberType.STRING,
    "object": NumberType.STRING,
}
_BY_NAME: dict[str, NumberType] = {
    **{row.numpy: kind for kind, row in TABLE.items()},
    **{row.seed: kind for kind, row in TABLE.items()},
    **{str(kind): kind for kind in TABLE},
    **_ALIASES,
}
_PYTHON: dict[type, NumberType] = {
    float: NumberType.FLOAT32,
    int: NumberType.INT64,
    bool: NumberType.BOOL,
    str: NumberType.STRING,
}
_BY_MYELIN: dict[str, NumberType | None] = {
    **{row.myelin: kind for kind, row in TABLE.items() if row.myelin},
    "half": NumberType.FLOAT16,
    "float": NumberType.FLOAT32,
    "double": NumberType.FLOAT64,
    "int": NumberType.INT32,
    "uint": NumberType.UINT32,
    "qint8": NumberType.INT8,
    "qint16": NumberType.INT16,
    "qint32": NumberType.INT32,
    "quint8": NumberType.UINT8,
    "quint16": NumberType.UINT16,
    "": None,
    "void": None,
    "resource": None,
}
_BY_ONNX = {row.onnx: kind for kind, row in TABLE.items()}


def number_type(given: DTypeLike | NumberType) -> NumberType:
    """The number type that a name, a numpy dtype or a Python type stands for.

    Raises TypeMismatch, naming the nearest, when there is none.
    """
    if isinstance(given, NumberType):
        return given
    if isinstance(given, type) and given in _PYTHON:
        return _PYTHON[given]
    if isinstance(given, str):
        name = given
    else:
        said: object = given
        try:
            if said is None or isinstance(said, (bytes, tuple, list, dict)):  # float64, records
                raise TypeError
            made = np.dtype(given)
        except (TypeError, ValueError):
            raise TypeMismatch(f"{given!r} names no number type") from None
        name = "object_" if made.kind in "OUST" else made.name
    found = _BY_NAME.get(name)
    if found is None:
        hint = did_you_mean(name, _BY_NAME)
        raise TypeMismatch(f"{name!r} names no number type{hint}")
    return found


def from_onnx(elem_type: int) -> NumberType:
    """The number type of a `TensorProto.DataType` value."""
    found = _BY_ONNX.get(elem_type)
    if found is None:
        raise TypeMismatch(f"ONNX element type {elem_type} is not one that neuralsym knows")
    return found


def from_myelin(name: str) -> NumberType | None:
    """The number type that a .flow file calls so; None for its words for none ("", void, resource).

    Raises TypeMismatch for a word that is none of Myelin's.
    """
    if name not in _BY_MYELIN:
        hint = did_you_mean(name, _BY_MYELIN)
        raise TypeMismatch(f"{name!r} is no type of a .flow file{hint}")
    return _BY_MYELIN[name]


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a setting is an integer, Python's or numpy's; truths, arrays, symbols are none."""
    if isinstance(value, (bool, np.ndarray)):
        return False
    try:
        index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True

"""Stored tensors of a file as constants, read or mapped when they are needed.

What a file claims is checked first: sizes against the data that is there, and external data
against the folder of the model, out of which nothing is read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import SparseTensorProto, TensorProto, numpy_helper

from neuralsym.core.files import Bytes, map_file
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType, from_onnx
from neuralsym.errors import FormatError, TypeMismatch

PACKED = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4e2m1": 4}
"""Bits of an element in a file, of the types that share bytes there."""
_LARGE = 4096
_DENSEST = 2**31


@dataclass
class Source:
    """Where a model comes from: what messages call it, and the folder of its external data."""

    label: str
    folder: Path | None = None
    files: dict[str, Bytes] = field(default_factory=dict)

    def data(self, proto: TensorProto) -> Bytes:
        """The bytes of an external tensor, mapped."""
        entries = {e.key: e.value for e in proto.external_data}
        location = entries.get("location", "")
        name = f"{self.label}: the external data of {proto.name!r}"
        file = self._file(location, name)
        try:
            offset = int(entries.get("offset", "") or 0)
            length = int(entries.get("length", "") or file.size - offset)
        except ValueError:
            raise FormatError(f"{name} has no sensible offset or length: {entries}") from None
        if offset < 0 or length < 0 or offset + length > file.size:
            raise FormatError(
                f"{name} is said to be {length} bytes from {offset} on in {location!r}, which has "
                f"only {file.size}; the file may be incomplete"
            )
        return file[offset : offset + length]

    def _file(self, location: str, name: str) -> Bytes:
        if location in self.files:
            return self.files[location]
        if self.folder is None:
            raise FormatError(
                f"{name} lies in {location!r}, but the model was not read from a file; give the "
                "path of the model"
            )
        path = inside(self.folder, location, name)
        try:
            made = map_file(path)
        except OSError as error:
            raise FormatError(
                f"{name} lies in {location!r}, which cannot be read: {error.strerror or error}"
            ) from None
        self.files[location] = made
        return made


def inside(folder: Path, location: str, name: str) -> Path:
    """The file that `location` names in `folder`; FormatError for one that leaves it."""
    parts = PurePosixPath(location).parts + PureWindowsPath(location).parts
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).is_absolute()
    home = os.path.realpath(folder)
    path = os.path.realpath(Path(home, location)) if "\0" not in location else ""
    drive = PureWindowsPath(location).drive
    if (
        not location
        or absolute
        or drive
        or ".." in parts
        or os.path.commonpath([home, path or os.sep]) != home
    ):
        raise FormatError(
            f"{name} lies in {location!r}, outside of the folder of the model; only files in "
            "that folder are read"
        )
    if not Path(path).is_file():
        raise FormatError(
            f"{name} lies in {location!r}, which is not in {folder}; copy the model and its data "
            "into one folder"
        )
    return Path(path)


# -- tensors -----------------------------------------------------------------------------------
def read_tensor(proto: TensorProto, source: Source, raw: Bytes | None = None) -> Tensor:
    """The constant that `proto` stands for; `raw` is its raw data where it was left out of it."""
    name = f"{source.label}: tensor {proto.name!r}"
    dtype = element_type(proto.data_type, name)
    shape = tuple(proto.dims)
    if any(d < 0 for d in shape):
        raise FormatError(f"{name} has a negative size: {shape}")
    if proto.HasField("segment"):
        raise FormatError(f"{name} is stored in segments, which cannot be read")
    if proto.data_location == TensorProto.EXTERNAL:
        raw = source.data(proto)
    elif raw is None and proto.HasField("raw_data"):
        raw = np.frombuffer(proto.raw_data, np.uint8)
    size = _count(shape)
    if raw is None:
        return _typed(proto, dtype, shape, name)
    bits = PACKED.get(dtype, 8 * dtype.itemsize)
    wanted = -(-size * bits // 8)
    if dtype is NumberType.STRING or raw.size != wanted:
        raise FormatError(f"{name} of {dtype}{list(shape)} has {raw.size} bytes, not {wanted}")
    if dtype in PACKED:
        return Tensor(dtype, shape, lambda: _unpacked(raw, dtype, shape))
    if size <= _LARGE or raw.ctypes.data % dtype.itemsize == 0:
        return Tensor.of(_viewed(raw, dtype, shape), dtype)
    return Tensor(dtype, shape, lambda: _viewed(raw, dtype, shape))


def element_type(value: int, name: str) -> NumberType:
    try:
        return from_onnx(value)
    except TypeMismatch as error:
        raise FormatError(f"{name}: {error}") from None


def _count(shape: tuple[int, ...]) -> int:
    size = 1
    for d in shape:
        size *= d
    return size


def _viewed(raw: Bytes, dtype: NumberType, shape: tuple[int, ...]) -> NDArray[Any]:
    """Raw data as an array; a copy where it is not aligned in the file."""
    if raw.ctypes.data % dtype.itemsize:
        raw = raw.copy()
    array = raw.view(dtype.numpy.newbyteorder("<")).reshape(shape)
    return array.astype(dtype.numpy, copy=False)


def _unpacked(raw: Bytes, dtype: NumberType, shape: tuple[int, ...]) -> NDArray[Any]:
    made = TensorProto(data_type=dtype.onnx, dims=shape, raw_data=raw.tobytes())
    return numpy_helper.to_array(made)


def _typed(proto: TensorProto, dtype: NumberType, shape: tuple[int, ...], name: str) -> Tensor:
    """A tensor whose elements lie in a typed field."""
    given = (
        len(proto.float_data) + len(proto.int32_data) + len(proto.int64_data)
        + len(proto.double_data) + len(proto.uint64_data) + len(proto.string_data)
    )  # fmt: skip
    if _count(shape) and not given:
        raise FormatError(f"{name} of {dtype}{list(shape)} has no data")
    try:
        array = numpy_helper.to_array(proto)
    except (ValueError, TypeError) as error:
        raise FormatError(
            f"{name} of {dtype}{list(shape)}: its data does not fit: {error}"
        ) from None
    if dtype is NumberType.STRING:
        array = array.astype(object)
    if array.shape != shape:
        raise FormatError(f"{name} of {dtype}{list(shape)} has {array.size} elements")
    return Tensor.of(array, dtype)


def read_sparse(proto: SparseTensorProto, source: Source) -> Tensor:
    """A sparse tensor as a dense constant, made when it is needed."""
    name = f"{source.label}: sparse tensor {proto.values.name!r}"
    values = read_tensor(proto.values, source)
    indices = read_tensor(proto.indices, source).value
    shape = tuple(proto.dims)
    if any(d < 0 for d in shape) or _count(shape) > _DENSEST:
        raise FormatError(f"{name} has the shape {shape}, which is too large to be made dense")
    linear = indices.ndim == 1
    if not linear and indices.shape != (values.size, len(shape)):
        raise FormatError(f"{name}: {indices.shape} indices for {values.size} values of {shape}")
    flat = indices if linear else (indices * _steps(shape)).sum(axis=1)
    limits = np.array([_count(shape)] if linear else shape)
    if flat.size != values.size or np.any(indices < 0) or np.any(indices >= limits):
        raise FormatError(f"{name} of shape {shape} has an index that is out of range")

    def make() -> NDArray[Any]:
        dense = np.zeros(_count(shape), values.dtype.numpy)
        dense[flat] = values.value.reshape(-1)
        return dense.reshape(shape)

    made = Tensor(values.dtype, shape, make)
    if made.size <= _LARGE:
        return Tensor.of(made.value, values.dtype)
    return made


def _steps(shape: tuple[int, ...]) -> NDArray[np.int64]:
    steps = np.ones(len(shape), np.int64)
    for i in range(len(shape) - 2, -1, -1):
        steps[i] = steps[i + 1] * shape[i + 1]
    return steps

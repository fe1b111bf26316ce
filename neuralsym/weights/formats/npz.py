"""numpy's .npz: a zip of .npy arrays, read without pickles.

numpy has no name for bfloat16 and saves its bits as 2-byte records: that is how they are read
back. The other number types that numpy lacks cannot be told apart, and are not written.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from functools import partial
from io import BufferedWriter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.files import Bytes
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import FormatError, TypeMismatch
from neuralsym.weights.formats.archive import Member, read_archive

_LONGEST_HEADER = 10_000


def read_npz(data: Bytes) -> dict[str, Tensor]:
    """The arrays by name; raises FormatError."""
    members = read_archive(data)
    return {
        name.removesuffix(".npy"): _array(name, member)
        for name, member in members.items()
        if name.endswith(".npy")
    }


def _array(name: str, member: Member) -> Tensor:
    head = io.BytesIO(member.head(_LONGEST_HEADER + 32))
    shape, swapped, kind = _header(name, head)
    start = head.tell()
    size = 1
    for d in shape:
        size *= d
    if start + size * kind.itemsize != member.size:
        raise FormatError(f"its array {name!r} has another size than its header says")
    return Tensor(kind, shape, partial(_numbers, member, start, kind, shape, *swapped))


def _header(name: str, head: io.BytesIO) -> tuple[tuple[int, ...], tuple[bool, bool], NumberType]:
    """The shape; whether axes, and bytes, are in the other order; the number type."""
    try:
        version = np.lib.format.read_magic(head)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(head, max_header_size=_LONGEST_HEADER)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, EOFError) as error:
        raise FormatError(f"its array {name!r} has no readable header: {error}") from None
    if any(d < 0 for d in shape):
        raise FormatError(f"its array {name!r} has the shape {shape}")
    if dtype.hasobject or dtype.kind not in "biufcV" or dtype.names or dtype.subdtype:
        raise FormatError(f"its array {name!r} holds {dtype}, which is no number type")
    if dtype.kind == "V":
        if dtype.itemsize != 2:
            raise FormatError(f"its array {name!r} holds {dtype.itemsize}-byte records of no type")
        return shape, (fortran, False), NumberType.BFLOAT16
    swapped = not dtype.isnative
    try:
        return shape, (fortran, swapped), number_type(dtype.newbyteorder("="))
    except TypeMismatch as error:
        raise FormatError(f"its array {name!r}: {error}") from None


def _numbers(
    member: Member,
    start: int,
    kind: NumberType,
    shape: tuple[int, ...],
    fortran: bool,
    swapped: bool,
) -> NDArray[Any]:
    flat = member.data()[start:].view(kind.numpy)
    if swapped:
        flat = flat.byteswap()
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def write_npz(file: BufferedWriter, tensors: Mapping[str, Tensor]) -> None:
    """Write arrays by name; FormatError for a number type that cannot be read back."""
    for name, tensor in tensors.items():
        if tensor.dtype.numpy.kind == "V" and tensor.dtype != NumberType.BFLOAT16:
            raise FormatError(f"{name!r} holds {tensor.dtype}, which .npz has no name for")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, tensor in tensors.items():
            # A fixed date: the same weights give the same bytes.
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            array = tensor.once()
            plain = array.view("V2") if tensor.dtype == NumberType.BFLOAT16 else array
            with archive.open(entry, "w", force_zip64=True) as part:
                np.lib.format.write_array(part, plain, allow_pickle=False)

"""numpy's .npz: a zip of .npy arrays, read without pickles.

numpy has no name for bfloat16 and saves its bits as 2-byte records: that is how they are read
back. The other number types that numpy lacks cannot be told apart, and are not written.
"""

from __future__ import annotations

import math
import re
import sys
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
_HEADER = re.compile(
    r"\s*\{'descr': '(?P<order>[<>|=])(?P<type>[biufcV]\d{1,2})', "
    r"'fortran_order': (?P<fortran>True|False), "
    r"'shape': \((?P<shape>(\d{1,18}L?(, ?\d{1,18}L?)*,?)?)\),? ?\}\s*"
)
"""What numpy writes; read as text, not as Python."""


def read_npz(data: Bytes) -> dict[str, Tensor]:
    """The arrays by name; raises FormatError."""
    members = read_archive(data)
    return {
        name.removesuffix(".npy"): _array(name, member)
        for name, member in members.items()
        if name.endswith(".npy")
    }


def _array(name: str, member: Member) -> Tensor:
    text, start = _header(name, member)
    match = _HEADER.fullmatch(text)
    if match is None:
        raise FormatError(f"its array {name!r} is no plain array of numbers: {text.strip()[:80]!r}")
    shape = tuple(int(d) for d in re.findall(r"\d+", match["shape"]))
    swapped = match["order"] == (">" if sys.byteorder == "little" else "<")
    kind = _kind(name, match["type"])
    size = math.prod(shape)
    if start + size * kind.itemsize != member.size:
        raise FormatError(f"its array {name!r} has another size than its header says")
    fortran = match["fortran"] == "True"
    return Tensor(kind, shape, partial(_numbers, member, start, kind, shape, fortran, swapped))


def _header(name: str, member: Member) -> tuple[str, int]:
    """The text that describes the array, and where its numbers begin."""
    head = member.head(_LONGEST_HEADER)
    wide = head[6:7] > b"\x01"  # version 1 has a length of two bytes, the later ones of four
    begin = 12 if wide else 10
    if head[:6] != b"\x93NUMPY" or len(head) < begin:
        raise FormatError(f"its part {name!r} is no .npy array")
    length = int.from_bytes(head[8:begin], "little")
    if begin + length > len(head):
        raise FormatError(f"its array {name!r} has a header of {length:,} bytes")
    return head[begin : begin + length].decode("latin-1"), begin + length


def _kind(name: str, word: str) -> NumberType:
    if word == "V2":
        return NumberType.BFLOAT16
    try:
        return number_type(np.dtype(word))
    except (TypeError, TypeMismatch):
        raise FormatError(f"its array {name!r} holds {word!r}, which is no number type") from None


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

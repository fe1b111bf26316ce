"""torch.save's files, .pth and .pt: the zip form, and the legacy form from before torch 1.6.

Their pickle is read as data (pickles.py): it can make tensors, containers, numbers and text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from neuralsym.core.files import Bytes
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import FormatError
from neuralsym.weights.formats.archive import Member, read_archive
from neuralsym.weights.formats.pickles import MOST_BYTES, Attributes, Build, Global, read_pickle

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001

_STORAGES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}
_DTYPES = {
    **{name: name for name in ("float64", "float32", "float16", "bfloat16", "bool")},
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float8_e4m3fn": "float8e4m3fn",
    "float8_e4m3fnuz": "float8e4m3fnuz",
    "float8_e5m2": "float8e5m2",
    "float8_e5m2fnuz": "float8e5m2fnuz",
    "float8_e8m0fnu": "float8e8m0",
}
_WRAPPERS = (
    "state_dict", "model_state_dict", "model", "net", "network", "weights",
    "state_dict_ema", "model_ema", "ema_state_dict", "params", "module",
)  # fmt: skip
"""Under what key of a checkpoint the state dict lies, the likeliest first."""


@dataclass
class Storage:
    """A run of numbers in the file; `dtype` is None where each tensor says its own."""

    key: str
    dtype: NumberType | None
    bytes: int
    read: Callable[[], Bytes]


def read_torch(data: Bytes) -> dict[str, Tensor]:
    """The tensors of a state dict, by key; raises FormatError."""
    if data[:4].tobytes() == b"PK\x03\x04":
        found = _read_zip(data)
    else:
        found = _read_legacy(data)
    return _state_dict(found)


# -- the zip form --------------------------------------------------------------------------
def _read_zip(data: Bytes) -> Any:
    members = read_archive(data)
    pickles = [name for name in members if name == "data.pkl" or name.endswith("/data.pkl")]
    if any("/code/" in name or name.endswith("constants.pkl") for name in members):
        raise FormatError(
            "it is a TorchScript program; save its weights: torch.save(model.state_dict(), path)"
        )
    if len(pickles) != 1:
        raise FormatError("it is a zip file, but none that torch.save wrote: it has no data.pkl")
    folder = pickles[0].removesuffix("data.pkl")
    pickle = members[pickles[0]]
    if pickle.deflated or pickle.size > MOST_BYTES:
        raise FormatError(f"its data.pkl is compressed or larger than {MOST_BYTES:,} bytes")
    order = members.get(folder + "byteorder")
    little = order is None or order.head(8) != b"big"
    storages: dict[str, Storage] = {}

    def persistent(given: Any) -> Storage:
        kind, key, count = _storage_id(given)
        if key not in storages:
            member = members.get(f"{folder}data/{key}")
            if member is None:
                raise FormatError(f"it has no numbers for storage {key!r}: the file is truncated")
            storages[key] = _stored(member, key, kind, count)
        return storages[key]

    view = pickle.data().data
    made, _ = read_pickle(view, 0, _functions(little), persistent)
    return made


def _stored(member: Member, key: str, kind: NumberType | None, count: int) -> Storage:
    size = count * (kind.itemsize if kind else 1)
    if member.deflated:
        raise FormatError(f"its storage {key!r} is compressed, which torch.save never does")
    if member.size != size:
        raise FormatError(f"its storage {key!r} has {member.size:,} bytes and needs {size:,}")
    return Storage(key, kind, size, member.data)


def _storage_id(given: Any) -> tuple[NumberType | None, str, int]:
    """What a persistent id says: the number type, the key, and how many numbers."""
    if not isinstance(given, tuple) or len(given) not in (5, 6) or given[0] != "storage":
        raise FormatError("its pickle refers to what is no storage of a tensor")
    kind, key, count = given[1], given[2], given[4]
    if not isinstance(kind, Global) or not isinstance(key, str) or not _is_count(count):
        raise FormatError("its pickle refers to what is no storage of a tensor")
    name = kind.name.removesuffix("Storage")
    if kind.module == "torch.storage" and name in ("Untyped", "_Untyped"):
        return None, key, count
    if kind.module not in ("torch", "torch.cuda") or name not in _STORAGES:
        raise FormatError(f"its storage {key[:40]!r} holds {kind}, which is not known here")
    return number_type(_STORAGES[name]), key, count


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**60


# -- the legacy form -----------------------------------------------------------------------
def _read_legacy(data: Bytes) -> Any:
    view = data.data
    if data[257:262].tobytes() == b"ustar":
        raise FormatError("it is a tar file from before torch 0.1.10; load and save it with torch")

    def nothing(given: Any) -> Any:
        raise FormatError("it is no file that torch.save wrote")

    try:
        magic, at = read_pickle(view, 0, {}, nothing)
        if magic != _MAGIC:
            raise FormatError("no magic number")
        protocol, at = read_pickle(view, at, {}, nothing)
        system, at = read_pickle(view, at, {}, nothing)
    except FormatError:
        raise FormatError("it is no file that torch.save wrote") from None
    if protocol != _PROTOCOL or not isinstance(system, dict):
        raise FormatError(f"it has the unknown protocol {_shown(protocol)}")
    little = system.get("little_endian", True) is not False
    storages: dict[str, Storage] = {}

    def persistent(given: Any) -> Storage:
        kind, key, count = _storage_id(given)
        if kind is None or (len(given) == 6 and given[5] is not None):
            raise FormatError(f"its storage {key[:40]!r} is a view of another, which is not read")
        found = storages.setdefault(key, Storage(key, kind, count * kind.itemsize, _absent))
        if found.dtype != kind or found.bytes != count * kind.itemsize:
            raise FormatError(f"its storage {key[:40]!r} is described in two ways")
        return found

    made, at = read_pickle(view, at, _functions(little), persistent)
    keys, at = read_pickle(view, at, {}, nothing)
    if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(storages):
        raise FormatError("its list of storages is not the one that its tensors use")
    for key in keys:
        storage = storages[key]
        assert storage.dtype is not None
        head = data[at : at + 8].tobytes()
        count = struct.unpack("<q" if little else ">q", head)[0] if len(head) == 8 else -1
        if count * storage.dtype.itemsize != storage.bytes:
            raise FormatError(f"its storage {key[:40]!r} has another size than it says")
        at += 8 + storage.bytes
        if at > len(data):
            raise FormatError("its numbers go beyond the end: the file is truncated")
        part = data[at - storage.bytes : at]
        storage.read = partial(_same, part)
    return made


def _same(part: Bytes) -> Bytes:
    return part


def _absent() -> Bytes:
    raise FormatError("it has no numbers for one of its tensors")


# -- what its pickle may call --------------------------------------------------------------
def _functions(little: bool) -> Mapping[Global, Build]:
    utils = "torch._utils"
    tensor = partial(_tensor, little)
    known: dict[Global, Build] = {
        Global("collections", "OrderedDict"): _ordered,
        Global(utils, "_rebuild_tensor"): lambda s, o, size, stride: tensor(s, o, size, stride),
        Global(utils, "_rebuild_tensor_v2"): lambda s, o, size, stride, *_: tensor(
            s, o, size, stride
        ),
        Global(utils, "_rebuild_tensor_v3"): lambda s, o, size, stride, grad, hooks, dtype, *_: (
            tensor(s, o, size, stride, dtype)
        ),
        Global(utils, "_rebuild_parameter"): lambda made, *_: _checked(made),
        Global(utils, "_rebuild_parameter_with_state"): lambda made, *_: _checked(made),
        Global("torch", "Size"): lambda sizes: tuple(sizes),
    }

    def typed(function: Any, kind: Any, arguments: Any, *_: Any) -> Tensor:
        """A tensor with attributes of its own: those say nothing about its numbers."""
        build = known.get(function) if isinstance(function, Global) else None
        if build is None or not isinstance(arguments, tuple) or not str(kind).startswith("torch."):
            raise FormatError(f"its pickle has a tensor of an unknown kind, {_shown(kind)}")
        return _checked(build(*arguments))

    return {**known, Global("torch._tensor", "_rebuild_from_type_v2"): typed}


def _ordered(*given: Any) -> Attributes:
    if not given:
        return Attributes()
    (pairs,) = given
    if not isinstance(pairs, (list, tuple)) or not all(
        isinstance(p, (list, tuple)) and len(p) == 2 and isinstance(p[0], str) for p in pairs
    ):
        raise FormatError("its pickle has an OrderedDict of other things than pairs")
    return Attributes((k, v) for k, v in pairs)


def _shown(value: Any) -> str:
    """A value of the file in a message."""
    return str(value)[:80] if isinstance(value, (Global, int)) else type(value).__name__


def _checked(made: Any) -> Tensor:
    if not isinstance(made, Tensor):
        raise FormatError("its pickle makes a parameter of what is no tensor")
    return made


def _tensor(
    little: bool, storage: Any, offset: Any, sizes: Any, strides: Any, dtype: Any = None
) -> Tensor:
    """A tensor over its storage: each of its elements has a place of its own in there."""
    if not isinstance(storage, Storage) or not _is_count(offset):
        raise FormatError("its pickle has a tensor without a storage")
    for given in (sizes, strides):
        if not isinstance(given, (tuple, list)) or not all(map(_is_count, given)):
            raise FormatError("its pickle has a tensor with impossible sizes or strides")
    if len(sizes) != len(strides) or len(sizes) > 32:
        raise FormatError("its pickle has a tensor with impossible sizes or strides")
    kind = storage.dtype if dtype is None else _dtype(dtype)
    if kind is None:
        raise FormatError("its pickle has a tensor of no number type")
    shape = tuple(sizes)
    count, last = 1, offset
    if 0 in shape:
        count = 0
    else:
        for stride, size in sorted(zip(strides, sizes, strict=True)):
            if size > 1 and stride < count:
                raise FormatError("its pickle has a tensor whose elements overlap")
            last += (size - 1) * stride
            count = max(count, (size - 1) * stride + count)
        if (last + 1) * kind.itemsize > storage.bytes:
            raise FormatError(f"a tensor goes beyond the end of its storage {storage.key[:40]!r}")
    return Tensor(kind, shape, partial(_numbers, storage, kind, little, offset, shape, strides))


def _dtype(given: Any) -> NumberType:
    name = (
        _DTYPES.get(given.name) if isinstance(given, Global) and given.module == "torch" else None
    )
    if name is None:
        raise FormatError(f"its pickle has a tensor of the unknown type {_shown(given)}")
    return number_type(name)


def _numbers(
    storage: Storage,
    kind: NumberType,
    little: bool,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> np.ndarray[Any, Any]:
    if 0 in shape:
        return np.zeros(shape, kind.numpy)
    size = kind.itemsize
    raw = storage.read()[offset * size :]
    flat = raw[: len(raw) // size * size].view(kind.numpy)
    found = np.lib.stride_tricks.as_strided(
        flat, shape, [s * size for s in strides], writeable=False
    )
    return found if little else found.byteswap()


# -- the state dict in a checkpoint --------------------------------------------------------
def _state_dict(found: Any) -> dict[str, Tensor]:
    """The tensors of a state dict, taken out of what a checkpoint wraps it in."""
    for _ in range(4):
        if not isinstance(found, dict):
            break
        tensors = {str(k): v for k, v in found.items() if isinstance(v, Tensor)}
        inner = [found[w] for w in _WRAPPERS if isinstance(found.get(w), dict)]
        if tensors and not (inner and len(tensors) < 4):
            return tensors
        if not inner:
            break
        found = inner[0]
    what = ", ".join(map(str, found))[:200] if isinstance(found, dict) else type(found).__name__
    if re.fullmatch(r"[\w, .]*", what) and isinstance(found, dict):
        raise FormatError(f"it has no state dict: it is a dict of {what or 'nothing'}")
    raise FormatError("it has no state dict; save one: torch.save(model.state_dict(), path)")

"""Files of weights made by hand, sound and hostile, without the frameworks that write them."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym import Network
from neuralsym.layers import get_network, input, linear

VALUES: dict[str, NDArray[np.float32]] = {
    "fc.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "fc.bias": np.array([1, 2, 3], np.float32),
}
KINDS = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "int64": "Long", "int32": "Int", "uint8": "Byte", "bool": "Bool",
}  # fmt: skip
PROTO = b"\x80\x02"


def network() -> Network:
    """Takes VALUES, and only them."""
    made: Network = input(("N", 4)) | linear(3, name="fc") | get_network("small")
    return made


def holds_values(given: Network) -> bool:
    return bool(
        np.array_equal(given.weights["fc/kernel"], VALUES["fc.weight"].T)
        and np.array_equal(given.weights["fc/bias"], VALUES["fc.bias"])
    )


# -- pickles, opcode by opcode -------------------------------------------------------------
def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    size = value.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)


def row(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + row(*arguments) + b"R"


def table(entries: Mapping[str, bytes]) -> bytes:
    return b"}(" + b"".join(text(k) + v for k, v in entries.items()) + b"u"


ORDERED = call(named("collections", "OrderedDict"))


def storage(key: str, kind: str, count: int, *more: bytes) -> bytes:
    where = text("storage"), named("torch", f"{kind}Storage"), text(key), text("cpu")
    return row(*where, number(count), *more) + b"Q"


def tensor(
    held: bytes, sizes: tuple[int, ...], strides: tuple[int, ...] | None = None, offset: int = 0
) -> bytes:
    if strides is None:
        strides = tuple(int(np.prod(sizes[i + 1 :], dtype=int)) for i in range(len(sizes)))
    return call(
        named("torch._utils", "_rebuild_tensor_v2"),
        held,
        number(offset),
        row(*map(number, sizes)),
        row(*map(number, strides)),
        b"\x89",
        ORDERED,
    )


def state_dict(values: Mapping[str, NDArray[Any]], *more: bytes) -> bytes:
    """The pickle of a state dict; storages are numbered."""
    return (
        PROTO
        + table(
            {
                name: tensor(
                    storage(str(i), KINDS[array.dtype.name], array.size, *more), array.shape
                )
                for i, (name, array) in enumerate(values.items())
            }
        )
        + b"."
    )


# -- whole files ---------------------------------------------------------------------------
def torch_zip(
    pickle: bytes, storages: Mapping[str, bytes], *, packing: int = zipfile.ZIP_STORED
) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", packing) as archive:
        archive.writestr("archive/data.pkl", pickle, zipfile.ZIP_STORED)
        archive.writestr("archive/byteorder", b"little", zipfile.ZIP_STORED)
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)
        archive.writestr("archive/version", b"3\n")
    return made.getvalue()


def sound_zip(values: Mapping[str, NDArray[Any]] = VALUES) -> bytes:
    data = {str(i): array.tobytes() for i, array in enumerate(values.values())}
    return torch_zip(state_dict(values), data)


def torch_legacy(pickle: bytes, keys: list[str], data: bytes) -> bytes:
    magic = PROTO + number(0x1950A86A20F9469CFC6C) + b"."
    system = PROTO + table({"little_endian": b"\x88"}) + b"."
    listed = PROTO + b"](" + b"".join(map(text, keys)) + b"e."
    return magic + PROTO + number(1001) + b"." + system + pickle + listed + data


def sound_legacy(values: Mapping[str, NDArray[Any]] = VALUES) -> bytes:
    parts = (struct.pack("<q", array.size) + array.tobytes() for array in values.values())
    keys = [str(i) for i in range(len(values))]
    return torch_legacy(state_dict(values, b"N"), keys, b"".join(parts))


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path

"""Keras's files: .weights.h5 and .keras of Keras 3, and the .h5 of Keras 2 and before.

h5py is an extra. Nothing but plain arrays in the file itself is read: no links, no arrays that
lie in other files.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.files import Bytes
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import number_type
from neuralsym.errors import FormatError, TypeMismatch, WeightsError
from neuralsym.weights.formats.archive import View, read_archive

if TYPE_CHECKING:
    import h5py

_MAGIC = b"\x89HDF\r\n\x1a\n"
_DEEPEST = 64
_MOST_ARRAYS = 100_000
_FILTERS = {"gzip", "shuffle", "fletcher32", "lzf"}
"""How chunks may be packed: what every h5py has in itself, so that no plugin is looked for."""

_ERRORS = (OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError)
"""What h5py raises about a file that is damaged."""


def read_keras(data: Bytes) -> dict[str, Tensor]:
    """The variables in a .keras file, a zip with the weights as one part of it."""
    part = read_archive(data).get("model.weights.h5")
    if part is None:
        raise FormatError("it has no model.weights.h5: this is no file that Keras 3 saved")
    return read_hdf5(part.data())


def read_hdf5(data: Bytes) -> dict[str, Tensor]:
    """The variables by `layer/variable`, numbers where the file has no names for them."""
    try:
        import h5py
    except ImportError:
        raise WeightsError(
            "Keras's files need h5py to be read: pip install 'neuralsym[weights]'"
        ) from None
    if data[:8].tobytes() != _MAGIC:
        raise FormatError("it is no HDF5 file")
    try:
        file = h5py.File(View(data), "r")
        top = _child(file, "model_weights") if "model_weights" in file else file
        if "layer_names" in top.attrs:
            return dict(_legacy(top))
        return dict(_numbered(file, (), set()))
    except _ERRORS as error:
        raise FormatError(f"it is damaged: {str(error)[:200]}") from None


def _legacy(top: Any) -> Iterator[tuple[str, Tensor]]:
    """Keras 2's form: a group for each layer, which lists the names of its variables."""
    for layer in _texts(top.attrs["layer_names"]):
        group = _child(top, layer)
        for name in _texts(group.attrs["weight_names"]):
            found: Any = group
            for part in name.split("/"):
                found = _child(found, part)
            key = name if "/" in name else f"{layer}/{name}"
            yield key, _tensor(key, found)


def _numbered(group: Any, path: tuple[str, ...], seen: set[Any]) -> Iterator[tuple[str, Tensor]]:
    """Keras 3's form: variables by number, the name of a layer as an attribute of `vars`."""
    if len(path) > _DEEPEST or group.id in seen or len(seen) > _MOST_ARRAYS:
        raise FormatError("its groups are nested without end")
    seen.add(group.id)
    for name in group:
        if not path and name == "optimizer":
            continue
        child = _child(group, name)
        if not hasattr(child, "keys"):
            continue
        if name == "vars":
            for number in child:
                key = "/".join((*path, number))
                yield key, _tensor(key, _child(child, number))
        else:
            inner = path if name == "layers" else (*path, _layer_name(child, name))
            yield from _numbered(child, inner, seen)


def _layer_name(group: Any, name: str) -> str:
    """What the layer is called; the group is called after its class."""
    found = _child(group, "vars").attrs.get("name") if "vars" in group else None
    return found if isinstance(found, str) else name


def _texts(values: Any) -> list[str]:
    return [v.decode("utf-8") if isinstance(v, bytes) else str(v) for v in values]


def _child(group: Any, name: str) -> Any:
    """A part of a group that lies in the file itself."""
    import h5py

    link = group.get(name, getlink=True)
    if not isinstance(link, h5py.HardLink):
        raise FormatError(f"its part {name[:80]!r} is a link to another place")
    return group[name]


def _tensor(key: str, data: Any) -> Tensor:
    import h5py

    if not isinstance(data, h5py.Dataset):
        raise FormatError(f"its variable {key!r} is no array")
    if data.external or data.is_virtual:
        raise FormatError(f"its variable {key!r} lies in another file")
    filters = set(data._filters)  # h5py has no public name for all of them
    try:
        kind = number_type(data.dtype.newbyteorder("="))
    except TypeMismatch as error:
        raise FormatError(f"its variable {key!r}: {error}") from None
    if data.shape is None or filters - _FILTERS:
        raise FormatError(f"its variable {key!r} is empty or packed in an unknown way")
    return Tensor(kind, data.shape, partial(_numbers, data, key))


def _numbers(data: h5py.Dataset, key: str) -> NDArray[Any]:
    try:
        array = np.asarray(data[()])
    except _ERRORS as error:
        raise FormatError(f"its variable {key!r} is damaged: {str(error)[:200]}") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)

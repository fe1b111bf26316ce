"""Keras's files: .weights.h5 and .keras of Keras 3, and the .h5 of Keras 2 and before.

Keys are `layer/variable`. Keras 3 names layers but only numbers their variables: `layer/0`.
"""

from __future__ import annotations

from collections.abc import Iterator

from neuralsym.core.files import Bytes
from neuralsym.core.tensor import Tensor
from neuralsym.errors import FormatError
from neuralsym.weights.formats.archive import read_archive
from neuralsym.weights.formats.hdf5 import HDF5, Node

_DEEPEST = 64


def read_keras(data: Bytes) -> dict[str, Tensor]:
    """The variables in a .keras file, a zip with the weights as one part of it."""
    part = read_archive(data).get("model.weights.h5")
    if part is None:
        raise FormatError("it has no model.weights.h5: this is no file that Keras 3 saved")
    return read_hdf5(part.data())


def read_hdf5(data: Bytes) -> dict[str, Tensor]:
    """The variables by `layer/variable`; raises FormatError."""
    file = HDF5(data)
    top = file.root
    parts = top.parts()
    if "model_weights" in parts:  # a whole model rather than its weights
        top = file.node(parts["model_weights"])
        parts = top.parts()
    layers = _listed(top, "layer_names")
    found = _numbered(file, parts) if layers is None else _named(file, parts, layers)
    tensors: dict[str, Tensor] = {}
    for key, tensor in found:
        if key in tensors:
            raise FormatError(f"it has two variables called {key!r}")
        tensors[key] = tensor
    return tensors


def _named(file: HDF5, parts: dict[str, int], layers: list[str]) -> Iterator[tuple[str, Tensor]]:
    """Keras 2's form: a group for each layer, which lists the names of its variables."""
    for layer in layers:
        group = file.node(_part(parts, layer))
        names = _listed(group, "weight_names") or []
        places = {"": group.parts()}
        for name in names:
            outer, _, last = name.rpartition("/")
            inner = _descend(file, places, outer)
            node = file.node(_part(inner, last))
            yield (name if outer else f"{layer}/{name}"), _tensor(name, node)


def _descend(file: HDF5, places: dict[str, dict[str, int]], path: str) -> dict[str, int]:
    """The parts of a group inside of a layer's; each is opened once."""
    known, rest = path, []
    while known not in places:
        known, _, last = known.rpartition("/")
        rest.append(last)
    for name in reversed(rest):
        parts = places[known]
        known = f"{known}/{name}" if known else name
        places[known] = file.node(_part(parts, name)).parts()
    return places[path]


def _listed(node: Node, name: str) -> list[str] | None:
    """A list of names, which Keras cuts into `name0`, `name1`, ... where it is long."""
    if name in node.texts:
        return node.texts[name]
    pieces: list[str] = []
    number = 0
    while (piece := node.texts.get(f"{name}{number}")) is not None:
        pieces += piece
        number += 1
    return pieces if number else None


def _part(parts: dict[str, int], name: str) -> int:
    if name not in parts:
        raise FormatError(f"it lists {name!r}, which is not there")
    return parts[name]


def _numbered(file: HDF5, parts: dict[str, int]) -> Iterator[tuple[str, Tensor]]:
    """Keras 3's form: variables by number, the name of a layer as an attribute of `vars`."""
    stack: list[tuple[tuple[str, ...], str, dict[str, int]]] = [((), "", parts)]
    while stack:
        path, name, parts = stack.pop()
        holder = file.node(parts["vars"]) if "vars" in parts else None
        if name not in ("", "layers"):
            # The group is called after its class; `vars` says what the layer is called.
            called = holder.texts.get("name") if holder is not None else None
            path = (*path, called[0] if called else name)
            if len(path) > _DEEPEST:
                raise FormatError(f"its groups are nested in more than {_DEEPEST} others")
        for number, at in holder.parts().items() if holder is not None else ():
            key = "/".join((*path, number))
            file.spend(len(key))
            yield key, _tensor(key, file.node(at))
        for inner, at in parts.items():
            if inner == "vars" or (name == "" and inner == "optimizer"):
                continue
            node = file.node(at)
            if not node.is_array:
                stack.append((path, inner, node.parts()))


def _tensor(key: str, node: Node) -> Tensor:
    if not node.is_array:
        raise FormatError(f"its variable {key!r} is no array")
    try:
        return node.tensor()
    except FormatError as error:
        raise FormatError(f"its variable {key!r}: {error}") from None

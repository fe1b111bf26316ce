"""`neuralsym run`, `summary` and `compare`: what is done with a model file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from neuralsym.cli.output import Progress, check_place
from neuralsym.core.types import TensorType
from neuralsym.errors import BadAttribute, FormatError, InputError, did_you_mean, which
from neuralsym.network import Network, load

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")


def open_network(model: str) -> Network:
    """A network from a file, or from the zoo with random weights (said on stderr)."""
    from neuralsym import zoo

    names = zoo.models()
    if model in names and not Path(model).exists():
        print(f"{model}: from the zoo, with random weights", file=sys.stderr)
        return zoo.create(model)
    path = Path(model)
    if not path.exists() and path.suffix not in (".onnx", ".flow"):
        hint = did_you_mean(model, names)
        raise FormatError(f"{model!r} is neither a file nor a network of the zoo{hint}")
    return load(path)


def summary(given: argparse.Namespace) -> int:
    open_network(given.model).summary()
    return 0


def run(given: argparse.Namespace) -> int:
    check_place(given.output)
    network = open_network(given.model)
    feed = read_inputs(network, given)
    with Progress("compiling") as progress:
        network.compile(threads=given.threads, progress=progress)
    results = network.run(feed)
    for name, value in results.items():
        show(name, value, given.top, network)
    if given.output:
        write_outputs(Path(given.output), results)
        print(f"wrote {given.output}")
    return 0


def warmup(given: argparse.Namespace) -> int:
    network = open_network(given.model)
    with Progress("compiling") as progress:
        network.compile(threads=given.threads, progress=progress)
    if network.warmup(**sizes(given.dim)):
        print(f"{given.model}: the compiled program is stored; load() of this file maps it")
    else:
        print(f"{given.model}: its kernels are stored; its program is planned anew in each process")
    return 0


def write_outputs(path: Path, results: dict[str, Any]) -> None:
    """Write an .npz, to a temporary name first."""
    partial = path.with_name(path.name + ".partial.npz")
    try:
        np.savez(partial, **results)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def show(name: str, value: Any, top: int | None, network: Network) -> None:
    """One output: its largest values with their places, or a few of its numbers."""
    if not isinstance(value, np.ndarray):
        print(f"{name}: {value}")
        return
    print(f"{name}: {value.dtype}{list(value.shape)}")
    if top is None or value.ndim == 0 or value.dtype.kind in "OUS":
        print(np.array2string(value, threshold=20, edgeitems=3, precision=6))
        return
    from neuralsym import zoo

    labels: Sequence[str] = zoo.class_names(network)
    if len(labels) != value.shape[-1]:
        labels = [f"class {i}" for i in range(value.shape[-1])]
    for i, row in enumerate(value.reshape(-1, value.shape[-1])):
        best = np.argsort(-row, kind="stable")[:top]
        print(f"  [{i}] " + "  ".join(f"{labels[k]}: {row[k]:.6g}" for k in best))


def compare(given: argparse.Namespace) -> int:
    from neuralsym import testing

    network = open_network(given.model)
    feed = read_inputs(network, given)
    installed = find_spec("onnxruntime") is not None
    reference: testing.Reference = given.reference or ("onnxruntime" if installed else "onnx")
    with Progress("compiling") as progress:
        network.compile(progress=progress)
    found = testing.compare(network, feed, reference, given.rtol, given.atol)
    print(f"{network.name}: compared with {'onnx reference' if reference == 'onnx' else reference}")
    for agreement in found:
        print(f"  {agreement}")
    return 0 if all(a.holds for a in found) else 1


def read_inputs(network: Network, given: argparse.Namespace) -> dict[str, Any]:
    """The feed that the command line names: files by input, or random values."""
    from neuralsym import testing

    files: list[str] = given.input or []
    if not files:
        return dict(testing.random_feed(network, getattr(given, "seed", 0), sizes(given.dim)))
    if given.dim:
        raise BadAttribute("--dim sizes random inputs; files have sizes of their own")
    ports = {p.name: p for p in network.inputs}
    needed = [n for n, p in ports.items() if not p.default]
    feed: dict[str, Any] = {}
    for text in files:
        name, equals, file = text.partition("=")
        if not equals or name not in ports:
            if len(needed) != 1:
                raise InputError(
                    f"{text}: the model has {len(needed)} inputs ({', '.join(needed)}); "
                    "say which: --input NAME=FILE"
                )
            if equals and not Path(text).exists():
                raise InputError(f"{text}: the model has no input {name!r}{which(name, ports)}")
            name, file = needed[0], text
        if name in feed:
            raise InputError(f"{text}: input {name!r} is given twice")
        feed[name] = _read(Path(file), network, name)
    return feed


def _read(path: Path, network: Network, name: str) -> NDArray[Any]:
    if path.is_dir() or not path.exists():
        raise FormatError(f"{path}: {'a folder' if path.is_dir() else 'no such file'}")
    if path.suffix.lower() in IMAGES:
        return _image(path, network, name)
    try:
        with path.open("rb") as file:
            array: NDArray[Any] = np.load(file, allow_pickle=False)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, BadZipFile):
        raise FormatError(
            f"{path} is neither a .npy file of numbers (numpy.save writes one) nor an image: "
            f"{', '.join(IMAGES)}"
        ) from None
    if not isinstance(array, np.ndarray):
        raise FormatError(f"{path} holds several arrays; give a .npy file for each input")
    return array


def _image(path: Path, network: Network, name: str) -> NDArray[Any]:
    """An image as the input takes it: the preprocessing that the file names, at its size."""
    from neuralsym import zoo

    port = next(p for p in network.inputs if p.name == name)
    shape = port.shape if isinstance(port.type, TensorType) else None
    if shape is None or len(shape) != 4:
        raise InputError(f"{path}: input {port} takes no image")
    return zoo.preprocess_for(network, path)


def sizes(dims: list[str]) -> dict[str, int]:
    """What `--dim NAME=SIZE ...` says."""
    found: dict[str, int] = {}
    for text in dims:
        name, equals, size = text.partition("=")
        if not equals or not size.isdigit():
            raise BadAttribute(f"--dim {text}: write NAME=SIZE, such as H=224")
        found[name] = int(size)
    return found

"""`neuralsym convert`, and the --dtype of `export`: other formats and other number types."""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from neuralsym.cli.models import IMAGES, open_network
from neuralsym.cli.output import Progress
from neuralsym.errors import BadAttribute, FormatError
from neuralsym.network import Network

LABELS = "labels"
"""The array of an .npz file of calibration data that holds the right classes."""


def convert(given: argparse.Namespace) -> int:
    network = in_dtype(open_network(given.model), given)
    report_files(network.save(given.output, opset=given.opset))
    return 0


def in_dtype(network: Network, given: argparse.Namespace) -> Network:
    """The network in the number type that the command line asks for; its report is printed."""
    if given.calibrate and given.dtype != "int8":
        raise BadAttribute("--calibrate belongs to --dtype int8")
    if given.dtype == "float16":
        return network.to_float16()
    if given.dtype != "int8":
        return network
    if not given.calibrate:
        raise BadAttribute(
            "--dtype int8 needs --calibrate DATA: a folder of images, an .npy file of samples, or "
            "an .npz file of samples by input"
        )
    from neuralsym.quantize import quantize_static

    data, labels = _samples(Path(given.calibrate), network)
    with Progress("quantising"):
        made = quantize_static(network, data, method=given.method, labels=labels)
    print(made.report)
    return made.network


def report_files(written: list[Path]) -> None:
    """Say which files there are now."""
    for file in written:
        print(f"{file} {file.stat().st_size:,} bytes")


def _samples(path: Path, network: Network) -> tuple[Any, Any]:
    """Calibration data, and the right classes where they are given."""
    if path.is_dir():
        from neuralsym import zoo

        images = sorted(p for p in path.rglob("*") if p.suffix.lower() in IMAGES)
        if not images:
            raise FormatError(f"{path} holds no images: {', '.join(IMAGES)}")
        return zoo.preprocess_for(network, images), None
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded, None
            arrays = {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise FormatError(f"there is no file or folder {path}") from None
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        reason = "" if "pickle" in str(error) else f": {error}"  # numpy says how to load one
        raise FormatError(
            f"{path} is no .npy or .npz file of numbers, and no folder of images{reason}"
        ) from None
    labels = arrays.pop(LABELS, None)
    return arrays, labels

"""`neuralsym zoo` and `neuralsym export`: what the zoo has, and its networks as files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neuralsym import zoo
from neuralsym.cli.convert import in_dtype, report_files
from neuralsym.cli.output import Progress
from neuralsym.errors import BadAttribute, FormatError
from neuralsym.summary import table

ORDERS: dict[str, Callable[[zoo.Info], Any]] = {
    "name": lambda info: info.name,
    "parameters": lambda info: info.params,
    "macs": lambda info: info.macs,
    "input": lambda info: (info.input_shape[1:], info.name),
    "accuracy": lambda info: (-(info.top1 or 0), info.name),
}
"""What `neuralsym zoo list --sort` takes; the most accurate come first, else the smallest."""


def list_models(given: argparse.Namespace) -> int:
    names = zoo.models(given.pattern)
    if not names:
        print(f"neuralsym: no network of the zoo is called like {given.pattern!r}", file=sys.stderr)
        return 1
    found = [zoo.info(name) for name in names]
    found.sort(key=ORDERS[given.sort])
    rows = [
        (
            info.name,
            f"{info.params:,}",
            f"{info.constants:,}" if info.constants else "",
            f"{info.macs / 1e6:,.0f}",
            "x".join(map(str, info.input_shape)),
            info.accuracy,
        )
        for info in found
    ]
    head = ("network", "parameters", "constants", "MMACs", "input", "top-1 / top-5")
    print("\n".join(table(head, rows, right=(1, 2, 3))))
    return 0


def show_model(given: argparse.Namespace) -> int:
    info = zoo.info(given.name)
    rows = [(name.replace("_", " "), _text(value)) for name, value in info.facts()]
    if info.class_names:
        rows.append(("class names", f"{', '.join(info.class_names[:3])}, ..."))
    print("\n".join(table(("network", info.name), rows)))
    return 0


def _text(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value)


def export(given: argparse.Namespace) -> int:
    path = Path(given.output)
    if path.is_dir():
        raise FormatError(f"{path} is a folder: -o takes the name of a file, such as {path}/m.onnx")
    batch: int | str = int(given.batch) if given.batch.isdigit() else given.batch
    if batch == 0:
        raise BadAttribute("--batch 0: a batch has at least one picture")
    if isinstance(batch, str) and not batch.isidentifier():
        raise BadAttribute(f"--batch {batch}: give a size, or a name to leave it free, such as N")
    options: dict[str, Any] = {"batch": batch, "softmax": given.softmax, "seed": given.seed}
    if given.classes:
        options["classes"] = given.classes
    if given.size:
        options["size"] = given.size
    network = zoo.create(given.name, **options)
    if given.weights:
        print(f"{given.weights}: {network.load_weights(given.weights)}")
    with Progress("drawing weights") as progress:
        names = list(network.weights)
        for i, name in enumerate(names):
            progress(i, len(names), name)
            network.weights.tensor(name).value  # noqa: B018  (drawn here, where it shows)
    report_files(in_dtype(network, given).save(path, opset=given.opset))
    return 0

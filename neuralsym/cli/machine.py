"""`neuralsym doctor` and `neuralsym cache`: the machine, the versions, the compiled kernels."""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from neuralsym.cpu.machine import Target
from neuralsym.cpu.options import Options
from neuralsym.cpu.store import Store
from neuralsym.cpu.threads import default_threads
from neuralsym.errors import BadAttribute, NeuralsymError
from neuralsym.summary import table

PACKAGES = ("neuralsym", "numpy", "onnx", "numba", "llvmlite", "onnxruntime", "pillow")


def doctor(given: argparse.Namespace) -> int:
    """Print what matters for running on this machine, and compute a small network.

    With --ops, the table of operators instead.
    """
    if given.ops:
        from neuralsym.cli import operators

        return operators.show(given)
    if given.cases or given.write:
        raise BadAttribute("--cases and --write belong to --ops: neuralsym doctor --ops")
    rows = [("Python", platform.python_version()), ("system", platform.platform(terse=True))]
    rows += [(name, _version(name)) for name in PACKAGES]
    target = Target.of()
    rows.append(("CPU", f"{target.cpu}, vectors of {8 * target.vector_bytes} bits"))
    rows.append(("threads", f"{default_threads()} of {os.cpu_count()} processors"))
    store = Store.of(Options().cache_dir)
    rows.append(("kernel cache", _store_text(store)))
    worked, text = _self_test()
    rows.append(("self test", text))
    print("\n".join(table(("what", "found"), rows)))
    return 0 if worked else 1


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _store_text(store: Store) -> str:
    found = store.info()
    if found.path is None:
        return "off: every process compiles anew; set NEURALSYM_CACHE_DIR to a writable folder"
    return f"{found.path} ({found.entries} kernels, {found.bytes / 1e6:.1f} MB)"


def _self_test() -> tuple[bool, str]:
    """Compile and run x * 2 + 1."""
    from neuralsym import Graph, Network, ops

    x = ops.variable("x", (3,))
    try:
        result = Network(Graph({"y": x * 2 + 1}))(np.arange(3, dtype=np.float32))
    except NeuralsymError as error:
        return False, f"failed: {error}"
    right = bool(np.array_equal(result, [1, 3, 5]))
    return right, "a compiled network computes" if right else f"wrong result {result}"


def cache_info(given: argparse.Namespace) -> int:
    print(_store_text(Store.of(Options().cache_dir)))
    return 0


def cache_clear(given: argparse.Namespace) -> int:
    store = Store.of(Options().cache_dir)
    before = store.info()
    store.clear()
    print(f"removed {before.entries} kernels ({before.bytes / 1e6:.1f} MB)")
    return 0

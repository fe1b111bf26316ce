"""Lower layers never import higher ones, files stay short, and importing the package is light."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "neuralsym"

# Each row may import itself and the rows above it.
ORDER = (
    ("errors", "dtypes"),
    ("core",),
    ("ops",),
    ("rewrite",),
    ("passes",),
    ("cpu",),
    ("engines",),
    ("summary", "ports", "weights", "chart", "edit"),
    ("draw",),
    ("network",),
    ("layers",),
    ("zoo",),
    ("testing", "backend", "myelin", "quantize"),
    ("peers",),
    ("measure",),
    ("cli", "__main__"),
)
RANK = {part: rank for rank, row in enumerate(ORDER) for part in row}

# Notations are tables over the operators: these engines know nothing of passes and kernels.
NARROW = {
    f"neuralsym.engines.{name}": {"errors", "dtypes", "core", "ops"}
    for name in ("onnx", "flow", "latex", "dot", "tensorflow")
}
# And this one is written in terms of another.
BESIDE = {"neuralsym.engines.tensorflow": "neuralsym.engines.flow"}

# A registry loads what fills it when it is first asked, and names nothing of it; a graph is drawn
# by what stands above it: the upward imports that can be. Each with its reason.
FILLS = {
    ("neuralsym.core.registry", "neuralsym.ops"): "defines the operators that symbols' + - * name",
    ("neuralsym.core.graph", "neuralsym.draw"): "draws a graph that a notebook shows",
}

# Imports upward that only a type checker sees (`if TYPE_CHECKING:`), each with its reason.
# They make no cycle at run time, yet each ties a lower layer's wording to a higher one.
TYPES_ONLY: dict[tuple[str, str], str] = {}

LONGEST = 500


class Import(NamedTuple):
    """One import statement: who imports what, where, and whether only for types."""

    module: str
    target: str
    line: int
    types_only: bool


def sources() -> Iterator[tuple[str, Path]]:
    """Every module of the package by its dotted name; the zoo through its link."""
    for path in sorted(_walk(PACKAGE)):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _walk(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():  # not rglob: it does not follow links before Python 3.13
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _walk(entry)
        elif entry.suffix == ".py":
            yield entry


def imports(module: str, path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                start = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*start, base] if base else start)
            targets = [f"{base}.{alias.name}" for alias in node.names]
        for target in targets:
            if target == "neuralsym" or target.startswith("neuralsym."):
                yield Import(module, target, node.lineno, id(node) in guarded)


def part_of(dotted: str) -> str | None:
    """The row entry that a dotted name belongs to; None for the package itself."""
    homes = importlib.import_module("neuralsym")._HOMES
    parts = dotted.split(".")
    if len(parts) > 1 and parts[1] in homes and parts[1] not in RANK:
        parts = homes[parts[1]].split(".")  # a public name: judged by the module it lives in
    if len(parts) == 1:
        return None
    if parts[1] in RANK:
        return parts[1]
    known = importlib.import_module("neuralsym").__all__
    return "errors" if parts[1] in known else parts[1]


def upward(found: Import) -> bool:
    source, target = part_of(found.module), part_of(found.target)
    if source is None or target is None:
        return False  # the package's own __init__ names everything, lazily
    return RANK[target] > RANK[source]


ALL_IMPORTS = [found for module, path in sources() for found in imports(module, path)]


def test_every_module_has_a_place_in_the_order() -> None:
    unplaced = {module for module, _ in sources() if (part_of(module) or "errors") not in RANK}
    assert not unplaced, f"give these a row in ORDER: {sorted(unplaced)}"
    unknown = {i.target for i in ALL_IMPORTS if (part_of(i.target) or "errors") not in RANK}
    assert not unknown, f"imported, but no part of neuralsym: {sorted(unknown)}"


def test_lower_layers_never_import_higher_ones() -> None:
    wrong = [
        f"{found.module}:{found.line} imports {found.target}"
        for found in ALL_IMPORTS
        if upward(found) and not found.types_only and (found.module, found.target) not in FILLS
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_for_types_alone_point_upward_only_where_listed() -> None:
    seen = {(i.module, i.target) for i in ALL_IMPORTS if upward(i) and i.types_only}
    assert seen == set(TYPES_ONLY)


def test_notation_engines_know_operators_only() -> None:
    wrong = []
    for found in ALL_IMPORTS:
        for engine, allowed in NARROW.items():
            if found.module != engine and not found.module.startswith(engine + "."):
                continue
            homes = (engine, BESIDE.get(engine, engine))
            inside = any(found.target == h or found.target.startswith(h + ".") for h in homes)
            if not inside and part_of(found.target) not in {*allowed, None}:
                wrong.append(f"{found.module}:{found.line} imports {found.target}")
    assert not wrong, "\n".join(wrong)


def test_public_names_are_the_same_for_type_checkers_and_at_run_time() -> None:
    package = importlib.import_module("neuralsym")
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (guard,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: f"neuralsym.{alias.name}" if node.module == "neuralsym" else node.module
        for node in guard.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == package._HOMES
    eager = {name for name in vars(package) if name in package.__all__ and name not in typed}
    assert eager | set(typed) == set(package.__all__)
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        _ = package.nonesuch


@pytest.mark.parametrize("folder", ["neuralsym", "zoo", "tests", "examples"])
def test_no_file_is_too_long(folder: str) -> None:
    lengths = {
        path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / folder).rglob("*.py")
    }
    assert not {str(path): n for path, n in lengths.items() if n > LONGEST}


def test_modules_say_what_they_are_for() -> None:
    silent = [
        module
        for module, path in sources()
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent


def test_importing_the_package_is_light() -> None:
    program = (
        "import sys, time; start = time.perf_counter(); import neuralsym;"
        "print(time.perf_counter() - start, *sorted(m for m in sys.modules if '.' not in m))"
    )
    seconds = []
    for _ in range(3):  # the best of three: other processes may hold the machine
        run = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
        )
        took, *loaded = run.stdout.split()
        seconds.append(float(took))
        assert not {"onnx", "numba", "llvmlite", "onnxruntime"} & set(loaded)
    assert min(seconds) < 0.2


def test_no_module_hides_an_operator_function() -> None:
    """A module that is imported late takes its name in the package: `ops.cast` stays a function."""
    from neuralsym import ops

    functions = (PACKAGE / "ops" / "__init__.pyi").read_text(encoding="utf-8")
    for path in (PACKAGE / "ops").glob("*.py"):
        if f"def {path.stem}(" in functions:
            importlib.import_module(f"neuralsym.ops.{path.stem}")
            assert callable(getattr(ops, path.stem)), path.name

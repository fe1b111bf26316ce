"""A wheel built from a clone holds the whole package, the linked zoo as real files."""

from __future__ import annotations

import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import neuralsym

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone") / "neuralsym"
    # A checkout that another user owns (a container's mount) is refused by git unless told.
    safe = ["-c", "safe.directory=*"]
    run("git", *safe, "clone", "--quiet", "--no-hardlinks", ROOT, folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", out, ".", cwd=clone)
    (built,) = out.glob("*.whl")
    assert built.name == f"neuralsym-{neuralsym.__version__}-py3-none-any.whl"
    return zipfile.Path(built)


def test_wheel_holds_the_linked_zoo_as_real_files(clone: Path, wheel: zipfile.Path) -> None:
    link = clone / "neuralsym" / "zoo"
    assert link.is_symlink()
    assert link.readlink() == Path("../zoo")
    files = [path for path in (clone / "zoo").iterdir() if path.is_file()]
    sources = {path.name: path.read_bytes() for path in files}
    assert {"__init__.py", "imagenet.txt", "counts.txt"} <= sources.keys()
    for name, content in sources.items():
        assert (wheel / "neuralsym" / "zoo" / name).read_bytes() == content
    modes = [entry.external_attr >> 16 for entry in wheel.root.infolist()]
    assert not any(stat.S_ISLNK(mode) for mode in modes)


def test_wheel_holds_every_module_and_nothing_else(clone: Path, wheel: zipfile.Path) -> None:
    packed = {name for name in wheel.root.namelist() if ".dist-info/" not in name}
    wanted = {
        path.relative_to(clone).as_posix()
        for top in (clone / "neuralsym", clone / "neuralsym" / "zoo")
        for path in top.rglob("*")
        if path.suffix in {".py", ".pyi"} or path.name == "py.typed"
    }
    assert wanted <= packed
    assert {name.split("/")[0] for name in packed} == {"neuralsym"}


def test_wheel_carries_its_licence_and_command(wheel: zipfile.Path) -> None:
    (info,) = (entry for entry in wheel.iterdir() if entry.name.endswith(".dist-info"))
    metadata = (info / "METADATA").read_text(encoding="utf-8")
    assert "License-Expression: Apache-2.0" in metadata
    assert "Apache License" in (info / "licenses" / "LICENSE").read_text(encoding="utf-8")
    commands = (info / "entry_points.txt").read_text(encoding="utf-8")
    assert "neuralsym = neuralsym.cli:main" in commands

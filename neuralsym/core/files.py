"""Files of the user's: read or mapped with an error that says why not, written so as to lose none.

A file is written to a temporary name beside its target and renamed when it is complete.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neuralsym.errors import FormatError, at_line, user_line

Bytes = NDArray[np.uint8]
"""A one-dimensional array of uint8."""

_MAPPED = 2**24
"""Files from this size on are mapped; smaller ones are read, so that they may change later."""


def path_of(given: object, what: str) -> Path:
    """What was given as a path; TypeError where it is none. what: the beginning of the message."""
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"{what}, not {type(given).__name__}{at_line(user_line())}")
    return Path(given)


def read_file(path: Path, suffix: str) -> Bytes:
    """The bytes of a file, read-only, mapped where it is large.

    `suffix` names the files to propose where `path` is a folder. Raises FormatError.
    """
    try:
        if path.is_dir():
            models = sorted(path.glob(f"*{suffix}"))
            hint = f", such as {models[0]}" if models else ""
            raise FormatError(f"{path} is a folder; give the path of a model in it{hint}")
        if path.is_char_device():  # which need not end
            raise FormatError(f"{path} is a device, not a file")
        if path.stat().st_size >= _MAPPED:
            return map_file(path)
        return np.frombuffer(path.read_bytes(), np.uint8)
    except FileNotFoundError:
        near = f" in {Path.cwd()}" if not path.is_absolute() else ""
        raise FormatError(f"there is no file {path}{near}") from None
    except FormatError:
        raise
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise FormatError(f"{os.fspath(path)!r} cannot be read: {reason}") from None


def map_file(path: Path) -> Bytes:
    """A file as read-only bytes, mapped; raises OSError."""
    if path.stat().st_size == 0:
        return np.zeros(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, "r"))


def target_of(path: Path, example: str) -> Path:
    """Where a file called `path` is to lie, links followed; FormatError where it cannot.

    `example` is a name to propose in place of a folder: model.onnx.
    """
    if "\0" in str(path):
        raise FormatError(f"{str(path)!r} is no name of a file: it holds a zero byte")
    target = Path(os.path.realpath(path))
    if os.path.isdir(target):  # noqa: PTH112  (no error for a name that cannot be)
        raise FormatError(f"{path} is a folder; give the name of a file, such as {path}/{example}")
    if not os.path.isdir(target.parent):  # noqa: PTH112
        raise FormatError(f"{path}: there is no folder {target.parent}; make it first")
    return target


@contextmanager
def replacing(path: Path, targets: list[Path]) -> Iterator[list[BufferedWriter]]:
    """Open files that take the place of `targets` when all of them are complete.

    Raises FormatError, naming `path`, when they cannot be written; what was there is there still.
    """
    temporary = [t.with_name(f".{t.name}.{os.getpid()}.{secrets.token_hex(4)}") for t in targets]
    files: list[BufferedWriter] = []
    try:
        for name in temporary:
            files.append(name.open("xb"))
        yield files
        for file in files:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        _rename_all(temporary, targets)
    except OSError as error:
        raise FormatError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        for file in files:
            file.close()
        for name in temporary:
            with suppress(OSError):
                name.unlink()


def _rename_all(sources: list[Path], targets: list[Path]) -> None:
    """Rename in order; when one fails, what was at the targets before comes back."""
    kept: list[tuple[Path, Path | None]] = []
    try:
        for source, target in zip(sources, targets, strict=True):
            backup = None
            if len(targets) > 1 and target.exists():
                backup = source.with_name(source.name + ".old")
                os.link(target, backup)
            kept.append((target, backup))
            source.replace(target)
    except OSError:
        for target, backup in kept:
            if backup is not None:
                backup.replace(target)
        raise
    finally:
        for _, backup in kept:
            if backup is not None:
                backup.unlink(missing_ok=True)

"""What the commands say and write: a progress line while a user waits, and files of results."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType

from neuralsym.errors import FormatError

DELAY = 1.0
"""Seconds before a progress line appears; shorter work needs none."""


def check_place(file: str | None) -> None:
    """FormatError where a file cannot be written there, said before the work and not after it."""
    if not file:
        return
    path = Path(file)
    if path.is_dir():
        raise FormatError(f"{file} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise FormatError(f"{file}: there is no folder {path.parent.absolute()}; make it first")


class Progress:
    """A line on the terminal's error stream that says what is done; call it with each step."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.began = time.monotonic()
        self.shown = False
        self.live = sys.stderr.isatty()

    def __call__(self, done: int, total: int, name: str = "") -> None:
        if not self.live or time.monotonic() - self.began < DELAY:
            return
        share = f"{done}/{total}" if total else str(done)
        line = f"{self.what} {share} {name}"[:78]
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
        self.shown = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

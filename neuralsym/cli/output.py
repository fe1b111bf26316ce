"""What the command shows while a user waits: a progress line, silent when not a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

DELAY = 1.0
"""Seconds before a progress line appears; shorter work needs none."""


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

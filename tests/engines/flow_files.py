"""Whole .flow files in hexadecimal, written down from the format's tables, byte by byte."""

from __future__ import annotations

from pathlib import Path

FILES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parent / "flows").glob("*.hex"))
}


def as_bytes(annotated: str) -> bytes:
    """The bytes of a file from its annotated form."""
    return bytes.fromhex(" ".join(line.partition("#")[0] for line in annotated.splitlines()))

"""How wide a text is: an estimate that no usual sans-serif font exceeds."""

from __future__ import annotations

import unicodedata

SIZE, SMALL, TITLE = 12.0, 10.5, 16.0
"""Pixels: letters of the titles of boxes, of the lines under them, and of the whole's title."""

FONT = "Helvetica,Arial,'DejaVu Sans',sans-serif"

# DejaVu Sans, the widest of these fonts, in thousandths of the letter size.
_WIDTHS = {
    **dict.fromkeys("ijl|", 340),
    **dict.fromkeys(" .,:;'!", 360),
    **dict.fromkeys("frtIJ()[]/\\-", 420),
    **dict.fromkeys("sczkvxy_", 570),
    **dict.fromkeys("mwMW@%—", 1000),
    **dict.fromkeys("ABCDEFGHKLNOPQRSTUVXYZ", 770),
    **dict.fromkeys("+=<>~×→", 840),
    "…": 1000,
    "·": 330,
}
_BOLD = 1.12


def width(text: str, size: float, bold: bool = False) -> float:
    """Pixels of a line of text."""
    units = sum(_WIDTHS[c] if c in _WIDTHS else _other(c) for c in text)
    return units * size / 1000 * (_BOLD if bold else 1.0)


def _other(character: str) -> int:
    if character.isascii():
        return 640
    if unicodedata.combining(character):
        return 0
    return 1050 if unicodedata.east_asian_width(character) in "WF" else 900

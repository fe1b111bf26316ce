"""The table of all layers that are drawn: the name of a layer, and a strategy of its settings.

A new family of layers has a file `drawn_<family>.py` with a TABLE like those here, and is joined
below; `test_drawn_layers.py` does the rest.
"""

from __future__ import annotations

import drawn_elementwise
import drawn_sequence
import drawn_spatial
from drawn_case import Strategy

TABLE: dict[str, Strategy] = {
    **drawn_spatial.TABLE,
    **drawn_elementwise.TABLE,
    **drawn_sequence.TABLE,
}

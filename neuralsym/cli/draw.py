"""`neuralsym draw`: a picture of a model."""

from __future__ import annotations

import argparse

from neuralsym.cli.models import open_network
from neuralsym.cli.output import check_place


def draw(given: argparse.Namespace) -> int:
    check_place(given.output)
    path = open_network(given.model).plot(given.output, depth=given.depth)
    print(f"wrote {path}")
    return 0

"""The loop of pools over more than three spatial axes."""

from __future__ import annotations

from typing import Any

import numpy as np


def pool_deep(
    x: Any,
    y: Any,
    indices: Any,
    geometry: Any,
    mode: int,
    padding_counts: int,
    p: float,
    by_columns: int,
    lowest: float,
    worker: int,
    workers: int,
) -> None:
    """x, y and indices [planes, places], indices [0, 0] if they are not wanted; see pool_loop."""
    axes = geometry.shape[1]
    taps = 1
    for axis in range(axes):
        taps *= geometry[2, axis]
    places = y.shape[1]
    total = y.shape[0] * places
    for unit in range(total * worker // workers, total * (worker + 1) // workers):
        plane, place = unit // places, unit % places
        best, at = lowest, -1
        value = 0.0
        count = 0
        for tap in range(taps):
            rest, rest_k = place, tap
            inside, padded = True, True
            here, stride = 0, 1
            for axis in range(axes - 1, -1, -1):
                z = rest % geometry[1, axis] * geometry[3, axis] - geometry[5, axis]
                z += rest_k % geometry[2, axis] * geometry[4, axis]
                rest //= geometry[1, axis]
                rest_k //= geometry[2, axis]
                size = geometry[0, axis]
                padded = padded and z < size + geometry[6, axis]
                inside = inside and 0 <= z < size
                here += z * stride
                stride *= size
            if not inside:
                count += padding_counts if padded else 0
                continue
            count += 1
            found = x[plane, here]
            if mode == 0:
                # NaN is kept, and the first of equals.
                if at < 0 or found > best or (found != found and best == best):
                    best, at = found, here
            elif mode == 1:
                value += found
            else:
                value += abs(found) ** p
        if mode == 0:
            y[plane, place] = best
            if indices.shape[0]:
                if by_columns and at >= 0:
                    at = _by_columns(at, geometry)
                indices[plane, place] = plane * x.shape[1] + at if at >= 0 else -1
        elif mode == 1:
            y[plane, place] = value / count
        else:
            y[plane, place] = value ** (1 / p)


def _by_columns(at: Any, geometry: Any) -> Any:
    """A flat place counted with the first axis fastest."""
    found = np.int64(0)
    stride = 1
    for axis in range(geometry.shape[1]):
        stride *= geometry[0, axis]
    for axis in range(geometry.shape[1] - 1, -1, -1):
        stride //= geometry[0, axis]
        found += at % geometry[0, axis] * stride
        at //= geometry[0, axis]
    return found

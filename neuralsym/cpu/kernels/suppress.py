"""NonMaxSuppression: boxes kept class by class, the best first, unless they overlap a kept one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralsym.cpu.arrays import Direction
from neuralsym.cpu.kernels.select import Chosen
from neuralsym.cpu.library import Library
from neuralsym.cpu.program import Step
from neuralsym.errors import ExecutionError

CHUNK = 32
"""Kept boxes that a candidate is compared with at once."""


class NonMaxSuppression(Chosen):
    """The boxes of each class in the order of their scores; of equal scores the lower index first.

    Without a score threshold every box is a candidate; a score that is NaN comes last. Boxes
    overlap by more than the threshold, in float32, as both of ONNX's implementations compute.
    """

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        boxes, scores = (self.ordered(v) for v in values[:2])
        most, overlap, least = (
            default if value is None or not value.size else value.reshape(-1)[0]
            for value, default in zip(
                (*values[2:], None, None, None)[:3], (0, 0.0, -np.inf), strict=True
            )
        )
        batches, count, _ = boxes.shape
        if scores.shape[0] != batches or scores.shape[2] != count:
            raise ExecutionError(
                f"boxes {list(boxes.shape)} and scores {list(scores.shape)} do not fit: "
                "[batches, boxes, 4] and [batches, classes, boxes] are needed"
            )
        if not 0 <= overlap <= 1:
            raise ExecutionError(f"iou_threshold is {overlap}, it must lie in [0, 1]")
        classes = scores.shape[1]
        limit = min(max(int(most), 0), count)
        if not limit or not batches * classes:
            return [np.empty((0, 3), np.int64)]
        found = np.empty((batches * classes * limit, 3), np.int64)
        total, heap = np.zeros(1, np.int64), np.empty(count, np.uint64)
        given = len(values) > 4 and values[4] is not None and values[4].size > 0
        corners = np.empty((5, limit), boxes.dtype)
        operands: list[tuple[Any, Direction]] = [
            *((boxes, "in"), (scores, "in"), (scores.view(np.uint32), "in")),
            *((found, "out"), (total, "out"), (heap, "out"), (corners, "out")),
        ]
        options = [limit, float(overlap), float(least), given, bool(step.attr("center_point_box"))]
        self.call(_select, operands, options)
        return [found[: int(total[0])].copy()]


LOW = np.uint64(0xFFFFFFFF)
SIGN, SIZE, INFINITY = np.uint64(0x80000000), np.uint64(0x7FFFFFFF), np.uint64(0x7F800000)


def _entry(bits: Any, i: int) -> Any:
    """A candidate as one number: the larger the better its score, then the lower its index.

    bits: of the score; NaN is worse than any number, and -0.0 is 0.0.
    """
    size = np.uint64(bits) & SIZE
    rank = SIGN - size if np.uint64(bits) & SIGN else SIGN + size
    if size > INFINITY:
        rank = np.uint64(0)
    return (rank << np.uint64(32)) | (LOW - np.uint64(i))


def _sink(heap: Any, start: int, size: int) -> None:
    """Move the entry at `start` down to its place in a heap whose root is the best."""
    moved = heap[start]
    at = start
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size:
            child += 1 if heap[child + 1] > heap[child] else 0
        if heap[child] < moved:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


def _ends(boxes: Any, i: int, axis: int, centred: bool) -> Any:
    """Where a box begins and ends along an axis: 0 the first coordinate of a corner, or 1."""
    a, b = boxes[i, axis], boxes[i, axis + 2]
    if centred:
        half = b / np.float32(2)
        return np.float32(a - half), np.float32(a + half)
    return (a, b) if a < b else (b, a)


def _overlaps(corners: Any, start: int, stop: int, box: Any, area: Any, threshold: Any) -> bool:
    """Whether a box has more in common with any of the kept ones than the threshold.

    That is: the common part divided by the union, in float32, where all of them are positive. All
    are computed, so that they go through vectors.
    """
    low0, high0, left0, right0 = box
    zero = np.float32(0)
    lows, highs, lefts, rights, areas = corners[0], corners[1], corners[2], corners[3], corners[4]
    hits = 0
    for k in range(start, stop):
        top = lows[k] if lows[k] > low0 else low0
        bottom = highs[k] if highs[k] < high0 else high0
        left = lefts[k] if lefts[k] > left0 else left0
        right = rights[k] if rights[k] < right0 else right0
        high, wide = np.float32(bottom - top), np.float32(right - left)
        common = np.float32(high * wide)
        union = np.float32(np.float32(area + areas[k]) - common)
        inside = (high > zero) & (wide > zero) & (common > zero) & (union > zero)
        inside = inside & (areas[k] > zero) & (area > zero)
        hits += 1 if inside & (np.float32(common / union) > threshold) else 0
    return hits > 0


def _select(
    boxes: Any,
    scores: Any,
    bits: Any,
    found: Any,
    total: Any,
    heap: Any,
    corners: Any,
    limit: int,
    overlap: float,
    least: float,
    given: bool,
    centred: bool,
) -> None:
    """For each class: candidates leave a heap, the best first."""
    n = boxes.shape[1]
    threshold = np.float32(overlap)
    row = 0
    for b in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            line, marks = scores[b, c], bits[b, c]
            size = 0
            for i in range(n):
                heap[size] = _entry(marks[i], i)
                size += 1 if not given or line[i] > least else 0
            for i in range(size // 2 - 1, -1, -1):
                _sink(heap, i, size)
            taken = 0
            while size > 0 and taken < limit:
                candidate: Any = np.int64(LOW - (heap[0] & LOW))
                size -= 1
                heap[0] = heap[size]
                if size:
                    _sink(heap, 0, size)
                low, high = _ends(boxes[b], candidate, 0, centred)
                left, right = _ends(boxes[b], candidate, 1, centred)
                area = np.float32(np.float32(high - low) * np.float32(right - left))
                box = (low, high, left, right)
                free = True
                for k in range(0, taken, CHUNK):
                    if _overlaps(corners, k, min(k + CHUNK, taken), box, area, threshold):
                        free = False
                        break
                if free:
                    found[row, 0], found[row, 1], found[row, 2] = b, c, candidate
                    row += 1
                    corners[0, taken], corners[1, taken] = low, high
                    corners[2, taken], corners[3, taken] = left, right
                    corners[4, taken] = area
                    taken += 1
    total[0] = row


def register(library: Library) -> None:
    """Register the kernels of this module."""
    library.kernel("NonMaxSuppression", name="nonmaxsuppression")(NonMaxSuppression)

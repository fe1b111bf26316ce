"""Orders of number types and the loops that sort by them: the k first of a line, equal slices.

NaN comes after every number, as in numpy; -0.0 and 0.0 are equal; complex numbers are ordered by
their real parts, then by their imaginary ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from neuralsym.dtypes import NumberType

Before = Callable[[Any, Any], bool]
"""Whether one element in memory comes before another."""


def before(a: Any, b: Any) -> bool:
    """The order of integers, float32 and float64."""
    return bool(a < b or (b != b and a == a))


def _place(bits: Any, infinity: Any) -> Any:
    """A whole number in the order of sign-and-magnitude floats; that of NaN is the largest."""
    magnitude = np.int32(bits & 0x7FFF)
    if magnitude > infinity:
        return np.int32(0x10000)
    return np.int32(-magnitude) if bits & 0x8000 else magnitude


def half_before(a: Any, b: Any) -> bool:
    """The order of float16."""
    return bool(_place(a, 0x7C00) < _place(b, 0x7C00))


def bfloat_before(a: Any, b: Any) -> bool:
    """The order of bfloat16."""
    return bool(_place(a, 0x7F80) < _place(b, 0x7F80))


def complex_before(a: Any, b: Any) -> bool:
    """The order of complex numbers."""
    if before(a.real, b.real):
        return True
    return not before(b.real, a.real) and before(a.imag, b.imag)


def order_of(kind: NumberType) -> Before:
    """The order of a number type, over elements as loops see them."""
    orders: dict[NumberType, Before] = {
        NumberType.FLOAT16: half_before,
        NumberType.BFLOAT16: bfloat_before,
        NumberType.COMPLEX64: complex_before,
        NumberType.COMPLEX128: complex_before,
    }
    return orders.get(kind, before)


# -- the first k ---------------------------------------------------------------------------------
@cache
def top_k(comes_before: Before) -> Callable[..., None]:
    """The loop of TopK: a heap of the k best so far, whose root is the worst, then sorted.

    x [outer, n, inner]; values and indices [outer, k, inner], k > 0. O(n log k) for each line.
    """

    def ahead(x: Any, o: int, i: int, j: int, s: int, largest: int) -> bool:
        """Whether element i is better than element j."""
        a, b = x[o, i, s], x[o, j, s]
        if comes_before(b, a):
            return largest != 0
        if comes_before(a, b):
            return largest == 0
        return i < j

    def sink(x: Any, heap: Any, o: int, s: int, start: int, size: int, largest: int) -> None:
        """Move the entry at `start` down to its place in a heap of that size."""
        moved = heap[o, start, s]
        at = start
        while True:
            child = 2 * at + 1
            if child >= size:
                break
            right = child + 1
            if right < size and ahead(x, o, heap[o, child, s], heap[o, right, s], s, largest):
                child = right  # the worse of the two
            if not ahead(x, o, moved, heap[o, child, s], s, largest):
                break
            heap[o, at, s] = heap[o, child, s]
            at = child
        heap[o, at, s] = moved

    def loop(x: Any, values: Any, indices: Any, largest: int, worker: int, workers: int) -> None:
        n, inner, k = x.shape[1], x.shape[2], values.shape[1]
        lines = x.shape[0] * inner
        for line in range(lines * worker // workers, lines * (worker + 1) // workers):
            o, s = line // inner, line % inner
            for i in range(k):
                indices[o, i, s] = i
            for i in range(k // 2 - 1, -1, -1):
                sink(x, indices, o, s, i, k, largest)
            worst = x[o, indices[o, 0, s], s]
            for i in range(k, n):
                # Of equals the one in the heap stays: its index is lower.
                value = x[o, i, s]
                if comes_before(worst, value) if largest else comes_before(value, worst):
                    indices[o, 0, s] = i
                    sink(x, indices, o, s, 0, k, largest)
                    worst = x[o, indices[o, 0, s], s]
            for last in range(k - 1, 0, -1):
                place = indices[o, 0, s]
                indices[o, 0, s] = indices[o, last, s]
                indices[o, last, s] = place
                sink(x, indices, o, s, 0, last, largest)
            for i in range(k):
                values[o, i, s] = x[o, indices[o, i, s], s]

    return loop


CHUNK = 16
"""Elements that are compared with the worst of the k at once."""
STACK = 128
"""Ends of parts that wait to be sorted: each is at most half as long as the one before."""
SHORT = 12
"""Stretches that are sorted by insertion."""


@cache
def top_k_rows(comes_before: Before) -> Callable[..., None]:
    """The loop of TopK over rows: x [outer, n]; values and indices [outer, k], k > 0.

    The same heap, whose values stand beside their places. What is no better than its root is passed
    over in chunks. No two elements are equal where they are sorted, for their places differ.
    stacks [workers, STACK].
    """
    plain = comes_before is before

    def ahead(a: Any, i: int, b: Any, j: int, largest: int) -> bool:
        """Whether element a at place i is better than b at j."""
        if comes_before(b, a):
            return largest != 0
        if comes_before(a, b):
            return largest == 0
        return i < j

    def sink(values: Any, places: Any, start: int, size: int, largest: int) -> None:
        """Move the entry at `start` down to its place in a heap of that size."""
        moved, place = values[start], places[start]
        at = start
        while True:
            child = 2 * at + 1
            if child >= size:
                break
            right = child + 1
            if right < size and ahead(
                values[child], places[child], values[right], places[right], largest
            ):
                child = right  # the worse of the two
            if not ahead(moved, place, values[child], places[child], largest):
                break
            values[at], places[at] = values[child], places[child]
            at = child
        values[at], places[at] = moved, place

    def sort(values: Any, places: Any, stack: Any, largest: int) -> None:
        """Sort all, the best first: quicksort; `stack` holds the longer parts that wait."""
        depth, start, stop = 0, 0, values.shape[0]
        while True:
            while stop - start > SHORT:
                middle, last = (start + stop) // 2, stop - 1
                # The median of three goes to the middle.
                for turn in range(3):
                    i, j = (middle, last) if turn == 1 else (start, middle)
                    if ahead(values[j], places[j], values[i], places[i], largest):
                        values[i], values[j] = values[j], values[i]
                        places[i], places[j] = places[j], places[i]
                value, place = values[middle], places[middle]
                i, j = start, last
                while i <= j:
                    while ahead(values[i], places[i], value, place, largest):
                        i += 1
                    while ahead(value, place, values[j], places[j], largest):
                        j -= 1
                    if i <= j:
                        values[i], values[j] = values[j], values[i]
                        places[i], places[j] = places[j], places[i]
                        i += 1
                        j -= 1
                if j + 1 - start < stop - i:
                    stack[2 * depth], stack[2 * depth + 1] = i, stop
                    stop = j + 1
                else:
                    stack[2 * depth], stack[2 * depth + 1] = start, j + 1
                    start = i
                depth += 1
            for i in range(start + 1, stop):
                value, place = values[i], places[i]
                j = i - 1
                while j >= start and ahead(value, place, values[j], places[j], largest):
                    values[j + 1], places[j + 1] = values[j], places[j]
                    j -= 1
                values[j + 1], places[j + 1] = value, place
            if depth == 0:
                break
            depth -= 1
            start, stop = stack[2 * depth], stack[2 * depth + 1]

    def passed(line: Any, start: int, worst: Any, largest: int) -> bool:
        """Whether none of a chunk can be better than the worst; NaN may be."""
        hits = 0
        if largest:
            for j in range(start, start + CHUNK):
                hits += 0 if line[j] <= worst else 1
        else:
            for j in range(start, start + CHUNK):
                hits += 0 if line[j] >= worst else 1
        return hits == 0

    def loop(
        x: Any, values: Any, indices: Any, stacks: Any, largest: int, worker: int, workers: int
    ) -> None:
        rows, n = x.shape
        k = values.shape[1]
        for o in range(rows * worker // workers, rows * (worker + 1) // workers):
            line, best, places = x[o], values[o], indices[o]
            for i in range(k):
                best[i], places[i] = line[i], i
            if k < n:
                for i in range(k // 2 - 1, -1, -1):
                    sink(best, places, i, k, largest)
                worst = best[0]
                at = k
                while at < n:
                    if plain and at + CHUNK <= n and passed(line, at, worst, largest):
                        at += CHUNK
                        continue
                    for i in range(at, min(at + CHUNK, n)):
                        # Of equals the one in the heap stays: its index is lower.
                        value = line[i]
                        if comes_before(worst, value) if largest else comes_before(value, worst):
                            best[0], places[0] = value, i
                            sink(best, places, 0, k, largest)
                            worst = best[0]
                    at += CHUNK
            sort(best, places, stacks[worker], largest)

    return loop


# -- equal slices --------------------------------------------------------------------------------
def renumbered(order: Any, spare: Any, first: Any, inverse: Any, counts: Any, groups: int) -> None:
    """Groups in the order in which they are met; `order` becomes the new number of each."""
    n, number = inverse.shape[0], 0
    for i in range(n):
        g = inverse[i]
        if first[g] == i:
            order[g] = number
            spare[number] = counts[g]
            number += 1
        inverse[i] = order[g]
    for i in range(n - 1, -1, -1):
        first[inverse[i]] = i
    for g in range(groups):
        counts[g] = spare[g]


@cache
def group(comes_before: Before) -> Callable[..., None]:
    """The loop of Unique: which of the n slices of x [outer, n, inner] are equal.

    order, spare, first, inverse, counts: [n]. `found` [1] gets how many groups there are; `first`
    and `counts` hold as many entries. A stable merge sort, so the first of a group is its lowest.
    """

    def earlier(x: Any, i: int, j: int) -> bool:
        """Whether slice i comes before slice j."""
        for o in range(x.shape[0]):
            for s in range(x.shape[2]):
                a, b = x[o, i, s], x[o, j, s]
                if comes_before(a, b):
                    return True
                if comes_before(b, a):
                    return False
        return False

    def merge(x: Any, source: Any, target: Any, width: int) -> None:
        n = source.shape[0]
        start = 0
        while start < n:
            middle, end = min(start + width, n), min(start + 2 * width, n)
            left, right = start, middle
            for at in range(start, end):
                if right >= end or (left < middle and not earlier(x, source[right], source[left])):
                    target[at] = source[left]
                    left += 1
                else:
                    target[at] = source[right]
                    right += 1
            start = end

    def loop(
        x: Any,
        order: Any,
        spare: Any,
        first: Any,
        inverse: Any,
        counts: Any,
        found: Any,
        by_value: int,
    ) -> None:
        n = x.shape[1]
        for i in range(n):
            order[i] = i
        width = 1
        while width < n:
            merge(x, order, spare, width)
            merge(x, spare, order, 2 * width)
            width *= 4
        groups = 0
        for at in range(n):
            if at == 0 or earlier(x, order[at - 1], order[at]):
                first[groups] = order[at]
                counts[groups] = 0
                groups += 1
            counts[groups - 1] += 1
            inverse[order[at]] = groups - 1
        found[0] = groups
        if not by_value:
            renumbered(order, spare, first, inverse, counts, groups)

    return loop

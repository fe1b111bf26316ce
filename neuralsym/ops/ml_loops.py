"""Loops of classical machine learning as plain functions over arrays.

The CPU engine compiles them (cpu/kernels/ml.py); everything else calls them as they stand. So they
allocate nothing, and write to `out` and to working memory.
"""

from __future__ import annotations

import math
from typing import Any

UNKNOWN_KEY = 1
"""The status of `find_key` when a key that must be known is not."""
TOO_FEW_FEATURES = 2
"""The status of `tree_scores` when a node tests a feature that the rows do not have."""
LEAF = 2**31
"""Nodes of trees are counted below it; LEAF + i is leaf i."""
MISSING = 8
"""What a mode has besides where NaN takes the true branch."""
BLOCK = 64
"""Rows that walk a tree together."""


def find_key(
    x: Any, keys: Any, places: Any, out: Any, missing: int, strict: int, worker: int, workers: int
) -> int:
    """The place of each value among the keys, `missing` where it is none of them.

    `keys` ascend, NaN last, and `places` are theirs in the user's order. NaN finds NaN.
    """
    count = keys.shape[0]
    status = 0
    for i in range(x.shape[0] * worker // workers, x.shape[0] * (worker + 1) // workers):
        value = x[i]
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < value or (value != value and keys[middle] == keys[middle]):
                low = middle + 1
            else:
                high = middle
        found = low < count and (keys[low] == value or (value != value and keys[low] != keys[low]))
        out[i] = places[low] if found else missing
        if strict and not found:
            status = UNKNOWN_KEY
    return status


def tree_scores(
    x: Any,
    nodes: Any,
    splits: Any,
    member_ends: Any,
    members: Any,
    roots: Any,
    vote_ends: Any,
    vote_targets: Any,
    vote_weights: Any,
    out: Any,
    aggregate: int,
    divisor: int,
    plain: int,
    worker: int,
    workers: int,
) -> int:
    """The leaves' votes of each row, aggregated for each target; see `ml_parts.TreeScores`.

    Some rows walk one tree after another, so that a tree stays in the cache; where all modes are
    "<=" (`plain`), four rows walk side by side.
    """
    targets = out.shape[1]
    for node in range(nodes.shape[0]):
        if nodes[node, 0] >= x.shape[1]:
            return TOO_FEW_FEATURES
    low = x.shape[0] * worker // workers
    high = x.shape[0] * (worker + 1) // workers
    for first in range(low, high, BLOCK):
        last = min(first + BLOCK, high)
        for row in range(first, last):
            for target in range(targets):
                out[row, target] = math.nan if aggregate else 0.0
        for tree in range(roots.shape[0]):
            row = first
            while row < last:
                together = 4 if plain and row + 4 <= last else 1
                a = b = c = d = roots[tree]
                # Helpers would be called, not inlined: hence all of it stands here.
                while together == 4 and a < LEAF and b < LEAF and c < LEAF and d < LEAF:
                    v, w = x[row, nodes[a, 0]], x[row + 1, nodes[b, 0]]
                    below = (v <= splits[a]) | ((v != v) & (nodes[a, 3] >= MISSING))
                    a = nodes[a, 1] if below else nodes[a, 2]
                    below = (w <= splits[b]) | ((w != w) & (nodes[b, 3] >= MISSING))
                    b = nodes[b, 1] if below else nodes[b, 2]
                    v, w = x[row + 2, nodes[c, 0]], x[row + 3, nodes[d, 0]]
                    below = (v <= splits[c]) | ((v != v) & (nodes[c, 3] >= MISSING))
                    c = nodes[c, 1] if below else nodes[c, 2]
                    below = (w <= splits[d]) | ((w != w) & (nodes[d, 3] >= MISSING))
                    d = nodes[d, 1] if below else nodes[d, 2]
                for _ in range(together):
                    at = a
                    a, b, c = b, c, d
                    while at < LEAF:
                        value, mode = x[row, nodes[at, 0]], nodes[at, 3] % MISSING
                        if value != value:
                            taken = nodes[at, 3] >= MISSING
                        elif mode == 0:
                            taken = value <= splits[at]
                        elif mode == 1:
                            taken = value < splits[at]
                        elif mode == 2:
                            taken = value >= splits[at]
                        elif mode == 3:
                            taken = value > splits[at]
                        elif mode == 4:
                            taken = value == splits[at]
                        elif mode == 5:
                            taken = value != splits[at]
                        else:
                            taken = False
                            for member in range(member_ends[at], member_ends[at + 1]):
                                taken = taken or members[member] == value
                        at = nodes[at, 1] if taken else nodes[at, 2]
                    leaf = at - LEAF
                    for vote in range(vote_ends[leaf], vote_ends[leaf + 1]):
                        target, weight = vote_targets[vote], vote_weights[vote]
                        before = out[row, target]
                        if aggregate == 0:
                            out[row, target] = before + weight
                        elif before != before or (weight < before) == (aggregate == 1):
                            out[row, target] = weight
                    row += 1
        for row in range(first, last):
            for target in range(targets):
                # A target that no leaf votes for stays at zero.
                if aggregate and out[row, target] != out[row, target]:
                    out[row, target] = 0.0
                out[row, target] /= divisor
    return 0


def pair_probabilities(
    scores: Any,
    slopes: Any,
    offsets: Any,
    pairs: Any,
    change: Any,
    out: Any,
    worker: int,
    workers: int,
) -> None:
    """Class probabilities from the decision values of all pairs (see `ml_parts`).

    Minimises the sum over pairs of (r_ji p_i - r_ij p_j)^2 under sum p = 1, one p after another.
    `pairs` [rows, k, k] and `change` [rows, k] are working memory.
    """
    rows, k = out.shape
    for row in range(rows * worker // workers, rows * (worker + 1) // workers):
        r, product = pairs[row], change[row]
        pair = 0
        for i in range(k):
            out[row, i] = 1.0 / k
            for j in range(i + 1, k):
                value = scores[row, pair] * slopes[pair] + offsets[pair]
                power = math.exp(-abs(value))
                likely = power / (1.0 + power) if value > 0 else 1.0 / (1.0 + power)
                likely = min(max(likely, 1e-7), 1.0 - 1e-7)
                r[i, j], r[j, i] = likely, 1.0 - likely
                pair += 1
        for _ in range(max(100, k)):
            # Q p with Q_tt = sum_j r_jt^2 and Q_tj = -r_jt r_tj, and p' Q p.
            total = 0.0
            for t in range(k):
                value = 0.0
                for j in range(k):
                    if j != t:
                        value += r[j, t] * (r[j, t] * out[row, t] - r[t, j] * out[row, j])
                product[t] = value
                total += value * out[row, t]
            worst = 0.0
            for t in range(k):
                worst = max(worst, abs(product[t] - total))
            if worst < 0.005 / k:
                break
            for t in range(k):
                diagonal = 0.0
                for j in range(k):
                    if j != t:
                        diagonal += r[j, t] * r[j, t]
                step = (total - product[t]) / diagonal
                out[row, t] += step
                scale = 1.0 + step
                total = (total + step * (step * diagonal + 2.0 * product[t])) / (scale * scale)
                for j in range(k):
                    entry = diagonal if j == t else -r[j, t] * r[t, j]
                    product[j] = (product[j] + step * entry) / scale
                    out[row, j] /= scale


def gram_scores(
    x: Any,
    edges: Any,
    targets: Any,
    grams: Any,
    places: Any,
    weights: Any,
    out: Any,
    tokens: int,
    shortest: int,
    longest: int,
    skips: int,
    once: int,
    worker: int,
    workers: int,
) -> None:
    """The n-grams in rows of token numbers, `tokens` for an unknown one; see `grams.GramScores`.

    With each distance between tokens, from 1 to skips + 1, a walk starts at every token. N-grams of
    one token are counted with the first distance only.
    """
    rows, length = x.shape
    for row in range(rows * worker // workers, rows * (worker + 1) // workers):
        for column in range(out.shape[1]):
            out[row, column] = 0
        for distance in range(1, min(skips + 1, length) + 1):
            least = shortest if distance == 1 else max(shortest, 2)
            for start in range(length):
                node, size, at = 0, 0, start
                while at < length and size < longest and x[row, at] < tokens:
                    edge = node * tokens + x[row, at]
                    low, high = 0, edges.shape[0]
                    while low < high:
                        middle = (low + high) // 2
                        if edges[middle] < edge:
                            low = middle + 1
                        else:
                            high = middle
                    if low == edges.shape[0] or edges[low] != edge:
                        break
                    node = targets[low]
                    size += 1
                    at += distance
                    gram = grams[node]
                    if size >= least and gram >= 0:
                        if once:
                            out[row, places[gram]] = weights[gram]
                        else:
                            out[row, places[gram]] += weights[gram]

"""Offsets in an arena: pieces alive at the same time never overlap, and memory is reused."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym.cpu import place as module
from neuralsym.cpu.place import ALIGNMENT, Piece, place, rounded

PIECES = st.lists(
    st.builds(
        lambda size, first, length: Piece(size, first, first + length),
        st.integers(0, 5000),
        st.integers(-1, 40),
        st.integers(0, 20),
    ),
    max_size=60,
)


def check(pieces, offsets, top):
    spans = [(o, o + rounded(p.size), p) for o, p in zip(offsets, pieces, strict=True) if p.size]
    for i, (start, end, piece) in enumerate(spans):
        assert start % ALIGNMENT == 0
        assert 0 <= start < end <= top
        for other_start, other_end, other in spans[:i]:
            alive_together = piece.first <= other.last and other.first <= piece.last
            assert not alive_together or end <= other_start or other_end <= start


@settings(max_examples=200, deadline=None)
@given(PIECES)
def test_no_two_live_pieces_overlap(pieces):
    check(pieces, *place(pieces))
    check(pieces, *module._sweep(pieces))


@settings(max_examples=100, deadline=None)
@given(PIECES)
def test_memory_is_at_least_what_is_alive_at_once(pieces):
    _, top = place(pieces)
    most = max(
        (
            sum(rounded(p.size) for p in pieces if p.first <= time <= p.last)
            for time in range(-1, 62)
        ),
        default=0,
    )
    assert most <= top <= sum(rounded(p.size) for p in pieces)


def test_a_chain_needs_two_places():
    chain = [Piece(1000, i, i + 1) for i in range(200)]
    assert place(chain)[1] == 2 * rounded(1000)
    assert module._sweep(chain)[1] == 2 * rounded(1000)


def test_fifty_thousand_pieces_take_a_second():
    pieces = [Piece(64 * (1 + i % 7), i, i + 1 + i % 13) for i in range(50_000)]
    began = time.perf_counter()
    _, top = place(pieces)
    assert time.perf_counter() - began < 5
    assert top < 64 * 7 * 20

"""Changes of order: every value arrives, halos and padded lanes are zero, nothing else changes."""

import numpy as np
import pytest
from run_text import call, fill, inner, plane_buffer, read, view

from neuralsym.cpu.templates.layout import Plane
from neuralsym.cpu.templates.reorder import ReorderText, reorder_text, reorder_words

HALO = ((0, 1, 2), (0, 2, 1))
SOLID_HALO = ((1, 1, 2), (2, 0, 1))
CASES = [
    (3, (1, 5, 7), HALO),
    (16, (1, 14, 14), ((0, 0, 0), (0, 0, 0))),
    (20, (1, 3, 33), HALO),
    (48, (3, 4, 18), SOLID_HALO),
    (1, (1, 1, 1), HALO),
]


def move(how, width, source, target, values, batch, workers=2, clear=True):
    """Run a move of [N][C][D][H][W] values; the target starts filled with 7."""
    xb, yb = plane_buffer(source, batch, 1e30), plane_buffer(target, batch, 7.0)
    fill(xb, source, values)
    words = reorder_words(
        how,
        xb.ctypes.data + source.origin,
        yb.ctypes.data + target.origin,
        batch,
        source,
        target,
        clear,
    )
    call(reorder_text(ReorderText(width, how)), words, workers, width)
    return yb


def drawn(batch, channels, size):
    rng = np.random.default_rng(3)
    return rng.standard_normal((batch, channels, *size)).astype(np.float32)


@pytest.mark.parametrize("width", [16, 8, 4])
@pytest.mark.parametrize(("channels", "size", "halo"), CASES)
@pytest.mark.parametrize("batch", [1, 3])
def test_plain_to_blocks_and_back(width, channels, size, halo, batch):
    plain, blocked = Plane(channels, size, 1), Plane(channels, size, width, *halo)
    x = drawn(batch, channels, size)
    yb = move("block", width, plain, blocked, x, batch)
    np.testing.assert_array_equal(read(yb, blocked, batch), x)
    whole = view(yb, blocked, batch).copy()
    inner(whole, blocked, batch)[...] = 0
    assert (whole == 0).all(), "the halo is not zero"
    lanes = inner(yb, blocked, batch).transpose(0, 1, 5, 2, 3, 4)
    assert (lanes.reshape(batch, -1, *size)[:, channels:] == 0).all()

    back = move("unblock", width, blocked, plain, x, batch)
    np.testing.assert_array_equal(read(back, plain, batch), x)


@pytest.mark.parametrize("width", [16, 4])
@pytest.mark.parametrize("lanes", [1, 0])
@pytest.mark.parametrize(("channels", "size", "halo"), CASES)
def test_another_halo(width, lanes, channels, size, halo):
    lanes = lanes or width
    source = Plane(channels, size, lanes, (0, 1, 0), (0, 0, 3))
    target = Plane(channels, size, lanes, *halo)
    x = drawn(2, channels, size)
    yb = move("copy", width, source, target, x, 2)
    np.testing.assert_array_equal(read(yb, target, 2), x)
    whole = view(yb, target, 2).copy()
    inner(whole, target, 2)[...] = 0
    assert (whole == 0).all()


def test_the_halo_alone_is_cleared_and_can_be_left():
    target = Plane(20, (2, 3, 5), 16, *SOLID_HALO)
    yb = move("clear", 16, target, target, drawn(1, 20, (2, 3, 5)), 1)
    whole = view(yb, target, 1).copy()
    assert (inner(whole, target, 1) == 7).all()
    inner(whole, target, 1)[...] = 0
    assert (whole == 0).all()
    yb = move("copy", 16, target, target, drawn(1, 20, (2, 3, 5)), 1, clear=False)
    whole = view(yb, target, 1).copy()
    inner(whole, target, 1)[...] = 7
    assert (whole == 7).all()


def test_a_part_of_a_larger_buffer():
    plain = Plane(32, (1, 4, 4), 1)
    target = Plane(32, (1, 4, 4), 16, (0, 1, 1), (0, 1, 1)).within(64)
    x = drawn(2, 32, (1, 4, 4))
    yb = move("block", 16, plain, target, x, 2)
    np.testing.assert_array_equal(read(yb, target, 2), x)
    assert (view(yb, target, 2)[:, 2:] == 7).all()

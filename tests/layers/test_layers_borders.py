"""Borders, parts and other sizes of space, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_values import close
from numpy.typing import NDArray

from neuralsym import BadAttribute, ShapeMismatch
from neuralsym import layers as nn

Array = NDArray[Any]
RNG = np.random.Generator(np.random.Philox(21))


def values(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32).astype(np.float64)


def computed(layer: Any, x: Array, *free: int) -> Array:
    shape = tuple(f"A{i}" if i in (0, *free) else n for i, n in enumerate(x.shape))
    network = nn.input(shape) | layer | nn.get_network()
    return network(x.astype(np.float32))


MODES = {
    "zero": "constant",
    "constant": "constant",
    "reflection": "reflect",
    "replication": "edge",
    "circular": "wrap",
}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", sorted(MODES))
def test_borders_of_each_kind(kind: str, rank: int) -> None:
    x = values(2, 2, *(4, 5, 6)[:rank])
    pairs = ((1, 3), (2, 0), (3, 3))[:rank]
    layer = getattr(nn, f"{kind}_padding{rank}d")
    more = {"value": 1.5} if kind == "constant" else {}
    how: dict[str, Any] = {"constant_values": 1.5} if kind == "constant" else {}
    wanted = np.pad(x, [(0, 0), (0, 0), *pairs], mode=MODES[kind], **how)  # type: ignore[call-overload]
    close(computed(layer(pairs, **more), x), wanted)
    flat = [n for pair in reversed(pairs) for n in pair]  # torch's order: the last axis first
    close(computed(layer(flat, **more), x, 2), wanted)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_convolutions_see_another_border(mode: Any) -> None:
    x = values(2, 3, 6, 7)
    layer = nn.conv2d(4, 3, padding_mode=mode, use_bias=False)
    network = nn.input(("N", 3, 6, 7)) | layer | nn.get_network()
    (name,) = network.weights
    how = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    wide = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], mode=how)  # type: ignore[call-overload]
    seen = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    wanted = np.einsum("nchwij,ocij->nohw", seen, network.weights[name].astype(np.float64))
    close(network(x), wanted)


def test_the_middle_of_an_image() -> None:
    x = values(1, 2, 7, 8)
    close(computed(nn.center_crop(4, 5), x), x[:, :, 1:5, 1:6])
    assert computed(nn.center_crop(9, 4), x).shape == (1, 2, 9, 4)  # Keras enlarges a small one


SLICES: list[tuple[Any, Any]] = [
    ([[0, 1]], np.s_[:, 0:2]),
    ([[], [2]], np.s_[:, :, 2:3]),
    ([[1, -1], [-2, 0]], np.s_[:, 1:, 2::-1]),
    ([[0, 2, 2]], np.s_[:, 0:3:2]),
    ([[2, 0, -1], slice(1, None)], np.s_[:, ::-1, 1:]),
    ([..., 1], np.s_[:, :, 1:2]),
    ([[-1, -3]], np.s_[:, ::-1]),
    ([], np.s_[:]),
]


@pytest.mark.parametrize(("definition", "index"), SLICES, ids=str)
def test_slices_as_owl_writes_them(definition: Any, index: Any) -> None:
    """Both ends are in a range, and an axis of one element stays."""
    x = values(2, 3, 4)

    def twice(s: Any) -> Any:
        return (s | nn.slice_(definition)) * 2.0

    close(computed(twice, x), 2 * x[index])
    assert nn.slice is nn.slice_


@given(st.data())
@settings(max_examples=15)
def test_ranges_of_open_axes_are_those_of_fixed_ones(data: st.DataObject) -> None:
    x = values(2, 5)
    ends = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=2))
    ends = [n - 5 for n in ends] if data.draw(st.booleans()) else ends
    layer = nn.slice_([ends])
    close(computed(lambda s: (s | layer) * 1.5, x, 1), computed(lambda s: (s | layer) * 1.5, x))


def test_get_item_is_numpys_indexing() -> None:
    x = values(2, 3, 4)
    close(computed(nn.get_item((slice(None), -1)), x), x[:, -1])
    close(computed(nn.get_item((..., None, slice(1, 3))), x), x[..., None, 1:3])


def test_flatten_and_unflatten_some_axes() -> None:
    x = values(2, 3, 4, 5)
    close(computed(nn.flatten(2), x), x.reshape(2, 3, 20))
    close(computed(nn.flatten(1, 2), x), x.reshape(2, 12, 5))
    close(computed(nn.flatten(1, 2), x, 3), x.reshape(2, 12, 5))  # an open size behind
    close(computed(nn.flatten(0, 1), x), x.reshape(6, 4, 5))
    close(computed(nn.unflatten(2, (2, -1)), x), x.reshape(2, 3, 2, 2, 5))
    close(computed(nn.unflatten(-1, (5, 1)), x), x[..., None])


# -- other sizes -------------------------------------------------------------------------------
def linear(n: int, m: int, corners: bool) -> Array:
    """The [m, n] matrix of linear interpolation, over pixel centres or between the corners."""
    places = np.arange(m)
    where = places * (n - 1) / max(m - 1, 1) if corners else (places + 0.5) * n / m - 0.5
    where = np.clip(where, 0, n - 1)
    low = np.minimum(where.astype(int), n - 2)
    made = np.zeros((m, n))
    made[places, low] = 1 - (where - low)
    made[places, low + 1] = where - low
    return made


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("size", [(8, 3), (4, 9)])
def test_any_size_by_interpolation(size: tuple[int, int], corners: bool) -> None:
    x = values(1, 2, 4, 6)
    rows, columns = linear(4, size[0], corners), linear(6, size[1], corners)
    wanted = np.einsum("nchw,ih,jw->ncij", x, rows, columns)
    close(computed(nn.upsample(size, mode="bilinear", align_corners=corners), x), wanted)
    if corners:
        close(computed(nn.upsampling_bilinear2d(size), x), wanted)
    else:
        close(computed(nn.resizing(*size), x), wanted)


def test_any_size_by_repetition() -> None:
    x = values(1, 2, 4, 6)
    for m, n in ((8, 9), (3, 4)):
        near = x[:, :, np.arange(m) * 4 // m][..., np.arange(n) * 6 // n]
        close(computed(nn.upsample((m, n)), x), near)
        close(computed(nn.upsampling_nearest2d((m, n)), x), near)
        exact = x[:, :, (2 * np.arange(m) + 1) * 4 // (2 * m)][
            ..., (2 * np.arange(n) + 1) * 6 // (2 * n)
        ]
        close(computed(nn.upsample((m, n), mode="nearest-exact"), x), exact)
        close(computed(nn.resizing(m, n, "nearest"), x), exact)
    assert computed(nn.upsample(scale_factor=(0.5, 1.5)), x, 2, 3).shape == (1, 2, 2, 9)


def test_resizing_keeps_the_ratio() -> None:
    """Cut: the middle alone is enlarged. Surrounded: the border is the fill."""
    x = values(1, 1, 4, 8)
    close(computed(nn.resizing(4, 4, crop_to_aspect_ratio=True), x), x[:, :, :, 2:6])
    padded = computed(nn.resizing(8, 8, pad_to_aspect_ratio=True, fill_value=7.0), x)
    close(padded[:, :, 2:6], x)
    assert (padded[:, :, :2] == 7).all() and (padded[:, :, 6:] == 7).all()


X = ("N", 4, 6, 6)
REFUSED: list[tuple[Any, Any, type[Exception], str]] = [
    (lambda: nn.reflection_padding2d(6), X, ShapeMismatch, "at most 5"),
    (lambda: nn.circular_padding2d(7), X, ShapeMismatch, "at most 6"),
    (lambda: nn.zero_padding2d(-1), X, BadAttribute, "cropping"),
    (lambda: nn.zero_padding2d((1, 2, 3)), X, BadAttribute, "padding="),
    (lambda: nn.zero_padding1d(), X, ShapeMismatch, "rank 3"),
    (lambda: nn.conv2d(4, 3, padding_mode="mirror"), X, BadAttribute, "reflect"),
    (
        lambda: nn.conv2d(4, 3, 2, padding_mode="reflect"),
        ("N", 4, "H", "W"), ShapeMismatch, "fixed spatial",
    ),
    (
        lambda: nn.conv2d(4, 3, 2, dilation_rate=2),
        ("N", 4, "H", "W"), ShapeMismatch, "auto_pad takes no dilation",
    ),
    (lambda: nn.center_crop(0, 3), X, BadAttribute, "at least 1"),
    (lambda: nn.center_crop(3, 3), ("N", 4, "H", "W"), ShapeMismatch, "axis 2"),
    (lambda: nn.slice_([[0, 9]]), X, ShapeMismatch, "no element 9"),
    (lambda: nn.slice_([[0, 3, -1]]), X, ShapeMismatch, "empty"),
    (lambda: nn.slice_([[0, 3, 0]]), X, BadAttribute, "start, stop"),
    (lambda: nn.slice_([[], [], [], []]), X, BadAttribute, "at most 3"),
    (lambda: nn.flatten(3, 2), X, BadAttribute, "behind"),
    (lambda: nn.flatten(1, 7), X, BadAttribute, "no axis 7"),
    (lambda: nn.flatten(1, 2), ("N", "A", 3, "B"), ShapeMismatch, "worked out"),
    (lambda: nn.unflatten(1, (3, 2)), X, ShapeMismatch, "does not hold"),
    (lambda: nn.unflatten(1, (-1, -1)), X, BadAttribute, "at most one"),
    (lambda: nn.unflatten(9, (2, 2)), X, BadAttribute, "no axis 9"),
    (lambda: nn.upsample(), X, BadAttribute, "exactly one"),
    (lambda: nn.upsample(3, mode="linear"), X, BadAttribute, "1 spatial axes"),
    (lambda: nn.upsample(3, mode="biliner"), X, BadAttribute, "bilinear"),
    (lambda: nn.upsample(3, align_corners=True), X, BadAttribute, "no meaning"),
    (lambda: nn.upsample(scale_factor=0.1), X, ShapeMismatch, "leaves nothing"),
    (lambda: nn.upsample(scale_factor=-1), X, BadAttribute, "positive"),
    (
        lambda: nn.upsample(scale_factor=1.5, mode="bilinear", align_corners=True),
        ("N", 4, "H", "W"), ShapeMismatch, "fixed sizes",
    ),
    (lambda: nn.upsampling2d(2, "lanczos3"), X, BadAttribute, "Lanczos"),
    (lambda: nn.resizing(3, 3, fill_mode="edge"), X, BadAttribute, "constant"),
    (
        lambda: nn.resizing(3, 3, crop_to_aspect_ratio=True, pad_to_aspect_ratio=True),
        X, BadAttribute, "exclude",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("made", "shape", "kind", "words"), REFUSED)
def test_what_cannot_be(made: Any, shape: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as raised:
        nn.input(shape) | made()
    assert "test_layers_borders.py:" in str(raised.value)

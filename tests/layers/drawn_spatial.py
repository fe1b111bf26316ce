"""Draws of layers over space: convolutions, pools, borders, other sizes, shuffles."""

from __future__ import annotations

from typing import Any

from drawn_case import Case, Given, Strategy
from hypothesis import strategies as st

PADDINGS = ("valid", "same", "same_lower")
ACTIVATIONS = (None, "relu", "tanh", "hard_sigmoid", "gelu")


class Draws:
    """The draws that most layers over `rank` spatial axes need."""

    def __init__(self, draw: st.DrawFn, rank: int) -> None:
        self.draw = draw
        self.rank = rank

    def whole(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def choice(self, *values: Any) -> Any:
        return self.draw(st.sampled_from(values))

    def each(self, low: int, high: int) -> Any:
        """One number, or one for each axis."""
        if self.draw(st.booleans()):
            return self.whole(low, high)
        return tuple(self.whole(low, high) for _ in range(self.rank))

    def pairs(self, most: int) -> Any:
        """Numbers before and after in each of the forms."""
        form = self.choice("one", "axes", "pairs")
        if form == "one":
            return self.whole(0, most)
        if form == "axes":
            return tuple(self.whole(0, most) for _ in range(self.rank))
        return tuple((self.whole(0, most), self.whole(0, most)) for _ in range(self.rank))

    def padding(self, most: int) -> Any:
        names = (*PADDINGS, "causal") if self.rank == 1 else PADDINGS
        return self.choice(*names) if self.draw(st.booleans()) else self.pairs(most)

    def image(self, channels: int, low: int = 4, high: int = 8, free: bool = True) -> Given:
        """[N, C, *space] whose batch, and perhaps whose space, is open."""
        shape = (self.whole(1, 2), channels, *(self.whole(low, high) for _ in range(self.rank)))
        open_ = {0}
        if free and self.draw(st.booleans()):
            open_ |= set(range(2, self.rank + 2))
        return Given(shape, free=frozenset(open_))


def _of(rank: int, make: Any) -> Strategy:
    @st.composite
    def case(draw: st.DrawFn) -> Case:
        d = Draws(draw, rank)
        settings, given = make(d)
        return Case(settings, given if isinstance(given, tuple) else (given,))

    return case()


def _conv(d: Draws) -> Any:
    groups = d.choice(1, 2)
    settings = {
        "filters": groups * d.whole(1, 2),
        "kernel_size": d.each(1, 3),
        "strides": d.each(1, 2),
        "padding": d.padding(2),
        "dilation_rate": d.each(1, 2),
        "groups": groups,
        "use_bias": d.choice(True, False),
        "activation": d.choice(*ACTIVATIONS),
        "padding_mode": d.choice("zeros", "zeros", "reflect", "replicate", "circular"),
    }
    return settings, d.image(2 * groups)


def _dilated(d: Draws) -> Any:
    settings = {
        "filters": d.whole(1, 3),
        "kernel_size": d.each(1, 3),
        "strides": d.each(1, 2),
        "dilation_rate": d.each(1, 3),
        "padding": d.choice(*PADDINGS),
    }
    return settings, d.image(3)


def _transpose(d: Draws) -> Any:
    groups = d.choice(1, 2)
    settings = {
        "filters": groups * d.whole(1, 2),
        "kernel_size": d.each(1, 4),
        "strides": d.each(1, 3),
        "padding": d.choice(*PADDINGS) if d.choice(True, False) else d.pairs(1),
        "output_padding": d.choice(None, None, 0, 1),
        "dilation_rate": d.each(1, 2),
        "groups": groups,
        "use_bias": d.choice(True, False),
    }
    return settings, d.image(2 * groups, 2, 4)


def _depthwise(d: Draws) -> Any:
    settings = {
        "kernel_size": d.each(1, 3),
        "strides": d.each(1, 2),
        "padding": d.padding(1),
        "depth_multiplier": d.whole(1, 3),
        "dilation_rate": d.each(1, 2),
        "use_bias": d.choice(True, False),
    }
    return settings, d.image(3)


def _separable(d: Draws) -> Any:
    settings, given = _depthwise(d)
    return settings | {"filters": d.whole(1, 4), "activation": d.choice(*ACTIVATIONS)}, given


def _pool(d: Draws) -> dict[str, Any]:
    return {
        "pool_size": d.each(1, 3),
        "strides": d.each(1, 3) if d.choice(True, False) else None,
        "padding": d.choice(*PADDINGS) if d.choice(True, False) else d.pairs(1),
        "ceil_mode": d.choice(True, False),
    }


def _max_pool(d: Draws) -> Any:
    return _pool(d) | {"dilation_rate": d.each(1, 2)}, d.image(2)


def _avg_pool(d: Draws) -> Any:
    settings = _pool(d) | {"count_include_pad": d.choice(True, False)}
    if d.rank > 1:
        settings["divisor_override"] = d.choice(None, None, 3)
    return settings, d.image(2)


def _lp_pool(d: Draws) -> Any:
    return _pool(d) | {"p": d.whole(1, 3)}, d.image(2)


def _global(d: Draws) -> Any:
    return {"keepdims": d.choice(True, False)}, d.image(3)


def _global_lp(d: Draws) -> Any:
    return {"keepdims": d.choice(True, False), "p": d.whole(1, 3)}, d.image(3)


def _adaptive(d: Draws) -> Any:
    some = tuple(d.choice(None, 1, 2, 3, 5) for _ in range(d.rank))
    return {"output_size": d.choice(1, 2, 3, some)}, d.image(2)


def _unpool(d: Draws) -> Any:
    """Indices are drawn, not pooled: any place in the image."""
    size, batch, space = d.whole(1, 3), d.whole(1, 2), [d.whole(1, 3) for _ in range(d.rank)]
    places = 2
    for n in space:
        places *= n * size
    x = Given((batch, 2, *space))
    indices = Given(x.shape, "int64", most=places - 1)
    wanted = None if d.choice(True, False) else tuple(n * size + 1 for n in space)
    return {"pool_size": size, "output_size": wanted}, (x, indices)


def _border(d: Draws) -> Any:
    padding = d.pairs(3)
    if d.rank > 1 and d.choice(True, False):
        padding = tuple(d.whole(0, 3) for _ in range(2 * d.rank))
    return {"padding": padding}, d.image(2)


def _constant(d: Draws) -> Any:
    settings, given = _border(d)
    return settings | {"value": d.choice(0.0, 1.5, -2.0)}, given


def _crop(d: Draws) -> Any:
    return {"cropping": d.pairs(2)}, d.image(2)


def _center_crop(d: Draws) -> Any:
    return {"height": d.whole(1, 9), "width": d.whole(1, 9)}, d.image(2, free=False)


def _upsampling(d: Draws) -> Any:
    names = ("nearest", "bilinear", "bicubic") if d.rank == 2 else ("nearest", "bilinear")
    return {"size": d.each(1, 3), "interpolation": d.choice(*names)}, d.image(2, 2, 5)


def _size_or_factor(d: Draws) -> dict[str, Any]:
    if d.choice(True, False):
        return {"size": d.each(1, 9)}
    factors = tuple(d.choice(0.5, 1.0, 1.5, 2.0, 2.5) for _ in range(d.rank))
    return {"scale_factor": d.choice(2, 1.5, factors)}


def _upsample(d: Draws) -> Any:
    modes = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}[d.rank]
    mode = d.choice("nearest", "nearest-exact", *modes)
    settings = _size_or_factor(d) | {"mode": mode}
    if not mode.startswith("nearest"):
        settings["align_corners"] = d.choice(True, False)
    return settings, d.image(2)


def _resizing(d: Draws) -> Any:
    ratio = d.choice(None, None, "crop_to_aspect_ratio", "pad_to_aspect_ratio")
    settings = {
        "height": d.whole(1, 9),
        "width": d.whole(1, 9),
        "interpolation": d.choice("nearest", "bilinear", "bicubic"),
        "antialias": d.choice(True, False),
    }
    return settings | ({ratio: True} if ratio else {}), d.image(3, free=ratio is None)


def _shuffle(d: Draws) -> Any:
    factor = d.whole(1, 3)
    return {"upscale_factor": factor}, d.image(factor**2 * d.whole(1, 2))


def _unshuffle(d: Draws) -> Any:
    factor = d.whole(1, 3)
    shape = (2, 2, *(factor * d.whole(1, 3) for _ in range(2)))
    return {"downscale_factor": factor}, Given(shape, free=d.choice({0}, {0, 2}))


def _channel_shuffle(d: Draws) -> Any:
    groups = d.whole(1, 3)
    return {"groups": groups}, d.image(groups * d.whole(1, 3))


def _patches(d: Draws) -> dict[str, Any]:
    return {
        "kernel_size": d.each(1, 3),
        "dilation": d.each(1, 2),
        "padding": d.each(0, 2),
        "stride": d.each(1, 2),
    }


def _unfold(d: Draws) -> Any:
    return _patches(d), d.image(2, 5, 8)


def _fold(d: Draws) -> Any:
    settings = _patches(d) | {"output_size": (d.whole(5, 8), d.whole(5, 8))}
    pairs = {k: v if isinstance(v, tuple) else (v, v) for k, v in settings.items()}
    rows, columns = 2, 1
    for n, k, g, p, s in zip(
        *(pairs[key] for key in ("output_size", "kernel_size", "dilation", "padding", "stride")),
        strict=True,
    ):
        rows, columns = rows * k, columns * ((n + 2 * p - (k - 1) * g - 1) // s + 1)
    return settings, Given((2, rows, columns))


RANKED = {
    "conv": _conv, "dilated_conv": _dilated, "transpose_conv": _transpose,
    "depthwise_conv": _depthwise, "separable_conv": _separable, "max_pool": _max_pool,
    "avg_pool": _avg_pool, "lp_pool": _lp_pool, "global_max_pool": _global,
    "global_avg_pool": _global, "global_lp_pool": _global_lp, "adaptive_max_pool": _adaptive,
    "adaptive_avg_pool": _adaptive, "max_unpool": _unpool, "zero_padding": _border,
    "constant_padding": _constant, "reflection_padding": _border, "replication_padding": _border,
    "circular_padding": _border, "cropping": _crop, "upsampling": _upsampling,
}  # fmt: skip

PLANE = {
    "center_crop": _center_crop, "resizing": _resizing, "pixel_shuffle": _shuffle,
    "pixel_unshuffle": _unshuffle, "channel_shuffle": _channel_shuffle, "unfold": _unfold,
    "fold": _fold, "upsample": _upsample,
    "upsampling_nearest2d": lambda d: (_size_or_factor(d), d.image(2)),
    "upsampling_bilinear2d": lambda d: (_size_or_factor(d), d.image(2)),
}  # fmt: skip

TABLE: dict[str, Strategy] = (
    {f"{name}{rank}d": _of(rank, make) for name, make in RANKED.items() for rank in (1, 2, 3)}
    | {f"max_pool{rank}d_with_indices": _of(rank, _max_pool) for rank in (1, 2, 3)}
    | {name: _of(2, make) for name, make in PLANE.items()}
)
TABLE["upsample"] = st.one_of(*(_of(rank, _upsample) for rank in (1, 2, 3)))

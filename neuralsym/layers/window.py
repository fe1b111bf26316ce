"""Windows that slide over space: sizes and padding as users write them, and as ONNX takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from neuralsym.core.types import Size
from neuralsym.dtypes import is_whole
from neuralsym.errors import BadAttribute, ShapeMismatch, did_you_mean
from neuralsym.ops.windows import LARGEST

LARGEST_AXIS = 2**24
"""What a layer that writes an index for each element of an axis into the file takes at most."""

LARGEST_STACK = 1000
"""How many layers a layer that is a stack of them takes at most: it builds each of them."""

Sizes: TypeAlias = int | Sequence[int]
"""One size for all spatial axes, or one for each."""

PaddingName: TypeAlias = Literal["valid", "same", "same_upper", "same_lower", "causal"]
Padding: TypeAlias = PaddingName | int | Sequence[int] | Sequence[Sequence[int]]
"""
- `"valid"`: none
- `"same"`: as many results as ceil(size / stride); an odd one more goes after (TensorFlow, Keras,
  ONNX's SAME_UPPER, the seed); `"same_lower"` puts it before
- `"causal"`: all before, for one spatial axis
- a number: so many on each side; a sequence: a number for each axis, or a (before, after) pair
  for each axis; for one axis also the pair alone
"""

_NAMES = ("valid", "same", "same_lower", "causal")


def axis_sizes(given: Sizes, rank: int, what: str, least: int = 1) -> tuple[int, ...]:
    """A size for each of `rank` spatial axes. BadAttribute where the count or a size is wrong."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    many = given if isinstance(given, Sequence) else (given,) * rank
    made = tuple(int(n) for n in many)
    if len(made) != rank:
        raise BadAttribute(
            f"{what}={given!r}: an integer or {rank} of them are needed, one for each spatial axis"
        )
    if any(not least <= n <= LARGEST for n in made):
        raise BadAttribute(f"{what}={given!r}: must be at least {least}, and not over 2^40")
    return made


def axis_pairs(given: Any, rank: int, what: str) -> tuple[tuple[int, int], ...]:
    """(before, after) for each spatial axis, from a number, a number or a pair for each axis.

    For one axis a pair alone is (before, after), as Keras reads it. BadAttribute otherwise.
    """
    forms = "an integer, " + (
        "or (before, after)"
        if rank == 1
        else f"{rank} integers, or {rank} pairs (before, after), such as "
        f"({', '.join(['(1, 2)'] * rank)})"
    )
    if isinstance(given, np.ndarray):
        given = given.tolist()
    flat = [*given] if isinstance(given, (Sequence, tuple)) and not isinstance(given, str) else None
    if flat is None:
        flat = [given] * rank
    if rank == 1 and len(flat) == 2 and all(map(is_whole, flat)):
        flat = [tuple(flat)]
    pairs: list[tuple[int, int]] = []
    for part in flat:
        pair = [part, part] if is_whole(part) else part
        if not isinstance(pair, Sequence) or len(pair) != 2 or not all(map(is_whole, pair)):
            raise BadAttribute(f"{what}={given!r}: {forms}")
        pairs.append((int(pair[0]), int(pair[1])))
    if len(pairs) != rank:
        raise BadAttribute(f"{what}={given!r}: {forms}")
    if any(n > LARGEST for pair in pairs for n in pair):
        raise BadAttribute(f"{what}={given!r}: must not be over 2^40")
    if any(n < 0 for pair in pairs for n in pair):
        raise BadAttribute(f"{what}={given!r}: must not be negative; cropping layers cut off")
    return tuple(pairs)


def padding_name(given: str, rank: int) -> str:
    """The padding that a name stands for, the seed's SAME_UPPER included; BadAttribute if none."""
    name = given.lower()
    name = "same" if name == "same_upper" else name
    if name not in _NAMES:
        raise BadAttribute(
            f"unknown padding {given!r}{did_you_mean(name, _NAMES)}; known: {', '.join(_NAMES)}, "
            "a number of elements, or a (before, after) pair for each axis"
        )
    if name == "causal" and rank != 1:
        raise BadAttribute(f"padding 'causal' is for one spatial axis, not {rank}")
    return name


def padding_attributes(
    padding: Padding,
    spatial: Sequence[Size],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> dict[str, Any]:
    """The padding of a Conv or a pool as ONNX attributes.

    Explicit `pads`; `auto_pad` only for "same" with a stride over 1 along an unknown size, which
    is a ShapeMismatch where there is a dilation too.
    """
    rank = len(kernel)
    if not isinstance(padding, str):
        return _pads(axis_pairs(padding, rank, "padding"))
    name = padding_name(padding, rank)
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    if name == "valid":
        return _pads([(0, 0)] * rank)
    if name == "causal":
        return _pads([(r, 0) for r in reach])
    totals: list[int] = []
    for size, r, stride in zip(spatial, reach, strides, strict=True):
        if stride == 1 or r == 0:
            totals.append(r)
        elif isinstance(size, int):
            count = -(-size // stride)
            totals.append(max((count - 1) * stride + r + 1 - size, 0))
        elif max(dilations) > 1:
            raise ShapeMismatch(
                f"padding {name!r} with strides {tuple(strides)} and dilations {tuple(dilations)} "
                "over unknown sizes: auto_pad takes no dilation; give input() these sizes, or say "
                "the padding in numbers"
            )
        else:
            return {"auto_pad": "SAME_UPPER" if name == "same" else "SAME_LOWER"}
    return _pads(shared_out(totals, name))


def shared_out(totals: Sequence[int], name: str) -> list[tuple[int, int]]:
    """Each total in two halves; the odd one goes after, or before for "same_lower"."""
    halves = [(t // 2, t - t // 2) for t in totals]
    return halves if name == "same" else [(after, before) for before, after in halves]


def transpose_attributes(
    padding: Padding,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int] | None,
) -> dict[str, Any]:
    """The padding of a ConvTranspose as ONNX attributes; it depends on no size.

    "same" gives size * stride, "valid" size * stride + max(kernel - stride, 0), as Keras does;
    with `output_padding` "same" takes kernel // 2 off both sides, as Keras and torch do.
    """
    rank = len(kernel)
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    gaps = [max(s - e, 0) for s, e in zip(strides, extent, strict=True)]
    extra = list(output_padding) if output_padding is not None else gaps
    if isinstance(padding, str):
        name = padding_name(padding, rank)
        if name == "causal":
            raise BadAttribute("padding 'causal' is for convolutions, not for transposed ones")
        if name == "valid":
            pads = [(0, 0)] * rank
        elif output_padding is not None:
            pads = [(e // 2, e // 2) for e in extent]
        else:
            totals = [max(e - s, 0) for s, e in zip(strides, extent, strict=True)]
            pads = shared_out(totals, name)
    else:
        pads = list(axis_pairs(padding, rank, "padding"))
        extra = list(output_padding) if output_padding is not None else [0] * rank
    for o, s, d in zip(extra, strides, dilations, strict=True):
        if o >= max(s, d):
            raise BadAttribute(
                f"output_padding={tuple(extra)}: must be below the stride or the dilation, "
                f"{tuple(strides)} and {tuple(dilations)}"
            )
    if any(o >= s for o, s in zip(extra, strides, strict=True)):
        # onnxruntime wants it below the stride; elements at the end are as well not taken off.
        for i, (o, (before, after)) in enumerate(zip(extra, pads, strict=True)):
            kept = min(o, after)
            pads[i], extra[i] = (before, after - kept), o - kept
    made = _pads(pads)
    if any(extra):
        made["output_padding"] = tuple(extra)
    return made


def _pads(pairs: Sequence[tuple[int, int]]) -> dict[str, Any]:
    return {"pads": (*(p[0] for p in pairs), *(p[1] for p in pairs))}

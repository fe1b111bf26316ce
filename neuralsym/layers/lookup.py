"""Words and numbers to indices, and indices to vectors: preprocessing that ONNX can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch, TypeMismatch, did_you_mean
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer

OutputMode: TypeAlias = Literal["int", "one_hot", "multi_hot", "count", "tf_idf"]
_MODES = ("int", "one_hot", "multi_hot", "count", "tf_idf")


def _check_mode(mode: str, modes: Sequence[str] = _MODES) -> None:
    if mode not in modes:
        raise BadAttribute(
            f"output_mode={mode!r}{did_you_mean(mode, modes)}: one of {', '.join(modes)}"
        )


def _encoded(indices: Symbol, mode: str, depth: int, weights: Symbol | None = None) -> Symbol:
    """Indices [..., L] as int, or as vectors of `depth` numbers; an index out of range is none."""
    if mode == "int":
        return indices
    shape = require_shape(indices)
    if not shape:
        raise ShapeMismatch(f"takes a batch of indices, came {indices.type}")
    if mode == "one_hot" and len(shape) > 1 and shape[-1] == 1:
        indices = ops.squeeze(indices, [-1])
    classes = constant(np.arange(depth), str(indices.dtype))
    hot = ops.cast(ops.equal(ops.unsqueeze(indices, [-1]), classes), to="float32")
    if mode == "one_hot":
        return hot
    if mode == "multi_hot":
        return ops.reduce_max(hot, [-2], keepdims=0)
    if weights is not None:
        hot = hot * ops.unsqueeze(weights, [-1])
    return ops.reduce_sum(hot, [-2], keepdims=0)


@layer
def category_encoding(
    x: Symbol | Sequence[Symbol],
    num_tokens: int,
    output_mode: Literal["one_hot", "multi_hot", "count"] = "multi_hot",
    *,
    name: str | None = None,
) -> Symbol:
    """Indices as vectors of num_tokens numbers: integers [N, L] -> float32 [N, num_tokens].

    "multi_hot": 1 where an index of the row occurs; "count": how often, or the sum of a second
    symbol [N, L] of weights, `(x, weights) | category_encoding(...)`; "one_hot": a vector for each
    index [..., num_tokens], a last axis of size 1 being taken away. What is no index is left out.

    Keras CategoryEncoding; torch functional.one_hot; ONNX Equal, Cast, and ReduceMax or ReduceSum.
    """
    _check_mode(output_mode, ("one_hot", "multi_hot", "count"))
    if num_tokens < 1:
        raise BadAttribute(f"num_tokens={num_tokens}: must be at least 1")
    indices, *weights = [x] if isinstance(x, Symbol) else list(x)
    if len(weights) > 1 or (weights and output_mode != "count"):
        raise BadAttribute("takes indices, and for output_mode='count' one symbol of weights")
    if not indices.dtype.is_integer:
        raise TypeMismatch(f"takes integers, came {indices.type}")
    return _encoded(indices, output_mode, num_tokens, weights[0] if weights else None)


@layer
def discretization(
    x: Symbol,
    bin_boundaries: Sequence[float],
    output_mode: Literal["int", "one_hot", "multi_hot", "count"] = "int",
    *,
    name: str | None = None,
) -> Symbol:
    """The number of the bin of each value: -> int64 of the same shape, or vectors of its kind.

    bin_boundaries: rising; bin i holds boundaries[i-1] <= x < boundaries[i], so there is one bin
    more. output_mode as in category_encoding.

    Keras Discretization; torch bucketize (right=True); ONNX GreaterOrEqual, Cast and ReduceSum.
    """
    _check_mode(output_mode, ("int", "one_hot", "multi_hot", "count"))
    bounds = np.asarray(bin_boundaries, np.float64)
    if bounds.ndim != 1 or not bounds.size or np.any(np.diff(bounds) <= 0):
        raise BadAttribute("bin_boundaries: one rising sequence of numbers is needed")
    reached = ops.unsqueeze(x, [-1]) >= constant(bounds, str(x.dtype))
    bins = ops.reduce_sum(ops.cast(reached, to="int64"), [-1], keepdims=0)
    return _encoded(bins, output_mode, len(bounds) + 1)


@layer
def string_lookup(
    x: Symbol,
    vocabulary: Sequence[str],
    *,
    num_oov_indices: int = 1,
    mask_token: str | None = None,
    oov_token: str = "[UNK]",
    idf_weights: Sequence[float] | None = None,
    invert: bool = False,
    output_mode: OutputMode = "int",
    name: str | None = None,
) -> Symbol:
    """The place of each word in a vocabulary: strings [...] -> int64 [...].

    Index 0 is mask_token where there is one (output_mode "int"), then comes the index of unknown
    words (num_oov_indices=1; 0: they become -1), then the vocabulary. More than one such index
    needs Keras's hash, which ONNX has not: BadAttribute. output_mode as in category_encoding;
    "tf_idf": counts times idf_weights, one for each word, their mean for unknown ones. invert:
    indices to words.

    Keras StringLookup; ONNX LabelEncoder (ai.onnx.ml).
    """
    if num_oov_indices > 1:
        raise BadAttribute(
            f"num_oov_indices={num_oov_indices}: spreading unknown words over several indices "
            "needs a hash that ONNX has not; use 0 or 1"
        )
    words = [str(w) for w in vocabulary]
    table = _Table(words, num_oov_indices, mask_token, oov_token, output_mode)
    if invert:
        return table.inverted(x, "values_strings", "default_string")
    _is_string(x)
    places = table.places(output_mode)
    found = ops.label_encoder(
        x,
        keys_strings=list(places),
        values_int64s=list(places.values()),
        default_int64=table.unknown(output_mode),
    )
    return _weighed(found, table, output_mode, idf_weights)


@layer
def integer_lookup(
    x: Symbol,
    vocabulary: Sequence[int],
    *,
    num_oov_indices: int = 1,
    mask_token: int | None = None,
    oov_token: int = -1,
    idf_weights: Sequence[float] | None = None,
    invert: bool = False,
    output_mode: OutputMode = "int",
    name: str | None = None,
) -> Symbol:
    """The place of each number in a vocabulary: int64 [...] -> int64 [...].

    As string_lookup; unknown numbers are spread over several indices by their remainder
    (num_oov_indices above 1).

    Keras IntegerLookup (oov_method="floormod"); ONNX LabelEncoder (ai.onnx.ml), and Mod.
    """
    words = [int(w) for w in vocabulary]
    table = _Table(words, num_oov_indices, mask_token, oov_token, output_mode)
    if invert:
        return table.inverted(x, "values_int64s", "default_int64")
    if not x.dtype.is_integer:
        raise TypeMismatch(f"takes integers, came {x.type}")
    numbers = x if x.dtype == "int64" else ops.cast(x, to="int64")
    places = table.places(output_mode)
    outside = -2 if num_oov_indices > 1 else table.unknown(output_mode)
    found = ops.label_encoder(
        numbers,
        keys_int64s=list(places),
        values_int64s=list(places.values()),
        default_int64=outside,
    )
    if num_oov_indices > 1:
        spread = ops.mod(numbers, num_oov_indices) + table.unknown(output_mode)
        found = ops.where(ops.equal(found, -2), spread, found)
    return _weighed(found, table, output_mode, idf_weights)


class _Table:
    """A vocabulary with its indices: mask, unknown ones, words."""

    def __init__(self, words: list[Any], oov: int, mask: Any, unknown: Any, mode: str) -> None:
        _check_mode(mode)
        if not words:
            raise BadAttribute("vocabulary: at least one word is needed")
        if oov < 0:
            raise BadAttribute(f"num_oov_indices={oov}: must not be negative")
        # Keras takes vocabularies that begin with the special tokens, as its own layers give them.
        lead = [*([mask] if mask is not None else []), *[unknown] * oov]
        if lead and words[: len(lead)] == lead:
            words = words[len(lead) :]
        if len(set(words)) != len(words) or mask in words:
            raise BadAttribute("vocabulary: a word occurs twice")
        self.words, self.oov, self.mask, self.token = words, oov, mask, unknown

    def start(self, mode: str) -> int:
        """The index of the first unknown word, or where the words begin."""
        return int(self.mask is not None and mode == "int")

    def unknown(self, mode: str) -> int:
        return self.start(mode) if self.oov else -1

    def places(self, mode: str) -> dict[Any, int]:
        """Each word's index; the mask's where there is one, -1 where vectors leave it out."""
        first = self.start(mode) + self.oov
        found = {w: first + i for i, w in enumerate(self.words)}
        if self.mask is not None:
            found[self.mask] = 0 if mode == "int" else -1
        return found

    def inverted(self, x: Symbol, values: str, default: str) -> Symbol:
        if not x.dtype.is_integer:
            raise TypeMismatch(f"invert takes indices, came {x.type}")
        numbers = x if x.dtype == "int64" else ops.cast(x, to="int64")
        found = {place: word for word, place in self.places("int").items()}
        settings: dict[str, Any] = {values: list(found.values()), default: self.token}
        return ops.label_encoder(numbers, keys_int64s=list(found), **settings)


def _weighed(
    found: Symbol, table: _Table, mode: str, idf_weights: Sequence[float] | None
) -> Symbol:
    if (idf_weights is not None) != (mode == "tf_idf"):
        raise BadAttribute("idf_weights and output_mode='tf_idf' are given together")
    encoded = _encoded(found, mode, table.oov + len(table.words))
    if idf_weights is None:
        return encoded
    weights = np.asarray(idf_weights, np.float64)
    if weights.shape != (len(table.words),):
        raise BadAttribute(f"idf_weights: one for each of the {len(table.words)} words is needed")
    padded = np.concatenate([np.full(table.oov, weights.mean()), weights])
    return encoded * constant(padded, str(encoded.dtype))


def _is_string(x: Symbol) -> None:
    if x.dtype != "string":
        raise TypeMismatch(f"takes strings, came {x.type}: input(..., dtype='string')")

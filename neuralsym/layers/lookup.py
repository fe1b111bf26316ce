"""Words and numbers to their places in a vocabulary, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, TypeMismatch
from neuralsym.layers.base import require_between
from neuralsym.layers.encode import check_mode, encoded
from neuralsym.layers.factory import layer
from neuralsym.layers.window import LARGEST_AXIS

OutputMode: TypeAlias = Literal["int", "one_hot", "multi_hot", "count", "tf_idf"]
_MODES = ("int", "one_hot", "multi_hot", "count", "tf_idf")


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
        check_mode(mode, _MODES)
        if not words:
            raise BadAttribute("vocabulary: at least one word is needed")
        require_between("num_oov_indices", oov, 0, LARGEST_AXIS)
        # Keras takes vocabularies that begin with the special tokens, as its own layers give them.
        lead = [*([mask] if mask is not None else []), *[unknown] * min(oov, len(words) + 1)]
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
    if mode == "int":
        return found
    made = encoded(found, table.oov + len(table.words), "count" if mode == "tf_idf" else mode)
    if idf_weights is None:
        return made
    weights = np.asarray(idf_weights, np.float64)
    if weights.shape != (len(table.words),):
        raise BadAttribute(f"idf_weights: one for each of the {len(table.words)} words is needed")
    padded = np.concatenate([np.full(table.oov, weights.mean()), weights])
    return made * constant(padded, str(made.dtype))


def _is_string(x: Symbol) -> None:
    if x.dtype != "string":
        raise TypeMismatch(f"takes strings, came {x.type}: input(..., dtype='string')")

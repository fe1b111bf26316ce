"""Strings: joining, splitting, matching and normalising them, and counting n-grams."""

from __future__ import annotations

from neuralsym.core.op import Call
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import Elementwise, Text, check_choice, check_range, check_rank


class StringConcat(Elementwise):
    """The strings of two tensors joined at each place."""


class RegexFullMatch(Text):
    """Whether each whole string matches the pattern, in the syntax of RE2."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(NumberType.BOOL, call.shape(0))]


class StringSplit(Text):
    """Each string split at a delimiter, padded to the longest, and the number of its parts."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        shape = call.shape(0)
        parts = None if shape is None else (*shape, None)
        return [TensorType(NumberType.STRING, parts), TensorType(NumberType.INT64, shape)]


class StringNormalizer(Text):
    """Strings of a list in one case, without the stopwords."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "case_change_action", ("LOWER", "UPPER", "NONE"))
        check_rank(call, 0, 1, 2)
        shape = call.shape(0)
        if shape is not None and len(shape) == 2 and isinstance(shape[0], int) and shape[0] != 1:
            call.fail("it takes a list of strings, or a matrix of one row")

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        shape = call.shape(0)
        left = None if shape is None else (None,) if len(shape) == 1 else (1, None)
        return [TensorType(NumberType.STRING, left)]


class TfIdfVectorizer(Text):
    """Counts or weights of the n-grams of a vocabulary in each row."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "mode", ("TF", "IDF", "TFIDF"))
        for name in ("min_gram_length", "max_gram_length"):
            check_range(call, name, 1)
        check_range(call, "max_skip_count", 0)
        check_range(call, "ngram_indexes", 0, 2**31 - 1)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        shape = call.shape(0)
        width = max(call.attr("ngram_indexes"), default=-1) + 1
        out = None if shape is None else (*shape[:-1], width)
        return [TensorType(NumberType.FLOAT32, out)]

"""Strings: joining, splitting, matching and normalising them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralsym.core.op import Call
from neuralsym.core.symbol import Node
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import ExecutionError, at_line
from neuralsym.ops.base import Elementwise, Text, check_choice, check_rank


class StringConcat(Elementwise):
    """The strings of two tensors joined at each place."""


class RegexFullMatch(Text):
    """Whether each whole string matches the pattern, in the syntax of RE2."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(NumberType.BOOL, call.shape(0))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        pattern = node.attr("pattern") or ""
        try:
            matches = re.compile(pattern).fullmatch
        except re.error as error:
            raise ExecutionError(
                f"{node.describe()}: the pattern {pattern!r} is no regular expression that can be "
                f"run: {error}{at_line(node.where)}"
            ) from None
        found = [matches(text) is not None for text in values[0].reshape(-1).tolist()]
        return [np.array(found, np.bool_).reshape(values[0].shape)]


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

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        """Stopwords are removed first, then the case is changed; all else stays as it is.

        onnx's reference evaluator also takes accents off and drops empty strings, of which the
        specification says nothing.
        """
        exact = bool(node.attr("is_case_sensitive"))
        stops = {w if exact else w.lower() for w in node.attr("stopwords") or ()}
        texts = values[0].reshape(-1).tolist()
        kept = [text for text in texts if (text if exact else text.lower()) not in stops] or [""]
        change = {"LOWER": str.lower, "UPPER": str.upper}.get(node.attr("case_change_action"))
        made = np.empty(len(kept), object)
        made[:] = kept if change is None else [change(text) for text in kept]
        return [made.reshape((1, -1) if values[0].ndim == 2 else (-1,))]

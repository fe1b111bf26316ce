"""What TensorFlow says of tensors and operations in the words of a flow: types, shapes, text.

Booleans become `true` and `false`, shapes `784x10`, number types their names, lists are joined by
commas, as Myelin's extractor writes them.
"""

from __future__ import annotations

from typing import Any

from neuralsym.engines.flow import BATCH

UNKNOWN = 0
_LEFT_OUT = ("value", "container", "shared_name")
_UNREADABLE = ("variant", "resource")


def type_name(dtype: Any) -> str:
    """A DType in Myelin's words; "" for lists and other values that are no tensors."""
    name = str(dtype.base_dtype.name)
    return "" if name in _UNREADABLE else name


def sizes(shape: Any) -> list[int]:
    """A TensorShape as a flow has it: -1 for None, 0 where nothing is known of it.

    A single 0 stands for an unknown rank, zeros alone for sizes that are all unknown but of more
    than one axis.
    """
    if shape.rank is None:
        return [UNKNOWN]
    found = list(shape.as_list())
    if len(found) > 1 and not any(d is not None for d in found):
        return [UNKNOWN] * len(found)
    return [BATCH if d is None else int(d) for d in found]


def texts(node: Any) -> dict[str, str]:
    """The attributes of a NodeDef as text; no constants' values, and nothing internal."""
    return {
        name: value_text(node.attr[name])
        for name in sorted(node.attr)
        if not name.startswith("_") and name not in _LEFT_OUT
    }


def value_text(value: Any) -> str:
    """An AttrValue as text."""
    kind = value.WhichOneof("value")
    if kind == "list":
        kinds = [f for f in ("s", "i", "f", "b", "type", "shape", "func") if getattr(value.list, f)]
        return ",".join(_one(kinds[0], v) for v in getattr(value.list, kinds[0])) if kinds else ""
    return "" if kind in (None, "tensor", "placeholder") else _one(kind, getattr(value, kind))


def _one(kind: str, value: Any) -> str:
    if kind == "s":
        return str(value.decode("utf-8", "backslashreplace"))
    if kind == "b":
        return "true" if value else "false"
    if kind == "type":
        from neuralsym.engines.tensorflow.extra import tensorflow

        return str(tensorflow().dtypes.as_dtype(value).name)
    if kind == "shape":
        return "x".join(str(d.size) for d in value.dim)
    if kind == "func":
        return str(value.name)
    return f"{value:.9g}" if kind == "f" else str(value)

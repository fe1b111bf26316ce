"""What the classes of networks are called, and the answers of networks as classes.

imagenet.txt has ImageNet's 1000 names in the order of its synsets, as torchvision lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from neuralsym.errors import BadAttribute, ShapeMismatch, at_line, user_line
from neuralsym.network import Network
from neuralsym.zoo.registry import ENTRIES, find, is_positive


def class_names(of: str | Network) -> tuple[str, ...]:
    """The names of the classes in order, of a network of the zoo or of any; () if it has none.

    A network's own are those of its metadata "classes", one a line, else those of the architecture
    that its metadata names, where its answer has as many.
    """
    if not isinstance(of, Network):
        return _names(find(of).labels)
    own = tuple(name for name in of.metadata.get("classes", "").split("\n") if name)
    entry = ENTRIES.get(of.metadata.get("architecture", ""))
    if own or entry is None:
        return own
    names, shape = _names(entry.labels), of.outputs[0].shape
    return names if shape and shape[-1] == len(names) else ()


@cache
def _names(labels: str) -> tuple[str, ...]:
    if not labels:
        return ()
    text = Path(__file__).with_name(f"{labels}.txt").read_text(encoding="utf-8")
    return tuple(text.splitlines())


@dataclass(frozen=True)
class Prediction:
    """A class that a network sees, and how sure it is (0 to 1)."""

    index: int
    label: str
    score: float


def decode(
    name: str | Network | None,
    logits: ArrayLike,
    top: int = 5,
    labels: Sequence[str] | None = None,
) -> list[list[Prediction]]:
    """The `top` likeliest classes of each row of logits (or probabilities) [N, classes].

    name: of a network of the zoo, or a Network. labels: the names of the classes in order; those of
    class_names(name) unless given, where there are as many. Without any, a class is called by its
    number. Raises ShapeMismatch for another rank or number, BadAttribute for what are no numbers.
    """
    known, where = () if name is None else class_names(name), at_line(user_line())
    try:
        values = np.asarray(logits, np.float64)
    except (TypeError, ValueError):
        raise BadAttribute(f"decode takes numbers [N, classes]{where}") from None
    if values.ndim != 2:
        raise ShapeMismatch(f"decode takes [N, classes], came {list(values.shape)}{where}")
    if np.isnan(values).any():
        raise BadAttribute(f"decode: NaN is no score{where}")
    if labels is None:
        labels = known if len(known) == values.shape[1] else None
    elif isinstance(labels, str) or not isinstance(labels, (Sequence, np.ndarray)):
        raise TypeError(
            f"decode: labels are a sequence of names, not {type(labels).__name__}{where}"
        )
    elif len(labels) != values.shape[1]:
        raise ShapeMismatch(f"decode: {len(labels)} labels for {values.shape[1]} classes{where}")
    if not is_positive(top):
        raise BadAttribute(f"decode: top={top!r} is no positive number of classes{where}")
    sure = bool((values >= 0).all() and np.allclose(values.sum(1), 1, atol=1e-3))
    if not sure:
        values = np.exp(values - values.max(1, keepdims=True))
        values /= values.sum(1, keepdims=True)
    best = np.argsort(-values, axis=1, kind="stable")[:, :top]
    return [
        [
            Prediction(int(k), labels[k] if labels is not None else f"class {k}", float(row[k]))
            for k in order
        ]
        for order, row in zip(best, values, strict=True)
    ]

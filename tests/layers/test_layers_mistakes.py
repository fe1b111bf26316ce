"""Mistakes that users make, each answered at their own line with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from neuralsym import BadAttribute, ShapeMismatch, Symbol, TypeMismatch
from neuralsym import layers as nn


def x() -> Symbol:
    return nn.input(("N", 3, 32, 32))


def applied(made: object) -> object:
    """A layer's result: some settings can be judged only when it is used."""
    return made(x()) if callable(made) else made


MISTAKES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: x() | nn.conv2d, TypeError, r"conv2d\(\) takes settings.*x \| conv2d\(filters"),
    (lambda: nn.conv2d(8, 3, stride=2), TypeError, r"'stride'.*'strides'"),
    (lambda: nn.input(3), ShapeMismatch, r"input\(\('N', 3\)\)"),  # type: ignore[arg-type]
    (lambda: nn.input("N", 3), ShapeMismatch, r"input\(\('N', 3\)\)"),  # type: ignore[arg-type]
    (lambda: nn.conv2d(8), TypeError, "kernel_size"),
    (lambda: nn.conv2d([32, 3, 3, 3], [1, 1]), BadAttribute, r"conv2d\(32, \(3, 3\)"),
    (lambda: x() | nn.conv2d(8, 3) + x(), TypeError, r"parentheses"),
    (lambda: nn.relu + 1, TypeError, r"\(x \| relu\) \+ y"),
    (lambda: x() | nn.prelu(shared_axes=(9,)), BadAttribute, "no axis 9"),
    (lambda: x() | nn.concat(), TypeError, "fork"),
    (lambda: (x(), x()) | nn.conv2d(8, 3), TypeError, r"concat\(\) or add\(\)|parallel"),
    (lambda: x() | nn.activation("rleu"), BadAttribute, "'relu'"),
    (lambda: x() | nn.conv2d(8, 3, padding="smae"), BadAttribute, "'same'"),
    (lambda: x() | nn.conv2d(8, 3, kernel_initializer="glorot"), BadAttribute, "glorot_uniform"),
    (lambda: x() | nn.conv2d(8, 3, groups=2), BadAttribute, "groups"),
    (lambda: x() | nn.conv2d(8, 40, padding="valid"), ShapeMismatch, "40|window"),
    (lambda: nn.input((3, 32, 32)) | nn.conv2d(8, 3), ShapeMismatch, "batch axis"),
    (lambda: nn.input(("N", "C", 8, 8)) | nn.conv2d(8, 3), ShapeMismatch, "axis 1"),
    (
        lambda: nn.input(("N", 3, "H", "W")) | nn.fully_connected(8),
        ShapeMismatch,
        "global pool|fixed",
    ),
    (lambda: x() | nn.residual(nn.conv2d(8, 3)), ShapeMismatch, "8.*3|shortcut"),
    (lambda: nn.input(()) | nn.linear(3), ShapeMismatch, "rank|axis"),
    (lambda: nn.input((-1, 3)), ShapeMismatch, "negative"),
    (lambda: nn.dropout(1.5), BadAttribute, "rate"),
    (lambda: bool(x()), TypeMismatch, "no truth value"),
    (lambda: x() | nn.lambda_(lambda s: 3), BadAttribute, "Symbol"),
    (lambda: nn.weight("k", (3,)), BadAttribute, "@layer"),
]


@pytest.mark.parametrize(("mistake", "kind", "words"), MISTAKES, ids=lambda v: str(v)[:40])
def test_mistake(mistake: Callable[[], object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=rf"(?s){words}") as raised:
        applied(mistake())
    assert f"{Path(__file__).name}:" in str(raised.value), "the user's own line"

"""Convolutions and products with an activation behind them, a scale before them, another layout."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.ops.base import check_choice
from neuralsym.ops.contrib.base import Contrib, Given, flipped, op, rank_of, transpose
from neuralsym.ops.contrib.declare import BYTES, WIDE, declare, needed, optional
from neuralsym.ops.contrib.quantised import channels_last, channels_second

_TYPES = {"T": WIDE}
_CONV = {
    "auto_pad": "NOTSET",
    "dilations": optional("INTS"),
    "group": 1,
    "kernel_shape": optional("INTS"),
    "pads": optional("INTS"),
    "strides": optional("INTS"),
}
_ACTIVE = {"activation": optional("STRING"), "activation_params": optional("FLOATS")}
ACTIVATIONS = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": ("alpha",),
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
    "Elu": ("alpha",),
    "Softplus": (),
    "ThresholdedRelu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "Softsign": (),
    "Gelu": (),
    "HardSwish": (),
}
"""The activations that may be fused, with the names of their parameters in order."""


def activated(x: Symbol, name: str | None, parameters: Sequence[float | None] = ()) -> Symbol:
    """x behind an activation; x itself for None or an empty name."""
    if not name:
        return x
    settings = dict(zip(ACTIVATIONS[name], parameters, strict=False))
    if name == "Clip":
        return op("Clip", x, settings.get("min"), settings.get("max"))
    return op(name, x, **settings)


def _check_activation(call: Call) -> None:
    if call.attr("activation"):
        check_choice(call, "activation", tuple(ACTIVATIONS))


class FusedConv(Contrib):
    """Conv, plus Z if it is given, then an activation."""

    schema = declare("FusedConv", "X:T W:T B:T? Z:T?", "Y:T", _TYPES, _CONV | _ACTIVE)

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        _check_activation(call)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        y = op("Conv", *_three(given), **{name: given.attr(name) for name in _CONV})
        if given.has(3):
            y = y + given[3]
        return [activated(y, given.attr("activation"), given.attr("activation_params") or ())]


def _three(given: Given) -> list[Symbol | None]:
    return [given[0], given[1], given.optional(2)]


class NhwcConv(Contrib):
    """Conv of images whose channels come last; the filters are as in ONNX."""

    schema = declare("NhwcConv", "X:T W:T B:T?", "Y:T", _TYPES, _CONV)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        x, w, b = _three(given)
        assert x is not None
        attrs = {name: given.attr(name) for name in _CONV}
        return [channels_last(op("Conv", channels_second(x), w, b, **attrs))]


class NhwcFusedConv(FusedConv):
    """FusedConv of images whose channels come last; Z has the layout of the result."""

    schema = declare("NhwcFusedConv", "X:T W:T B:T? Z:T?", "Y:T", _TYPES, _CONV | _ACTIVE)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        x, w, b = _three(given)
        assert x is not None
        attrs = {name: given.attr(name) for name in _CONV}
        y = channels_last(op("Conv", channels_second(x), w, b, **attrs))
        if given.has(3):
            y = y + given[3]
        return [activated(y, given.attr("activation"), given.attr("activation_params") or ())]


class NhwcMaxPool(Contrib):
    """MaxPool of bytes whose channels come last."""

    schema = declare(
        "NhwcMaxPool",
        "x:T",
        "y:T",
        {"T": BYTES},
        {
            "auto_pad": "NOTSET",
            "ceil_mode": 0,
            "dilations": optional("INTS"),
            "kernel_shape": needed("INTS"),
            "pads": optional("INTS"),
            "strides": optional("INTS"),
        },
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        attrs = {name: given.attr(name) for name in cls.schema.attributes}
        return [channels_last(op("MaxPool", channels_second(given[0]), **attrs))]


_PRODUCT = {"alpha": 1.0, "transA": 0, "transB": 0}
_BATCHES = {"transBatchA": 0, "transBatchB": 0}
_BEHIND = {
    "activation_alpha": optional("FLOAT"),
    "activation_beta": optional("FLOAT"),
    "activation_gamma": optional("FLOAT"),
}


class FusedMatMul(Contrib):
    """alpha * A @ B, either transposed first.

    transBatchA moves the first axis of A to the second place from the end, transBatchB that of B.
    """

    schema = declare("FusedMatMul", "A:T B:T", "Y:T", _TYPES, _PRODUCT | _BATCHES)

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        for name in ("transA", "transB", "transBatchA", "transBatchB"):
            if name in cls.schema.attributes:
                check_choice(call, name, (0, 1))

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        y = op("MatMul", _turned(given, 0, "A"), _turned(given, 1, "B"))
        alpha = given.attr("alpha")
        return [y if alpha == 1 else y * alpha]


def _turned(given: Given, index: int, which: str) -> Symbol:
    x = given[index]
    if given.attr(f"transBatch{which}") and rank_of(x) > 2:
        rank = rank_of(x)
        x = transpose(x, *range(1, rank - 1), 0, rank - 1)
    # A vector has nothing to exchange.
    return flipped(x) if given.attr(f"trans{which}") and rank_of(x) > 1 else x


class TransposeMatMul(FusedMatMul):
    """FusedMatMul by its older name."""

    schema = declare("TransposeMatMul", "A:T B:T", "Y:T", _TYPES, _PRODUCT)


class FusedMatMulActivation(FusedMatMul):
    """FusedMatMul with an activation behind it."""

    schema = declare(
        "FusedMatMulActivation",
        "A:T B:T",
        "Y:T",
        _TYPES,
        {
            **_PRODUCT,
            **_BATCHES,
            **_BEHIND,
            "activation": needed("STRING"),
            "activation_axis": optional("INT"),
        },
    )

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "activation", (*ACTIVATIONS, "Softmax"))

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        (y,) = super().written(given)
        if given.attr("activation") == "Softmax":
            axis = given.attr("activation_axis")
            return [op("Softmax", y, axis=-1 if axis is None else axis)]
        return [activated(y, given.attr("activation"), _parameters(given))]


def _parameters(given: Given) -> list[float | None]:
    """The activation's parameters in the order of its names."""
    alpha, beta, gamma = (given.attr(f"activation_{n}") for n in ("alpha", "beta", "gamma"))
    return [alpha, gamma] if given.attr("activation") == "Selu" else [alpha, beta, gamma]


class FusedGemm(Contrib):
    """Gemm with an activation behind it."""

    schema = declare(
        "FusedGemm",
        "A:T B:T C:T?",
        "Y:T",
        {"T": (*WIDE, "int32", "uint32", "int64", "uint64")},
        {**_PRODUCT, **_BEHIND, "beta": 1.0, "activation": optional("STRING")},
    )
    ranks = "A:2 B:2"

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        _check_activation(call)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        attrs = {name: given.attr(name) for name in ("alpha", "beta", "transA", "transB")}
        y = op("Gemm", *_three(given), **attrs)
        return [activated(y, given.attr("activation"), _parameters(given))]

"""The fused activations: GELU in its forms, with the bias that comes before it."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.symbol import Symbol
from neuralsym.ops.contrib.base import Contrib, Given, cast, op, rank_of, several
from neuralsym.ops.contrib.declare import BOOL, FLOATS, WIDE, declare, needed, optional

_WIDE = {"T": WIDE}
_FLOATS = {"T": FLOATS}


class Gelu(Contrib):
    """x times the share of a normal distribution below x, by the error function."""

    schema = declare("Gelu", "X:T", "Y:T", _WIDE)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        return [op("Gelu", given[0])]


class BiasGelu(Contrib):
    """GELU of the sum of A and a bias along its last axis."""

    schema = declare("BiasGelu", "A:T B:T", "C:T", _WIDE)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        return [op("Gelu", given[0] + given[1])]


class FastGelu(Contrib):
    """GELU by the hyperbolic tangent, of x plus a bias if there is one."""

    schema = declare("FastGelu", "X:T bias:T?", "Y:T", _WIDE)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        x = given[0] + given[1] if given.has(1) else given[0]
        return [op("Gelu", x, approximate="tanh")]


class GemmFastGelu(Contrib):
    """GELU by the hyperbolic tangent of a product, plus a bias if there is one."""

    schema = declare("GemmFastGelu", "X:T W:T bias:T?", "Y:T", _FLOATS)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        x = op("MatMul", given[0], given[1])
        x = x + given[2] if given.has(2) else x
        return [op("Gelu", x, approximate="tanh")]


class BiasDropout(Contrib):
    """Dropout of data + bias, plus a residual; without training the sum alone."""

    schema = declare(
        "BiasDropout",
        "data:T bias:T residual:T? ratio:T1? training_mode:T2?",
        "output:T mask:T2?",
        {"T": WIDE, "T1": WIDE, "T2": BOOL},
        {"seed": optional("INT")},
    )
    deterministic = False

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        inputs = [given[0] + given[1], given.optional(3), given.optional(4)]
        y, mask = several("Dropout", inputs, 2, seed=given.attr("seed"))
        return [y + given[2] if given.has(2) else y, mask][: given.count]


class QuickGelu(Contrib):
    """x * sigmoid(alpha * x)."""

    schema = declare("QuickGelu", "X:T", "Y:T", _WIDE, {"alpha": 1.702})

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        x = given[0]
        return [x * op("Sigmoid", x * given.attr("alpha"))]


class BiasAdd(Contrib):
    """x + bias + skip."""

    schema = declare("BiasAdd", "X:T bias:T skip:T", "Y:T", _FLOATS)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        return [given[0] + given[1] + given[2]]


class BiasSplitGelu(Contrib):
    """x + bias, cut into halves along the last axis: the first times the GELU of the second."""

    schema = declare("BiasSplitGelu", "X:T bias:T", "Y:T", _FLOATS)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        first, second = several("Split", [given[0] + given[1]], 2, axis=-1, num_outputs=2)
        return [first * op("Gelu", second)]


class BiasSoftmax(Contrib):
    """Softmax of data + bias over all axes from `axis` on, taken as one.

    The bias lacks the axes before `axis`, or those between the ones that it has and `axis`
    (`is_inner_broadcast`), or has sizes of 1 there.
    """

    schema = declare(
        "BiasSoftmax",
        "data:T bias:T",
        "output:T",
        _WIDE,
        {"axis": 1, "is_inner_broadcast": needed("INT")},
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        data, bias = given[0], given[1]
        rank = rank_of(data)
        axis = given.axis(rank)
        total = data + bias
        if axis == rank - 1:
            return [op("Softmax", total, axis=-1)]
        rows = op("Flatten", total, axis=axis)
        return [op("Reshape", op("Softmax", rows, axis=-1), op("Shape", data))]


class SwiGLU(Contrib):
    """gate * sigmoid(alpha * gate) * (up + beta), both halves clamped first where limit > 0.

    Without `up`, `gate` holds both halves along its last axis.
    """

    schema = declare(
        "SwiGLU",
        "gate:T up:T?",
        "output:T",
        _FLOATS,
        {"activation_alpha": 1.0, "activation_beta": 0.0, "limit": 0.0, "round_activation": 0},
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        dtype, limit = given[0].dtype, given.attr("limit")
        if given.has(1):
            gate, up = given[0], given[1]
        else:
            gate, up = several("Split", [given[0]], 2, axis=-1, num_outputs=2)
        gate, up = cast(gate, "float32"), cast(up, "float32")
        if limit > 0:
            gate = op("Min", gate, limit)
            up = op("Clip", up, -limit, limit)
        active = gate * op("Sigmoid", gate * given.attr("activation_alpha"))
        if given.attr("round_activation"):
            active = cast(cast(active, dtype), "float32")
        return [cast(active * (up + given.attr("activation_beta")), dtype)]


class ScaledSiLU(Contrib):
    """z * sigmoid(z) of z = scale * x, rounded to x's type at each step."""

    schema = declare(
        "ScaledSiLU", "X:T scale:M?", "Y:T", {"T": FLOATS, "M": FLOATS}, {"alpha": 1.0}
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        x = given[0]
        wide = cast(x, "float32")
        factor = cast(given[1], "float32") if given.has(1) else given.attr("alpha")
        z = cast(wide * factor, x.dtype)
        return [z * op("Sigmoid", z)]

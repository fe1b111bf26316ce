"""The fused normalisations: layer and group norms together with the sums before them."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.ops.base import check_choice, check_range
from neuralsym.ops.contrib.base import (
    Contrib,
    Given,
    cast,
    numbers,
    op,
    part,
    rank_of,
    reshape,
    several,
    size,
    transpose,
    unsqueeze,
    whole,
)
from neuralsym.ops.contrib.declare import (
    BYTES,
    FLOAT,
    FLOATS,
    INT32,
    WIDE,
    declare,
    needed,
    optional,
)

_SKIP = {"T": WIDE, "U": FLOAT}
_EPSILON = {"epsilon": 1e-12}


class Rows(Contrib, abstract=True):
    """Normalises rows along the last axis of the sum of input, skip and bias."""

    centred = True
    ranks = "input:2,3 skip:2,3 gamma:1"

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        gamma, beta, bias = cls.parts(given)
        total = given[0] + given[1]
        if bias is not None:
            total = total + bias
        return rows_normalised(given, total, gamma, beta, cls.centred, total)

    @classmethod
    def parts(cls, given: Given) -> tuple[Symbol, Symbol | None, Symbol | None]:
        """The scale, the shift and the bias."""
        raise NotImplementedError


def rows_normalised(
    given: Given, x: Symbol, gamma: Symbol, beta: Symbol | None, centred: bool, total: Symbol
) -> list[Symbol]:
    """The rows of x normalised; with their mean, the inverse of their deviation, and `total`."""
    epsilon = given.attr("epsilon")
    if centred:
        beta = beta if beta is not None else op("Mul", gamma, 0.0)
        y, mean, inverse = several(
            "LayerNormalization", [x, gamma, beta], 3, axis=-1, epsilon=epsilon
        )
    else:
        y = op("RMSNormalization", x, gamma, axis=-1, epsilon=epsilon)
        wide = cast(x, "float32")
        squares = op("ReduceMean", wide * wide, whole(-1), keepdims=1)
        inverse = op("Reciprocal", op("Sqrt", squares + epsilon))
        mean = op("Mul", inverse, 0.0)
    return [y, cast(mean, "float32"), cast(inverse, "float32"), total][: max(given.count, 1)]


class SkipLayerNormalization(Rows):
    """Layer normalisation of input + skip + bias; the sum is the fourth output."""

    schema = declare(
        "SkipLayerNormalization",
        "input:T skip:T gamma:T beta:T? bias:T?",
        "output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?",
        _SKIP,
        _EPSILON,
    )

    @classmethod
    def parts(cls, given: Given) -> tuple[Symbol, Symbol | None, Symbol | None]:
        return given[2], given.optional(3), given.optional(4)


class SkipSimplifiedLayerNormalization(Rows):
    """Root-mean-square normalisation of input + skip + bias; the sum is the fourth output."""

    centred = False
    schema = declare(
        "SkipSimplifiedLayerNormalization",
        "input:T skip:T gamma:T bias:T?",
        "output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?",
        _SKIP,
        _EPSILON,
    )

    @classmethod
    def parts(cls, given: Given) -> tuple[Symbol, Symbol | None, Symbol | None]:
        return given[2], None, given.optional(3)


class Embedding(Contrib, abstract=True):
    """Sums of word, position and segment vectors, layer-normalised."""

    @classmethod
    def lengths(cls, given: Given, mask: Symbol | None) -> Symbol:
        """How many places of each row the mask leaves; 0 without a mask."""
        if mask is None:
            return op("Expand", numbers(0, "int32"), size(given[0], 0))
        return op("ReduceSum", mask, whole(1), keepdims=0)

    @classmethod
    def total(
        cls,
        given: Given,
        word: Symbol,
        position: Symbol,
        segment: Symbol | None,
        places: Symbol | None = None,
    ) -> Symbol:
        made = op("Gather", word, given[0], axis=0)
        if places is not None:
            made = made + op("Gather", position, places, axis=0)
        else:
            made = made + part(position, 0, 0, size(given[0], 1))
        if segment is not None and given.has(1):
            made = made + op("Gather", segment, given[1], axis=0)
        return made


class EmbedLayerNormalization(Embedding):
    """Word, position and segment embeddings added and layer-normalised.

    The second output counts the places of each row that the mask leaves; the third is the sum.
    """

    schema = declare(
        "EmbedLayerNormalization",
        "input_ids:T1 segment_ids:T1? word_embedding:T position_embedding:T segment_embedding:T? "
        "gamma:T beta:T mask:T1? position_ids:T1?",
        "output:T mask_index:T1? embedding_sum:T?",
        {"T": FLOATS, "T1": INT32},
        {"epsilon": 1e-12, "mask_index_type": optional("INT")},
    )
    ranks = (
        "input_ids:2 segment_ids:2 word_embedding:2 position_embedding:2 segment_embedding:2 "
        "gamma:1 beta:1 mask:2 position_ids:2"
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        total = cls.total(given, given[2], given[3], given.optional(4), given.optional(8))
        y = op(
            "LayerNormalization", total, given[5], given[6], axis=-1, epsilon=given.attr("epsilon")
        )
        if given.count == 1:
            return [y]
        return [y, cls.lengths(given, given.optional(7)), total][: given.count]


class QEmbedLayerNormalization(Embedding):
    """EmbedLayerNormalization of tables that are quantised to bytes."""

    schema = declare(
        "QEmbedLayerNormalization",
        "input_ids:T1 segment_ids:T1? word_embedding_quant:T2 position_embedding_quant:T2 "
        "segment_embedding:T2? gamma_quant:T2 beta_quant:T2 mask:T1? word_embedding_scale:T "
        "position_embedding_scale:T segment_embedding_scale:T? gamma_scale:T beta_scale:T "
        "word_embedding_zero_point:T2 position_embedding_zero_point:T2 "
        "segment_embedding_zero_point:T2? gamma_zero_point:T2 beta_zero_point:T2",
        "layernorm_out:T mask_index_out:T1",
        {"T": FLOAT, "T1": INT32, "T2": BYTES},
        _EPSILON,
    )
    ranks = (
        "input_ids:2 segment_ids:2 word_embedding_quant:2 position_embedding_quant:2 "
        "segment_embedding:2 gamma_quant:1 beta_quant:1 mask:2"
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        def real(table: int, scale: int, zero: int) -> Symbol | None:
            if not given.has(table):
                return None
            parameters = [reshape(given[scale]), reshape(given[zero])]
            return op("DequantizeLinear", given[table], *parameters)

        word, position = real(2, 8, 13), real(3, 9, 14)
        gamma, beta = real(5, 11, 16), real(6, 12, 17)
        assert word is not None and position is not None
        total = cls.total(given, word, position, real(4, 10, 15))
        epsilon = given.attr("epsilon")
        y = op("LayerNormalization", total, gamma, beta, axis=-1, epsilon=epsilon)
        return [y, cls.lengths(given, given.optional(7))]


class Groups(Contrib, abstract=True):
    """Group normalisation, channels last or first, and SiLU behind it if asked for."""

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "activation", (0, 1))
        check_choice(call, "channels_last", (0, 1))
        check_range(call, "groups", 1)
        shape = call.shape(0)
        if shape is not None:
            channels = shape[-1 if call.attr("channels_last") else 1]
            if isinstance(channels, int) and channels % call.attr("groups"):
                call.fail(f"{channels} channels cannot form {call.attr('groups')} groups")

    @classmethod
    def normalised(cls, given: Given, x: Symbol) -> Symbol:
        """Statistics in float32, as the scales are."""
        dtype, last = x.dtype, given.attr("channels_last")
        rank = rank_of(x)
        if last:
            x = transpose(x, 0, rank - 1, *range(1, rank - 1))
        y = op(
            "GroupNormalization",
            cast(x, "float32"),
            cast(given[1], "float32"),
            cast(given[2], "float32"),
            epsilon=given.attr("epsilon"),
            num_groups=given.attr("groups"),
        )
        if last:
            y = transpose(y, 0, *range(2, rank), 1)
        if given.attr("activation"):
            y = y * op("Sigmoid", y)
        return cast(y, dtype)


_GROUPS = {
    "activation": needed("INT"),
    "channels_last": 1,
    "epsilon": 1e-5,
    "groups": needed("INT"),
}
_GROUP_TYPES = {"T": FLOATS, "M": FLOATS}


class GroupNorm(Groups):
    """Each group of channels of an image centred and scaled; SiLU behind it with activation=1."""

    schema = declare("GroupNorm", "X:T gamma:M beta:M", "Y:T", _GROUP_TYPES, _GROUPS)
    ranks = "X:4 gamma:1 beta:1"

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        return [cls.normalised(given, given[0])]


class SkipGroupNorm(Groups):
    """GroupNorm of x + skip + bias; the sum is the second output."""

    schema = declare(
        "SkipGroupNorm", "X:T gamma:M beta:M skip:T bias:T?", "Y:T S:T?", _GROUP_TYPES, _GROUPS
    )
    ranks = "X:4 gamma:1 beta:1 skip:2,4 bias:1"

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        last = given.attr("channels_last")
        skip = given[3]
        if given.rank(3) == 2:
            skip = unsqueeze(skip, 1, 2) if last else unsqueeze(skip, 2, 3)
        total = given[0] + skip
        if given.has(4):
            total = total + (given[4] if last else unsqueeze(given[4], 1, 2))
        return [cls.normalised(given, total), total][: given.count]


class SimplifiedLayerNormalization(Contrib):
    """Root-mean-square normalisation over the axes from `axis` on.

    onnxruntime writes it into the domain of ONNX itself, though ONNX has no operator of this name.
    """

    domain = ""
    schema = declare(
        "SimplifiedLayerNormalization",
        "X:T scale:V",
        "Y:V inv_std_var:U?",
        {"T": WIDE, "V": WIDE, "U": ("float", "double")},
        {"axis": -1, "epsilon": 1e-5, "stash_type": 1},
        domain="",
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        x, axis = given[0], given.attr("axis")
        wide = x if x.dtype == "float64" else cast(x, "float32")
        if axis >= 0:
            axis = given.axis(rank_of(x)) - rank_of(x)
        axes = whole(*range(axis, 0))
        squares = op("ReduceMean", wide * wide, axes, keepdims=1)
        inverse = op("Reciprocal", op("Sqrt", squares + given.attr("epsilon")))
        y = cast(wide * inverse, given[1].dtype) * given[1]
        return [y, inverse][: given.count]

"""The kernels that neuralsym comes with, one module for each family of operators.

A module that is listed in `OPERATORS` has `register(library)`, which enters its kernels; of several
for one operator the one entered last is tried first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from neuralsym.cpu.library import Library

if TYPE_CHECKING:
    from neuralsym.cpu.library import Kernel

OPERATORS: Mapping[str, str] = {
    "views": "Reshape Flatten Squeeze Unsqueeze Identity BitCast",
    "reorder_host": "Reorder",
    "reorder": "Reorder",
    "conv": "Conv FusedConv",
    "pool": "MaxPool AveragePool LpPool GlobalMaxPool GlobalAveragePool GlobalLpPool",
    "matmul": "MatMul Gemm FusedMatMul",
    "matmul_few": "MatMul Gemm FusedMatMul",
    "matmul_column": "MatMul Gemm FusedMatMul",
    "movement": "Transpose Slice Expand Tile Split DepthToSpace SpaceToDepth Pad",
    "gather": "Gather",
    "reduce": (
        "ReduceSum ReduceMean ReduceProd ReduceMax ReduceMin ReduceL1 ReduceL2 "
        "ReduceSumSquare ReduceLogSum ReduceLogSumExp ArgMax ArgMin CumSum CumProd"
    ),
    "normalise": "LayerNormalization RMSNormalization InstanceNormalization GroupNormalization LRN",
    "resize": "Resize",
    "indexed": "GatherElements ScatterElements ScatterND GatherND OneHot",
    "select": "TopK Hardmax NonZero Compress Unique",
    "grid": "GridSample AffineGrid",
    "roi": "RoiAlign MaxRoiPool",
    "suppress": "NonMaxSuppression",
    "deform": "DeformConv",
    "unpool": "MaxUnpool Col2Im",
    "fill": "Shape Size Trilu ConstantOfShape EyeLike Range CenterCropPad",
    "batched": "ReverseSequence TensorScatter",
    "elimination": "Det Inverse",
    "concat": "Concat",
    "batch_norm": "BatchNormalization",
    "softmax": "Softmax LogSoftmax",
    "conv_transpose": "ConvTranspose",
    "random": (
        "RandomUniform RandomUniformLike RandomNormal RandomNormalLike Bernoulli "
        "Multinomial Dropout"
    ),
    "control": "If Loop Scan SequenceMap",
    "recurrent": "RNN GRU LSTM",
    "recurrent_quantised": "DynamicQuantizeLSTM",
    "ml": "FindKey TreeScores GramScores PairProbabilities",
    "quantize": "QuantizeLinear DequantizeLinear",
    "int8_conv": "IntegerConv QLinearConv ConvInteger",
    "int8_matmul": "IntegerMatMul QLinearMatMul MatMulInteger",
    "int8_pool": "MaxPool IntegerAveragePool",
    "complex": "Where",
    "attention": "Attention FusedAttention",
    "attention_state": "LinearAttention",
    "signal": "DFT STFT",
    "signal_windows": "HannWindow HammingWindow BlackmanWindow MelWeightMatrix",
    "deferred": "Deferred",
}
"""The operators that each module has kernels for: only those that a graph needs are imported."""


class StandardLibrary(Library):
    """Kernels that are imported when somebody asks for those of their operator."""

    def kernels(self, op: str, domain: str = "") -> Iterator[type[Kernel]]:
        yield from super().kernels(op, domain)
        for module, operators in reversed(list(OPERATORS.items())):
            if op in operators.split():
                yield from entered_by(module).kernels(op, domain)


@cache
def entered_by(module: str) -> Library:
    """A library of what one of the modules enters."""
    library = Library()
    import_module(f"{__name__}.{module}").register(library)
    return library


@cache
def standard_library() -> Library:
    """All of neuralsym's own kernels; made once."""
    return StandardLibrary()

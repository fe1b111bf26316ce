"""The types of the operator functions; written by `python -m neuralsym.ops.stubs`."""

import builtins
from collections.abc import Sequence
from typing import Literal, NamedTuple, overload

from numpy.typing import ArrayLike, DTypeLike

from neuralsym.core.leaves import constant, variable
from neuralsym.core.symbol import Symbol, SymbolLike
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.attention_functions import flex_attention
from neuralsym.ops.control_functions import if_, loop, scan, sequence_map
from neuralsym.ops.helpers import complex_, float_, int_, ones, pi, tensor, zeros

class AttentionOutputs2(NamedTuple):
    y: Symbol
    present_key: Symbol

class AttentionOutputs3(NamedTuple):
    y: Symbol
    present_key: Symbol
    present_value: Symbol

class AttentionOutputs(NamedTuple):
    y: Symbol
    present_key: Symbol
    present_value: Symbol
    qk_matmul_output: Symbol

class LinearAttentionOutputs(NamedTuple):
    output: Symbol
    present_state: Symbol

class RNNOutputs(NamedTuple):
    y: Symbol
    y_h: Symbol

class GRUOutputs(NamedTuple):
    y: Symbol
    y_h: Symbol

class LSTMOutputs2(NamedTuple):
    y: Symbol
    y_h: Symbol

class LSTMOutputs(NamedTuple):
    y: Symbol
    y_h: Symbol
    y_c: Symbol

class CausalConvWithStateOutputs(NamedTuple):
    output: Symbol
    present_state: Symbol

class SoftmaxCrossEntropyLossOutputs(NamedTuple):
    output: Symbol
    log_prob: Symbol

class LinearClassifierOutputs(NamedTuple):
    y: Symbol
    z: Symbol

class TreeEnsembleClassifierOutputs(NamedTuple):
    y: Symbol
    z: Symbol

class SVMClassifierOutputs(NamedTuple):
    y: Symbol
    z: Symbol

class BatchNormalizationOutputs2(NamedTuple):
    y: Symbol
    running_mean: Symbol

class BatchNormalizationOutputs(NamedTuple):
    y: Symbol
    running_mean: Symbol
    running_var: Symbol

class LayerNormalizationOutputs2(NamedTuple):
    y: Symbol
    mean: Symbol

class LayerNormalizationOutputs(NamedTuple):
    y: Symbol
    mean: Symbol
    inv_std_dev: Symbol

class MaxPoolOutputs(NamedTuple):
    y: Symbol
    indices: Symbol

class DynamicQuantizeLinearOutputs(NamedTuple):
    y: Symbol
    y_scale: Symbol
    y_zero_point: Symbol

class UniqueOutputs2(NamedTuple):
    y: Symbol
    indices: Symbol

class UniqueOutputs3(NamedTuple):
    y: Symbol
    indices: Symbol
    inverse_indices: Symbol

class UniqueOutputs(NamedTuple):
    y: Symbol
    indices: Symbol
    inverse_indices: Symbol
    counts: Symbol

class TopKOutputs(NamedTuple):
    values: Symbol
    indices: Symbol

class StringSplitOutputs(NamedTuple):
    y: Symbol
    z: Symbol

class DropoutOutputs(NamedTuple):
    output: Symbol
    mask: Symbol

def relu(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """max(x, 0); NaN stays."""

def leaky_relu(x: SymbolLike, *, alpha: builtins.float = 0.01, name: str | None = None) -> Symbol:
    """x, times `alpha` below zero."""

def prelu(x: SymbolLike, slope: SymbolLike, *, name: str | None = None) -> Symbol:
    """x, times a slope below zero; the slope broadcasts to x."""

def thresholded_relu(
    x: SymbolLike,
    *,
    alpha: builtins.float = 1.0,
    name: str | None = None,
) -> Symbol:
    """x above `alpha`, else 0."""

def elu(x: SymbolLike, *, alpha: builtins.float = 1.0, name: str | None = None) -> Symbol:
    """x, or alpha*(exp(x) - 1) below zero (arXiv 1511.07289)."""

def selu(
    x: SymbolLike,
    *,
    alpha: builtins.float = 1.673263,
    gamma: builtins.float = 1.050701,
    name: str | None = None,
) -> Symbol:
    """gamma times Elu, with the constants that keep mean and variance (arXiv 1706.02515)."""

def celu(x: SymbolLike, *, alpha: builtins.float = 1.0, name: str | None = None) -> Symbol:
    """max(x, 0) + min(alpha*(exp(x/alpha) - 1), 0) (arXiv 1704.07483)."""

def gelu(x: SymbolLike, *, approximate: str = "none", name: str | None = None) -> Symbol:
    """x times the normal distribution function of x, exactly or by tanh (arXiv 1606.08415)."""

def sigmoid(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """1/(1 + exp(-x))."""

def hard_sigmoid(
    x: SymbolLike,
    *,
    alpha: builtins.float = 0.2,
    beta: builtins.float = 0.5,
    name: str | None = None,
) -> Symbol:
    """alpha*x + beta kept between 0 and 1."""

def hard_swish(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """x times max(0, min(1, x/6 + 1/2)) (arXiv 1905.02244)."""

def swish(x: SymbolLike, *, alpha: builtins.float = 1.0, name: str | None = None) -> Symbol:
    """x times sigmoid(alpha*x) (arXiv 1710.05941)."""

def swiglu(
    a: SymbolLike,
    b: SymbolLike,
    *,
    alpha: builtins.float = 1.0,
    name: str | None = None,
) -> Symbol:
    """Swish of the first tensor times the second, of the same shape (arXiv 2002.05202)."""

def mish(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """x*tanh(log(1 + exp(x))) (arXiv 1908.08681)."""

def softplus(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|)), which does not overflow."""

def softsign(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """x/(1 + |x|)."""

def tanh(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The hyperbolic tangent."""

def shrink(
    input: SymbolLike,
    *,
    bias: builtins.float = 0.0,
    lambd: builtins.float = 0.5,
    name: str | None = None,
) -> Symbol:
    """x moved towards zero by `bias`, and 0 between -lambd and lambd."""

def softmax(input: SymbolLike, *, axis: builtins.int = -1, name: str | None = None) -> Symbol:
    """exp(x) divided by its sum along `axis`; the largest element is subtracted first."""

def log_softmax(input: SymbolLike, *, axis: builtins.int = -1, name: str | None = None) -> Symbol:
    """The logarithm of Softmax, without the loss of precision that two steps have."""

def hardmax(input: SymbolLike, *, axis: builtins.int = -1, name: str | None = None) -> Symbol:
    """1 at the first largest element along `axis`, 0 elsewhere."""

@overload
def attention(
    q: SymbolLike,
    k: SymbolLike,
    v: SymbolLike,
    attn_mask: SymbolLike | None = None,
    past_key: SymbolLike | None = None,
    past_value: SymbolLike | None = None,
    nonpad_kv_seqlen: SymbolLike | None = None,
    *,
    is_causal: builtins.int = 0,
    kv_num_heads: builtins.int | None = None,
    left_window_size: builtins.int = -1,
    q_num_heads: builtins.int | None = None,
    qk_matmul_output_mode: builtins.int = 0,
    right_window_size: builtins.int = -1,
    scale: builtins.float | None = None,
    softcap: builtins.float = 0.0,
    softmax_precision: DTypeLike | NumberType | None = None,
    outputs: Literal[1] = 1,
    name: str | None = None,
) -> Symbol:
    """softmax(Q K^T * scale + mask) V over heads (arXiv 1706.03762)."""

@overload
def attention(
    q: SymbolLike,
    k: SymbolLike,
    v: SymbolLike,
    attn_mask: SymbolLike | None = None,
    past_key: SymbolLike | None = None,
    past_value: SymbolLike | None = None,
    nonpad_kv_seqlen: SymbolLike | None = None,
    *,
    is_causal: builtins.int = 0,
    kv_num_heads: builtins.int | None = None,
    left_window_size: builtins.int = -1,
    q_num_heads: builtins.int | None = None,
    qk_matmul_output_mode: builtins.int = 0,
    right_window_size: builtins.int = -1,
    scale: builtins.float | None = None,
    softcap: builtins.float = 0.0,
    softmax_precision: DTypeLike | NumberType | None = None,
    outputs: Literal[2],
    name: str | None = None,
) -> AttentionOutputs2:
    """softmax(Q K^T * scale + mask) V over heads (arXiv 1706.03762)."""

@overload
def attention(
    q: SymbolLike,
    k: SymbolLike,
    v: SymbolLike,
    attn_mask: SymbolLike | None = None,
    past_key: SymbolLike | None = None,
    past_value: SymbolLike | None = None,
    nonpad_kv_seqlen: SymbolLike | None = None,
    *,
    is_causal: builtins.int = 0,
    kv_num_heads: builtins.int | None = None,
    left_window_size: builtins.int = -1,
    q_num_heads: builtins.int | None = None,
    qk_matmul_output_mode: builtins.int = 0,
    right_window_size: builtins.int = -1,
    scale: builtins.float | None = None,
    softcap: builtins.float = 0.0,
    softmax_precision: DTypeLike | NumberType | None = None,
    outputs: Literal[3],
    name: str | None = None,
) -> AttentionOutputs3:
    """softmax(Q K^T * scale + mask) V over heads (arXiv 1706.03762)."""

@overload
def attention(
    q: SymbolLike,
    k: SymbolLike,
    v: SymbolLike,
    attn_mask: SymbolLike | None = None,
    past_key: SymbolLike | None = None,
    past_value: SymbolLike | None = None,
    nonpad_kv_seqlen: SymbolLike | None = None,
    *,
    is_causal: builtins.int = 0,
    kv_num_heads: builtins.int | None = None,
    left_window_size: builtins.int = -1,
    q_num_heads: builtins.int | None = None,
    qk_matmul_output_mode: builtins.int = 0,
    right_window_size: builtins.int = -1,
    scale: builtins.float | None = None,
    softcap: builtins.float = 0.0,
    softmax_precision: DTypeLike | NumberType | None = None,
    outputs: Literal[4],
    name: str | None = None,
) -> AttentionOutputs:
    """softmax(Q K^T * scale + mask) V over heads (arXiv 1706.03762)."""

def linear_attention(
    query: SymbolLike,
    key: SymbolLike,
    value: SymbolLike,
    past_state: SymbolLike | None = None,
    decay: SymbolLike | None = None,
    beta: SymbolLike | None = None,
    *,
    kv_num_heads: builtins.int,
    q_num_heads: builtins.int,
    chunk_size: builtins.int = 64,
    scale: builtins.float = 0.0,
    update_rule: str = "gated_delta",
    name: str | None = None,
) -> LinearAttentionOutputs:
    """Attention by a recurrent state instead of a softmax; the state is the second output."""

def rotary_embedding(
    x: SymbolLike,
    cos_cache: SymbolLike,
    sin_cache: SymbolLike,
    position_ids: SymbolLike | None = None,
    *,
    interleaved: builtins.int = 0,
    num_heads: builtins.int | None = None,
    rotary_embedding_dim: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Pairs of features rotated by angles that grow with the position (arXiv 2104.09864)."""

def cast(
    input: SymbolLike,
    to: DTypeLike | NumberType,
    *,
    round_mode: str = "up",
    saturate: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """Each element as another number type."""

def cast_like(
    input: SymbolLike,
    target_type: SymbolLike,
    *,
    round_mode: str = "up",
    saturate: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """Each element as the number type of another tensor."""

def bit_cast(input: SymbolLike, to: DTypeLike | NumberType, *, name: str | None = None) -> Symbol:
    """The bits of each element read as another number type."""

@overload
def rnn(
    x: SymbolLike,
    w: SymbolLike,
    r: SymbolLike,
    b: SymbolLike | None = None,
    sequence_lens: SymbolLike | None = None,
    initial_h: SymbolLike | None = None,
    *,
    activation_alpha: Sequence[builtins.float] | builtins.float | None = None,
    activation_beta: Sequence[builtins.float] | builtins.float | None = None,
    activations: Sequence[str] | str = ("Tanh", "Tanh"),
    clip: builtins.float | None = None,
    direction: str = "forward",
    hidden_size: builtins.int | None = None,
    layout: builtins.int = 0,
    outputs: Literal[1] = 1,
    name: str | None = None,
) -> Symbol:
    """The simple recurrence h' = f(x W + h R + b)."""

@overload
def rnn(
    x: SymbolLike,
    w: SymbolLike,
    r: SymbolLike,
    b: SymbolLike | None = None,
    sequence_lens: SymbolLike | None = None,
    initial_h: SymbolLike | None = None,
    *,
    activation_alpha: Sequence[builtins.float] | builtins.float | None = None,
    activation_beta: Sequence[builtins.float] | builtins.float | None = None,
    activations: Sequence[str] | str = ("Tanh", "Tanh"),
    clip: builtins.float | None = None,
    direction: str = "forward",
    hidden_size: builtins.int | None = None,
    layout: builtins.int = 0,
    outputs: Literal[2],
    name: str | None = None,
) -> RNNOutputs:
    """The simple recurrence h' = f(x W + h R + b)."""

@overload
def gru(
    x: SymbolLike,
    w: SymbolLike,
    r: SymbolLike,
    b: SymbolLike | None = None,
    sequence_lens: SymbolLike | None = None,
    initial_h: SymbolLike | None = None,
    *,
    activation_alpha: Sequence[builtins.float] | builtins.float | None = None,
    activation_beta: Sequence[builtins.float] | builtins.float | None = None,
    activations: Sequence[str] | str | None = None,
    clip: builtins.float | None = None,
    direction: str = "forward",
    hidden_size: builtins.int | None = None,
    layout: builtins.int = 0,
    linear_before_reset: builtins.int = 0,
    outputs: Literal[1] = 1,
    name: str | None = None,
) -> Symbol:
    """Gated recurrent units, the gates in the order update, reset, hidden (arXiv 1406.1078)."""

@overload
def gru(
    x: SymbolLike,
    w: SymbolLike,
    r: SymbolLike,
    b: SymbolLike | None = None,
    sequence_lens: SymbolLike | None = None,
    initial_h: SymbolLike | None = None,
    *,
    activation_alpha: Sequence[builtins.float] | builtins.float | None = None,
    activation_beta: Sequence[builtins.float] | builtins.float | None = None,
    activations: Sequence[str] | str | None = None,
    clip: builtins.float | None = None,
    direction: str = "forward",
    hidden_size: builtins.int | None = None,
    layout: builtins.int = 0,
    linear_before_reset: builtins.int = 0,
    outputs: Literal[2],
    name: str | None = None,
) -> GRUOutputs:
    """Gated recurrent units, the gates in the order update, reset, hidden (arXiv 1406.1078)."""

@overload
def lstm(
    x: SymbolLike,
    w: SymbolLike,
    r: SymbolLike,
    b: SymbolLike | None = None,
    sequence_lens: SymbolLike | None = None,
    initial_h: SymbolLike | None = None,
    initial_c: SymbolLike | None = None,
    p: SymbolLike | None = None,
    *,
    activation_alpha: Sequence[builtins.float] | builtins.float | None = None,
    activation_beta: Sequence[builtins.float] | builtins.float | None = None,
    activations: Sequence[str] | str | None = None,
    clip: builtins.float | None = None,
    direction: str = "forward",
    hidden_size: builtins.int | None = None,
    input_forget: builtins.int = 0,
    layout: builtins.int = 0,
    outputs: Literal[1] = 1,
    name: str | None = None,
) -> Symbol:
    """Long short-term memory, the gates in the order input, output, forget, cell."""

@overload
def lstm(
    x: SymbolLike,
    w: SymbolLike,
    r: SymbolLike,
    b: SymbolLike | None = None,
    sequence_lens: SymbolLike | None = None,
    initial_h: SymbolLike | None = None,
    initial_c: SymbolLike | None = None,
    p: SymbolLike | None = None,
    *,
    activation_alpha: Sequence[builtins.float] | builtins.float | None = None,
    activation_beta: Sequence[builtins.float] | builtins.float | None = None,
    activations: Sequence[str] | str | None = None,
    clip: builtins.float | None = None,
    direction: str = "forward",
    hidden_size: builtins.int | None = None,
    input_forget: builtins.int = 0,
    layout: builtins.int = 0,
    outputs: Literal[2],
    name: str | None = None,
) -> LSTMOutputs2:
    """Long short-term memory, the gates in the order input, output, forget, cell."""

@overload
def lstm(
    x: SymbolLike,
    w: SymbolLike,
    r: SymbolLike,
    b: SymbolLike | None = None,
    sequence_lens: SymbolLike | None = None,
    initial_h: SymbolLike | None = None,
    initial_c: SymbolLike | None = None,
    p: SymbolLike | None = None,
    *,
    activation_alpha: Sequence[builtins.float] | builtins.float | None = None,
    activation_beta: Sequence[builtins.float] | builtins.float | None = None,
    activations: Sequence[str] | str | None = None,
    clip: builtins.float | None = None,
    direction: str = "forward",
    hidden_size: builtins.int | None = None,
    input_forget: builtins.int = 0,
    layout: builtins.int = 0,
    outputs: Literal[3],
    name: str | None = None,
) -> LSTMOutputs:
    """Long short-term memory, the gates in the order input, output, forget, cell."""

def conv(
    x: SymbolLike,
    w: SymbolLike,
    b: SymbolLike | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[builtins.int] | builtins.int | None = None,
    group: builtins.int = 1,
    kernel_shape: Sequence[builtins.int] | builtins.int | None = None,
    pads: Sequence[builtins.int] | builtins.int | None = None,
    strides: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """Sliding-window product of X with the filters W, plus bias B."""

def conv_integer(
    x: SymbolLike,
    w: SymbolLike,
    x_zero_point: SymbolLike | None = None,
    w_zero_point: SymbolLike | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[builtins.int] | builtins.int | None = None,
    group: builtins.int = 1,
    kernel_shape: Sequence[builtins.int] | builtins.int | None = None,
    pads: Sequence[builtins.int] | builtins.int | None = None,
    strides: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """Conv of 8-bit integers less their zero points, summed in int32."""

def qlinear_conv(
    x: SymbolLike,
    x_scale: SymbolLike,
    x_zero_point: SymbolLike,
    w: SymbolLike,
    w_scale: SymbolLike,
    w_zero_point: SymbolLike,
    y_scale: SymbolLike,
    y_zero_point: SymbolLike,
    b: SymbolLike | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[builtins.int] | builtins.int | None = None,
    group: builtins.int = 1,
    kernel_shape: Sequence[builtins.int] | builtins.int | None = None,
    pads: Sequence[builtins.int] | builtins.int | None = None,
    strides: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """Conv of quantized tensors, with a quantized result."""

def deform_conv(
    x: SymbolLike,
    w: SymbolLike,
    offset: SymbolLike,
    b: SymbolLike | None = None,
    mask: SymbolLike | None = None,
    *,
    dilations: Sequence[builtins.int] | builtins.int | None = None,
    group: builtins.int = 1,
    kernel_shape: Sequence[builtins.int] | builtins.int | None = None,
    offset_group: builtins.int = 1,
    pads: Sequence[builtins.int] | builtins.int | None = None,
    strides: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """Conv whose filter taps are displaced by `offset` and weighted by `mask`."""

def conv_transpose(
    x: SymbolLike,
    w: SymbolLike,
    b: SymbolLike | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[builtins.int] | builtins.int | None = None,
    group: builtins.int = 1,
    kernel_shape: Sequence[builtins.int] | builtins.int | None = None,
    output_padding: Sequence[builtins.int] | builtins.int | None = None,
    output_shape: Sequence[builtins.int] | builtins.int | None = None,
    pads: Sequence[builtins.int] | builtins.int | None = None,
    strides: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """The transpose of Conv: each element of X spreads a filter of W over the output."""

def causal_conv_with_state(
    input: SymbolLike,
    weight: SymbolLike,
    bias: SymbolLike | None = None,
    past_state: SymbolLike | None = None,
    *,
    activation: str = "none",
    name: str | None = None,
) -> CausalConvWithStateOutputs:
    """1-D depthwise convolution over the past only, carrying the last inputs as state."""

def col2im(
    input: SymbolLike,
    image_shape: SymbolLike,
    block_shape: SymbolLike,
    *,
    dilations: Sequence[builtins.int] | builtins.int | None = None,
    pads: Sequence[builtins.int] | builtins.int | None = None,
    strides: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """Sum blocks, the columns of a matrix, back into the image that they were taken from."""

def roi_align(
    x: SymbolLike,
    rois: SymbolLike,
    batch_indices: SymbolLike,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: builtins.int = 1,
    output_width: builtins.int = 1,
    sampling_ratio: builtins.int = 0,
    spatial_scale: builtins.float = 1.0,
    name: str | None = None,
) -> Symbol:
    """Regions of a feature map resampled to one size (arXiv 1703.06870)."""

def non_max_suppression(
    boxes: SymbolLike,
    scores: SymbolLike,
    max_output_boxes_per_class: SymbolLike | None = None,
    iou_threshold: SymbolLike | None = None,
    score_threshold: SymbolLike | None = None,
    *,
    center_point_box: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """[batch, class, box] of the boxes kept after dropping those that overlap better ones."""

def image_decoder(
    encoded_stream: SymbolLike,
    *,
    pixel_format: str = "RGB",
    name: str | None = None,
) -> Symbol:
    """The pixels [height, width, channels] of an encoded picture."""

def constant_of_shape(
    input: SymbolLike,
    *,
    value: Tensor | ArrayLike | None = None,
    name: str | None = None,
) -> Symbol:
    """A tensor of the given shape that holds one value everywhere, 0.0 unless `value` is given."""

def eye_like(
    input: SymbolLike,
    *,
    dtype: DTypeLike | NumberType | None = None,
    k: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Ones on the diagonal that `k` says, in the shape of a matrix."""

def range(
    start: SymbolLike,
    limit: SymbolLike,
    delta: SymbolLike,
    *,
    stash_type: DTypeLike | NumberType = "float32",
    name: str | None = None,
) -> Symbol:
    """start, start + delta, ... before limit."""

def random_uniform(
    shape: Sequence[builtins.int] | builtins.int,
    *,
    dtype: DTypeLike | NumberType = "float32",
    high: builtins.float = 1.0,
    low: builtins.float = 0.0,
    seed: builtins.float | None = None,
    name: str | None = None,
) -> Symbol:
    """Numbers drawn evenly between `low` and `high`, anew in each run."""

def random_normal(
    shape: Sequence[builtins.int] | builtins.int,
    *,
    dtype: DTypeLike | NumberType = "float32",
    mean: builtins.float = 0.0,
    scale: builtins.float = 1.0,
    seed: builtins.float | None = None,
    name: str | None = None,
) -> Symbol:
    """Numbers drawn from a normal distribution, anew in each run."""

def random_uniform_like(
    input: SymbolLike,
    *,
    dtype: DTypeLike | NumberType | None = None,
    high: builtins.float = 1.0,
    low: builtins.float = 0.0,
    seed: builtins.float | None = None,
    name: str | None = None,
) -> Symbol:
    """Numbers drawn evenly between `low` and `high`, in the shape of the input."""

def random_normal_like(
    input: SymbolLike,
    *,
    dtype: DTypeLike | NumberType | None = None,
    mean: builtins.float = 0.0,
    scale: builtins.float = 1.0,
    seed: builtins.float | None = None,
    name: str | None = None,
) -> Symbol:
    """Numbers drawn from a normal distribution, in the shape of the input."""

def bernoulli(
    input: SymbolLike,
    *,
    dtype: DTypeLike | NumberType | None = None,
    seed: builtins.float | None = None,
    name: str | None = None,
) -> Symbol:
    """0 or 1 at each place, 1 with the probability that the input states."""

def multinomial(
    input: SymbolLike,
    *,
    dtype: DTypeLike | NumberType = "int32",
    sample_size: builtins.int = 1,
    seed: builtins.float | None = None,
    name: str | None = None,
) -> Symbol:
    """Indices of classes drawn by the unnormalised log-probabilities of each row."""

def tf_idf_vectorizer(
    x: SymbolLike,
    max_gram_length: builtins.int,
    max_skip_count: builtins.int,
    min_gram_length: builtins.int,
    mode: str,
    ngram_counts: Sequence[builtins.int] | builtins.int,
    ngram_indexes: Sequence[builtins.int] | builtins.int,
    *,
    pool_int64s: Sequence[builtins.int] | builtins.int | None = None,
    pool_strings: Sequence[str] | str | None = None,
    weights: Sequence[builtins.float] | builtins.float | None = None,
    name: str | None = None,
) -> Symbol:
    """Counts or weights of the n-grams of a vocabulary in each row."""

def resize(
    x: SymbolLike,
    roi: SymbolLike | None = None,
    scales: SymbolLike | None = None,
    sizes: SymbolLike | None = None,
    *,
    antialias: builtins.int = 0,
    axes: Sequence[builtins.int] | builtins.int | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: builtins.float = -0.75,
    exclude_outside: builtins.int = 0,
    extrapolation_value: builtins.float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    name: str | None = None,
) -> Symbol:
    """The input resampled to other sizes."""

def grid_sample(
    x: SymbolLike,
    grid: SymbolLike,
    *,
    align_corners: builtins.int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
    name: str | None = None,
) -> Symbol:
    """The input sampled at the points of a grid."""

def affine_grid(
    theta: SymbolLike,
    size: SymbolLike,
    *,
    align_corners: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """The sampling grid of an affine map, for GridSample."""

def slice(
    data: SymbolLike,
    starts: SymbolLike,
    ends: SymbolLike,
    axes: SymbolLike | None = None,
    steps: SymbolLike | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """Every step-th element from start to end, exclusive, along some axes."""

def gather(
    data: SymbolLike,
    indices: SymbolLike,
    *,
    axis: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Entries along one axis, picked by an array of indices."""

def gather_elements(
    data: SymbolLike,
    indices: SymbolLike,
    *,
    axis: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """For each index, the element at that place along one axis."""

def gather_nd(
    data: SymbolLike,
    indices: SymbolLike,
    *,
    batch_dims: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Slices picked by vectors of indices."""

def scatter_elements(
    data: SymbolLike,
    indices: SymbolLike,
    updates: SymbolLike,
    *,
    axis: builtins.int = 0,
    reduction: str = "none",
    name: str | None = None,
) -> Symbol:
    """A copy of the data with the updates written at indices along one axis."""

def scatter_nd(
    data: SymbolLike,
    indices: SymbolLike,
    updates: SymbolLike,
    *,
    reduction: str = "none",
    name: str | None = None,
) -> Symbol:
    """A copy of the data with slices written at vectors of indices."""

def tensor_scatter(
    past_cache: SymbolLike,
    update: SymbolLike,
    write_indices: SymbolLike | None = None,
    *,
    axis: builtins.int = -2,
    mode: str = "linear",
    name: str | None = None,
) -> Symbol:
    """A cache with an update written from a given place on, for each batch entry."""

def matmul(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """Matrix product over the last two axes, broadcasting the others, as numpy.matmul."""

def matmul_integer(
    a: SymbolLike,
    b: SymbolLike,
    a_zero_point: SymbolLike | None = None,
    b_zero_point: SymbolLike | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """MatMul of 8-bit integers less their zero points, summed in int32."""

def qlinear_matmul(
    a: SymbolLike,
    a_scale: SymbolLike,
    a_zero_point: SymbolLike,
    b: SymbolLike,
    b_scale: SymbolLike,
    b_zero_point: SymbolLike,
    y_scale: SymbolLike,
    y_zero_point: SymbolLike,
    *,
    name: str | None = None,
) -> Symbol:
    """MatMul of quantized tensors, with a quantized result."""

def gemm(
    a: SymbolLike,
    b: SymbolLike,
    c: SymbolLike | None = None,
    *,
    alpha: builtins.float = 1.0,
    beta: builtins.float = 1.0,
    transA: builtins.int = 0,
    transB: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """alpha * A @ B + beta * C on matrices, either of them transposed."""

def einsum(inputs: Sequence[SymbolLike], equation: str, *, name: str | None = None) -> Symbol:
    """The sum of products that an Einstein equation states."""

def det(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """The determinant of the matrices in the last two axes."""

def equal(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """Whether two tensors are equal at each place; NaN equals nothing."""

def less(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """Whether the first is below the second."""

def less_or_equal(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """Whether the first is at most the second."""

def greater(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """Whether the first is above the second."""

def greater_or_equal(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """Whether the first is at least the second."""

def is_nan(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """Whether each element is NaN."""

def is_inf(
    x: SymbolLike,
    *,
    detect_negative: builtins.int = 1,
    detect_positive: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """Whether each element is infinite, of the signs that are to be detected."""

def and_(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """Whether both are true."""

def or_(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """Whether one at least is true."""

def xor(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """Whether exactly one is true."""

def not_(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """Whether the element is false."""

def where(
    condition: SymbolLike,
    x: SymbolLike,
    y: SymbolLike,
    *,
    name: str | None = None,
) -> Symbol:
    """The second tensor where the condition holds, else the third."""

def bitwise_and(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """The bits set in both."""

def bitwise_or(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """The bits set in either."""

def bitwise_xor(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """The bits set in exactly one."""

def bitwise_not(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """Every bit inverted."""

def bit_shift(x: SymbolLike, y: SymbolLike, direction: str, *, name: str | None = None) -> Symbol:
    """The bits of the first moved by as many places as the second says."""

def negative_log_likelihood_loss(
    input: SymbolLike,
    target: SymbolLike,
    weight: SymbolLike | None = None,
    *,
    ignore_index: builtins.int | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Symbol:
    """Minus the log-probability that the input gives to each target class."""

@overload
def softmax_cross_entropy_loss(
    scores: SymbolLike,
    labels: SymbolLike,
    weights: SymbolLike | None = None,
    *,
    ignore_index: builtins.int | None = None,
    reduction: str = "mean",
    outputs: Literal[1] = 1,
    name: str | None = None,
) -> Symbol:
    """The loss of softmax(scores) against class labels, and the log-probabilities on request."""

@overload
def softmax_cross_entropy_loss(
    scores: SymbolLike,
    labels: SymbolLike,
    weights: SymbolLike | None = None,
    *,
    ignore_index: builtins.int | None = None,
    reduction: str = "mean",
    outputs: Literal[2],
    name: str | None = None,
) -> SoftmaxCrossEntropyLossOutputs:
    """The loss of softmax(scores) against class labels, and the log-probabilities on request."""

def add(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """The sum of two tensors."""

def sub(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """The first tensor minus the second."""

def mul(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """The product of two tensors, element by element."""

def div(a: SymbolLike, b: SymbolLike, *, name: str | None = None) -> Symbol:
    """The first tensor divided by the second; integers truncate towards zero."""

def mod(a: SymbolLike, b: SymbolLike, *, fmod: builtins.int = 0, name: str | None = None) -> Symbol:
    """The remainder of a division: of the divisor's sign, or of the dividend's with `fmod=1`."""

def pow(x: SymbolLike, y: SymbolLike, *, name: str | None = None) -> Symbol:
    """The first tensor raised to the second, in the number type of the first."""

def neg(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """The tensor with its sign changed."""

def abs(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """The magnitude of each element."""

def sign(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """-1, 0 or 1 by the sign of each element; NaN stays."""

def reciprocal(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """One divided by each element."""

def sqrt(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """The square root; NaN for negative numbers."""

def max(inputs: Sequence[SymbolLike], *, name: str | None = None) -> Symbol:
    """The largest of the tensors at each place; NaN where one of them is."""

def min(inputs: Sequence[SymbolLike], *, name: str | None = None) -> Symbol:
    """The smallest of the tensors at each place; NaN where one of them is."""

def sum(inputs: Sequence[SymbolLike], *, name: str | None = None) -> Symbol:
    """The sum of all the tensors at each place."""

def mean(inputs: Sequence[SymbolLike], *, name: str | None = None) -> Symbol:
    """The mean of the tensors at each place."""

def clip(
    input: SymbolLike,
    min: SymbolLike | None = None,
    max: SymbolLike | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """Each element kept between `min` and `max`; `max` wins where they cross."""

def floor(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """The next whole number below."""

def ceil(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """The next whole number above."""

def round(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """The nearest whole number; halves go to the even one."""

def exp(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """e to the power of each element."""

def log(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The natural logarithm; NaN for negative numbers."""

def erf(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x."""

def sin(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The sine of an angle in radians."""

def cos(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The cosine of an angle in radians."""

def tan(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The tangent of an angle in radians."""

def asin(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The angle whose sine is x; NaN outside -1 to 1."""

def acos(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The angle whose cosine is x; NaN outside -1 to 1."""

def atan(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The angle whose tangent is x."""

def sinh(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The hyperbolic sine."""

def cosh(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The hyperbolic cosine."""

def asinh(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The inverse of the hyperbolic sine."""

def acosh(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The inverse of the hyperbolic cosine; NaN below 1."""

def atanh(input: SymbolLike, *, name: str | None = None) -> Symbol:
    """The inverse of the hyperbolic tangent; NaN outside -1 to 1."""

def array_feature_extractor(x: SymbolLike, y: SymbolLike, *, name: str | None = None) -> Symbol:
    """The columns of the last axis that the indices name; those of a vector as a row."""

def binarizer(x: SymbolLike, *, threshold: builtins.float = 0.0, name: str | None = None) -> Symbol:
    """1 above the threshold, else 0."""

def feature_vectorizer(
    inputs: Sequence[SymbolLike],
    *,
    inputdimensions: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """Tensors joined along the last axis as float32, each cut or filled up to its dimension."""

def imputer(
    x: SymbolLike,
    *,
    imputed_value_floats: Sequence[builtins.float] | builtins.float | None = None,
    imputed_value_int64s: Sequence[builtins.int] | builtins.int | None = None,
    replaced_value_float: builtins.float = 0.0,
    replaced_value_int64: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """The input with a value that stands for "missing" replaced, by one value for each feature."""

def normalizer(x: SymbolLike, *, norm: str = "MAX", name: str | None = None) -> Symbol:
    """Each row divided by its largest element, its sum of magnitudes, or its length."""

def scaler(
    x: SymbolLike,
    *,
    offset: Sequence[builtins.float] | builtins.float | None = None,
    scale: Sequence[builtins.float] | builtins.float | None = None,
    name: str | None = None,
) -> Symbol:
    """(x - offset) * scale, for each feature."""

def linear_regressor(
    x: SymbolLike,
    *,
    coefficients: Sequence[builtins.float] | builtins.float | None = None,
    intercepts: Sequence[builtins.float] | builtins.float | None = None,
    post_transform: str = "NONE",
    targets: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """A matrix of coefficients applied to each row, plus intercepts."""

def tree_ensemble_regressor(
    x: SymbolLike,
    *,
    aggregate_function: str = "SUM",
    base_values: Sequence[builtins.float] | builtins.float | None = None,
    base_values_as_tensor: Tensor | ArrayLike | None = None,
    n_targets: builtins.int | None = None,
    nodes_falsenodeids: Sequence[builtins.int] | builtins.int | None = None,
    nodes_featureids: Sequence[builtins.int] | builtins.int | None = None,
    nodes_hitrates: Sequence[builtins.float] | builtins.float | None = None,
    nodes_hitrates_as_tensor: Tensor | ArrayLike | None = None,
    nodes_missing_value_tracks_true: Sequence[builtins.int] | builtins.int | None = None,
    nodes_modes: Sequence[str] | str | None = None,
    nodes_nodeids: Sequence[builtins.int] | builtins.int | None = None,
    nodes_treeids: Sequence[builtins.int] | builtins.int | None = None,
    nodes_truenodeids: Sequence[builtins.int] | builtins.int | None = None,
    nodes_values: Sequence[builtins.float] | builtins.float | None = None,
    nodes_values_as_tensor: Tensor | ArrayLike | None = None,
    post_transform: str = "NONE",
    target_ids: Sequence[builtins.int] | builtins.int | None = None,
    target_nodeids: Sequence[builtins.int] | builtins.int | None = None,
    target_treeids: Sequence[builtins.int] | builtins.int | None = None,
    target_weights: Sequence[builtins.float] | builtins.float | None = None,
    target_weights_as_tensor: Tensor | ArrayLike | None = None,
    name: str | None = None,
) -> Symbol:
    """The form of TreeEnsemble before version 5 of the domain, for regression."""

def tree_ensemble(
    x: SymbolLike,
    leaf_targetids: Sequence[builtins.int] | builtins.int,
    leaf_weights: Tensor | ArrayLike,
    nodes_falseleafs: Sequence[builtins.int] | builtins.int,
    nodes_falsenodeids: Sequence[builtins.int] | builtins.int,
    nodes_featureids: Sequence[builtins.int] | builtins.int,
    nodes_modes: Tensor | ArrayLike,
    nodes_splits: Tensor | ArrayLike,
    nodes_trueleafs: Sequence[builtins.int] | builtins.int,
    nodes_truenodeids: Sequence[builtins.int] | builtins.int,
    tree_roots: Sequence[builtins.int] | builtins.int,
    *,
    aggregate_function: builtins.int = 1,
    membership_values: Tensor | ArrayLike | None = None,
    n_targets: builtins.int | None = None,
    nodes_hitrates: Tensor | ArrayLike | None = None,
    nodes_missing_value_tracks_true: Sequence[builtins.int] | builtins.int | None = None,
    post_transform: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """The summed, averaged, least or largest leaves of trees, for each target."""

def linear_classifier(
    x: SymbolLike,
    coefficients: Sequence[builtins.float] | builtins.float,
    *,
    classlabels_ints: Sequence[builtins.int] | builtins.int | None = None,
    classlabels_strings: Sequence[str] | str | None = None,
    intercepts: Sequence[builtins.float] | builtins.float | None = None,
    multi_class: builtins.int = 0,
    post_transform: str = "NONE",
    name: str | None = None,
) -> LinearClassifierOutputs:
    """Classes by a linear score each."""

def tree_ensemble_classifier(
    x: SymbolLike,
    *,
    base_values: Sequence[builtins.float] | builtins.float | None = None,
    base_values_as_tensor: Tensor | ArrayLike | None = None,
    class_ids: Sequence[builtins.int] | builtins.int | None = None,
    class_nodeids: Sequence[builtins.int] | builtins.int | None = None,
    class_treeids: Sequence[builtins.int] | builtins.int | None = None,
    class_weights: Sequence[builtins.float] | builtins.float | None = None,
    class_weights_as_tensor: Tensor | ArrayLike | None = None,
    classlabels_int64s: Sequence[builtins.int] | builtins.int | None = None,
    classlabels_strings: Sequence[str] | str | None = None,
    nodes_falsenodeids: Sequence[builtins.int] | builtins.int | None = None,
    nodes_featureids: Sequence[builtins.int] | builtins.int | None = None,
    nodes_hitrates: Sequence[builtins.float] | builtins.float | None = None,
    nodes_hitrates_as_tensor: Tensor | ArrayLike | None = None,
    nodes_missing_value_tracks_true: Sequence[builtins.int] | builtins.int | None = None,
    nodes_modes: Sequence[str] | str | None = None,
    nodes_nodeids: Sequence[builtins.int] | builtins.int | None = None,
    nodes_treeids: Sequence[builtins.int] | builtins.int | None = None,
    nodes_truenodeids: Sequence[builtins.int] | builtins.int | None = None,
    nodes_values: Sequence[builtins.float] | builtins.float | None = None,
    nodes_values_as_tensor: Tensor | ArrayLike | None = None,
    post_transform: str = "NONE",
    name: str | None = None,
) -> TreeEnsembleClassifierOutputs:
    """The form of TreeEnsemble before version 5 of the domain, for classes."""

def svm_regressor(
    x: SymbolLike,
    *,
    coefficients: Sequence[builtins.float] | builtins.float | None = None,
    kernel_params: Sequence[builtins.float] | builtins.float | None = None,
    kernel_type: str = "LINEAR",
    n_supports: builtins.int = 0,
    one_class: builtins.int = 0,
    post_transform: str = "NONE",
    rho: Sequence[builtins.float] | builtins.float | None = None,
    support_vectors: Sequence[builtins.float] | builtins.float | None = None,
    name: str | None = None,
) -> Symbol:
    """A function of a row by support vectors; with `one_class` only its sign, 1 or -1."""

def svm_classifier(
    x: SymbolLike,
    *,
    classlabels_ints: Sequence[builtins.int] | builtins.int | None = None,
    classlabels_strings: Sequence[str] | str | None = None,
    coefficients: Sequence[builtins.float] | builtins.float | None = None,
    kernel_params: Sequence[builtins.float] | builtins.float | None = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Sequence[builtins.float] | builtins.float | None = None,
    prob_b: Sequence[builtins.float] | builtins.float | None = None,
    rho: Sequence[builtins.float] | builtins.float | None = None,
    support_vectors: Sequence[builtins.float] | builtins.float | None = None,
    vectors_per_class: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> SVMClassifierOutputs:
    """Classes by support vectors, or without any by a linear score each."""

def one_hot_encoder(
    x: SymbolLike,
    *,
    cats_int64s: Sequence[builtins.int] | builtins.int | None = None,
    cats_strings: Sequence[str] | str | None = None,
    zeros: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """A new last axis with a 1 at the place of the category."""

def category_mapper(
    x: SymbolLike,
    *,
    cats_int64s: Sequence[builtins.int] | builtins.int | None = None,
    cats_strings: Sequence[str] | str | None = None,
    default_int64: builtins.int = -1,
    default_string: str = "_Unused",
    name: str | None = None,
) -> Symbol:
    """Strings to numbers or numbers to strings, by a table; of equal keys the last counts."""

def label_encoder(
    x: SymbolLike,
    *,
    default_float: builtins.float = 0.0,
    default_int64: builtins.int = -1,
    default_string: str = "_Unused",
    default_tensor: Tensor | ArrayLike | None = None,
    keys_floats: Sequence[builtins.float] | builtins.float | None = None,
    keys_int64s: Sequence[builtins.int] | builtins.int | None = None,
    keys_strings: Sequence[str] | str | None = None,
    keys_tensor: Tensor | ArrayLike | None = None,
    values_floats: Sequence[builtins.float] | builtins.float | None = None,
    values_int64s: Sequence[builtins.int] | builtins.int | None = None,
    values_strings: Sequence[str] | str | None = None,
    values_tensor: Tensor | ArrayLike | None = None,
    name: str | None = None,
) -> Symbol:
    """Keys to values, by a table."""

def cast_map(
    x: Symbol,
    *,
    cast_to: str = "TO_FLOAT",
    map_form: str = "DENSE",
    max_map: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """The values of a map, in the order of its keys, as a row of a tensor."""

def dict_vectorizer(
    x: Symbol,
    *,
    int64_vocabulary: Sequence[builtins.int] | builtins.int | None = None,
    string_vocabulary: Sequence[str] | str | None = None,
    name: str | None = None,
) -> Symbol:
    """The values of a map in the order of a vocabulary, zero (or empty) for keys that it lacks."""

def zip_map(
    x: SymbolLike,
    *,
    classlabels_int64s: Sequence[builtins.int] | builtins.int | None = None,
    classlabels_strings: Sequence[str] | str | None = None,
    name: str | None = None,
) -> Symbol:
    """Each row of probabilities as a map from class labels."""

@overload
def batch_normalization(
    x: SymbolLike,
    scale: SymbolLike,
    b: SymbolLike,
    input_mean: SymbolLike,
    input_var: SymbolLike,
    *,
    epsilon: builtins.float = 1e-05,
    momentum: builtins.float = 0.9,
    training_mode: builtins.int = 0,
    outputs: Literal[1] = 1,
    name: str | None = None,
) -> Symbol:
    """(X - mean) / sqrt(var + epsilon) * scale + B, for each channel."""

@overload
def batch_normalization(
    x: SymbolLike,
    scale: SymbolLike,
    b: SymbolLike,
    input_mean: SymbolLike,
    input_var: SymbolLike,
    *,
    epsilon: builtins.float = 1e-05,
    momentum: builtins.float = 0.9,
    training_mode: builtins.int = 0,
    outputs: Literal[2],
    name: str | None = None,
) -> BatchNormalizationOutputs2:
    """(X - mean) / sqrt(var + epsilon) * scale + B, for each channel."""

@overload
def batch_normalization(
    x: SymbolLike,
    scale: SymbolLike,
    b: SymbolLike,
    input_mean: SymbolLike,
    input_var: SymbolLike,
    *,
    epsilon: builtins.float = 1e-05,
    momentum: builtins.float = 0.9,
    training_mode: builtins.int = 0,
    outputs: Literal[3],
    name: str | None = None,
) -> BatchNormalizationOutputs:
    """(X - mean) / sqrt(var + epsilon) * scale + B, for each channel."""

def instance_normalization(
    input: SymbolLike,
    scale: SymbolLike,
    b: SymbolLike,
    *,
    epsilon: builtins.float = 1e-05,
    name: str | None = None,
) -> Symbol:
    """Each channel of each entry less its mean, over its deviation."""

def group_normalization(
    x: SymbolLike,
    scale: SymbolLike,
    bias: SymbolLike,
    num_groups: builtins.int,
    *,
    epsilon: builtins.float = 1e-05,
    stash_type: DTypeLike | NumberType = "float32",
    name: str | None = None,
) -> Symbol:
    """Groups of channels less their mean, over their deviation."""

@overload
def layer_normalization(
    x: SymbolLike,
    scale: SymbolLike,
    b: SymbolLike | None = None,
    *,
    axis: builtins.int = -1,
    epsilon: builtins.float = 1e-05,
    stash_type: DTypeLike | NumberType = "float32",
    outputs: Literal[1] = 1,
    name: str | None = None,
) -> Symbol:
    """The axes from `axis` on less their mean, over their deviation."""

@overload
def layer_normalization(
    x: SymbolLike,
    scale: SymbolLike,
    b: SymbolLike | None = None,
    *,
    axis: builtins.int = -1,
    epsilon: builtins.float = 1e-05,
    stash_type: DTypeLike | NumberType = "float32",
    outputs: Literal[2],
    name: str | None = None,
) -> LayerNormalizationOutputs2:
    """The axes from `axis` on less their mean, over their deviation."""

@overload
def layer_normalization(
    x: SymbolLike,
    scale: SymbolLike,
    b: SymbolLike | None = None,
    *,
    axis: builtins.int = -1,
    epsilon: builtins.float = 1e-05,
    stash_type: DTypeLike | NumberType = "float32",
    outputs: Literal[3],
    name: str | None = None,
) -> LayerNormalizationOutputs:
    """The axes from `axis` on less their mean, over their deviation."""

def rms_normalization(
    x: SymbolLike,
    scale: SymbolLike,
    *,
    axis: builtins.int = -1,
    epsilon: builtins.float = 1e-05,
    stash_type: DTypeLike | NumberType = "float32",
    name: str | None = None,
) -> Symbol:
    """The axes from `axis` on over their root mean square."""

def lrn(
    x: SymbolLike,
    size: builtins.int,
    *,
    alpha: builtins.float = 0.0001,
    beta: builtins.float = 0.75,
    bias: builtins.float = 1.0,
    name: str | None = None,
) -> Symbol:
    """Each element over a power of the sum of squares of its neighbouring channels."""

def mean_variance_normalization(
    x: SymbolLike,
    *,
    axes: Sequence[builtins.int] | builtins.int = (0, 2, 3),
    name: str | None = None,
) -> Symbol:
    """(X - mean) / deviation over some axes."""

def lp_normalization(
    input: SymbolLike,
    *,
    axis: builtins.int = -1,
    p: builtins.int = 2,
    name: str | None = None,
) -> Symbol:
    """The input over its Lp norm along an axis; zero where the norm is."""

@overload
def max_pool(
    x: SymbolLike,
    kernel_shape: Sequence[builtins.int] | builtins.int,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: builtins.int = 0,
    dilations: Sequence[builtins.int] | builtins.int | None = None,
    pads: Sequence[builtins.int] | builtins.int | None = None,
    storage_order: builtins.int = 0,
    strides: Sequence[builtins.int] | builtins.int | None = None,
    outputs: Literal[1] = 1,
    name: str | None = None,
) -> Symbol:
    """The largest element of each window, and where it was."""

@overload
def max_pool(
    x: SymbolLike,
    kernel_shape: Sequence[builtins.int] | builtins.int,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: builtins.int = 0,
    dilations: Sequence[builtins.int] | builtins.int | None = None,
    pads: Sequence[builtins.int] | builtins.int | None = None,
    storage_order: builtins.int = 0,
    strides: Sequence[builtins.int] | builtins.int | None = None,
    outputs: Literal[2],
    name: str | None = None,
) -> MaxPoolOutputs:
    """The largest element of each window, and where it was."""

def average_pool(
    x: SymbolLike,
    kernel_shape: Sequence[builtins.int] | builtins.int,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: builtins.int = 0,
    count_include_pad: builtins.int = 0,
    dilations: Sequence[builtins.int] | builtins.int | None = None,
    pads: Sequence[builtins.int] | builtins.int | None = None,
    strides: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """The mean of each window."""

def lp_pool(
    x: SymbolLike,
    kernel_shape: Sequence[builtins.int] | builtins.int,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: builtins.int = 0,
    dilations: Sequence[builtins.int] | builtins.int | None = None,
    p: builtins.int = 2,
    pads: Sequence[builtins.int] | builtins.int | None = None,
    strides: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """The Lp norm of each window."""

def global_average_pool(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """The mean over all spatial axes."""

def global_max_pool(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """The largest element over all spatial axes."""

def global_lp_pool(x: SymbolLike, *, p: builtins.int = 2, name: str | None = None) -> Symbol:
    """The Lp norm over all spatial axes."""

def max_unpool(
    x: SymbolLike,
    i: SymbolLike,
    output_shape: SymbolLike | None = None,
    *,
    kernel_shape: Sequence[builtins.int] | builtins.int,
    pads: Sequence[builtins.int] | builtins.int | None = None,
    strides: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """Zeros, with the elements of X put back where MaxPool had found them."""

def max_roi_pool(
    x: SymbolLike,
    rois: SymbolLike,
    pooled_shape: Sequence[builtins.int] | builtins.int,
    *,
    spatial_scale: builtins.float = 1.0,
    name: str | None = None,
) -> Symbol:
    """The largest element in each cell of a grid over each region of interest."""

def quantize_linear(
    x: SymbolLike,
    y_scale: SymbolLike,
    y_zero_point: SymbolLike | None = None,
    *,
    axis: builtins.int = 1,
    block_size: builtins.int = 0,
    output_dtype: DTypeLike | NumberType | None = None,
    precision: DTypeLike | NumberType | None = None,
    saturate: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """x/scale + zero point, rounded half to even and saturated to the small type."""

def dequantize_linear(
    x: SymbolLike,
    x_scale: SymbolLike,
    x_zero_point: SymbolLike | None = None,
    *,
    axis: builtins.int = 1,
    block_size: builtins.int = 0,
    output_dtype: DTypeLike | NumberType | None = None,
    name: str | None = None,
) -> Symbol:
    """(x - zero point) * scale."""

def dynamic_quantize_linear(
    x: SymbolLike,
    *,
    name: str | None = None,
) -> DynamicQuantizeLinearOutputs:
    """uint8 values, their scale and zero point, from the smallest and largest element."""

def reduce_sum(
    data: SymbolLike,
    axes: SymbolLike | None = None,
    *,
    keepdims: builtins.int = 1,
    noop_with_empty_axes: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Sum over axes."""

def reduce_mean(
    data: SymbolLike,
    axes: SymbolLike | None = None,
    *,
    keepdims: builtins.int = 1,
    noop_with_empty_axes: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Mean over axes."""

def reduce_max(
    data: SymbolLike,
    axes: SymbolLike | None = None,
    *,
    keepdims: builtins.int = 1,
    noop_with_empty_axes: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Largest element over axes."""

def reduce_min(
    data: SymbolLike,
    axes: SymbolLike | None = None,
    *,
    keepdims: builtins.int = 1,
    noop_with_empty_axes: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Smallest element over axes."""

def reduce_prod(
    data: SymbolLike,
    axes: SymbolLike | None = None,
    *,
    keepdims: builtins.int = 1,
    noop_with_empty_axes: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Product over axes."""

def reduce_l1(
    data: SymbolLike,
    axes: SymbolLike | None = None,
    *,
    keepdims: builtins.int = 1,
    noop_with_empty_axes: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Sum of absolute values over axes."""

def reduce_l2(
    data: SymbolLike,
    axes: SymbolLike | None = None,
    *,
    keepdims: builtins.int = 1,
    noop_with_empty_axes: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Square root of the sum of squares over axes."""

def reduce_log_sum(
    data: SymbolLike,
    axes: SymbolLike | None = None,
    *,
    keepdims: builtins.int = 1,
    noop_with_empty_axes: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Logarithm of the sum over axes."""

def reduce_log_sum_exp(
    data: SymbolLike,
    axes: SymbolLike | None = None,
    *,
    keepdims: builtins.int = 1,
    noop_with_empty_axes: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Logarithm of the sum of exponentials over axes."""

def reduce_sum_square(
    data: SymbolLike,
    axes: SymbolLike | None = None,
    *,
    keepdims: builtins.int = 1,
    noop_with_empty_axes: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Sum of squares over axes."""

def arg_max(
    data: SymbolLike,
    *,
    axis: builtins.int = 0,
    keepdims: builtins.int = 1,
    select_last_index: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Where the largest element along an axis is."""

def arg_min(
    data: SymbolLike,
    *,
    axis: builtins.int = 0,
    keepdims: builtins.int = 1,
    select_last_index: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Where the smallest element along an axis is."""

def cum_sum(
    x: SymbolLike,
    axis: SymbolLike,
    *,
    exclusive: builtins.int = 0,
    reverse: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Running sum along an axis."""

def cum_prod(
    x: SymbolLike,
    axis: SymbolLike,
    *,
    exclusive: builtins.int = 0,
    reverse: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """Running product along an axis."""

def reshape(
    data: SymbolLike,
    shape: SymbolLike,
    *,
    allowzero: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """The same elements in order, in another shape."""

def flatten(input: SymbolLike, *, axis: builtins.int = 1, name: str | None = None) -> Symbol:
    """A matrix: the axes before `axis` as rows, the others as columns."""

def transpose(
    data: SymbolLike,
    *,
    perm: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """The axes in another order; reversed without `perm`."""

def squeeze(data: SymbolLike, axes: SymbolLike | None = None, *, name: str | None = None) -> Symbol:
    """Without the axes of size 1, all of them or those given."""

def unsqueeze(data: SymbolLike, axes: SymbolLike, *, name: str | None = None) -> Symbol:
    """With axes of size 1 inserted."""

def depth_to_space(
    input: SymbolLike,
    blocksize: builtins.int,
    *,
    mode: str = "DCR",
    name: str | None = None,
) -> Symbol:
    """Blocks of channels rearranged into blocks of space."""

def space_to_depth(
    input: SymbolLike,
    blocksize: builtins.int,
    *,
    mode: str = "DCR",
    name: str | None = None,
) -> Symbol:
    """Blocks of space rearranged into channels."""

def compress(
    input: SymbolLike,
    condition: SymbolLike,
    *,
    axis: builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """Entries along one axis where the condition is true."""

def non_zero(x: SymbolLike, *, name: str | None = None) -> Symbol:
    """The indices of the elements that are not zero, one row for each axis."""

@overload
def unique(
    x: SymbolLike,
    *,
    axis: builtins.int | None = None,
    sorted: builtins.int = 1,
    outputs: Literal[1] = 1,
    name: str | None = None,
) -> Symbol:
    """The different elements, or slices along an axis, with places and counts."""

@overload
def unique(
    x: SymbolLike,
    *,
    axis: builtins.int | None = None,
    sorted: builtins.int = 1,
    outputs: Literal[2],
    name: str | None = None,
) -> UniqueOutputs2:
    """The different elements, or slices along an axis, with places and counts."""

@overload
def unique(
    x: SymbolLike,
    *,
    axis: builtins.int | None = None,
    sorted: builtins.int = 1,
    outputs: Literal[3],
    name: str | None = None,
) -> UniqueOutputs3:
    """The different elements, or slices along an axis, with places and counts."""

@overload
def unique(
    x: SymbolLike,
    *,
    axis: builtins.int | None = None,
    sorted: builtins.int = 1,
    outputs: Literal[4],
    name: str | None = None,
) -> UniqueOutputs:
    """The different elements, or slices along an axis, with places and counts."""

def top_k(
    x: SymbolLike,
    k: SymbolLike,
    *,
    axis: builtins.int = -1,
    largest: builtins.int = 1,
    sorted: builtins.int = 1,
    name: str | None = None,
) -> TopKOutputs:
    """The k largest or smallest elements along an axis, and where they were."""

def one_hot(
    indices: SymbolLike,
    depth: SymbolLike,
    values: SymbolLike,
    *,
    axis: builtins.int = -1,
    name: str | None = None,
) -> Symbol:
    """A new axis of `depth` entries, on at the index and off elsewhere."""

def reverse_sequence(
    input: SymbolLike,
    sequence_lens: SymbolLike,
    *,
    batch_axis: builtins.int = 1,
    time_axis: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """The first entries of each sequence of a batch reversed."""

def trilu(
    input: SymbolLike,
    k: SymbolLike | None = None,
    *,
    upper: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """The upper or lower triangle of the last two axes, zero elsewhere."""

def center_crop_pad(
    input_data: SymbolLike,
    shape: SymbolLike,
    *,
    axes: Sequence[builtins.int] | builtins.int | None = None,
    name: str | None = None,
) -> Symbol:
    """The input cut or padded about its centre to a shape."""

def sequence_empty(
    *,
    dtype: DTypeLike | NumberType | None = None,
    name: str | None = None,
) -> Symbol:
    """A sequence without elements."""

def sequence_construct(inputs: Sequence[SymbolLike], *, name: str | None = None) -> Symbol:
    """The sequence of the tensors given."""

def sequence_at(input_sequence: Symbol, position: SymbolLike, *, name: str | None = None) -> Symbol:
    """The element at a position; negative ones count from the end."""

def sequence_insert(
    input_sequence: Symbol,
    tensor: SymbolLike,
    position: SymbolLike | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """The sequence with a tensor inserted, at its end unless a position is given."""

def sequence_erase(
    input_sequence: Symbol,
    position: SymbolLike | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """The sequence without one element, the last unless a position is given."""

def sequence_length(input_sequence: Symbol, *, name: str | None = None) -> Symbol:
    """The number of elements, as an int64 scalar."""

def split_to_sequence(
    input: SymbolLike,
    split: SymbolLike | None = None,
    *,
    axis: builtins.int = 0,
    keepdims: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """A tensor cut along an axis into a sequence of pieces."""

def concat_from_sequence(
    input_sequence: Symbol,
    axis: builtins.int,
    *,
    new_axis: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """The elements of a sequence joined along an axis, or stacked along a new one."""

def optional(
    input: Symbol | None = None,
    *,
    type: Type | None = None,
    name: str | None = None,
) -> Symbol:
    """A value that may be absent: the input's, or without one an empty one of `type`."""

def optional_has_element(input: Symbol | None = None, *, name: str | None = None) -> Symbol:
    """Whether an optional holds a value."""

def optional_get_element(input: Symbol, *, name: str | None = None) -> Symbol:
    """The value that an optional holds."""

def dft(
    input: SymbolLike,
    dft_length: SymbolLike | None = None,
    axis: SymbolLike | None = None,
    *,
    inverse: builtins.int = 0,
    onesided: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """The discrete Fourier transform along an axis; complex numbers are a last axis of two."""

def stft(
    signal: SymbolLike,
    frame_step: SymbolLike,
    window: SymbolLike | None = None,
    frame_length: SymbolLike | None = None,
    *,
    onesided: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """The Fourier transforms of overlapping frames of a signal [batch, length, 1 or 2]."""

def hann_window(
    size: SymbolLike,
    *,
    output_datatype: DTypeLike | NumberType = "float32",
    periodic: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """The weights 1/2 - cos(2 pi n/N)/2."""

def hamming_window(
    size: SymbolLike,
    *,
    output_datatype: DTypeLike | NumberType = "float32",
    periodic: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """The weights 25/46 - 21/46 cos(2 pi n/N)."""

def blackman_window(
    size: SymbolLike,
    *,
    output_datatype: DTypeLike | NumberType = "float32",
    periodic: builtins.int = 1,
    name: str | None = None,
) -> Symbol:
    """The weights 0.42 - cos(2 pi n/N)/2 + 0.08 cos(4 pi n/N)."""

def mel_weight_matrix(
    num_mel_bins: SymbolLike,
    dft_length: SymbolLike,
    sample_rate: SymbolLike,
    lower_edge_hertz: SymbolLike,
    upper_edge_hertz: SymbolLike,
    *,
    output_datatype: DTypeLike | NumberType = "float32",
    name: str | None = None,
) -> Symbol:
    """The matrix [spectrum bins, mel bins] that sums a spectrum into bins of the mel scale."""

def identity(input: Symbol, *, name: str | None = None) -> Symbol:
    """The input itself."""

def shape(
    data: SymbolLike,
    *,
    end: builtins.int | None = None,
    start: builtins.int = 0,
    name: str | None = None,
) -> Symbol:
    """The dimensions of the input from `start` to `end`, as int64."""

def size(data: SymbolLike, *, name: str | None = None) -> Symbol:
    """The number of elements of the input, as an int64 scalar."""

def concat(inputs: Sequence[SymbolLike], axis: builtins.int, *, name: str | None = None) -> Symbol:
    """The inputs joined along `axis`."""

def split(
    input: SymbolLike,
    split: SymbolLike | None = None,
    *,
    axis: builtins.int = 0,
    num_outputs: builtins.int | None = None,
    name: str | None = None,
) -> tuple[Symbol, ...]:
    """Parts of the input along `axis`, of equal or given sizes."""

def pad(
    data: SymbolLike,
    pads: SymbolLike,
    constant_value: SymbolLike | None = None,
    axes: SymbolLike | None = None,
    *,
    mode: str = "constant",
    name: str | None = None,
) -> Symbol:
    """The input with elements added, or cut off, at both ends of its axes."""

def tile(input: SymbolLike, repeats: SymbolLike, *, name: str | None = None) -> Symbol:
    """The input repeated along each axis."""

def expand(input: SymbolLike, shape: SymbolLike, *, name: str | None = None) -> Symbol:
    """The input broadcast to a shape."""

def string_concat(x: SymbolLike, y: SymbolLike, *, name: str | None = None) -> Symbol:
    """The strings of two tensors joined at each place."""

def regex_full_match(
    x: SymbolLike,
    *,
    pattern: str | None = None,
    name: str | None = None,
) -> Symbol:
    """Whether each whole string matches the pattern, in the syntax of RE2."""

def string_split(
    x: SymbolLike,
    *,
    delimiter: str | None = None,
    maxsplit: builtins.int | None = None,
    name: str | None = None,
) -> StringSplitOutputs:
    """Each string split at a delimiter, padded to the longest, and the number of its parts."""

def string_normalizer(
    x: SymbolLike,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: builtins.int = 0,
    locale: str | None = None,
    stopwords: Sequence[str] | str | None = None,
    name: str | None = None,
) -> Symbol:
    """Strings of a list in one case, without the stopwords."""

@overload
def dropout(
    data: SymbolLike,
    ratio: SymbolLike | None = None,
    training_mode: SymbolLike | None = None,
    *,
    seed: builtins.int | None = None,
    outputs: Literal[1] = 1,
    name: str | None = None,
) -> Symbol:
    """The input; while training, with elements zeroed at random and the others scaled up."""

@overload
def dropout(
    data: SymbolLike,
    ratio: SymbolLike | None = None,
    training_mode: SymbolLike | None = None,
    *,
    seed: builtins.int | None = None,
    outputs: Literal[2],
    name: str | None = None,
) -> DropoutOutputs:
    """The input; while training, with elements zeroed at random and the others scaled up."""

def gradient(
    inputs: Sequence[SymbolLike],
    xs: Sequence[str] | str,
    y: str,
    *,
    zs: Sequence[str] | str | None = None,
    name: str | None = None,
) -> tuple[Symbol, ...]:
    """The derivatives of one symbol with respect to others, by names."""

def adagrad(
    r: SymbolLike,
    t: SymbolLike,
    inputs: Sequence[SymbolLike],
    *,
    decay_factor: builtins.float = 0.0,
    epsilon: builtins.float = 1e-06,
    norm_coefficient: builtins.float = 0.0,
    name: str | None = None,
) -> tuple[Symbol, ...]:
    """Steps scaled by the root of the summed squares of past gradients."""

def adam(
    r: SymbolLike,
    t: SymbolLike,
    inputs: Sequence[SymbolLike],
    *,
    alpha: builtins.float = 0.9,
    beta: builtins.float = 0.999,
    epsilon: builtins.float = 1e-06,
    norm_coefficient: builtins.float = 0.0,
    norm_coefficient_post: builtins.float = 0.0,
    name: str | None = None,
) -> tuple[Symbol, ...]:
    """Steps along a running mean of gradients over the root of that of their squares."""

def momentum(
    r: SymbolLike,
    t: SymbolLike,
    inputs: Sequence[SymbolLike],
    alpha: builtins.float,
    beta: builtins.float,
    mode: str,
    norm_coefficient: builtins.float,
    *,
    name: str | None = None,
) -> tuple[Symbol, ...]:
    """Steps along a velocity that gradients accelerate."""

logic_and = and_
logic_or = or_
logic_xor = xor
logic_not = not_
equal_to = equal
modular = mod
maxpool = max_pool
avgpool = average_pool
batch_norm = batch_normalization
instance_norm = instance_normalization
eyelike = eye_like
onehot = one_hot
logsoftmax = log_softmax
cumsum = cum_sum
reduce_logsum = reduce_log_sum
reduce_logsumexp = reduce_log_sum_exp
gather_elem = gather_elements
scatter_elem = scatter_elements
seq_empty = sequence_empty
seq_at = sequence_at
seq_insert = sequence_insert
seq_erase = sequence_erase
seq_length = sequence_length
seq_construct = sequence_construct
split_to_seq = split_to_sequence
concat_from_seq = concat_from_sequence
argmax = arg_max
argmin = arg_min
cumprod = cum_prod
nonzero = non_zero
topk = top_k
isnan = is_nan
isinf = is_inf
concatenate = concat
divide = div
multiply = mul
subtract = sub
negative = neg
layer_norm = layer_normalization
group_norm = group_normalization
rms_norm = rms_normalization
uniform = random_uniform
normal = random_normal
float = float_
int = int_
complex = complex_
range_ = range
slice_ = slice
pow_ = pow
abs_ = abs
max_ = max
min_ = min
sum_ = sum
round_ = round

__all__ = [
    "relu",
    "leaky_relu",
    "prelu",
    "thresholded_relu",
    "elu",
    "selu",
    "celu",
    "gelu",
    "sigmoid",
    "hard_sigmoid",
    "hard_swish",
    "swish",
    "swiglu",
    "mish",
    "softplus",
    "softsign",
    "tanh",
    "shrink",
    "softmax",
    "log_softmax",
    "hardmax",
    "attention",
    "linear_attention",
    "rotary_embedding",
    "cast",
    "cast_like",
    "bit_cast",
    "rnn",
    "gru",
    "lstm",
    "conv",
    "conv_integer",
    "qlinear_conv",
    "deform_conv",
    "conv_transpose",
    "causal_conv_with_state",
    "col2im",
    "roi_align",
    "non_max_suppression",
    "image_decoder",
    "constant_of_shape",
    "eye_like",
    "random_uniform",
    "random_normal",
    "random_uniform_like",
    "random_normal_like",
    "bernoulli",
    "multinomial",
    "tf_idf_vectorizer",
    "resize",
    "grid_sample",
    "affine_grid",
    "gather",
    "gather_elements",
    "gather_nd",
    "scatter_elements",
    "scatter_nd",
    "tensor_scatter",
    "matmul",
    "matmul_integer",
    "qlinear_matmul",
    "gemm",
    "einsum",
    "det",
    "equal",
    "less",
    "less_or_equal",
    "greater",
    "greater_or_equal",
    "is_nan",
    "is_inf",
    "and_",
    "or_",
    "xor",
    "not_",
    "where",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "bit_shift",
    "negative_log_likelihood_loss",
    "softmax_cross_entropy_loss",
    "add",
    "sub",
    "mul",
    "div",
    "mod",
    "neg",
    "sign",
    "reciprocal",
    "sqrt",
    "mean",
    "clip",
    "floor",
    "ceil",
    "exp",
    "log",
    "erf",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "array_feature_extractor",
    "binarizer",
    "feature_vectorizer",
    "imputer",
    "normalizer",
    "scaler",
    "linear_regressor",
    "tree_ensemble_regressor",
    "tree_ensemble",
    "linear_classifier",
    "tree_ensemble_classifier",
    "svm_regressor",
    "svm_classifier",
    "one_hot_encoder",
    "category_mapper",
    "label_encoder",
    "cast_map",
    "dict_vectorizer",
    "zip_map",
    "batch_normalization",
    "instance_normalization",
    "group_normalization",
    "layer_normalization",
    "rms_normalization",
    "lrn",
    "mean_variance_normalization",
    "lp_normalization",
    "max_pool",
    "average_pool",
    "lp_pool",
    "global_average_pool",
    "global_max_pool",
    "global_lp_pool",
    "max_unpool",
    "max_roi_pool",
    "quantize_linear",
    "dequantize_linear",
    "dynamic_quantize_linear",
    "reduce_sum",
    "reduce_mean",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_l1",
    "reduce_l2",
    "reduce_log_sum",
    "reduce_log_sum_exp",
    "reduce_sum_square",
    "arg_max",
    "arg_min",
    "cum_sum",
    "cum_prod",
    "reshape",
    "flatten",
    "transpose",
    "squeeze",
    "unsqueeze",
    "depth_to_space",
    "space_to_depth",
    "compress",
    "non_zero",
    "unique",
    "top_k",
    "one_hot",
    "reverse_sequence",
    "trilu",
    "center_crop_pad",
    "sequence_empty",
    "sequence_construct",
    "sequence_at",
    "sequence_insert",
    "sequence_erase",
    "sequence_length",
    "split_to_sequence",
    "concat_from_sequence",
    "optional",
    "optional_has_element",
    "optional_get_element",
    "dft",
    "stft",
    "hann_window",
    "hamming_window",
    "blackman_window",
    "mel_weight_matrix",
    "identity",
    "shape",
    "size",
    "concat",
    "split",
    "pad",
    "tile",
    "expand",
    "string_concat",
    "regex_full_match",
    "string_split",
    "string_normalizer",
    "dropout",
    "gradient",
    "adagrad",
    "adam",
    "momentum",
    "logic_and",
    "logic_or",
    "logic_xor",
    "logic_not",
    "equal_to",
    "modular",
    "maxpool",
    "avgpool",
    "batch_norm",
    "instance_norm",
    "eyelike",
    "onehot",
    "logsoftmax",
    "cumsum",
    "reduce_logsum",
    "reduce_logsumexp",
    "gather_elem",
    "scatter_elem",
    "seq_empty",
    "seq_at",
    "seq_insert",
    "seq_erase",
    "seq_length",
    "seq_construct",
    "split_to_seq",
    "concat_from_seq",
    "argmax",
    "argmin",
    "cumprod",
    "nonzero",
    "topk",
    "isnan",
    "isinf",
    "concatenate",
    "divide",
    "multiply",
    "subtract",
    "negative",
    "layer_norm",
    "group_norm",
    "rms_norm",
    "uniform",
    "normal",
    "range_",
    "slice_",
    "pow_",
    "abs_",
    "max_",
    "min_",
    "sum_",
    "round_",
    "variable",
    "constant",
    "float_",
    "int_",
    "complex_",
    "pi",
    "tensor",
    "zeros",
    "ones",
    "if_",
    "loop",
    "scan",
    "sequence_map",
    "flex_attention",
]

"""Layers, chained by `|` from `input` to `get_network`.

Both `from neuralsym.layers import *` and `import neuralsym.layers as nn` are meant to be written;
the first takes the names of `__all__` and nothing else (of Python's own names it hides `input`).

    net = input(("N", 3, 32, 32)) | conv2d(32, 3) | relu | flatten() | dense(10) | get_network()
"""

from neuralsym.core.scope import scope
from neuralsym.layers import aliases, initializers
from neuralsym.layers.activation import activation
from neuralsym.layers.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from neuralsym.layers.aliases import *  # noqa: F403
from neuralsym.layers.aliases import max, slice  # noqa: F401
from neuralsym.layers.attention import (
    additive_attention,
    attention,
    grouped_query_attention,
    multi_head_attention,
)
from neuralsym.layers.base import Layer, Plain, require_shape
from neuralsym.layers.cells import gru_cell, lstm_cell, rnn, simple_rnn_cell
from neuralsym.layers.combine import chain, fork, lambda_, parallel, residual
from neuralsym.layers.conv_recurrent import conv_lstm1d, conv_lstm2d, conv_lstm3d
from neuralsym.layers.convolution import (
    conv1d,
    conv2d,
    conv3d,
    dilated_conv1d,
    dilated_conv2d,
    dilated_conv3d,
)
from neuralsym.layers.convolution_transpose import (
    transpose_conv1d,
    transpose_conv2d,
    transpose_conv3d,
)
from neuralsym.layers.cropping import (
    center_crop,
    cropping1d,
    cropping2d,
    cropping3d,
    get_item,
    slice_,
)
from neuralsym.layers.dense import dense, fully_connected, linear
from neuralsym.layers.depthwise import (
    depthwise_conv1d,
    depthwise_conv2d,
    depthwise_conv3d,
    separable_conv1d,
    separable_conv2d,
    separable_conv3d,
)
from neuralsym.layers.einsum_dense import einsum_dense
from neuralsym.layers.embedding import embedding, embedding_bag, reversible_embedding
from neuralsym.layers.encode import category_encoding, discretization, normalization, rescaling
from neuralsym.layers.factory import layer, plain_layer
from neuralsym.layers.global_pool import (
    global_avg_pool1d,
    global_avg_pool2d,
    global_avg_pool3d,
    global_lp_pool1d,
    global_lp_pool2d,
    global_lp_pool3d,
    global_max_pool1d,
    global_max_pool2d,
    global_max_pool3d,
)
from neuralsym.layers.lookup import integer_lookup, string_lookup
from neuralsym.layers.lp_pool import lp_pool1d, lp_pool2d, lp_pool3d
from neuralsym.layers.masks import masking
from neuralsym.layers.merge import (
    add,
    average,
    concat,
    concatenate,
    maximum,
    minimum,
    multiply,
    subtract,
)
from neuralsym.layers.network import get_network, input
from neuralsym.layers.noise import (
    activity_regularization,
    alpha_dropout,
    dropout,
    feature_alpha_dropout,
    gaussian_dropout,
    gaussian_noise,
    identity,
    spatial_dropout,
    spatial_dropout1d,
    spatial_dropout2d,
    spatial_dropout3d,
)
from neuralsym.layers.normalise import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    normalisation,
    rms_norm,
)
from neuralsym.layers.padding import (
    circular_padding1d,
    circular_padding2d,
    circular_padding3d,
    constant_padding1d,
    constant_padding2d,
    constant_padding3d,
    reflection_padding1d,
    reflection_padding2d,
    reflection_padding3d,
    replication_padding1d,
    replication_padding2d,
    replication_padding3d,
    zero_padding1d,
    zero_padding2d,
    zero_padding3d,
)
from neuralsym.layers.pool import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from neuralsym.layers.positions import position_embedding, rotary_embedding, sinusoidal_positions
from neuralsym.layers.rearrange import channel_shuffle, pixel_shuffle, pixel_unshuffle
from neuralsym.layers.rectifiers import (
    celu,
    elu,
    hard_shrink,
    leaky_relu,
    prelu,
    relu,
    relu6,
    rrelu,
    selu,
    soft_shrink,
    sparse_plus,
    squareplus,
    tanh_shrink,
    threshold,
    thresholded_relu,
)
from neuralsym.layers.recurrent import gru, lstm, simple_rnn
from neuralsym.layers.resize import (
    resizing,
    upsample,
    upsampling1d,
    upsampling2d,
    upsampling3d,
    upsampling_bilinear2d,
    upsampling_nearest2d,
)
from neuralsym.layers.scale import local_response_norm, unit_norm
from neuralsym.layers.shape import flatten, permute, repeat_vector, reshape, unflatten
from neuralsym.layers.sigmoids import (
    exponential,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    log_sigmoid,
    mish,
    sigmoid,
    silu,
    softplus,
    softsign,
    sparse_sigmoid,
    swish,
    tanh,
)
from neuralsym.layers.signal import mel_spectrogram, stft_spectrogram
from neuralsym.layers.similarity import bilinear, cosine_similarity, dot, pairwise_distance
from neuralsym.layers.slide import fold, unfold
from neuralsym.layers.softmaxes import log_softmax, softmax, softmax2d, softmin, sparsemax
from neuralsym.layers.transformer import (
    transformer,
    transformer_decoder_layer,
    transformer_encoder_layer,
)
from neuralsym.layers.unpool import (
    max_pool1d_with_indices,
    max_pool2d_with_indices,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from neuralsym.layers.weights import weight
from neuralsym.layers.wrappers import bidirectional, spectral_norm, time_distributed

__all__ = [
    # beginning and end
    "input",
    "get_network",
    "scope",
    # convolution
    "conv1d",
    "conv2d",
    "conv3d",
    "dilated_conv1d",
    "dilated_conv2d",
    "dilated_conv3d",
    "depthwise_conv1d",
    "depthwise_conv2d",
    "depthwise_conv3d",
    "separable_conv1d",
    "separable_conv2d",
    "separable_conv3d",
    "transpose_conv1d",
    "transpose_conv2d",
    "transpose_conv3d",
    # pooling
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "global_max_pool1d",
    "global_max_pool2d",
    "global_max_pool3d",
    "global_avg_pool1d",
    "global_avg_pool2d",
    "global_avg_pool3d",
    "global_lp_pool1d",
    "global_lp_pool2d",
    "global_lp_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    # affine maps
    "fully_connected",
    "linear",
    "dense",
    "einsum_dense",
    "embedding",
    "embedding_bag",
    "reversible_embedding",
    "position_embedding",
    "sinusoidal_positions",
    "rotary_embedding",
    # sequences
    "lstm",
    "gru",
    "simple_rnn",
    "conv_lstm1d",
    "conv_lstm2d",
    "conv_lstm3d",
    "rnn",
    "lstm_cell",
    "gru_cell",
    "simple_rnn_cell",
    "bidirectional",
    "time_distributed",
    "masking",
    # attention
    "attention",
    "additive_attention",
    "multi_head_attention",
    "grouped_query_attention",
    "transformer_encoder_layer",
    "transformer_decoder_layer",
    "transformer",
    # normalisation
    "normalisation",
    "batch_norm",
    "layer_norm",
    "group_norm",
    "instance_norm",
    "rms_norm",
    "unit_norm",
    "local_response_norm",
    "spectral_norm",
    # activations
    "activation",
    "relu",
    "relu6",
    "leaky_relu",
    "rrelu",
    "prelu",
    "elu",
    "selu",
    "celu",
    "gelu",
    "silu",
    "swish",
    "hard_silu",
    "hard_swish",
    "sigmoid",
    "hard_sigmoid",
    "log_sigmoid",
    "tanh",
    "hard_tanh",
    "tanh_shrink",
    "softsign",
    "softplus",
    "softmax",
    "softmin",
    "softmax2d",
    "log_softmax",
    "sparsemax",
    "exponential",
    "mish",
    "hard_shrink",
    "soft_shrink",
    "threshold",
    "thresholded_relu",
    "glu",
    "squareplus",
    "sparse_plus",
    "sparse_sigmoid",
    # nothing at inference
    "dropout",
    "spatial_dropout",
    "spatial_dropout1d",
    "spatial_dropout2d",
    "spatial_dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
    "gaussian_dropout",
    "gaussian_noise",
    "activity_regularization",
    "identity",
    # shape
    "flatten",
    "unflatten",
    "reshape",
    "permute",
    "repeat_vector",
    "slice_",
    "get_item",
    # borders
    "zero_padding1d",
    "zero_padding2d",
    "zero_padding3d",
    "constant_padding1d",
    "constant_padding2d",
    "constant_padding3d",
    "reflection_padding1d",
    "reflection_padding2d",
    "reflection_padding3d",
    "replication_padding1d",
    "replication_padding2d",
    "replication_padding3d",
    "circular_padding1d",
    "circular_padding2d",
    "circular_padding3d",
    "cropping1d",
    "cropping2d",
    "cropping3d",
    "center_crop",
    # other sizes of space
    "upsampling1d",
    "upsampling2d",
    "upsampling3d",
    "upsample",
    "upsampling_nearest2d",
    "upsampling_bilinear2d",
    "resizing",
    "pixel_shuffle",
    "pixel_unshuffle",
    "channel_shuffle",
    "unfold",
    "fold",
    # preparing data
    "rescaling",
    "normalization",
    "category_encoding",
    "discretization",
    "string_lookup",
    "integer_lookup",
    "stft_spectrogram",
    "mel_spectrogram",
    # joining
    "add",
    "subtract",
    "multiply",
    "average",
    "maximum",
    "minimum",
    "concat",
    "concatenate",
    "dot",
    "cosine_similarity",
    "pairwise_distance",
    "bilinear",
    # layers of layers
    "fork",
    "parallel",
    "residual",
    "chain",
    "lambda_",
    # for authors
    "layer",
    "plain_layer",
    "weight",
    "initializers",
    "Layer",
    "Plain",
    "require_shape",
    # other libraries' names
    *aliases.__all__,
]

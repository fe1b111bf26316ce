"""The names under which users of Keras, torch and Owl look for layers called otherwise here.

Each is the same object, so that it takes the same settings. `max` and `slice`, Owl's, are
attributes of `neuralsym.layers` but not among what `import *` brings: they would hide Python's.
"""

from __future__ import annotations

from neuralsym.layers import (
    adaptive,
    combine,
    convolution_transpose,
    cropping,
    global_pool,
    merge,
    noise,
    normalise,
    padding,
    pool,
    rectifiers,
    resize,
    scale,
    sigmoids,
    wrappers,
)
from neuralsym.layers.attention import grouped_query_attention, multi_head_attention
from neuralsym.layers.recurrent import simple_rnn

# -- Keras ----------------------------------------------------------------------------------------
max_pooling1d = pool.max_pool1d
max_pooling2d = pool.max_pool2d
max_pooling3d = pool.max_pool3d
average_pooling1d = pool.avg_pool1d
average_pooling2d = pool.avg_pool2d
average_pooling3d = pool.avg_pool3d
global_max_pooling1d = global_pool.global_max_pool1d
global_max_pooling2d = global_pool.global_max_pool2d
global_max_pooling3d = global_pool.global_max_pool3d
global_average_pooling1d = global_pool.global_avg_pool1d
global_average_pooling2d = global_pool.global_avg_pool2d
global_average_pooling3d = global_pool.global_avg_pool3d
adaptive_max_pooling1d = adaptive.adaptive_max_pool1d
adaptive_max_pooling2d = adaptive.adaptive_max_pool2d
adaptive_max_pooling3d = adaptive.adaptive_max_pool3d
adaptive_average_pooling1d = adaptive.adaptive_avg_pool1d
adaptive_average_pooling2d = adaptive.adaptive_avg_pool2d
adaptive_average_pooling3d = adaptive.adaptive_avg_pool3d
up_sampling1d = resize.upsampling1d
up_sampling2d = resize.upsampling2d
up_sampling3d = resize.upsampling3d
conv1d_transpose = convolution_transpose.transpose_conv1d
conv2d_transpose = convolution_transpose.transpose_conv2d
conv3d_transpose = convolution_transpose.transpose_conv3d
batch_normalization = normalise.normalisation
layer_normalization = normalise.layer_norm
group_normalization = normalise.group_norm
rms_normalization = normalise.rms_norm
unit_normalization = scale.unit_norm
spectral_normalization = wrappers.spectral_norm
group_query_attention = grouped_query_attention

# -- torch ----------------------------------------------------------------------------------------
conv_transpose1d = convolution_transpose.transpose_conv1d
conv_transpose2d = convolution_transpose.transpose_conv2d
conv_transpose3d = convolution_transpose.transpose_conv3d
zero_pad1d = padding.zero_padding1d
zero_pad2d = padding.zero_padding2d
zero_pad3d = padding.zero_padding3d
constant_pad1d = padding.constant_padding1d
constant_pad2d = padding.constant_padding2d
constant_pad3d = padding.constant_padding3d
reflection_pad1d = padding.reflection_padding1d
reflection_pad2d = padding.reflection_padding2d
reflection_pad3d = padding.reflection_padding3d
replication_pad1d = padding.replication_padding1d
replication_pad2d = padding.replication_padding2d
replication_pad3d = padding.replication_padding3d
circular_pad1d = padding.circular_padding1d
circular_pad2d = padding.circular_padding2d
circular_pad3d = padding.circular_padding3d
dropout1d = noise.spatial_dropout1d
dropout2d = noise.spatial_dropout2d
dropout3d = noise.spatial_dropout3d
hardtanh = sigmoids.hard_tanh
hardsigmoid = sigmoids.hard_sigmoid
hardswish = sigmoids.hard_silu
logsigmoid = sigmoids.log_sigmoid
hardshrink = rectifiers.hard_shrink
softshrink = rectifiers.soft_shrink
tanhshrink = rectifiers.tanh_shrink
batch_norm1d = batch_norm2d = batch_norm3d = normalise.normalisation
instance_norm1d = instance_norm2d = instance_norm3d = normalise.instance_norm
multihead_attention = multi_head_attention

# -- Owl ------------------------------------------------------------------------------------------
padding1d = padding.zero_padding1d
padding2d = padding.zero_padding2d
padding3d = padding.zero_padding3d
recurrent = simple_rnn
lambda_array = combine.lambda_
mul = merge.multiply
max = max_ = merge.maximum
slice = cropping.slice_

__all__ = [
    "max_pooling1d",
    "max_pooling2d",
    "max_pooling3d",
    "average_pooling1d",
    "average_pooling2d",
    "average_pooling3d",
    "global_max_pooling1d",
    "global_max_pooling2d",
    "global_max_pooling3d",
    "global_average_pooling1d",
    "global_average_pooling2d",
    "global_average_pooling3d",
    "adaptive_max_pooling1d",
    "adaptive_max_pooling2d",
    "adaptive_max_pooling3d",
    "adaptive_average_pooling1d",
    "adaptive_average_pooling2d",
    "adaptive_average_pooling3d",
    "up_sampling1d",
    "up_sampling2d",
    "up_sampling3d",
    "conv1d_transpose",
    "conv2d_transpose",
    "conv3d_transpose",
    "batch_normalization",
    "layer_normalization",
    "group_normalization",
    "rms_normalization",
    "unit_normalization",
    "spectral_normalization",
    "group_query_attention",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "zero_pad1d",
    "zero_pad2d",
    "zero_pad3d",
    "constant_pad1d",
    "constant_pad2d",
    "constant_pad3d",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "circular_pad1d",
    "circular_pad2d",
    "circular_pad3d",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "hardtanh",
    "hardsigmoid",
    "hardswish",
    "logsigmoid",
    "hardshrink",
    "softshrink",
    "tanhshrink",
    "batch_norm1d",
    "batch_norm2d",
    "batch_norm3d",
    "instance_norm1d",
    "instance_norm2d",
    "instance_norm3d",
    "multihead_attention",
    "padding1d",
    "padding2d",
    "padding3d",
    "recurrent",
    "lambda_array",
    "mul",
    "max_",
]

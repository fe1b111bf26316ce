"""The names under which users of Keras, torch and Owl look for layers called otherwise here.

Each is the same object, so that it takes the same settings. `max` and `slice`, Owl's, are
attributes of `neuralsym.layers` but not among what `import *` brings: they would hide Python's.
"""

from __future__ import annotations

from neuralsym.layers.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from neuralsym.layers.attention import grouped_query_attention, multi_head_attention
from neuralsym.layers.combine import (
    lambda_,
)
from neuralsym.layers.convolution_transpose import (
    transpose_conv1d,
    transpose_conv2d,
    transpose_conv3d,
)
from neuralsym.layers.cropping import slice_
from neuralsym.layers.global_pool import (
    global_avg_pool1d,
    global_avg_pool2d,
    global_avg_pool3d,
    global_max_pool1d,
    global_max_pool2d,
    global_max_pool3d,
)
from neuralsym.layers.merge import maximum, multiply
from neuralsym.layers.noise import (
    spatial_dropout1d,
    spatial_dropout2d,
    spatial_dropout3d,
)
from neuralsym.layers.normalise import (
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
from neuralsym.layers.rectifiers import (
    hard_shrink,
    soft_shrink,
    tanh_shrink,
)
from neuralsym.layers.recurrent import simple_rnn
from neuralsym.layers.resize import (
    upsampling1d,
    upsampling2d,
    upsampling3d,
)
from neuralsym.layers.scale import unit_norm
from neuralsym.layers.sigmoids import (
    hard_sigmoid,
    hard_silu,
    hard_tanh,
    log_sigmoid,
)
from neuralsym.layers.wrappers import spectral_norm

# -- Keras ----------------------------------------------------------------------------------------
max_pooling1d = max_pool1d
max_pooling2d = max_pool2d
max_pooling3d = max_pool3d
average_pooling1d = avg_pool1d
average_pooling2d = avg_pool2d
average_pooling3d = avg_pool3d
global_max_pooling1d = global_max_pool1d
global_max_pooling2d = global_max_pool2d
global_max_pooling3d = global_max_pool3d
global_average_pooling1d = global_avg_pool1d
global_average_pooling2d = global_avg_pool2d
global_average_pooling3d = global_avg_pool3d
adaptive_max_pooling1d = adaptive_max_pool1d
adaptive_max_pooling2d = adaptive_max_pool2d
adaptive_max_pooling3d = adaptive_max_pool3d
adaptive_average_pooling1d = adaptive_avg_pool1d
adaptive_average_pooling2d = adaptive_avg_pool2d
adaptive_average_pooling3d = adaptive_avg_pool3d
up_sampling1d = upsampling1d
up_sampling2d = upsampling2d
up_sampling3d = upsampling3d
conv1d_transpose = transpose_conv1d
conv2d_transpose = transpose_conv2d
conv3d_transpose = transpose_conv3d
batch_normalization = normalisation
layer_normalization = layer_norm
group_normalization = group_norm
rms_normalization = rms_norm
unit_normalization = unit_norm
spectral_normalization = spectral_norm
group_query_attention = grouped_query_attention

# -- torch ----------------------------------------------------------------------------------------
conv_transpose1d = transpose_conv1d
conv_transpose2d = transpose_conv2d
conv_transpose3d = transpose_conv3d
zero_pad1d = zero_padding1d
zero_pad2d = zero_padding2d
zero_pad3d = zero_padding3d
constant_pad1d = constant_padding1d
constant_pad2d = constant_padding2d
constant_pad3d = constant_padding3d
reflection_pad1d = reflection_padding1d
reflection_pad2d = reflection_padding2d
reflection_pad3d = reflection_padding3d
replication_pad1d = replication_padding1d
replication_pad2d = replication_padding2d
replication_pad3d = replication_padding3d
circular_pad1d = circular_padding1d
circular_pad2d = circular_padding2d
circular_pad3d = circular_padding3d
dropout1d = spatial_dropout1d
dropout2d = spatial_dropout2d
dropout3d = spatial_dropout3d
hardtanh = hard_tanh
hardsigmoid = hard_sigmoid
hardswish = hard_silu
logsigmoid = log_sigmoid
hardshrink = hard_shrink
softshrink = soft_shrink
tanhshrink = tanh_shrink
batch_norm1d = batch_norm2d = batch_norm3d = normalisation
instance_norm1d = instance_norm2d = instance_norm3d = instance_norm
multihead_attention = multi_head_attention

# -- Owl ------------------------------------------------------------------------------------------
padding1d = zero_padding1d
padding2d = zero_padding2d
padding3d = zero_padding3d
recurrent = simple_rnn
lambda_array = lambda_
mul = multiply
max = max_ = maximum
slice = slice_

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

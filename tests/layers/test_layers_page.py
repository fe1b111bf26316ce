"""docs/layers.md says what the code says, and the layers that others have are all there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from neuralsym import layers as nn
from neuralsym.layers.factory import Factory
from neuralsym.layers.page import Row, facts, page, rows

PAGE = Path(__file__).resolve().parents[2] / "docs" / "layers.md"

KERAS = """
Activation ActivityRegularization AdaptiveAveragePooling1D AdaptiveAveragePooling2D
AdaptiveAveragePooling3D AdaptiveMaxPooling1D AdaptiveMaxPooling2D AdaptiveMaxPooling3D Add
AdditiveAttention AlphaDropout Attention Average AveragePooling1D AveragePooling2D AveragePooling3D
BatchNormalization Bidirectional CategoryEncoding CenterCrop Concatenate Conv1D Conv1DTranspose
Conv2D Conv2DTranspose Conv3D Conv3DTranspose ConvLSTM1D ConvLSTM2D ConvLSTM3D Cropping1D Cropping2D
Cropping3D Dense DepthwiseConv1D DepthwiseConv2D Discretization Dot Dropout ELU EinsumDense
Embedding Flatten GRU GRUCell GaussianDropout GaussianNoise GlobalAveragePooling1D
GlobalAveragePooling2D GlobalAveragePooling3D GlobalMaxPooling1D GlobalMaxPooling2D
GlobalMaxPooling3D GroupNormalization GroupQueryAttention Identity IntegerLookup LSTM LSTMCell
Lambda LayerNormalization LeakyReLU Masking MaxPooling1D MaxPooling2D MaxPooling3D Maximum
MelSpectrogram Minimum MultiHeadAttention Multiply Normalization PReLU Permute RMSNormalization RNN
ReLU RepeatVector Rescaling Reshape Resizing ReversibleEmbedding STFTSpectrogram SeparableConv1D
SeparableConv2D SimpleRNN SimpleRNNCell Softmax SpatialDropout1D SpatialDropout2D SpatialDropout3D
SpectralNormalization StackedRNNCells StringLookup Subtract TimeDistributed UnitNormalization
UpSampling1D UpSampling2D UpSampling3D ZeroPadding1D ZeroPadding2D ZeroPadding3D
"""
"""keras.layers, without augmentation, containers and what ONNX cannot hold."""

TORCH = """
Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Unfold Fold MaxPool1d MaxPool2d
MaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d AdaptiveAvgPool1d
AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d
MaxUnpool1d MaxUnpool2d MaxUnpool3d ZeroPad1d ZeroPad2d ZeroPad3d ConstantPad1d ConstantPad2d
ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d
ReplicationPad3d CircularPad1d CircularPad2d CircularPad3d BatchNorm1d SyncBatchNorm InstanceNorm1d
LayerNorm GroupNorm RMSNorm LocalResponseNorm ReLU LeakyReLU PReLU ELU SELU CELU GELU Sigmoid Tanh
Softplus Softsign Softmax LogSoftmax Hardsigmoid Hardswish Mish SiLU Hardshrink Softshrink Identity
ReLU6 Hardtanh LogSigmoid Tanhshrink Softmin GLU Threshold RReLU Linear Bilinear RNN LSTM GRU
RNNCell LSTMCell GRUCell MultiheadAttention Transformer TransformerEncoderLayer
TransformerDecoderLayer
Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout Embedding EmbeddingBag
Flatten Unflatten PixelShuffle PixelUnshuffle ChannelShuffle Upsample UpsamplingNearest2d
UpsamplingBilinear2d CosineSimilarity PairwiseDistance Sequential
"""
"""torch.nn, without losses, containers and what draws at random."""

OWL = """
activation linear embedding recurrent lstm gru conv1d conv2d conv3d dilated_conv1d dilated_conv2d
dilated_conv3d transpose_conv1d transpose_conv2d transpose_conv3d fully_connected max_pool1d
max_pool2d avg_pool1d avg_pool2d global_max_pool1d global_max_pool2d global_avg_pool1d
global_avg_pool2d upsampling2d padding2d dropout gaussian_noise gaussian_dropout alpha_dropout
normalisation reshape flatten slice lambda lambda_array add mul dot max average concatenate
"""


@pytest.fixture(scope="module")
def found() -> list[Row]:
    return rows()


def test_the_page_is_what_the_code_says() -> None:
    again = "run `python -m neuralsym.layers.page docs/layers.md`"
    assert PAGE.read_text("utf-8") == page(), again


def test_every_layer_is_there(found: list[Row]) -> None:
    told = {name for row in found for name in row.names}
    layers = {n for n in nn.__all__ if isinstance(getattr(nn, n), Factory)} - {"get_network"}
    assert layers <= told, "the last paragraph of its docstring is no list of what others call it"
    assert all("ONNX" in row.known_as for row in found)


@pytest.mark.parametrize(("tool", "names"), [("Keras", KERAS), ("torch", TORCH), ("Owl", OWL)])
def test_what_others_have_is_there(found: list[Row], tool: str, names: str) -> None:
    told = " ".join(row.known_as.get(tool, "") for row in found)
    words = set(re.findall(r"\w+", _written_out(told)))
    assert [n for n in names.split() if n not in words] == []


def _written_out(text: str) -> str:
    """ "Dropout1d to 3d" as the three names."""

    def every(match: re.Match[str]) -> str:
        stem, first, last = match[1], int(match[2]), int(match[4])
        return " ".join(f"{stem}{i}{match[3]}" for i in range(first, last + 1))

    return re.sub(r"(\w+?)(\d)([dD])? to (\d)[dD]", every, text)


def test_reading_of_facts() -> None:
    assert facts("A layer.\n\nKeras Dense; torch Linear (transposed);\nONNX Gemm, or MatMul.") == {
        "Keras": "Dense",
        "torch": "Linear (transposed)",
        "ONNX": "Gemm, or MatMul",
    }
    assert facts("A layer.\n\nIt says nothing.") == {}

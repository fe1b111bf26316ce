"""A residual block and an inception block: plain functions, layers of one's own, and `fork`."""

import numpy as np

from neuralsym import Symbol
from neuralsym.layers import (
    avg_pool2d,
    batch_norm,
    chain,
    concat,
    conv2d,
    fork,
    fully_connected,
    get_network,
    global_avg_pool2d,
    input,
    layer,
    relu,
)
from neuralsym.testing import assert_matches


@layer
def conv_bn(x: Symbol, filters: int, kernel: int, strides: int = 1) -> Symbol:
    """A convolution with its batch norm: `x | conv_bn(64, 3)`; its weights are scoped."""
    return x | conv2d(filters, kernel, strides=strides, use_bias=False) | batch_norm()


def residual_block(x: Symbol, filters: int, strides: int = 1) -> Symbol:
    """A plain function is a block too; + binds tighter than |, so the sum needs no parentheses."""
    y = x | conv_bn(filters, 3, strides) | relu | conv_bn(filters, 3)
    shortcut = x if strides == 1 else x | conv_bn(filters, 1, strides)
    return y + shortcut | relu


@layer
def inception_block(x: Symbol, pool: int) -> Symbol:
    """Branches of one input, joined along the channels."""
    return (
        x
        | fork(
            conv_bn(32, 1),
            conv_bn(24, 1) | conv_bn(32, 5),
            conv_bn(32, 1) | conv_bn(48, 3) | conv_bn(48, 3),
            chain(avg_pool2d(3, 1, "same"), conv_bn(pool, 1)),
        )
        | concat(axis=1)
    )


def main() -> None:
    x = input(("N", 3, 32, 32)) | conv_bn(32, 3) | relu
    x = residual_block(x, 32)
    x = residual_block(x, 64, strides=2)
    network = (
        x
        | inception_block(16)
        | inception_block(32)
        | relu
        | global_avg_pool2d()
        | fully_connected(10)
        | get_network("blocks")
    )
    network.summary()
    images = np.random.default_rng(0).random((2, 3, 32, 32), dtype=np.float32)
    print(network(images))
    assert_matches(network, images, reference="onnx")


if __name__ == "__main__":
    main()

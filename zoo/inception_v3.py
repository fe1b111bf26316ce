"""InceptionV3: Rethinking the Inception Architecture (Szegedy et al. 2015, arXiv 1512.00567).

Blocks are named by the paper's figures, with torchvision's letters. Keras's form has no gamma in
its batch norms and does not count the border of its average pools.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

from neuralsym.core.symbol import Symbol
from neuralsym.layers import avg_pool2d, chain, concat, fork, max_pool2d, relu, scope
from neuralsym.layers.base import Layer
from neuralsym.layers.weights import Init
from neuralsym.layers.window import Padding
from neuralsym.network import Network
from neuralsym.zoo.blocks import conv_bn, pooled_head
from neuralsym.zoo.preprocess import Preprocessing
from neuralsym.zoo.registry import Make, Options, assemble, register

PAPER = "arXiv 1512.00567"
Flow = Layer[Symbol, Symbol]


@dataclass(frozen=True)
class Style:
    """Where torchvision and Keras differ, and the parts that blocks are built of."""

    gamma: bool
    count_border: bool
    kernel: Init
    dense: Init

    def conv(
        self,
        filters: int,
        kernel: int | tuple[int, int],
        strides: int = 1,
        padding: Padding = "same",
    ) -> Flow:
        """A convolution without bias, batch norm, ReLU."""
        return conv_bn(
            filters,
            kernel,
            strides,
            padding,
            activation=relu,
            epsilon=1e-3,
            scale=self.gamma,
            kernel_initializer=self.kernel,
        )

    def pool(self, filters: int) -> Flow:
        """A 3x3 average, then 1x1."""
        average = avg_pool2d(3, 1, "same", count_include_pad=self.count_border)
        return chain(average, self.conv(filters, 1))


TORCHVISION = Style(True, True, "he_normal", "standard")
# Keras begins with glorot_uniform, under which an untrained network of this depth loses its input:
# every ReLU takes half of the variance and batch norm, without statistics, gives none back.
KERAS = Style(False, False, "he_normal", "glorot_uniform")


def inception_a(s: Style, pool: int) -> Flow:
    """Figure 5: 5x5 as two 3x3."""
    return chain(
        fork(
            s.conv(64, 1),
            s.conv(48, 1) | s.conv(64, 5),
            s.conv(64, 1) | s.conv(96, 3) | s.conv(96, 3),
            s.pool(pool),
        ),
        concat(),
    )


def inception_b(s: Style) -> Flow:
    """Figure 10: 35x35 to 17x17."""
    return chain(
        fork(
            s.conv(384, 3, 2, "valid"),
            s.conv(64, 1) | s.conv(96, 3) | s.conv(96, 3, 2, "valid"),
            max_pool2d(3, 2),
        ),
        concat(),
    )


def inception_c(s: Style, n: int) -> Flow:
    """Figure 6: 7x7 as 1x7 and 7x1."""
    return chain(
        fork(
            s.conv(192, 1),
            s.conv(n, 1) | s.conv(n, (1, 7)) | s.conv(192, (7, 1)),
            s.conv(n, 1)
            | s.conv(n, (7, 1))
            | s.conv(n, (1, 7))
            | s.conv(n, (7, 1))
            | s.conv(192, (1, 7)),
            s.pool(192),
        ),
        concat(),
    )


def inception_d(s: Style) -> Flow:
    """17x17 to 8x8."""
    return chain(
        fork(
            s.conv(192, 1) | s.conv(320, 3, 2, "valid"),
            s.conv(192, 1) | s.conv(192, (1, 7)) | s.conv(192, (7, 1)) | s.conv(192, 3, 2, "valid"),
            max_pool2d(3, 2),
        ),
        concat(),
    )


def inception_e(s: Style) -> Flow:
    """Figure 7: 3x3 as 1x3 beside 3x1."""

    def spread() -> Flow:
        return chain(fork(s.conv(384, (1, 3)), s.conv(384, (3, 1))), concat())

    return chain(
        fork(
            s.conv(320, 1),
            s.conv(384, 1) | spread(),
            s.conv(448, 1) | s.conv(384, 3) | spread(),
            s.pool(192),
        ),
        concat(),
    )


def _blocks(s: Style) -> dict[str, Flow]:
    """The blocks in order, by torchvision's names."""
    return {
        "mixed_5b": inception_a(s, 32),
        "mixed_5c": inception_a(s, 64),
        "mixed_5d": inception_a(s, 64),
        "mixed_6a": inception_b(s),
        "mixed_6b": inception_c(s, 128),
        "mixed_6c": inception_c(s, 160),
        "mixed_6d": inception_c(s, 160),
        "mixed_6e": inception_c(s, 192),
        "mixed_7a": inception_d(s),
        "mixed_7b": inception_e(s),
        "mixed_7c": inception_e(s),
    }


def inception(name: str, s: Style, options: Options) -> Network:
    """Stem, eleven blocks, and one affine map; the auxiliary head exists in training only."""

    def features(x: Symbol) -> Symbol:
        with scope("stem"):
            x = x | s.conv(32, 3, 2, "valid") | s.conv(32, 3, 1, "valid") | s.conv(64, 3)
            x = x | max_pool2d(3, 2) | s.conv(80, 1, 1, "valid") | s.conv(192, 3, 1, "valid")
            x = x | max_pool2d(3, 2)
        for block, flow in _blocks(s).items():
            with scope(block):
                x = x | flow
        return x

    return assemble(name, features, pooled_head(s.dense, rate=0.5), **options)


def _enter(
    name: str, source: str, accuracy: str, preprocessing: Preprocessing
) -> Callable[[Make], Make]:
    return register(
        name,
        size=(3, 299, 299),
        preprocessing=preprocessing,
        paper=PAPER,
        source=source,
        accuracy=accuracy,
    )


# torchvision scales as "torch" does; its trained network then takes that back, to -1..1.
@_enter("inception_v3", "torchvision", "77.294 / 93.45", Preprocessing("tf", 342, (299, 299)))
def inception_v3(**options: Unpack[Options]) -> Network:
    """InceptionV3 as torchvision has it, without the auxiliary head."""
    return inception("inception_v3", TORCHVISION, options)


@_enter("inception_v3_keras", "Keras", "77.9 / 93.7", Preprocessing("tf", 299, (299, 299)))
def inception_v3_keras(**options: Unpack[Options]) -> Network:
    """InceptionV3 as Keras has it."""
    return inception("inception_v3_keras", KERAS, options)

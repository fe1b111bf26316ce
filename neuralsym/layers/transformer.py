"""Transformer blocks: attention and a two-layer map, each with a skip and a normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.activation import Activation
from neuralsym.layers.attention import multi_head_attention
from neuralsym.layers.base import require_between, require_shape
from neuralsym.layers.dense import linear
from neuralsym.layers.factory import layer
from neuralsym.layers.noise import check_rates
from neuralsym.layers.normalise import layer_norm
from neuralsym.layers.window import LARGEST_STACK


@dataclass(frozen=True, eq=False)
class _Block:
    """The parts of a block for x, and the order of norm and skip."""

    x: Symbol
    num_heads: int
    intermediate_dim: int
    activation: Activation
    norm_first: bool
    epsilon: float
    use_bias: bool

    def __post_init__(self) -> None:
        if self.num_heads < 1 or self.features % self.num_heads:
            raise BadAttribute(
                f"num_heads={self.num_heads}: must divide the features of {self.x.type}"
            )

    @property
    def features(self) -> int:
        return int(require_shape(self.x, rank=3, axis=2)[2])

    def around(self, x: Symbol, part: Callable[[Symbol], Symbol], norm: str) -> Symbol:
        made = layer_norm(epsilon=self.epsilon, center=self.use_bias, name=norm)
        if self.norm_first:
            return x + part(made(x))
        return made(x + part(x))

    def attention(
        self,
        x: Symbol,
        memory: Symbol | None,
        name: str,
        mask: Symbol | None,
        places: Symbol | None,
        causal: bool,
    ) -> Symbol:
        size = self.features // self.num_heads
        y = multi_head_attention(
            self.num_heads,
            size,
            use_bias=self.use_bias,
            attention_mask=mask,
            value_mask=places,
            use_causal_mask=causal,
            name=name,
        )(x if memory is None else (x, memory))
        assert isinstance(y, Symbol)
        return y

    def feed_forward(self, x: Symbol) -> Symbol:
        first = linear(
            self.intermediate_dim,
            activation=self.activation,
            use_bias=self.use_bias,
            name="linear1",
        )
        return linear(self.features, use_bias=self.use_bias, name="linear2")(first(x))


@layer
def transformer_encoder_layer(
    x: Symbol,
    num_heads: int,
    intermediate_dim: int = 2048,
    *,
    activation: Activation = "relu",
    norm_first: bool = False,
    epsilon: float = 1e-5,
    use_bias: bool = True,
    attention_mask: Symbol | None = None,
    mask: Symbol | None = None,
    use_causal_mask: bool = False,
    dropout: float = 0.0,
    name: str | None = None,
) -> Symbol:
    """Self-attention, then a two-layer map, each with a skip and a norm: [N, T, F] -> same.

    norm_first: the norm before each part and not behind its skip. attention_mask as in
    multi_head_attention; mask bool [N, T]: the steps that count (torch's src_key_padding_mask says
    those that do not). Parts: self_attention, linear1, linear2, norm1, norm2. Defaults are torch's.

    torch TransformerEncoderLayer (batch_first); ONNX Attention, MatMul and LayerNormalization.
    """
    check_rates(dropout=dropout)
    block = _Block(x, num_heads, intermediate_dim, activation, norm_first, epsilon, use_bias)

    def attend(y: Symbol) -> Symbol:
        name = "self_attention"
        return block.attention(y, None, name, attention_mask, mask, use_causal_mask)

    x = block.around(x, attend, "norm1")
    return block.around(x, block.feed_forward, "norm2")


@layer
def transformer_decoder_layer(
    xs: Sequence[Symbol],
    num_heads: int,
    intermediate_dim: int = 2048,
    *,
    activation: Activation = "relu",
    norm_first: bool = False,
    epsilon: float = 1e-5,
    use_bias: bool = True,
    attention_mask: Symbol | None = None,
    mask: Symbol | None = None,
    memory_attention_mask: Symbol | None = None,
    memory_mask: Symbol | None = None,
    use_causal_mask: bool = True,
    dropout: float = 0.0,
    name: str | None = None,
) -> Symbol:
    """Self-attention, attention to a memory, then a two-layer map: (x, memory) -> as x.

    x [N, T, F], memory [N, S, G]. As transformer_encoder_layer; the parts are self_attention,
    cross_attention, linear1, linear2 and norm1 to norm3. use_causal_mask is on, as decoders need
    it (torch asks for a mask).

    torch TransformerDecoderLayer (batch_first); ONNX Attention, MatMul and LayerNormalization.
    """
    check_rates(dropout=dropout)
    if len(xs) != 2:
        raise BadAttribute(f"takes (x, memory), {len(xs)} symbols came")
    x, memory = xs
    block = _Block(x, num_heads, intermediate_dim, activation, norm_first, epsilon, use_bias)

    def attend(y: Symbol) -> Symbol:
        name = "self_attention"
        return block.attention(y, None, name, attention_mask, mask, use_causal_mask)

    def look(y: Symbol) -> Symbol:
        name = "cross_attention"
        return block.attention(y, memory, name, memory_attention_mask, memory_mask, False)

    x = block.around(x, attend, "norm1")
    x = block.around(x, look, "norm2")
    return block.around(x, block.feed_forward, "norm3")


@layer
def transformer(
    xs: Sequence[Symbol],
    num_heads: int = 8,
    intermediate_dim: int = 2048,
    *,
    num_encoder_layers: int = 6,
    num_decoder_layers: int = 6,
    activation: Activation = "relu",
    norm_first: bool = False,
    epsilon: float = 1e-5,
    use_bias: bool = True,
    mask: Symbol | None = None,
    target_mask: Symbol | None = None,
    use_causal_mask: bool = True,
    dropout: float = 0.0,
    name: str | None = None,
) -> Symbol:
    """Encoder and decoder of the paper: (source [N, S, F], target [N, T, F]) -> as target.

    encoder_0 ..., encoder_norm, decoder_0 ..., decoder_norm: layers as above, a norm behind each
    stack. mask bool [N, S] and target_mask bool [N, T]: the steps that count.

    torch Transformer (batch_first); ONNX Attention, MatMul and LayerNormalization.
    """
    check_rates(dropout=dropout)
    if len(xs) != 2:
        raise BadAttribute(f"takes (source, target), {len(xs)} symbols came")
    require_between("num_encoder_layers", num_encoder_layers, 0, LARGEST_STACK)
    require_between("num_decoder_layers", num_decoder_layers, 0, LARGEST_STACK)
    memory, y = xs
    for i in range(num_encoder_layers):
        memory = transformer_encoder_layer(
            num_heads,
            intermediate_dim,
            activation=activation,
            norm_first=norm_first,
            epsilon=epsilon,
            use_bias=use_bias,
            mask=mask,
            name=f"encoder_{i}",
        )(memory)
    memory = layer_norm(epsilon=epsilon, center=use_bias, name="encoder_norm")(memory)
    for i in range(num_decoder_layers):
        y = transformer_decoder_layer(
            num_heads,
            intermediate_dim,
            activation=activation,
            norm_first=norm_first,
            epsilon=epsilon,
            use_bias=use_bias,
            mask=target_mask,
            memory_mask=mask,
            use_causal_mask=use_causal_mask,
            name=f"decoder_{i}",
        )((y, memory))
    return layer_norm(epsilon=epsilon, center=use_bias, name="decoder_norm")(y)

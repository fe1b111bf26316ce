"""Text by characters, as Owl's example learns it: which character follows a hundred others."""

from __future__ import annotations

from typing import Unpack

from neuralsym.core.symbol import Symbol
from neuralsym.layers import dense, embedding, lstm, relu
from neuralsym.network import Network
from neuralsym.zoo.registry import Options, assemble, register


@register(
    "lstm_text",
    size=(100,),
    classes=128,
    preprocessing=None,
    source="Owl",
    labels="",
    input="tokens",
    dtype="int64",
)
def lstm_text(**options: Unpack[Options]) -> Network:
    """Vectors of 40 for characters, an LSTM of 128, 512 hidden units; 223,360 parameters.

    The input is the numbers of characters, below `classes`: 128 of them as ASCII counts them, for
    which a text's own alphabet can be given. The answer is what character follows.
    """
    classes = options.get("classes", 128)

    def features(x: Symbol) -> Symbol:
        last = x | embedding(classes, 40, name="embedding") | lstm(128, name="lstm")
        assert isinstance(last, Symbol)  # states were not asked for
        return last

    def head(x: Symbol, count: int) -> Symbol:
        return x | dense(512, name="hidden") | relu | dense(count, name="next")

    return assemble("lstm_text", features, head, **options)

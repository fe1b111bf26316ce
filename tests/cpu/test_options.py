"""Options: what they refuse, how they are changed, that they travel."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from neuralsym.cpu.options import Options
from neuralsym.errors import BadAttribute


def test_overrides_and_round_trip() -> None:
    made = Options.of(None, threads=2, isa="avx2")
    assert (made.threads, made.isa, made.winograd) == (2, "avx2", True)
    assert Options.of(made, winograd=False) == Options(threads=2, isa="avx2", winograd=False)
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(Options(threads=2, isa="avx2"))


def test_values_are_made_plain() -> None:
    made = Options(threads=np.int64(3), cache_dir=Path("/somewhere"))  # type: ignore[arg-type]
    assert type(made.threads) is int
    assert made.cache_dir == "/somewhere"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("threads", 0, "1 to 4096"),
        ("threads", 10**9, "1 to 4096"),
        ("threads", True, "integer"),
        ("threads", 1.5, "integer"),
        ("isa", "avx51", "did you mean 'avx512'"),
        ("winograd", 1, "True or False"),
        ("profile", None, "True or False"),
        ("cache_dir", 3, "path"),
        ("thread", 1, "did you mean 'threads'"),
    ],
)
def test_refusals(field: str, value: object, said: str) -> None:
    with pytest.raises(BadAttribute, match=said):
        Options.of(None, **{field: value})


def test_options_must_be_options() -> None:
    with pytest.raises(BadAttribute, match="must be an Options"):
        Options.of({"threads": 1})  # type: ignore[arg-type]

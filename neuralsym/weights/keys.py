"""Keys of weights files looked up: prefixes of wrappers, variables of Keras that are numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from neuralsym.weights.names import Framework

_PREFIXES = ("module.", "model.", "backbone.", "_orig_mod.", "network.", "net.")
"""What wrappers of torch put before the keys of the module in them."""

_COUNTERS = ("*num_batches_tracked",)
"""Keys that say nothing about a network at inference."""

_ORDER = (
    "kernel",
    "depthwise_kernel",
    "pointwise_kernel",
    "recurrent_kernel",
    "embeddings",
    "alpha",
    "bias",
    "gamma",
    "beta",
    "moving_mean",
    "moving_variance",
    "mean",
    "variance",
    "count",
)
"""In what order a layer of Keras 3 numbers its variables."""

_ALIASES = {"kernel": "depthwise_kernel", "depthwise_kernel": "kernel"}
"""Keras 3 calls the kernel of DepthwiseConv2D otherwise than Keras 2."""


@dataclass(frozen=True)
class Index:
    """What the keys of a file are in the spelling of a scheme.

    found: a key of the file for each spelled one. spelled: the other way round.
    """

    found: Mapping[str, str]
    spelled: Mapping[str, str]

    def find(self, key: str) -> str | None:
        return self.found.get(key)

    def is_ignored(self, key: str, patterns: Sequence[str]) -> bool:
        name = self.spelled.get(key, key)
        return any(fnmatchcase(name, p) for p in (*patterns, *_COUNTERS))


def index_of(
    framework: Framework | None,
    keys: Iterable[str],
    wanted: Iterable[str],
    ignored: Iterable[str] = (),
) -> Index:
    """The keys of a file as a scheme of that framework spells them.

    wanted, ignored: the scheme's keys, those included that have no place in the network.
    """
    known = dict.fromkeys(wanted)
    if framework == "torch":
        spelled = {key: key if key in known else _stripped(key) for key in keys}
    elif framework == "keras":
        spelled = _keras(list(keys), [*known, *(k for k in ignored if "*" not in k)])
    else:
        spelled = {key: key for key in keys}
    found: dict[str, str] = {}
    for key, name in spelled.items():
        if name == key or name not in spelled:
            found.setdefault(name, key)
    return Index(found, spelled)


def _stripped(key: str) -> str:
    while True:
        prefix = next((p for p in _PREFIXES if key.startswith(p)), None)
        if prefix is None:
            return key
        key = key.removeprefix(prefix)


# -- Keras ---------------------------------------------------------------------------------
def _keras(keys: list[str], wanted: list[str]) -> dict[str, str]:
    """Each key as the scheme spells it: `resnet50/conv1_conv/kernel:0`, `conv1_conv/0`."""
    known = _layers({key: key for key in wanted})
    given = _layers({key: re.sub(r":\d+$", "", key) for key in keys})
    first = _first_numbers(given, known)
    spelled: dict[str, str] = {}
    for layer, variables in given.items():
        parts = _without_cell(_renumbered(layer, first)).split("/")
        name = "/".join(parts)
        # What a model is nested in comes before its layers' names.
        name = next((p for i in range(len(parts)) if (p := "/".join(parts[i:])) in known), name)
        words = _variables(list(variables), list(known.get(name, {})))
        for (_, key), word in zip(variables.items(), words, strict=True):
            spelled[key] = f"{name}/{word}" if name else word
    return spelled


def _layers(keys: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The variables of each layer, and the key of each."""
    found: dict[str, dict[str, str]] = {}
    for key, clean in keys.items():
        layer, _, variable = clean.rpartition("/")
        found.setdefault(layer, {})[variable] = key
    return found


def _variables(given: list[str], known: list[str]) -> list[str]:
    """The names of a layer's variables, which may be numbers in the file."""
    if len(given) == len(known) == 1 and _UNNAMED.fullmatch(given[0]):
        return known
    if not all(v.isdigit() for v in given):
        return [v if v in known else _alias(v, known) for v in given]
    expected = sorted(known, key=lambda v: _ORDER.index(v) if v in _ORDER else len(_ORDER))
    # A kernel comes first, with or without a bias; statistics cannot be told without a part.
    if len(given) == len(expected) or set(expected) <= {"kernel", "depthwise_kernel", "bias"}:
        named = dict(zip(sorted(given, key=int), expected, strict=False))
        return [named.get(v, v) for v in given]
    return given


def _alias(variable: str, known: list[str]) -> str:
    other = _ALIASES.get(variable, variable)
    return other if other in known else variable


_UNNAMED = re.compile(r"variable(_\d+)?|\d+")
"""What Keras calls a variable that was given no name."""

_CELL = re.compile(r"(lstm|gru|simple_rnn)_cell(_\d+)?")

_NUMBERED = re.compile(r"(.*?)(?:_(\d+))?")


def _without_cell(layer: str) -> str:
    """A recurrent layer itself, or one of its directions, in the place of its cell."""
    outer, _, last = layer.rpartition("/")
    if not outer or not _CELL.fullmatch(last):
        return layer
    return re.sub(r"/(forward|backward)_[^/]*$", r"/\1", outer)


def _split(name: str) -> tuple[str, int]:
    match = _NUMBERED.fullmatch(name)
    assert match is not None
    return match[1], int(match[2] or 0)


def _first_numbers(given: Iterable[str], known: Iterable[str]) -> dict[str, int]:
    """Where the automatic names of the file begin to count: a second model's do not at 0."""
    automatic = {layer for layer in known if _split(layer) == (layer, 0)}
    first: dict[str, int] = {}
    for layer in given:
        word, number = _split(layer.rpartition("/")[2])
        if word in automatic:
            first[word] = min(number, first.get(word, number))
    return first


def _renumbered(layer: str, first: Mapping[str, int]) -> str:
    outer, slash, name = layer.rpartition("/")
    word, number = _split(name)
    if not first.get(word):
        return layer
    number -= first[word]
    return outer + slash + (f"{word}_{number}" if number else word)

"""Keys of weights files looked up: prefixes of wrappers stripped, variables of Keras by number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from neuralsym.weights.names import Framework

_PREFIXES = ("module.", "model.", "backbone.", "_orig_mod.", "network.", "net.")
"""What wrappers of torch put before the keys of the module in them."""

_COUNTERS = ("*num_batches_tracked",)
"""Keys that say nothing about a network at inference."""


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


def index_of(framework: Framework | None, keys: Iterable[str], wanted: Iterable[str]) -> Index:
    """The keys of a file as a scheme of that framework spells them; `wanted` are the scheme's."""
    wanted = dict.fromkeys(wanted)
    keys = list(keys)
    if framework == "torch":
        spelled = {key: key if key in wanted else _stripped(key) for key in keys}
    elif framework == "keras":
        spelled = {key: key for key in keys}
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

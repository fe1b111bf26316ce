"""Weights of a file matched with those of a network: by which names, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType
from neuralsym.errors import FormatError, WeightsError, counted, did_you_mean
from neuralsym.weights.formats import Stored
from neuralsym.weights.keys import index_of
from neuralsym.weights.layouts import Shape, arrange, use_of
from neuralsym.weights.names import Framework, Keys, Scheme, Shapes, Source, paths
from neuralsym.weights.schemes import of_family

Array = NDArray[Any]
Names = Mapping[str, "str | Source"] | Callable[[str, Shapes], Keys]
"""What `load_weights(names=...)` takes: where our weights are, or a key function."""

OWN = "own"
_SHOWN = 20
_MOST_COMBINED = 64
"""How many times larger than a weight the arrays may be that it is made of."""


@dataclass(frozen=True)
class Loaded:
    """What `load_weights` did.

    scheme: whose names the weights had: "own", "torchvision", "timm", "keras", or "torch" where
    layers are called as ours and only their parameters are spelled otherwise. loaded: the weights
    of the network that were set. missing: those that were not given. unexpected: keys with no
    place in the network. mismatched: weights that have another shape, and how.
    """

    scheme: str
    loaded: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()

    @property
    def left_out(self) -> bool:
        """Whether anything was missing, unexpected or of another shape."""
        return bool(self.missing or self.unexpected or self.mismatched)

    def __str__(self) -> str:
        left = [
            counted(len(names), "weight") + f" {what}: {_some(names)}"
            for what, names in (("missing", self.missing), ("of another shape", self.mismatched))
            if names
        ]
        if self.unexpected:
            left.append(f"{counted(len(self.unexpected), 'key')} unused: {_some(self.unexpected)}")
        head = f"{counted(len(self.loaded), 'weight')} loaded by {self.scheme} names"
        return "; ".join([head, *left])


@dataclass(frozen=True)
class _Match:
    """One scheme tried: what each weight of ours would be made of."""

    scheme: str
    framework: Framework | None
    found: dict[str, tuple[Source, tuple[str, ...]]]
    missing: dict[str, str]
    """Weights of ours, and the key that is not there; "" where the scheme has none for them."""
    unexpected: tuple[str, ...]

    @property
    def score(self) -> tuple[int, int]:
        held = sum(bool(keys) for _, keys in self.found.values())
        return held, -len(self.unexpected)


def match_weights(
    graph: Graph,
    architecture: str,
    stored: Stored,
    *,
    strict: bool = True,
    scheme: str | None = None,
    names: Names | None = None,
) -> tuple[dict[str, Tensor], Loaded]:
    """New tensors for the weights of a graph, by name, and what was found.

    scheme: whose names `stored` has; the one that fits best otherwise. names: where weights are,
    over what the scheme says. strict: nothing may be missing, unexpected or of another shape.
    Raises WeightsError that lists all that does not fit, and always where nothing fits.
    """
    symbols = {graph.names[s.node]: s for s in graph.weights}
    shapes: dict[str, Shape] = {n: s.attrs["value"].shape for n, s in symbols.items()}
    best = _best(architecture, shapes, stored, scheme, names)
    tensors: dict[str, Tensor] = {}
    wrong: dict[str, str] = {}
    for name, (source, keys) in best.found.items():
        refused = next((stored.refused[k] for k in keys if k in stored.refused), None)
        try:
            made = refused or _made(graph, symbols[name], source, keys, stored, best.framework)
        except FormatError as error:  # found when the numbers are read
            raise WeightsError(f"{stored.label}: {error}") from None
        if isinstance(made, Tensor):
            tensors[name] = made
        else:
            wrong[name] = f"{name!r} {made}"
    report = Loaded(best.scheme, tuple(tensors), tuple(best.missing), best.unexpected, tuple(wrong))
    if (strict and (best.missing or best.unexpected or wrong)) or (shapes and not tensors):
        raise WeightsError(_refusal(architecture, shapes, stored, best, wrong, strict))
    return tensors, report


# -- which names ---------------------------------------------------------------------------
def _best(
    architecture: str,
    shapes: Shapes,
    stored: Stored,
    scheme: str | None,
    names: Names | None,
) -> _Match:
    """The scheme that finds the most; the first of those that find as many."""
    candidates = [
        _own(),
        *_general(),
        *(s for s in of_family(architecture) if s.fits(architecture)),
    ]
    if stored.framework == "keras":
        candidates = [c for c in candidates if c.name == "keras"]
    if scheme is not None:
        chosen = [c for c in candidates if c.name == scheme]
        if not chosen:
            known = ", ".join(dict.fromkeys(repr(c.name) for c in candidates))
            raise WeightsError(
                f"there is no scheme {scheme!r} for {architecture!r}; it has {known}"
            )
        candidates = chosen
    elif names is not None and stored.framework is not None:
        candidates = [c for c in candidates if c.name != OWN]
    tried = [_tried(c, architecture, shapes, stored, names) for c in candidates]
    return max(tried, key=lambda m: m.score)


def _own() -> Scheme:
    return Scheme(OWN, "*", lambda _, shapes: {name: name for name in shapes})


def _general() -> tuple[Scheme, ...]:
    """For any network: its layers are called as there, parameters as the framework has them."""
    return (
        Scheme("torch", "*", paths("torch", {"{path:.+}": "{path}"})),
        Scheme("keras", "*", paths("keras", {"{path:.+}": "{path}"})),
    )


def _tried(
    scheme: Scheme, architecture: str, shapes: Shapes, stored: Stored, names: Names | None
) -> _Match:
    wanted = dict(scheme.keys(architecture, shapes))
    if names is not None:
        given = names(architecture, shapes) if callable(names) else names
        if not isinstance(given, Mapping):
            raise WeightsError(f"names is a dict of keys by our names, not {type(given).__name__}")
        for name, key in given.items():
            if not isinstance(key, (str, Source)):
                raise WeightsError(f"names: {name!r} is found by a key or a Source, not by {key!r}")
            if name not in shapes:
                raise WeightsError(
                    f"names: the network has no weight {name!r}{did_you_mean(name, shapes)}"
                )
        wanted.update(given)
    sources = {n: s if isinstance(s, Source) else Source((s,)) for n, s in wanted.items()}
    framework = None if scheme.name == OWN else scheme.framework
    listed = [*stored.tensors, *stored.refused]
    keys_of_scheme = [key for source in sources.values() for key in source.keys]
    index = index_of(framework, listed, keys_of_scheme, scheme.ignored)
    found: dict[str, tuple[Source, tuple[str, ...]]] = {}
    missing = {n: "" for n in shapes if n not in sources}
    used: set[str] = set()
    for name in shapes:
        source = sources.get(name)
        if source is None:
            continue
        keys = [index.find(key) for key in source.keys]
        used.update(k for k in keys if k is not None)
        absent = [k for k, there in zip(source.keys, keys, strict=True) if there is None]
        if absent:
            missing[name] = absent[0]
        else:
            found[name] = (source, tuple(k for k in keys if k is not None))
    unexpected = tuple(
        k for k in listed if k not in used and not index.is_ignored(k, scheme.ignored)
    )
    return _Match(scheme.name, framework, found, missing, unexpected)


# -- one weight ----------------------------------------------------------------------------
def stored_of(values: Mapping[str, Any]) -> Stored:
    """The arrays of a dict; tensors of torch are arrays too."""
    tensors: dict[str, Tensor] = {}
    refused: dict[str, str] = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise WeightsError(f"a dict of weights has names as its keys, not {name!r}")
        try:
            if hasattr(value, "detach"):
                value = value.detach().cpu()
                value = value.float() if "bfloat16" in str(value.dtype) else value
            tensors[name] = Tensor.of(value)
        except (ValueError, TypeError) as error:
            refused[name] = f"is given no array of numbers: {error}"
    return Stored(tensors, refused=refused)


def one_weight(graph: Graph, name: str, value: ArrayLike) -> Tensor:
    """The tensor of one weight with a new value; WeightsError where it does not fit."""
    symbol = next(s for s in graph.weights if graph.names[s.node] == name)
    stored = stored_of({name: value})
    made = stored.refused.get(name) or _made(graph, symbol, Source((name,)), (name,), stored, None)
    if isinstance(made, str):
        raise WeightsError(f"weight {name!r} {made}")
    return made


def _made(
    graph: Graph,
    symbol: Symbol,
    source: Source,
    keys: Sequence[str],
    stored: Stored,
    framework: Framework | None,
) -> Tensor | str:
    """The tensor of a weight, or why what is stored does not fit it."""
    old: Tensor = symbol.attrs["value"]
    if not keys and source.combine is None:
        return Tensor.of(np.full(old.shape, source.fill or 0.0, old.dtype.numpy))
    given = [stored.tensors[key] for key in keys]
    here = "" if keys == (graph.names[symbol.node],) else f" from {', '.join(map(repr, keys))}"
    for tensor in given:
        kind = tensor.dtype
        if not (kind.is_float or kind.is_integer or kind == NumberType.BOOL):
            return f"holds {old.dtype}, came {kind}{here}"
    use = use_of(graph, symbol) if framework is not None and source.layout else None

    def arranged(array: Array) -> Array:
        if use is None or framework is None:
            return array
        return arrange(framework, use, old.shape, array)

    if source.combine is None:
        # Looked at before the numbers are read: a file may claim any size.
        shape = arranged(np.broadcast_to(np.zeros((), np.int8), given[0].shape)).shape
        if shape != old.shape:
            return f"has shape {old.shape}, came {shape}{here}"
        array = arranged(given[0].value)
    else:
        if sum(t.size for t in given) > _MOST_COMBINED * old.size + 1024:
            return f"has shape {old.shape}, came {given[0].shape}{here}"
        array = arranged(np.asarray(source.combine(*(t.value for t in given))))
        if array.shape != old.shape:
            return f"has shape {old.shape}, came {array.shape}{here}"
    # A copy: neither the caller's array nor the file may change a weight later.
    with np.errstate(all="ignore"):
        made = np.array(array, old.dtype.numpy, order="C")
    if not _holds(made, array, old.dtype):
        return f"holds {old.dtype}, which cannot hold the numbers that came{here}"
    return Tensor.of(made)


def _holds(made: Array, given: Array, kind: NumberType) -> bool:
    """Whether a cast kept the numbers: floats but for a rounding, others exactly."""
    if made.dtype == given.dtype:
        return True
    if not kind.is_float:
        return np.array_equal(made, given)
    if given.dtype.kind in "biu" or given.dtype.itemsize < made.dtype.itemsize:
        return True
    return bool((np.isfinite(made) | ~np.isfinite(given)).all())


# -- what is said --------------------------------------------------------------------------
def _shown(key: str) -> str:
    """A key of the file, which may be of any length."""
    return repr(key) if len(key) < 200 else f"{key[:100]!r}..."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(_shown, names[:3])) + more


def _refusal(
    architecture: str,
    shapes: Shapes,
    stored: Stored,
    best: _Match,
    wrong: Mapping[str, str],
    strict: bool,
) -> str:
    lines = list(wrong.values())[:_SHOWN]
    for name, key in list(best.missing.items())[: max(_SHOWN - len(lines), 5)]:
        spelled = f" ({key})" if key not in ("", name) else ""
        lines.append(f"missing {name!r}{spelled}{did_you_mean(key or name, best.unexpected)}")
    wanted = {key or name: name for name, key in best.missing.items()}
    for key in best.unexpected[: max(_SHOWN - len(lines), 5)]:
        lines.append(f"unexpected {_shown(key)}{did_you_mean(key, wanted)}")
    count = len(best.missing) + len(best.unexpected) + len(wrong)
    if count > len(lines):
        lines.append(f"and {count - len(lines)} more")
    names = "" if best.scheme == OWN else f" by {best.scheme} names"
    head = (
        f"{stored.label} do not fit{names}"
        if stored.label.startswith("these")
        else (f"{stored.label} does not fit{names}")
    )
    tail = _other(architecture, shapes, stored, best)
    if not tail and strict and best.found:
        tail = "\n(strict=False takes what fits)"
    return f"{head}:\n" + "\n".join(f"  {line}" for line in lines) + tail


def _other(architecture: str, shapes: Shapes, stored: Stored, best: _Match) -> str:
    """Words for weights of another architecture of the family, whose names would fit."""
    for scheme in of_family(architecture):
        if not scheme.fits(architecture):
            there = _tried(scheme, architecture, shapes, stored, None)
            if there.score > best.score and len(there.found) > 0.9 * len(shapes):
                which = scheme.architectures
                patterns = which if isinstance(which, str) else ", ".join(which)
                return (
                    f"\nTheir names are {scheme.name}'s for {patterns}, which computes something "
                    "else: make that network and load them there"
                )
    return ""

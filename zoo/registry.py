"""The list of networks: what each is called, where it comes from, and how it is made."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from inspect import Parameter, Signature, cleandoc
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack, get_type_hints

import neuralsym.layers as nn
from neuralsym.core.model import Model
from neuralsym.core.symbol import Symbol
from neuralsym.errors import (
    BadAttribute,
    GraphError,
    ShapeMismatch,
    at_line,
    did_you_mean,
    user_line,
)
from neuralsym.network import Network
from neuralsym.zoo.preprocess import Interpolation, Mode, Preprocessing

Make = TypeVar("Make", bound=Callable[..., Network])
Config = TypeVar("Config")


class Options(TypedDict, total=False):
    """What every network of the zoo takes.

    batch: a size, or a name that leaves it free ("N"); classes: their number; size: height and
    width of the input, or one number for both; softmax: probabilities instead of logits; top:
    False ends at the last feature map; seed: of the random weights.
    """

    batch: int | str
    classes: int
    size: int | tuple[int, int] | None
    softmax: bool
    top: bool
    seed: int


@dataclass(frozen=True)
class Entry:
    """One network as it was published.

    accuracy: top-1 / top-5 on ImageNet in percent that the named weights have, as their source
    says; `size` is (channels, height, width); labels: the file of class names (labels.py) or "".
    """

    name: str
    make: Callable[..., Network]
    size: tuple[int, int, int]
    classes: int
    preprocessing: Preprocessing
    paper: str
    source: str
    accuracy: str
    aliases: tuple[str, ...]
    labels: str


ENTRIES: dict[str, Entry] = {}


def register(
    name: str,
    *,
    size: tuple[int, int, int],
    preprocessing: Preprocessing,
    paper: str = "",
    source: str = "",
    accuracy: str = "",
    classes: int = 1000,
    aliases: tuple[str, ...] = (),
    labels: str = "imagenet",
) -> Callable[[Make], Make]:
    """Enter a function that makes a network into the list, and show its options in help()."""

    def enter(make: Make) -> Make:
        entry = Entry(
            name, make, size, classes, preprocessing, paper, source, accuracy, aliases, labels
        )
        for key in (name, *aliases):
            if key in ENTRIES:
                raise GraphError(f"the zoo has a network {key!r} already")
            ENTRIES[key] = entry
        make.__signature__ = _signature(entry)  # type: ignore[attr-defined]
        if make.__doc__ and Options.__doc__:  # python -OO has none
            make.__doc__ += "\n\n" + cleandoc(Options.__doc__).partition("\n\n")[2]
        return make

    return enter


class Architecture(Protocol):
    """A function of the zoo: options in, network out."""

    def __call__(self, **options: Unpack[Options]) -> Network: ...


@dataclass(frozen=True)
class Family(Generic[Config]):
    """What the networks of one table share. Called with a row of it, it enters that network.

    build: makes the network from its name, its configuration and the options that the user gave.
    size, resize, mode, interpolation: the input and its preprocessing, unless a row has others.
    """

    build: Callable[[str, Config, Options], Network]
    paper: str
    source: str = "torchvision"
    size: int = 224
    resize: int = 256
    mode: Mode = "torch"
    interpolation: Interpolation = "bilinear"

    def __call__(
        self,
        name: str,
        title: str,
        config: Config,
        accuracy: str = "",
        *,
        aliases: tuple[str, ...] = (),
        **others: Any,
    ) -> Architecture:
        """The function of a network, entered: `resnet18 = family("resnet18", "ResNet-18", ...)`.

        title: how the paper calls it; accuracy: as in Entry; others: fields of this family that
        this network has otherwise.
        """
        own = replace(self, **others)

        def make(**options: Unpack[Options]) -> Network:
            return own.build(name, config, options)

        make.__name__ = make.__qualname__ = name
        make.__module__ = own.build.__module__
        make.__doc__ = f"{title} as {own.source} has it, {own.size}x{own.size}. {own.paper}."
        square = (own.size, own.size)
        return register(
            name,
            size=(3, *square),
            preprocessing=Preprocessing(own.mode, own.resize, square, own.interpolation),
            paper=own.paper,
            source=own.source,
            accuracy=accuracy,
            aliases=aliases,
        )(make)


def defaults(entry: Entry) -> Options:
    """The options of a network of which none is given."""
    return {
        "batch": "N",
        "classes": entry.classes,
        "size": entry.size[1:],
        "softmax": False,
        "top": True,
        "seed": 0,
    }


def _signature(entry: Entry) -> Signature:
    """What type checkers know from `Unpack[Options]`, for readers and editors."""
    types, given = get_type_hints(Options), dict(defaults(entry))
    return Signature(
        [
            Parameter(n, Parameter.KEYWORD_ONLY, default=given[n], annotation=types[n])
            for n in given
        ],
        return_annotation=Network,
    )


def models(pattern: str = "*") -> list[str]:
    """The names of the networks that match a pattern such as "resnet*", sorted; no aliases."""
    return sorted(e.name for k, e in ENTRIES.items() if k == e.name and fnmatchcase(k, pattern))


def find(name: str) -> Entry:
    """The entry of a name or alias; BadAttribute with the nearest names if there is none."""
    found = ENTRIES.get(name)
    if found is None:
        hint = did_you_mean(str(name), ENTRIES)
        raise BadAttribute(f"the zoo has no network {name!r}{hint}{at_line(user_line())}")
    return found


def create(name: str, **options: Any) -> Network:
    """The network of that name: `create("resnet50", batch=1, classes=10)`; options as Options."""
    return find(name).make(**options)


def assemble(
    name: str,
    features: Callable[[Symbol], Symbol],
    head: Callable[[Symbol, int], Symbol],
    **options: Unpack[Options],
) -> Network:
    """The network of an entry from its two parts: pictures to features, features to logits.

    Raises BadAttribute for an option that is unknown or out of range, ShapeMismatch for a size
    that is too small for the network.
    """
    _check_options(name, options)
    entry = find(name)
    options = {**defaults(entry), **options}
    count, size = options["classes"], options["size"]
    softmax, top = options["softmax"], options["top"]
    if not is_positive(count):
        raise _refused(name, f"classes={count!r} is not a positive number")
    if softmax and not top:
        raise _refused(name, "softmax=True needs top=True")
    channels, *own = entry.size
    height, width = _pair(name, own if size is None else size)
    try:
        y = features(nn.input((options["batch"], channels, height, width)))
        output = "features"
        if top:
            y, output = head(y, count), "logits"
    except ShapeMismatch as error:
        raise ShapeMismatch(f"{name} at size {height}x{width}: {error}") from None
    if softmax:
        y, output = y | nn.softmax(axis=1), "probs"
    made = y | nn.get_network(name, outputs=output, seed=options["seed"])
    preprocessing = entry.preprocessing.at((height, width))
    metadata = {"architecture": name, "preprocessing": json.dumps(preprocessing.as_dict())}
    return Network(Model({made.graph.name: made.graph}, metadata))


def _check_options(name: str, options: Options) -> None:
    known = Options.__annotations__
    for option in options:
        if option not in known:
            hint = did_you_mean(option, known)
            raise _refused(name, f"no option {option!r}{hint}\n  known: {', '.join(known)}")


def _refused(name: str, reason: str) -> BadAttribute:
    return BadAttribute(f"{name}: {reason}{at_line(user_line())}")


def _pair(name: str, size: int | Sequence[int]) -> tuple[int, int]:
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or not all(map(is_positive, pair)):
        raise _refused(name, f"size={size!r} is neither a number nor (height, width)")
    return pair[0], pair[1]


def is_positive(given: object) -> bool:
    """Whether it is an integer over 0."""
    return isinstance(given, int) and not isinstance(given, bool) and given > 0

"""The list of networks: what each is called, where it comes from, and how it is made."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from inspect import Parameter, Signature, cleandoc
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack, get_type_hints

import numpy as np

import neuralsym.layers as nn
from neuralsym.core.model import Model
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import is_whole
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

    batch: a size, or a name that leaves it free ("N"); classes: their number; size: of the input,
    height and width or one number for both, the length of a text; softmax: True gives
    probabilities instead of logits; top: False ends at the last feature map; seed: of the random
    weights.
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
    says; `size` is (channels, height, width), or (length,) of a text; classes: 0 where the answer
    is none; labels: the file of class names (labels.py) or ""; input, dtype: of the input.
    """

    name: str
    make: Callable[..., Network]
    size: tuple[int, ...]
    classes: int
    preprocessing: Preprocessing | None
    paper: str
    source: str
    accuracy: str
    aliases: tuple[str, ...]
    labels: str
    input: str
    dtype: str

    @property
    def own(self) -> tuple[int, ...]:
        """The part of `size` that a user may choose: all but the channels of a picture."""
        return self.size[-2:]


ENTRIES: dict[str, Entry] = {}


def register(
    name: str,
    *,
    size: tuple[int, ...],
    preprocessing: Preprocessing | None,
    paper: str = "",
    source: str = "",
    accuracy: str = "",
    classes: int = 1000,
    aliases: tuple[str, ...] = (),
    labels: str = "imagenet",
    input: str = "input",
    dtype: str = "float32",
) -> Callable[[Make], Make]:
    """Enter a function that makes a network into the list, and show its options in help()."""

    def enter(make: Make) -> Make:
        entry = Entry(
            name, make, size, classes, preprocessing, paper, source, accuracy, aliases, labels,
            input, dtype,
        )  # fmt: skip
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
        "size": entry.own if len(entry.own) == 2 else entry.own[0],
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
    said: object = pattern
    if not isinstance(said, str):
        raise TypeError(f"a pattern is text, not {pattern!r}{at_line(user_line())}")
    return sorted(e.name for k, e in ENTRIES.items() if k == e.name and fnmatchcase(k, pattern))


def find(name: str) -> Entry:
    """The entry of a name or alias; BadAttribute with the nearest names if there is none."""
    said: object = name
    found = ENTRIES.get(said) if isinstance(said, str) else None
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
    output: str = "logits",
    /,
    **options: Unpack[Options],
) -> Network:
    """The network of an entry from its two parts: pictures to features, features to logits.

    output: what the answer of the head is called. Raises BadAttribute for an option that is
    unknown or out of range, ShapeMismatch for a size that is too small for the network.
    """
    _check_options(name, options)
    entry = find(name)
    options = {**defaults(entry), **options}
    count, size = options["classes"], options["size"]
    softmax, top = options["softmax"], options["top"]
    if not entry.classes and (softmax or count):
        raise _refused(name, "it has no classes, so takes neither classes=... nor softmax=True")
    if entry.classes and not is_positive(count):
        raise _refused(name, f"classes={count!r} is not a positive number")
    if softmax and not top:
        raise _refused(name, "softmax=True needs top=True")
    own = _own_size(name, entry.own if size is None else size, len(entry.own))
    shape = (options["batch"], *entry.size[: -len(own)], *own)
    try:
        x = nn.input(shape, entry.dtype, name=None if entry.input == "input" else entry.input)
        y = features(x)
        y = head(y, int(count)) if top else y
    except ShapeMismatch as error:
        raise ShapeMismatch(f"{name} at size {'x'.join(map(str, own))}: {error}") from None
    output = output if top else "features"
    if softmax:
        y, output = y | nn.softmax(axis=1), "probs"
    made = y | nn.get_network(name, outputs=output, seed=options["seed"])
    metadata = {"architecture": name}
    if entry.preprocessing is not None:
        preprocessing = entry.preprocessing.at((own[0], own[1]))
        metadata["preprocessing"] = json.dumps(preprocessing.as_dict())
    return Network(Model({made.graph.name: made.graph}, metadata))


def _check_options(name: str, options: Options) -> None:
    known = Options.__annotations__
    for option in options:
        if option not in known:
            hint = did_you_mean(option, known)
            raise _refused(name, f"no option {option!r}{hint}\n  known: {', '.join(known)}")


def _refused(name: str, reason: str) -> BadAttribute:
    return BadAttribute(f"{name}: {reason}{at_line(user_line())}")


def _own_size(name: str, size: int | Sequence[int], count: int) -> tuple[int, ...]:
    said: Any = size
    one = isinstance(said, str) or not np.iterable(said)
    given: tuple[Any, ...] = (said,) * count if one else tuple(said)
    if len(given) != count or not all(map(is_positive, given)):
        forms = "neither a number nor (height, width)" if count == 2 else "no number over 0"
        raise _refused(name, f"size={size!r} is {forms}")
    return tuple(map(int, given))


def is_positive(given: object) -> bool:
    """Whether it is an integer over 0, Python's or numpy's."""
    return is_whole(given) and given > 0

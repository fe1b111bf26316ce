"""How other frameworks spell the weights of a network that the zoo has: the mechanism.

A scheme says for each of our weights which key of a state dict, or which variable of a Keras
file, holds it. One file a family stands in `schemes/`, most of them a few path templates:

    SCHEMES = (
        Scheme(
            "torchvision",
            "resnet*",
            paths("torch", {
                "stem/conv_bn/conv2d": "conv1",
                "stem/conv_bn/normalisation": "bn1",
                "stage{s}/block{b}/conv_bn{_k}/conv2d": "layer{s}.{b-1}.conv{k+1}",
                "stage{s}/block{b}/conv_bn{_k}/normalisation": "layer{s}.{b-1}.bn{k+1}",
                "fc": "fc",
            }),
        ),
    )

The left side is the path of a layer of ours: the name of its weights without the last part
(`kernel`, `gamma`), whose spelling in the framework is known here; or the whole name of one
weight. The first template that matches is taken.

    {s}         a number
    {_k}        what sets equal names apart: nothing is k = 0, `_1` is k = 1
    {x:a|b}     whatever the regular expression matches; {x:.+} also goes across `/`

The right side is text with the same names, arithmetic on numbers (+ - * // %) included; `{_k}`
writes such a suffix, `{param}` stands for the spelled parameter where it is not simply the last
part ("self_attention.in_proj_{param}"). It may also be a `Source`, or a function of the matched
parts that gives either (or None: no match, try the next template).

Layouts (a convolution's axes, a transposed affine map) are converted afterwards, from the
framework and the operator that uses the weight: a scheme speaks of names only. Keys of Keras
files are `layer/variable` (`conv1_conv/kernel`), the automatic names of layers counted from 0
(`conv2d`, `conv2d_1`). Register a family's file in `schemes/__init__.py`.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from neuralsym.errors import GraphError
from neuralsym.weights.recurrent import recurrent_source

Array = NDArray[Any]
Shapes = Mapping[str, tuple[int, ...]]
"""Our weights by name, in graph order."""
Framework = Literal["torch", "keras"]
"""Whose axes and parameters a scheme speaks of; timm's are torch's."""
Parts = Mapping[str, int | str]
"""What the braces of a template matched."""


@dataclass(frozen=True)
class Source:
    """Where a weight comes from, when it is not one array of theirs as it stands.

    keys: of the arrays that `combine` is given, in this order, to make one of them; without
    `combine` there is one key, or none and every number is `fill`. layout: whether what comes is
    still in the framework's axes; False says that it is in ours.
    """

    keys: tuple[str, ...] = ()
    combine: Callable[..., Array] | None = None
    fill: float | None = None
    layout: bool = True


ONES = Source(fill=1.0)
ZEROS = Source(fill=0.0)


def part(key: str, index: int, count: int, axis: int = 0) -> Source:
    """One of `count` equal parts of an array, such as the queries of a stacked projection."""

    def cut(array: Array) -> Array:
        if array.ndim <= axis or array.shape[axis] % count:
            return array  # the comparison of shapes then says what came
        return np.split(array, count, axis)[index]

    return Source((key,), cut)


def total(*keys: str) -> Source:
    """The sum of arrays, such as the two biases of a recurrent cell."""
    if not keys:
        raise TypeError("total() takes the names of the arrays to be added")
    return Source(keys, lambda *arrays: sum(arrays[1:], arrays[0]))


Keys = Mapping[str, "str | Source"]
KeyFunction = Callable[[str, Shapes], Keys]
"""(architecture, our weights) -> where each comes from; weights that it knows not are absent."""
Target = str | Source | Callable[[Parts], "str | Source | None"]


@dataclass(frozen=True)
class Scheme:
    """How one framework spells the weights of some architectures.

    name: "torchvision", "timm", "keras", what `load_weights(scheme=...)` takes. architectures: a
    pattern such as "resnet*", or several; ones that differ in more than names must not match.
    ignored: patterns of keys that have no place in the network, such as "AuxLogits.*".
    """

    name: str
    architectures: str | tuple[str, ...]
    keys: KeyFunction
    ignored: tuple[str, ...] = ()

    def fits(self, architecture: str) -> bool:
        given = self.architectures
        patterns = (given,) if isinstance(given, str) else given
        return any(fnmatchcase(architecture, p) for p in patterns)

    @property
    def framework(self) -> Framework:
        return "keras" if self.name == "keras" else "torch"


SPELLINGS: dict[Framework, dict[str, str]] = {
    "torch": {
        "kernel": "weight",
        "bias": "bias",
        "gamma": "weight",
        "beta": "bias",
        "mean": "running_mean",
        "variance": "running_var",
        "embeddings": "weight",
        "alpha": "weight",
    },
    "keras": {"mean": "moving_mean", "variance": "moving_variance"},
}
"""The parameters of layers; one that is not listed is spelled as ours is."""

SEPARATORS: dict[Framework, str] = {"torch": ".", "keras": "/"}


def paths(framework: Framework, templates: Mapping[str, Target]) -> KeyFunction:
    """The key function of a table of path templates; see the top of this module."""
    table = [(_pattern(ours), theirs) for ours, theirs in templates.items()]

    def keys(_: str, shapes: Shapes) -> dict[str, str | Source]:
        layers = layers_of(shapes)
        found = ((name, _find(framework, table, name, layers)) for name in shapes)
        return {name: source for name, source in found if source is not None}

    return keys


def layers_of(shapes: Shapes) -> dict[str, dict[str, tuple[int, ...]]]:
    """Our layers by path, in graph order: the last parts of their weights' names, and shapes."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        path, _, last = name.rpartition("/")
        found.setdefault(path, {})[last] = shape
    return found


def _find(
    framework: Framework,
    table: list[tuple[re.Pattern[str], Target]],
    name: str,
    layers: Mapping[str, Mapping[str, tuple[int, ...]]],
) -> str | Source | None:
    path, _, last = name.rpartition("/")
    for pattern, theirs in table:
        for text, param in ((path, last), (name, "")):
            match = pattern.fullmatch(text)
            if match is None:
                continue
            parts = _parts(match)
            target = theirs(parts) if callable(theirs) else theirs
            if target is None:
                continue
            if isinstance(target, str) and any(w.startswith("recurrent") for w in layers[path]):
                layer = str(_spelled(framework, target, parts, ""))
                found = recurrent_source(framework, layer, last, layers[path])
                return None if found is None else Source(*found, layout=False)
            return _spelled(framework, target, parts, param)
    return None


def _spelled(framework: Framework, target: str | Source, parts: Parts, param: str) -> str | Source:
    """The keys of one weight: braces filled in, and the parameter of a layer added."""
    if isinstance(target, Source):
        keys = [_spelled(framework, key, parts, param) for key in target.keys]
        return replace(target, keys=tuple(str(key) for key in keys))
    word = SPELLINGS[framework].get(param, param)
    if param and "{param}" not in target:
        target = f"{target}{SEPARATORS[framework]}{{param}}"
    return _BRACES.sub(lambda m: _written(framework, m[1], {**parts, "param": word}), target)


# -- templates -----------------------------------------------------------------------------
_BRACES = re.compile(r"\{([^{}]+)\}")
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _pattern(template: str) -> re.Pattern[str]:
    made, end = "", 0
    for brace in _BRACES.finditer(template):
        name, colon, inner = brace[1].partition(":")
        made += re.escape(template[end : brace.start()])
        end = brace.end()
        if colon:
            made += f"(?P<{name}>{inner})"
        elif name.startswith("_"):
            made += rf"(?:_(?P<{name[1:]}>\d+))?"
        else:
            made += rf"(?P<{name}>\d+)"
    return re.compile(made + re.escape(template[end:]))


def _parts(match: re.Match[str]) -> dict[str, int | str]:
    """The matched braces: what is a number as one, a suffix that is not there as 0."""
    return {
        name: 0 if text is None else int(text) if text.isdigit() else text
        for name, text in match.groupdict().items()
    }


def _written(framework: Framework, expression: str, parts: Parts) -> str:
    """One brace of a right side filled in."""
    suffix = expression.startswith("_")
    value = _value(ast.parse(expression[suffix:], mode="eval").body, parts, expression)
    if suffix:
        return f"_{value}" if value else ""
    return str(value).replace("/", SEPARATORS[framework])


def _value(node: ast.expr, parts: Parts, expression: str) -> int | str:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name) and node.id in parts:
        return parts[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left = _value(node.left, parts, expression)
        right = _value(node.right, parts, expression)
        if isinstance(left, int) and isinstance(right, int):
            return _OPERATORS[type(node.op)](left, right)
    known = ", ".join(parts)
    raise GraphError(f"a template of names has {{{expression}}}; it can use {known}")

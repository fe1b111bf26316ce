"""The first values of weights: Keras's initializers, under the names of torch and Owl too.

An `Initializer` is a value: it says how to draw, and draws nothing until `draw` is called for a
weight. Every weight draws from a stream of its own (streams.py), so the same seed and weight name
give the same bytes on every machine, whatever else the network holds.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from neuralsym.errors import BadAttribute, ShapeMismatch, at_line, did_you_mean, user_line
from neuralsym.layers.streams import Stream, orthonormal_columns

Fans: TypeAlias = tuple[float, float]
Kind: TypeAlias = Literal[
    "conv", "conv_transpose", "dense", "dense_transposed", "recurrent", "embedding", "vector"
]
Mode: TypeAlias = Literal["fan_in", "fan_out", "fan_avg"]
Distribution: TypeAlias = Literal["uniform", "truncated_normal", "untruncated_normal"]

# The standard deviation of a standard normal distribution truncated at two deviations.
_TRUNCATED_DEVIATION = 0.8796256610342398


def fans(shape: Sequence[int], kind: Kind, groups: int = 1) -> Fans:
    """How many inputs each output is computed from, and how many outputs each input reaches.

    The axes of a weight are known from its kind alone:

    - `conv`: [out, in/groups, *window], so [32, 3, 3, 3] gives (27, 288)
    - `conv_transpose`: [in, out/groups, *window]
    - `dense`, `embedding`: [in, out]; `dense_transposed`: [out, in]
    - `recurrent`: [directions, gates*hidden, in], ONNX's W and R of one layer
    - `vector`: [n], a bias or a scale

    Of a grouped kernel the connections that exist are counted: (in/groups * window,
    out/groups * window). Keras and torch do not divide the second by the groups.
    ShapeMismatch where the rank does not fit the kind, BadAttribute for an unknown kind.
    """
    rank = {"conv": None, "conv_transpose": None, "recurrent": 3, "vector": 1}
    known = [*rank, "dense", "dense_transposed", "embedding"]
    if kind not in known:
        raise BadAttribute(f"fans: unknown kind {kind!r}{did_you_mean(kind, known)}")
    wanted = rank.get(kind, 2)
    if len(shape) != wanted if wanted else len(shape) < 3:
        count = f"{wanted}" if wanted else "3 or more"
        raise ShapeMismatch(f"fans: a {kind} weight has {count} axes, not {list(shape)}")
    if groups != 1 and not kind.startswith("conv"):
        raise BadAttribute(f"fans: a {kind} weight has no groups, got {groups}")
    if groups < 1 or shape[0] % groups:
        raise BadAttribute(f"fans: {groups} groups do not divide the {shape[0]} of {list(shape)}")
    if kind == "vector":
        return float(shape[0]), float(shape[0])
    if kind == "recurrent":
        return float(shape[2]), float(shape[1])
    if kind == "dense_transposed":
        return float(shape[1]), float(shape[0])
    if kind in ("dense", "embedding"):
        return float(shape[0]), float(shape[1])
    window = math.prod(shape[2:])
    near, far = float(shape[1] * window), float(shape[0] // groups * window)
    return (near, far) if kind == "conv" else (far, near)


class Initializer(ABC):
    """How the first value of a weight is made: immutable, hashable, pickled as its settings.

    Called with settings, it gives the same kind with these: `orthogonal`, `orthogonal()` and
    `orthogonal(gain=2.0)` are all initializers.
    """

    needs_fans = False

    def draw(
        self,
        shape: Sequence[int],
        dtype: DTypeLike = np.float32,
        *,
        key: tuple[int, str],
        fans: Fans | None = None,
    ) -> NDArray[Any]:
        """The value for the weight of that shape; key is (seed, weight name).

        Computed in float64 and rounded to `dtype` at the end. `fans` is what the function of that
        name gives. BadAttribute where it is needed and missing, or where `dtype` cannot hold the
        values; ShapeMismatch where the initializer cannot fill such a shape.
        """
        extent = tuple(int(n) for n in shape)
        if self.needs_fans and fans is None:
            raise BadAttribute(
                f"{self} scales weight {key[1]!r} by its fans, and none are known: "
                "give weight() the fans of this shape, or choose an initializer that needs none"
            )
        out = _room(extent, np.dtype(dtype), key[1])
        self._fill(out, Stream(int(key[0]), key[1]), fans or (1.0, 1.0))
        return out

    @abstractmethod
    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        """Write the value into `out`, which is C-contiguous."""


def _room(shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError):  # numpy says the second of more than it can count
        size = math.prod(shape) * dtype.itemsize / 2**30
        raise BadAttribute(
            f"weight {name!r} of shape {list(shape)} needs {size:,.1f} GiB of memory, which cannot "
            "be had"
        ) from None


def _real(out: NDArray[Any], what: Initializer) -> NDArray[Any]:
    """`out` as a vector, refused where its number type cannot hold a drawn value."""
    # bfloat16 and its kin are of numpy's kind V, as are the four-bit integers
    if out.dtype.kind not in "fV" or float(np.asarray(0.5).astype(out.dtype)) != 0.5:
        raise BadAttribute(f"{what} draws real numbers; a weight of {out.dtype} cannot hold them")
    return out.reshape(-1)


def _or(given: float | None, default: float) -> float:
    return default if given is None else given


def _check(condition: bool, what: Initializer, rule: str) -> None:
    if not condition:
        raise BadAttribute(f"{what}: {rule}{at_line(user_line())}")


@dataclass(frozen=True)
class Constant(Initializer):
    """The same value everywhere. Keras Constant, torch constant_."""

    value: float = 0.0

    def __call__(self, value: float | None = None) -> Constant:
        return Constant(_or(value, self.value))

    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        if out.dtype.kind in "biu" and not float(self.value).is_integer():
            raise BadAttribute(f"{self} is no whole number; a weight of {out.dtype} cannot hold it")
        out[...] = self.value


@dataclass(frozen=True)
class Identity(Initializer):
    """gain times the identity: a matrix [n, m], or a kernel [out, in, *window] that passes its
    input on (torch dirac_). Keras Identity, torch eye_.
    """

    gain: float = 1.0

    def __call__(self, gain: float | None = None) -> Identity:
        return Identity(_or(gain, self.gain))

    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        if out.ndim < 2:
            raise ShapeMismatch(f"{self} needs a weight of two axes or more, not {[*out.shape]}")
        out[...] = 0
        if not out.size:
            return
        middle = tuple(n // 2 for n in out.shape[2:])
        for i in range(min(out.shape[:2])):
            out[(i, i, *middle)] = self.gain


@dataclass(frozen=True)
class RandomUniform(Initializer):
    """Uniform between two bounds. Keras RandomUniform, torch uniform_, Owl Uniform."""

    minval: float = -0.05
    maxval: float = 0.05

    def __post_init__(self) -> None:
        _check(self.minval <= self.maxval, self, "minval lies above maxval")

    def __call__(self, minval: float | None = None, maxval: float | None = None) -> RandomUniform:
        return RandomUniform(_or(minval, self.minval), _or(maxval, self.maxval))

    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        stream.uniform(_real(out, self), self.minval, self.maxval)


@dataclass(frozen=True)
class RandomNormal(Initializer):
    """Normal by mean and standard deviation. Keras RandomNormal, torch normal_, Owl Gaussian."""

    mean: float = 0.0
    stddev: float = 0.05

    def __post_init__(self) -> None:
        _check(self.stddev >= 0, self, "stddev is negative")

    def __call__(self, mean: float | None = None, stddev: float | None = None) -> RandomNormal:
        return RandomNormal(_or(mean, self.mean), _or(stddev, self.stddev))

    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        stream.normal(_real(out, self), self.mean, self.stddev)


@dataclass(frozen=True)
class TruncatedNormal(Initializer):
    """Normal, cut off at two standard deviations; stddev is that before cutting, as in Keras.

    Keras TruncatedNormal, torch trunc_normal_.
    """

    mean: float = 0.0
    stddev: float = 0.05

    def __post_init__(self) -> None:
        _check(self.stddev >= 0, self, "stddev is negative")

    def __call__(self, mean: float | None = None, stddev: float | None = None) -> TruncatedNormal:
        return TruncatedNormal(_or(mean, self.mean), _or(stddev, self.stddev))

    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        stream.normal(_real(out, self), self.mean, self.stddev, truncated=True)


@dataclass(frozen=True)
class VarianceScaling(Initializer):
    """Mean 0 and variance scale/n, where n is fan_in, fan_out or their mean. Keras's formula.

    `truncated_normal` is cut at two deviations and widened, so that its variance is still scale/n.
    """

    scale: float = 1.0
    mode: Mode = "fan_in"
    distribution: Distribution = "truncated_normal"

    needs_fans = True

    def __post_init__(self) -> None:
        _check(self.scale > 0, self, "scale must be positive")
        for word, choices in (
            (self.mode, ("fan_in", "fan_out", "fan_avg")),
            (self.distribution, ("uniform", "truncated_normal", "untruncated_normal")),
        ):
            _check(word in choices, self, f"{word!r} is none of {', '.join(choices)}")

    def __call__(self, gain: float = 1.0, *, mode: Mode | None = None) -> VarianceScaling:
        """The same with the weights `gain` times as large, or scaled by another fan."""
        return VarianceScaling(self.scale * gain * gain, mode or self.mode, self.distribution)

    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        near, far = fans
        n = {"fan_in": near, "fan_out": far, "fan_avg": (near + far) / 2.0}[self.mode]
        variance = self.scale / max(1.0, n)
        flat = _real(out, self)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            stream.uniform(flat, -limit, limit)
        elif self.distribution == "truncated_normal":
            stream.normal(flat, 0.0, math.sqrt(variance) / _TRUNCATED_DEVIATION, truncated=True)
        else:
            stream.normal(flat, 0.0, math.sqrt(variance))


@dataclass(frozen=True)
class Orthogonal(Initializer):
    """gain times a matrix with orthonormal rows or columns, uniform over all of these.

    A weight of more axes is the matrix [first, all others]. Saxe et al. 2014; Keras Orthogonal,
    torch orthogonal_: the sign-fixed Q of a normal matrix.
    """

    gain: float = 1.0

    def __call__(self, gain: float | None = None) -> Orthogonal:
        return Orthogonal(_or(gain, self.gain))

    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        if out.ndim < 2:
            raise ShapeMismatch(f"{self} needs a weight of two axes or more, not {[*out.shape]}")
        _real(out, self)
        if not out.size:
            return
        matrix = out.reshape(len(out), -1)
        tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
        normal = np.empty(tall.size)
        stream.normal(normal, 0.0, 1.0)
        tall[...] = orthonormal_columns(normal.reshape(tall.shape)) * self.gain


@dataclass(frozen=True)
class Custom(Initializer):
    """A function of the user's: shape -> array or number. It draws what and how it likes."""

    function: Callable[[tuple[int, ...]], ArrayLike]

    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        value = np.asarray(self.function(out.shape))
        if value.shape not in ((), out.shape):
            raise ShapeMismatch(
                f"the initializer {self.function!r} of weight {stream.name!r} gave shape "
                f"{[*value.shape]}; expected {[*out.shape]} or a single number"
            )
        out[...] = value


Init: TypeAlias = str | float | Initializer | Callable[[tuple[int, ...]], ArrayLike]

zeros = Constant(0.0)
ones = Constant(1.0)
constant = Constant()
identity = Identity()
random_uniform = RandomUniform()
random_normal = RandomNormal()
truncated_normal = TruncatedNormal()
orthogonal = Orthogonal()
glorot_uniform = VarianceScaling(1.0, "fan_avg", "uniform")
glorot_normal = VarianceScaling(1.0, "fan_avg", "truncated_normal")
he_uniform = VarianceScaling(2.0, "fan_in", "uniform")
he_normal = VarianceScaling(2.0, "fan_in", "truncated_normal")
lecun_uniform = VarianceScaling(1.0, "fan_in", "uniform")
lecun_normal = VarianceScaling(1.0, "fan_in", "truncated_normal")
# Owl's Standard, and the default of torch's Linear and Conv: U(+-sqrt(1/fan_in)).
standard = VarianceScaling(1.0 / 3.0, "fan_in", "uniform")
# torch's normal ones are not truncated.
xavier_uniform = glorot_uniform
xavier_normal = VarianceScaling(1.0, "fan_avg", "untruncated_normal")
kaiming_uniform = he_uniform
kaiming_normal = VarianceScaling(2.0, "fan_in", "untruncated_normal")


def variance_scaling(
    scale: float = 1.0,
    mode: Mode = "fan_in",
    distribution: Distribution = "truncated_normal",
) -> VarianceScaling:
    """Mean 0 and variance scale/n, where n is fan_in, fan_out or their mean (fan_avg)."""
    return VarianceScaling(scale, mode, distribution)


NAMES: dict[str, Initializer] = {
    "zeros": zeros,
    "ones": ones,
    "constant": constant,
    "identity": identity,
    "random_uniform": random_uniform,
    "random_normal": random_normal,
    "truncated_normal": truncated_normal,
    "orthogonal": orthogonal,
    "variance_scaling": VarianceScaling(),
    "glorot_uniform": glorot_uniform,
    "glorot_normal": glorot_normal,
    "he_uniform": he_uniform,
    "he_normal": he_normal,
    "lecun_uniform": lecun_uniform,
    "lecun_normal": lecun_normal,
    # torch.nn.init
    "xavier_uniform": xavier_uniform,
    "xavier_normal": xavier_normal,
    "kaiming_uniform": kaiming_uniform,
    "kaiming_normal": kaiming_normal,
    "uniform": RandomUniform(0.0, 1.0),
    "normal": RandomNormal(0.0, 1.0),
    "trunc_normal": TruncatedNormal(0.0, 1.0),
    "eye": identity,
    "dirac": identity,
    # Owl
    "standard": standard,
    "tanh": glorot_uniform,
    "gaussian": random_normal,
}


def get(spec: Init) -> Initializer:
    """The initializer that a name, a number, a function or an Initializer stands for.

    Names may be spelled as in Keras (`"glorot_uniform"`, `"GlorotUniform"`), torch
    (`"xavier_uniform_"`) or Owl (`"Standard"`). A number is a constant. A function of the shape
    gives the value itself. BadAttribute for anything else.
    """
    if isinstance(spec, Initializer):
        return spec
    if isinstance(spec, str):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", spec).lower().rstrip("_")
        if name not in NAMES:
            raise BadAttribute(
                f"unknown initializer {spec!r}{did_you_mean(name, NAMES)}\n  known: "
                + ", ".join(NAMES)
                + at_line(user_line())
            )
        return NAMES[name]
    if isinstance(spec, int | float | np.number) and not isinstance(spec, bool):
        return Constant(float(spec))
    if callable(spec):
        return Custom(spec)
    raise BadAttribute(
        "an initializer is a name, a number, an Initializer or a function of the shape; "
        f"got {spec!r}{at_line(user_line())}"
    )

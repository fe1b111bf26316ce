"""Static quantisation: a network in 8-bit integers, after it has seen examples of its inputs.

made = quantize_static(network, pictures)
print(made.report)
made.network.save("network.int8.onnx")
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import is_whole
from neuralsym.errors import BadAttribute, InputError, at_line, did_you_mean, user_line, warn
from neuralsym.network import Network
from neuralsym.passes.qdq import Plan, Range

Array = NDArray[Any]
Method = Literal["minmax", "percentile"]
Data = ArrayLike | Mapping[str, ArrayLike] | Iterable[Any]

_BINS = 2048
_AT_ONCE = 2**24
"""Elements of inner values that are looked at in one run, about."""


@dataclass(frozen=True)
class Difference:
    """How an output of the quantised network differs from that of the network in float32.

    sqnr: power of the output over that of the difference, in decibels; largest: the largest
    difference over the largest value; agreement: the share of rows whose largest element is the
    same, None where the output has no classes; accuracy: the shares of rows that are right before
    and after, where labels were given.
    """

    name: str
    sqnr: float
    largest: float
    agreement: float | None
    accuracy: tuple[float, float] | None = None


@dataclass(frozen=True)
class Report:
    """What quantisation changed on the calibration set, and the bytes of the weights."""

    samples: int
    before: int
    after: int
    outputs: tuple[Difference, ...]

    def __str__(self) -> str:
        lines = [
            f"calibrated on {self.samples} samples; weights {self.before / 1e6:.1f} MB -> "
            f"{self.after / 1e6:.1f} MB"
        ]
        for output in self.outputs:
            said = f"{output.name}: signal to noise {output.sqnr:.1f} dB, largest difference "
            said += f"{100 * output.largest:.2f} % of the largest value"
            if output.agreement is not None:
                said += f", same class for {100 * output.agreement:.1f} %"
            if output.accuracy is not None:
                before, after = output.accuracy
                said += f", accuracy {100 * before:.1f} % -> {100 * after:.1f} %"
            lines.append(said)
        return "\n".join(lines)


@dataclass(frozen=True)
class Quantized:
    """A quantised network and what the quantisation changed."""

    network: Network
    report: Report


def quantize_static(
    network: Network,
    data: Data,
    *,
    method: Method = "minmax",
    percentile: float = 99.99,
    per_channel: bool = True,
    batch: int = 8,
    labels: ArrayLike | None = None,
) -> Quantized:
    """A network with 8-bit weights and inner values, as QuantizeLinear and DequantizeLinear.

    data: samples along the first axis of an array, or of a dict of arrays by input; or feeds, one
    after another, as `network.run` takes them. method: the ranges of inner values are those seen
    ("minmax"), or those that `percentile` percent of them lie in. per_channel: a scale for each
    output channel of a weight. batch: samples that are run together. labels: the right class of
    each sample, to tell the accuracy before and after.

    Convolutions, products with stored matrices, sums, averages and what lies between them are
    quantised; batch norms are folded first. Where the network's own batch is fixed, samples that do
    not fill one are left out. Raises InputError for no samples, for labels that do not fit or that
    no output [N, classes] can have, BadAttribute for an unknown method; warns where nothing can be
    quantised, which is so for a network in float16.
    """
    try:
        return _quantised(network, data, method, percentile, per_channel, batch, labels)
    except (BadAttribute, InputError) as error:
        said = str(error)
        where = "" if "\n  at " in said else at_line(user_line())
        raise type(error)(f"quantize_static: {said}{where}") from None


def _quantised(
    network: Network,
    data: Data,
    method: Method,
    percentile: float,
    per_channel: bool,
    batch: int,
    labels: ArrayLike | None,
) -> Quantized:
    _check(network, method, percentile, batch)
    feeds = list(_feeds(network, data, batch))
    if not feeds:
        raise InputError("there is no sample to calibrate with")
    plan = Plan(network.graph)
    if not plan.values:
        half = any(s.dtype == "float16" for s in network.graph.weights)
        warn(
            f"quantize_static: nothing of {network.graph.name!r} is quantised: it has no product "
            "of float32 values with a stored matrix, no sum of two and no average"
            + ("; quantise the network as it was before to_float16" if half else "")
        )
    ranges = _seen(network, plan, feeds)
    if method == "percentile":
        ranges = _trimmed(network, plan, feeds, ranges, percentile)
    graph = plan.quantised(ranges, per_channel)
    made = Network(network.model.with_graph(graph), options=network.options)
    return Quantized(made, _compared(network, made, feeds, labels))


def _check(network: object, method: object, percentile: object, batch: object) -> None:
    """Raise TypeError or BadAttribute for settings that are not what they should be."""
    if not isinstance(network, Network):
        raise TypeError(
            f"quantize_static takes a Network, not {type(network).__name__}: neuralsym.load reads "
            f"one from a file{at_line(user_line())}"
        )
    if not isinstance(method, str) or method not in get_args(Method):
        known = " and ".join(map(repr, get_args(Method)))
        hint = did_you_mean(method, get_args(Method))
        raise BadAttribute(f"no method {method!r}; there are {known}{hint}")
    if not isinstance(percentile, (int, float, np.number)) or not 50 < percentile <= 100:
        raise BadAttribute(f"percentile={percentile!r} is no number over 50 and up to 100")
    if not is_whole(batch) or batch < 1:
        raise BadAttribute(f"batch={batch!r} is no positive integer")


def _feeds(network: Network, data: Data, batch: int) -> Iterator[dict[str, Array]]:
    """The samples as feeds of a batch each."""
    names = [port.name for port in network.inputs if not port.default]
    if isinstance(data, np.ndarray):
        if len(names) != 1:
            raise InputError(f"give a dict of arrays by input: {', '.join(names)}")
        data = {names[0]: data}
    if isinstance(data, Mapping):
        arrays = {name: np.asarray(value) for name, value in data.items()}
        counts = {len(a) if a.ndim else 0 for a in arrays.values()} or {0}
        if len(counts) != 1:
            raise InputError(f"the arrays have {sorted(counts)} samples")
        fixed = [p.shape[0] for p in network.inputs if p.shape and isinstance(p.shape[0], int)]
        step = fixed[0] if fixed and isinstance(fixed[0], int) else batch
        total = counts.pop()
        if fixed and 0 < total < step:
            raise InputError(f"{total} samples do not fill the network's batch of {step}")
        for start in range(0, total - total % step if fixed else total, step):
            yield {name: a[start : start + step] for name, a in arrays.items()}
        return
    if isinstance(data, (str, bytes, PathLike)) or not np.iterable(data):
        raise InputError(
            "data is an array of samples, a dict of arrays by input, or a sequence of feeds, not "
            f"{type(data).__name__}: np.load reads a file"
        )
    for feed in data:
        if isinstance(feed, Mapping):
            yield {name: np.asarray(value) for name, value in feed.items()}
        elif len(names) == 1:
            yield {names[0]: np.asarray(feed)}
        else:
            raise InputError(f"give dicts by input: {', '.join(names)}")


def _probe(network: Network, plan: Plan, outputs: Mapping[str, Symbol]) -> Network:
    """A network that computes something of inner values."""
    return Network(plan.graph.extended(dict(outputs)), options=network.options)


def _seen(
    network: Network, plan: Plan, feeds: Iterable[Mapping[str, Array]]
) -> dict[Symbol, Range]:
    """The lowest and highest of each value over all feeds."""
    wanted: dict[str, Symbol] = {}
    for i, symbol in enumerate(plan.values):
        wanted[f"low_{i}"] = ops.reduce_min(symbol, keepdims=0)
        wanted[f"high_{i}"] = ops.reduce_max(symbol, keepdims=0)
    if not wanted:
        return {}
    probe = _probe(network, plan, wanted)
    found: dict[Symbol, Range] = {}
    for feed in feeds:
        made = probe.run(dict(feed))
        for i, symbol in enumerate(plan.values):
            seen = Range(float(made[f"low_{i}"]), float(made[f"high_{i}"]))
            found[symbol] = found[symbol].join(seen) if symbol in found else seen
    for symbol, seen in reversed(found.items()):  # the first value of the run comes first
        if not np.isfinite(seen).all():
            name = plan.graph.value_name(symbol)
            raise InputError(f"{name!r} becomes infinite or NaN on these samples")
    return found


def _trimmed(
    network: Network,
    plan: Plan,
    feeds: Iterable[Mapping[str, Array]],
    ranges: Mapping[Symbol, Range],
    percentile: float,
) -> dict[Symbol, Range]:
    """The ranges without the outermost values, from histograms of all feeds."""
    found: dict[Symbol, Range] = {}
    for group in _groups(plan.values):
        probe = _probe(network, plan, {f"value_{i}": ops.identity(s) for i, s in enumerate(group)})
        counts = np.zeros((len(group), _BINS), np.int64)
        for feed in feeds:
            made = probe.run(dict(feed))
            for i, symbol in enumerate(group):
                counts[i] += np.histogram(made[f"value_{i}"], _BINS, ranges[symbol])[0]
        for symbol, count in zip(group, counts, strict=True):
            found[symbol] = _inner(ranges[symbol], count, percentile)
    return found


def _inner(seen: Range, count: NDArray[np.int64], percentile: float) -> Range:
    edges = np.linspace(seen.low, seen.high, _BINS + 1)
    share = np.cumsum(count) / max(int(count.sum()), 1)
    outside = (1 - percentile / 100) / 2
    low = int(np.searchsorted(share, outside, "right"))
    high = int(np.searchsorted(share, 1 - outside, "left"))
    return Range(float(edges[low]), float(edges[min(high + 1, _BINS)]))


def _groups(values: Iterable[Symbol]) -> Iterator[list[Symbol]]:
    """The values, so many together as are kept in memory at once."""
    group: list[Symbol] = []
    size = 0
    for symbol in values:
        elements = 1
        for d in symbol.shape or ():
            elements *= d if isinstance(d, int) else 8
        if group and size + elements > _AT_ONCE:
            yield group
            group, size = [], 0
        group.append(symbol)
        size += elements
    if group:
        yield group


def _compared(
    network: Network, made: Network, feeds: list[dict[str, Array]], labels: ArrayLike | None
) -> Report:
    """Both networks on all feeds; what they keep between runs is as it was, before and behind."""
    network, made = (
        Network(n.model, options=n.options) if n.graph.updates else n for n in (network, made)
    )
    before: dict[str, list[Array]] = {}
    after: dict[str, list[Array]] = {}
    for feed in feeds:
        for name, value in network.run(feed).items():
            before.setdefault(name, []).append(np.atleast_1d(value))
        for name, value in made.run(feed).items():
            after.setdefault(name, []).append(np.atleast_1d(value))
    samples = sum(len(next(iter(feed.values()))) for feed in feeds)
    right = None if labels is None else np.asarray(labels)
    if right is not None and not any(_has_classes(values[0]) for values in before.values()):
        raise InputError("labels are given, and no output is [N, classes]")
    outputs = [
        _difference(name, np.concatenate(values), np.concatenate(after[name]), right)
        for name, values in before.items()
    ]
    sizes = [sum(n.weights.tensor(w).nbytes for w in n.weights) for n in (network, made)]
    return Report(samples, sizes[0], sizes[1], tuple(outputs))


def _has_classes(value: Array) -> bool:
    return value.ndim == 2 and value.shape[1] > 1


def _difference(name: str, before: Array, after: Array, labels: Array | None) -> Difference:
    exact = before.astype(np.float64)
    error = after.astype(np.float64) - exact
    noise, signal = float((error**2).sum()), float((exact**2).sum())
    sqnr = float("inf") if not noise else 10 * float(np.log10(max(signal, 1e-300) / noise))
    largest = float(np.abs(error).max(initial=0) / max(np.abs(exact).max(initial=0), 1e-300))
    agreement = accuracy = None
    if _has_classes(before):
        first, second = before.argmax(1), after.argmax(1)
        agreement = float((first == second).mean())
        if labels is not None:
            if labels.shape != first.shape:
                raise InputError(f"{len(first)} samples have labels of shape {labels.shape}")
            count = before.shape[1]
            if labels.dtype.kind not in "iu" or not ((labels >= 0) & (labels < count)).all():
                raise InputError(f"labels are integers from 0 to {count - 1}, for {name!r}")
            accuracy = float((first == labels).mean()), float((second == labels).mean())
    return Difference(name, sqnr, largest, agreement, accuracy)

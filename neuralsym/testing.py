"""For people who test with neuralsym: does a network give what another runtime gives?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralsym.core.dim import Dim, evaluate
from neuralsym.core.types import TensorType
from neuralsym.dtypes import NumberType
from neuralsym.errors import BadAttribute, InputError, did_you_mean
from neuralsym.network import Network, load
from neuralsym.ports import as_input, by_name

if TYPE_CHECKING:
    from onnx import ModelProto

Reference = Literal["onnxruntime", "onnx"]
DEFAULT_TOLERANCE = 1e-4
"""Of the largest value of an output: what float32 sums in another order may differ by."""
HALF_TOLERANCES = {"float16": 2.0**-8, "bfloat16": 2.0**-5}
"""The same for 16-bit floats, four units in the last place: runtimes round to them after each
operator or, where they fuse, after several."""


@dataclass(frozen=True)
class Agreement:
    """How one output compares: `over` values differ by more than atol + rtol * |reference|."""

    name: str
    shape: tuple[int, ...]
    largest: float
    absolute: float
    relative: float
    over: int
    atol: float
    rtol: float
    problem: str = ""

    @property
    def holds(self) -> bool:
        return not self.problem and self.over == 0

    def __str__(self) -> str:
        if self.problem:
            return f"{self.name}: {self.problem}"
        verdict = "agrees" if self.holds else f"differs in {self.over:,} values"
        return (
            f"{self.name} {list(self.shape)}: {verdict}; largest difference {self.absolute:.3g} "
            f"(tolerance {self.atol:.3g} + {self.rtol:g} of each), largest value {self.largest:.4g}"
        )


def assert_matches(
    network_or_model: Network | str | PathLike[str] | bytes | ModelProto,
    feed: Mapping[str, Any] | ArrayLike | None = None,
    reference: Reference | Mapping[str, ArrayLike] = "onnxruntime",
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Assert that a network's outputs are those of a reference on the same feed.

    network_or_model: a Network or what `neuralsym.load` takes; feed: as for `Network.run`, random
    values if None; reference: "onnxruntime", "onnx" (its reference evaluator), or a dict of
    expected arrays. Values may differ by atol + rtol * |reference|. rtol is 1e-4 unless given, atol
    1e-4 of the output's largest value; of 16-bit floats four units in the last place (2**-8 for
    float16, 2**-5 for bfloat16) stand for 1e-4. Integers, booleans and strings must be equal.
    Raises AssertionError that tells how each output compares.
    """
    found = compare(network_or_model, feed, reference, rtol, atol)
    if not all(a.holds for a in found):
        lines = "\n".join(f"  {a}" for a in found)
        raise AssertionError(f"outputs differ from the reference:\n{lines}")


def compare(
    network_or_model: Network | str | PathLike[str] | bytes | ModelProto,
    feed: Mapping[str, Any] | ArrayLike | None = None,
    reference: Reference | Mapping[str, ArrayLike] = "onnxruntime",
    rtol: float | None = None,
    atol: float | None = None,
) -> list[Agreement]:
    """What `assert_matches` asserts, as a list with an entry for each output."""
    given = network_or_model
    network = given if isinstance(given, Network) else load(given)
    if feed is None:
        feed = random_feed(network)
    ports = {p.name: p for p in network.inputs}
    arrays = {n: as_input(v, ports[n]) for n, v in by_name(feed, ports, network.name).items()}
    if isinstance(reference, Mapping):
        expected = {n: np.asarray(v) for n, v in reference.items()}
        unknown = [n for n in expected if n not in [p.name for p in network.outputs]]
        if unknown:
            hint = did_you_mean(unknown[0], [p.name for p in network.outputs])
            raise InputError(f"the network has no output {unknown[0]!r}{hint}")
    else:
        expected = reference_outputs(network, arrays, reference)
    results = network.run(arrays, list(expected))
    return [agreement(n, results[n], expected[n], rtol, atol) for n in expected]


def reference_outputs(
    network: Network, feed: Mapping[str, Any], reference: Reference = "onnxruntime"
) -> dict[str, Any]:
    """The outputs that another runtime computes from the network's ONNX form."""
    run = _RUNTIMES.get(reference)
    if run is None:
        hint = did_you_mean(str(reference), _RUNTIMES)
        raise BadAttribute(f"reference is one of {', '.join(_RUNTIMES)}, not {reference!r}{hint}")
    from neuralsym.engines import onnx

    values = run(onnx.of_symbolic(network.model), feed)
    return dict(zip([p.name for p in network.outputs], values, strict=True))


def _run_onnxruntime(model: ModelProto, feed: Mapping[str, Any]) -> Sequence[Any]:
    try:
        import onnxruntime
    except ImportError:
        raise BadAttribute(
            "onnxruntime is not installed: `pip install onnxruntime`, or reference='onnx'"
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    values: Sequence[Any] = session.run(None, dict(feed))
    return values


def _run_onnx(model: ModelProto, feed: Mapping[str, Any]) -> Sequence[Any]:
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(model).run(None, dict(feed)))


_RUNTIMES: dict[str, Callable[[ModelProto, Mapping[str, Any]], Sequence[Any]]] = {
    "onnxruntime": _run_onnxruntime,
    "onnx": _run_onnx,
}


def agreement(
    name: str, ours: Any, theirs: Any, rtol: float | None = None, atol: float | None = None
) -> Agreement:
    """How one value compares with its reference; tolerances as for `assert_matches`."""
    if isinstance(theirs, (list, tuple)) or theirs is None or isinstance(theirs, dict):
        return _structure(name, ours, theirs, rtol, atol)
    a, b = np.asarray(ours), np.asarray(theirs)
    usual = _usual(b.dtype)
    rtol = usual if rtol is None else rtol
    problem = ""
    if a.shape != b.shape:
        problem = f"its shape is {list(a.shape)}, the reference's {list(b.shape)}"
    elif a.dtype != b.dtype and a.dtype.kind not in "OUS":
        problem = f"its dtype is {a.dtype}, the reference's {b.dtype}"
    if problem:
        return Agreement(name, a.shape, 0.0, 0.0, 0.0, 0, 0.0, rtol, problem)
    if b.dtype.kind in "OUSb" or (b.dtype.kind in "iu" and atol is None):
        over = int(np.count_nonzero(a != b))
        return Agreement(name, b.shape, 0.0, float(over > 0), float(over > 0), over, 0.0, 0.0)
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    finite = np.isfinite(y)
    largest = float(np.abs(y[finite]).max(initial=0.0))
    bound = usual * largest if atol is None else atol
    with np.errstate(invalid="ignore"):
        difference = np.abs(x - y)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        allowed = np.where(finite, bound + rtol * np.abs(y), 0.0)
        over = int(np.count_nonzero(~same & ~(difference <= allowed)))
    compared = difference[finite & np.isfinite(x)]
    absolute = float(compared.max(initial=0.0))
    return Agreement(
        name, b.shape, largest, absolute, absolute / (largest or 1.0), over, bound, rtol
    )


def _usual(dtype: np.dtype[Any]) -> float:
    """The tolerance for values of a type, relative to the largest of them."""
    return HALF_TOLERANCES.get(dtype.name, DEFAULT_TOLERANCE)


def _structure(
    name: str, ours: Any, theirs: Any, rtol: float | None, atol: float | None
) -> Agreement:
    """Sequences, optionals and maps: the worst of their parts."""

    def made(problem: str = "") -> Agreement:
        return Agreement(name, (), 0.0, 0.0, 0.0, 0, 0.0, rtol or 0.0, problem)

    if theirs is None:
        return made("" if ours is None else "it should be empty")
    if isinstance(theirs, dict):
        same = isinstance(ours, dict) and list(ours) == list(theirs)
        if not same:
            return made("its keys differ from the reference's")
        parts = [agreement(f"{name}[{k!r}]", ours[k], v, rtol, atol) for k, v in theirs.items()]
    else:
        if not isinstance(ours, (list, tuple)) or len(ours) != len(theirs):
            return made(f"it should be a sequence of {len(theirs)}")
        pairs = enumerate(zip(ours, theirs, strict=True))
        parts = [agreement(f"{name}[{i}]", x, y, rtol, atol) for i, (x, y) in pairs]
    return max(parts, key=lambda p: (not p.holds, p.absolute), default=made())


def random_feed(
    network: Network, seed: int = 0, sizes: Mapping[str, int] | None = None
) -> dict[str, NDArray[Any]]:
    """Random values for every input that needs one.

    Floats are standard normal, integers 0 or 1. `sizes` gives the sizes of dimension names; a
    name that only counts a batch (axis 0) is 1 otherwise. Raises InputError where another name
    has no size, or for the size of a name that no input has.
    """
    rng = np.random.Generator(np.random.Philox(seed))
    known = dict(sizes or {})
    named = {
        n for p in network.inputs for d in p.shape or () if isinstance(d, Dim) for n in d.names
    }
    for name in known:
        if name not in named:
            hint = did_you_mean(name, named) or f"; there are {', '.join(sorted(named)) or 'none'}"
            raise InputError(f"the inputs of {network.name!r} have no dimension {name!r}{hint}")
    feed: dict[str, NDArray[Any]] = {}
    for port in network.inputs:
        if port.default:
            continue
        if not isinstance(port.type, TensorType) or port.shape is None:
            raise InputError(f"input {port} has no shape to make random values for; give them")
        shape = []
        for axis, size in enumerate(port.shape):
            if axis == 0 and isinstance(size, Dim) and size.is_name:
                known.setdefault(str(size), 1)
            missing = sorted(set(size.names) - set(known)) if isinstance(size, Dim) else []
            if size is None or missing:
                wanted = missing[0] if missing else f"axis {axis}"
                raise InputError(f"input {port} needs a size for {wanted}")
            shape.append(evaluate(size, known))
        feed[port.name] = _random(rng, tuple(shape), port.type.dtype)
    return feed


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: NumberType) -> NDArray[Any]:
    if dtype is NumberType.STRING:
        return np.full(shape, "a", dtype=object)
    if dtype is NumberType.BOOL or dtype.is_integer:
        return rng.integers(0, 2, shape).astype(dtype.numpy)
    return rng.standard_normal(shape).astype(dtype.numpy)

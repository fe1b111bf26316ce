"""RandomUniform, RandomNormal, Bernoulli, Multinomial and the Dropout of training.

Drawing begins anew in every run, so a seeded operator gives the same numbers each time.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.arrays import Direction
from neuralsym.cpu.kernels import draws
from neuralsym.cpu.kernels.host import ArrayStep
from neuralsym.cpu.library import Library
from neuralsym.cpu.program import Step
from neuralsym.errors import ExecutionError

Array = NDArray[Any]


class Draw(ArrayStep):
    """What drawing operators share: the seed, the generator's state, results of any type."""

    def supports(self, step: Step) -> bool | str:
        tensors = all(b.is_tensor for b in (*step.operands, *step.outputs))
        return tensors or "not a tensor of numbers"

    def seed(self, step: Step) -> int:
        """The step's seed as 32 bits, or fresh ones."""
        given = step.attr("seed")
        if given is None or isnan(given):
            return secrets.randbits(32)
        return int(given) & 0xFFFFFFFF

    def draw(self, function: Any, operands: Sequence[Array], out: Array, *numbers: Any) -> Array:
        """`out`, flat, as the function fills it from a new generator."""
        state = np.empty(draws.STATE, np.uint32)
        sides: list[tuple[Array, Direction]] = [(state, "out")]
        sides += [(self.ordered(a).reshape(-1), "in") for a in operands]
        self.call(function, [*sides, (out.reshape(-1), "out")], numbers)
        return out


class Uniform(Draw):
    """RandomUniform and RandomUniformLike."""

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        bounds = float(step.attr("low")), float(step.attr("high"))
        out = _room(step, values)
        made = self.draw(draws.uniform, [], out, self.seed(step), *bounds)
        return [made.astype(step.outputs[0].dtype.numpy)]


class Normal(Draw):
    """RandomNormal and RandomNormalLike."""

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        how = float(step.attr("mean")), float(step.attr("scale"))
        made = self.draw(draws.normal, [], _room(step, values), self.seed(step), *how)
        return [made.astype(step.outputs[0].dtype.numpy)]


class Bernoulli(Draw):
    """1 with the probability that the input states, else 0."""

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        chances = np.asarray(values[0]).astype(np.float64)
        made = self.draw(draws.below, [chances], np.empty(chances.shape, np.bool_), self.seed(step))
        return [made.astype(step.outputs[0].dtype.numpy)]


class Multinomial(Draw):
    """Classes drawn by the unnormalised log-probabilities of each row."""

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        logits = self.ordered(np.asarray(values[0]).astype(np.float64))
        rows, count = logits.shape
        if rows and not count:
            raise ExecutionError("a row without classes has none to draw from")
        totals = np.empty_like(logits)
        self.call(draws.running_totals, [(logits, "in"), (totals, "out")])
        bad = ~(np.isfinite(totals[:, -1]) & (totals[:, -1] > 0)) if rows else np.zeros(0, bool)
        if bad.any():
            raise ExecutionError(f"row {int(bad.argmax())} of its input holds no probabilities")
        drawn = np.empty((rows, step.attr("sample_size")), np.int64)
        state = np.empty(draws.STATE, np.uint32)
        operands: list[Any] = [(state, "out"), (totals, "in"), (drawn, "out")]
        self.call(draws.classes, operands, [self.seed(step)])
        return [drawn.astype(step.outputs[0].dtype.numpy)]


class TrainingDropout(Draw):
    """Elements zeroed at random and the others scaled up, where `training_mode` says so."""

    def supports(self, step: Step) -> bool | str:
        if step.input(2) is None:
            return "it is not in training mode"
        return super().supports(step)

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        x, ratio, training = values
        share = 0.5 if ratio is None else float(np.asarray(ratio).reshape(-1)[0])
        if not np.asarray(training).reshape(-1)[0] or share == 0:
            return [x, np.ones(x.shape, np.bool_)][: len(step.outputs)]
        if not 0 <= share < 1:
            raise ExecutionError(f"its ratio is {share}, which must be at least 0 and below 1")
        kept = self.draw(draws.not_below, [], np.empty(x.shape, np.bool_), self.seed(step), share)
        wide = self.ordered(np.asarray(x).astype(np.float64)).reshape(-1)
        out = np.empty(wide.shape, np.float64)
        self.call(
            draws.keep, [(wide, "in"), (kept.reshape(-1), "in"), (out, "out")], [1 / (1 - share)]
        )
        y = out.reshape(x.shape).astype(step.outputs[0].dtype.numpy)
        return [y, kept][: len(step.outputs)]


def _room(step: Step, values: Sequence[Any]) -> NDArray[np.float64]:
    shape = np.shape(values[0]) if values else tuple(step.attr("shape"))
    return np.empty(shape, np.float64)


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    for op in ("RandomUniform", "RandomUniformLike"):
        library.kernel(op, name="uniform")(Uniform)
    for op in ("RandomNormal", "RandomNormalLike"):
        library.kernel(op, name="normal")(Normal)
    library.kernel("Bernoulli", name="bernoulli")(Bernoulli)
    library.kernel("Multinomial", name="multinomial")(Multinomial)
    library.kernel("Dropout", name="dropout")(TrainingDropout)

"""The first Scan went over a batch, each entry with a length of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_variable
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Symbol, body_level
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx.constants import ints
from neuralsym.engines.onnx.raise_older.old import Old


def scan(old: Old) -> Sequence[Symbol]:
    """A scan of each entry of the batch.

    With lengths the entries are cut before, and what comes of them is filled with zeros up to the
    longest length possible, whose values the text leaves open.
    """
    lengths = old.inputs[0]
    given = [old.input(i) for i in range(1, len(old.inputs))]
    if directions := old.take("directions"):
        old.attrs["scan_input_directions"] = directions
    scanned = old.attrs["num_scan_inputs"]
    outer = given if lengths is None else [*given, lengths]
    with body_level():
        entries = [make_variable(None, _without_batch(old, s.type)) for s in outer]
        around = tuple(make_variable(None, s.type) for s in old.captures)
        if lengths is None:
            inner = [*_run(old, entries, old.attrs, around)]
        else:
            inner = _cut(old, entries[:-1], entries[-1], scanned, around)
        body = Graph(inner, [*entries, *around])
    attrs = {"body": body, "num_scan_inputs": len(outer)}
    op = find_op("Scan")
    made = apply(op, outer, attrs, outputs=old.count, captures=old.captures, where=old.where)
    old.made.add(made[0].node)
    return made


def _run(
    old: Old, entries: Sequence[Symbol], attrs: dict[str, Any], around: tuple[Symbol, ...]
) -> tuple[Symbol, ...]:
    op = find_op("Scan")
    return apply(op, entries, attrs, outputs=old.count, captures=around, where=old.where)


def _cut(
    old: Old, entries: Sequence[Symbol], length: Symbol, scanned: int, around: tuple[Symbol, ...]
) -> list[Symbol]:
    states = len(entries) - scanned
    end = old.op("Reshape", old.cast(length, NumberType.INT64), ints([1]))
    longest = old.op("Shape", entries[states], start=0, end=1)
    cut = [old.op("Slice", s, ints([0]), end, ints([0])) for s in entries[states:]]
    made = _run(old, [*entries[:states], *cut], old.attrs, around)
    missing = old.op("Concat", ints([0]), old.op("Sub", longest, end), axis=0)
    filled = [old.op("Pad", s, missing, None, ints([0])) for s in made[states:]]
    return [*made[:states], *filled]


def _without_batch(old: Old, type: Type) -> Type:
    if not isinstance(type, TensorType) or type.shape == ():
        old.refuse(f"{type} has no batch axis")
    return TensorType(type.dtype, None if type.shape is None else type.shape[1:])

"""Damaged .flow files: reading one and making graphs of it gives an error in words or a result.

No other exception, no file that takes over a second, no memory beyond four times the file and
64 MiB. Files are damaged byte by byte, spliced, and by parts: types, attributes, shapes, wiring.
"""

from __future__ import annotations

import random
import signal
import struct
import time
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from flow_files import FILES, as_bytes

from neuralsym.engines import flow as engine
from neuralsym.engines.flow import Flow
from neuralsym.engines.flow.elementwise import ELEMENTWISE
from neuralsym.engines.flow.operations import OPERATIONS
from neuralsym.engines.tensorflow import TENSORFLOW
from neuralsym.errors import FormatError, NeuralsymError

SEEDS = [as_bytes(text) for text in FILES.values()]
TYPES = [
    *ELEMENTWISE, *OPERATIONS, *TENSORFLOW, *TENSORFLOW,
    "Calculate", "Reference", "ai.onnx.Conv", "ai.onnx.Gemm",
]  # fmt: skip
DTYPES = [
    "float32",
    "float16",
    "int32",
    "int64",
    "bool",
    "uint8",
    "string",
    "resource",
    "",
    "&int8",
]
NUMBERS = [-(2**31), -2, -1, 0, 1, 2, 3, 7, 255, 65536, 2**24, 2**30, 2**31 - 1]
ATTRIBUTES = {
    "axis": ["0", "1", "-1", "9", "x", "[0,1]", ""],
    "transpose_a": ["1", "true", "0"],
    "perm": ["[1,0]", "[0,0]", "1,0", "[7]"],
    "depth": ["3", "-1", "2147483647"],
    "batch": ["0", "1", "-3"],
    "keepdims": ["1", "0"],
    "pooled": ["1"],
    "expr": ["@0=Add(%0,%1)", "@0=Mul(%0,_3);@1=Id($0)", "@0=Relu(%0", "$0=Neg(%0);@0=$0", "@9=%9"],
    "alpha": ["0.5", "1e999", "null"],
    "kernel_shape": ["[3,3]", "[1000000,1000000]", "[]"],
    "squeeze_dims": ["[0]", "[5]"],
    "T": ["float32"],
    "num_split": ["2", "-1", "1000000"],
    "strides": ["1,2,2,1", "1,1", "0,0,0,0"],
    "ksize": ["1,3,3,1", "1,-1,0,1"],
    "padding": ["SAME", "EXPLICIT", "NONE"],
    "explicit_paddings": ["0,0,1,1,1,1,0,0", "1"],
    "data_format": ["NCHW", "N", ""],
    "is_training": ["false"],
    "epsilon": ["0.001", "e"],
    "block_size": ["2", "0", "-7"],
    "begin_mask": ["1", "-1", "15"],
    "shrink_axis_mask": ["1", "7"],
    "new_axis_mask": ["1", "6"],
    "ellipsis_mask": ["1", "3"],
    "batch_dims": ["1", "-9"],
    "element_dtype": ["float32", "no"],
    "equation": ["ij,jk->ik", "i...->", "->", "i"],
    "out_type": ["int64", "?"],
    "f": ["f", "one", "two", "cell", "classifier", "nothing"],
    "f_inputs": ["x", "x,x,x", "", "nothing"],
    "f_outputs": ["y", "x", "x,y", ""],
    "body": ["f", "one", "two", "cell"],
    "body_inputs": ["x", "x,h"],
    "body_outputs": ["y", "y,x"],
    "cond": ["f", "one", "two"],
    "cond_inputs": ["x", ""],
    "cond_outputs": ["y", ""],
}
VALUES = [
    *(np.array(v, np.int32) for v in (0, 1, -1, 7, [0], [1], [-1, 2], [2, 2], [0, 0, 0, 0])),
    *(np.array(v, np.int64) for v in ([1, 2, 2, 1], [[0, 1], [1, 1]], [2**40, -(2**62)], [[]])),
    *(np.ones(s, np.float32) for s in ((), (2,), (3, 4), (1, 5, 5, 2), (3, 3, 2, 4), (2, 3, 4))),
]
SECONDS = 1.0
ROOM = 64 * 2**20


# -- damage --------------------------------------------------------------------------------------
def flipped(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def renumbered(data: bytes, rng: random.Random) -> bytes:
    """Some 32-bit number, a count, length or size, is another."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2))):
        small = [i for i in range(len(made) - 3) if made[i + 1 : i + 4] in (b"\0\0\0", b"\xff" * 3)]
        at = rng.choice(small or [0])
        number = rng.choice(NUMBERS) if rng.random() < 0.6 else rng.randrange(64)
        made[at : at + 4] = struct.pack("<i", number)[: len(made) - at]
    return bytes(made)


def cut(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    kept = rng.choice((0, rng.randrange(len(data) + 1)))
    return data[:at] + data[max(at, kept) :] if kept else data[:at]


def doubled(data: bytes, rng: random.Random) -> bytes:
    a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:b] + data[a:b] + data[b:]


def spliced(data: bytes, rng: random.Random) -> bytes:
    other = rng.choice(SEEDS)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def by_parts(data: bytes, rng: random.Random) -> bytes:
    """A whole file that says something else: other types, attributes, shapes, and wiring."""
    flow = Flow.from_bytes(data)
    if rng.random() < 0.6:
        for number, value in enumerate(rng.sample(VALUES, 3)):
            var = flow.var(f"more{number}", value.dtype.name, value.shape)
            var.data = value if value.dtype.kind == "i" or rng.random() < 0.5 else None
    variables, operations = list(flow.vars.values()), list(flow.ops.values())
    for _ in range(rng.choice((1, 2, 3, 5))):
        if operations and rng.random() < 0.7:
            op = rng.choice(operations)
            change = rng.randrange(4)
            if change == 0:
                op.type = rng.choice(TYPES)
                for name in rng.sample(list(ATTRIBUTES), rng.randrange(12)):
                    op.attrs[name] = rng.choice(ATTRIBUTES[name])
            elif change == 1:
                name = rng.choice(list(ATTRIBUTES))
                op.attrs[name] = rng.choice(ATTRIBUTES[name])
            elif change == 2:
                op.inputs = [rng.choice(variables) for _ in range(rng.randrange(5))]
            elif op.inputs:
                op.inputs[rng.randrange(len(op.inputs))] = rng.choice(variables)
        elif variables:
            var = rng.choice(variables)
            change = rng.randrange(5)
            if change == 0:
                var.type = rng.choice(DTYPES)
            elif change == 1:
                var.shape = [
                    rng.choice((-1, 0, 1, 2, 3, 4, 2**20)) for _ in range(rng.randrange(5))
                ]
            elif change == 2:
                var.flags ^= 1 << rng.randrange(10)
            elif change == 3:
                var.data = bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
            else:
                var.data = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # flags that version 3 and 4 cannot hold
        return flow.to_bytes()


DAMAGE: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flipped, renumbered, cut, doubled, spliced, by_parts, by_parts, by_parts,
)  # fmt: skip


def damaged(rng: random.Random) -> bytes:
    data = rng.choice(SEEDS)
    kind = rng.choice(DAMAGE)
    data = kind(data, rng)
    if kind is not by_parts and data and rng.random() < 0.3:
        data = rng.choice(DAMAGE[:5])(data, rng)
    return data


# -- what may come of it -------------------------------------------------------------------------
@contextmanager
def limited() -> Iterator[None]:
    """Interrupt what computes for longer than it may."""

    def stop(*_: Any) -> None:
        raise AssertionError(f"it computes for over {SECONDS} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def outcome(data: bytes) -> str:
    """What comes of a file; any exception but our own goes on."""
    try:
        flow = Flow.from_bytes(data)
    except FormatError:
        return "not read"
    assert Flow.from_bytes(flow.to_bytes()).to_bytes() == flow.to_bytes()
    try:
        if len(data) % 2:
            engine.read_model(flow)
        else:
            engine.read_model(flow, 1, TENSORFLOW)
    except FormatError:
        return "read, no graph"
    except NeuralsymError as error:
        return f"read, {type(error).__name__}"
    return "graph"


def run(seed: int, count: int) -> None:
    rng = random.Random(seed)
    found: Counter[str] = Counter()
    slowest, most = 0.0, 0
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in range(count):
                data = damaged(rng)
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                begun = time.thread_time()
                try:
                    with limited():
                        found[outcome(data)] += 1
                except BaseException as error:
                    error.add_note(f"file {number} of seed {seed}: {data.hex()}")
                    raise
                slowest = max(slowest, time.thread_time() - begun)
                used = tracemalloc.get_traced_memory()[1] - before
                most = max(most, used)
                assert used <= 4 * len(data) + ROOM, f"{used} bytes for {data.hex()}"
    finally:
        tracemalloc.stop()
    shown = ", ".join(f"{kind}: {n}" for kind, n in sorted(found.items()))
    print(f"seed {seed}: {count} files; {shown}; slowest {slowest:.3f} s; most {most} bytes")
    assert slowest <= SECONDS
    assert found["not read"] and found["read, no graph"] and found["graph"]


def test_damaged_flows_are_refused_in_words() -> None:
    run(0, 400)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_many_damaged_flows_are_refused_in_words(seed: int) -> None:
    run(seed, 26_000)

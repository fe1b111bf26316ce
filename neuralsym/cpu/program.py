"""What a graph becomes on the way to machine code: buffers, steps and segments.

A Program is made once per graph and holds symbolic shapes; `Sizes` gives its dimensions for one
run. Nothing here knows an operator or an instruction set. What kernel authors rely on:

- layouts are settled before a kernel's `adjust` runs (cpu/layout.py: kernels state `forms`);
- the halo of a buffer is zeroed by rows that the plan puts before the first kernel that writes to
  it: kernels write inner pixels only, all lanes, and zero to lanes beyond the last channel;
- a blocked buffer may be a part of a larger one, so only its `Sizes.strides` tell where things lie;
- a word may be an array of int64: a table that the plan keeps and whose address is passed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.dim import Dim, evaluate
from neuralsym.core.locks import cached_property
from neuralsym.core.op import Op
from neuralsym.core.symbol import Node
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch, Where

if TYPE_CHECKING:
    from neuralsym.cpu.emit import Code
    from neuralsym.cpu.library import Kernel


@dataclass(frozen=True)
class Layout:
    """How the elements of a tensor lie in memory.

    block 0 is row-major. Otherwise axis 1 (channels) is cut into blocks of `block` that become
    the last axis, NCHW -> N, C/block, H + halo, W + halo, block: the vectors of the SIMD kernels.
    `halo` is a border of (before, after) zeros for each spatial axis, so that no kernel has edge
    cases; lanes beyond the last channel are zero.
    """

    block: int = 0
    halo: tuple[tuple[int, int], ...] = ()


PLAIN = Layout()


class Role(Enum):
    """Where the memory of a buffer comes from."""

    INPUT = "input"
    OUTPUT = "output"
    LOCAL = "local"
    CONSTANT = "constant"
    HOST = "host"
    """A Python object beside the arena: a sequence, an optional, strings."""


@dataclass(eq=False)
class Buffer:
    """A tensor of the program.

    `constant` is the value of a weight or constant, or the default of an input. `view` makes this
    buffer a part of another one's memory: the branch of a Concat written in place, or a reshape.
    `known` is a value made of sizes alone (ints and Dims): no step computes it, the plan writes it.
    """

    name: str
    type: Type
    role: Role = Role.LOCAL
    layout: Layout = PLAIN
    constant: Tensor | None = None
    view: View | None = None
    known: NDArray[Any] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the value is known before the run computes anything."""
        return self.role is Role.CONSTANT or self.known is not None

    @property
    def is_tensor(self) -> bool:
        """Whether it lies in memory as numbers: false for sequences, optionals and strings."""
        return self.role is not Role.HOST

    @property
    def tensor(self) -> TensorType:
        assert isinstance(self.type, TensorType)
        return self.type

    @property
    def dtype(self) -> NumberType:
        return self.tensor.dtype

    @property
    def rank(self) -> int:
        shape = self.tensor.shape
        assert shape is not None
        return len(shape)

    @cached_property
    def value(self) -> NDArray[Any]:
        """The array of a constant."""
        assert self.constant is not None
        return self.constant.value

    def __repr__(self) -> str:
        return f"<Buffer {self.name} {self.type} {self.role.value}>"


@dataclass(frozen=True)
class View:
    """A place inside another buffer: `channel` is where along axis 1 the part begins.

    For a Concat along axis 1 of blocked buffers the part starts `channel // block` blocks in and
    keeps the whole's batch stride; for a plain reshape `channel` is 0 and the memory is the same.
    """

    whole: Buffer
    channel: int = 0


@dataclass(frozen=True)
class Operand:
    """A word of a descriptor that is the address of a buffer, plus a byte offset."""

    buffer: Buffer
    offset: int = 0


Word = int | Operand | NDArray[np.int64]
"""A number, an address inside the arena, or a table whose address is passed."""


def float_word(value: float) -> int:
    """A float64 as the int64 of the same bits, for a descriptor."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def float32_word(value: float) -> int:
    """A float32 in the low half of an int64, for a descriptor."""
    return int(struct.unpack("<i", struct.pack("<f", value))[0])


@dataclass(frozen=True)
class Row:
    """One row of the driver's table: code, its descriptor, and whether one worker runs it alone."""

    code: Code | int
    """The kernel, or the address of a host callback."""
    words: Sequence[Word]
    serial: bool = False


@dataclass(eq=False)
class Step:
    """One operation: where it comes from, what it reads and writes, the kernel that runs it.

    `captures` are values of the outer graph that bodies in `attrs` use. `refusals` says why other
    kernels were not taken. `in_place` are (input, output) pairs that may share memory where the
    input dies here. `number` is its place among the steps of the program.
    """

    op: type[Op]
    attrs: Mapping[str, Any]
    name: str
    inputs: tuple[Buffer | None, ...]
    outputs: tuple[Buffer, ...]
    where: Where | None = None
    captures: tuple[Buffer, ...] = ()
    node: Node | None = None
    """The node that it stands for; None for a step that the compiler has put in."""
    number: int = 0
    kernel: Kernel | None = None
    refusals: list[tuple[str, str]] = field(default_factory=list)
    in_place: list[tuple[int, int]] = field(default_factory=list)
    constants: dict[str, Buffer] = field(default_factory=dict)
    scratch: dict[str, Scratch] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    """What a kernel's `adjust` decides for its later `rows`: a tile plan, a variant."""
    relies_on_sizes: bool = False
    """Whether a plan has to ask the operator if it takes the sizes (cpu/agreement.py)."""

    def attr(self, name: str) -> Any:
        """The attribute, or its default; None where it has neither."""
        if name in self.attrs:
            return self.attrs[name]
        spec = self.op.schema.attributes.get(name)
        return spec.default if spec else None

    def input(self, index: int) -> Buffer | None:
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def late(self) -> tuple[Buffer, ...]:
        """The settings of its kernel that only the run computes."""
        assert self.kernel is not None
        given = (self.input(i) for i in self.kernel.settings(self))
        return tuple(b for b in given if b is not None and not b.is_settled)

    @property
    def operands(self) -> tuple[Buffer, ...]:
        """Every buffer that the step may read: its given inputs, then its captures."""
        return (*(b for b in self.inputs if b is not None), *self.captures)

    def describe(self) -> str:
        """`Conv 'stem/conv'`, for messages."""
        return f"{self.op.__name__} {self.name!r}"

    def pack(self, key: str, make: Callable[[], NDArray[Any]]) -> Buffer:
        """A constant of the kernel's own, such as weights in its order; made once, when loading.

        Equal `key`s of one step are one constant. The array is kept 64-byte aligned.
        """
        if key not in self.constants:
            array = np.ascontiguousarray(make())
            tensor = Tensor.of(array)
            type_ = TensorType(tensor.dtype, tensor.shape)
            self.constants[key] = Buffer(
                f"{self.name}.{key}", type_, Role.CONSTANT, constant=tensor
            )
        return self.constants[key]

    def need_scratch(self, key: str, size: Callable[[Sizes], int]) -> Buffer:
        """Memory of `size(sizes)` bytes while the step runs; its content is not kept."""
        if key not in self.scratch:
            type_ = TensorType(NumberType.UINT8, (None,))
            self.scratch[key] = Scratch(Buffer(f"{self.name}.{key}", type_), size)
        return self.scratch[key].buffer


@dataclass(frozen=True, eq=False)
class Scratch:
    """Working memory of a step."""

    buffer: Buffer
    size: Callable[[Sizes], int]


class Sizes:
    """The dimensions of one run: names bound to sizes, and what follows from them."""

    def __init__(self, names: Mapping[str, int], workers: int = 1) -> None:
        self.names = dict(names)
        self.workers = workers
        self._shapes: dict[Buffer, tuple[int, ...]] = {}
        self.read: dict[Buffer, NDArray[Any]] = {}
        """The values of settings that the run has computed."""

    @property
    def key(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self.names.items()))

    def copy(self) -> Sizes:
        """The same sizes, to which more can be bound."""
        made = Sizes(self.names, self.workers)
        made._shapes = dict(self._shapes)
        made.read = dict(self.read)
        return made

    def bind(self, buffer: Buffer, shape: tuple[int, ...]) -> None:
        """Set the shape of a buffer whose dimensions depend on data, once they are known.

        Names among its dimensions are bound to their sizes; ShapeMismatch where a name has
        another size already, or the rank is another.
        """
        declared = buffer.tensor.shape
        if declared is not None:
            if len(declared) != len(shape):
                raise ShapeMismatch(f"{buffer.name} is {buffer.type}, it came as {list(shape)}")
            for dim, size in zip(declared, shape, strict=True):
                if is_plain_name(dim):
                    old = self.names.setdefault(str(dim), size)
                    if old != size:
                        raise ShapeMismatch(
                            f"{buffer.name} is {buffer.type}: {dim} is {old} in this run, "
                            f"but it came as {list(shape)}"
                        )
            for dim, size in zip(declared, shape, strict=True):
                if dim is not None and evaluate(dim, self.names) != size:
                    raise ShapeMismatch(f"{buffer.name} is {buffer.type}, it came as {list(shape)}")
        self._shapes[buffer] = shape

    def dim(self, size: int | Dim) -> int:
        return evaluate(size, self.names)

    def shape(self, buffer: Buffer) -> tuple[int, ...]:
        """The shape of a buffer; ShapeMismatch while a part of it is unknown."""
        found = self._shapes.get(buffer)
        if found is None:
            shape = buffer.tensor.shape
            if shape is None or None in shape:
                raise ShapeMismatch(f"the shape of {buffer.name} depends on data")
            found = tuple(evaluate(d, self.names) for d in shape if d is not None)
            if any(d < 0 for d in found):
                raise ShapeMismatch(f"{buffer.name} would have the shape {found}")
            self._shapes[buffer] = found
        return found

    def memory_shape(self, buffer: Buffer) -> tuple[int, ...]:
        """The shape in memory: with blocks, padded channels and halo where the layout has them."""
        shape = self.shape(buffer)
        block = buffer.layout.block
        if not block:
            return shape
        halo = buffer.layout.halo or ((0, 0),) * (len(shape) - 2)
        spatial = (d + a + b for d, (a, b) in zip(shape[2:], halo, strict=True))
        return (shape[0], -(-shape[1] // block), *spatial, block)

    def strides(self, buffer: Buffer) -> tuple[int, ...]:
        """The byte strides of `memory_shape`; those of the whole for a part of a Concat."""
        whole = buffer
        while whole.view is not None and buffer.layout.block:
            whole = whole.view.whole
        return row_strides(self.memory_shape(whole), buffer.dtype.itemsize)

    def origin(self, buffer: Buffer) -> int:
        """Bytes from the buffer's start to its first inner pixel: 0 without a halo."""
        strides = self.strides(buffer)
        return sum(a * s for (a, _), s in zip(buffer.layout.halo, strides[2:], strict=False))

    def offset(self, buffer: Buffer) -> int:
        """The byte offset of a buffer inside the one that owns its memory."""
        total = 0
        while buffer.view is not None:
            if buffer.view.channel:
                strides = self.strides(buffer)
                total += buffer.view.channel // max(buffer.layout.block, 1) * strides[1]
            buffer = buffer.view.whole
        return total

    def value(self, buffer: Buffer) -> NDArray[Any]:
        """The value of a buffer that is known from sizes alone."""
        assert buffer.known is not None
        flat = [evaluate(d, self.names) for d in buffer.known.reshape(-1).tolist()]
        return np.array(flat, dtype=buffer.dtype.numpy).reshape(buffer.known.shape)

    def setting(self, buffer: Buffer) -> NDArray[Any]:
        """The value of a setting: constant, known from sizes, or read when the run has made it."""
        if buffer.known is not None:
            return self.value(buffer)
        return buffer.value if buffer.role is Role.CONSTANT else self.read[buffer]

    def nbytes(self, buffer: Buffer) -> int:
        size = buffer.dtype.itemsize
        for d in self.memory_shape(buffer):
            size *= d
        return size


def is_plain_name(dim: object) -> bool:
    """Whether a dimension is a name alone, which a value's shape can bind."""
    return isinstance(dim, Dim) and dim.is_name and dim.text in dim.names


def owner(buffer: Buffer) -> Buffer:
    """The buffer that holds the memory of `buffer`."""
    while buffer.view is not None:
        buffer = buffer.view.whole
    return buffer


def row_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The byte strides of a row-major array."""
    strides = [itemsize] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


@dataclass(eq=False)
class Segment:
    """Steps whose shapes are all known once those before have run.

    `reads` are settings that earlier segments, or the feeder, have computed: the runtime reads
    their values before it plans the segment, and works out the shapes of the steps in `late`,
    which depend on them, in order. `defines` are buffers whose shapes the last step, a host step,
    tells; the runtime binds them, plans the next segment and puts their values into its memory.
    """

    steps: list[Step] = field(default_factory=list)
    defines: list[Buffer] = field(default_factory=list)
    late: list[Step] = field(default_factory=list)
    reads: list[Buffer] = field(default_factory=list)


@dataclass(eq=False)
class Program:
    """A graph as steps over buffers, in segments."""

    name: str
    segments: list[Segment]
    inputs: dict[str, Buffer]
    outputs: dict[str, Buffer]
    updates: dict[str, Buffer] = field(default_factory=dict)
    """Variables that are written back after a run, with the buffer of their new value."""
    dims: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """For each dimension name, the (input, axis) pairs that show its size."""

    @cached_property
    def steps(self) -> list[Step]:
        """All steps; `Step.number` is the index here."""
        return [step for segment in self.segments for step in segment.steps]

    def __reduce__(self) -> str:
        raise TypeError("a compiled program is never pickled: pickle its Network or Graph")

"""A small writer of LLVM IR text.

Kernels of ours are written as text because parsing and code generation then take some 25 ms,
a tenth of what numba needs for the same loop. A `Function` hands out SSA names; `loop` makes a
counted loop whose carried values are phis. Vector widths are parameters, nowhere literals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

KERNEL_PARAMETERS = (("frame", "ptr"), ("desc", "ptr"), ("worker", "i32"), ("workers", "i32"))


@dataclass
class Loop:
    """The inside of a counted loop: its index, its carried values, and `next` to set them.

    `step` may be set inside, to a value computed there.
    """

    index: str
    values: tuple[str, ...]
    pending: tuple[str, ...] = ()
    step: str | int = 1

    def next(self, *values: str) -> None:
        self.pending = values


@dataclass
class Module:
    """A set of functions and the intrinsics that they declare.

    `converts_halves`: whether the machine converts between float16 and float32; `scales`: whether
    it multiplies vectors of float32 by powers of two.
    """

    functions: list[Function] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)
    globals: list[str] = field(default_factory=list)
    converts_halves: bool = True
    scales: bool = False

    def function(
        self,
        name: str,
        parameters: Sequence[tuple[str, str]] = KERNEL_PARAMETERS,
        returns: str = "i32",
        private: bool = False,
        attributes: str = "",
    ) -> Function:
        made = Function(self, name, tuple(parameters), returns, private, attributes)
        self.functions.append(made)
        return made

    def __str__(self) -> str:
        parts = [*self.globals, *sorted(self.declarations), *map(str, self.functions)]
        return "\n".join(parts) + "\n"


@dataclass
class Function:
    """One function under construction; every method that computes returns an SSA name."""

    module: Module
    name: str
    parameters: tuple[tuple[str, str], ...]
    returns: str
    private: bool = False
    attributes: str = ""
    lines: list[str] = field(default_factory=lambda: ["entry:"])
    block: str = "entry"
    counter: int = 0

    # -- text ------------------------------------------------------------------------------
    def value(self, text: str) -> str:
        """Append an instruction and name its result."""
        self.counter += 1
        name = f"%v{self.counter}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}")

    def new_label(self, hint: str) -> str:
        self.counter += 1
        return f"{hint}{self.counter}"

    def start(self, label: str) -> None:
        """Begin the basic block `label`; the caller has ended the one before."""
        self.lines.append(f"{label}:")
        self.block = label

    def __str__(self) -> str:
        linkage = "internal " if self.private else ""
        head = ", ".join(f"{kind} %{name}" for name, kind in self.parameters)
        body = "\n".join(self.lines)
        tail = f"nounwind {self.attributes}".rstrip()
        return f"define {linkage}{self.returns} @{self.name}({head}) {tail} {{\n{body}\n}}"

    # -- integers and addresses ------------------------------------------------------------
    def add(self, a: str | int, b: str | int) -> str:
        if b in (0, "0"):
            return str(a)
        if a in (0, "0"):
            return str(b)
        return self.value(f"add i64 {a}, {b}")

    def sub(self, a: str | int, b: str | int) -> str:
        return str(a) if b in (0, "0") else self.value(f"sub i64 {a}, {b}")

    def mul(self, a: str | int, b: str | int) -> str:
        if 1 in (a, b) or "1" in (a, b):
            return str(b) if a in (1, "1") else str(a)
        return self.value(f"mul i64 {a}, {b}")

    def sdiv(self, a: str | int, b: str | int) -> str:
        return self.value(f"sdiv i64 {a}, {b}")

    def srem(self, a: str | int, b: str | int) -> str:
        return self.value(f"srem i64 {a}, {b}")

    def minimum(self, a: str | int, b: str | int) -> str:
        return self.select(self.compare("slt", a, b), "i64", a, b)

    def maximum(self, a: str | int, b: str | int) -> str:
        return self.select(self.compare("sgt", a, b), "i64", a, b)

    def compare(self, how: str, a: str | int, b: str | int, kind: str = "i64") -> str:
        return self.value(f"icmp {how} {kind} {a}, {b}")

    def select(self, condition: str, kind: str, a: str | int, b: str | int) -> str:
        return self.value(f"select i1 {condition}, {kind} {a}, {kind} {b}")

    def at(self, base: str, offset: str | int) -> str:
        """`base` plus a byte offset."""
        if offset in (0, "0"):
            return base
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}")

    def pointer(self, address: str) -> str:
        return self.value(f"inttoptr i64 {address} to ptr")

    def load(self, kind: str, address: str, align: int = 4) -> str:
        return self.value(f"load {kind}, ptr {address}, align {align}")

    def store(self, kind: str, value: str, address: str, align: int = 4) -> None:
        self.do(f"store {kind} {value}, ptr {address}, align {align}")

    def word(self, index: int) -> str:
        """The int64 at `index` of the kernel's descriptor."""
        return self.load("i64", self.at("%desc", 8 * index), 8)

    def operand(self, index: int) -> str:
        """The address at `index` of the kernel's descriptor, as a pointer."""
        return self.load("ptr", self.at("%desc", 8 * index), 8)

    def share(self, total: str | int) -> tuple[str, str]:
        """This worker's part `[low, high)` of `total` units of work."""
        worker = self.value("sext i32 %worker to i64")
        workers = self.value("sext i32 %workers to i64")
        low = self.sdiv(self.mul(total, worker), workers)
        high = self.sdiv(self.mul(total, self.add(worker, 1)), workers)
        return low, high

    # -- vectors ---------------------------------------------------------------------------
    def splat(self, scalar: str, element: str, width: int) -> str:
        if width == 1:
            return scalar
        kind = f"<{width} x {element}>"
        first = self.value(f"insertelement {kind} poison, {element} {scalar}, i32 0")
        zeros = f"<{width} x i32> zeroinitializer"
        return self.value(f"shufflevector {kind} {first}, {kind} poison, {zeros}")

    def call(self, intrinsic: str, kind: str, *arguments: str) -> str:
        """Call the overloaded LLVM intrinsic `intrinsic` on values that all have type `kind`."""
        declaration, called = _overload(intrinsic, kind, len(arguments))
        self.module.declarations.add(declaration)
        return self.value(called % arguments)

    def prefetch(self, address: str, locality: int = 3, write: bool = False) -> None:
        self.module.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.do(
            f"call void @llvm.prefetch.p0(ptr {address}, i32 {int(write)}, i32 {locality}, i32 1)"
        )

    def masked_load(self, kind: str, address: str, mask: str, align: int = 4) -> str:
        """The lanes of a vector in memory that `mask` selects, zero elsewhere and not touched."""
        name, lanes = f"@llvm.masked.load.{mangled(kind)}.p0", _mask_kind(kind)
        self.module.declarations.add(f"declare {kind} {name}(ptr, i32, {lanes}, {kind})")
        arguments = f"ptr {address}, i32 {align}, {lanes} {mask}, {kind} zeroinitializer"
        return self.value(f"call {kind} {name}({arguments})")

    def masked_store(self, kind: str, value: str, address: str, mask: str, align: int = 4) -> None:
        """Store the lanes that `mask` selects and touch no others."""
        name, lanes = f"@llvm.masked.store.{mangled(kind)}.p0", _mask_kind(kind)
        self.module.declarations.add(f"declare void {name}({kind}, ptr, i32, {lanes})")
        arguments = f"{kind} {value}, ptr {address}, i32 {align}, {lanes} {mask}"
        self.do(f"call void {name}({arguments})")

    def lane_mask(self, count: str | int, width: int) -> str:
        """A mask of `width` lanes whose first `count` are set."""
        # Narrow lanes compare in one vector; a count has room in them when it is cut to the width.
        kind = "i32"
        short = self.value(f"trunc i64 {self.minimum(count, width)} to {kind}")
        lanes = "<" + ", ".join(f"{kind} {i}" for i in range(width)) + ">"
        limit = self.splat(short, kind, width)
        return self.value(f"icmp slt <{width} x {kind}> {lanes}, {limit}")

    # -- control ---------------------------------------------------------------------------
    @contextmanager
    def loop(
        self,
        count: str | int,
        *carried: tuple[str, str],
        start: str | int = 0,
        step: int = 1,
    ) -> Iterator[Loop]:
        """for index in range(start, count, step); `carried` are (type, first value) pairs.

        Inside, `next(...)` says the carried values of the next turn; afterwards the `values` of
        the yielded Loop are those that left it.
        """
        head, body, done = (self.new_label(hint) for hint in ("head", "body", "done"))
        before = self.block
        self.do(f"br label %{head}")
        self.start(head)
        position = len(self.lines)
        index = self._reserve()
        values = tuple(self._reserve() for _ in carried)
        running = self.compare("slt", index, count)
        self.do(f"br i1 {running}, label %{body}, label %{done}")
        self.start(body)
        inside = Loop(index, values, values, step)
        yield inside
        following = self.add(index, inside.step)
        latch = self.block
        phis = [f"  {index} = phi i64 [{start}, %{before}], [{following}, %{latch}]"]
        for name, (kind, first), new in zip(values, carried, inside.pending, strict=True):
            phis.append(f"  {name} = phi {kind} [{first}, %{before}], [{new}, %{latch}]")
        self.lines[position:position] = phis
        self.do(f"br label %{head}")
        self.start(done)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Run the inside only if `condition` (an i1) holds; it computes nothing for later."""
        then, after = self.new_label("then"), self.new_label("after")
        self.do(f"br i1 {condition}, label %{then}, label %{after}")
        self.start(then)
        yield
        self.do(f"br label %{after}")
        self.start(after)

    def choose(
        self,
        condition: str,
        kinds: Sequence[str],
        then: Callable[[], Sequence[str]],
        otherwise: Callable[[], Sequence[str]],
    ) -> tuple[str, ...]:
        """The values (of types `kinds`) of whichever of two blocks of code `condition` selects."""
        first, second, join = (self.new_label(hint) for hint in ("yes", "no", "join"))
        self.do(f"br i1 {condition}, label %{first}, label %{second}")
        sides = []
        for label, code in ((first, then), (second, otherwise)):
            self.start(label)
            values = tuple(code())
            sides.append((values, self.block))
            self.do(f"br label %{join}")
        self.start(join)
        (yes, from_yes), (no, from_no) = sides
        return tuple(
            self.value(f"phi {kind} [{a}, %{from_yes}], [{b}, %{from_no}]")
            for kind, a, b in zip(kinds, yes, no, strict=True)
        )

    def _reserve(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"


def _mask_kind(kind: str) -> str:
    """The type of a mask for vectors of type `kind`."""
    return kind.split(" x ")[0] + " x i1>"


@cache
def _overload(intrinsic: str, kind: str, count: int) -> tuple[str, str]:
    """The declaration of an intrinsic, and the form of its call."""
    name = f"@llvm.{intrinsic}.{mangled(kind)}"
    types, forms = (", ".join([each] * count) for each in (kind, f"{kind} %s"))
    return f"declare {kind} {name}({types})", f"call {kind} {name}({forms})"


@cache
def mangled(kind: str) -> str:
    """The suffix by which LLVM names an overload: `<16 x float>` -> `v16f32`."""
    names = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}
    if kind.startswith("<"):
        width, element = kind[1:-1].split(" x ")
        return f"v{width}{names.get(element, element)}"
    return names.get(kind, kind)

"""Kernels from their source to an address: IR text of ours or array functions, through the store.

The ABI of every kernel, `int32 kernel(void* frame, int64* desc, int32 worker, int32 workers)`:
`desc` is its row of descriptor words (operand addresses, dims, strides, attributes). Zero is
success, any other value stops the run. A kernel never raises and never allocates, and takes its
share of the work by its worker number.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from neuralsym.core.locks import cached_property
from neuralsym.cpu.arrays import Operand, Scalar, array_ir, check_operand, fingerprint
from neuralsym.cpu.loader import loaded, resolvable
from neuralsym.cpu.machine import Target, binding
from neuralsym.cpu.quota import default_threads
from neuralsym.cpu.store import Store
from neuralsym.cpu.workshop import Workshop
from neuralsym.errors import NoKernel

ABI_VERSION = 1
"""Raised whenever the kernel ABI or the form of a descriptor changes."""

KEY_LENGTH = 40

CALL = re.compile(r"^\s+(?:callq?|jmpq?|bl?)\s+([A-Za-z_]\w*)(?:@PLT)?$", re.MULTILINE)
"""A call of another function, in assembly."""

INTRINSIC = re.compile(r"^declare [^@\n]*@llvm\.", re.MULTILINE)
"""The declaration of a function that is LLVM's own, in IR text."""

Form = TypeVar("Form", bytes, str)


class Progress(Protocol):
    """Called with how many kernels are ready, out of how many, and the name of the last."""

    def __call__(self, done: int, total: int, name: str, /) -> object: ...


@dataclass(frozen=True)
class Code:
    """A kernel's source: IR text (`Code(name, symbol, text)`) or an array function.

    name: for messages; symbol: the one function that is called from outside; optimize: LLVM's
    optimisation level for the text, 0 to 3. Hand-made vector code wants 0 (code generation always
    runs at level 3); plain scalar loops that LLVM should vectorise want 3.
    """

    name: str
    symbol: str
    text: str = field(default="", repr=False)
    optimize: int = 0
    function: Callable[..., Any] | None = field(default=None, repr=False)
    operands: tuple[Operand, ...] = ()
    attributes: tuple[Scalar, ...] = ()
    fast: bool = False
    checked: bool = False

    @cached_property
    def digest(self) -> str:
        """A digest of everything that the object depends on except the machine and the tools."""
        source = self.text if self.function is None else fingerprint(self.function)
        parts = (
            *(self.symbol, source, str(self.optimize), str(self.fast), str(self.checked)),
            *map(str, self.operands),
            *self.attributes,
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def key(self, target: Target) -> str:
        """The name of this kernel's object in the store."""
        tools = _tool_versions(self.function is not None)
        parts = (self.digest, str(ABI_VERSION), target.key, tools)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:KEY_LENGTH]

    def ir(self) -> str:
        """The LLVM IR text that this kernel is compiled from."""
        if self.function is None:
            return self.text
        return array_ir(
            self.name,
            self.symbol,
            self.function,
            self.operands,
            self.attributes,
            self.fast,
            self.checked,
        )


def array_kernel(
    function: Callable[..., Any],
    operands: Sequence[Sequence[Any]],
    attributes: Sequence[Scalar] = (),
    name: str | None = None,
    fast: bool = False,
    checked: bool = False,
) -> Code:
    """A kernel made of a plain Python function over arrays, compiled by numba.

    function: called as `function(*operands, *attributes)`, and with `worker, workers` (int64) at
        the end if those are the names of its last two parameters. Plain functions that it calls
        are compiled with it. It returns None or 0 for success, else an integer status; if it
        raises, the status is `arrays.RAISED`. It may not allocate (np.zeros, x + 1, lists) and
        divides as numpy does (x / 0 is inf or nan, i // 0 is 0).
    operands: (dtype name, rank, "in" | "out"[, contiguous=True]) each. "in" is read-only. bool,
        integers, float32/64 and complex arrive as such; float16 and bfloat16 as uint16, the
        8-bit floats as uint8 (neuralsym.cpu.narrow converts), integers of 4 and 2 bits as one byte
        each, whose upper bits are zero, for negative ones too.
    attributes: "int64", "float64" or "bool" each.
    fast: allow reordered and contracted sums (never ignoring NaN or infinity).
    checked: an index outside an array raises; numba looks at `x[i]`, not at `x.flat[i]`.

    Its row of descriptor words, in this order and without gaps:

        for each operand: address; `rank` dims; if not contiguous, `rank` strides in bytes
        for each attribute: its value (an int64; the bits of a float64; 0 or 1)

    `worker` and `workers` are not in the row. Raises BadAttribute for an operand that does not
    exist; NoKernel when it is compiled, if numba cannot.
    """
    title = name or function.__name__
    return Code(
        title,
        "kernel_" + re.sub(r"\W", "_", title, flags=re.ASCII),
        function=function,
        operands=tuple(check_operand(title, operand) for operand in operands),
        attributes=tuple(attributes),
        fast=fast,
        checked=checked,
    )


@lru_cache(maxsize=2)
def _tool_versions(with_numba: bool) -> str:
    """The versions of what made an object, found without importing numba."""
    import llvmlite

    versions = [f"llvmlite {llvmlite.__version__}"]
    if with_numba:
        spec = importlib.util.find_spec("numba")
        if spec is None or spec.origin is None:
            raise NoKernel("kernels written as array functions need numba, which is not installed")
        versions.append((Path(spec.origin).parent / "_version.py").read_text(encoding="utf-8"))
        # The fingerprint of a function is its bytecode, which differs between Pythons.
        versions.append(importlib.util.MAGIC_NUMBER.hex())
    return "\n".join(versions)


# -- objects ---------------------------------------------------------------------------------
compiling = threading.RLock()
"""Held by whoever compiles or has others compile."""
_machines = threading.local()

if hasattr(os, "register_at_fork"):
    # A fork waits until nobody compiles: the child could never use a lock that was taken, ours or
    # llvmlite's.
    os.register_at_fork(
        before=compiling.acquire,
        after_in_parent=compiling.release,
        after_in_child=compiling.release,
    )


def compile_object(code: Code, target: Target, level: int = 3) -> bytes:
    """The object file of one kernel, made now, neither stored nor loaded.

    level: of LLVM's code generation.

    NoKernel, naming the kernel, if its source is not valid, or if it needs functions that are
    nowhere in a process of ours.
    """
    return _compiled(code, target, _emitted, level)


def assembly(code: Code, target: Target) -> str:
    """The assembly text of one kernel, to read. Raises as `compile_object` does."""
    return _compiled(code, target, lambda machine, module: str(machine.emit_assembly(module)))


def _compiled(code: Code, target: Target, emit: Callable[[Any, Any], Form], level: int = 3) -> Form:
    """`emit(machine, module)` of the kernel's module, as it is after its passes."""
    text = code.ir()
    # LLVM's target machines and contexts are one thread's each.
    machines: dict[Any, tuple[Any, str]] = _machines.__dict__
    kind = (target, level)
    if kind not in machines:
        made = target.machine(level)
        machines[kind] = made, str(made.target_data)
    machine, layout = machines[kind]
    context = binding().create_context()
    try:
        # A module must be gone before its context, also if an error keeps this frame alive.
        with closing(binding().parse_assembly(text, context)) as module:
            _optimize(code, module, target, machine, layout)
            _check_symbols(code, module)
            return emit(machine, module)
    except RuntimeError as error:
        raise NoKernel(f"kernel {code.name} is not valid LLVM IR: {error}") from error
    finally:
        context.close()


def _emitted(machine: Any, module: Any) -> bytes:
    """`machine.emit_object(module)` without llvmlite's lock, which lets one thread in at a time.

    LLVM itself needs none where contexts differ. This is most of the time that compiling takes.
    """
    ffi = binding().ffi
    emit = getattr(ffi.lib.LLVMPY_TargetMachineEmitToMemory, "_cfn", None)
    if emit is None:
        return bytes(machine.emit_object(module))
    with ffi.OutputString() as message:
        buffer = emit(machine, module, 1, message)
        if not buffer:
            raise RuntimeError(str(message))
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _optimize(code: Code, module: Any, target: Target, machine: Any, layout: str) -> None:
    """Fit the module to the target, check it, and run the passes that it asks for."""
    llvm = binding()
    module.name = code.symbol
    module.triple = target.triple
    module.data_layout = layout
    if code.function is not None:
        # Only the kernel is called from outside; what it does not need can then go.
        for value in (*module.functions, *module.global_variables):
            if not value.is_declaration and value.name != code.symbol:
                value.linkage = "internal"
    module.verify()
    if code.function is not None or code.optimize:
        settings = llvm.create_pipeline_tuning_options(speed_level=code.optimize)
        settings.loop_vectorization = settings.slp_vectorization = code.optimize > 1
        builder = llvm.create_pass_builder(machine, settings)
        passes = llvm.create_new_module_pass_manager()
        if code.optimize:
            passes = builder.getModulePassManager()
        passes.add_global_dead_code_eliminate_pass()
        passes.add_strip_dead_prototype_pass()
        passes.run(module, builder)


def _check_symbols(code: Code, module: Any) -> None:
    """NoKernel if the kernel is missing, or calls what a process of ours does not have."""
    if code.function is None and _is_alone(code):
        return
    functions = list(module.functions)
    if not any(f.name == code.symbol and not f.is_declaration for f in functions):
        raise NoKernel(f"kernel {code.name} does not define its symbol {code.symbol!r}")
    outside = [f.name for f in functions if f.is_declaration and not f.name.startswith("llvm.")]
    values = [v.name for v in module.global_variables if v.is_declaration]
    if any(name.startswith(".numba.unresolved") for name in values):
        raise NoKernel(
            f"kernel {code.name} calls a function that calls itself with other types; use a loop"
        )
    outside += values
    python = [name for name in outside if name.startswith(("Py", "_Py", "numba_"))]
    memory = [name for name in outside if name.startswith("NRT_")]
    unknown = [name for name in outside if not resolvable(name)]
    for names, why in (
        (memory, "it allocates memory, which a kernel must not"),
        (python, "it uses Python objects, which a kernel must not"),
        (unknown, "no library of the process has them"),
    ):
        if names:
            raise NoKernel(f"kernel {code.name} needs {', '.join(sorted(names))}: {why}")


def _is_alone(code: Code) -> bool:
    """Whether a valid text plainly defines its symbol and asks for nothing but intrinsics.

    Asking LLVM takes a call for each name, after each of which a thread may have to wait for
    another one's turn in Python.
    """
    text = code.text
    declared = len(INTRINSIC.findall(text))
    return (
        declared == text.count("declare")
        and "external" not in text
        and "extern_weak" not in text
        and f"\ndefine i32 @{code.symbol}(" in f"\n{text}"
    )


def compile_all(
    codes: Sequence[Code],
    target: Target,
    store: Store,
    progress: Progress | None = None,
    threads: int | None = None,
) -> dict[str, int]:
    """The address of each kernel by its key: loaded already, from the store, or compiled now.

    The keys are in the order of `codes`. Equal kernels are made once; each is loaded once in the
    life of the process and never unloaded. Safe to call from many threads. At most `threads`
    compile (None: what the process may use). NoKernel, naming the kernel, for one that fails.
    """
    wanted: dict[str, Code] = {}
    for code in codes:
        wanted.setdefault(code.key(target), code)
    addresses: dict[str, int] = {}

    def ready(key: str, address: int) -> None:
        addresses[key] = address
        if progress is not None:
            progress(len(addresses), len(wanted), wanted[key].name)

    with compiling:
        missing: dict[str, Code] = {}
        for key, code in wanted.items():
            found = find(key, code, store)
            if found is None:
                missing[key] = code
            else:
                ready(key, found)
        for key, made in _made(missing, target, threads):
            ready(key, _load_new(key, wanted[key], target, made, store))
    # In the order of the codes, not in that of their being ready.
    return {key: addresses[key] for key in wanted}


def compile_one(code: Code, target: Target, store: Store) -> int:
    """The address of one kernel; see `compile_all`."""
    return compile_all([code], target, store)[code.key(target)]


def find(key: str, code: Code, store: Store) -> int | None:
    """The address of a kernel that is in memory or in the store."""
    known = loaded(key)
    if known is not None:
        return known
    stored = store.get(key)
    if stored is None:
        return None
    try:
        return loaded(key, code.symbol, stored)
    except RuntimeError:
        store.discard(key)
        return None


def _made(
    codes: Mapping[str, Code], target: Target, threads: int | None
) -> Iterator[tuple[str, bytes]]:
    """The objects of kernels as they get ready.

    Those of IR text are made on several threads; array functions on the calling one, since numba
    lets only one in.
    """
    texts = {key: code for key, code in codes.items() if code.function is None}
    # What the process may use is slow to ask.
    count = 1 if len(texts) < 2 else default_threads() if threads is None else threads
    shop = Workshop[str, bytes](min(len(texts), count))
    with shop:
        for key, code in texts.items():
            shop.ask(key, partial(compile_object, code, target))
        for key, code in codes.items():
            if key not in texts:
                yield key, compile_object(code, target)
        yield from shop.ready()


def _load_new(key: str, code: Code, target: Target, made: bytes, store: Store) -> int:
    try:
        address = loaded(key, code.symbol, made)
    except RuntimeError as error:
        # Some instructions become calls only when code is generated, such as half to float
        # before F16C; the linker does not say which.
        called = set(CALL.findall(assembly(code, target)))
        lacking = ", ".join(sorted(name for name in called if not resolvable(name)))
        raise NoKernel(
            f"kernel {code.name} cannot be loaded on {target.isa}"
            + (f", for no library of the process has {lacking}" if lacking else f": {error}")
        ) from error
    # Stored only after it has loaded, so that a bad object is never found again.
    store.put(key, made)
    return address

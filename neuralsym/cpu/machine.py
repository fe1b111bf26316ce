"""The machine that kernels are generated for: its CPU, its features and how wide its vectors are.

`Target.of(isa)` describes the host, or the host restricted to a smaller instruction set, so that
what another machine would run can be tested here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from neuralsym.core.locks import cached_property
from neuralsym.cpu.options import ISAS, Isa
from neuralsym.errors import BadAttribute

VECTOR_BYTES: dict[Isa, int] = {"avx512": 64, "avx2": 32, "sse2": 16, "neon": 16}

# What a CPU must have for us to generate for an instruction set.
REQUIRED: dict[Isa, tuple[str, ...]] = {
    "avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl", "fma", "f16c"),
    "avx2": ("avx2", "fma", "f16c"),
    "sse2": ("sse2",),
    "neon": ("neon",),
}

# Features that come with AVX-512 or later and must be off for plain AVX2.
BEYOND_AVX2 = ("avx512", "avx10", "amx", "evex512")

ELEMENT_BYTES = {
    **dict.fromkeys(("bool", "int8", "uint8", "int4", "uint4", "int2", "uint2", "i8", "i1"), 1),
    **dict.fromkeys(("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"), 1),
    **dict.fromkeys(("float8e8m0", "float4e2m1", "float6e2m3", "float6e3m2"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16", "half", "bfloat", "i16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32", "float", "i32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64", "double", "i64", "ptr"), 8),
    "complex128": 16,
}

# What of Linux's description of a processor tells which instructions it has.
IDENTITY = ("vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags")

_initialized = threading.Lock()


@dataclass(frozen=True)
class Target:
    """What code is generated for.

    cpu, features: LLVM's names; vector_bytes: the width of an explicit vector; isa: the
    instruction set that stands for them; triple: LLVM's name of the platform.
    """

    cpu: str
    features: str
    vector_bytes: int
    isa: Isa
    triple: str

    @classmethod
    def of(cls, isa: Isa | None = None) -> Target:
        """The host, restricted to `isa` if given; BadAttribute if the host lacks it."""
        return _target(isa)

    @classmethod
    def foreign(cls, isa: Isa) -> Target:
        """A generic machine with `isa`: its code can be assembled here, perhaps not run."""
        if isa == "neon":
            return cls("generic", "+neon", VECTOR_BYTES[isa], isa, "aarch64-unknown-linux-gnu")
        level = {"avx512": "x86-64-v4", "avx2": "x86-64-v3", "sse2": "x86-64"}[isa]
        return cls(level, "", VECTOR_BYTES[isa], isa, "x86_64-unknown-linux-gnu")

    @cached_property
    def key(self) -> str:
        """A digest by which stored objects of different machines are told apart."""
        parts = (self.triple, self.cpu, self.features, str(self.vector_bytes))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    @property
    def x86(self) -> bool:
        return self.isa != "neon"

    @property
    def fma(self) -> bool:
        """Whether `llvm.fma` is an instruction; without it each lane is a call into libm."""
        return self.isa != "sse2"

    @property
    def scales(self) -> bool:
        """Whether there is an instruction that multiplies floats by powers of two."""
        return self.isa == "avx512"

    def width(self, element: str) -> int:
        """How many of `element` (a dtype's name or an IR type) an explicit vector holds."""
        size = ELEMENT_BYTES.get(element)
        if size is None:
            raise BadAttribute(f"no vectors of {element!r}; there are {', '.join(ELEMENT_BYTES)}")
        return max(1, self.vector_bytes // size)

    def machine(self, level: int = 3) -> Any:
        """A new LLVM target machine: code generation at a level, position independent."""
        llvm = binding(every=self.triple != host_triple())
        found = llvm.Target.from_triple(self.triple)
        return found.create_target_machine(
            cpu=self.cpu, features=self.features, opt=level, reloc="pic", codemodel="default"
        )


def vector_bytes(isa: Isa | None = None) -> int:
    """Bytes of one explicit vector on this machine, restricted to `isa` if given."""
    return Target.of(isa).vector_bytes


def host_triple() -> str:
    """LLVM's name of the platform that this process runs on."""
    return str(binding().get_process_triple())


def host_identity(info: Path = Path("/proc/cpuinfo")) -> str | None:
    """What tells this processor from others, found without LLVM; None where nothing does.

    Processors of one identity have the same `Target`. It changes with the system's kernel and with
    llvmlite, which may know the processor better than before.
    """
    try:
        with info.open(encoding="utf-8") as file:
            lines = [line.rstrip("\n").partition(":") for line in takewhile(str.strip, file)]
    except (OSError, UnicodeDecodeError):
        return None
    told = {name.strip(): value.strip() for name, _, value in lines}
    if "flags" not in told or not hasattr(os, "uname"):
        return None
    system = os.uname()
    known = (system.sysname, system.release, system.machine, llvm_version())
    return repr((*known, *(told.get(name) for name in IDENTITY)))


@lru_cache(maxsize=1)
def llvm_version() -> str:
    """What tells the version of llvmlite, found without importing it."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return ""
    return (Path(spec.origin).parent / "_version.py").read_text(encoding="utf-8")


def host_isas() -> tuple[Isa, ...]:
    """The instruction sets that this machine can run, the best first."""
    llvm = binding()
    if host_triple().startswith(("aarch64", "arm64")):
        return ("neon",)
    has = dict(llvm.get_host_cpu_features())
    x86: tuple[Isa, ...] = ("avx512", "avx2", "sse2")
    return tuple(isa for isa in x86 if all(has.get(name, False) for name in REQUIRED[isa]))


@lru_cache(maxsize=1)
def _native() -> Any:
    with _initialized:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    return llvm


@lru_cache(maxsize=1)
def _every() -> Any:
    llvm = _native()
    with _initialized:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm


def binding(every: bool = False) -> Any:
    """llvmlite's binding, ready to generate code for this machine, or for every one it knows."""
    return _every() if every else _native()


@lru_cache(maxsize=len(ISAS) + 1)
def _target(isa: Isa | None) -> Target:
    llvm = binding()
    possible = host_isas()
    if not possible:
        raise BadAttribute(
            f"neuralsym generates code for x86-64 and 64-bit Arm, not for {host_triple()}"
        )
    chosen = possible[0] if isa is None else isa
    cpu = str(llvm.get_host_cpu_name())
    if chosen not in possible:
        raise BadAttribute(
            f"isa={isa!r} asked for, but this machine ({cpu}, {host_triple()}) "
            f"has only {', '.join(possible)}; leave isa out to take the best"
        )
    features = dict(llvm.get_host_cpu_features())
    if chosen == "sse2":
        # A generic CPU: the host's model would switch its later features on again.
        return Target("x86-64", "", VECTOR_BYTES[chosen], chosen, host_triple())
    if chosen == "avx2":
        for name in features:
            if name.startswith(BEYOND_AVX2):
                features[name] = False
    if chosen == "avx512":
        # Some models prefer 256 bits; loops that LLVM vectorises itself would then be half as wide.
        features["prefer-256-bit"] = False
    text = ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))
    return Target(cpu, text, VECTOR_BYTES[chosen], chosen, host_triple())

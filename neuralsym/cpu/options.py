"""What a user may choose about how a network is compiled and run on the CPU."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from neuralsym.cpu.quota import MOST_THREADS
from neuralsym.dtypes import is_whole
from neuralsym.errors import BadAttribute, did_you_mean

Isa = Literal["avx512", "avx2", "sse2", "neon"]
ISAS: tuple[Isa, ...] = get_args(Isa)


@dataclass(frozen=True)
class Options:
    """How to compile and run; every field has a default that needs no thought.

    threads: workers of a run, 1 to 4096; None takes NEURALSYM_NUM_THREADS, else what the affinity
        of the process and its container's CPU quota allow.
    isa: the instruction set to generate for ("avx512", "avx2", "sse2", "neon"); None takes the
        best that this machine has.
    winograd: allow Winograd convolutions of stored weights, which take a half to a third of the
        time. Their rounding error is near that of the direct sums for values of mixed signs and
        like sizes, but its bound is up to 100 times as large (templates/winograd_choice.py), and an
        infinity or NaN reaches up to 5 outputs further. Whole weights are always summed directly.
    cache_dir: where compiled kernels are kept; None takes NEURALSYM_CACHE_DIR, then
        NUMBA_CACHE_DIR, then the user's cache; "off" keeps none.
    profile: time every row of the program.
    debug: check the graph after every pass while compiling.

    Raises BadAttribute for a value outside these.
    """

    threads: int | None = None
    isa: Isa | None = None
    winograd: bool = True
    cache_dir: str | None = None
    profile: bool = False
    debug: bool = False

    def __post_init__(self) -> None:
        threads: object = self.threads
        if threads is not None:
            if not is_whole(threads):
                raise BadAttribute(f"Options: threads must be an integer or None, not {threads!r}")
            count = int(threads)
            if not 1 <= count <= MOST_THREADS:
                raise BadAttribute(f"Options: threads must be 1 to {MOST_THREADS}, not {count}")
            object.__setattr__(self, "threads", count)
        if self.isa is not None and self.isa not in ISAS:
            near = did_you_mean(str(self.isa), ISAS)
            raise BadAttribute(
                f"Options: isa must be None or one of {', '.join(ISAS)}, not {self.isa!r}{near}"
            )
        for name in ("winograd", "profile", "debug"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise BadAttribute(f"Options: {name} must be True or False, not {value!r}")
        directory: object = self.cache_dir
        if directory is not None:
            if not isinstance(directory, (str, os.PathLike)):
                raise BadAttribute(f"Options: cache_dir must be a path or None, not {directory!r}")
            object.__setattr__(self, "cache_dir", str(os.fspath(directory)))

    @classmethod
    def of(cls, options: Options | None = None, **overrides: Any) -> Options:
        """`options` (or the defaults) with `overrides`; an unknown name is a BadAttribute."""
        if options is not None and not isinstance(options, Options):
            raise BadAttribute(f"options must be an Options or None, not {options!r}")
        known = [entry.name for entry in fields(cls)]
        for name in overrides:
            if name not in known:
                raise BadAttribute(
                    f"Options: no option {name!r}{did_you_mean(name, known)}; "
                    f"there are {', '.join(known)}"
                )
        return replace(options or cls(), **overrides)

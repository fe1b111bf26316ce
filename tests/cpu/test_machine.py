"""Targets: explicit vectors become the registers that their instruction set has."""

from __future__ import annotations

import pytest

from neuralsym.cpu.machine import (
    VECTOR_BYTES,
    Target,
    binding,
    host_isas,
    vector_bytes,
)
from neuralsym.errors import BadAttribute

ADD = """
define void @add(ptr %p) {{
  %a = load <{0} x float>, ptr %p, align 4
  %b = fadd <{0} x float> %a, %a
  store <{0} x float> %b, ptr %p, align 4
  ret void
}}
"""
REGISTER = {"avx512": "zmm", "avx2": "ymm", "sse2": "xmm", "neon": ".4s"}


@pytest.mark.parametrize("isa", VECTOR_BYTES)
def test_one_vector_is_one_register(isa: str) -> None:
    for target in (Target.foreign(isa), *([Target.of(isa)] if isa in host_isas() else [])):
        module = binding().parse_assembly(ADD.format(target.width("float32")))
        module.triple = target.triple
        text = target.machine().emit_assembly(module)
        assert REGISTER[isa] in text
        adds = [line for line in text.splitlines() if "addps" in line or "fadd" in line]
        assert len(adds) == 1


def test_the_host_is_its_best_instruction_set() -> None:
    assert Target.of() == Target.of(host_isas()[0])
    assert vector_bytes() == VECTOR_BYTES[host_isas()[0]]
    assert Target.of().width("float64") * 8 == Target.of().width("uint8") == vector_bytes()


def test_keys_tell_targets_apart() -> None:
    targets = {Target.of(isa) for isa in host_isas()} | {Target.foreign(isa) for isa in REGISTER}
    assert len({target.key for target in targets}) == len(targets)


def test_what_the_machine_lacks_is_refused() -> None:
    lacking = [isa for isa in VECTOR_BYTES if isa not in host_isas()]
    for isa in lacking:
        with pytest.raises(BadAttribute, match=f"isa='{isa}' asked for.*has only"):
            Target.of(isa)


def test_no_vectors_of_strings() -> None:
    with pytest.raises(BadAttribute, match="no vectors of 'string'"):
        Target.of().width("string")

"""Objects linked into one block of code without LLVM: it runs as what LLVM's linker loads."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import neuralsym
from neuralsym.cpu import image, loader
from neuralsym.cpu.elf import Linked, link
from neuralsym.cpu.emit import Code, compile_object
from neuralsym.cpu.machine import Target, host_identity
from neuralsym.cpu.options import Options
from neuralsym.layers import conv2d, fully_connected, get_network, input, relu, softmax

X86_LINUX = sys.platform.startswith("linux") and Target.of().x86
pytestmark = pytest.mark.skipif(not X86_LINUX, reason="objects of 64-bit x86 Linux are linked")

CALLS = """
declare double @cos(double)
@table = internal constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
@places = internal constant [2 x ptr] [ptr @table, ptr getelementptr (i8, ptr @table, i64 16)]
define private double @twice(double %x) noinline {
  %y = fadd double %x, %x
  ret double %y
}
define double @calls(double %x, i64 %which) {
  %c = call double @cos(double %x)
  %t = call double @twice(double %c)
  %p = getelementptr [2 x ptr], ptr @places, i64 0, i64 %which
  %place = load ptr, ptr %p
  %v = load double, ptr %place
  %r = fadd double %t, %v
  ret double %r
}
"""

COUNTER = """
@count = internal global i64 7
define i64 @counter() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  ret i64 %old
}
"""

IDENTITY = "define i64 @identity(i64 %x) {\n  ret i64 %x\n}\n"


def compiled(symbol: str, text: str, target: Target | None = None) -> tuple[bytes, str]:
    return compile_object(Code(symbol, symbol, text), target or Target.of()), symbol


def put(made: Linked) -> int:
    address = loader.placed(f"test{hash(made.code)}", made.code, made.inner, made.outer)
    assert address is not None
    return address


def test_a_block_calls_out_and_reads_its_tables() -> None:
    made = link([compiled("identity", IDENTITY), compiled("calls", CALLS)])
    assert made is not None
    assert [name for _, name in made.outer] == ["cos"]
    start = put(made)
    same = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(start + made.entries[0])
    assert same(-5) == -5
    double, long = ctypes.c_double, ctypes.c_int64
    calls = ctypes.CFUNCTYPE(double, double, long)(start + made.entries[1])
    assert calls(0.5, 0) == 2 * math.cos(0.5) + 1.5
    assert calls(0.25, 1) == 2 * math.cos(0.25) + 3.5


def test_its_pages_are_never_writable_and_executable() -> None:
    made = link([compiled("identity", IDENTITY)])
    assert made is not None
    start = put(made)
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, rights, *_ = line.split()
        low, high = (int(end, 16) for end in span.split("-"))
        if low <= start < high:
            assert rights.startswith("r-x")
            return
    pytest.fail("the block is not among the process's pages")


def test_a_missing_function_is_no_block() -> None:
    text = "declare i64 @no_such_function_here()\ndefine i64 @f() {\n"
    text += "  %x = call i64 @no_such_function_here()\n  ret i64 %x\n}\n"
    made = link([compiled("identity", IDENTITY)])
    assert made is not None
    lacking = made._replace(outer=[(0, "no_such_function_here")])
    assert loader.placed("testlacking", lacking.code, lacking.inner, lacking.outer) is None


def test_variables_and_other_platforms_are_left_to_llvm() -> None:
    assert link([compiled("counter", COUNTER)]) is None
    neon = compiled("identity", IDENTITY, Target.foreign("neon"))
    assert link([neon]) is None
    assert link([(compiled("identity", IDENTITY)[0], "another")]) is None
    assert link([(b"", "f")]) is None


@given(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8))
def test_a_damaged_object_raises_nothing(at: int, what: bytes) -> None:
    data = bytearray(OBJECT)
    at %= len(data)
    data[at : at + len(what)] = what
    made = link([(bytes(data), "calls")])
    assert made is None or made.code


OBJECT = compiled("calls", CALLS)[0] if X86_LINUX else b""


def test_a_stored_program_runs_where_pages_cannot_be_made_executable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = input(("N", 3, 9, 9)) | conv2d(7, 3) | relu | fully_connected(5) | softmax
    (net | get_network("n")).save(tmp_path / "net.onnx")
    options = Options(threads=1)
    x = np.random.default_rng(0).normal(size=(1, 3, 9, 9)).astype(np.float32)
    first = neuralsym.load(tmp_path / "net.onnx", options=options)
    wanted = first(x)
    assert first.warmup()
    monkeypatch.setattr(image, "placed", lambda *_: None)
    second = neuralsym.load(tmp_path / "net.onnx", options=options)
    np.testing.assert_array_equal(second(x), wanted)
    assert second._read is None


def test_two_threads_of_a_stored_program_without_llvm(tmp_path: Path) -> None:
    net = input(("N", 16, 40, 40)) | conv2d(32, 3) | relu | conv2d(32, 3) | fully_connected(5)
    (net | get_network("n")).save(tmp_path / "net.onnx")
    options = Options(threads=2)
    x = np.ones((1, 16, 40, 40), np.float32)
    wanted = neuralsym.load(tmp_path / "net.onnx", options=options)
    assert wanted.warmup()
    np.save(tmp_path / "wanted.npy", wanted(x))
    program = (
        "import sys, numpy as np, neuralsym\n"
        f"net = neuralsym.load({str(tmp_path / 'net.onnx')!r}, options=neuralsym.Options("
        "threads=2))\n"
        "for _ in range(50): made = net(np.ones((1, 16, 40, 40), np.float32))\n"
        f"np.testing.assert_array_equal(made, np.load({str(tmp_path / 'wanted.npy')!r}))\n"
        "print('llvmlite' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["False"], done.stderr


def test_a_processor_is_known_by_what_linux_says_of_it(tmp_path: Path) -> None:
    told = host_identity()
    assert told is not None
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nmodel : 5\ncpu MHz : 1\nflags : fma avx2\n\nprocessor : 1\n")
    first = host_identity(info)
    assert first not in (None, told)
    info.write_text(info.read_text().replace("MHz : 1", "MHz : 2"))
    assert host_identity(info) == first
    info.write_text(info.read_text().replace(" avx2", ""))
    assert host_identity(info) != first
    assert host_identity(tmp_path / "missing") is None

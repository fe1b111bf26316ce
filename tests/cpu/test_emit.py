"""From a kernel's source to an address: both sources, the store between, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from neuralsym.cpu import emit
from neuralsym.cpu.arrays import RAISED
from neuralsym.cpu.driver import Kernel
from neuralsym.cpu.emit import (
    Code,
    array_kernel,
    assembly,
    compile_all,
    compile_object,
    compile_one,
)
from neuralsym.cpu.ir import Module
from neuralsym.cpu.loader import resolvable
from neuralsym.cpu.machine import Target, host_isas
from neuralsym.cpu.store import Store
from neuralsym.errors import BadAttribute, NoKernel

OFF = Store(None)


def returning(status: int, name: str = "constant") -> Code:
    """A kernel of IR text that returns a constant."""
    module = Module()
    module.function(name).do(f"ret i32 {status}")
    return Code(name, name, str(module))


def call(address: int, words: Sequence[int] = (0,), worker: int = 0, workers: int = 1) -> int:
    desc = np.array(words, np.int64)
    status: int = Kernel(address)(None, desc.ctypes.data, worker, workers)
    return status


def run(code: Code, *words: int, worker: int = 0, workers: int = 1, store: Store = OFF) -> int:
    return call(compile_one(code, Target.of(), store), words, worker, workers)


def row(*arrays: NDArray[Any], strided: Sequence[int] = ()) -> list[int]:
    """The descriptor words of arrays; those whose index is in `strided` with strides."""
    words: list[int] = []
    for index, array in enumerate(arrays):
        words += [array.ctypes.data, *array.shape, *(array.strides if index in strided else ())]
    return words


# -- IR text ---------------------------------------------------------------------------------
def test_text_becomes_an_address() -> None:
    assert run(returning(0)) == 0
    assert run(returning(-7)) == -7


def test_equal_kernels_are_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[str] = []
    real = emit.compile_object

    def counted(code: Code, target: Target) -> bytes:
        made.append(code.name)
        return real(code, target)

    monkeypatch.setattr(emit, "compile_object", counted)
    target, store = Target.of(), Store(tmp_path)
    codes = [returning(11), returning(12), returning(11)]
    told: list[tuple[int, int, str]] = []
    first = compile_all(codes, target, store, lambda *a: told.append(a))
    assert len(first) == len(made) == len(set(first.values())) == 2
    assert told == [(1, 2, "constant"), (2, 2, "constant")]
    assert compile_all(codes, target, store) == first
    assert len(made) == 2
    assert store.info().entries == 2


def test_addresses_are_in_the_order_of_the_codes() -> None:
    # The first takes much longer than the others, which are ready before it.
    module = Module()
    f = module.function("long")
    value = f.word(0)
    for _ in range(3000):
        value = f.add(f.mul(value, 3), value)
    f.do("ret i32 100")
    slow = Code("slow", "long", str(module))
    codes = [slow, *(returning(number, "quick") for number in range(101, 104))]
    target = Target.of()
    found = compile_all(codes, target, OFF, threads=2)
    assert list(found) == [code.key(target) for code in codes]
    assert [call(address) for address in found.values()] == [100, 101, 102, 103]


def test_the_key_is_of_text_symbol_level_and_machine() -> None:
    target = Target.of()
    code = returning(0)
    others = [returning(1), Code("x", "other", code.text), Code("x", "constant", code.text, 3)]
    assert len({c.key(target) for c in (code, *others)}) == 4
    assert Code("another name", "constant", code.text).key(target) == code.key(target)
    assert len({code.key(Target.of(isa)) for isa in host_isas()}) == len(host_isas())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("define i32 @k( nonsense", "not valid LLVM IR"),
        ("define i32 @other() {\n ret i32 0\n}", "does not define its symbol 'k'"),
        ("declare i32 @k()", "does not define its symbol 'k'"),
        (
            "declare i32 @no_such_thing()\ndefine i32 @k() {\n %a = call i32 @no_such_thing()\n"
            " ret i32 %a\n}",
            "needs no_such_thing: no library",
        ),
        # Well typed, but %a is used where it is not defined.
        (
            "define i32 @k(i1 %c) {\nentry:\n br i1 %c, label %one, label %two\none:\n"
            " %a = add i32 1, 2\n br label %two\ntwo:\n ret i32 %a\n}",
            "not valid LLVM IR",
        ),
    ],
)
def test_bad_text_is_an_error_that_names_the_kernel(text: str, said: str) -> None:
    with pytest.raises(NoKernel, match=said) as caught:
        compile_one(Code("my kernel", "k", text), Target.of(), OFF)
    assert "my kernel" in str(caught.value)


def test_loops_of_text_are_vectorised_when_asked() -> None:
    module = Module()
    f = module.function("twice")
    x = f.operand(0)
    with f.loop(f.word(1)) as loop:
        place = f.at(x, f.mul(loop.index, 4))
        value = f.load("float", place)
        f.store("float", f.value(f"fadd float {value}, {value}"), place)
    f.do("ret i32 0")
    target = Target.of()
    for level in (0, 3):
        code = Code("twice", "twice", str(module), optimize=level)
        data = np.arange(1003, dtype=np.float32)
        assert run(code, data.ctypes.data, data.size) == 0
        np.testing.assert_array_equal(data, np.arange(1003) * 2)
    plain, fast = (
        compile_object(Code("t", "twice", str(module), optimize=n), target) for n in (0, 3)
    )
    assert len(fast) > len(plain)


@pytest.mark.parametrize("isa", host_isas())
def test_every_instruction_set_of_the_machine_runs(isa: Any) -> None:
    def double(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] + x[i]

    x = np.arange(100, dtype=np.float32)
    out = np.zeros_like(x)
    code = array_kernel(double, [("float32", 1, "in"), ("float32", 1, "out")])
    assert call(compile_one(code, Target.of(isa), OFF), row(x, out)) == 0
    np.testing.assert_array_equal(out, 2 * x)


def test_calls_that_only_the_code_generator_makes() -> None:
    if resolvable("__divtf3"):
        pytest.skip("some library of this process divides quadruple floats")
    text = """
define i32 @k(ptr %frame, ptr %desc, i32 %worker, i32 %workers) {
  %x = load fp128, ptr %desc
  %y = fdiv fp128 %x, %x
  store fp128 %y, ptr %desc
  ret i32 0
}
"""
    with pytest.raises(NoKernel, match=r"kernel wide cannot be loaded on .* has __divtf3"):
        compile_one(Code("wide", "k", text), Target.of(), OFF)


def test_the_assembly_can_be_read() -> None:
    assert "ret" in assembly(returning(3), Target.of())


# -- the store -------------------------------------------------------------------------------
def test_an_object_that_does_not_load_is_made_again(tmp_path: Path) -> None:
    store, target, code = Store(tmp_path), Target.of(), returning(21)
    store.put(code.key(target), b"an entry with a good checksum, but no object")
    assert run(code, store=store) == 21
    assert (store.get(code.key(target)) or b"").startswith(b"\x7fELF")


def test_stored_objects_need_llvmlite_only(tmp_path: Path) -> None:
    def scaled(x: Any, out: Any, factor: float, worker: int, workers: int) -> int:
        if factor == 0:
            raise ValueError("no factor")
        for i in range(worker, x.shape[0], workers):
            out[i] = np.exp(x[i]) * factor
        return 0

    code = array_kernel(scaled, [("float64", 1, "in"), ("float64", 1, "out")], ["float64"])
    target, store = Target.of(), Store(tmp_path)
    compile_one(code, target, store)
    script = f"""
import ctypes, struct, sys
from pathlib import Path
from neuralsym.cpu.driver import Kernel
from neuralsym.cpu.loader import loaded
from neuralsym.cpu.store import Store
key = {code.key(target)!r}
kernel = Kernel(loaded(key, {code.symbol!r}, Store(Path({str(tmp_path)!r})).get(key)))
x, out = (ctypes.c_double * 4)(0, 1, 2, 3), (ctypes.c_double * 4)()
def call(factor):
    bits = struct.unpack("<q", struct.pack("<d", factor))[0]
    desc = (ctypes.c_int64 * 5)(ctypes.addressof(x), 4, ctypes.addressof(out), 4, bits)
    return [kernel(None, ctypes.addressof(desc), w, 2) for w in (0, 1)]
print(call(2.0), [round(v, 6) for v in out], call(0.0), "numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == "[0, 0] [2.0, 5.436564, 14.778112, 40.171074] [-1, -1] False\n"


def test_processes_that_compile_at_the_same_time(tmp_path: Path) -> None:
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_emit import *
codes = [returning(number) for number in range(50, 60)]
found = compile_all(codes, Target.of(), Store(Path({str(tmp_path)!r})))
print([call(found[code.key(Target.of())]) for code in codes] == list(range(50, 60)))
"""
    running = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate(timeout=60)[0] for process in running] == ["True\n"] * 3
    assert len(list(tmp_path.iterdir())) == Store(tmp_path).info().entries == 10


def test_many_threads_get_the_same_addresses(tmp_path: Path) -> None:
    codes = [returning(number, "many") for number in range(30, 42)]
    found: list[dict[str, int]] = []

    def compile_them() -> None:
        found.append(compile_all(codes, Target.of(), Store(tmp_path)))

    threads = [threading.Thread(target=compile_them) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(addresses == found[0] for addresses in found)
    assert sorted(map(call, found[0].values())) == list(range(30, 42))


# -- array functions -------------------------------------------------------------------------
def test_strided_operands_scalars_and_rank_zero() -> None:
    def mixed(x: Any, total: Any, out: Any, factor: float, shift: int, negate: bool) -> None:
        total[()] = 0
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                value = x[i, j] * factor + shift
                out[j, i] = -value if negate else value
                total[()] += out[j, i]

    operands = [("float64", 2, "in", False), ("float64", 0, "out"), ("float64", 2, "out", False)]
    code = array_kernel(mixed, operands, ["float64", "int64", "bool"])
    whole = np.arange(60.0).reshape(6, 10)
    x = whole[::-2, 1:8:3]
    total, out = np.zeros(()), np.zeros((4, 8))[:3, ::-1][:, :3]
    bits = int(np.float64(0.5).view(np.int64))
    words = [*row(x, total, out, strided=(0, 2)), bits, -3, 1]
    assert run(code, *words) == 0
    np.testing.assert_array_equal(out, -(x * 0.5 - 3).T)
    assert total == out.sum()


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "uint64", "float32", "complex64"]
)
def test_element_types(dtype: str) -> None:
    def copy(x: Any, out: Any) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j]

    x = np.arange(12).reshape(3, 4).astype(dtype)
    out = np.zeros_like(x)
    assert run(array_kernel(copy, [(dtype, 2, "in"), (dtype, 2, "out")]), *row(x, out)) == 0
    np.testing.assert_array_equal(out, x)


def test_workers_share_the_work() -> None:
    def mark(out: Any, worker: int, workers: int) -> None:
        for i in range(worker, out.size, workers):
            out[i] = worker

    code = array_kernel(mark, [("int64", 1, "out")])
    out = np.full(7, -1, np.int64)
    for worker in range(3):
        assert run(code, *row(out), worker=worker, workers=3) == 0
    assert out.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_statuses_and_exceptions() -> None:
    def fails(out: Any, how: int) -> int | None:
        if how == 1:
            raise ValueError("a reason that nobody would see")
        if how == 2:
            return None
        if how == 3:
            return 1 << 32  # its low half is zero
        out[0] = 10 // how
        return how

    code = array_kernel(fails, [("int64", 1, "out")], ["int64"])
    out = np.zeros(1, np.int64)
    got = {how: run(code, *row(out), how) for how in (0, 1, 2, 3, 5, -5)}
    assert got == {0: 0, 1: RAISED, 2: 0, 3: RAISED, 5: 5, -5: -5}


def test_division_is_numpys() -> None:
    def divide(x: Any, n: Any, out: Any, whole: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] / np.float64(n[i])
            whole[i] = n[i] // 0

    operands = [
        ("float64", 1, "in"),
        ("int64", 1, "in"),
        ("float64", 1, "out"),
        ("int64", 1, "out"),
    ]
    x, n = np.array([1.0, -1.0, 0.0]), np.array([0, 0, 0])
    out, whole = np.empty(3), np.empty(3, np.int64)
    assert run(array_kernel(divide, operands), *row(x, n, out, whole)) == 0
    assert out[:2].tolist() == [np.inf, -np.inf]
    assert np.isnan(out[2])
    assert whole.tolist() == [0, 0, 0]


def helper(value: float, times: int) -> float:
    return value * FACTOR**times


FACTOR = 3.0


def test_plain_helpers_are_compiled_with_it() -> None:
    def inner(value: float) -> float:
        return helper(value, 1) + 1

    def outer(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = inner(x[i])

    x, out = np.arange(4.0), np.zeros(4)
    assert (
        run(array_kernel(outer, [("float64", 1, "in"), ("float64", 1, "out")]), *row(x, out)) == 0
    )
    np.testing.assert_array_equal(out, 3 * x + 1)


def test_helpers_may_call_themselves() -> None:
    def fibonacci(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = recursive(1.0, x[i])

    x, out = np.arange(8), np.zeros(8)
    operands = [("int64", 1, "in"), ("float64", 1, "out")]
    assert run(array_kernel(fibonacci, operands), *row(x, out)) == 0
    assert out.tolist() == [1, 1, 2, 3, 5, 8, 13, 21]


def scale(x: Any, out: Any) -> None:
    for i in range(x.size):
        out[i] = helper(x[i], 1)


def test_a_changed_helper_or_global_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    operands = [("float64", 1, "in"), ("float64", 1, "out")]
    target = Target.of()
    keys = [array_kernel(scale, operands).key(target)]
    assert array_kernel(scale, operands).key(target) == keys[0]
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    keys.append(array_kernel(scale, operands).key(target))
    monkeypatch.setitem(globals(), "helper", lambda value, times: value + times)
    keys.append(array_kernel(scale, operands).key(target))
    keys.append(array_kernel(scale, operands, fast=True).key(target))
    keys.append(array_kernel(scale, [("float32", 1, "in"), operands[1]]).key(target))
    assert len(set(keys)) == 5


def test_keys_are_the_same_in_other_processes() -> None:
    code = array_kernel(scale, [("float64", 1, "in"), ("float64", 1, "out")])
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_emit import *
code = array_kernel(scale, [("float64", 1, "in"), ("float64", 1, "out")])
print(code.key(Target.of()), "numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == [code.key(Target.of()), "False"], done.stderr


def allocates(x: Any, out: Any) -> None:
    out[:] = x + 1


def allocates_zeros(x: Any, out: Any) -> None:
    out[0] = np.zeros(3)[int(x[0])]


def writes_input(x: Any, out: Any) -> None:
    x[0] = 1


def returns_float(x: Any, out: Any) -> float:
    return 1.0


def prints(x: Any, out: Any) -> None:
    print(x[0])


def recursive(value: float, n: int) -> float:
    return value if n < 2 else recursive(value, n - 1) + recursive(value, n - 2)


def recurses(x: Any, out: Any) -> None:
    # A literal gives `recursive` a type of its own, which the calls inside do not have.
    out[0] = recursive(x[0], 9)


def too_few(x: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (allocates, "must not allocate"),
        (allocates_zeros, "must not allocate"),
        (writes_input, "cannot be compiled by numba"),
        (returns_float, "must return an integer status"),
        (prints, "uses Python objects"),
        (recurses, "calls itself"),
        (too_few, "takes 1 parameters, but 2 operands"),
    ],
)
def test_functions_that_are_no_kernels(function: Any, said: str) -> None:
    code = array_kernel(function, [("float64", 1, "in"), ("float64", 1, "out")], name="my_kernel")
    with pytest.raises(NoKernel, match=said) as caught:
        compile_one(code, Target.of(), OFF)
    assert "my_kernel" in str(caught.value)


def test_without_numbas_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba import config

    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    code = array_kernel(scale, [("float64", 1, "in"), ("float64", 1, "out")], name="off")
    with pytest.raises(NoKernel, match="NUMBA_DISABLE_JIT is set"):
        compile_one(code, Target.of(), OFF)


def test_globals_without_a_reproducible_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "FACTOR", object())
    with pytest.raises(NoKernel, match="uses 'FACTOR', a object"):
        array_kernel(scale, [("float64", 1, "in"), ("float64", 1, "out")]).key(Target.of())


@pytest.mark.parametrize("operand", [("string", 1, "in"), ("float32", -1, "in"), ("int8", 1, "x")])
def test_operands_that_do_not_exist(operand: Any) -> None:
    with pytest.raises(BadAttribute, match="kernel too_few"):
        array_kernel(too_few, [operand])

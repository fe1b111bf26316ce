"""Plain Python functions over arrays as kernels: compiled by numba, called through the kernel ABI.

Only `array_ir` imports numba. It yields LLVM IR text in which the function itself is as numba made
it and a small wrapper reads the arrays out of the descriptor and turns numba's status into ours:
an exception can therefore neither escape nor be lost.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

from neuralsym.cpu.ir import Function, Module
from neuralsym.errors import BadAttribute, NoKernel

RAISED = -1
"""The status of a kernel whose function raised."""

Direction = Literal["in", "out"]
Scalar = Literal["int64", "float64", "bool"]

# How compiled code sees the types that numba lacks: as their bits (neuralsym.cpu.narrow).
VIEWS = {
    "bool": "boolean",
    "float16": "uint16",
    "bfloat16": "uint16",
    **dict.fromkeys(("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"), "uint8"),
    **dict.fromkeys(("float8e8m0", "float4e2m1", "float6e2m3", "float6e3m2"), "uint8"),
    **dict.fromkeys(("int4", "int2"), "int8"),
    **dict.fromkeys(("uint4", "uint2"), "uint8"),
    **{f"{kind}int{bits}": f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)},
    **{name: name for name in ("float32", "float64", "complex64", "complex128")},
}
SIZES = {"boolean": 1, "complex64": 8, "complex128": 16, "float32": 4, "float64": 8}


# Words by which numba's messages show that it was asked to allocate.
_ALLOCATING = ("_allocate", "ol_np_empty", "NRT", "array passed into the function as argument")


class Operand(NamedTuple):
    """An array parameter: the dtype's name, its rank, its direction, and whether it is in C order.

    A strided operand (`contiguous=False`) has its strides in the descriptor. An "in" operand
    cannot be written to.
    """

    dtype: str
    rank: int
    direction: Direction = "in"
    contiguous: bool = True

    @property
    def view(self) -> str:
        """Numba's name of the element type."""
        return VIEWS[self.dtype]

    @property
    def itemsize(self) -> int:
        view = self.view
        return SIZES.get(view) or int(view.lstrip("uint")) // 8

    @property
    def words(self) -> int:
        """How many words of the descriptor describe it."""
        return 1 + self.rank * (1 if self.contiguous else 2)


def check_operand(name: str, operand: Sequence[Any]) -> Operand:
    """`operand` as an Operand; BadAttribute if it is none that kernels can have."""
    made = operand if isinstance(operand, Operand) else Operand(*operand)
    made = made._replace(dtype=str(made.dtype))
    if made.dtype not in VIEWS:
        raise BadAttribute(
            f"kernel {name}: no arrays of {made.dtype!r} in kernels; there are {', '.join(VIEWS)}"
        )
    if made.rank < 0 or made.direction not in get_args(Direction):
        raise BadAttribute(
            f"kernel {name}: an operand is (dtype, rank >= 0, 'in' | 'out', contiguous), not {made}"
        )
    return made


# -- what the compiled code depends on -------------------------------------------------------
def fingerprint(function: Callable[..., Any]) -> str:
    """A digest of everything in `function` that its compiled form depends on.

    Its bytecode, and all globals, closure variables and functions that it uses, not the text of
    the file, which may have changed since it was loaded. NoKernel if it uses an object that has
    no reproducible form.
    """
    parts: list[str] = []
    _fingerprint(function.__name__, function, parts, set())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _fingerprint(name: str, value: object, parts: list[str], seen: set[int]) -> None:
    value = getattr(value, "py_func", getattr(value, "_defn", value))
    if isinstance(value, types.FunctionType) and not _known_to_numba(value):
        if id(value) in seen:
            return
        seen.add(id(value))
        parts.append(f"function {name} {value.__defaults__!r}")
        for code in _codes(value.__code__):
            parts.append(_code_text(code))
        for used, found in sorted(_used(value).items()):
            _fingerprint(used, found, parts, seen)
    elif isinstance(value, types.ModuleType):
        parts.append(f"module {name} {value.__name__}")
    elif isinstance(value, (type, types.BuiltinFunctionType)):
        parts.append(f"builtin {name} {value.__module__}.{value.__qualname__}")
    elif hasattr(value, "tobytes") and hasattr(value, "dtype"):
        shape = getattr(value, "shape", ())
        content = hashlib.sha256(value.tobytes()).hexdigest()
        parts.append(f"array {name} {value.dtype} {shape} {content}")
    elif isinstance(value, (tuple, list)):
        parts.append(f"{type(value).__name__} {name} {len(value)}")
        for item in value:
            _fingerprint(name, item, parts, seen)
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        parts.append(f"{type(value).__name__} {name} {value!r}")
    elif hasattr(value, "__name__") and (hasattr(value, "nin") or _known_to_numba(value)):
        parts.append(f"known {name} {value.__name__}")
    else:
        raise NoKernel(
            f"a kernel uses {name!r}, a {type(value).__qualname__}, whose value cannot be stored "
            "with the compiled code; pass it as an attribute or use a number, array or function"
        )


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """`code` and the code of the functions defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _code_text(code: types.CodeType) -> str:
    constants = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_flags)
    return f"{code.co_name} {code.co_code.hex()} {constants!r} {names!r}"


def _used(function: types.FunctionType) -> dict[str, object]:
    """The globals, members of modules and closure variables that `function` mentions."""
    found: dict[str, object] = {}
    names = [name for code in _codes(function.__code__) for name in code.co_names]
    for name in names:
        if name in function.__globals__:
            value = function.__globals__[name]
            found[name] = value
            if isinstance(value, types.ModuleType):
                for member in names:
                    inside = getattr(value, member, None)
                    if hasattr(inside, "py_func") or isinstance(inside, (int, float)):
                        found[f"{name}.{member}"] = inside
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        found[name] = cell.cell_contents
    return found


# -- compiling -------------------------------------------------------------------------------
def _settings(fast: bool, checked: bool) -> dict[str, Any]:
    return {
        "nogil": True,
        "error_model": "numpy",
        "boundscheck": checked,
        # Reordering and contraction only: NaN and infinity always count.
        "fastmath": {"contract", "reassoc", "arcp", "nsz"} if fast else False,
        # Without numba's run time, allocating is an error of compilation.
        "_nrt": False,
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
    }


def _with_compiled_helpers(
    function: types.FunctionType, settings: dict[str, Any], made: dict[int, Any]
) -> types.FunctionType:
    """A copy of `function` in which the plain functions that it calls are compiled ones.

    Kernels may so share helpers without decorating them, hence without importing numba.
    """
    from numba import njit

    def copied(original: types.FunctionType, helper: bool) -> types.FunctionType:
        scope = dict(original.__globals__)
        cells = [types.CellType(cell.cell_contents) for cell in original.__closure__ or ()]
        copy = types.FunctionType(
            original.__code__, scope, original.__name__, original.__defaults__, tuple(cells)
        )
        copy.__module__, copy.__qualname__ = original.__module__, original.__qualname__
        if helper:
            # Entered before what it calls is looked at, so that it may call itself.
            made[id(original)] = njit(**settings)(copy)
        for name, value in _used(original).items():
            if name in scope:
                scope[name] = replaced(value)
        for cell in cells:
            cell.cell_contents = replaced(cell.cell_contents)
        return copy

    def replaced(value: object) -> object:
        if not isinstance(value, types.FunctionType) or _known_to_numba(value):
            return value
        if id(value) not in made:
            copied(value, helper=True)
        return made[id(value)]

    return copied(function, helper=False)


def _known_to_numba(value: object) -> bool:
    """Whether numba has its own meaning for a function or object of numpy, numba or Python."""
    module = str(getattr(value, "__module__", None) or "")
    return module.partition(".")[0] in ("numpy", "numba", "math", "cmath", "builtins", "operator")


def array_ir(
    name: str,
    symbol: str,
    function: Callable[..., Any],
    operands: Sequence[Operand],
    attributes: Sequence[Scalar],
    fast: bool = False,
    checked: bool = False,
) -> str:
    """LLVM IR of `function` and of the kernel `symbol` that calls it; see `emit.array_kernel`.

    NoKernel, naming the kernel, if numba cannot compile it or it needs more than a kernel may.
    """
    try:
        from numba import config, njit
        from numba import types as kinds
        from numba.core.errors import NumbaError
    except ImportError as error:
        raise NoKernel(f"kernel {name} needs numba, which cannot be imported: {error}") from error
    if getattr(config, "DISABLE_JIT", 0):
        raise NoKernel(f"kernel {name} cannot be compiled while NUMBA_DISABLE_JIT is set")
    plain: Any = getattr(function, "py_func", function)
    takes_worker = wants_worker(plain)
    arrays = [
        kinds.Array(
            getattr(kinds, operand.view),
            operand.rank,
            "C" if operand.contiguous else "A",
            readonly=operand.direction == "in",
        )
        for operand in operands
    ]
    scalars = [kinds.boolean if kind == "bool" else getattr(kinds, kind) for kind in attributes]
    signature = (*arrays, *scalars, *([kinds.int64] * 2 if takes_worker else []))
    expected = plain.__code__.co_argcount
    if expected != len(signature):
        raise NoKernel(
            f"kernel {name}: its function takes {expected} parameters, but {len(operands)} "
            f"operands and {len(attributes)} attributes are declared"
        )
    settings = _settings(fast, checked)
    try:
        compiled = njit(signature, **settings)(_with_compiled_helpers(plain, settings, {}))
    except NumbaError as error:
        reason = str(error).strip()
        hint = "; a kernel must not allocate" if any(w in reason for w in _ALLOCATING) else ""
        raise NoKernel(f"kernel {name} cannot be compiled by numba{hint}:\n{reason}") from error
    result: Any = next(iter(compiled.overloads.values()))
    returned = result.signature.return_type
    # Optional(int64) if some paths return nothing.
    value: Any = getattr(returned, "type", returned)
    if not (value is kinds.none or isinstance(value, (kinds.Integer, kinds.Boolean))):
        raise NoKernel(f"kernel {name} must return an integer status or nothing, not {returned}")
    if result.library.has_dynamic_globals:
        raise NoKernel(
            f"kernel {name} refers to a global array by its address, which no other process has; "
            "pass it as an operand"
        )
    inner = result.fndesc.llvm_func_name
    width = 0 if value is kinds.none else int(getattr(value, "bitwidth", 8))
    wrapper = _wrapper(symbol, inner, width, operands, attributes, takes_worker)
    return str(result.library.get_llvm_str()) + "\n" + wrapper


def wants_worker(function: Callable[..., Any]) -> bool:
    """Whether the last two parameters of `function` are `worker, workers`."""
    code = getattr(function, "py_func", function).__code__
    return bool(code.co_varnames[: code.co_argcount][-2:] == ("worker", "workers"))


def _wrapper(
    symbol: str,
    inner: str,
    width: int,
    operands: Sequence[Operand],
    attributes: Sequence[Scalar],
    takes_worker: bool,
) -> str:
    """The kernel `symbol`: operands from the descriptor, numba's status into ours."""
    module = Module()
    f = module.function(symbol)
    result, raised = f.value("alloca i64, align 8"), f.value("alloca ptr, align 8")
    f.store("i64", "0", result, 8)
    f.store("ptr", "null", raised, 8)
    arguments = [f"ptr {result}", f"ptr {raised}"]
    position = 0
    for operand in operands:
        arguments += _array_arguments(f, operand, position)
        position += operand.words
    for kind in attributes:
        if kind == "float64":
            arguments.append(f"double {f.load('double', f.at('%desc', 8 * position), 8)}")
        elif kind == "bool":
            flag = f.compare("ne", f.word(position), 0)
            arguments.append(f"i8 {f.value(f'zext i1 {flag} to i8')}")
        else:
            arguments.append(f"i64 {f.word(position)}")
        position += 1
    if takes_worker:
        arguments += [f"i64 {f.value(f'sext i32 {v} to i64')}" for v in ("%worker", "%workers")]
    status = f.value(f'call i32 @"{inner}"({", ".join(arguments)})')
    # Numba's status: 0 is a value, -2 is None, all others are exceptions.
    valued, none = f.compare("eq", status, 0, "i32"), f.compare("eq", status, -2, "i32")
    own = "0"
    if width:
        own = f.load(f"i{width}", result, 8)
        if width > 32:
            # A status whose low half is zero must not look like success.
            low = f.value(f"trunc i{width} {own} to i32")
            lost = f.value(
                f"and i1 {f.compare('ne', own, 0, f'i{width}')}, {f.compare('eq', low, 0, 'i32')}"
            )
            own = f.select(lost, "i32", RAISED, low)
        elif width < 32:
            own = f.value(f"sext i{width} {own} to i32")
    failed = f.select(none, "i32", 0, RAISED)
    f.do(f"ret i32 {f.select(valued, 'i32', own, failed)}")
    return str(module)


def _array_arguments(f: Function, operand: Operand, position: int) -> list[str]:
    """The members of numba's array structure: no owner, size, item size, data, shape, strides."""
    shape = [f.word(position + 1 + axis) for axis in range(operand.rank)]
    if operand.contiguous:
        step: str = str(operand.itemsize)
        strides: list[str] = []
        for dim in reversed(shape):
            strides.insert(0, step)
            step = f.mul(step, dim)
    else:
        strides = [f.word(position + 1 + operand.rank + axis) for axis in range(operand.rank)]
    total = "1"
    for dim in shape:
        total = f.mul(total, dim)
    data = f.operand(position)
    words = [total, str(operand.itemsize)]
    return [
        *("ptr null", "ptr null"),
        *(f"i64 {word}" for word in words),
        f"ptr {data}",
        *(f"i64 {word}" for word in (*shape, *strides)),
    ]

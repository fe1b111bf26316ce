"""The operator functions: signatures, outputs, names, and what they say of a mistake."""

from __future__ import annotations

import builtins
import inspect
import pickle
from pathlib import Path

import numpy as np
import pytest

import neuralsym.ops as ops
from neuralsym.core.op import OPS
from neuralsym.core.schema import VERSIONS
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, OpError, ShapeMismatch, TypeMismatch
from neuralsym.ops.aliases import ALIASES
from neuralsym.ops.functions import function_name, operators
from neuralsym.ops.stubs import PATH, stub_text


@pytest.fixture
def x() -> Symbol:
    return ops.variable("x", ("N", 3, 8, 8))


def test_every_operator_of_onnx_has_a_class_and_a_function() -> None:
    import onnx.defs

    names = {
        (s.domain, s.name) for s in onnx.defs.get_all_schemas_with_history() if s.domain in VERSIONS
    }
    for domain, name in names:
        schema = onnx.defs.get_schema(name, VERSIONS[domain], domain)
        if schema.deprecated and domain == "":
            continue
        op = OPS[domain, name]
        assert op.schema.since == schema.since_version
        assert callable(getattr(ops, function_name(op)))
        assert op.__doc__


def test_stubs_are_current() -> None:
    assert PATH.read_text() == stub_text(), "run python -m neuralsym.ops.stubs"


@pytest.mark.slow
def test_type_checkers_see_the_functions(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    script = tmp_path / "user_types.py"
    script.write_text(
        "from neuralsym import ops\n"
        "x = ops.variable('x', ('N', 3))\n"
        "reveal_type(ops.max_pool(x, (2, 2)))\n"
        "reveal_type(ops.top_k(x, [2]).values)\n"
        "reveal_type(ops.split(x, [1, 2]))\n"
        "reveal_type(ops.lstm(x, x, x, outputs=3).y_c)\n"
        "ops.leaky_relu(x, alpa=0.1)\n"
    )
    text = api.run(["--strict", "--cache-dir", str(tmp_path), str(script)])[0]
    kinds = [line.split('"')[1] for line in text.splitlines() if "Revealed" in line]
    symbol = "neuralsym.core.symbol.Symbol"
    assert kinds == [symbol, symbol, f"tuple[{symbol}, ...]", symbol]
    assert 'did you mean "alpha"' in text


def test_functions_say_what_they_take() -> None:
    signature = inspect.signature(ops.leaky_relu)
    assert list(signature.parameters) == ["x", "alpha", "name"]
    assert signature.parameters["alpha"].default == 0.01
    assert ops.leaky_relu.__name__ == "leaky_relu"
    assert ops.leaky_relu.__module__ == "neuralsym.ops"
    assert "alpha: float, default 0.01" in ops.leaky_relu.__doc__
    assert "ONNX LeakyRelu, since opset 16." in ops.leaky_relu.__doc__


def test_a_star_import_shadows_no_builtin() -> None:
    given: dict[str, object] = {}
    exec("from neuralsym.ops import *", given)
    assert not [n for n in given if hasattr(builtins, n) and n != "__builtins__"]
    assert {"max_", "slice_", "float_", "sin", "variable", "logic_and"} <= set(given)
    assert ops.max is ops.max_
    assert all(getattr(ops, a) is getattr(ops, f) for a, f in ALIASES.items())


def test_outputs(x: Symbol) -> None:
    assert isinstance(ops.max_pool(x, (2, 2)), Symbol)
    both = ops.max_pool(x, (2, 2), outputs=2)
    assert both._fields == ("y", "indices")
    assert both.indices.dtype == "int64"
    values, indices = ops.top_k(x, [2])
    assert (values.shape[1:], indices.dtype) == ((3, 8, 2), "int64")
    parts = ops.split(x, [1, 2], axis=1)
    assert [p.shape[1] for p in parts] == [1, 2]
    assert len(ops.split(x, num_outputs=3, axis=1)) == 3
    with pytest.raises(BadAttribute, match="MaxPool has 1 to 2 outputs, not 5"):
        ops.max_pool(x, (2, 2), outputs=5)
    with pytest.raises(BadAttribute, match="how many outputs"):
        ops.split(x, axis=1)


def test_outputs_of_any_name_are_importable_types(x: Symbol) -> None:
    made = ops.max_pool(x, (2, 2), outputs=2)
    assert pickle.loads(pickle.dumps(type(made))) is type(made)


@pytest.mark.parametrize("to", ["float16", np.float16, np.dtype("float16"), 10])
def test_number_types_by_any_spelling(x: Symbol, to: object) -> None:
    assert ops.cast(x, to).dtype == "float16"
    assert ops.cast(x, to=to).dtype == "float16"


def test_only_attributes_that_name_a_type_take_one(x: Symbol) -> None:
    with pytest.raises(BadAttribute, match="axis"):
        ops.softmax(x, axis="float32")


def test_axes_and_shapes_as_python_values(x: Symbol) -> None:
    assert ops.reduce_sum(x, [1], keepdims=False).rank == 3
    assert ops.unsqueeze(x, [0]).rank == 5
    assert ops.reshape(x, (0, -1)).shape[1] == 192
    assert ops.expand(ops.constant(1.0), [2, 3]).shape == (2, 3)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: ops.leaky_relu(x, alpa=0.1), BadAttribute, "did you mean 'alpha'"),
        (lambda x: ops.conv(x), BadAttribute, "missing a required argument: 'w'"),
        (lambda x: ops.max(x), TypeMismatch, r"write max\(\[x, y\]\)"),
        (lambda x: ops.concat(x, axis=0), TypeMismatch, "one Symbol"),
        (lambda x: x + np.ones((1, 4, 8, 8), np.float32), ShapeMismatch, "sizes 3 and 4"),
        (lambda x: x + np.ones((1, 3, 8, 8), np.int64), TypeMismatch, "int64"),
        (lambda x: ops.softmax(x, axis=4), BadAttribute, "axis=4 is out of range for rank 4"),
        (lambda x: ops.gelu(x, approximate="tan"), BadAttribute, "'none', 'tanh'"),
        (lambda x: ops.bit_shift(x, 1, "UP"), OpError, "X"),
        (lambda x: ops.split(x, num_outputs=2**40, axis=1), OpError, "outputs"),
        (lambda x: ops.random_normal((-1,)), BadAttribute, "out of range"),
        (lambda x: ops.cast(x, "float31"), OpError, "float31"),
    ],
)
def test_mistakes(x: Symbol, call: object, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        call(x)  # type: ignore[operator]
    assert "test_ops_functions.py" in str(caught.value)


def test_nothing_is_allocated_by_a_claimed_number() -> None:
    s = ops.variable("s", ("T", "N", 4))
    w = ops.variable("w", (1, "G", 4))
    r = ops.variable("r", (1, "G", "H"))
    for size in (-5, 0, 2**40):
        with pytest.raises(BadAttribute, match="hidden_size"):
            ops.lstm(s, w, r, hidden_size=size)
    assert ops.constant_of_shape([2**40, 2**20]).shape == (2**40, 2**20)
    assert ops.range_(0, 2**60, 1).shape == (2**60,)


def test_constants_of_the_seed() -> None:
    assert (ops.float(2.5).dtype, ops.int(3).dtype) == ("float32", "int32")
    assert ops.complex(1, 2).dtype == "complex64"
    assert abs(float(ops.pi("float64").attrs["value"].value) - np.pi) < 1e-15
    assert ops.zeros((2, 3), "int64").attrs["value"].value.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert ops.ones(4).shape == (4,)
    with pytest.raises(TypeMismatch, match="300 does not fit uint8"):
        ops.int(300, "uint8")
    with pytest.raises(ShapeMismatch, match="constant_of_shape"):
        ops.zeros(("N", 2))


def test_functions_cover_the_operators() -> None:
    assert len(operators()) == len({function_name(op) for op in operators()})

"""Products of matrices and tensors."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.broadcast import broadcast_shapes
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch
from neuralsym.ops.base import Contraction, check_choice, check_rank
from neuralsym.ops.einsum import Equation, expand_einsum
from neuralsym.ops.integer import expand_gemm, expand_matmul, expand_qlinear_matmul
from neuralsym.ops.shapes import bounded, merged, total, typed


class MatMul(Contraction):
    """Matrix product over the last two axes, broadcasting the others, as numpy.matmul."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return typed(call, multiplied(call, 0, 1))


class MatMulInteger(Contraction):
    """MatMul of 8-bit integers less their zero points, summed in int32."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [TensorType(NumberType.INT32, multiplied(call, 0, 1))]

    @classmethod
    def expansion(cls, node: Node) -> Sequence[Symbol] | None:
        return expand_matmul(node)


class QLinearMatMul(Contraction):
    """MatMul of quantized tensors, with a quantized result."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return typed(call, multiplied(call, 0, 3), 7)

    @classmethod
    def expansion(cls, node: Node) -> Sequence[Symbol] | None:
        return expand_qlinear_matmul(node)


class Gemm(Contraction):
    """alpha * A @ B + beta * C on matrices, either of them transposed."""

    @classmethod
    def check(cls, call: Call) -> None:
        for name in ("transA", "transB"):
            if name in call.attrs:
                check_choice(call, name, (0, 1))
        a, b = call.shape(0), call.shape(1)
        if a is not None and len(a) != 2:
            call.fail(f"A has {len(a)} axes, a matrix is needed{_flatten_hint(a, b)}")
        check_rank(call, 1, 2, 2)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        a, b = call.shape(0), call.shape(1)
        rows: Size = None
        columns: Size = None
        inner: Size = None
        if a is not None:
            rows, inner = a[::-1] if call.attrs.get("transA") else a
        if b is not None:
            other, columns = b[::-1] if call.attrs.get("transB") else b
            if other != inner:
                merged(call, inner, other, "inner sizes of A and B", _transpose_hint(inner, b))
        if call.has(2):
            c = call.shape(2)
            if c is not None:
                if len(c) > 2:
                    call.fail(f"C has {len(c)} axes, at most 2 broadcast to the result")
                for size, into, axis in zip(c[::-1], (columns, rows), (1, 0), strict=False):
                    if size not in (1, into):
                        merged(call, size, into, f"C and the result, axis {axis}")
        return typed(call, bounded(call, (rows, columns)))

    @classmethod
    def expansion(cls, node: Node) -> Sequence[Symbol] | None:
        return expand_gemm(node) if node.outputs[0].dtype.is_integer else None


class Einsum(Contraction):
    """The sum of products that an Einstein equation states."""

    @classmethod
    def check(cls, call: Call) -> None:
        Equation.parse(call)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return typed(call, Equation.parse(call).shape(call))

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        return expand_einsum(node, Equation.parse(Call(cls, node.inputs, node.attrs, 1)))


class Det(Contraction):
    """The determinant of the matrices in the last two axes."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 0, 2)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is None:
            return typed(call, None)
        merged(call, x[-2], x[-1], "the last two axes must be a square")
        return typed(call, x[:-2])


# -- what they share ---------------------------------------------------------------------------
def multiplied(call: Call, at_a: int, at_b: int) -> Shape | None:
    """The shape of a matrix product, with numpy's rule for vectors."""
    a, b = call.shape(at_a), call.shape(at_b)
    for shape, at in ((a, at_a), (b, at_b)):
        if shape == ():
            name = call.op.schema.formal_input(at).name
            call.fail(f"{name} is a scalar: multiply with * or ops.mul")
    if a is None or b is None:
        return None
    inner, other = a[-1], b[-2 if len(b) > 1 else -1]
    if inner != other:
        merged(call, inner, other, "inner sizes", _product_hint(a, b))
    batch: Shape | None = a[:-2]
    if len(b) > 2 and a[:-2] != b[:-2]:
        try:
            batch = broadcast_shapes([a[:-2], b[:-2]])
        except ShapeMismatch as error:
            call.fail(f"the axes before the last two must broadcast: {error}")
    assert batch is not None
    rows = a[-2:-1]
    columns = b[-1:] if len(b) > 1 else ()
    return bounded(call, (*batch, *rows, *columns))


def _product_hint(a: Shape, b: Shape) -> str:
    """What has probably been forgotten: a flatten, a transpose."""
    flatten = _flatten_hint(a, b)
    if flatten:
        return flatten
    if len(b) == 2 and b[1] == a[-1]:
        return "; B looks transposed: use ops.gemm(a, b, transB=1) or ops.transpose(b)"
    if len(a) == 1 and len(b) == 2 and b[1] == 1:
        return "; is the batch axis missing? ops.unsqueeze(a, [0]) adds it"
    return ""


def _flatten_hint(a: Shape, b: Shape | None) -> str:
    if b is None or len(b) != 2 or len(a) < 3:
        return ""
    features = total(a[1:])
    if features is not None and features in (b[0], b[1]):
        return "; flatten it first: ops.flatten(a) keeps axis 0 and joins the others"
    return ""


def _transpose_hint(inner: Size, b: Shape) -> str:
    return (
        f"; transA and transB say which of them are transposed (B is {list(b)})"
        if (inner in b)
        else ""
    )

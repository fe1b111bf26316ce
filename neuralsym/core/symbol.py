"""Symbols and nodes: the immutable parts that graphs are made of.

A `Node` is one application of an operator; a `Symbol` is one output of a node. A node knows its
inputs only, so a branch that nobody uses is garbage. Names are given when a Graph is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from numpy.typing import ArrayLike, NDArray

from neuralsym.core.types import Shape, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import GraphError, TypeMismatch, Where, at_line, user_line

if TYPE_CHECKING:
    from neuralsym.core.op import Op
    from neuralsym.core.scope import Scope

Result = TypeVar("Result")


def read_only(self: object, name: str, value: object = None) -> NoReturn:
    """Refuse a change: as a class's __setattr__ and __delattr__."""
    hint = "graph.replace, graph.rename or graph.map give a changed graph"
    raise AttributeError(f"{type(self).__name__}.{name} is read-only; {hint}")


def itself(self: Any, memo: object = None) -> Any:
    """What cannot change is its own copy."""
    return self


def whole_graphs_only(self: object) -> NoReturn:
    """Refuse to pickle a part of a graph, which would lose what it shares with the others."""
    raise TypeError(f"a {type(self).__name__} is pickled as part of its Graph, not alone")


def set_label(node: Node, label: str) -> None:
    """Note the name that a Graph gives to a node; for naming alone."""
    object.__setattr__(node, "label", label)


class Node:
    """One application of an operator.

    `inputs` are positional, None where an optional one is omitted. `captures` are symbols of an
    outer scope that a body in `attrs` uses; traversal and planning treat them as inputs.
    `operands` are all symbols that the node needs: the given inputs, then the captures.
    """

    __slots__ = (
        "__weakref__",
        "attrs",
        "captures",
        "inputs",
        "label",
        "level",
        "name",
        "op",
        "operands",
        "outputs",
        "scope",
        "where",
    )

    op: type[Op]
    inputs: tuple[Symbol | None, ...]
    attrs: Mapping[str, Any]
    name: str | None
    scope: Scope | None
    where: Where | None
    captures: tuple[Symbol, ...]
    operands: tuple[Symbol, ...]
    level: Level | None
    label: str | None
    outputs: tuple[Symbol, ...]

    def __init__(
        self,
        op: type[Op],
        inputs: tuple[Symbol | None, ...],
        attrs: Mapping[str, Any],
        types: tuple[Type, ...],
        *,
        known: tuple[NDArray[Any] | None, ...] | None = None,
        name: str | None = None,
        scope: Scope | None = None,
        where: Where | None = None,
        captures: tuple[Symbol, ...] = (),
    ) -> None:
        put = object.__setattr__
        put(self, "op", op)
        put(self, "inputs", inputs)
        put(self, "attrs", MappingProxyType(dict(attrs)))
        put(self, "name", name)
        put(self, "scope", scope)
        put(self, "where", where)
        put(self, "captures", captures)
        given = inputs if None not in inputs else tuple(s for s in inputs if s is not None)
        put(self, "operands", given + captures if captures else given)
        put(self, "level", LEVEL.get())
        put(self, "label", None)
        values = known or (None,) * len(types)
        made = (Symbol(self, i, t, v) for i, (t, v) in enumerate(zip(types, values, strict=True)))
        put(self, "outputs", tuple(made))

    __setattr__ = __delattr__ = read_only
    __copy__ = __deepcopy__ = itself
    __reduce__ = whole_graphs_only

    @property
    def op_type(self) -> str:
        return self.op.__name__

    def attr(self, name: str) -> Any:
        """The attribute, or its default; None where it has neither."""
        if name in self.attrs:
            return self.attrs[name]
        spec = self.op.schema.attributes.get(name)
        return spec.default if spec else None

    def describe(self) -> str:
        """`Conv 'stem/conv'`, for messages."""
        name = self.label or self.name
        return f"{self.op_type} {name!r}" if name else self.op_type

    def __repr__(self) -> str:
        return f"<Node {self.describe()}>"


class Symbol:
    """One output of a node: what operators and layers take and give."""

    __slots__ = ("__weakref__", "_known", "index", "node", "type")
    __array_ufunc__ = None  # so that `ndarray + symbol` asks the symbol

    node: Node
    index: int
    type: Type
    _known: NDArray[Any] | None

    def __init__(self, node: Node, index: int, type: Type, known: NDArray[Any] | None) -> None:
        put = object.__setattr__
        put(self, "node", node)
        put(self, "index", index)
        put(self, "type", type)
        put(self, "_known", known)

    __setattr__ = __delattr__ = read_only
    __copy__ = __deepcopy__ = itself
    __reduce__ = whole_graphs_only

    # -- reading ---------------------------------------------------------------------------
    @property
    def name(self) -> str:
        """The name that the last Graph made of it has given, before that the user's own.

        Raises GraphError before either exists.
        """
        base = self.node.label or self.node.name
        if base is None:
            raise GraphError(
                f"this {self.op_type} has no name yet: names are given when a Graph is made, "
                f"or by name=...{at_line(self.node.where)}"
            )
        return output_name(base, self.index)

    @property
    def op_type(self) -> str:
        return self.node.op_type

    @property
    def inputs(self) -> tuple[Symbol | None, ...]:
        return self.node.inputs

    @property
    def outputs(self) -> tuple[Symbol, ...]:
        return self.node.outputs

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.node.attrs

    @property
    def tensor(self) -> TensorType:
        """The type of a tensor; TypeMismatch for a sequence, optional or map."""
        if not isinstance(self.type, TensorType):
            raise TypeMismatch(f"{self.node.describe()} gives {self.type}, not a tensor")
        return self.type

    @property
    def dtype(self) -> NumberType:
        return self.tensor.dtype

    @property
    def shape(self) -> Shape | None:
        return self.tensor.shape

    @property
    def rank(self) -> int | None:
        return self.tensor.rank

    @property
    def known(self) -> NDArray[Any] | None:
        """The value, where it is known while building; of ints and Dims for shape arithmetic."""
        if self._known is None:
            object.__setattr__(self, "_known", self.node.op.constant_value(self.node))
        return self._known

    def __repr__(self) -> str:
        return f"<Symbol {self.node.describe()}: {self.type}>"

    # -- what Python would do silently -----------------------------------------------------
    def __bool__(self) -> NoReturn:
        raise TypeMismatch(
            f"a Symbol has no truth value (this one is {self.type}): use ops.where(condition, a, "
            f"b), ops.if_, and & | ~ in the place of and, or, not{at_line(user_line())}"
        )

    def __iter__(self) -> Iterator[Symbol]:
        shape = self.shape
        if not shape or not isinstance(shape[0], int):
            raise TypeMismatch(
                f"a Symbol of type {self.type} cannot be iterated over: its first dimension is "
                f"not a known size{at_line(user_line())}"
            )
        return iter([self[i] for i in range(shape[0])])

    def __len__(self) -> NoReturn:
        raise TypeMismatch(
            f"a Symbol has no len(): its shape is x.shape, its size ops.size(x)"
            f"{at_line(user_line())}"
        )

    def __float__(self) -> NoReturn:
        raise TypeMismatch(
            f"a Symbol ({self.type}) has no value until a network is run{at_line(user_line())}"
        )

    __int__ = __index__ = __float__

    # -- operators, by name, so that this module knows no operator --------------------------
    def __add__(self, other: SymbolLike) -> Symbol:
        return binary("Add", self, other)

    def __radd__(self, other: SymbolLike) -> Symbol:
        return binary("Add", other, self)

    def __sub__(self, other: SymbolLike) -> Symbol:
        return binary("Sub", self, other)

    def __rsub__(self, other: SymbolLike) -> Symbol:
        return binary("Sub", other, self)

    def __mul__(self, other: SymbolLike) -> Symbol:
        return binary("Mul", self, other)

    def __rmul__(self, other: SymbolLike) -> Symbol:
        return binary("Mul", other, self)

    def __truediv__(self, other: SymbolLike) -> Symbol:
        return binary("Div", self, other)

    def __rtruediv__(self, other: SymbolLike) -> Symbol:
        return binary("Div", other, self)

    def __matmul__(self, other: SymbolLike) -> Symbol:
        return binary("MatMul", self, other)

    def __rmatmul__(self, other: SymbolLike) -> Symbol:
        return binary("MatMul", other, self)

    def __pow__(self, other: SymbolLike) -> Symbol:
        return binary("Pow", self, other)

    def __rpow__(self, other: SymbolLike) -> Symbol:
        return binary("Pow", other, self)

    def __mod__(self, other: SymbolLike) -> Symbol:
        return binary("Mod", self, other)

    def __rmod__(self, other: SymbolLike) -> Symbol:
        return binary("Mod", other, self)

    def __floordiv__(self, other: SymbolLike) -> Symbol:
        return binary("FloorDiv", self, other)

    def __rfloordiv__(self, other: SymbolLike) -> Symbol:
        return binary("FloorDiv", other, self)

    def __neg__(self) -> Symbol:
        return binary("Neg", self)

    def __pos__(self) -> Symbol:
        return self

    def __abs__(self) -> Symbol:
        return binary("Abs", self)

    def __lt__(self, other: SymbolLike) -> Symbol:
        return binary("Less", self, other)

    def __le__(self, other: SymbolLike) -> Symbol:
        return binary("LessOrEqual", self, other)

    def __gt__(self, other: SymbolLike) -> Symbol:
        return binary("Greater", self, other)

    def __ge__(self, other: SymbolLike) -> Symbol:
        return binary("GreaterOrEqual", self, other)

    def __and__(self, other: SymbolLike) -> Symbol:
        return binary("And", self, other)

    def __rand__(self, other: SymbolLike) -> Symbol:
        return binary("And", other, self)

    def __xor__(self, other: SymbolLike) -> Symbol:
        return binary("Xor", self, other)

    def __rxor__(self, other: SymbolLike) -> Symbol:
        return binary("Xor", other, self)

    def __invert__(self) -> Symbol:
        return binary("Not", self)

    @overload
    def __or__(self, other: Symbol) -> Symbol: ...
    @overload
    def __or__(self, other: Callable[[Symbol], Result]) -> Result: ...
    def __or__(self, other: Any) -> Any:
        """`x | layer` applies a layer or any one-argument function; `a | b` is logical or."""
        if isinstance(other, Symbol) or not callable(other):
            return binary("Or", self, other)
        return other(self)

    def __ror__(self, other: SymbolLike) -> Symbol:
        return binary("Or", other, self)

    def __getitem__(self, index: Any) -> Symbol:
        """numpy's basic indexing: integers, slices, `...` and None."""
        from neuralsym.core.registry import index_symbol

        return index_symbol(self, index)


SymbolLike = Symbol | ArrayLike


def binary(name: str, *operands: SymbolLike) -> Symbol:
    """Apply the operator that Python spells with a sign; the registry knows them by name."""
    from neuralsym.core.registry import apply_operator

    return apply_operator(name, *operands)


class OutputNames(str):
    """The name of a node whose outputs after the first have names of their own, as in a file."""

    rest: tuple[str, ...]

    @classmethod
    def of(cls, first: str, rest: tuple[str, ...]) -> OutputNames:
        """`rest` names the outputs from the second on; "" for one that has no name."""
        made = cls(first)
        made.rest = rest
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return OutputNames.of, (str(self), self.rest)


def output_name(base: str, index: int) -> str:
    """The name of output `index` of a node called `base`."""
    if index == 0:
        return base
    rest = base.rest if isinstance(base, OutputNames) else ()
    return (rest[index - 1] if index <= len(rest) else "") or f"{base}:{index}"


class Level:
    """The inside of a body; `open` while the body's function runs."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open = True


LEVEL: ContextVar[Level | None] = ContextVar("level", default=None)
"""The body under construction; a symbol of another level that it uses is a capture."""


@contextmanager
def body_level() -> Iterator[Level]:
    """Mark what is built inside as the inside of a body."""
    level = Level()
    token = LEVEL.set(level)
    try:
        yield level
    finally:
        LEVEL.reset(token)
        level.open = False

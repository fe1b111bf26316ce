"""Dimensions: an int, a name, or an expression of names in one canonical form.

A `Dim` is a sum of products of atoms; an atom is a name, or the floor quotient, the minimum, the
maximum or the broadcast of two dimensions. Equal expressions have equal forms, so `==` and text
comparison agree. Names stand for sizes, integers of at least zero.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import gcd
from typing import Any, Union

from neuralsym.core.locks import cached_property
from neuralsym.errors import BadAttribute, ShapeMismatch

DimLike = Union[int, "Dim"]
Atom = Union[str, "Apply"]
Product = tuple[Atom, ...]
MAX_TERMS = 64
MAX_ATOMS = 64
"""An expression of more atoms, counted through all floors, minima and maxima, is refused."""
_MAX_TEXT = 20_000


class TooLong(ShapeMismatch):
    """An expression has grown beyond use; inference then leaves the size unknown."""


@dataclass(frozen=True)
class Apply:
    """A function of two dimensions that is no sum of products: `//`, `min`, `max`, `broadcast`."""

    function: str
    left: DimLike
    right: DimLike

    @cached_property
    def text(self) -> str:
        if self.function == "//":
            return f"{_grouped(self.left)}//{_grouped(self.right)}"
        return f"{self.function}({self.left}, {self.right})"

    @cached_property
    def atoms(self) -> int:
        """How many atoms there are in it, itself included."""
        return 1 + sum(part.atoms for part in (self.left, self.right) if isinstance(part, Dim))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.function, self.left, self.right))

    def __reduce__(self) -> tuple[Any, ...]:
        return Apply, (self.function, self.left, self.right)  # hashes of text differ by process

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Dim:
    """A symbolic dimension; `Dim.name("N") * 4 + 1`. Arithmetic gives an int where it can."""

    terms: tuple[tuple[Product, int], ...]

    @staticmethod
    def name(name: str) -> Dim:
        """The dimension called `name`; any text is a name, only identifiers parse back."""
        if not name:
            raise BadAttribute("a dimension's name must not be empty")
        return Dim((((name,), 1),))

    @staticmethod
    def parse(text: str) -> DimLike:
        """The dimension that canonical text means; any other text is an opaque name, as it is."""
        made = _parse(text)
        return made if made is not None and str(made) == text else Dim.name(text)

    # -- arithmetic ------------------------------------------------------------------------
    def __add__(self, other: DimLike) -> DimLike:
        return _sum([(self, 1), (other, 1)])

    def __radd__(self, other: int) -> DimLike:
        return _sum([(other, 1), (self, 1)])

    def __sub__(self, other: DimLike) -> DimLike:
        return _sum([(self, 1), (other, -1)])

    def __rsub__(self, other: int) -> DimLike:
        return _sum([(other, 1), (self, -1)])

    def __neg__(self) -> DimLike:
        return _sum([(self, -1)])

    def __pos__(self) -> Dim:
        return self

    def __mul__(self, other: DimLike) -> DimLike:
        return _product(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: DimLike) -> DimLike:
        return floor_div(self, other)

    def __rfloordiv__(self, other: int) -> DimLike:
        return floor_div(other, self)

    def __mod__(self, other: DimLike) -> DimLike:
        return self - floor_div(self, other) * other

    # -- reading ---------------------------------------------------------------------------
    @cached_property
    def text(self) -> str:
        out = ""
        for product, factor in self.terms:
            size = abs(factor)
            bare = len(product) == 1 and size == 1 and not out
            words = [_factor(a, bare) for a in product] + ([str(size)] if size != 1 else [])
            if not product:
                words = [str(size)]
            sign = ("-" if factor < 0 else "") if not out else (" - " if factor < 0 else " + ")
            if not out and factor < 0:
                words = [_factor(a, False) for a in product] + ([str(size)] if size != 1 else [])
                words = words or [str(size)]
            out += sign + "*".join(words)
        return out

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Dim({self.text!r})"

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __reduce__(self) -> tuple[Any, ...]:
        return Dim, (self.terms,)  # hashes of text differ from process to process

    @cached_property
    def atoms(self) -> int:
        """How many atoms there are in the expression."""
        return sum(
            1 if isinstance(atom, str) else atom.atoms
            for product, _ in self.terms
            for atom in product
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that the expression uses."""
        found: set[str] = set()
        for product, _ in self.terms:
            for atom in product:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    for part in (atom.left, atom.right):
                        if isinstance(part, Dim):
                            found |= part.names
        return frozenset(found)

    @property
    def is_name(self) -> bool:
        return len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1

    def substitute(self, sizes: Mapping[str, DimLike]) -> DimLike:
        """The expression with `sizes` in the place of names; an int when all are given."""
        total: list[tuple[DimLike, int]] = []
        for product, factor in self.terms:
            value: DimLike = 1
            for atom in product:
                if isinstance(atom, str):
                    value = _product(value, sizes.get(atom, Dim.name(atom)))
                else:
                    left, right = substitute(atom.left, sizes), substitute(atom.right, sizes)
                    value = _product(value, APPLY[atom.function](left, right))
            total.append((value, factor))
        return _sum(total)


def substitute(dim: DimLike, sizes: Mapping[str, DimLike]) -> DimLike:
    """`dim` with `sizes` in the place of its names."""
    return dim.substitute(sizes) if isinstance(dim, Dim) else dim


def evaluate(dim: DimLike, sizes: Mapping[str, int]) -> int:
    """The size that `dim` has for these sizes of its names; ShapeMismatch if one is missing."""
    value = substitute(dim, sizes)
    if isinstance(value, Dim):
        raise ShapeMismatch(f"dimension {dim} needs a size for {', '.join(sorted(value.names))}")
    return value


def floor_div(a: DimLike, b: DimLike) -> DimLike:
    """floor(a / b)."""
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            raise ShapeMismatch(f"dimension {a}//0 divides by zero")
        return a // b
    if b == 1:
        return a
    if a == b:
        return 1
    if a == 0:
        return 0
    if isinstance(b, int) and b > 0 and isinstance(a, Dim):
        return _floor_by_int(a, b)
    return _atom("//", a, b)


def ceil_div(a: DimLike, b: DimLike) -> DimLike:
    """ceil(a / b), written as a floor."""
    return floor_div(a + b - 1, b)


def minimum(a: DimLike, b: DimLike) -> DimLike:
    return _extreme("min", a, b)


def maximum(a: DimLike, b: DimLike) -> DimLike:
    return _extreme("max", a, b)


def broadcast(a: DimLike, b: DimLike) -> DimLike:
    """The size that two sizes broadcast to, where they do: 0 beside 1, else the larger.

    What a run does not accept, sizes that differ and are not 1, is for the run to refuse.
    """
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Dim) and other in _operands(one, "broadcast"):
            return one
    left, right = sorted((a, b), key=str)
    return _atom("broadcast", left, right)


def product(dims: Iterable[DimLike]) -> DimLike:
    """The product of dimensions; 1 for none."""
    total: DimLike = 1
    for d in dims:
        total = _product(total, d)
    return total


def certainly_differ(a: DimLike, b: DimLike) -> bool:
    """Whether no sizes of the names make `a` and `b` equal, as far as can be told."""
    difference = a - b
    if isinstance(difference, int):
        return difference != 0
    constant = dict(difference.terms).get((), 0)
    common = reduce(gcd, (abs(f) for p, f in difference.terms if p), 0)
    signs = {f > 0 for p, f in difference.terms if p}
    if constant and len(signs) == 1 and signs == {constant > 0} and _plain(difference):
        return True
    return bool(constant and common > 1 and constant % common)


def _plain(dim: Dim) -> bool:
    return all(isinstance(a, str) for p, _ in dim.terms for a in p)


APPLY: dict[str, Callable[[DimLike, DimLike], DimLike]] = {
    "//": floor_div,
    "min": minimum,
    "max": maximum,
    "broadcast": broadcast,
}


def _extreme(function: str, a: DimLike, b: DimLike) -> DimLike:
    choose = min if function == "min" else max
    difference = a - b
    if isinstance(difference, int):
        return a if (difference <= 0) == (function == "min") else b
    if isinstance(a, int) and isinstance(b, int):
        return choose(a, b)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Dim) and other in _operands(one, function):
            return one
    plain = _plain(difference)
    signs = {f > 0 for _, f in difference.terms}
    if plain and len(signs) == 1:  # names are at least zero, so the sign of the sum is known
        return b if (True in signs) == (function == "min") else a
    left, right = sorted((a, b), key=str)
    return _atom(function, left, right)


def _operands(dim: Dim, function: str) -> Iterator[DimLike]:
    """What such a function is taken of, through those inside it."""
    atom = dim.terms[0][0][0] if dim.is_name else None
    if isinstance(atom, Apply) and atom.function == function:
        for part in (atom.left, atom.right):
            yield part
            if isinstance(part, Dim):
                yield from _operands(part, function)


def _floor_by_int(a: Dim, b: int) -> DimLike:
    """(b*x + r)//b = x + r//b, and (x//c + k)//b = (x + k*c)//(b*c)."""
    whole = [(p, f) for p, f in a.terms if f % b == 0 and p]
    rest = {p: f for p, f in a.terms if f % b or not p}
    constant = rest.pop((), 0)
    outside = _normal([*whole], 0, scale=b)
    if not rest:
        return outside + constant // b
    inner_constant = constant % b
    outside = outside + constant // b
    if len(rest) == 1:
        ((atoms, factor),) = rest.items()
        atom = atoms[0] if len(atoms) == 1 else None
        if factor == 1 and isinstance(atom, Apply) and atom.function == "//":
            step = atom.right
            if isinstance(step, int) and step > 0:
                return outside + floor_div(atom.left + inner_constant * step, b * step)
    common = reduce(gcd, rest.values(), b)
    if common > 1:
        inner_constant //= common
        rest = {p: f // common for p, f in rest.items()}
        b //= common
        if b == 1:
            return outside + _normal(list(rest.items()), inner_constant)
    return outside + _atom("//", _normal(list(rest.items()), inner_constant), b)


def _atom(function: str, a: DimLike, b: DimLike) -> Dim:
    made = Apply(function, a, b)
    if made.atoms > MAX_ATOMS:
        raise TooLong(
            f"a dimension of {', '.join(sorted(Dim((((made,), 1),)).names)[:4])} grew to an "
            f"expression of over {MAX_ATOMS} parts; give the inputs sizes instead of names"
        )
    return Dim((((made,), 1),))


def _normal(terms: list[tuple[Product, int]], constant: int, scale: int = 1) -> DimLike:
    made: DimLike = constant
    for p, f in terms:
        made = made + Dim(((p, f // scale),))
    return made


def _terms(dim: DimLike) -> tuple[tuple[Product, int], ...]:
    if isinstance(dim, Dim):
        return dim.terms
    return (((), int(dim)),) if dim else ()


def _sum(parts: list[tuple[DimLike, int]]) -> DimLike:
    total: dict[Product, int] = {}
    for dim, sign in parts:
        for p, factor in _terms(dim):
            total[p] = total.get(p, 0) + sign * factor
    return _from_terms(total)


def _product(a: DimLike, b: DimLike) -> DimLike:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    total: dict[Product, int] = {}
    for p, f in _terms(a):
        for q, g in _terms(b):
            atoms = tuple(sorted(p + q, key=_order))
            total[atoms] = total.get(atoms, 0) + f * g
    return _from_terms(total)


def _from_terms(total: dict[Product, int]) -> DimLike:
    kept = [(p, f) for p, f in total.items() if f]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    if len(kept) > MAX_TERMS:
        raise TooLong(
            f"a dimension grew to a sum of over {MAX_TERMS} terms; give the inputs sizes instead "
            "of names"
        )
    kept.sort(key=lambda item: (not item[0], -len(item[0]), [_order(a) for a in item[0]]))
    return Dim(tuple(kept))


def _order(atom: Atom) -> str:
    return atom if isinstance(atom, str) else atom.text


def _factor(atom: Atom, bare: bool) -> str:
    if isinstance(atom, str) or atom.function != "//":
        return str(atom)
    return atom.text if bare else f"({atom.text})"


def _grouped(dim: DimLike) -> str:
    simple = isinstance(dim, int) and dim >= 0
    if isinstance(dim, Dim):
        simple = dim.is_name and (isinstance(dim.terms[0][0][0], str) or not _is_quotient(dim))
    return str(dim) if simple else f"({dim})"


def _is_quotient(dim: Dim) -> bool:
    atom = dim.terms[0][0][0]
    return isinstance(atom, Apply) and atom.function == "//"


def _parse(text: str) -> DimLike | None:
    if not text or len(text) > _MAX_TEXT or text.count("(") > 190:
        return None
    if text.isidentifier():
        return Dim.name(text)
    try:
        return _read(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, ShapeMismatch, RecursionError, MemoryError):
        return None


def _read(node: ast.expr) -> DimLike:
    if isinstance(node, ast.Name):
        return Dim.name(node.id)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return 0 - _read(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _read(node.left), _read(node.right)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return _product(left, right)
        if isinstance(node.op, ast.FloorDiv):
            return floor_div(left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
        function = APPLY.get(node.func.id)
        if function and not node.keywords:
            return function(_read(node.args[0]), _read(node.args[1]))
    raise ValueError("not a dimension")

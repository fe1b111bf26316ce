"""Symbolic dimensions: their arithmetic is that of integers, their text is their identity."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neuralsym.core.dim import (
    Dim,
    DimLike,
    broadcast,
    ceil_div,
    certainly_differ,
    evaluate,
    floor_div,
    maximum,
    minimum,
    product,
    substitute,
)
from neuralsym.errors import BadAttribute, ShapeMismatch

NAMES = ("N", "H", "W", "batch_size")
SIZES = st.fixed_dictionaries({name: st.integers(0, 40) for name in NAMES})
LEAVES = st.one_of(st.integers(-7, 12), st.sampled_from(NAMES).map(Dim.name))
OPERATIONS: dict[str, tuple[Callable[..., DimLike], Callable[[int, int], int]]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "floor": (floor_div, lambda a, b: a // b),
    "mod": (lambda a, b: a - floor_div(a, b) * b, lambda a, b: a % b),
    "min": (minimum, min),
    "max": (maximum, max),
}


class Tree:
    """An expression that is built both of dimensions and of integers."""

    def __init__(self, dim: DimLike, value: Callable[[dict[str, int]], int]) -> None:
        self.dim = dim
        self.value = value


def leaf(given: DimLike) -> Tree:
    if isinstance(given, int):
        return Tree(given, lambda sizes: given)
    return Tree(given, lambda sizes: sizes[str(given)])


def node(operation: str, a: Tree, b: Tree) -> Tree:
    symbolic, concrete = OPERATIONS[operation]
    if operation in ("floor", "mod"):
        assume(isinstance(b.dim, int) and b.dim != 0)
    return Tree(symbolic(a.dim, b.dim), lambda sizes: concrete(a.value(sizes), b.value(sizes)))


TREES: st.SearchStrategy[Tree] = st.recursive(
    LEAVES.map(leaf),
    lambda inner: st.builds(node, st.sampled_from(sorted(OPERATIONS)), inner, inner),
    max_leaves=7,
)


@given(TREES, SIZES)
def test_arithmetic_is_that_of_integers(tree: Tree, sizes: dict[str, int]) -> None:
    assert evaluate(tree.dim, sizes) == tree.value(sizes)


@given(TREES)
def test_text_reads_back_as_the_same(tree: Tree) -> None:
    if isinstance(tree.dim, Dim):
        assert Dim.parse(str(tree.dim)) == tree.dim
        assert hash(Dim.parse(str(tree.dim))) == hash(tree.dim)


@given(TREES, TREES, SIZES)
def test_sizes_said_to_differ_do(a: Tree, b: Tree, sizes: dict[str, int]) -> None:
    if certainly_differ(a.dim, b.dim):
        assert a.value(sizes) != b.value(sizes)


@given(TREES, TREES, TREES)
def test_sums_and_products_have_one_form(a: Tree, b: Tree, c: Tree) -> None:
    x, y, z = a.dim, b.dim, c.dim
    assert x + y == y + x
    assert (x + y) + z == x + (y + z)
    assert x * y == y * x
    assert x * (y + z) == x * y + x * z
    assert x - x == 0
    assert minimum(x, y) == minimum(y, x)
    assert maximum(x, x) == x


@given(TREES, SIZES)
def test_names_may_be_replaced_one_at_a_time(tree: Tree, sizes: dict[str, int]) -> None:
    partly = substitute(tree.dim, {"N": sizes["N"], "H": Dim.name("W")})
    assert evaluate(partly, sizes) == tree.value({**sizes, "H": sizes["W"]})


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (Dim.name("N") * 4 + 1, "N*4 + 1"),
        ((Dim.name("H") - 1) // 2 + 1, "(H + 1)//2"),
        (((Dim.name("H") - 1) // 2 + 1 - 1) // 2 + 1, "(H + 3)//4"),
        (Dim.name("H") * 6 // 3, "H*2"),
        ((Dim.name("H") * 2 + 3) // 2, "H + 1"),
        ((Dim.name("H") * 2 - 3) // 2, "H - 2"),
        ((Dim.name("H") * 4 + 6) // 8, "(H + 1)//2"),
        (0 - Dim.name("H"), "-H"),
        (Dim.name("H") * Dim.name("W") - 3, "H*W - 3"),
        (Dim.name("H") // Dim.name("W"), "H//W"),
        (Dim.name("H") // 2 * 3, "(H//2)*3"),
        (0 - Dim.name("H") // 2, "-(H//2)"),
        (minimum(Dim.name("W"), 3), "min(3, W)"),
        (ceil_div(Dim.name("H"), 2), "(H + 1)//2"),
        (product([2, Dim.name("N"), 3]), "N*6"),
    ],
)
def test_the_form_of_an_expression(made: Dim, text: str) -> None:
    assert str(made) == text
    assert Dim.parse(text) == made


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (minimum(Dim.name("N") + 1, Dim.name("N") + 3), Dim.name("N") + 1),
        (maximum(Dim.name("N"), 0), Dim.name("N")),
        (minimum(Dim.name("N"), 0), 0),
        (maximum(Dim.name("N") * 2 + 5, Dim.name("N")), Dim.name("N") * 2 + 5),
        (Dim.name("N") // 1, Dim.name("N")),
        (Dim.name("N") // Dim.name("N"), 1),
        (Dim.name("N") - Dim.name("N"), 0),
        (Dim.name("N") % 1, 0),
        (Dim.name("N") * 0, 0),
        ((Dim.name("N") * 8 + 4) % 4, 0),
    ],
)
def test_what_is_known_is_simplified(made: DimLike, value: DimLike) -> None:
    assert made == value


@pytest.mark.parametrize("text", ["2*N", "N + N", "(N)", "N+1", "a b", "N //2", "unk__12", "-1 x"])
def test_text_that_is_not_canonical_is_an_opaque_name(text: str) -> None:
    made = Dim.parse(text)
    assert str(made) == text
    assert made == Dim.name(text)


@pytest.mark.parametrize(
    ("a", "b", "differ"),
    [
        (3, 4, True),
        (3, 3, False),
        (Dim.name("N"), 3, False),
        (Dim.name("N"), Dim.name("N") + 1, True),
        (Dim.name("N") * 2, Dim.name("M") * 2 + 1, True),
        (Dim.name("N") + 4, 3, True),
        (Dim.name("N"), Dim.name("M"), False),
        (Dim.name("N") // 2 - 1, 0, False),
    ],
)
def test_certainly_differ(a: DimLike, b: DimLike, differ: bool) -> None:
    assert certainly_differ(a, b) is differ
    assert certainly_differ(b, a) is differ


def test_a_missing_size_is_named() -> None:
    with pytest.raises(ShapeMismatch, match="needs a size for M"):
        evaluate(Dim.name("N") * Dim.name("M"), {"N": 3})


def test_nonsense_is_refused() -> None:
    with pytest.raises(BadAttribute):
        Dim.name("")
    with pytest.raises(ShapeMismatch, match="divides by zero"):
        floor_div(3, 0)


def test_expressions_that_grow_without_end_are_refused() -> None:
    def grow(step: Callable[[DimLike], DimLike]) -> None:
        n: DimLike = Dim.name("N")
        for _ in range(10_000):
            n = step(n)

    with pytest.raises(ShapeMismatch, match="grew"):
        grow(lambda n: minimum(n * 3 + Dim.name("M"), n * 2 + 7))
    with pytest.raises(ShapeMismatch, match="grew"):
        grow(lambda n: (n * 3 + 1) // 2)
    with pytest.raises(ShapeMismatch, match="grew"):
        grow(lambda n: n * (Dim.name("M") + 1))


def test_pickles_mean_the_same_in_another_process() -> None:
    dim = (Dim.name("N") * 3 + 1) // 2
    assert hash(dim) is not None
    program = (
        "import pickle, sys; from neuralsym.core.dim import Dim;"
        "d = pickle.loads(sys.stdin.buffer.read());"
        "e = (Dim.name('N') * 3 + 1) // 2;"
        "assert d == e and hash(d) == hash(e) and {d: 1}[e] == 1"
    )
    subprocess.run([sys.executable, "-c", program], input=pickle.dumps(dim), check=True)


def test_the_longest_expressions_still_read_back() -> None:
    longest: DimLike = Dim.name("N")
    while True:
        try:
            longest = (longest * 3 + 1) // 2
        except ShapeMismatch:
            break
    assert Dim.parse(str(longest)) == longest


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_broadcast_is_numpys(a: int, b: int, c: int) -> None:
    names = [Dim.name(n) for n in "ABC"]
    symbolic = broadcast(broadcast(names[0], names[1]), names[2])
    assert broadcast(symbolic, names[0]) == symbolic
    assert Dim.parse(str(symbolic)) == symbolic
    try:
        (wanted,) = np.broadcast_shapes((a,), (b,), (c,))
    except ValueError:
        return
    assert evaluate(symbolic, {"A": a, "B": b, "C": c}) == wanted
    assert broadcast(broadcast(a, b), c) == wanted

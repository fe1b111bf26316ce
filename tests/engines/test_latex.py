"""Formulas: parentheses where precedence asks for them, and a name for what is used twice."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import engines, ops, zoo
from neuralsym.core.graph import Graph
from neuralsym.core.op import OPS
from neuralsym.core.symbol import Symbol
from neuralsym.engines import latex
from neuralsym.engines.latex.printer import lines_of, name_of
from neuralsym.errors import FormatError
from neuralsym.ops.evaluate import evaluate_graph


def var(name: str) -> Symbol:
    return ops.variable(name, (3, 3))


X, Y, Z = map(var, "xyz")


def text(symbol: Symbol) -> str:
    """The right side of the only line."""
    ((_, right),) = lines_of(Graph(symbol))
    return right


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ((X + Y) * Z, r"\left(x + y\right) \cdot z"),
        (X + Y * Z, r"x + y \cdot z"),
        (X - (Y - Z), r"x - \left(y - z\right)"),
        (X - Y - Z, r"x - y - z"),
        (X + -Y, r"x + \left(-y\right)"),
        (ops.neg(-X), r"-\left(-x\right)"),
        (X * (Y / Z), r"x \cdot \frac{y}{z}"),
        ((X / Y) ** 2.0, r"\left(\frac{x}{y}\right)^{2}"),
        (X**10.0, "x^{10}"),
        ((-X) ** 3.0, r"\left(-x\right)^{3}"),
        (-(X**2.0), "-x^{2}"),
        ((X**Y) ** Z, r"\left(x^{y}\right)^{z}"),
        (X ** (Y**Z), "x^{y^{z}}"),
        (ops.exp(X + Y) ** 2.0, r"\left(\exp\left(x + y\right)\right)^{2}"),
        (ops.sqrt(X + 1.0), r"\sqrt{x + 1}"),
        (X * -2.0, r"x \cdot \left(-2\right)"),
        (X + 1e-5, r"x + 10^{-5}"),
        (X * 2.5e-7, r"x \cdot 2.5 \cdot 10^{-7}"),
        (ops.abs(X - Y), r"\left|x - y\right|"),
        (ops.asinh(X), r"\operatorname{arsinh}\left(x\right)"),
        (ops.max([X, Y]), r"\max\left(x, y\right)"),
        (ops.clip(X, 0.0, 6.0), r"\min\left(\max\left(x, 0\right), 6\right)"),
        (ops.matmul(X + Y, Z), r"\left(x + y\right) \, z"),
        (ops.transpose(X @ Y), r"\left(x \, y\right)^{\top}"),
        (ops.gemm(X, Y, Z, alpha=2.0, transB=1), r"2 \, x \, y^{\top} + z"),
        (ops.reduce_sum(X, [1], keepdims=0) * 2.0, r"\sum_{1} x \cdot 2"),
        (ops.softmax(X, axis=0), r"\operatorname{softmax}_{0}\left(x\right)"),
        ((X > Y) & ~(Y < Z), r"x > y \land \lnot \left(y < z\right)"),
        (
            ops.where(X > 0.0, X, -Y),
            r"\begin{cases} x & \text{if } x > 0 \\ -y & \text{otherwise} \end{cases}",
        ),
        (
            ops.leaky_relu(X, alpha=0.2),
            r"\operatorname{LeakyRelu}\left(x;\ \mathrm{alpha}=0.2\right)",
        ),
        (ops.leaky_relu(X), r"\operatorname{LeakyRelu}\left(x\right)"),
        (X * [1.0, 0.5, -1.0], r"x \cdot \begin{pmatrix} 1 & 0.5 & -1 \end{pmatrix}"),
    ],
)
def test_an_expression_is_written_so(made: Symbol, wanted: str) -> None:
    assert text(made) == wanted


def test_what_is_shared_is_named_once() -> None:
    shared = ops.exp(X)
    y = shared
    for _ in range(40):
        y = y * y  # written out it would have 2^40 factors
    found = lines_of(Graph({"w": y, "v": shared}))
    assert len(found) == 41
    assert found[0] == ("v", r"\exp\left(x\right)")
    assert found[1] == ("t_{1}", r"v \cdot v")
    assert found[-1][0] == "w"


def test_deep_graphs_are_cut_into_lines() -> None:
    y = X
    for _ in range(5_000):
        y = ops.sin(y)
    found = lines_of(Graph({"y": y}))
    assert 300 < len(found) < 1000
    assert max(len(right) for _, right in found) < 500


def test_names_are_set_as_they_are_meant() -> None:
    assert name_of("x") == "x"
    assert name_of("x_1") == name_of("x1") == "x_{1}"
    assert name_of("alpha") == r"\alpha"
    assert name_of("beta_2") == r"\beta_{2}"
    assert name_of("conv2d_1/kernel") == r"\mathrm{conv2d\_1/kernel}"


def test_bodies_are_functions() -> None:
    made = latex.of_symbolic(Graph({"r": ops.if_(ops.reduce_sum(X) > 0, lambda: X, lambda: -Y)}))
    assert r"f_{1}\left(" in made
    assert r"\mathrm{then\_branch}=f_{1}" in made


def test_every_output_has_a_line() -> None:
    first, second = ops.split(X, num_outputs=2, axis=1)
    found = dict(lines_of(Graph({"a": first, "b": second, "same": X})))
    assert r"\left(a, b\right)" in found
    assert found["\\mathrm{same}"] == "x"


@pytest.mark.parametrize("name", ["mnist", "squeezenet1_1", "resnet18"])
def test_networks_are_written(name: str) -> None:
    made = latex.of_symbolic(zoo.create(name).graph)
    assert made.count(r"\left") == made.count(r"\right")
    assert made.count("{") == made.count("}")
    assert made.startswith("\\begin{aligned}")


def test_every_operator_has_a_form() -> None:
    """All that onnx's suite can build is written; here, the operators of one real input."""
    written = 0
    for (domain, name), op in sorted(OPS.items()):
        schema = op.schema
        if domain or schema.has_body or schema.minimum_inputs != 1:
            continue
        try:
            symbol = getattr(ops, _function_name(name))(X)
        except Exception:
            continue
        if isinstance(symbol, Symbol):
            assert text(symbol)
            written += 1
    assert written > 50


def _function_name(name: str) -> str:
    from neuralsym.core.op import snake_case

    found = snake_case(name)
    return found if hasattr(ops, found) else f"{found}_"


def test_a_document_is_saved_and_nothing_is_read(tmp_path: Path) -> None:
    graph = Graph({"r": X + Y})
    latex.save(graph, tmp_path / "f.tex")
    made = (tmp_path / "f.tex").read_text()
    assert r"\begin{align*}" in made
    assert "r &= x + y" in made
    with pytest.raises(FormatError, match="written only"):
        latex.load(tmp_path / "f.tex")
    with pytest.raises(FormatError, match="written only"):
        latex.to_symbolic(made)
    with pytest.raises(FormatError, match="no folder"):
        latex.save(graph, tmp_path / "none" / "f.tex")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
def test_the_document_compiles(tmp_path: Path) -> None:
    latex.save(zoo.mnist().graph, tmp_path / "f.tex")
    subprocess.run(
        ["pdflatex", "-interaction=batchmode", "f.tex"], cwd=tmp_path, check=True, timeout=60
    )


# -- read back by SymPy --------------------------------------------------------------------------
_UNARY = {
    "neg": ops.neg,
    "exp": ops.exp,
    "sqrt": lambda a: ops.sqrt(ops.pow(a, np.float64(2))),
    "sin": ops.sin,
    "cos": ops.cos,
    "square": lambda a: ops.pow(a, np.float64(2)),
}
_BINARY = {"add": ops.add, "sub": ops.sub, "mul": ops.mul, "div": ops.div}


def _expressions() -> st.SearchStrategy[Any]:
    leaves = st.sampled_from(["x", "y", "z"]) | st.sampled_from([2.0, 0.5, -3.0])
    return st.recursive(
        leaves,
        lambda inner: (
            st.tuples(st.sampled_from(sorted(_UNARY)), inner)
            | st.tuples(st.sampled_from(sorted(_BINARY)), inner, inner)
        ),
        max_leaves=6,
    )


def _built(tree: Any, variables: dict[str, Symbol]) -> Symbol:
    if isinstance(tree, str):
        return variables[tree]
    if isinstance(tree, float):
        return ops.constant(np.float64(tree))
    function = _UNARY.get(tree[0]) or _BINARY[tree[0]]
    return function(*(_built(t, variables) for t in tree[1:]))


@pytest.mark.exporters
@settings(max_examples=200, deadline=None)
@given(_expressions())
def test_sympy_reads_the_same_value(tree: Any) -> None:
    sympy = pytest.importorskip("sympy")
    pytest.importorskip("antlr4")
    from sympy.parsing.latex import parse_latex

    variables = {n: ops.variable(n, (), "float64") for n in "xyz"}
    graph = Graph({"result": _built(tree, variables)}, list(variables.values()))
    values = {"x": 0.7, "y": -1.3, "z": 2.1}
    feed = {variables[n]: np.float64(v) for n, v in values.items()}
    with np.errstate(all="ignore"):
        (computed,) = evaluate_graph(graph, feed)
        expected = float(computed)
    known = {sympy.Symbol(n): sympy.Float(v) for n, v in values.items()}
    found = None
    for left, right in lines_of(graph):
        parsed = parse_latex(right)
        found = parsed.subs(known).evalf()
        known[parse_latex(left)] = found
    if np.isfinite(expected):
        np.testing.assert_allclose(float(found), expected, rtol=1e-9, atol=1e-12)


def test_an_engine_is_found_by_its_name_without_an_import_of_its_own() -> None:
    assert engines.latex is latex
    with pytest.raises(AttributeError, match="no engine 'latx'"):
        _ = engines.latx


def test_a_network_is_no_graph() -> None:
    with pytest.raises(TypeError, match=r"made of a Graph, not Network: give its \.graph\n  at "):
        latex.of_symbolic(zoo.create("mnist"))  # type: ignore[arg-type]

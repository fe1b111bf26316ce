"""What the tests of kernels share: compiling a few symbols, running them, the exact answer."""

from __future__ import annotations

import numpy as np
from run_graph import computed as run_cell

from neuralsym import ops  # noqa: F401  (it defines the operators)
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import constant, variable
from neuralsym.core.registry import apply
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.machine import host_isas
from neuralsym.cpu.options import Options

SETS = (None, *host_isas()[1:])
"""The best instruction set of this machine, then the smaller ones that it has."""


def leaves(arrays, stored=(), free=(), names="abcdefgh"):
    """A symbol for each array: a constant where its index is in `stored`, else a variable whose
    axes in `free[index]` are names."""
    made, fed = [], {}
    for i, array in enumerate(arrays):
        if array is None:
            made.append(None)
        elif i in stored:
            made.append(constant(array))
        else:
            axes = dict(free).get(i, ())
            shape = [f"{names[i]}{a}" if a in axes else n for a, n in enumerate(array.shape)]
            made.append(variable(f"x{i}", tuple(shape), array.dtype))
            fed[f"x{i}"] = array
    return made, fed


def cell_of(outputs, inputs, **options):
    named = {f"y{i}": s for i, s in enumerate(outputs)}
    return compile_graph(Graph(named, inputs), Options(**{"threads": 1, **options}))


def run_op(op, arrays, attrs=None, *, stored=(), free=(), outputs=1, kernel=None, **options):
    """The outputs of one operator over arrays.

    kernel: the name that the kernel of its step must have, or several that it may have.
    """
    made, fed = leaves(arrays, stored, free)
    results = apply(op, made, attrs or {}, outputs=outputs)
    cell = cell_of(results, [s for i, s in enumerate(made) if f"x{i}" in fed], **options)
    if kernel is not None:
        names = [s.kernel.name for s in cell.program.steps]
        assert set(names) & ({kernel} if isinstance(kernel, str) else set(kernel)), names
    return run_cell(cell, fed)


def close(got, exact, size, dtype=np.float32, terms=1.0):
    """Whether the error is what sums of `terms` products of total magnitude `size` may have."""
    unit = np.finfo(dtype).eps
    bound = unit * (np.sqrt(terms) + 4) * size + np.finfo(dtype).tiny
    error = np.abs(np.asarray(got, np.float64) - exact)
    assert got.shape == exact.shape, (got.shape, exact.shape)
    assert np.all(error <= bound), float(np.max(error / bound))

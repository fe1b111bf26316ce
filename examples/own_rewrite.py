"""A transformation of one's own: a rule that rewrites what it finds, before neuralsym's passes.

The rule turns x * sigmoid(1.702 x), a fast form of GELU, into the operator itself.
"""

import numpy as np

from neuralsym import Graph, Network, ops
from neuralsym.cpu.library import Library
from neuralsym.rewrite import P, reject, rewrite, rule


@rule(P.Mul("x", P.Sigmoid(P.Mul("x", "factor"))))
def quick_gelu(x, factor):
    """The pattern binds x, which must be the same in both places, and factor."""
    value = factor.known
    if value is None or not np.isclose(value, 1.702).all():
        return reject("the factor is not 1.702")
    return ops.gelu(x, approximate="tanh")


def use_gelu(graph):
    """A transformation is a function from a graph to a graph."""
    return rewrite(graph, [quick_gelu])


library = Library.default()
library.transformer(use_gelu)

x = ops.variable("x", (2, 8))
network = Network(Graph({"y": x * ops.sigmoid(x * 1.702)}))
data = np.random.default_rng(0).normal(size=(2, 8)).astype(np.float32)
before = network(data)
network.compile(library=library)
after = network(data)
assert 0 < np.abs(after - before).max() < 0.03  # two approximations of one function
print(network.explain().splitlines()[0])

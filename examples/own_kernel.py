"""A kernel of one's own for a standard operator: a plain function over arrays, made machine code.

What is registered last is tried first, and `network.explain()` tells who runs what.
"""

import numpy as np

from neuralsym.cpu.library import Library
from neuralsym.layers import conv2d, elu, get_network, input

library = Library.default()


@library.kernel("Elu", name="table_elu")
def table_elu(x, y, *, alpha):
    """Inputs, then outputs, then attributes by name; it is compiled by numba for x's type."""
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            for i in range(x.shape[2]):
                for j in range(x.shape[3]):
                    v = x[n, c, i, j]
                    y[n, c, i, j] = v if v > 0 else alpha * (np.exp(v) - 1)


network = input((1, 3, 16, 16)) | conv2d(8, 3) | elu(alpha=0.5) | get_network()
x = np.random.default_rng(0).normal(size=(1, 3, 16, 16)).astype(np.float32)
expected = network(x)

network.compile(library=library)
np.testing.assert_allclose(network(x), expected, rtol=1e-5, atol=1e-6)
print(next(line for line in network.explain().splitlines() if "table_elu" in line))

"""An operator of one's own: its types, its kernel, and a flow or file that uses it.

The file keeps the operator as it is; the library says what it gives and how it is computed.
"""

import numpy as np
from onnx import TensorProto, helper

from neuralsym import load
from neuralsym.cpu.library import Library

library = Library.default()


@library.kernel("SoftClip", domain="org.example")
def soft_clip(x, y, *, limit):
    """limit * tanh(x / limit), for vectors."""
    for i in range(x.shape[0]):
        y[i] = limit * np.tanh(x[i] / limit)


# Its output has the type of its input: the typer gives a type for each output.
library.typer("SoftClip", lambda call: [call.type(0)], domain="org.example")

node = helper.make_node("SoftClip", ["x"], ["y"], domain="org.example", limit=2.0)
x_type = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
y_type = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
graph = helper.make_graph([node], "clipped", [x_type], [y_type])
opsets = [helper.make_opsetid("", 18), helper.make_opsetid("org.example", 1)]
model = helper.make_model(graph, opset_imports=opsets)

network = load(model.SerializeToString(), library=library)
x = np.array([-10, -1, 0, 3], np.float32)
np.testing.assert_allclose(network(x), 2 * np.tanh(x / 2), rtol=1e-6)
print(network.outputs[0], network(x))

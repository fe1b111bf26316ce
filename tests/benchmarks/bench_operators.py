"""Single operators at typical sizes beside onnxruntime, one thread, interleaved in one process.

Run as a script, with parts of names to choose lines: prints the least CPU time of many short runs
of both, their ratio (above 1: we are faster) and how far the results differ.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options
from neuralsym.engines.onnx import to_symbolic

OPSET = 23
R = np.random.default_rng(0)


class Case(NamedTuple):
    """A node: what is fed, what is a weight, its attributes; `outputs` counts those it gives."""

    name: str
    op: str
    fed: list[np.ndarray]
    weights: Sequence[np.ndarray] = ()
    attributes: Mapping[str, Any] = MappingProxyType({})
    outputs: int = 1
    weights_first: bool = False


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return R.standard_normal(shape).astype(dtype)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def around(*shape: int) -> list[np.ndarray]:
    """Scale and bias."""
    return [normal(*shape), normal(*shape)]


def cases() -> Iterator[Case]:
    """Every line of the table."""
    yield Case("softmax 64x1000", "Softmax", [normal(64, 1000)], [], {"axis": -1})
    yield Case("softmax 12x128x128", "Softmax", [normal(12, 128, 128)], [], {"axis": -1})
    yield Case("softmax 4096x16", "Softmax", [normal(4096, 16)], [], {"axis": -1})
    yield Case("softmax axis 1", "Softmax", [normal(8, 21, 64, 64)], [], {"axis": 1})
    yield Case("log softmax 64x1000", "LogSoftmax", [normal(64, 1000)], [], {"axis": -1})
    yield Case("softmax f16 64x1000", "Softmax", [normal(64, 1000, dtype=np.float16)], [])
    yield Case("layer norm 128x768", "LayerNormalization", [normal(1, 128, 768)], around(768))
    yield Case("layer norm 4096x64", "LayerNormalization", [normal(1, 4096, 64)], around(64))
    yield Case("rms norm 128x768", "RMSNormalization", [normal(1, 128, 768)], [normal(768)])
    yield Case("instance norm", "InstanceNormalization", [normal(1, 64, 56, 56)], around(64))
    groups = {"num_groups": 32}
    yield Case("group norm", "GroupNormalization", [normal(1, 320, 32, 32)], around(320), groups)
    sides = [*around(64), normal(64), np.abs(normal(64))]
    yield Case("batch norm", "BatchNormalization", [normal(1, 64, 56, 56)], sides)
    yield Case("lp norm", "LpNormalization", [normal(128, 768)], [], {"axis": -1})
    yield Case("mean variance norm", "MeanVarianceNormalization", [normal(4, 64, 28, 28)])

    picture = normal(1, 64, 56, 56)
    yield Case("nchw to nhwc", "Transpose", [picture], [], {"perm": [0, 2, 3, 1]})
    yield Case("nhwc to nchw", "Transpose", [normal(1, 56, 56, 64)], [], {"perm": [0, 3, 1, 2]})
    rgb = normal(1, 224, 224, 3)
    yield Case("nhwc to nchw rgb", "Transpose", [rgb], [], {"perm": [0, 3, 1, 2]})
    rgb8 = R.integers(0, 255, (1, 224, 224, 3)).astype(np.uint8)
    yield Case("nhwc to nchw rgb u8", "Transpose", [rgb8], [], {"perm": [0, 3, 1, 2]})
    yield Case("heads split", "Transpose", [normal(1, 128, 12, 64)], [], {"perm": [0, 2, 1, 3]})
    yield Case("keys turned", "Transpose", [normal(1, 12, 128, 64)], [], {"perm": [0, 1, 3, 2]})
    yield Case("matrix turned", "Transpose", [normal(1024, 1024)], [], {"perm": [1, 0]})
    half = normal(1024, 1024, dtype=np.float16)
    yield Case("matrix turned f16", "Transpose", [half], [], {"perm": [1, 0]})
    words = R.integers(0, 30000, (1, 128))
    yield Case("embedding", "Gather", [words], [normal(30000, 768)], {}, 1, True)
    yield Case(
        "gather axis 1", "Gather", [normal(64, 1000)], [whole(*range(0, 999, 7))], {"axis": 1}
    )
    yield Case("concat channels", "Concat", [normal(1, 64, 56, 56)] * 2, [], {"axis": 1})
    yield Case("concat last", "Concat", [normal(1, 12, 128, 32)] * 2, [], {"axis": -1})
    yield Case("split last", "Split", [normal(1, 128, 2304)], [], {"axis": -1, "num_outputs": 3}, 3)
    yield Case("slice rows", "Slice", [normal(1, 128, 768)], [whole(0), whole(64), whole(2)])
    yield Case("expand", "Expand", [normal(1, 1, 768)], [whole(1, 128, 768)])
    yield Case("tile", "Tile", [normal(1, 64, 28, 28)], [whole(1, 2, 2, 2)])
    yield Case("pad", "Pad", [normal(1, 64, 56, 56)], [whole(0, 0, 1, 1, 0, 0, 1, 1)])
    yield Case("depth to space", "DepthToSpace", [normal(1, 256, 56, 56)], [], {"blocksize": 2})
    yield Case("space to depth", "SpaceToDepth", [normal(1, 64, 112, 112)], [], {"blocksize": 2})

    for name, axes in (("last", (2,)), ("middle", (1,)), ("first", (0,)), ("all", (0, 1, 2))):
        x = normal(64, 128, 96)
        yield Case(f"sum {name}", "ReduceSum", [x], [whole(*axes)], {"keepdims": 0})
        yield Case(f"max {name}", "ReduceMax", [x], [whole(*axes)], {"keepdims": 0})
    yield Case("mean of pixels", "ReduceMean", [normal(1, 512, 28, 28)], [whole(2, 3)])
    yield Case("arg max", "ArgMax", [normal(64, 1000)], [], {"axis": -1})
    yield Case("arg max axis 1", "ArgMax", [normal(1, 21, 256, 256)], [], {"axis": 1})
    yield Case("running sum", "CumSum", [normal(64, 1000)], [np.array(1, np.int64)])

    for name, op in (("add", "Add"), ("mul", "Mul")):
        yield Case(f"{name} same", op, [normal(1, 64, 56, 56)] * 2)
        yield Case(f"{name} rows", op, [normal(1, 128, 768), normal(768)])
        yield Case(f"{name} channels", op, [normal(1, 64, 56, 56), normal(64, 1, 1)])
    for op in ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Sqrt", "Sin", "Gelu", "HardSwish"):
        yield Case(op.lower(), op, [np.abs(normal(128, 768))])
    yield Case("pow", "Pow", [np.abs(normal(128, 768)), np.array(1.7, np.float32)])
    yield Case("cast f16", "Cast", [normal(128, 768)], [], {"to": TensorProto.FLOAT16})

    q = normal(1, 12, 128, 64)
    yield Case("attention 12x128x64", "Attention", [q, q, q])
    q = normal(1, 8, 1024, 64)
    yield Case("attention 8x1024x64", "Attention", [q, q, q])
    yield Case("attention causal", "Attention", [q, q, q], [], {"is_causal": 1})
    one = normal(1, 12, 1, 64)
    yield Case(
        "attention one query", "Attention", [one, normal(1, 12, 1024, 64), normal(1, 12, 1024, 64)]
    )
    yield Case("product of heads", "MatMul", [normal(12, 128, 64), normal(12, 64, 128)])
    yield Case("product one row", "MatMul", [normal(1, 1024)], [normal(1024, 1024)])
    yield Case("product one column", "MatMul", [normal(1024, 1024), normal(1024, 1)])
    yield Case("product skinny", "MatMul", [normal(4, 768)], [normal(768, 3072)])
    yield Case("product 256", "MatMul", [normal(256, 256), normal(256, 256)])

    linear = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    scales = [np.array([], np.float32), np.array([1, 1, 2, 2], np.float32)]
    picture = normal(1, 32, 64, 64)
    yield Case("resize linear", "Resize", [picture], scales, linear)
    yield Case("resize nearest", "Resize", [picture], scales, {"mode": "nearest"})
    yield Case("resize cubic", "Resize", [picture], scales, {**linear, "mode": "cubic"})
    bytes_ = R.integers(0, 255, (1, 3, 224, 224)).astype(np.uint8)
    yield Case("resize linear u8", "Resize", [bytes_], scales, linear)
    turned = {"strides": [2, 2]}
    yield Case(
        "conv transpose 2x2",
        "ConvTranspose",
        [normal(1, 64, 56, 56)],
        [normal(64, 32, 2, 2)],
        turned,
    )
    turned = {"strides": [2, 2], "pads": [1] * 4}
    yield Case(
        "conv transpose 4x4",
        "ConvTranspose",
        [normal(1, 128, 28, 28)],
        [normal(128, 64, 4, 4)],
        turned,
    )
    yield Case(
        "conv transpose 3x3",
        "ConvTranspose",
        [normal(1, 64, 28, 28)],
        [normal(64, 64, 3, 3)],
        {"pads": [1] * 4},
    )

    yield Case("top 5 of 1000", "TopK", [normal(64, 1000)], [whole(5)], {}, 2)
    yield Case("top 100 of 10000", "TopK", [normal(4, 10000)], [whole(100)], {}, 2)
    yield Case("sort 1000", "TopK", [normal(16, 1000)], [whole(1000)], {}, 2)
    corner = R.uniform(0, 100, (1, 1000, 2)).astype(np.float32)
    boxes = np.concatenate([corner, corner + R.uniform(5, 20, (1, 1000, 2))], 2).astype(np.float32)
    scores = R.uniform(0, 1, (1, 4, 1000)).astype(np.float32)
    limits = [whole(100), np.array([0.5], np.float32), np.array([0.3], np.float32)]
    yield Case("nms 1000", "NonMaxSuppression", [boxes, scores], limits)
    offsets = normal(1, 18, 28, 28)
    deform = [normal(1, 64, 28, 28), normal(64, 64, 3, 3), offsets]
    yield Case("deform conv", "DeformConv", deform, [], {"pads": [1] * 4})
    yield Case(
        "col to im",
        "Col2Im",
        [normal(1, 64 * 9, 784)],
        [whole(28, 28), whole(3, 3)],
        {"pads": [1] * 4},
    )
    pooled, places = normal(1, 64, 28, 28), np.arange(64 * 56 * 56).reshape(64, 28, 2, 28, 2)
    unpool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Case(
        "max unpool",
        "MaxUnpool",
        [pooled, places[:, :, 1, :, 0].reshape(1, 64, 28, 28)],
        [],
        unpool,
    )
    yield Case("hardmax", "Hardmax", [normal(64, 1000)], [], {"axis": -1})
    yield Case("hardmax f16", "Hardmax", [normal(64, 1000, dtype=np.float16)], [], {"axis": -1})
    yield Case("unique", "Unique", [R.integers(0, 500, 10000)], [], {}, 4)
    yield Case("non zero", "NonZero", [R.integers(0, 2, (64, 1000)).astype(np.float32)])
    yield Case(
        "one hot", "OneHot", [R.integers(0, 100, 1000)], [whole(100), np.array([0, 1], np.float32)]
    )
    yield Case(
        "gather elements",
        "GatherElements",
        [normal(64, 1000), R.integers(0, 1000, (64, 500))],
        [],
        {"axis": 1},
    )
    yield Case(
        "scatter elements",
        "ScatterElements",
        [normal(64, 1000), R.integers(0, 1000, (64, 500)), normal(64, 500)],
        [],
        {"axis": 1},
    )
    yield Case("where", "Where", [normal(128, 768) > 0, normal(128, 768), normal(128, 768)])
    for length in (1024, 1000, 1021, 16384):
        signal = normal(8, length, 1)
        inputs = [signal, np.array(length, np.int64), np.array(-2, np.int64)]
        yield Case(f"dft {length}", "DFT", inputs[:1], inputs[1:])
    yield Case(
        "max pool 3x3",
        "MaxPool",
        [normal(1, 64, 112, 112)],
        [],
        {"kernel_shape": [3, 3], "strides": [2, 2]},
    )
    grid = R.uniform(-1, 1, (1, 56, 56, 2)).astype(np.float32)
    yield Case("grid sample", "GridSample", [normal(1, 32, 56, 56), grid])
    rois = [R.uniform(0, 100, (50, 4)).astype(np.float32), np.zeros(50, np.int64)]
    rois[0][:, 2:] += 20
    align = {"output_height": 7, "output_width": 7, "spatial_scale": 0.25, "sampling_ratio": 2}
    yield Case("roi align", "RoiAlign", [normal(1, 64, 50, 50), *rois], [], align)
    yield Case("lrn", "LRN", [normal(1, 64, 56, 56)], [], {"size": 5})


def model(case: Case) -> onnx.ModelProto:
    """The node as a model; types of outputs are left to inference."""
    fed = [f"x{i}" for i in range(len(case.fed))]
    held = [f"w{i}" for i in range(len(case.weights))]
    given = [*held, *fed] if case.weights_first else [*fed, *held]
    if case.op == "Resize":
        given = [fed[0], held[0], held[1]]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, given, outputs, **case.attributes)
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(fed, case.fed, strict=True)
    ]
    results = [onnx.ValueInfoProto(name=n) for n in outputs]
    weights = [numpy_helper.from_array(w, n) for n, w in zip(held, case.weights, strict=True)]
    graph = helper.make_graph([node], "one", inputs, results, weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def least(seconds: float, *runs: Any) -> list[float]:
    """The least CPU time of each, taken in turns."""
    best = [float("inf")] * len(runs)
    end = time.perf_counter() + seconds
    turns = 0
    while turns < 5 or time.perf_counter() < end:
        for i, run in enumerate(runs):
            start = time.thread_time()
            run()
            best[i] = min(best[i], time.thread_time() - start)
        turns += 1
    return best


def measure(case: Case, seconds: float) -> str:
    proto = model(case)
    cell = compile_graph(to_symbolic(proto), Options(threads=1))
    ours = cell.instance()
    feeds = {f"x{i}": x for i, x in enumerate(case.fed)}
    for name, x in feeds.items():
        ours[name] = x
    ours.compute()
    kernels = "+".join(str(s.kernel.name) for s in cell.program.steps if s.kernel is not None)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        theirs = session.run(None, feeds)[0]
        binding = session.io_binding()
        for name, x in feeds.items():
            binding.bind_cpu_input(name, x)
        for output in session.get_outputs():
            binding.bind_output(output.name)
        mine, other = least(seconds, ours.compute, lambda: session.run_with_iobinding(binding))
    except Exception as error:
        (mine,) = least(seconds, ours.compute)
        return f"{case.name:22} {mine * 1e6:10.1f} {'-':>10} {type(error).__name__:>8}  {kernels}"
    made = np.array(ours["y0"])
    far = np.max(np.abs(made.astype(np.float64) - theirs.astype(np.float64)), initial=0.0)
    return (
        f"{case.name:22} {mine * 1e6:10.1f} {other * 1e6:10.1f} {other / mine:8.2f}"
        f"  {far:7.0e}  {kernels}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names of lines; all without")
    parser.add_argument("--seconds", type=float, default=0.15, help="how long a line is measured")
    given = parser.parse_args()
    print(f"{'operator':22} {'ours us':>10} {'ort us':>10} {'ratio':>8}  {'differ':>7}  kernels")
    for case in cases():
        if not given.names or any(part in case.name for part in given.names):
            try:
                print(measure(case, given.seconds), flush=True)
            except Exception as error:  # a line that fails is no reason to lose the others
                print(f"{case.name:22} {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()

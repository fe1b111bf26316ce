"""The value of a node, of any operator: the fallback of the compiler and its oracle.

An operator may say itself how (`Op.compute`). An elementwise one is computed from its `scalar` by
numpy, one with bodies by walking them, one that onnx's reference evaluator does not know, or reads
otherwise, by its expansion; any other by that evaluator on a model of the one node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.graph import Graph, rebuild
from neuralsym.core.leaves import Variable, is_stored, make_variable, stored
from neuralsym.core.schema import OPSET, VERSIONS
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import OptionalType, SequenceType, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import ExecutionError, InputError, NeuralsymError, NoKernel, at_line
from neuralsym.ops.base import Elementwise
from neuralsym.ops.values import compute

Value = NDArray[Any] | list[Any] | dict[Any, Any] | None
"""An array, a list for a sequence, a dict for a map, None for an empty optional or no input."""

_PLAIN = frozenset(
    k
    for k in NumberType
    if k in ("bool", "string", "float16", "float32", "float64", "bfloat16")
    or (k.is_integer and k.removeprefix("u") not in ("int2", "int4"))
)
_DEPRECATED = {"TreeEnsembleClassifier": 3, "TreeEnsembleRegressor": 3}
"""Operators that only an older version of their domain has."""
_MISREAD = frozenset(
    {
        *("MatMulInteger", "QLinearMatMul", "ConvInteger", "QLinearConv", "DynamicQuantizeLinear"),
        "TfIdfVectorizer",
    }
)
"""Operators that onnx's evaluator knows in part: it has no zero points of rows, nor of channels of
any but images, rounds after the zero point is added, takes float8 for integers, and the weights of
n-grams in another order."""
_EVALUATORS: WeakKeyDictionary[Node, Any] = WeakKeyDictionary()


def evaluate(
    node: Node, values: Sequence[Value], captured: Sequence[Value] = ()
) -> tuple[Value, ...]:
    """The outputs of a node for values of its inputs, and of its captures if it has bodies.

    Strings are object arrays of str. Raises ExecutionError when the values are not such that the
    operator has a result, NoKernel when nothing can compute it.
    """
    from neuralsym.ops.evaluate_bodies import BODIES

    own = node.op.compute(node, values)
    if own is not None:
        return tuple(own)
    if issubclass(node.op, Elementwise):
        made = _elementwise(node, values)
        if made is not None:
            return (made,)
    try:
        if node.op.__name__ in BODIES and node.op.domain == "":
            outputs = BODIES[node.op.__name__](node, values, captured)
        elif _by_expansion(node):
            outputs = _expanded(node, values, captured)
        else:
            with np.errstate(all="ignore"):
                outputs = _reference(node).run(None, _feeds(node, values))
    except NeuralsymError:
        raise
    except Exception as error:
        given = ", ".join(describe(v) for v in values)
        raise ExecutionError(
            f"{node.describe()} cannot take ({given}): {_cause(error)}{at_line(node.where)}"
        ) from error
    kinds = (symbol.type for symbol in node.outputs)
    return tuple(settled(v, k) for v, k in zip(outputs, kinds, strict=False))


def evaluate_graph(
    graph: Graph, feeds: Mapping[Symbol, Value], outputs: Sequence[Symbol] | None = None
) -> list[Value]:
    """The values of a graph's outputs, node by node; `feeds` gives those of its inputs.

    A variable with a default need not be fed. Raises InputError for another that is missing.
    """
    wanted = graph.outputs if outputs is None else tuple(outputs)
    uses = Counter(s for node in graph.nodes for s in node.operands)
    uses.update(wanted)
    values: dict[Symbol, Value] = {}

    def take(symbol: Symbol) -> Value:
        value = values[symbol]
        uses[symbol] -= 1
        if not uses[symbol]:
            del values[symbol]
        return value

    for node in graph.nodes:
        if node.op is Variable:
            values[node.outputs[0]] = _fed(graph, node, feeds)
        elif is_stored(node.outputs[0]):
            values[node.outputs[0]] = stored(node.outputs[0]).value
        else:
            inputs = [None if s is None else take(s) for s in node.inputs]
            captured = [take(s) for s in node.captures]
            made = evaluate(node, inputs, captured)
            for symbol, value in zip(node.outputs, made, strict=True):
                if uses[symbol]:
                    values[symbol] = value
    return [take(s) for s in wanted]


def _fed(graph: Graph, node: Node, feeds: Mapping[Symbol, Value]) -> Value:
    symbol = node.outputs[0]
    if symbol in feeds:
        return feeds[symbol]
    init = node.attrs.get("init")
    if init is None:
        raise InputError(f"graph {graph.name!r} was given no value of {graph.names[node]!r}")
    array: NDArray[Any] = init.value
    return array


def _elementwise(node: Node, values: Sequence[Value]) -> NDArray[Any] | None:
    """The value by the operator's expression; None where only the reference knows it."""
    assert issubclass(node.op, Elementwise)
    given = [s for s in node.inputs if s is not None]
    if not all(s.dtype in _PLAIN for s in (*given, *node.outputs)):
        return None
    expr = node.op.expression(node)
    if expr is None:
        return None
    arrays = [None if v is None else np.asarray(v) for v in values]
    try:
        return compute(expr, arrays, node.outputs[0].dtype)
    except ValueError as error:
        given_words = ", ".join(describe(v) for v in values)
        raise ExecutionError(
            f"{node.describe()} cannot take ({given_words}): {error}{at_line(node.where)}"
        ) from error


def _by_expansion(node: Node) -> bool:
    """Whether the operator's own expansion tells its value, rather than onnx's evaluator."""
    if node.op.domain == "" and node.op.__name__ in _MISREAD:
        return True
    if node.op.domain == "ai.onnx.ml":
        # onnx's evaluator knows no transforms of regressors, no vectors as one row, ...
        return True
    return bool(node.op.body_attributes and node.attrs.keys() & set(node.op.body_attributes))


def _expanded(node: Node, values: Sequence[Value], captured: Sequence[Value]) -> list[Value]:
    """The value by the operator's expansion, made anew for inputs of the types at hand."""
    feeds: dict[Symbol, Value] = {}

    def fed(symbol: Symbol | None, value: Value) -> Symbol:
        assert symbol is not None
        type_ = symbol.type
        if isinstance(value, np.ndarray) and isinstance(type_, TensorType):
            type_ = TensorType(type_.dtype, value.shape)
        made = make_variable(None, type_)
        feeds[made] = value
        return made

    given = zip(node.inputs, values, strict=True)
    inputs = tuple(None if symbol is None else fed(symbol, v) for symbol, v in given)
    captures = tuple(map(fed, node.captures, captured))
    symbols = node.op.expansion(rebuild(node, inputs, captures=captures))
    if symbols is None:
        raise NoKernel(f"nothing computes {node.describe()}{at_line(node.where)}")
    return evaluate_graph(Graph(symbols, list(feeds)), feeds)


# -- onnx's reference evaluator ----------------------------------------------------------------
def _reference(node: Node) -> Any:
    """The evaluator of a model of this node alone, made once."""
    found = _EVALUATORS.get(node)
    if found is None:
        from onnx.reference import ReferenceEvaluator

        if node.op.domain not in VERSIONS:
            raise NoKernel(
                f"nothing computes {node.describe()} of domain {node.op.domain!r}: give its class "
                f"a compute() or the library a kernel{at_line(node.where)}"
            )
        found = ReferenceEvaluator(one_node_model(node))
        _EVALUATORS[node] = found
    return found


def one_node_model(node: Node) -> Any:
    """A ModelProto of the node: inputs i0, i1, ... without those omitted, outputs o0, o1, ..."""
    import onnx
    from onnx import helper

    from neuralsym.core import proto

    inputs = [f"i{k}" if s is not None else "" for k, s in enumerate(node.inputs)]
    outputs = [f"o{k}" for k in range(len(node.outputs))]
    made = onnx.NodeProto(
        op_type=node.op.__name__, domain=node.op.domain, input=inputs, output=outputs
    )
    for name, value in node.attrs.items():
        kind = node.op.schema.attributes[name].kind
        made.attribute.append(proto.attribute_to_proto(name, kind, value, _no_body))
    graph = helper.make_graph(
        [made],
        "node",
        [
            helper.make_value_info(name, proto.type_to_proto(symbol.type))
            for name, symbol in zip(inputs, node.inputs, strict=True)
            if symbol is not None
        ],
        [
            helper.make_value_info(name, proto.type_to_proto(symbol.type))
            for name, symbol in zip(outputs, node.outputs, strict=True)
        ],
    )
    opsets = {"": OPSET}
    if node.op.domain:
        version = _DEPRECATED.get(node.op.__name__, VERSIONS[node.op.domain])
        opsets[node.op.domain] = version
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports)


def _no_body(graph: Any) -> Any:
    raise NoKernel(f"an operator with a body ({graph.name!r}) has no reference to compute it")


def _feeds(node: Node, values: Sequence[Value]) -> dict[str, Any]:
    """The inputs by name; an empty optional is fed as None, an omitted input not at all."""
    pairs = zip(node.inputs, values, strict=False)
    return {f"i{k}": v for k, (symbol, v) in enumerate(pairs) if symbol is not None}


def _cause(error: BaseException) -> str:
    """The words of the first cause, which the evaluator wraps; Python's name where it has none."""
    while error.__cause__ is not None:
        error = error.__cause__
    words = re.sub(r" object at 0x[0-9a-f]+", "", str(error).strip())
    if not words or isinstance(error, (KeyError, AssertionError)):
        return f"{type(error).__name__} {words}".strip()
    return words


# -- values ------------------------------------------------------------------------------------
def settled(value: Any, type: Type) -> Value:
    """A result in the form of its type: an array of the right number type, a list, or a dict."""
    if isinstance(type, OptionalType):
        return None if value is None else settled(value, type.element)
    if isinstance(type, SequenceType):
        if isinstance(type.element, TensorType):
            return [settled(v, type.element) for v in value]
        return list(value)
    if not isinstance(type, TensorType):
        return dict(value)
    array = np.asarray(value)
    if type.dtype is NumberType.STRING:
        return _texts(array)
    return array if array.dtype == type.dtype.numpy else array.astype(type.dtype.numpy)


def _texts(array: NDArray[Any]) -> NDArray[Any]:
    flat = np.empty(array.size, dtype=object)
    flat[:] = [v.decode() if isinstance(v, bytes) else str(v) for v in array.reshape(-1).tolist()]
    return flat.reshape(array.shape)


def describe(value: Value) -> str:
    """`float32[2, 3]`, for messages."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return "nothing" if value is None else f"{type(value).__name__} of {len(value)}"

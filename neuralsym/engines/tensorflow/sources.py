"""What a TensorFlow graph may come in: its graph, its inputs and outputs by name, its variables.

Models whose variables live outside of their graph (concrete functions, Keras models, SavedModels)
are frozen: variables become constants of the graph, under their own names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from neuralsym.engines.tensorflow.extra import load, tensorflow
from neuralsym.errors import FormatError, which

SAVED_MODEL = "saved_model.pb"
_DEFAULT = "serving_default"


@dataclass(frozen=True)
class Source:
    """A graph, and what is known of it.

    inputs, outputs: tensors by the names that the model gives them; names: for tensors that are
    variables, the names of these; trainable: which of them training changes; session: what has
    the values of variables that the graph lacks; name: what a network of it is called.
    """

    graph: Any
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    trainable: Mapping[str, bool] = field(default_factory=dict)
    session: Any = None
    name: str = "tensorflow"


def is_session(given: Any) -> bool:
    """Whether it is a tf.compat.v1.Session."""
    return hasattr(given, "run") and hasattr(given, "graph")


def is_folder(given: object) -> bool:
    """Whether it is the path of a folder that holds a SavedModel."""
    return isinstance(given, (str, PathLike)) and (Path(fspath(given)) / SAVED_MODEL).is_file()


def open_source(
    given: Any, inputs: Sequence[Any] | None = None, signature: str | None = None
) -> Source:
    """The graph of a model.

    given: a session, a tf.Graph, a GraphDef, the path of a frozen GraphDef (.pb), a concrete
    function, a tf.function, a Keras model, a tf.Module that is callable, the folder of a
    SavedModel, or what tf.saved_model.load gives. inputs: tf.TensorSpecs for what does not say what
    it takes; signature: of a SavedModel, "serving_default" unless given. Raises FormatError for
    anything else.
    """
    if isinstance(given, Source):
        return given
    tf = tensorflow()
    if is_session(given):
        return Source(given.graph, session=given)
    if isinstance(given, (str, PathLike)):
        return _of_path(Path(fspath(given)), signature)
    if isinstance(given, tf.compat.v1.GraphDef):
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(given, name="")
        return _of_graph(graph)
    if hasattr(given, "captured_inputs") and hasattr(given, "structured_outputs"):
        return _frozen(given, {})
    if isinstance(given, tf.Graph):
        return _of_graph(given)
    if hasattr(given, "signatures") and not hasattr(given, "layers"):
        return _of_saved(given, signature)
    if hasattr(given, "layers") and hasattr(given, "variables"):
        return _of_keras(given, inputs)
    if callable(given):
        return _frozen(_traced(given, inputs), _own_names(given))
    raise FormatError(
        "a TensorFlow graph comes in a session, a GraphDef, a function, a model, or the folder of "
        f"a SavedModel, not in {type(given).__name__}"
    )


def _of_path(path: Path, signature: str | None) -> Source:
    tf = tensorflow()
    if is_folder(path):
        made = _of_saved(tf.saved_model.load(os.fspath(path)), signature)
        return replace(made, name=path.resolve().name)
    if path.is_dir():
        raise FormatError(f"{path} holds no {SAVED_MODEL}, so it is no SavedModel")
    definition = tf.compat.v1.GraphDef()
    try:
        definition.ParseFromString(path.read_bytes())
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from None
    except load("google.protobuf.message").DecodeError as error:
        raise FormatError(f"{path} is no GraphDef: {error}") from None
    return replace(open_source(definition), name=path.stem)


def _of_graph(graph: Any) -> Source:
    """Placeholders are the inputs, and what nothing reads is an output."""
    operations = graph.get_operations()
    inputs = [op.outputs[0] for op in operations if op.type == "Placeholder"]
    outputs = [
        t
        for op in operations
        if op.type not in ("Const", "Placeholder", "VarHandleOp", "VariableV2")
        for t in op.outputs
        if not any(u.consumers() for u in op.outputs)
    ]
    return Source(graph, {t.op.name: t for t in inputs}, {_plain(t.name): t for t in outputs})


def _of_saved(loaded: Any, signature: str | None) -> Source:
    signatures = dict(loaded.signatures)
    if not signatures:
        raise FormatError("the SavedModel has no signature: save it with signatures=")
    name = signature or (_DEFAULT if _DEFAULT in signatures else next(iter(signatures)))
    if name not in signatures:
        raise FormatError(f"the SavedModel has no signature {name!r}{which(name, signatures)}")
    return _frozen(signatures[name], _own_names(loaded))


def _of_keras(model: Any, inputs: Sequence[Any] | None) -> Source:
    tf, keras = tensorflow(), load("keras")
    if keras.backend.backend() != "tensorflow":
        raise FormatError(
            f"Keras runs over {keras.backend.backend()}, whose graph TensorFlow does not see: set "
            "KERAS_BACKEND=tensorflow before keras is imported"
        )

    def spec(tensor: Any) -> Any:
        return tf.TensorSpec(tensor.shape, tensor.dtype, tensor.name)

    given = list(inputs) if inputs is not None else _taken(model)
    if given is None or (isinstance(given, list) and not given):
        raise FormatError(
            f"model {model.name!r} does not say what it takes: give inputs=[tf.TensorSpec(shape, "
            "dtype)]"
        )
    given = given[0] if isinstance(given, list) and len(given) == 1 else given
    if inputs is None:
        given = tf.nest.map_structure(spec, given)
    traced = tf.function(lambda x: model(x, training=False)).get_concrete_function(given)
    made = _frozen(traced, _own_names(model), list(getattr(model, "output_names", ())))
    return replace(made, name=str(model.name))


def _taken(model: Any) -> Any:
    """What a Keras model is called on: its inputs, in a dict where it was made so."""
    try:
        found = model.input
    except (AttributeError, ValueError):  # a Sequential, or a model of a class of its own
        found = getattr(model, "inputs", None)
    return list(found) if isinstance(found, tuple) else found


def _traced(function: Any, inputs: Sequence[Any] | None) -> Any:
    tf = tensorflow()
    called = getattr(function, "__call__", None)  # noqa: B004 - a module's own may say more
    function = called if hasattr(called, "get_concrete_function") else function
    made = function if hasattr(function, "get_concrete_function") else tf.function(function)
    try:
        return made.get_concrete_function(*(inputs or ()))
    except (TypeError, ValueError) as error:
        raise FormatError(
            f"the function does not say what it takes: give inputs=[tf.TensorSpec(shape, dtype)] "
            f"({error})"
        ) from None


def _own_names(model: Any) -> dict[int, tuple[str, bool]]:
    """The names of a model's variables, and whether they train, by the ids of their handles."""
    found: dict[int, tuple[str, bool]] = {}
    for variable in getattr(model, "variables", ()):
        held: Any = variable if hasattr(variable, "handle") else getattr(variable, "value", None)
        path = getattr(variable, "path", None) or _plain(variable.name)
        if hasattr(held, "handle"):
            found[id(held.handle)] = str(path), bool(getattr(variable, "trainable", False))
    return found


def _frozen(
    function: Any, own: Mapping[int, tuple[str, bool]], output_names: Sequence[str] = ()
) -> Source:
    """A concrete function with its variables as constants of its graph."""
    tf = tensorflow()
    freeze: Callable[..., Any] = load(
        "tensorflow.python.framework.convert_to_constants"
    ).convert_variables_to_constants_v2
    own = {
        **{id(v.handle): (_plain(v.name), bool(v.trainable)) for v in function.graph.variables},
        **own,
    }
    inner = {
        p.name: own[id(c)]
        for c, p in zip(function.captured_inputs, function.graph.internal_captures, strict=True)
        if id(c) in own
    }
    try:
        frozen = freeze(function, lower_control_flow=False)
    except (ValueError, tf.errors.OpError) as error:
        raise FormatError(
            f"the variables of the function cannot be made constant: {error}"
        ) from None
    inputs = {_plain(t.name): t for t in frozen.inputs if t.dtype != tf.resource}
    outputs = dict(
        zip(_result_names(function, frozen.outputs, output_names), frozen.outputs, strict=True)
    )
    names = _distinct({tensor: name for tensor, (name, _) in inner.items()})
    trainable = {tensor: train for tensor, (_, train) in inner.items()}
    return Source(frozen.graph, inputs, outputs, names, trainable)


def _result_names(function: Any, tensors: Sequence[Any], given: Sequence[str]) -> list[str]:
    """The names of results: those given, the keys of a dict of results, or of the tensors."""
    structure = function.structured_outputs
    if isinstance(structure, Mapping) and len(structure) == len(tensors):
        return [str(key) for key in sorted(structure)]
    names = list(given) if len(given) == len(tensors) else []
    if len(set(names)) != len(tensors):
        return [f"output_{i}" for i in range(len(tensors))]
    return names


def _distinct(names: Mapping[str, str]) -> dict[str, str]:
    """Names that are unlike each other: a second one is counted on."""
    made: dict[str, str] = {}
    taken: set[str] = set()
    for tensor, name in names.items():
        free, count = name, 0
        while free in taken:
            count += 1
            free = f"{name}_{count}"
        taken.add(free)
        made[tensor] = free
    return made


def _plain(name: str) -> str:
    return name.removesuffix(":0")

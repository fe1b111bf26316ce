"""neuralsym as a backend of onnx: the interface through which onnx's tools and tests run models.

`neuralsym.backend.prepare(model).run(inputs)`; `onnx.backend.test.BackendTest(NeuralsymBackend,
__name__)` makes test cases of onnx's whole suite.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto, helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from neuralsym.core.op import OPS
from neuralsym.core.schema import OPSET, VERSIONS
from neuralsym.core.traverse import LEAVES
from neuralsym.cpu.options import Options
from neuralsym.dtypes import is_whole, number_type
from neuralsym.errors import BadAttribute, InputError, NeuralsymError, counted, did_you_mean
from neuralsym.network import Network, load

if TYPE_CHECKING:
    from os import PathLike

    from neuralsym.core.graph import Graph

__all__ = [
    "NeuralsymBackend",
    "NeuralsymRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

TOLERANCES = ("rtol", "atol")
"""Settings of onnx's test runner, which it passes on to `prepare` as well."""


class NeuralsymRep(BackendRep):
    """A model that is ready to run; `network` is the Network behind it."""

    def __init__(self, network: Network) -> None:
        self.network = network
        names = [port.name for port in network.outputs]
        self._outputs = namedtupledict("Outputs", names)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs as a tuple that can also be indexed by name: `outputs["y"]`.

        inputs: a list or tuple with an entry for each input (those with a default may all be left
        out), a dict by name, or the bare array of a single input. Entries are arrays, lists of
        arrays for sequences, None for an optional without a value. There are no keyword options.
        Raises BadAttribute for one, and what `Network.run` raises.
        """
        if kwargs:
            raise BadAttribute(f"run takes no option {next(iter(kwargs))!r}; prepare does")
        ports = self.network.inputs
        if isinstance(inputs, (list, tuple)) and len(inputs) == len(ports):
            inputs = dict(zip([port.name for port in ports], inputs, strict=True))
        results = self.network.run(inputs)
        return self._outputs(*results.values())


class NeuralsymBackend(Backend):
    """onnx's backend interface on neuralsym; everything is a class method, there is no state."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the device is the CPU, which alone neuralsym compiles for."""
        kind, colon, number = device.partition(":")
        return kind == "CPU" and (number == "0" if colon else True)

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str | None = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be read and all of its operators are known; nothing is compiled."""
        from neuralsym.engines.onnx import read_model

        if device is not None and not cls.supports_device(device):
            return False
        with warnings.catch_warnings(action="ignore"):  # prepare gives them
            try:
                return _all_known(read_model(model).graph)
            except NeuralsymError:
                return False

    @classmethod
    def prepare(
        cls,
        model: ModelProto | str | PathLike[str] | bytes,
        device: str | None = "CPU",
        **kwargs: Any,
    ) -> NeuralsymRep:
        """Read and compile a model.

        model: a ModelProto, or a path or bytes of one. device: "CPU", or None for the default,
        which is the same. kwargs: fields of `neuralsym.Options`, such as threads=1; the rtol and
        atol of onnx's test runner are passed over.

        Raises BadAttribute for another device or option, FormatError and GraphError for a model
        that cannot be read, NoKernel for one that cannot be run.
        """
        _check_device(device)
        network = load(model)
        network.compile(**_options(kwargs))
        return NeuralsymRep(network)

    @classmethod
    def run_model(
        cls,
        model: ModelProto | str | PathLike[str] | bytes,
        inputs: Any,
        device: str | None = "CPU",
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of a model that is run once; see `prepare` and `NeuralsymRep.run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str | None = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of a single operator, as a tuple that can also be indexed by name.

        inputs: a list with an entry for each input of the node, or for each that is not omitted,
        or a dict by name, or the bare array of a single input. outputs_info: (dtype, shape) of
        each output, where the caller knows them; they are worked out in any case, and a warning
        says where they differ. kwargs: opset_version of the node's domain (the newest otherwise),
        and what `prepare` takes.

        Raises InputError for a wrong number of inputs, TypeMismatch for an array of a type that
        ONNX does not have, and what `prepare` and `run` raise.
        """
        _check_device(device)
        newest = VERSIONS.get(node.domain, OPSET)
        opset = kwargs.pop("opset_version", newest)
        if not is_whole(opset) or not 1 <= opset <= newest:
            raise BadAttribute(f"opset_version must be 1 to {newest}, not {opset!r}")
        feed = _node_feed(node, inputs)
        model = _model_of(node, feed, outputs_info, opset)
        return cls.prepare(model, device, **kwargs).run(feed)


def _all_known(graph: Graph) -> bool:
    """Whether neuralsym has every operator of a graph and its bodies."""
    known = {*LEAVES, *OPS.values()}
    return all(node.op in known for node in graph.nodes) and all(
        _all_known(body) for named in graph.bodies.values() for body in named.values()
    )


def _check_device(device: Any) -> None:
    if device is None:
        return
    if not isinstance(device, str) or not NeuralsymBackend.supports_device(device):
        raise BadAttribute(f"neuralsym runs on the CPU, not on {device!r}: leave device='CPU'")


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments that are options of compiling; BadAttribute for any unknown one."""
    known = [field.name for field in fields(Options)]
    made = {name: value for name, value in given.items() if name not in TOLERANCES}
    for name in made:
        if name not in known:
            raise BadAttribute(f"there is no option {name!r}{did_you_mean(name, known)}")
    return made


# -- single nodes --------------------------------------------------------------------------------
def _node_feed(node: NodeProto, inputs: Any) -> dict[str, Any]:
    """What a node is given, by the names of its inputs."""
    named = [name for name in node.input if name]
    if isinstance(inputs, Mapping):
        given = dict(inputs)
    else:
        values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        if len(values) not in (len(named), len(node.input)):
            raise InputError(
                f"{node.op_type} has {counted(len(node.input), 'input')} "
                f"({', '.join(node.input) or 'none'}), {counted(len(values), 'value')} came"
            )
        names = named if len(values) == len(named) else list(node.input)
        given = {name: value for name, value in zip(names, values, strict=True) if name}
    missing = [name for name in named if name not in given]
    unknown = [name for name in given if name not in named]
    if missing or unknown:
        said = f"needs {missing[0]!r}" if missing else f"has no input {unknown[0]!r}"
        raise InputError(f"{node.op_type} {said}; its inputs are {', '.join(named) or 'none'}")
    return given


def _model_of(
    node: NodeProto,
    feed: Mapping[str, Any],
    outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None,
    opset: int,
) -> ModelProto:
    """A model of one node for values as they are fed."""
    inputs = [helper.make_value_info(name, _type_of(name, value)) for name, value in feed.items()]
    names = [name for name in node.output if name]
    outputs = [ValueInfoProto(name=name) for name in names]
    if outputs_info is not None:
        if len(outputs_info) != len(names):
            raise InputError(
                f"{node.op_type} has {len(names)} outputs, outputs_info tells {len(outputs_info)}"
            )
        outputs = [
            helper.make_tensor_value_info(name, number_type(dtype).onnx, shape)
            for name, (dtype, shape) in zip(names, outputs_info, strict=True)
        ]
    graph = helper.make_graph([node], "node", inputs, outputs)
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(node.domain, opset)]
    if node.domain in ("", "ai.onnx"):
        del imports[0]
    return helper.make_model(graph, opset_imports=imports)


def _type_of(name: str, value: Any) -> TypeProto:
    """The ONNX type of a value that is fed."""
    if value is None:
        raise InputError(f"the type of {name!r} cannot be told from None: leave its name empty")
    if isinstance(value, (list, tuple)):
        if not value:
            raise InputError(
                f"the type of {name!r} cannot be told from an empty sequence: use run_model"
            )
        element = _type_of(name, value[0])
        element.tensor_type.ClearField("shape")
        return helper.make_sequence_type_proto(element)
    array = np.asarray(value)
    return helper.make_tensor_type_proto(number_type(array.dtype).onnx, array.shape)


is_compatible = NeuralsymBackend.is_compatible
prepare = NeuralsymBackend.prepare
run_model = NeuralsymBackend.run_model
run_node = NeuralsymBackend.run_node
supports_device = NeuralsymBackend.supports_device

"""Myelin's way to run a network: compile a flow, take its cells, compute in instances.

    network = Network.compile("mnist.flow")
    data = network.cell("classifier").instance()
    data["x"] = picture
    data.compute()
    best = data["y"].argmax()

These classes are a view of the one compiler and runtime (neuralsym.cpu). A network holds a cell for
each function of its flow; an instance is the memory of one computation at a time, and any number of
them compute at once, each in a thread of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuralsym.cpu import library as kernels
from neuralsym.cpu.runtime import Parameter
from neuralsym.engines.flow import Blob, Connector, Flow, Function, Operation, Variable
from neuralsym.myelin.channel import Channel
from neuralsym.myelin.network import Cell, Instance, Network

if TYPE_CHECKING:
    from neuralsym.engines.tensorflow import FlowBuilder

__all__ = [
    "Blob",
    "Cell",
    "Channel",
    "Connector",
    "Flow",
    "FlowBuilder",
    "Function",
    "Instance",
    "Library",
    "Network",
    "Operation",
    "Parameter",
    "Variable",
]


def __getattr__(name: str) -> Any:
    """FlowBuilder, which few need, is loaded when it is named."""
    if name == "FlowBuilder":
        from neuralsym.engines.tensorflow import FlowBuilder

        return FlowBuilder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Library(kernels.Library):
    """Kernels, transformers and typers: what is registered here comes before neuralsym's own."""

    def __init__(self) -> None:
        super().__init__(kernels.installed_library())

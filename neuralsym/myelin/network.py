"""Networks of cells, and the instances that compute them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from numpy.typing import NDArray

from neuralsym.core.files import path_of
from neuralsym.cpu import library as kernels
from neuralsym.cpu import runtime
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.compiler import explain as explain_cell
from neuralsym.cpu.dump import describe_program
from neuralsym.cpu.options import Options
from neuralsym.cpu.runtime import Parameter
from neuralsym.engines.flow import Flow, read_model
from neuralsym.engines.tensorflow.operations import TENSORFLOW
from neuralsym.errors import BadAttribute, InputError, NeuralsymError, ShapeMismatch, did_you_mean
from neuralsym.myelin.channel import Channel
from neuralsym.myelin.report import report

Array = NDArray[Any]


class Network:
    """A compiled flow: `cells` by its functions, and the variables that they share.

    Made by `Network.compile`.
    """

    def __init__(
        self,
        flow: Flow,
        library: kernels.Library | None = None,
        batch_size: int | None = None,
        options: Options | None = None,
    ) -> None:
        self.flow = flow
        self.library = library
        self.options = options or Options()
        self.batch_size = 0
        self.state: dict[str, Array] = {}
        """The values of variables that some cell assigns to, by name."""
        self._cells: dict[str, Cell] = {}
        self.set_batch_size(batch_size if batch_size is not None else flow.batch_size)

    @classmethod
    def compile(
        cls,
        source: str | PathLike[str] | Flow,
        library: kernels.Library | None = None,
        batch_size: int | None = None,
        options: Options | None = None,
        **changes: Any,
    ) -> Network:
        """Load a .flow file, or take a Flow, and compile its functions.

        library: what kernels come from, `Library()` with what was registered there; batch_size:
        for the sizes -1 of shapes, that of the flow (1) unless given; options and changes: as in
        `neuralsym.Options`, so `profile=True` times every step. Raises FormatError for a broken
        file or an unknown operation, NoKernel when nothing can run one.
        """
        flow = (
            source
            if isinstance(source, Flow)
            else Flow.load(path_of(source, "compile takes a .flow file or a Flow"))
        )
        return cls(flow, library, batch_size, Options.of(options, **changes))

    def set_batch_size(self, batch_size: int) -> None:
        """Compile for another batch size; kernels stay, instances made before keep theirs."""
        if type(batch_size) is not int or batch_size < 1:
            raise BadAttribute(f"a batch size is an integer over 0, not {batch_size!r}")
        if batch_size == self.batch_size:
            return
        model = read_model(self.flow, batch_size, TENSORFLOW)
        compiled = {
            name: compile_graph(graph, self.options, self.library)
            for name, graph in model.graphs.items()
        }
        changed = frozenset().union(*(c.program.updates for c in compiled.values()))
        self.state = {}
        for cell in compiled.values():
            cell.state = self.state
            cell.state_names = changed.intersection(cell.program.inputs)
        self._cells = {name: Cell(self, cell) for name, cell in compiled.items()}
        self.batch_size = batch_size

    @property
    def cells(self) -> list[Cell]:
        """The cells, in the order of the flow's functions."""
        return list(self._cells.values())

    def cell(self, name: str) -> Cell:
        """The cell of a function; NeuralsymError, with the nearest name, if there is none."""
        found = self._cells.get(name)
        if found is None:
            hint = did_you_mean(name, self._cells)
            raise NeuralsymError(f"the network has no cell {name!r}{hint}")
        return found

    def __getitem__(self, name: str) -> Array:
        """The value of a variable that the cells share: a weight, or state as it is now."""
        var = self.flow.lookup(name)
        if var.name in self.state:
            return self.state[var.name]
        array = var.array(self.batch_size)
        if array is None:
            raise InputError(
                f"variable {var.name!r} is no weight of the network: look it up in an instance"
            )
        return array

    def connector(self, name: str) -> list[Parameter]:
        """The parameters that a connector links, each as the first cell that has it knows it."""
        found = self.flow.cnxs.get(name)
        if found is None:
            hint = did_you_mean(name, self.flow.cnxs)
            raise NeuralsymError(f"the flow has no connector {name!r}{hint}")
        made: list[Parameter] = []
        for var in found.links:
            made += [c.parameter(var.name) for c in self.cells if c.has(var.name)][:1]
        return made

    def channel(self, connector: str, size: int = 0) -> Channel:
        """A channel for the values that a connector links; ShapeMismatch where they differ."""
        linked = self.connector(connector)
        if not linked:
            raise NeuralsymError(f"no cell has a variable of connector {connector!r}")
        first = linked[0]
        for other in linked[1:]:
            if (other.shape, other.dtype) != (first.shape, first.dtype):
                raise ShapeMismatch(
                    f"connector {connector!r} links {first.name!r}, {first.type}, and "
                    f"{other.name!r}, {other.type}: what it links has one shape and type"
                )
        return Channel(first, size)

    def profile(self) -> str:
        """Myelin's table of the times of all steps, a table for each cell that has computed.

        Raises BadAttribute unless the network was compiled with `profile=True`.
        """
        if not self.options.profile:
            raise BadAttribute("the network was compiled without timing; compile(profile=True)")
        return "\n\n".join(c.profile() for c in self.cells if c.invocations)

    def explain(self) -> str:
        """What was rewritten, and which kernel each step of each cell got, and why no other."""
        return "\n\n".join(f"cell {c.name}\n{explain_cell(c.compiled)}" for c in self.cells)

    def __repr__(self) -> str:
        return f"<Network: cells {', '.join(self._cells)}>"


class Cell:
    """A compiled function: its parameters by name, and instances to compute it in."""

    def __init__(self, network: Network, compiled: runtime.Cell) -> None:
        self.network = network
        self.compiled = compiled
        self.names = _names(network.flow, compiled)
        """What each alias stands for."""
        self.instances: weakref.WeakSet[Instance] = weakref.WeakSet()

    @property
    def name(self) -> str:
        return self.compiled.name

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Inputs, outputs and constants, each with `name`, `shape`, `dtype` and `kind`."""
        return self.compiled.parameters

    def has(self, name: str) -> bool:
        """Whether the cell has a parameter of that name or alias."""
        name = self.names.get(name, name)
        return any(p.name == name for p in self.parameters)

    def parameter(self, name: str) -> Parameter:
        """The parameter of a name or alias; NeuralsymError, with the nearest, if there is none."""
        return self.compiled.parameter(self.names.get(name, name))

    def instance(self) -> Instance:
        """Memory to compute the cell in."""
        return Instance(self)

    def channel(self, name: str, size: int = 0) -> Channel:
        """A channel for values like that of a parameter."""
        return Channel(self.parameter(name), size)

    @property
    def invocations(self) -> int:
        """How often the instances that are alive have computed, in a profiled network."""
        return sum(i.invocations for i in self.instances)

    def profile(self) -> str:
        """Myelin's table: each step's share of the time, its time for one run and its kernel."""
        return report(self, list(self.instances))

    def __str__(self) -> str:
        """The parameters and steps of the cell."""
        return describe_program(self.compiled.program)

    def __repr__(self) -> str:
        return f"<Cell {self.name!r}: {len(self.compiled.program.steps)} steps>"


class Instance(runtime.Instance):
    """The memory of one computation of a cell; used by one thread at a time.

    `data[name] = value` sets an input by name or alias, `data.compute()` computes, `data[name]` is
    a view of an output or input, valid until the next compute. `data.connect` links parameters to
    elements of channels and to parameters of other instances.
    """

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell.compiled, {})
        self.aliases = cell.names
        self.invocations = 0
        self._reads: dict[str, Callable[[], Any]] = {}
        self._writes: dict[str, Callable[[Array], None]] = {}
        self._counts = cell.compiled.options.profile
        cell.instances.add(self)

    def compute(self) -> None:
        """Compute, with values read from and written to where parameters are linked."""
        for name, read in self._reads.items():
            self[name] = read()
        super().compute()
        for name, write in self._writes.items():
            write(self[name])
        self.invocations += 1

    def _settle(self) -> None:
        if not (self._reads or self._writes or self._counts):
            super()._settle()

    def connect(self, name: str, source: Channel | Instance, key: int | str | None = None) -> None:
        """Link a parameter: an input is read from there before a run, an output written after.

        source and key: a channel and the number of its element, without a key all elements of the
        channel along the first axis (inputs only); or an instance and the name of its parameter.
        The link holds until another is made or `clear`.
        """
        name = self.aliases.get(name, name)
        inputs, outputs = self.program.inputs, self.program.outputs
        if name not in inputs and name not in outputs:
            hint = did_you_mean(name, [*inputs, *outputs])
            raise InputError(f"{self.program.name!r} has no input or output {name!r}{hint}")
        if isinstance(source, Channel):
            source.check(key)
            if name in inputs:
                self._reads[name] = source.array if key is None else lambda: source[key]
            elif key is None:
                raise InputError(f"output {name!r} goes to one element of a channel: say which")
            else:
                self._writes[name] = lambda value: source.__setitem__(key, value)
        elif not isinstance(key, str):
            raise InputError(f"{name!r} is linked to a parameter of an instance: say which")
        elif name in inputs:
            self._reads[name] = lambda: source[key]
        else:
            self._writes[name] = lambda value: source.__setitem__(key, value)
        self._unsettle()

    def clear(self) -> None:
        """Forget what was set and linked, so that the next computation starts afresh."""
        super().clear()
        self._reads.clear()
        self._writes.clear()


def _names(flow: Flow, compiled: runtime.Cell) -> Mapping[str, str]:
    """For aliases, and names of operations, the parameters of a cell that they stand for."""
    own = {p.name for p in compiled.parameters}
    made = {op.name: op.outputs[0].name for op in flow.ops.values() if op.outputs}
    made |= {alias: v.name for v in flow.vars.values() for alias in v.aliases}
    return {word: name for word, name in made.items() if word not in own and name in own}

"""Network: the user's one handle on a computation, its weights, its file and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.files import path_of
from neuralsym.core.graph import Graph
from neuralsym.core.locks import Lock
from neuralsym.core.model import Model
from neuralsym.core.tensor import Tensor
from neuralsym.cpu.options import Options
from neuralsym.cpu.quick import Pool
from neuralsym.edit import Editable
from neuralsym.errors import FormatError, InputError, at_line, did_you_mean, user_line, which
from neuralsym.ports import Port, as_input, by_name
from neuralsym.weights.holder import WeightsHolder

if TYPE_CHECKING:
    from onnx import ModelProto

    from neuralsym.cpu.image import Image
    from neuralsym.cpu.library import Library
    from neuralsym.cpu.runtime import Cell, Instance

Array = NDArray[Any]


class Network(WeightsHolder, Editable):
    """A graph with its weights that can be saved, summarised, compiled and run.

    It compiles itself at the first run. Runs from several threads at once are safe. It is pickled
    as its graph and options, never as code.
    """

    def __init__(
        self,
        model: Model | Graph,
        *,
        options: Options | None = None,
        library: Library | None = None,
    ) -> None:
        self._begin(Model.of(model), options, library)

    def _begin(self, model: Model | None, options: Options | None, library: Library | None) -> None:
        self._read = model
        self._file: Path | None = None
        self._digest = ""
        """Of the file while it has not been read: a stored image of it can be run."""
        self._image: Image | None = None
        self._options = options or Options()
        self._library = _checked(library)
        self._lock = Lock()
        self._compiled: dict[tuple[str, ...], _Compiled] = {}
        self._quick: Callable[[Any], dict[str, Any] | None] | None = None
        """The way of runs like the one before: `Pool.run` of the image or of what is compiled."""

    @classmethod
    def _of_file(cls, path: Path, options: Options | None, library: Library | None) -> Network:
        """The network of an .onnx file; one that `warmup` has stored is not read before need."""
        from neuralsym.cpu.warm import find_image

        found = find_image(path, options or Options()) if library is None else None
        made = cls.__new__(cls)
        made._begin(_model_of(path, library) if found is None else None, options, library)
        made._file = path
        if found is not None:
            made._image, made._digest = found
            made._quick = made._image.run
        return made

    # -- what it is ------------------------------------------------------------------------
    @property
    def _model(self) -> Model:
        if self._read is None:
            with self._lock:
                if self._read is None:
                    from neuralsym.cpu.store import Store
                    from neuralsym.cpu.warm import digest_of

                    assert self._file is not None
                    store = Store.of(self._options.cache_dir)
                    if digest_of(self._file, store) != self._digest:
                        raise FormatError(f"{self._file} has changed since it was loaded")
                    self._read = _model_of(self._file, None)
        return self._read

    @property
    def model(self) -> Model:
        return self._model

    @property
    def graph(self) -> Graph:
        return self._model.graph

    @property
    def name(self) -> str:
        return self.graph.name

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the file says beside the graph, such as the preprocessing of its input."""
        return self._model.metadata

    @property
    def options(self) -> Options:
        return self._options

    @property
    def inputs(self) -> tuple[Port, ...]:
        graph = self.graph
        return tuple(
            Port(name, s.type, "init" in s.attrs)
            for name, s in zip(graph.input_names, graph.inputs, strict=True)
        )

    @property
    def outputs(self) -> tuple[Port, ...]:
        graph = self.graph
        return tuple(
            Port(name, s.type) for name, s in zip(graph.output_names, graph.outputs, strict=True)
        )

    def summary(
        self, print_fn: Callable[[str], object] = print, *, as_dict: bool = False
    ) -> dict[str, Any] | None:
        """Print a row for each layer (output shape, parameters, multiply-adds) and the totals.

        as_dict: give the totals instead: parameters, trainable, statistics, constants, macs.
        No weight is drawn.
        """
        from neuralsym.summary import summarize

        made = summarize(self.graph)
        if not as_dict:
            print_fn(str(made))
            return None
        names = ("parameters", "trainable", "statistics", "constants", "nbytes", "macs")
        return {name: getattr(made, name) for name in names}

    def plot(self, path: str | PathLike[str], *, depth: int | None = None) -> Path:
        """Write a picture, an .svg, .html or .dot file; gives its path.

        depth: how many levels of scopes (layers, blocks) are opened into what they consist of;
        None for as many as fit a page, 0 for none. In an .html file each can be opened and closed
        and is searched. Raises FormatError for another suffix or a place that cannot be written,
        BadAttribute for a depth below 0.
        """
        from neuralsym import draw

        return draw.plot(self._model, path, depth)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return self.graph._repr_html_()

    def __str__(self) -> str:
        from neuralsym.summary import summarize

        return str(summarize(self.graph))

    def __repr__(self) -> str:
        ports = ", ".join(map(str, self.inputs))
        results = ", ".join(map(str, self.outputs))
        return f"<Network {self.name!r}: ({ports}) -> ({results})>"

    def _put_weights(self, values: Mapping[str, Tensor]) -> None:
        with self._lock:
            self._read = self._model.with_graph(self.graph.with_weights(values))
            self._image = self._file = self._quick = None
            self._compiled = {}

    def _edited(self, model: Model) -> Network:
        return Network(model, options=self._options, library=self._library)

    # -- files -----------------------------------------------------------------------------
    def save(self, path: str | PathLike[str], *, opset: int | None = None) -> list[Path]:
        """Write an .onnx or .flow file; gives the paths written, two for external data.

        opset: the ONNX opset to write; the lowest from 18 on that can express the graph
        otherwise. The file appears under its name when it is complete. Raises FormatError for
        another suffix, a folder that is not there, or what the format or opset cannot express.
        """
        path = path_of(path, "save takes the path of a file")
        if path.suffix == ".flow" and opset is None:
            from neuralsym.engines import flow

            flow.save(self._model, path)
            return [path]
        if path.suffix != ".onnx":
            what = "a .flow file with an opset" if path.suffix == ".flow" else repr(path.suffix)
            raise FormatError(f"{path}: a network is saved as .onnx or .flow, not {what}")
        from neuralsym.engines import onnx

        return onnx.save(self._model, path, opset=opset)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._model, self._options))

    # -- running ---------------------------------------------------------------------------
    def compile(
        self,
        options: Options | None = None,
        *,
        library: Library | None = None,
        progress: Callable[[int, int, str], object] | None = None,
        **changes: Any,
    ) -> Network:
        """Compile now rather than at the first run, with these options; gives the network.

        `changes` are fields of Options: `compile(threads=1)`. progress: called with (done, total,
        name) as kernels become ready.
        """
        with self._lock:
            self._options = Options.of(options or self._options, **changes)
            if library is not None:
                self._library = _checked(library)
            self._compiled = {}
            self._image = self._find_image()
            self._quick = None if self._image is None else self._image.run
            if self._image is None:
                self._compile((), progress)
        return self

    def _find_image(self) -> Image | None:
        """The stored image for the file and the options of now, while the file is unread."""
        if self._read is not None or self._library is not None or self._file is None:
            return None
        from neuralsym.cpu.warm import find_image

        found = find_image(self._file, self._options)
        return found[0] if found is not None and found[1] == self._digest else None

    def warmup(self, **sizes: int) -> bool:
        """Compile, and store the program so that a later process need neither read nor compile.

        `load` of the same file with the same options then maps the stored program; the first use
        of anything but `run` reads the file. sizes: named dimensions of the inputs; 1 for others.
        Whether the whole program could be stored: it must come from one file (no external data),
        have no kernels of the user's, no steps in Python, and no sizes that depend on data. The
        machine code of the kernels is stored in any case.
        """
        from neuralsym.core.dim import Dim
        from neuralsym.cpu.imaging import image_of
        from neuralsym.cpu.program import Sizes
        from neuralsym.cpu.warm import store_image
        from neuralsym.engines import onnx

        names = {
            n: 1 for p in self.inputs for d in p.shape or () if isinstance(d, Dim) for n in d.names
        }
        unknown = [n for n in sizes if n not in names]
        if unknown:
            hint = did_you_mean(unknown[0], names)
            raise InputError(f"network {self.name!r} has no dimension {unknown[0]!r}{hint}")
        cell = self._compile(()).cell
        plan = cell.plan(0, Sizes({**names, **sizes}, cell.workers), ())
        image = image_of(cell, plan)
        if image is None or self._file is None or self._library is not None:
            return False
        if onnx.has_external_data(self._file):
            return False
        return store_image(self._file, self._options, image)

    def run(self, feed: Any = None, outputs: Any = None) -> dict[str, Any]:
        """Compute the outputs: a dict by name in graph order, of fresh arrays.

        feed: a dict by input name; an array where there is one input; a list or tuple of one
        entry for each input. Python numbers and float64 are cast to a float input, any other
        dtype must be the input's. outputs: names of outputs, or of any other values in the
        graph; all outputs otherwise. `run(None, feed)` and `run(names, feed)` are understood as
        onnxruntime's.

        Raises InputError for a missing or unknown input, TypeMismatch and ShapeMismatch for one
        that does not fit, ExecutionError when a step fails.
        """
        if outputs is None:
            if (quick := self._quick) is not None and (made := quick(feed)) is not None:
                return made
        elif isinstance(outputs, Mapping):  # onnxruntime's order of arguments
            feed, outputs = outputs, feed
        names = self._output_names(outputs)
        compiled = self._compile(names, draft=True)
        arrays = self._arrays(feed, compiled)
        instance = compiled.pool.take()
        try:
            for name, array in arrays.items():
                instance[name] = array
            instance.compute()
            results = {name: _fresh(instance[name]) for name in compiled.outputs}
            instance.clear()
        finally:
            compiled.pool.give(instance)
        compiled.cell.improve()
        if not names:
            with self._lock:
                if self._compiled.get(()) is compiled:
                    self._quick = compiled.pool.run
        return results

    predict = run

    def __call__(self, feed: Any = None) -> Any:
        """`run`, but the bare array where there is one output."""
        results = self.run(feed)
        return next(iter(results.values())) if len(results) == 1 else results

    @property
    def cell(self) -> Cell:
        """The compiled program that gives the outputs, made now if it is not there yet."""
        return self._compile(()).cell

    def explain(self) -> str:
        """What the passes did to the graph, then which kernel each step got and why others refused.

        The first line counts the rules that fired, `passes: fold_into_convolution 53 times, ...`;
        it is missing where none did.
        """
        from neuralsym.cpu.compiler import explain

        return explain(self.cell)

    def _output_names(self, outputs: Any) -> tuple[str, ...]:
        if outputs is None:
            return ()
        wanted = [outputs] if isinstance(outputs, str) else list(outputs)
        if not wanted:
            raise InputError("outputs is empty; leave it out to have all outputs")
        graph = self.graph
        for name in wanted:
            if not isinstance(name, str) or name not in graph:
                hint = which(str(name), graph.output_names)
                raise InputError(f"network {self.name!r} has no output {name!r}{hint}")
        return tuple(n for n in graph.output_names if n in wanted) + tuple(
            dict.fromkeys(n for n in wanted if n not in graph.output_names)
        )

    def _compile(
        self,
        names: tuple[str, ...],
        progress: Callable[[int, int, str], object] | None = None,
        draft: bool = False,
    ) -> _Compiled:
        found = self._compiled.get(names)
        if found is None:
            with self._lock:
                found = self._compiled.get(names)
                if found is None:
                    graph = self.graph.subgraph(list(names)) if names else self.graph
                    found = _Compiled(graph, self._options, self._library, progress, draft)
                    self._compiled[names] = found
        return found

    def _arrays(self, feed: Any, compiled: _Compiled) -> dict[str, Any]:
        """The feed as arrays by input name, checked against the inputs' names and dtypes."""
        ports = {p.name: p for p in self.inputs}
        values = by_name(feed, ports, self.name)
        unknown = [n for n in values if n not in ports]
        if unknown:
            hint = which(str(unknown[0]), ports)
            raise InputError(f"network {self.name!r} has no input {unknown[0]!r}{hint}")
        missing = [n for n, p in ports.items() if n not in values and not p.default]
        needed = [n for n in missing if n in compiled.inputs]
        if needed:
            wanted = ", ".join(str(ports[n]) for n in needed)
            raise InputError(f"network {self.name!r} needs the input {wanted}")
        return {n: as_input(value, ports[n]) for n, value in values.items() if n in compiled.inputs}


class _Compiled:
    """A compiled part of a network and its pool of instances."""

    def __init__(
        self,
        graph: Graph,
        options: Options,
        library: Library | None,
        progress: Callable[[int, int, str], object] | None,
        draft: bool,
    ) -> None:
        from neuralsym.cpu.compiler import compile_graph

        self.cell: Cell = compile_graph(
            graph, options, library=library, progress=progress, draft=draft
        )
        self.inputs = frozenset(graph.input_names)
        self.outputs = graph.output_names
        self.pool: Pool[Instance] = Pool(self.cell.instance)


def load(
    source: str | PathLike[str] | bytes | ModelProto,
    *,
    options: Options | None = None,
    library: Library | None = None,
) -> Network:
    """The network of an .onnx or .flow file, of the bytes of an .onnx file, or a ModelProto.

    The folder of a TensorFlow SavedModel is read by TensorFlow, which must be installed
    (`neuralsym[tensorflow]`). Sizes of -1 in a flow are the free size "N". Raises FormatError for
    what is no model, GraphError for one that is not well formed.
    """
    if isinstance(source, (str, PathLike)):
        return Network._of_file(Path(source), options, library)
    return Network(_model_of(source, library), options=options, library=library)


def _model_of(source: Path | bytes | ModelProto, library: Library | None) -> Model:
    if isinstance(source, Path) and source.suffix == ".flow":
        from neuralsym.engines import flow
        from neuralsym.engines.tensorflow.operations import TENSORFLOW

        return flow.read_model(flow.load(source), more=TENSORFLOW)
    if isinstance(source, Path) and (source / "saved_model.pb").is_file():
        from neuralsym.engines import tensorflow

        return Model.of(tensorflow.to_symbolic(source))
    from neuralsym.engines import onnx

    if library is None:
        return onnx.read_model(source)
    return onnx.read_model(source, typers=library.find_typer)


def _checked(library: Library | None) -> Library | None:
    given: object = library
    if given is not None and not hasattr(given, "find_typer"):  # its class is loaded late
        raise TypeError(
            f"library is a Library, not {type(given).__name__}: Library.default() makes one"
            f"{at_line(user_line())}"
        )
    return library


def _fresh(value: Any) -> Any:
    return np.array(value) if isinstance(value, np.ndarray) else value


def _restore(model: Model, options: Options) -> Network:
    return Network(model, options=options)

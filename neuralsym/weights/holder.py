"""The part of a Network that has to do with its weights: by name, from files, into files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from neuralsym.core.files import path_of
from neuralsym.core.graph import Graph
from neuralsym.core.tensor import Tensor
from neuralsym.errors import warn
from neuralsym.weights import Weights

# The rest is imported late: who runs a stored program loads no weights.
if TYPE_CHECKING:
    from neuralsym.weights.match import Loaded, Names


class WeightsHolder:
    """What a class has from its `graph`, its `metadata` and a way to change weights."""

    @property
    @abstractmethod
    def graph(self) -> Graph: ...

    @property
    @abstractmethod
    def metadata(self) -> Mapping[str, str]: ...

    @abstractmethod
    def _put_weights(self, values: Mapping[str, Tensor]) -> None: ...

    @property
    def weights(self) -> Weights:
        """The weights by name; each is drawn or read when it is looked up."""
        return Weights(self.graph)

    def set_weight(self, name: str, value: ArrayLike) -> None:
        """Give one weight another value of the same shape; it is cast to the weight's dtype.

        Runs in flight finish on the old value. Raises WeightsError for an unknown name or
        another shape.
        """
        from neuralsym.weights.match import one_weight

        self.weights.tensor(name)
        self._put_weights({name: one_weight(self.graph, name, value)})

    def load_weights(
        self,
        source: str | PathLike[str] | Mapping[str, Any],
        *,
        strict: bool = True,
        scheme: str | None = None,
        names: Names | None = None,
    ) -> Loaded:
        """Set the weights from a file or a dict; gives what was loaded and what was left out.

        source: a file of .safetensors, .npz, .pth (torch), .h5 or .keras (Keras), .onnx, or a
        dict of arrays. Its names are ours, or those of torchvision, timm or Keras for a network
        of the zoo, or of torch or Keras for layers that are called as ours; the axes of theirs
        are converted. scheme: one of "own", "torchvision", "timm", "keras", "torch"; the one that
        fits best otherwise. names: where weights of ours are found, over what the scheme says:
        {our name: key, or Source}.

        strict: every weight of the network must be there, with its shape, and nothing else.
        With False what fits is taken; the result says the rest, and so does a warning for a file.
        Raises WeightsError that lists what is missing, unexpected or of another shape, each with
        the nearest name, and when nothing fits; nothing is changed then.
        """
        from neuralsym.weights.formats import read_weights
        from neuralsym.weights.match import match_weights, stored_of

        what = "load_weights takes a file or a dict of arrays by name"
        given = source if isinstance(source, Mapping) else path_of(source, what)
        stored = stored_of(given) if isinstance(given, Mapping) else read_weights(given)
        values, found = match_weights(
            self.graph,
            self.metadata.get("architecture", self.graph.name),
            stored,
            strict=strict,
            scheme=scheme,
            names=names,
        )
        self._put_weights(values)
        if found.left_out and not isinstance(source, Mapping):
            warn(f"{source}: {found}")
        return found

    def save_weights(self, path: str | PathLike[str]) -> Path:
        """Write all weights by name as .npz or .safetensors; gives the path.

        They come back byte for byte by `load_weights`. The file appears under its name when it is
        complete. Raises FormatError for another suffix, a place that cannot be written, or a
        number type that the format lacks.
        """
        from neuralsym.weights.formats import write_weights

        weights, place = self.weights, path_of(path, "save_weights takes the path of a file")
        write_weights(place, {name: weights.tensor(name) for name in weights})
        return place

"""The outline of a graph: its boxes in nested groups, one for each scope, and the wires between.

Weights and constants are no boxes: they are lines in the boxes that take them. Graphs from files
have no scopes; there the parts of names between / or . are read as scopes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Variable, Weight
from neuralsym.core.model import Model
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Type
from neuralsym.dtypes import is_whole
from neuralsym.engines.dot.caption import (
    INPUT,
    LONGEST,
    OUTPUT,
    Caption,
    Kind,
    caption,
    derived,
    is_telling,
    kind_of,
    last_part,
    short,
    size_of,
    type_text,
    weights_of,
)
from neuralsym.errors import BadAttribute

LEVELS = 24
"""Names with more parts are cut there, so that no name makes a picture deep without end."""

PAGE = 48
"""Boxes that fit a page: as far as groups are opened where no depth is given."""


FEW = 3
"""Operators that are named in the box of a closed group."""

_PLAIN = ("block", "scope", "graph")
"""Kinds of groups that say nothing."""


@dataclass(eq=False)
class Box:
    """One operator, input or output of a graph."""

    name: str
    kind: Kind
    caption: Caption
    parent: Group


@dataclass(eq=False)
class Group:
    """A scope, a body or the whole: what is in it, in order, and what it adds up to.

    level: 0 for the whole, whose parts have level 1. named: whether the name was chosen, by a user
    or a file, rather than counted. parts are boxes and groups.
    """

    name: str
    what: str
    parent: Group | None
    level: int
    named: bool = False
    parts: list[Part] = field(default_factory=list)
    parameters: int = 0
    operators: int = 0
    contents: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The name within the parent."""
        inside = f"{self.parent.name}/" if self.parent is not None and self.parent.name else ""
        return self.name.removeprefix(inside) or self.name

    @property
    def said(self) -> str:
        """What it is and its parameters: `bottleneck · 75,008 parameters`."""
        said = [] if self.what in _PLAIN or self.what == self.label else [self.what]
        if self.parameters:
            said.append(f"{self.parameters:,} parameters")
        return " · ".join(said)

    @property
    def lines(self) -> tuple[str, ...]:
        """What its box says under the name while it is closed."""
        few = " · ".join(self.contents) if len(self.contents) <= FEW else ""
        return tuple(line for line in (self.said, short(few, 2 * LONGEST)) if line)

    @property
    def detail(self) -> tuple[str, ...]:
        """All there is to say of it on pointing."""
        many = "" if self.operators == 1 else "s"
        said = [f"{self.what} {self.name}", f"{self.operators:,} operator{many}"]
        return (*said, f"{self.parameters:,} parameters") if self.parameters else tuple(said)


Part = Box | Group


@dataclass(frozen=True)
class Wire:
    """A value on its way from the box that gives it to one that takes it.

    fed: whether a box gives it to its body rather than the graph to another box.
    """

    source: Box
    target: Box
    value: str
    type: Type
    fed: bool = False


@dataclass(frozen=True)
class View:
    """An outline with its groups opened to some depth; `ends` has the part that shows each box."""

    outline: Outline
    opened: frozenset[Group]
    ends: dict[Box, Part]

    def shown(self) -> list[Part]:
        """The boxes and closed groups, in order."""
        return list(dict.fromkeys(self.ends.values()))

    def links(self) -> list[tuple[Part, Part, Wire]]:
        """One link for each value that runs from one shown part to another, in order."""
        found: dict[tuple[Part, Part, str], Wire] = {}
        for wire in self.outline.wires:
            a, b = self.ends[wire.source], self.ends[wire.target]
            if a is not b:
                found.setdefault((a, b, wire.value), wire)
        return [(a, b, wire) for (a, b, _), wire in found.items()]


@dataclass(frozen=True)
class Outline:
    """The groups (the whole first, each before those in it), the boxes and the wires."""

    groups: list[Group]
    boxes: list[Box]
    wires: list[Wire]

    @property
    def whole(self) -> Group:
        return self.groups[0]

    @property
    def depth(self) -> int:
        """How many levels of groups there are to open."""
        return max(group.level for group in self.groups)

    def view(self, depth: int | None = None) -> View:
        """The outline opened `depth` levels deep; None: as deep as fits a page.

        Raises BadAttribute for a negative depth.
        """
        if depth is not None and not is_whole(depth):
            raise BadAttribute(f"depth is a whole number of levels, not {depth!r}")
        if depth is not None and depth < 0:
            raise BadAttribute(f"depth is {depth}; it is 0 (groups stay closed) or more")
        if depth is not None:
            return self._view(depth)
        best = self._view(0)
        for deeper in range(1, self.depth + 1):
            made = self._view(deeper)
            if len(made.shown()) > PAGE:
                break
            best = made
        return best

    def _view(self, depth: int) -> View:
        opened = frozenset(group for group in self.groups if group.level <= depth)
        top: dict[Group, Part] = {}
        for group in self.groups:
            if group.parent is not None and group.parent in top:
                top[group] = top[group.parent]
            elif group not in opened:
                top[group] = group
        return View(self, opened, {box: top.get(box.parent, box) for box in self.boxes})


def outline(model: Graph | Model) -> Outline:
    """The outline of a graph, bodies included; of a model of several, with a group for each."""
    return _Builder(Model.of(model)).made


class _Builder:
    """The state of making one outline."""

    def __init__(self, model: Model) -> None:
        whole = Group("", "graph", None, 0)
        self.made = Outline([whole], [], [])
        self.sources: dict[Symbol, Box] = {}
        self.names: dict[Symbol, str] = {}
        self.counted: set[str] = set()
        """Names of weights: graphs of one model share them by name, and bodies have their own."""
        pending: list[tuple[Graph, Group, Box | None]] = []
        for name, graph in model.graphs.items():
            group = whole
            if len(model.graphs) > 1:
                group = _add_group(self.made.groups, whole, name, "function")
                group.named = True
            pending.append((graph, group, None))
        while pending:
            of, group, holder = pending.pop(0)
            pending += self.add(of, group, holder)
        _flatten(self.made)
        self.order()

    def add(self, graph: Graph, root: Group, holder: Box | None) -> list[tuple[Graph, Group, Box]]:
        """The boxes and wires of one graph; gives its bodies with their groups and holders."""
        places = _Places(graph, root, self.made.groups)
        bodies: list[tuple[Graph, Group, Box]] = []
        for symbol in graph.inputs:
            box = self.box(graph.names[symbol.node], INPUT, symbol.type, root)
            self.sources[symbol] = box
            self.names[symbol] = box.name
            if holder is not None:
                self.made.wires.append(Wire(holder, box, box.name, symbol.type, fed=True))
        beside = derived(graph)
        for node in graph.nodes:
            self.names.update((s, graph.value_name(s)) for s in node.outputs)
            if node.op in (Variable, Weight, Constant) or node in beside:
                continue
            group = places.of(node)
            inside = graph.bodies.get(node)
            if inside:
                name = graph.names[node]
                group = places.under(group, name, node.op_type)
            box = self.operator(graph, node, group, beside)
            for attribute, body in (inside or {}).items():
                name = f"{group.name}/{attribute}"
                bodies.append((body, places.under(group, name, "body"), box))
        results = [*zip(graph.output_names, graph.outputs, strict=True)]
        results += [(f"{graph.names[s.node]} (next)", v) for s, v in graph.updates.items()]
        for name, symbol in results:
            box = self.box(name, OUTPUT, symbol.type, root)
            self.wire(symbol, box)
        return bodies

    def box(self, name: str, kind: Kind, type_: Type, parent: Group) -> Box:
        """An input or output."""
        text = f"{name}: {type_}"
        said = Caption(short(last_part(name)), (short(str(type_)),), (f"{kind.name} {text}",))
        box = Box(name, kind, said, parent)
        parent.parts.append(box)
        self.made.boxes.append(box)
        return box

    def operator(self, graph: Graph, node: Node, group: Group, beside: frozenset[Node]) -> Box:
        name = graph.names[node]
        chosen = node.name is not None and group.label != last_part(name)
        said = caption(graph, node, beside)
        if chosen and _says_more(last_part(name), said):
            said = Caption(said.title, (short(last_part(name)), *said.lines), said.detail)
        box = Box(name, kind_of(node), said, group)
        group.parts.append(box)
        self.made.boxes.append(box)
        self.sources.update((s, box) for s in node.outputs)
        for symbol in dict.fromkeys(node.operands):
            self.wire(symbol, box)
        parameters = 0
        for weight in weights_of(node, beside):
            if graph.names[weight] not in self.counted:
                self.counted.add(graph.names[weight])
                parameters += weight.attrs["value"].size
        words = f"{node.op_type} {size_of(node)}".rstrip()
        above: Group | None = group
        while above is not None:
            above.parameters += parameters
            above.operators += 1
            if len(above.contents) <= FEW:
                above.contents.append(words)
            above = above.parent
        return box

    def wire(self, symbol: Symbol, box: Box) -> None:
        source = self.sources.get(symbol)
        if source is not None:
            self.made.wires.append(Wire(source, box, self.names[symbol], symbol.type))
        elif box.kind is OUTPUT:  # a weight or constant that is given as it is
            text = f"{symbol.op_type.lower()} {type_text(symbol.type)}"
            said = box.caption
            box.caption = Caption(said.title, (*said.lines, text), said.detail)

    def order(self) -> None:
        """Each group before those in it, as the parts lie; boxes likewise."""
        groups: list[Group] = []
        boxes: list[Box] = []
        stack: list[Part] = [self.made.whole]
        while stack:
            part = stack.pop()
            if isinstance(part, Box):
                boxes.append(part)
                continue
            if part.parent is not None:
                part.level = part.parent.level + 1
            groups.append(part)
            stack.extend(reversed(part.parts))
        self.made.groups[:] = groups
        self.made.boxes[:] = boxes


class _Places:
    """In which group each node of a graph lies: by its scope, or by its name."""

    def __init__(self, graph: Graph, root: Group, groups: list[Group]) -> None:
        self.graph = graph
        self.root = root
        self.groups = groups
        self.known: dict[object, Group] = {}
        drawn = [n for n in graph.nodes if n.op not in (Weight, Constant, Variable)]
        self.mark = ""
        if all(node.scope is None for node in drawn):
            names = [graph.names[node] for node in drawn]
            self.mark = next((m for m in "/." if sum(m in name for name in names) > 1), "")
            self.prefixes = {"/".join(p) for name in names for p in self.prefixes_of(name)}

    def of(self, node: Node) -> Group:
        group = self.root
        for key, name, what, named in self.path(node):
            found = self.known.get(key)
            if found is None:
                inside = f"{self.root.name}/{name}" if self.root.name else name
                found = self.known[key] = self.under(group, inside, what)
                found.named = named
            group = found
        return group

    def under(self, parent: Group, name: str, what: str) -> Group:
        return _add_group(self.groups, parent, name, what)

    def path(self, node: Node) -> Iterator[tuple[object, str, str, bool]]:
        """The scopes of a node from the outermost in: key, full name, kind, and if it is chosen."""
        if not self.mark:
            for scope in node.scope.path()[:LEVELS] if node.scope else ():
                name = self.graph.scope_names.get(scope, scope.name or scope.kind)
                yield scope, name, scope.kind, scope.name is not None
            return
        name = self.graph.names[node]
        parts = self.split(name)
        if "/".join(parts) not in self.prefixes:
            parts = parts[:-1]  # what bears the name of a scope is its result, and lies in it
        for i in range(1, len(parts) + 1):
            full = "/".join(parts[:i])
            yield full, full, "scope", True

    def split(self, name: str) -> list[str]:
        return [part for part in name.split(self.mark) if part][: LEVELS + 1] if self.mark else []

    def prefixes_of(self, name: str) -> Iterator[Sequence[str]]:
        parts = self.split(name)
        for i in range(1, len(parts)):
            yield parts[:i]


def _add_group(groups: list[Group], parent: Group, name: str, what: str) -> Group:
    made = Group(name, what, parent, parent.level + 1)
    parent.parts.append(made)
    groups.append(made)
    return made


def _flatten(made: Outline) -> None:
    """A group of one box is that box, which takes the group's name where that was chosen."""
    instead: dict[Part, Part] = {}
    for group in reversed(made.groups):
        group.parts = [instead.get(part, part) for part in group.parts]
        parent = group.parent
        if parent is None:
            continue
        if len(group.parts) != 1 or group.what in ("body", "function"):
            continue
        (only,) = group.parts
        only.parent = parent
        instead[group] = only
        if isinstance(only, Box) and group.named and _says_more(group.label, only.caption):
            said = only.caption
            only.caption = Caption(said.title, (short(group.label), *said.lines), said.detail)
        group.parts = []
    made.groups[1:] = [group for group in made.groups[1:] if group.parts]


def _says_more(name: str, said: Caption) -> bool:
    """Whether a name tells more than the operator, and is not told yet."""
    return is_telling(name, said.title.split()[0]) and name not in said.lines

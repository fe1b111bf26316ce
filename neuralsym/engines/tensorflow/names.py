"""Names of a flow's variables as a network has them: those of the model, and `x` for `x:0`.

A later result of an operation is called `x/1`, since `x:1` is what graphs call that of a node `x`.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.engines.flow import Flow, Variable


def rename(flow: Flow, wanted: Sequence[tuple[Variable, str]]) -> None:
    """Give variables the names that are wanted, and all others theirs without a colon.

    A name that another one has already is left to that. What a function that is called takes and
    gives keeps its name, by which the call knows it.
    """
    fixed = {
        name
        for op in flow.ops.values()
        for key, text in op.attrs.items()
        if key.endswith(("_inputs", "_outputs"))
        for name in text.split(",")
    }
    taken = dict.fromkeys(fixed)
    made: dict[Variable, str] = {}
    for var, name in [*wanted, *((v, _plain(v.name)) for v in flow.vars.values())]:
        if var in made or var.name in fixed:
            continue
        made[var] = name if name not in taken else var.name
        taken[made[var]] = None
    for var in flow.vars.values():
        name = made.get(var, var.name)
        var.aliases = [a for a in dict.fromkeys([var.name, *var.aliases]) if a != name]
        var.name = name
    flow.vars = {var.name: var for var in flow.vars.values()}


def _plain(name: str) -> str:
    base, colon, number = name.rpartition(":")
    return name if not colon or not number.isdigit() else base + f"/{number}" * (number != "0")

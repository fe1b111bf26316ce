"""Every network of the zoo as a .flow file: read back, it gives the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from zoo_networks import draw_statistics, entries, need_room, small

import neuralsym
from neuralsym import zoo


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.models())
def test_a_flow_gives_the_same_answer(name: str, tmp_path: Path) -> None:
    need_room(name, 5)
    net = draw_statistics(small(name))
    path = tmp_path / "net.flow"
    net.save(path)
    again = neuralsym.load(path)
    path.unlink()  # large ones are mapped, small ones read
    assert [str(p) for p in (*again.inputs, *again.outputs)] == [
        str(p) for p in (*net.inputs, *net.outputs)
    ]
    assert again.metadata == net.metadata
    x = entries(net, 2)
    np.testing.assert_array_equal(again(x), net(x))

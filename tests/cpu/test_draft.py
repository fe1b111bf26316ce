"""Large networks answer first with kernels made quickly, which are then replaced."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from neuralsym import Network, Options
from neuralsym.cpu import draft, loader
from neuralsym.cpu.draft import Drafts
from neuralsym.cpu.machine import host_isas
from neuralsym.cpu.options import Isa
from neuralsym.errors import NoKernel
from neuralsym.layers import conv2d, fully_connected, get_network, input, relu

X = np.random.default_rng(0).normal(size=(3, 3, 12, 12)).astype(np.float32)


@pytest.fixture
def all_drafted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Every kernel is a draft at first: an empty cache, and nothing in memory."""
    monkeypatch.setattr(loader, "_addresses", {})
    monkeypatch.setattr(draft, "LEAST_TEXT", 0)
    monkeypatch.setenv("NEURALSYM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def network(threads: int = 1, isa: Isa | None = None) -> Network:
    body = input(("N", 3, 12, 12)) | conv2d(20, 3) | relu | fully_connected(20)
    return Network((body | get_network("n")).model, options=Options(threads=threads, isa=isa))


def drafts_of(net: Network) -> Drafts:
    found = net.cell._drafts
    assert found is not None
    return found


def wait_for(net: Network) -> None:
    drafts, end = drafts_of(net), time.monotonic() + 60
    while drafts.left:
        assert time.monotonic() < end, "the kernels are not being made"
        time.sleep(0.005)


@pytest.mark.parametrize(("threads", "isa"), [(1, None), (2, host_isas()[-1])])
def test_drafts_give_the_same_bits_and_are_replaced(
    all_drafted: Path, threads: int, isa: Isa | None
) -> None:
    net = network(threads, isa)
    first = net.run(X)
    instance = net.cell.instance()
    (name,) = net.cell.program.inputs
    instance[name] = X
    instance.compute()
    used = set(drafts_of(net)._made) | set(drafts_of(net).left)
    assert used
    while drafts_of(net).left:  # while the tables change below it
        np.testing.assert_equal(net.run(X), first)
    wait_for(net)
    np.testing.assert_equal(net.run(X), first)
    addresses = {drafts_of(net)._made[code] for code in used}
    (bound,) = instance.bound
    assert addresses <= set(bound.rows[:, 0].tolist())
    instance.compute()
    whole = network(threads, isa).compile()
    assert whole.cell._drafts is None
    np.testing.assert_equal(whole.run(X), first)


def test_sizes_that_come_later_call_the_kernels(all_drafted: Path) -> None:
    net = network()
    net.run(X)
    wait_for(net)
    one = net.run(X[:1])
    np.testing.assert_equal(network().compile().run(X[:1]), one)
    made = set(drafts_of(net)._made.values())
    for plan in net.cell.plans():
        assert made & set(plan.rows[:, 0].tolist())


def test_a_later_network_finds_the_kernels(all_drafted: Path) -> None:
    net = network()
    net.run(X)
    wait_for(net)
    again = network()
    again.run(X)
    assert not drafts_of(again).left and not drafts_of(again)._made


def test_small_networks_have_no_drafts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loader, "_addresses", {})
    monkeypatch.setenv("NEURALSYM_CACHE_DIR", str(tmp_path))
    net = network()
    net.run(X)
    assert not drafts_of(net).left and not drafts_of(net)._made


def test_what_cannot_be_made_stays_a_draft(
    all_drafted: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> int:
        raise NoKernel("not today")

    monkeypatch.setattr(draft, "compile_one", refuse)
    net = network()
    first = net.run(X)
    wait_for(net)
    np.testing.assert_equal(net.run(X), first)
    assert "stays a draft" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_child_makes_the_rest_and_the_end_is_clean(tmp_path: Path) -> None:
    program = """
import os, sys, time
import numpy as np
from neuralsym import Network, Options
from neuralsym.cpu import draft, loader
from neuralsym.layers import conv2d, fully_connected, get_network, input, relu
draft.LEAST_TEXT = 0
x = np.ones((1, 3, 12, 12), np.float32)
net = input(("N", 3, 12, 12)) | conv2d(29, 3) | relu | fully_connected(29) | get_network("n")
net = Network(net.model, options=Options(threads=1))
first = net.run(x)
drafts = net.cell._drafts
child = os.fork()
if not child:
    end = time.monotonic() + 60
    while drafts.left and time.monotonic() < end:
        time.sleep(0.005)
    same = all((a == b).all() for a, b in zip(net.run(x).values(), first.values()))
    os._exit(0 if same and not drafts.left else 1)
_, status = os.waitpid(child, 0)
print("child", status)
"""
    environment = {**os.environ, "NEURALSYM_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["child", "0"]), done.stderr

"""Compiling under stress: many networks in many threads, forks, interrupts, and ends of processes.

Each case is a process of its own, since what is looked for ends a process or lets it wait for ever.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMON = """
import faulthandler, gc, os, random, signal, sys, threading, time
import numpy as np
from neuralsym import Network, Options
from neuralsym.cpu import draft
from neuralsym.layers import conv2d, fully_connected, get_network, input, relu
draft.LEAST_TEXT = 0  # every kernel is a draft at first
SECONDS = 6
stop = time.monotonic() + SECONDS
wrong = []

def network(draw):
    size = draw.choice([8, 12, 13])
    body = input(("N", 3, size, size))
    body = body | conv2d(draw.randint(3, 64), draw.choice([1, 3, 5])) | relu
    body = body | conv2d(draw.choice([4, 20, 31]), 3) | fully_connected(draw.randint(2, 60))
    options = Options(threads=draw.choice([1, 2]), winograd=draw.random() < 0.7)
    x = np.ones((draw.randint(1, 3), 3, size, size), np.float32)
    return Network((body | get_network("n")).model, options=options), x

def same(a, b):
    return all((a[name] == b[name]).all() for name in a)

def turn(draw):
    net, x = network(draw)
    first = net.run(x)
    if draw.random() < 0.5:
        net.run(x[:1])
    if draw.random() < 0.5:
        net.compile()
        if not same(first, net.run(x)):
            wrong.append("other bits")
    if draw.random() < 0.1:
        gc.collect()
    return net, x, first

def work(number):
    draw = random.Random(number)
    try:
        while time.monotonic() < stop:
            turn(draw)
    except Exception as error:
        wrong.append(repr(error))

def workers(count, **how):
    made = [threading.Thread(target=work, args=(n,), **how) for n in range(count)]
    for thread in made:
        thread.start()
    return made
"""

MANY = """
for thread in workers(4):
    thread.join()
print(wrong)
"""

FORKS = """
others = workers(3)
draw = random.Random(99)
while time.monotonic() < stop:
    net, x, first = turn(draw)
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(60, exit=True)
        good = same(first, net.run(x))
        turn(draw)
        os._exit(0 if good and not wrong else 1)
    if os.waitpid(child, 0)[1]:
        wrong.append("a child failed")
for thread in others:
    thread.join()
print(wrong)
"""

INTERRUPTS = """
others = workers(2)
def interrupt():
    for _ in range(15):
        time.sleep(0.3 * random.random())
        os.kill(os.getpid(), signal.SIGINT)
interrupter = threading.Thread(target=interrupt)
interrupter.start()
while interrupter.is_alive():
    try:
        work(99)
    except KeyboardInterrupt:
        pass
for thread in (interrupter, *others):
    thread.join()
print(wrong)
"""

END = """
workers(3, daemon={daemon})
time.sleep(1)
stop = time.monotonic()
print(wrong)
"""


def run(program: str, cache: str) -> None:
    environment = {**os.environ, "NEURALSYM_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", COMMON + program],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["off", "kept", "read-only"])
def test_many_networks_in_many_threads(cache: str, tmp_path: Path) -> None:
    if cache == "read-only":
        tmp_path.chmod(0o500)
    run(MANY, "off" if cache == "off" else str(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_forks_while_others_compile(tmp_path: Path) -> None:
    run(FORKS, str(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="interrupts are sent by kill")
def test_interrupts_while_compiling() -> None:
    run(INTERRUPTS, "off")


@pytest.mark.slow
@pytest.mark.parametrize("daemon", [False, True])
def test_the_process_ends_while_threads_compile(daemon: bool) -> None:
    run(END.format(daemon=daemon), "off")

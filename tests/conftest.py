"""What all tests share: random numbers, a kernel cache of their own, golden files, the order."""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

CACHE_VARIABLE = "NEURALSYM_CACHE_DIR"
GOLDEN = Path(__file__).parent / "golden"

# The default run tries the same examples everywhere; --hypothesis-profile=explore tries new ones.
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.register_profile("neuralsym", deadline=None, derandomize=True)
settings.load_profile("neuralsym")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("neuralsym")
    group.addoption(
        "--update-golden",
        action="store_true",
        help="write what the tests got into tests/golden instead of comparing with it",
    )
    group.addoption(
        "--kernel-cache",
        metavar="DIR",
        help="keep compiled kernels in DIR between runs (default: an empty one for each run)",
    )


def pytest_configure(config: pytest.Config) -> None:
    # The variable is set for subprocesses too; workers of a parallel run inherit the first one's.
    if hasattr(config, "workerinput"):
        return
    kept = config.getoption("--kernel-cache")
    if kept:
        cache = Path(kept).resolve()
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    else:
        cache = Path(tempfile.mkdtemp(prefix="neuralsym-tests-"))
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(cache)

    def restore() -> None:
        if before is None:
            os.environ.pop(CACHE_VARIABLE, None)
        else:
            os.environ[CACHE_VARIABLE] = before
        if not kept:
            shutil.rmtree(cache, ignore_errors=True)

    config.add_cleanup(restore)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def is_later(item: pytest.Item) -> bool:
        smoke = item.get_closest_marker("smoke") is not None
        return not (smoke or item.path.name == "test_tiny.py")

    items.sort(key=is_later)  # stable: the order within each half stays


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that are the same in every run and differ from test to test."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(scope="session")
def cache_dir() -> Path:
    """The directory of compiled kernels that all tests of this run share."""
    return Path(os.environ[CACHE_VARIABLE])


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("passes/fold.txt", text)` compares text with that file under tests/golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        text = text if text.endswith("\n") else text + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists():
            pytest.fail(f"no golden file {name}; look at the text, then run with --update-golden")
        else:
            assert text == path.read_text(encoding="utf-8"), f"differs from golden file {name}"

    return check

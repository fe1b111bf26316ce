"""The object store: where it lies, what it refuses, damage, and many processes at once."""

from __future__ import annotations

import logging
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from neuralsym.cpu import store as module
from neuralsym.cpu.store import Store, candidates, refusal

KEY = "a" * 40


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_an_entry_comes_back(place: Path) -> None:
    store = Store.of(str(place))
    assert store.path == place
    assert store.get(KEY) is None
    assert store.put(KEY, b"object")
    assert store.get(KEY) == b"object"
    assert store.get(KEY, "plan") is None
    assert Store.of(str(place)) is store


def test_the_directory_is_private(place: Path) -> None:
    Store.of(str(place))
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize("keep", [0, 5, 20, 45, -1])
def test_a_shortened_entry_counts_as_missing(place: Path, keep: int) -> None:
    store = Store.of(str(place))
    store.put(KEY, b"some object code")
    file = place / f"{KEY}.o"
    file.write_bytes(file.read_bytes()[:keep])
    assert store.get(KEY) is None
    assert store.put(KEY, b"some object code")
    assert store.get(KEY) == b"some object code"


def test_a_changed_byte_counts_as_missing(place: Path) -> None:
    store = Store.of(str(place))
    store.put(KEY, b"some object code")
    file = place / f"{KEY}.o"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    assert store.get(KEY) is None


def test_info_and_clear(place: Path) -> None:
    store = Store.of(str(place))
    for number in range(3):
        store.put(f"{number:040d}", b"x" * 100)
    (place / ".left.by.a.killed.writer.tmp").write_bytes(b"")
    (place / "notes.txt").write_text("not ours")
    path, entries, size = store.info()
    assert (path, entries) == (str(place), 3)
    assert 300 < size < 600
    assert store.clear() == 3
    assert store.info() == (str(place), 0, 0)
    assert [file.name for file in place.iterdir()] == ["notes.txt"]


def test_a_key_cannot_lead_out_of_the_directory(place: Path) -> None:
    with pytest.raises(ValueError):
        Store.of(str(place)).get("../secret")


# -- which directory -------------------------------------------------------------------------
def test_the_order_of_the_candidates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    environment = {
        "NEURALSYM_CACHE_DIR": "/one",
        "NUMBA_CACHE_DIR": "/two",
        "XDG_CACHE_HOME": "/three",
    }
    named = candidates("/zero", environment)
    assert [str(p) for p in named[:4]] == ["/zero", "/one", "/two/neuralsym", "/three/neuralsym"]
    assert str(os.getuid()) in named[4].name
    assert candidates(None, {})[0] == tmp_path / "home/.cache/neuralsym"
    assert candidates(None, {"XDG_CACHE_HOME": "relative"})[0].is_relative_to(tmp_path / "home")


@pytest.mark.parametrize("off", ["", "off"])
def test_switched_off(off: str, caplog: pytest.LogCaptureFixture) -> None:
    assert candidates(None, {"NEURALSYM_CACHE_DIR": off, "NUMBA_CACHE_DIR": "/two"}) == ()
    with caplog.at_level(logging.INFO):
        store = Store.of("off")
    assert store.path is None
    assert not store.put(KEY, b"object")
    assert store.get(KEY) is None
    assert store.info() == (None, 0, 0)
    assert store.clear() == 0
    assert not caplog.records


def test_others_may_not_write(place: Path) -> None:
    place.mkdir(mode=0o700)
    place.chmod(0o770)
    assert "chmod 700" in str(refusal(place))
    place.chmod(0o755)
    assert refusal(place) is None


def test_another_users_directory_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    assert f"belongs to user {place.stat().st_uid}" in str(refusal(place))


def test_another_users_link_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aim = place.with_name("aim")
    aim.mkdir(mode=0o700)
    place.symlink_to(aim)
    assert refusal(place) is None
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        state = list(real(path))
        state[stat.ST_UID] = 12345
        return os.stat_result(state)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert refusal(place) == "it belongs to user 12345"


def test_the_next_candidate_is_taken(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a directory should be")
    monkeypatch.setenv("NEURALSYM_CACHE_DIR", str(place))
    with caplog.at_level(logging.INFO, "neuralsym"):
        store = Store.of(str(blocked / "cache"))
    assert store.path == place
    assert str(blocked) in caplog.text


def test_without_any_directory_one_line_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "refusal", lambda place: "read-only file system")
    with caplog.at_level(logging.WARNING, "neuralsym"):
        store = Store.of("/nowhere/at/all")
        Store.of("/nowhere/at/all")
    assert store.path is None
    assert len(caplog.records) == 1
    assert "NEURALSYM_CACHE_DIR" in caplog.text


def test_a_full_disk_is_no_error(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store.of(str(place))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with caplog.at_level(logging.WARNING, "neuralsym"):
        assert not store.put(KEY, b"object")
        assert not store.put(KEY, b"object")
    assert len(caplog.records) == 1
    assert list(place.iterdir()) == []


def test_a_directory_that_has_gone_is_no_error(place: Path) -> None:
    store = Store.of(str(place))
    place.rmdir()
    assert not store.put(KEY, b"object")
    assert store.get(KEY) is None
    assert store.info() == (str(place), 0, 0)


# -- many processes --------------------------------------------------------------------------
def _hammer(path: str, barrier: object, number: int) -> bool:
    store = Store(Path(path))
    content = [bytes([letter]) * 50_000 for letter in range(4)]
    barrier.wait()  # type: ignore[attr-defined]
    for turn in range(60):
        store.put(KEY, content[(turn + number) % 4])
        if store.get(KEY) not in content:
            return False
    return True


def test_processes_that_write_the_same_entry(place: Path) -> None:
    Store.of(str(place))
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(2) as pool:
        barrier = manager.Barrier(2)
        assert all(pool.starmap(_hammer, [(str(place), barrier, n) for n in range(2)]))
    assert [file.name for file in place.iterdir()] == [f"{KEY}.o"]

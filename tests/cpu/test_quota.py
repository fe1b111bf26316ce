"""The default number of threads: affinity, control groups of both versions, the setting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from neuralsym.cpu.quota import cpu_quota, default_threads
from neuralsym.errors import BadAttribute


def files(root: Path, content: dict[str, str]) -> None:
    for name, text in content.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


QUOTAS: list[tuple[str, dict[str, str], float | None]] = [
    ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n"}, 1.5),
    ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n"}, 0.5),
    ("0::/a/b\n", {"a/b/cpu.max": "100000 100000", "a/cpu.max": "300000 100000"}, 1.0),
    ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n"}, None),
    ("0::/not/there\n", {"cpu.max": "200000 100000\n"}, 2.0),
    ("0::/../escaped\n", {"cpu.max": "200000 100000\n"}, 2.0),
    ("0::/\n", {}, None),
    (
        "12:pids:/x\n4:cpu,cpuacct:/docker/1\n",
        {
            "cpu,cpuacct/docker/1/cpu.cfs_quota_us": "250000\n",
            "cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000\n",
        },
        2.5,
    ),
    (
        "4:cpu:/docker/1\n",
        {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
        None,
    ),
    ("0::/a\n", {"a/cpu.max": "nonsense\n"}, None),
    ("3:cpuset:/a\n", {"cpuset/a/cpu.max": "100000 100000\n"}, None),
]


@pytest.mark.parametrize(("groups", "content", "quota"), QUOTAS)
def test_quotas(tmp_path: Path, groups: str, content: dict[str, str], quota: float | None) -> None:
    files(tmp_path, {"proc": groups, **{f"mount/{name}": text for name, text in content.items()}})
    assert cpu_quota(tmp_path / "proc", tmp_path / "mount") == quota


def test_no_control_groups(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "proc", tmp_path / "mount") is None


def test_the_default_is_what_affinity_and_quota_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    for quota, count in ((None, 8), (2.5, 3), (0.2, 1), (64.0, 8)):
        monkeypatch.setattr("neuralsym.cpu.quota.cpu_quota", lambda quota=quota: quota)
        assert default_threads({}) == count
        assert default_threads({"NEURALSYM_NUM_THREADS": "5"}) == 5


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "²", "4097", "9" * 5000])
def test_a_bad_setting(text: str) -> None:
    with pytest.raises(BadAttribute, match="NEURALSYM_NUM_THREADS must be a positive integer"):
        default_threads({"NEURALSYM_NUM_THREADS": text})

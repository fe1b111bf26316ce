"""How many threads a process should use: its own setting, its affinity, its container's quota."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

from neuralsym.errors import BadAttribute

MOST_THREADS = 4096
"""More than any machine has; each costs memory."""


def default_threads(environment: Mapping[str, str] | None = None) -> int:
    """NEURALSYM_NUM_THREADS, else what the affinity and the container's CPU quota allow.

    BadAttribute if the variable is set to something other than a positive integer, or over 4096.
    """
    environment = os.environ if environment is None else environment
    setting = environment.get("NEURALSYM_NUM_THREADS", "").strip()
    if setting:
        plain = setting.isascii() and setting.isdigit() and len(setting) < 10
        if not plain or not 1 <= int(setting) <= MOST_THREADS:
            raise BadAttribute(
                f"NEURALSYM_NUM_THREADS must be a positive integer up to {MOST_THREADS}, not "
                f"{setting!r}; unset it to use what the machine allows"
            )
        return int(setting)
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return count if quota is None else max(1, min(count, math.ceil(quota)))


def cpu_quota(
    groups: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> float | None:
    """The CPUs that the process's control groups (version 1 or 2) grant, or None without a limit.

    The limit of a group holds for all below it, so the least of the group and its ancestors
    counts. Inside a container the group's own path may not exist under the mount; then the
    mount's root is the group.
    """
    try:
        lines = groups.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    quotas: list[float] = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            roots = [mount, mount / "unified"]
            read = _quota_v2
        elif "cpu" in controllers.split(","):
            roots = [mount / controllers, mount / "cpu"]
            read = _quota_v1
        else:
            continue
        for root in roots:
            place = root / path.strip("/")
            # Not resolved: ".." in a path would lead out of the mount.
            if ".." in place.parts:
                place = root
            for group in (place, *place.parents):
                found = read(group)
                if found is not None:
                    quotas.append(found)
                if group == root:
                    break
    return min(quotas, default=None)


def _quota_v2(group: Path) -> float | None:
    words = _words(group / "cpu.max")
    if len(words) != 2 or words[0] == "max":
        return None
    return _ratio(words[0], words[1])


def _quota_v1(group: Path) -> float | None:
    quota, period = _words(group / "cpu.cfs_quota_us"), _words(group / "cpu.cfs_period_us")
    if len(quota) != 1 or len(period) != 1:
        return None
    return _ratio(quota[0], period[0])


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        return []


def _ratio(quota: str, period: str) -> float | None:
    """quota / period in CPUs; None for -1, which means no limit, or nonsense."""
    try:
        above, below = float(quota), float(period)
    except ValueError:
        return None
    return above / below if above > 0 and below > 0 else None

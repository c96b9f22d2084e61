"""Holding a task to its memory by the kernel's means: a cgroup where one can be made, else RLIMIT_DATA."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MIN_MEMORY = 32 * 1024 * 1024
"""Mesos' floor, in bytes: no task is held to less."""

_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """How memory is limited. ``base``: the cgroup below which each task gets its own, None: RLIMIT_DATA."""

    base: Path | None
    limit_file: str = ""

    def apply(self, container_id: str, size: int) -> tuple[str | None, int | None]:
        """Prepare a limit of ``size`` bytes; return the cgroup's path, or the bytes for RLIMIT_DATA."""
        size = max(size, MIN_MEMORY)
        if self.base is None:
            return None, size
        group = self.base / container_id
        try:
            group.mkdir()
            (group / self.limit_file).write_text(str(size))
        except OSError:
            return None, size
        for name, value in (("memory.swap.max", "0"), ("memory.memsw.limit_in_bytes", str(size))):
            try:
                (group / name).write_text(value)
            except OSError:
                continue  # no swap accounting here: the limit itself stands
        return str(group), None

    def close(self) -> None:
        """Remove the agent's own cgroup, unless tasks still run in it."""
        if self.base is not None:
            try:
                self.base.rmdir()
            except OSError:
                return


def _own_groups() -> list[tuple[Path, str]]:
    """Return the memory cgroup of this process, with the name of its limit file, for either version."""
    found = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            found.append((_ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes"))
        elif not controllers:
            found.append((_ROOT / path.lstrip("/"), "memory.max"))
    return found


def detect(allowed: bool) -> MemoryLimits:
    """Find out what this process may use."""
    for own, limit_file in _own_groups() if allowed else ():
        base = own / f"peloton-agent-{os.getpid()}"
        try:
            base.mkdir()
        except OSError:
            continue
        if _works(base, limit_file):
            return MemoryLimits(base, limit_file)
        base.rmdir()
    return MemoryLimits(None)


def _works(base: Path, limit_file: str) -> bool:
    probe = base / "probe"
    try:
        if limit_file == "memory.max":
            (base / "cgroup.subtree_control").write_text("+memory")
        probe.mkdir()
    except OSError:
        return False
    try:
        (probe / limit_file).write_text(str(MIN_MEMORY))
    except OSError:
        return False
    finally:
        probe.rmdir()
    return True

"""Holding a task to its memory by the kernel's means: a cgroup where one can be made, else RLIMIT_DATA."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from minicluster.mesos.agent.layout import Layout

MIN_MEMORY = 32 * 1024 * 1024
"""Mesos' floor, in bytes: no task is held to less."""

_SWAP = {"memory.max": ("memory.swap.max", "0"), "memory.limit_in_bytes": ("memory.memsw.limit_in_bytes", "")}
"""Which file keeps a group from swap, and what to write to it; empty: the limit."""
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
        group = f"{self.base}/{container_id}"
        try:
            with contextlib.suppress(FileExistsError):  # of an earlier attempt
                os.mkdir(group)  # noqa: PTH102 - a Path costs as much as the call
            _write(f"{group}/{self.limit_file}", str(size))
        except OSError:
            return None, size
        name, value = _SWAP[self.limit_file]
        with contextlib.suppress(OSError):  # no swap accounting here: the limit itself stands
            _write(f"{group}/{name}", value or str(size))
        return group, None


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _own_groups() -> list[tuple[Path, str]]:
    """Return the memory cgroups of this process that there are, each with the name of its limit file."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            found.append((_ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes"))
        elif not controllers:
            found.append((_ROOT / path.lstrip("/"), "memory.max"))
    return [(group, name) for group, name in found if (group / "cgroup.procs").exists()]


def detect(layout: Layout, allowed: bool) -> MemoryLimits:
    """Find out what this process may use; a cgroup made for it is noted in ``meta/cgroup``."""
    name = hashlib.sha256(str(layout.work_dir).encode()).hexdigest()[:16]
    for own, limit_file in _own_groups() if allowed else ():
        base = own / f"peloton-agent-{name}"
        try:
            base.mkdir(exist_ok=True)
        except OSError:
            continue
        layout.cgroup_file.write_text(str(base))
        if _works(base, limit_file):
            return MemoryLimits(base, limit_file)
        remove_cgroup(layout)
    return MemoryLimits(None)


def _works(base: Path, limit_file: str) -> bool:
    probe = base / "probe"
    try:
        if limit_file == "memory.max":
            (base / "cgroup.subtree_control").write_text("+memory")
        probe.mkdir(exist_ok=True)
        (probe / limit_file).write_text(str(MIN_MEMORY))
        probe.rmdir()
    except OSError:
        return False
    return True


def remove_cgroup(layout: Layout) -> None:
    """Remove the agent's cgroup with all in it that hold no process any more."""
    if not layout.cgroup_file.exists():
        return
    base = Path(layout.cgroup_file.read_text())
    inside = [path for path in base.iterdir() if path.is_dir()] if base.is_dir() else []
    for group in (*inside, base):
        with contextlib.suppress(OSError):
            group.rmdir()
    layout.cgroup_file.unlink()

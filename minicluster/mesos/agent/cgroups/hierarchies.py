"""Where the kernel has the control groups of a process: /proc/self/cgroup and /proc/self/mountinfo, read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

CONTROLLERS = ("memory", "cpu", "cpuacct", "pids")
"""Those that limit tasks, and account for what they use."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class OwnGroup:
    """The group of a process in a hierarchy. ``controllers``: those of `CONTROLLERS` that it may have."""

    path: Path
    version: int
    controllers: frozenset[str]


def own_groups(cgroup: str, mountinfo: str) -> tuple[OwnGroup, ...]:
    """Return the groups of a process where they are mounted; of version 2, with all controllers.

    Whether a group of version 2 has them is up to its ancestors.
    """
    mounts = _mounts(mountinfo)
    found = []
    for line in cgroup.splitlines():
        _, names, path = line.split(":", 2)
        version = 1 if names else 2
        controllers = frozenset(names.split(",") if names else CONTROLLERS).intersection(CONTROLLERS)
        place = next((_below(mount, path) for mount in mounts if mount.holds(version, controllers)), None)
        if controllers and place is not None:
            found.append(OwnGroup(place, version, controllers))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Mount:
    """``root`` of a hierarchy is mounted at ``point``."""

    root: str
    point: str
    version: int
    options: frozenset[str]

    def holds(self, version: int, controllers: frozenset[str]) -> bool:
        return self.version == version and (version == 2 or controllers <= self.options)


def _mounts(mountinfo: str) -> list[_Mount]:
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, options = after.split()[0], after.split()[-1]
        if kind in ("cgroup", "cgroup2"):
            root, point = (_unescaped(field) for field in before.split()[3:5])
            found.append(_Mount(root, point, 1 if kind == "cgroup" else 2, frozenset(options.split(","))))
    return found


def _unescaped(field: str) -> str:
    return _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), field)


def _below(mount: _Mount, path: str) -> Path | None:
    """Return where a group is; None where it is not below what is mounted."""
    group, root = PurePosixPath(path), PurePosixPath(mount.root)
    if not group.is_relative_to(root):
        return None
    return Path(mount.point) / group.relative_to(root)

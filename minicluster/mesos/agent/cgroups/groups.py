"""Control groups for the tasks of an agent: made, filled in and removed."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from minicluster.mesos.agent.cgroups.hierarchies import OwnGroup, own_groups
from minicluster.mesos.agent.cgroups.limits import MIN_MEMORY_BYTES, Limits, control_values
from minicluster.mesos.agent.cgroups.usage import Usage, usage_of

_PROBED = Limits(memory=MIN_MEMORY_BYTES, cpus=1000, ceiling=True, pids=1000)
_SUPERVISORS = "supervisors"
"""The group that this process goes to where its own may not have both processes and groups with limits."""
_OOM_EVENTS = {1: "memory.oom_control", 2: "memory.events"}
_PEAKS = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}


@dataclass(frozen=True, slots=True)
class Base:
    """A group below which each task gets its own. ``home``: the group of the agent's other processes."""

    path: str
    home: str
    version: int
    controllers: frozenset[str]

    def group(self, container_id: str) -> str:
        """Return the path of a task's group."""
        return f"{self.path}/{container_id}"


@dataclass(frozen=True, slots=True)
class TaskGroups:
    """The groups of one task: each with the group that its supervisor goes back to.

    ``oom_events`` and ``peak``: the control files of its memory, None where it is not limited by a group.
    """

    groups: tuple[tuple[str, str], ...] = ()
    oom_events: str | None = None
    peak: str | None = None


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The groups that an agent can make; none without ``bases``."""

    bases: tuple[Base, ...] = ()

    @property
    def controllers(self) -> frozenset[str]:
        """The controllers that there are."""
        return frozenset(name for base in self.bases for name in base.controllers)

    def make(self, container_id: str, limits: Limits) -> TaskGroups:
        """Make the groups of a task. Raise OSError, with none of them left."""
        groups, oom_events, peak = [], None, None
        try:
            for base in self.bases:
                path = base.group(container_id)
                with contextlib.suppress(FileExistsError):  # of an earlier attempt
                    os.mkdir(path)  # noqa: PTH102 - a Path costs as much as the call
                groups.append((path, base.home))
                _write_values(path, limits, base)
                if limits.memory and "memory" in base.controllers:
                    oom_events = f"{path}/{_OOM_EVENTS[base.version]}"
                    peak = f"{path}/{_PEAKS[base.version]}"
        except OSError:
            _remove([path for path, _ in groups])
            raise
        return TaskGroups(tuple(groups), oom_events, peak)

    def usage(self, container_id: str) -> Usage:
        """Return what the groups of a task tell; nothing where there are none."""
        return _usage((base.group(container_id), base.version) for base in self.bases)

    def processes(self, container_id: str) -> list[int]:
        """Return the processes in the groups of a task."""
        return _processes([base.group(container_id) for base in self.bases])


@dataclass(frozen=True, slots=True)
class _Reader:
    group: str

    def __call__(self, file: str) -> str | None:
        try:
            with open(f"{self.group}/{file}") as opened:
                return opened.read()
        except OSError:
            return None


@dataclass(frozen=True, slots=True)
class Detected:
    """The groups that can be made here. ``lacks``: why some cannot, by controller."""

    cgroups: Cgroups
    lacks: tuple[tuple[str, str], ...] = ()


def detect(name: str, wanted: frozenset[str], cpus: int, kept: Path) -> Detected:
    """Make groups of a name, and try what can be limited in them.

    ``cpus``: thousandths of CPUs of all tasks together, which is their share beside what else runs here.
    ``kept``: the file that notes, line by line, what was made; it is for `remove_kept`. A hierarchy is used
    where it has a wanted controller, with all others of its own: more of them cost nothing.
    """
    lacks = dict.fromkeys(sorted(wanted), "this machine has no cgroups of it")
    bases = []
    for own in _own():
        offered = own.controllers & wanted
        if not offered or not lacks.keys() & offered:
            continue
        try:
            base = _base(own, name, frozenset(lacks) & offered, kept)
            _write_values(base.path, Limits(cpus=cpus), base)
        except OSError as error:
            lacks |= dict.fromkeys(lacks.keys() & offered, f"{own.path}: {error.strerror}")
            continue
        bases.append(base)
        for controller in base.controllers:
            lacks.pop(controller, None)
    return Detected(Cgroups(tuple(bases)), tuple(lacks.items()))


def processes_in_kept(kept: Path, container_id: str) -> list[int]:
    """Return the processes in the groups of a task, below those that are noted."""
    bases = kept.read_text().splitlines() if kept.exists() else []
    return _processes([f"{base}/{container_id}" for base in bases])


def usage_beside(pid: int) -> tuple[Usage, list[int]]:
    """Return what the groups of a process tell, which somebody else has made, and the processes in them."""
    try:
        found = own_groups(Path(f"/proc/{pid}/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    except OSError:
        return Usage(), []
    groups = [(str(each.path), each.version) for each in found]
    return _usage(groups), _processes([path for path, _ in groups[:1]])


def _usage(groups: Iterable[tuple[str, int]]) -> Usage:
    """Return what groups tell together, each given with its version."""
    found = Usage()
    for path, version in groups:
        part = usage_of(_Reader(path), version)
        known = {name: value for name in part.__slots__ if (value := getattr(part, name)) is not None}
        found = replace(found, **known)
    return found


def _processes(groups: Sequence[str]) -> list[int]:
    listed = (_Reader(group)("cgroup.procs") or "" for group in groups)
    return sorted({int(pid) for text in listed for pid in text.split()})


def remove_kept(kept: Path) -> None:
    """Remove the groups that are noted, and those in them, that hold no process any more."""
    if not kept.exists():
        return
    for base in map(Path, kept.read_text().splitlines()):
        inside = [str(path) for path in base.iterdir() if path.is_dir()] if base.is_dir() else []
        _remove([*inside, str(base)])
    kept.unlink()


def _own() -> Sequence[OwnGroup]:
    try:
        found = own_groups(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    except OSError:
        return ()
    return [_offering(own) for own in found if (own.path / "cgroup.procs").exists()]


def _offering(own: OwnGroup) -> OwnGroup:
    """Return a group of version 2 with the controllers that its ancestors give it."""
    if own.version == 1:
        return own
    there = (own.path / "cgroup.controllers").read_text().split()
    return replace(own, controllers=own.controllers.intersection(there))


def _base(own: OwnGroup, name: str, wanted: frozenset[str], kept: Path) -> Base:
    """Make the group in which tasks have theirs, and one to try it. Raise OSError."""
    base = own.path / f"peloton-agent-{name}"
    base.mkdir(exist_ok=True)
    known = kept.read_text().splitlines() if kept.exists() else []
    if str(base) not in known:
        kept.write_text("".join(f"{line}\n" for line in (*known, base)))
    home = own.path if own.version == 1 else _enable(own, base)
    made = Base(str(base), str(home), own.version, own.controllers)
    _try(made, wanted)
    return made


def _enable(own: OwnGroup, base: Path) -> Path:
    """Give a group of version 2 its controllers; return the group where this process is now.

    A group that gives controllers to those below has no processes, unless it is the root: where this process
    is alone in its group, it moves into one of its own. Raise OSError.
    """
    home, giving = own.path, f"{own.path}/cgroup.subtree_control"
    orders = " ".join(f"+{name}" for name in sorted(own.controllers))
    if not own.controllers <= frozenset(Path(giving).read_text().split()):
        try:
            _write(giving, orders)
        except OSError as error:
            if error.errno != errno.EBUSY or not _alone(own.path):
                raise
            home = base / _SUPERVISORS
            home.mkdir(exist_ok=True)
            _write(f"{home}/cgroup.procs", "0")
            _write(giving, orders)
    _write(f"{base}/cgroup.subtree_control", orders)
    return home


def _alone(group: Path) -> bool:
    return (group / "cgroup.procs").read_text().split() == [str(os.getpid())]


def _try(base: Base, wanted: frozenset[str]) -> None:
    """Make a group with all limits, and remove it. Raise OSError."""
    probe = base.group("probe")
    Path(probe).mkdir(exist_ok=True)
    try:
        _write_values(probe, _PROBED, replace(base, controllers=base.controllers & wanted))
    finally:
        _remove([probe])


def _write_values(group: str, limits: Limits, base: Base) -> None:
    for value in control_values(limits, base.controllers, base.version):
        try:
            _write(f"{group}/{value.file}", value.value)
        except OSError:
            if value.required:
                raise


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _remove(groups: Sequence[str]) -> None:
    for group in groups:
        with contextlib.suppress(OSError):
            os.rmdir(group)  # noqa: PTH106

"""From limits to the values of control files, from control files to usage, and the groups of this machine."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.cgroups import groups
from minicluster.mesos.agent.cgroups.groups import Base, Cgroups, Detected
from minicluster.mesos.agent.cgroups.hierarchies import OwnGroup, own_groups
from minicluster.mesos.agent.cgroups.limits import Limits, control_values, quota, shares, weight
from minicluster.mesos.agent.cgroups.usage import Usage, usage_of
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.task_limits import (
    TaskLimits,
    Wanted,
    detect,
    lacking,
    limits_of,
    remove_cgroups,
)
from minicluster.mesos.common.resource_notation import parse_resources

MB = 1024 * 1024
ALL = ("memory", "cpu", "cpuacct", "pids")


def files(limits: Limits, version: int, controllers: tuple[str, ...] = ALL) -> dict[str, str]:
    return {each.file: each.value for each in control_values(limits, controllers, version)}


def test_values_of_version_1() -> None:
    assert files(Limits(64 * MB, 1500, ceiling=True, pids=40), 1) == {
        "memory.limit_in_bytes": str(64 * MB),
        "memory.memsw.limit_in_bytes": str(64 * MB),
        "cpu.shares": "1536",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "150000",
        "pids.max": "40",
    }


def test_values_of_version_2() -> None:
    assert files(Limits(64 * MB, 1500, ceiling=True, pids=40), 2) == {
        "memory.max": str(64 * MB),
        "memory.swap.max": "0",
        "cpu.weight": "59",
        "cpu.max": "150000 100000",
        "pids.max": "40",
    }


@pytest.mark.parametrize("version", [1, 2])
def test_only_limits_that_are_wanted_and_controllers_that_are_there(version: int) -> None:
    assert files(Limits(), version) == {}
    share = {1: "cpu.shares", 2: "cpu.weight"}[version]
    assert list(files(Limits(MB, 500, pids=3), version, ("cpu",))) == [share]


def test_the_bounds_of_the_kernel_are_kept() -> None:
    assert (shares(1), shares(1000), shares(10_000_000)) == (2, 1024, 262_144)
    assert (weight(1), weight(1000), weight(10_000_000)) == (1, 39, 10_000)
    assert (quota(1), quota(10), quota(2500)) == (1000, 1000, 250_000)


def test_limits_of_a_task() -> None:
    task = mesos.TaskInfo()
    assert limits_of(task, Wanted(ceiling=True, pids=9)) == Limits(0, 0, ceiling=True, pids=9)
    for name, value in (("cpus", 0.25), ("mem", 8), ("mem", 8)):
        task.resources.add(name=name, type=mesos.Value.SCALAR).scalar.value = value
    assert limits_of(task, Wanted()) == Limits(32 * MB, 250)  # Mesos' floor
    task.resources[1].scalar.value = 56
    assert limits_of(task, Wanted()) == Limits(64 * MB, 250)


HYBRID = """\
25 30 0:23 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
26 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
27 25 0:25 /docker/x /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory
28 25 0:26 / /sys/fs/cgroup/systemd rw - cgroup systemd rw,name=systemd
29 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""


def test_groups_of_several_hierarchies_are_found_where_they_are_mounted() -> None:
    cgroup = "9:name=systemd:/user\n4:memory:/docker/x/deep\n1:cpu,cpuacct:/user\n0::/user\n"
    assert own_groups(cgroup, HYBRID) == (
        OwnGroup(Path("/sys/fs/cgroup/mem ory/deep"), 1, frozenset({"memory"})),
        OwnGroup(Path("/sys/fs/cgroup/cpu,cpuacct/user"), 1, frozenset({"cpu", "cpuacct"})),
        OwnGroup(Path("/sys/fs/cgroup/unified/user"), 2, frozenset(ALL)),
    )


def test_a_group_that_is_not_below_what_is_mounted_is_none() -> None:
    assert own_groups("4:memory:/elsewhere\n", HYBRID) == ()
    assert own_groups("5:pids:/\n", HYBRID) == ()


VERSION_1 = {
    "memory.usage_in_bytes": "2000000\n",
    "memory.max_usage_in_bytes": "3000000\n",
    "memory.limit_in_bytes": "33554432\n",
    "memory.stat": "cache 1\nrss 2\ntotal_cache 500000\ntotal_rss 1400000\n",
    "cpuacct.usage_user": "1500000000\n",
    "cpuacct.usage_sys": "250000000\n",
    "cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 2000000000\n",
    "pids.current": "3\n",
}
VERSION_2 = {
    "memory.current": "2000000\n",
    "memory.peak": "3000000\n",
    "memory.max": "33554432\n",
    "memory.stat": "anon 1400000\nfile 500000\nkernel 3\n",
    "cpu.stat": "usage_usec 1750000\nuser_usec 1500000\nsystem_usec 250000\nnr_periods 10\n"
    "nr_throttled 4\nthrottled_usec 2000000\n",
    "pids.current": "3\n",
}


@pytest.mark.parametrize(("version", "control"), [(1, VERSION_1), (2, VERSION_2)])
def test_usage(version: int, control: dict[str, str]) -> None:
    assert usage_of(control.get, version) == Usage(
        memory=2_000_000,
        memory_peak=3_000_000,
        memory_limit=33_554_432,
        anonymous=1_400_000,
        cached=500_000,
        user_seconds=1.5,
        system_seconds=0.25,
        periods=10,
        throttled_periods=4,
        throttled_seconds=2.0,
        processes=3,
    )


@pytest.mark.parametrize("version", [1, 2])
def test_what_no_control_file_tells_is_not_known(version: int) -> None:
    assert usage_of(dict[str, str]().get, version) == Usage()
    assert usage_of({"memory.max": "max\n", "memory.peak": ""}.get, version) == Usage()


def test_parts_of_the_usage_come_from_the_group_of_each_hierarchy(tmp_path: Path) -> None:
    bases = []
    for controller in ("memory", "cpu"):
        group = tmp_path / controller / "c"
        group.mkdir(parents=True)
        for name, text in VERSION_1.items():
            if name.startswith(controller):
                (group / name).write_text(text)
        bases.append(Base(str(group.parent), str(tmp_path), 1, frozenset({controller})))
    found = Cgroups(tuple(bases)).usage("c")
    assert (found.memory, found.user_seconds, found.processes) == (2_000_000, 1.5, None)


def test_what_is_lacking_is_said_with_the_reason() -> None:
    assert lacking(Detected(Cgroups())) == ""
    text = lacking(Detected(Cgroups(), (("cpu", "/x: Read-only file system"), ("memory", "none"))))
    assert text == (
        "the kernel does not hold tasks to what they ask for of CPU (/x: Read-only file system), memory "
        "(none): memory is limited by RLIMIT_DATA, for each process of a task by itself"
    )


def test_without_groups_the_memory_of_each_process_is_limited_and_that_is_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    broken = Cgroups((Base(str(tmp_path / "gone"), str(tmp_path), 1, frozenset({"memory"})),))
    limits = TaskLimits(broken, tell=said.append)
    task = mesos.TaskInfo()
    task.resources.add(name="mem", type=mesos.Value.SCALAR).scalar.value = 64
    for name in ("a", "b"):
        found = limits.apply(task, name)
        assert (found["cgroups"], found["data_limit"], found["oom_events"]) == ((), 64 * MB, None)
    assert len(said) == 1 and "no cgroup can be made for a task" in said[0]


def test_a_group_of_version_2_gives_its_controllers_to_those_below(tmp_path: Path) -> None:
    base = tmp_path / "peloton-agent-x"
    base.mkdir()
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    (base / "cgroup.subtree_control").touch()
    own = OwnGroup(tmp_path, 2, frozenset({"cpu", "memory"}))
    assert groups._enable(own, base) == tmp_path
    for group in (tmp_path, base):
        assert (group / "cgroup.subtree_control").read_text().startswith("+cpu +memory")


@pytest.mark.parametrize("others", [[], [1]])
def test_a_process_alone_in_its_group_of_version_2_moves_out_of_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: list[int]
) -> None:
    base, home = tmp_path / "base", tmp_path / "base" / "supervisors"
    home.mkdir(parents=True)
    for path in (tmp_path / "cgroup.subtree_control", base / "cgroup.subtree_control", home / "cgroup.procs"):
        path.touch()
    (tmp_path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in (os.getpid(), *others)))
    really = groups._write

    def write(path: str, text: str) -> None:
        if path == f"{tmp_path}/cgroup.subtree_control" and not (home / "cgroup.procs").read_text():
            raise OSError(errno.EBUSY, "Device or resource busy")
        really(path, text)

    monkeypatch.setattr(groups, "_write", write)
    own = OwnGroup(tmp_path, 2, frozenset({"cpu"}))
    if others:
        with pytest.raises(OSError, match="busy"):
            groups._enable(own, base)
    else:
        assert groups._enable(own, base) == home
        assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Detected]:
    """The groups that can be made here."""
    layout = Layout(tmp_path)
    layout.make()
    found = detect(layout, Wanted(ceiling=True, pids=50), parse_resources("cpus:4;mem:64"))
    yield found
    made = [Path(base.path) for base in found.cgroups.bases]
    remove_cgroups(layout)
    assert not any(path.exists() for path in made) and not layout.cgroup_file.exists()


def test_the_kernel_takes_the_values_and_accounts_for_the_task(real: Detected) -> None:
    if not {"memory", "cpu", "pids"} <= real.cgroups.controllers:
        pytest.skip(f"no cgroups with limits can be made here: {lacking(real)}")
    (cpu,) = (base for base in real.cgroups.bases if "cpu" in base.controllers)
    share = {1: ("cpu.shares", shares(4000)), 2: ("cpu.weight", weight(4000))}[cpu.version]
    assert (Path(cpu.path) / share[0]).read_text().strip() == str(share[1])
    made = real.cgroups.make("c", Limits(64 * MB, 250, ceiling=True, pids=50))
    joined = "".join(f"echo $$ > {group}/cgroup.procs; " for group, _ in made.groups)
    burn = "x=$(head -c 10000000 /dev/zero | tr '\\0' x); "
    with subprocess.Popen(["sh", "-c", f"{joined}{burn}echo; read _"], stdin=-1, stdout=-1) as task:
        assert task.stdout is not None and task.stdin is not None
        task.stdout.readline()
        found = real.cgroups.usage("c")
        assert task.pid in real.cgroups.processes("c")
        task.stdin.close()
    assert found.memory_limit == 64 * MB and found.processes == 1
    assert found.memory_peak is not None and 10_000_000 <= found.memory_peak <= 64 * MB
    assert found.periods is not None and found.periods > 0
    for group, _ in made.groups:
        Path(group).rmdir()

"""A gang of real processes runs again as one, whoever of it is killed and whoever leads.

An elastic one has the size that there is room for.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.workload import workload_pb2

from .conftest import Harness, wait_for
from .test_maintenance import DOWN, await_all_up, await_state, complete

MEMBERS = 4
LEADERS = ["jobmgr0", "resmgr0", "hostmgr0", "placement0"]
SECONDS = 120
LEAST, MOST = 1, 3
CPUS = 3.0
"""Of the 4 of a host: each has one member."""
Told = tuple[int, int, int]
"""The size, the rank, and the number of lines of the list of members."""


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[Path]:
    """Where each run leaves files that tell when it began and ended, and its process."""
    folder = tmp_path / "marks"
    folder.mkdir()
    yield folder


def create(harness: Harness, marks: Path, policy: int = workload_pb2.GANG_POLICY_RESTART_GANG) -> str:
    """A gang whose members run until the file `done` is there; told by SIGUSR1, each takes a moment."""
    command = (
        f'me="{marks}/$MESOS_TASK_ID"; trap \'sleep 0.3; date +%s%N > "$me.end"; exit 1\' USR1; '
        f'echo $$ > "$me.pid"; date +%s%N > "$me.start"; '
        f'until [ -e "{marks}/done" ]; do sleep 0.1; done; date +%s%N > "$me.end"'
    )
    config = harness.config(command, MEMBERS)
    config.sla.minimumRunningInstances = MEMBERS
    config.workload.gang_policy = policy  # type: ignore[assignment]
    config.defaultConfig.workload.stop_signal = "SIGUSR1"
    return harness.create(config)


def times(marks: Path, what: str) -> dict[int, dict[int, int]]:
    """By number of the run, when each instance began or ended, in nanoseconds."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for mark in marks.glob(f"*.{what}"):
        instance, run = mark.stem.split("-")[-2:]
        if text := mark.read_text():
            found[int(run)][int(instance)] = int(text)
    return found


def of_round(harness: Harness, marks: Path, number: int) -> dict[int, int]:
    """Wait until all members of a round run; return their processes."""
    wait_for(
        lambda: len(times(marks, "pid").get(number, ())) == MEMBERS,
        SECONDS,
        lambda: f"{sorted(marks.iterdir())}",
    )
    return times(marks, "pid")[number]


def test_a_killed_member_makes_the_whole_gang_run_again(harness: Harness, marks: Path) -> None:
    job_id = create(harness, marks)
    for number in (1, 2):
        processes = of_round(harness, marks, number)
        leaders = LEADERS if number == 2 else []
        harness.cluster.kill(leaders)
        os.killpg(os.getpgid(processes[number]), signal.SIGKILL)
        harness.cluster.start(leaders)
    of_round(harness, marks, 3)
    begun, ended = times(marks, "start"), times(marks, "end")
    for number in (1, 2):
        assert min(begun[number + 1].values()) > max(ended[number].values()), f"{begun} {ended}"
        assert len(ended[number]) == MEMBERS - 1, "all but the one that was killed have had their signal"
    tasks = harness.tasks(job_id)
    assert sum(task.runtime.failureCount for task in tasks.values()) == 2, "one failure for each round"
    (marks / "done").touch()
    runtime = harness.ended(job_id, SECONDS)
    assert runtime.state == job_pb2.SUCCEEDED, runtime
    assert set(times(marks, "start")) == {1, 2, 3}


def test_a_gang_that_is_to_fail_ends_with_its_member(harness: Harness, marks: Path) -> None:
    job_id = create(harness, marks, workload_pb2.GANG_POLICY_FAIL)
    os.killpg(os.getpgid(of_round(harness, marks, 1)[2]), signal.SIGKILL)
    runtime = harness.ended(job_id, SECONDS)
    assert runtime.state == job_pb2.FAILED, runtime
    assert dict(runtime.taskStats) == {"FAILED": 1, "KILLED": MEMBERS - 1}
    assert harness.tasks(job_id)[0].runtime.message.startswith("its gang ends with instance 2, FAILED")
    assert set(times(marks, "start")) == {1}


def create_elastic(harness: Harness, marks: Path) -> str:
    """A gang whose members run until the file `done` is there."""
    command = (
        'told="$PELOTON_SIZE $PELOTON_RANK $(grep -c : "$PELOTON_MEMBERS_FILE")"; '
        f'echo "$told" > "{marks}/$MESOS_TASK_ID"; '
        f'until [ -e "{marks}/done" ]; do sleep 0.1; done'
    )
    config = harness.config(command, MOST)
    config.sla.minimumRunningInstances = LEAST
    config.workload.elastic.growth_interval_seconds = 1
    config.defaultConfig.resource.cpuLimit = CPUS
    config.defaultConfig.ports.add(name="meet", envName="MEET")
    config.defaultConfig.restartPolicy.maxFailures = 0
    return harness.create(config)


def rounds(marks: Path) -> dict[int, list[Told]]:
    """What the members of each round were told."""
    found: dict[int, list[Told]] = defaultdict(list)
    for mark in marks.glob("*-*"):
        if told := mark.read_text().split():
            size, rank, lines = map(int, told)
            found[int(mark.name.rpartition("-")[2])].append((size, rank, lines))
    return found


def await_size(harness: Harness, job: str, marks: Path, size: int) -> None:
    """Wait until the newest round has this number of members, all of which run and know of each other."""
    expected = [(size, rank, size) for rank in range(size)]

    def has_it() -> bool:
        found = rounds(marks)
        return bool(found) and sorted(found[max(found)]) == expected

    wait_for(has_it, SECONDS, lambda: f"not {size}: {dict(rounds(marks))} {harness.tasks(job)}")
    told = f"elastic gang: {size} {'member' if size == 1 else 'members'} on hosts, of {LEAST} to {MOST}"
    wait_for(lambda: harness.runtime(job).reason == told, SECONDS, lambda: harness.runtime(job).reason)


def test_a_gang_starts_small_grows_shrinks_with_a_drained_host_and_grows_again(
    harness: Harness, marks: Path
) -> None:
    await_all_up(harness)
    other = harness.config("exec sleep 600")
    other.defaultConfig.resource.cpuLimit = CPUS
    blocker = harness.create(other)
    harness.running(blocker)
    job = create_elastic(harness, marks)
    await_size(harness, job, marks, 2)
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=blocker)), timeout=30)
    await_size(harness, job, marks, MOST)
    drained = harness.tasks(job)[0].runtime.host
    request = host_svc_pb2.StartMaintenanceRequest(hostnames=[drained])
    harness.client.host_svc.StartMaintenance(request, timeout=30)
    await_size(harness, job, marks, 2)
    await_state(harness, drained, DOWN)
    complete(harness, drained)
    await_size(harness, job, marks, MOST)
    (marks / "done").touch()
    assert harness.ended(job, SECONDS).state == job_pb2.SUCCEEDED
    assert not any(task.runtime.failureCount for task in harness.tasks(job).values())
    for number, told in rounds(marks).items():
        assert len({size for size, _, _ in told}) == 1, f"round {number}: {told}"


def addresses(mark: Path) -> list[str]:
    """Return the list of members that a living member has now, in its own file."""
    return Path(mark.read_text().strip()).read_text().split() if mark.exists() else []


def test_a_gang_grows_and_shrinks_while_its_members_go_on(harness: Harness, marks: Path) -> None:
    """They learn who joins and leaves by their files, which `peloton job members` keeps current."""
    await_all_up(harness)
    other = harness.config("exec sleep 600")
    other.defaultConfig.resource.cpuLimit = CPUS
    blocker = harness.create(other)
    harness.running(blocker)
    command = (
        f'echo "$PELOTON_MEMBERS_FILE" > "{marks}/$MESOS_TASK_ID"; '
        f'"{sys.executable}" -m peloton.cli job members "$PELOTON_JOB_ID" --follow --interval 1s '
        '--file "$PELOTON_MEMBERS_FILE" & '
        f'until [ -e "{marks}/done" ]; do sleep 0.1; done; kill $!'
    )
    config = harness.config(command, MOST)
    config.sla.minimumRunningInstances = LEAST
    config.workload.elastic.SetInParent()
    config.workload.gang_policy = workload_pb2.GANG_POLICY_RESTART_MEMBER
    config.defaultConfig.workload.token = True
    config.defaultConfig.resource.cpuLimit = CPUS
    config.defaultConfig.ports.add(name="meet", envName="MEET")
    config.defaultConfig.restartPolicy.maxFailures = 0
    job = harness.create(config)
    first = marks / f"{job}-0-1"

    def await_members(count: int, why: str) -> None:
        wait_for(
            lambda: sum(each != "-" for each in addresses(first)) == count,
            SECONDS,
            lambda: f"{why}: {addresses(first)} {harness.tasks(job)}",
        )
        assert len(addresses(first)) == MOST

    await_members(2, "begins with what fits")
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=blocker)), timeout=30)
    await_members(MOST, "grows")
    tasks = harness.tasks(job)
    drained = tasks[MOST - 1].runtime.host
    request = host_svc_pb2.StartMaintenanceRequest(hostnames=[drained])
    harness.client.host_svc.StartMaintenance(request, timeout=30)
    await_members(MOST - 1, "shrinks")
    assert addresses(first)[MOST - 1] == "-", "the others keep their places"
    await_state(harness, drained, DOWN)
    complete(harness, drained)
    await_members(MOST, "grows again")
    (marks / "done").touch()
    assert harness.ended(job, SECONDS).state == job_pb2.SUCCEEDED
    runs = {number: task.runtime.mesosTaskId.value for number, task in harness.tasks(job).items()}
    expected = {number: f"{job}-{number}-{2 if number == MOST - 1 else 1}" for number in range(MOST)}
    assert runs == expected, "nobody but the member of the drained host has run again"

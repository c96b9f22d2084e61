"""Real processes find each other by what they are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.workload import workload_pb2

from .conftest import Harness, wait_for

SECONDS = 120
MEMBERS = 16


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[Path]:
    """Where runs leave what they were told, and that they began."""
    folder = tmp_path / "marks"
    folder.mkdir()
    yield folder


def test_all_members_of_a_gang_know_each_other_and_run_at_once(harness: Harness, marks: Path) -> None:
    command = (
        f'touch "{marks}/$RANK.start"; '
        f'echo "$MASTER_ADDR:$MASTER_PORT $WORLD_SIZE $MEET" > "{marks}/$RANK.told"; '
        f'cp "$PELOTON_MEMBERS_FILE" "{marks}/$RANK.members"; '
        f'until [ "$(ls "{marks}" | grep -c start)" = {MEMBERS} ]; do sleep 0.1; done'  # all run at once
    )
    config = harness.config(command, MEMBERS)
    config.sla.minimumRunningInstances = MEMBERS
    config.workload.framework = workload_pb2.FRAMEWORK_TORCH
    config.defaultConfig.resource.cpuLimit = 0.1
    config.defaultConfig.ports.add(name="meet", envName="MEET")
    job = harness.create(config)
    assert harness.ended(job, SECONDS).state == job_pb2.SUCCEEDED
    lists = {(marks / f"{rank}.members").read_text() for rank in range(MEMBERS)}
    assert len(lists) == 1
    members = lists.pop().split()
    assert len(set(members)) == MEMBERS
    for rank, address in enumerate(members):
        first, size, port = (marks / f"{rank}.told").read_text().split()
        assert (first, size) == (members[0], str(MEMBERS))
        assert address == f"127.0.0.1:{port}"


def test_a_worker_starts_when_its_controller_has_a_host_and_says_why_it_waits(
    harness: Harness, marks: Path
) -> None:
    command = f'echo "$MEET $PELOTON_PEER_ADDRESS" > "{marks}/$PELOTON_INSTANCE_ID"; sleep 2'
    config = harness.config(command, 3)
    config.defaultConfig.ports.add(name="meet", envName="MEET")
    config.defaultConfig.workload.peer.instance = 0
    config.instanceConfig[0].resource.CopyFrom(config.defaultConfig.resource)
    config.instanceConfig[0].resource.cpuLimit = 1000
    blocked = harness.create(config)
    reason = "waits until instance 0, whose address it needs, has a host: it is PENDING"

    def told() -> str:
        tasks = harness.tasks(blocked)
        return tasks[1].runtime.reason if 1 in tasks else ""

    wait_for(lambda: told() == reason, SECONDS, told)
    assert not list(marks.iterdir())
    config.instanceConfig[0].resource.cpuLimit = 0.1
    job = harness.create(config)
    assert harness.ended(job, SECONDS).state == job_pb2.SUCCEEDED
    found = {instance: (marks / str(instance)).read_text().split() for instance in range(3)}
    assert {address for _, address in found.values()} == {f"127.0.0.1:{found[0][0]}"}

"""What is shown of the time before leaders that were killed: usage of jobs and hosts, and events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from minicluster.settings import DaemonSettings
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.private.hostmgr.history import history_pb2
from peloton.private.hostmgr.sampling import sampling_pb2
from peloton.private.jobmgr.usage import usage_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2

from .conftest import Harness, harness_of, wait_for

LEADERS = ("jobmgr0", "resmgr0", "hostmgr0")
KINDS = {"jobs", "hosts", "preemptions", "changes"}
BUSY = "while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Twelve cores, all reserved for the pool /test."""
    quick = DaemonSettings(
        hostmgr={"usage": {"interval": 1}},
        jobmgr={"usage": {"interval": 1}},
        resmgr={"preemption": {"period": 0.5, "strikes": 2}},
    )
    with harness_of(tmp_path_factory, settings=quick) as held:
        yield held


class Seen(NamedTuple):
    """When what is known of a job and of a host begins, gangs that were preempted, changes of a host."""

    job: float
    host: float
    preempted: int
    changes: list[str]


def borrowed(harness: Harness) -> str:
    """A job of another pool that takes what /test has and does not need."""
    parent = respool_pb2.ResourcePoolConfig(name="borrower")
    parent.parent.value = "root"
    for kind in ("cpu", "memory", "disk"):
        parent.resources.add(kind=kind, limit=1e6, share=1)
    answer = harness.client.respool_svc.CreateResourcePool(
        respool_pb2.CreateRequest(config=parent), timeout=60
    )
    assert not answer.HasField("error"), answer
    config = harness.config("sleep 600", 5)
    config.defaultConfig.resource.cpuLimit = 2
    config.respoolID.value = answer.result.value
    return harness.create(config)


def seen(harness: Harness, job_id: str, host: str, drained: str) -> Seen:
    client = harness.client
    account = usage_pb2.GetJobAccountRequest()
    account.job_id.value = job_id
    of_job = client.usage_svc.GetJobAccount(account, timeout=30)
    used = sampling_pb2.ListHostsRequest(hostnames=[host], with_course=True)
    hosts = client.sampling_svc.ListHosts(used, timeout=30).hosts
    gangs = client.monitoring_svc.GetPreemptions(
        monitoring_pb2.GetPreemptionsRequest(limit=100), timeout=30
    ).preemptions
    of_host = client.host_history_svc.GetHistory(history_pb2.GetHistoryRequest(hostname=drained), timeout=30)
    # Read after it: the host goes on changing meanwhile.
    listed = client.host_history_svc.ListChanges(history_pb2.ListChangesRequest(), timeout=30).changes
    assert {each.change.after for each in listed if each.hostname == drained} >= {
        each.after for each in of_host.changes
    }
    return Seen(
        of_job.course_begin if any(each.used_cores > 0 for each in of_job.course) else 0.0,
        hosts[0].course_begin if hosts and any(each.cores > 0 for each in hosts[0].course) else 0.0,
        len(gangs),
        [each.after for each in of_host.changes],
    )


def stored(harness: Harness) -> set[str]:
    """The kinds of which the store has blocks: the first words of their scopes."""
    with closing(sqlite3.connect(f"file:{harness.cluster.layout.database}?mode=ro", uri=True)) as database:
        return {scope.split()[0] for (scope,) in database.execute("SELECT DISTINCT scope FROM history")}


def others(harness: Harness, host: str) -> str:
    """A host that is not this one."""
    answer = harness.client.host_svc.QueryHosts(host_svc_pb2.QueryHostsRequest(), timeout=30)
    return next(str(each.hostname) for each in answer.host_infos if each.hostname != host)


def test_leaders_that_were_killed_left_their_history(harness: Harness) -> None:
    busy = harness.create(harness.config(BUSY))
    host = harness.running(busy).host
    lent = borrowed(harness)
    wait_for(
        lambda: sum(task.runtime.state == task_pb2.RUNNING for task in harness.tasks(lent).values()) == 5, 60
    )
    claims = harness.config("sleep 600", 5)
    claims.defaultConfig.resource.cpuLimit = 2
    harness.create(claims)
    drained = others(harness, host)
    maintenance = host_svc_pb2.StartMaintenanceRequest(hostnames=[drained])
    harness.client.host_svc.StartMaintenance(maintenance, timeout=30)
    found = seen(harness, busy, host, drained)

    def complete() -> bool:
        nonlocal found
        found = seen(harness, busy, host, drained)
        return bool(found.job and found.host and found.preempted and "DRAINING" in found.changes)

    wait_for(complete, 90, lambda: str(found))
    before = found
    wait_for(lambda: stored(harness) >= KINDS, 60, lambda: str(stored(harness)))
    for leader in LEADERS:
        harness.cluster.kill([leader])
    for leader in LEADERS:
        harness.cluster.start([leader])
    wait_for(complete, 90, lambda: f"{before}, then {found}")
    assert found.job == pytest.approx(before.job, abs=1)
    assert found.host <= before.host

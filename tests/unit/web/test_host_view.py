"""One host, and what its maintenance would mean."""

from __future__ import annotations

import pytest

from mesos.v1 import mesos_pb2
from mesos.v1.master import master_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.web.views.hostpools.rows import host_pools, move
from peloton.web.views.hosts.details import agent_views, host_task, preview, run_of
from peloton.web.views.hosts.rows import HostRow, Usage

JOB = "0b3a3ef4-9d2f-4a1a-8d36-3e3d3f8a6a10"


def row(name: str, state: str = "UP", pool: str = "", desired: str = "") -> HostRow:
    return HostRow(name, state, state, pool=pool, desired_pool=desired or pool, usage={"cpu": Usage(1, 4)})


def job(
    kind: job_pb2.JobType.ValueType, total: int = 10, running: int = 10, limit: int = 0
) -> job_pb2.JobInfo:
    return job_pb2.JobInfo(
        config=job_pb2.JobConfig(
            name="web",
            type=kind,
            instanceCount=total,
            sla=job_pb2.SlaConfig(maximumUnavailableInstances=limit),
        ),
        runtime=job_pb2.RuntimeInfo(taskStats={"RUNNING": running}),
    )


def test_a_run_is_taken_apart_by_its_id() -> None:
    run = run_of(f"{JOB}-12-3")
    assert (run.job_id, run.instance, run.number, run.ours) == (JOB, 12, 3, True)
    for other in ("marathon.x", "", "a-b-c", "-1-2"):
        assert not run_of(other).ours


def test_a_task_that_is_known_has_its_state_and_what_it_asks_for() -> None:
    run = run_of(f"{JOB}-1-2")
    known = task_pb2.TaskInfo(
        config=task_pb2.TaskConfig(resource=task_pb2.ResourceConfig(cpuLimit=0.5, memLimitMb=64)),
        runtime=task_pb2.RuntimeInfo(
            state=task_pb2.RUNNING,
            mesosTaskId=mesos_pb2.TaskID(value=run.id),
            startTime="2026-01-01T00:00:00Z",
        ),
    )
    shown = host_task(run, known, job(job_pb2.SERVICE))
    assert (shown.job_name, shown.state, shown.cpu, shown.memory) == ("web", "RUNNING", 0.5, 64)
    earlier = host_task(run_of(f"{JOB}-1-1"), known, None)
    assert (earlier.state, earlier.note) == ("ENDING", "an earlier run of its instance")
    assert host_task(run_of("x"), None, None, "ignored").note == "not a task of Peloton"
    assert host_task(run, None, None, "jobmgr does not answer").note == "jobmgr does not answer"


def scalar(name: str, value: float, role: str = "", revocable: bool = False) -> mesos_pb2.Resource:
    made = mesos_pb2.Resource(
        name=name, type=mesos_pb2.Value.SCALAR, scalar=mesos_pb2.Value.Scalar(value=value)
    )
    if role:
        made.reservations.add(role=role)
    if revocable:
        made.revocable.SetInParent()
    return made


def test_an_agent_shows_its_amounts_by_role_and_its_attributes() -> None:
    ports = mesos_pb2.Resource(name="ports", type=mesos_pb2.Value.RANGES)
    ports.ranges.range.add(begin=31000, end=31999)
    agent = master_pb2.Response.GetAgents.Agent(
        agent_info=mesos_pb2.AgentInfo(hostname="a", port=5051),
        active=True,
        version="1.12.0",
        total_resources=[
            scalar("cpus", 4),
            scalar("cpus", 2, "db"),
            scalar("cpus", 1, revocable=True),
            ports,
        ],
        allocated_resources=[scalar("cpus", 1.5)],
    )
    agent.agent_info.attributes.add(
        name="rack", type=mesos_pb2.Value.TEXT, text=mesos_pb2.Value.Text(value="<r1>")
    )
    (shown,) = agent_views(hostsvc_pb2.GetMesosAgentInfoResponse(agents=[agent]))
    assert shown.attributes == (("rack", "<r1>"),)
    assert shown.address == "a:5051"
    assert [
        (each.role, each.kind, each.total, each.allocated, each.revocable, each.ranges)
        for each in shown.amounts
    ] == [
        ("*", "CPU", 4, 1.5, False, ""),
        ("*", "CPU", 1, 0, True, ""),
        ("db", "CPU", 2, 0, False, ""),
        ("*", "ports", 0, 0, False, "31000-31999"),
    ]


@pytest.mark.parametrize(
    ("kind", "here", "limit", "running", "text", "binds"),
    [
        (job_pb2.BATCH, 2, 0, 10, "are killed and run again elsewhere; no failure is counted", False),
        (job_pb2.BATCH, 1, 0, 10, "is killed and run again elsewhere; no failure is counted", False),
        (job_pb2.SERVICE, 2, 0, 10, "move at once: the job has no limit of unavailable instances", False),
        (job_pb2.SERVICE, 1, 1, 10, "moves: at most 1 of 10 may be unavailable", False),
        (job_pb2.SERVICE, 3, 1, 10, "move 1 at a time: at most 1 of 10 may be unavailable", True),
        (job_pb2.SERVICE, 1, 1, 9, "waits: at most 1 of 10 may be unavailable, and 1 is now", True),
        (job_pb2.SERVICE, 2, 3, 7, "wait: at most 3 of 10 may be unavailable, and 3 are now", True),
        (job_pb2.DAEMON, 1, 0, 10, "ends here, and runs here again afterwards", False),
    ],
)
def test_the_preview_says_what_becomes_of_a_jobs_tasks(
    kind: job_pb2.JobType.ValueType, here: int, limit: int, running: int, text: str, binds: bool
) -> None:
    runs = [run_of(f"{JOB}-{number}-1") for number in range(here)]
    seen = preview([row("a")], [], runs, {JOB: job(kind, 10, running, limit)}, [])
    (impact,) = seen.impacts
    assert (impact.here, impact.text, impact.binds) == (here, text, binds)


def test_the_preview_counts_tasks_and_tells_unknown_hosts_and_those_not_up() -> None:
    runs = [run_of(f"{JOB}-0-1"), run_of("marathon.x")]
    seen = preview([row("a"), row("b", "DOWN")], ["c"], runs, {}, ["a is the last host"])
    assert (seen.tasks, seen.others, seen.possible) == (2, 1, False)
    assert [each.name for each in seen.not_up] == ["b"]
    assert seen.impacts[0].text == "nothing is known about this job at the moment"


def test_host_pools_have_the_sums_of_their_hosts() -> None:
    rows = [row("a", pool="shared"), row("b", "DOWN", "shared"), row("c", pool="default", desired="shared")]
    pools = [
        host_pb2.HostPoolInfo(name="shared", hosts=["a", "b", "away"]),
        host_pb2.HostPoolInfo(name="default", hosts=["c"]),
    ]
    default, shared = host_pools(pools, rows)
    assert (default.name, default.fixed, default.leaving) == ("default", True, 1)
    assert (shared.hosts, shared.away, shared.in_maintenance, shared.arriving) == (3, 1, 1, 1)
    assert shared.usage["cpu"] == Usage(2, 8)


def test_a_move_says_what_the_pools_will_have_and_which_hosts_are_likely() -> None:
    rows = [row(name, pool="default") for name in "abc"] + [row("d", "DOWN", "default"), row("e", pool="x")]
    pools = host_pools(
        [
            host_pb2.HostPoolInfo(name="default", hosts=list("abcd")),
            host_pb2.HostPoolInfo(name="x", hosts=["e"]),
        ],
        rows,
    )
    plan = move(rows, pools, "default", "x", 2, ["d", "e", "c", "a"])
    assert (plan.source_wanted, plan.destination_wanted, plan.likely) == (2, 3, ("c", "a"))
    assert plan.possible
    assert not move(rows, pools, "default", "x", 3, ["d", "c"]).possible
    assert move(rows, pools, "default", "x", 3, None).possible
    for source, destination, count in (("default", "default", 1), ("q", "x", 1), ("default", "x", 9)):
        with pytest.raises(InvalidArgument):
            move(rows, pools, source, destination, count, None)

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.why import why_lines
from peloton.model.states import ON_HOST_TASK_STATES
from peloton.present.why import ON_HOST, explain_task, state_name
from peloton.private.resmgr.explain import explain_pb2 as pb

from .conftest import Run
from .fakes import FakeDaemons

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
NOW = 1769860805.0
CHECK = pb.Check(
    check="entitlement",
    kind="cpu",
    held=90,
    gang=20,
    bound=100,
    pool="/a",
    text="cpu: allocation 90 cores + gang 20 cores > entitlement 100 cores in /a",
)
UNKNOWN_THERE = (grpc.StatusCode.NOT_FOUND, "no task is known here")


def info(state: str, number: int = 0, max_failures: int = 0, **runtime: Any) -> task_pb2.TaskInfo:
    made = task_pb2.TaskInfo(
        instanceId=number,
        runtime=task_pb2.RuntimeInfo(
            state=task_pb2.TaskState.Value(state),
            mesosTaskId=mesos_pb2.TaskID(value=f"{JOB}-{number}-2"),
            **runtime,
        ),
    )
    made.config.restartPolicy.maxFailures = max_failures
    return made


def job(stats: dict[str, int], instances: int = 0, **sla: Any) -> job_pb2.JobInfo:
    count = instances or sum(stats.values())
    return job_pb2.JobInfo(
        id=peloton_pb2.JobID(value=JOB),
        config=job_pb2.JobConfig(name="mill", instanceCount=count, sla=job_pb2.SlaConfig(**sla)),
        runtime=job_pb2.RuntimeInfo(state=job_pb2.RUNNING, taskStats=stats),
    )


def explained(state: str = "PENDING", **of: Any) -> pb.Explanation:
    of.setdefault("cause", CHECK.text)
    return pb.Explanation(
        mesos_task_id=f"{JOB}-0-2",
        state=task_pb2.TaskState.Value(state),
        since="2026-01-31T12:00:00.5Z",
        pool="/a/b",
        **of,
    )


def position(at: int, length: int = 9) -> pb.Position:
    ahead = [pb.Amount(kind="cpu", amount=12.5)] if at > 1 else []
    return pb.Position(queue="pending", position=at, length=length, ahead=ahead)


def end(reason: str, **of: Any) -> task_pb2.TerminationStatus:
    name = f"TERMINATION_STATUS_REASON_{reason}"
    return task_pb2.TerminationStatus(reason=task_pb2.TerminationStatus.Reason.Value(name), **of)


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            explained(gang_size=4, position=position(3), check=CHECK, head_check=CHECK, cause="behind x"),
            [
                "PENDING: behind x",
                "since 2026-01-31T12:00:00Z in pool /a/b",
                "a gang of 4 tasks: admitted and placed together or not at all",
                "queue pending: position 3 of 9, 2 gangs ahead with 12.5 cores",
                "its own gang does not pass either: "
                "cpu: allocation 90 cores + gang 20 cores > entitlement 100 cores in /a",
            ],
        ),
        (
            explained(
                position=position(1),
                shares=[
                    pb.Share(pool="/a", kind="cpu", allocation=90, entitlement=100, demand=20, limit=100)
                ],
            ),
            [
                f"PENDING: {CHECK.text}",
                "since 2026-01-31T12:00:00Z in pool /a/b",
                "queue pending: position 1 of 9, at the head",
                "Pool  Kind  Allocation  Entitlement  Demand  Reservation  Limit",
                "/a    cpu   90          100          20      0            100",
            ],
        ),
        (
            explained(
                "READY",
                cause="placing is tried again: no host fits",
                until="2026-01-31T12:00:09Z",
                tries=pb.Tries(
                    failed=2,
                    most=3,
                    returns=1,
                    reason="no host fits",
                    hosts={"b": 1, "insufficient_offer_resources": 7},
                ),
            ),
            [
                "READY: placing is tried again: no host fits",
                "since 2026-01-31T12:00:00Z in pool /a/b",
                "placing failed 2 of 3 times, returned to its pool's queue once; last: no host fits",
                "it keeps its place for 1 try more; then others may pass it",
                "  7 hosts with too little free",
                "  1 host b",
                "tried again at 2026-01-31T12:00:09Z",
            ],
        ),
        (
            explained(
                "LAUNCHING",
                cause="the job manager launches it",
                host="h1",
                holder="jobmgr/x",
                until="2026-01-31T12:20:00Z",
            ),
            [
                "LAUNCHING: the job manager launches it",
                "since 2026-01-31T12:00:00Z in pool /a/b",
                "host h1",
                "held by jobmgr/x",
                "this wait ends at 2026-01-31T12:20:00Z",
            ],
        ),
    ],
)
def test_tasks_known_to_the_resource_manager(found: pb.Explanation, lines: list[str]) -> None:
    assert why_lines(explain_task(info("PENDING"), found, None, NOW)) == lines


@pytest.mark.parametrize(
    ("task", "lines"),
    [
        (
            info("RUNNING", host="h1", startTime="2026-01-31T12:00:00Z"),
            ["RUNNING: running", "since 2026-01-31T12:00:00Z: 00:00:05", "on host h1"],
        ),
        (
            info("LAUNCHED", host="h1", revision=peloton_pb2.ChangeLog(updatedAt=1769860800 * 10**9)),
            [
                "LAUNCHED: handed to Mesos; its agent has not started it yet",
                "since 2026-01-31T12:00:00Z",
                "on host h1",
            ],
        ),
        (info("STARTING", host="h1"), ["STARTING: its agent starts it", "on host h1"]),
        (
            info("KILLING", host="h1", message="stopped by a user"),
            ["KILLING: being killed", "on host h1", "stopped by a user"],
        ),
        (
            info(
                "FAILED",
                max_failures=4,
                failureCount=3,
                host="h1",
                startTime="2026-01-31T12:00:00Z",
                completionTime="2026-01-31T13:00:01Z",
                message="Command exited with status 3",
                terminationStatus=end("FAILED", exit_code=3),
            ),
            [
                "FAILED: failed, exit code 3",
                "ended 2026-01-31T13:00:01Z after 01:00:01",
                "on host h1",
                "Command exited with status 3",
                "failed runs: 3; maxFailures 4: retries left: 1",
            ],
        ),
        (
            info("KILLED", terminationStatus=end("PREEMPTED_RESOURCES", signal="Terminated")),
            [
                "KILLED: preempted resources, signal Terminated",
                "failed runs: 0; maxFailures 0: retries left: 0",
            ],
        ),
        (
            info("LOST", message="agent gone"),
            ["LOST: agent gone", "agent gone", "failed runs: 0; maxFailures 0: retries left: 0"],
        ),
        (info("SUCCEEDED"), ["SUCCEEDED: exit code 0"]),
    ],
)
def test_tasks_known_to_the_job_manager(task: task_pb2.TaskInfo, lines: list[str]) -> None:
    assert why_lines(explain_task(task, None, None, NOW)) == lines


@pytest.mark.parametrize(
    ("task", "of", "cause"),
    [
        (
            info("INITIALIZED"),
            job({"INITIALIZED": 5, "RUNNING": 2, "PENDING": 1, "SUCCEEDED": 4}, maximumRunningInstances=3),
            "not enqueued: 3 instances are scheduled, maximumRunningInstances is 3; it follows when one ends",
        ),
        (
            info("INITIALIZED", 1),
            job({"INITIALIZED": 2}, instances=9, minimumRunningInstances=4),
            "not enqueued: only 2 of the 4 of its gang are created",
        ),
        (
            info("INITIALIZED", message="cpu: gang 30 cores > limit 20 cores of /a"),
            job({"INITIALIZED": 1}),
            "cpu: gang 30 cores > limit 20 cores of /a",
        ),
        (
            info("INITIALIZED", goalState=task_pb2.KILLED),
            job({"INITIALIZED": 1}),
            "it is stopped: its goal is KILLED",
        ),
        (
            info("INITIALIZED"),
            job({"INITIALIZED": 1, "SUCCEEDED": 7}, maximumRunningInstances=3),
            "the job manager has not enqueued it yet",
        ),
    ],
)
def test_why_a_task_is_not_enqueued(task: task_pb2.TaskInfo, of: job_pb2.JobInfo, cause: str) -> None:
    assert why_lines(explain_task(task, None, of, NOW))[0] == f"INITIALIZED: {cause}"


def test_a_waiting_task(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Get"] = task_pb2.GetResponse(result=info("PENDING"))
    daemons.answers["ExplainTask"] = pb.ExplainTaskResponse(explanation=explained(position=position(1)))
    outcome = run("task", "why", JOB, "0")
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == f"Task {JOB}-0, run 2: PENDING: {CHECK.text}"
    assert outcome.out.splitlines()[2] == "  queue pending: position 1 of 9, at the head"
    assert daemons.requests("ExplainTask")[0].job_id.value == JOB
    shown = json.loads(run("task", "why", JOB, "0", "-j").out)
    assert (shown["state"], shown["cause"]) == ("PENDING", CHECK.text)
    assert shown["resmgr"]["position"]["position"] == 1


def test_ended_task_needs_no_call_to_the_resource_manager(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Get"] = task_pb2.GetResponse(result=info("SUCCEEDED"))
    assert "SUCCEEDED: exit code 0" in run("task", "why", JOB, "0").out
    assert not daemons.requests("ExplainTask")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (UNKNOWN_THERE, "the resource manager does not know it"),
        ((grpc.StatusCode.UNAVAILABLE, "no leader"), "the resource manager could not be asked"),
    ],
)
def test_pending_task_unknown_to_the_resource_manager(
    run: Run, daemons: FakeDaemons, answer: Any, told: str
) -> None:
    daemons.answers["Get"] = task_pb2.GetResponse(result=info("PENDING"))
    daemons.answers["ExplainTask"] = answer
    outcome = run("task", "why", JOB, "0")
    assert outcome.code == 0
    assert told in outcome.out


def test_running_task_being_preempted(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Get"] = task_pb2.GetResponse(result=info("RUNNING", host="h1"))
    daemons.answers["ExplainTask"] = pb.ExplainTaskResponse(
        explanation=explained("PREEMPTING", cause="it is to be evicted", host="h1", reason="for /b")
    )
    out = run("task", "why", JOB, "0").out
    assert "PREEMPTING: it is to be evicted" in out and "\n  for /b\n" in out
    daemons.answers["ExplainTask"] = pb.ExplainTaskResponse(explanation=explained("RUNNING", cause="there"))
    assert "RUNNING: running\n" in run("task", "why", JOB, "0").out


def query(tasks: list[task_pb2.TaskInfo]) -> Any:
    def answer(request: task_pb2.QueryRequest) -> task_pb2.QueryResponse:
        states = set(request.spec.taskStates)
        return task_pb2.QueryResponse(records=[task for task in tasks if task.runtime.state in states])

    return answer


def test_a_job_by_cause(run: Run, daemons: FakeDaemons) -> None:
    failed = end("FAILED", exit_code=1)
    tasks = [
        *(info("RUNNING", i, host=f"h{i % 2}") for i in range(3)),
        info("FAILED", 3, terminationStatus=failed, message="Command exited with status 1"),
        info("FAILED", 5, terminationStatus=failed),
        info("INITIALIZED", 30),
    ]
    stats = {"RUNNING": 3, "FAILED": 2, "PENDING": 12, "INITIALIZED": 8}
    daemons.answers["Get"] = job_pb2.GetResponse(jobInfo=job(stats, maximumRunningInstances=15))
    daemons.answers["Query"] = query(tasks)
    waiting = pb.Group(
        count=10,
        instances=range(10, 20),
        last_position=12,
        first=explained(position=position(3, 12), cause="behind x"),
    )
    running = pb.Group(count=3, instances=range(3), first=explained("RUNNING", cause="it is on a host"))
    daemons.answers["ExplainJob"] = pb.ExplainJobResponse(groups=[waiting, running])
    outcome = run("job", "why", JOB)
    lines = outcome.out.splitlines()
    assert lines[0] == (
        f"Job {JOB} (mill): RUNNING; 25 instances: 2 FAILED, 8 INITIALIZED, 12 PENDING, 3 RUNNING"
    )
    assert lines[1:5] == [
        "10 PENDING: behind x",
        "  instances 10-19",
        "  since 2026-01-31T12:00:00Z in pool /a/b",
        "  queue pending: position 3 to 12 of 12, 2 gangs ahead with 12.5 cores",
    ]
    assert lines[5].startswith("2 PENDING: the resource manager does not know it")
    assert lines[6].startswith("8 INITIALIZED: not enqueued: 15 instances are scheduled")
    assert lines[7] == "  instances 30, …"
    assert lines[8:] == [
        "3 RUNNING: running",
        "  instances 0-2",
        "  on 2 hosts: h0, h1",
        "2 FAILED: failed, exit code 1",
        "  instances 3, 5",
        "  instance 3: Command exited with status 1",
    ]
    shown = json.loads(run("job", "why", JOB, "-j").out)
    assert [(group["state"], group["count"]) for group in shown["groups"]] == [
        ("PENDING", 10),
        ("PENDING", 2),
        ("INITIALIZED", 8),
        ("RUNNING", 3),
        ("FAILED", 2),
    ]


def test_job_with_instances_not_yet_created(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Get"] = job_pb2.GetResponse(jobInfo=job({"PENDING": 2}, instances=5))
    daemons.answers["ExplainJob"] = (grpc.StatusCode.UNAVAILABLE, "no leader")
    out = run("job", "why", JOB).out
    assert "3 are still to be created" in out
    assert "2 PENDING: the resource manager could not be asked" in out


def test_every_state_is_explained() -> None:
    of = job({"INITIALIZED": 1})
    for state in list(task_pb2.TaskState.keys()):
        first = why_lines(explain_task(info(state), None, of, NOW))[0]
        assert (
            first.startswith(f"{state_name(task_pb2.TaskState.Value(state))}: ") and first[len(state) + 2 :]
        )


def test_states_on_hosts_are_those_of_the_model() -> None:
    assert set(ON_HOST) == {state.name for state in ON_HOST_TASK_STATES}


@pytest.mark.parametrize(
    ("killed_for", "cause"),
    [
        ("stopped by alice", "stopped by alice, signal Terminated"),
        (
            "preempted: /a was over; /b waits for its share",
            "preempted: /a was over; /b waits for its share, signal Terminated",
        ),
        ("", "killed on request, signal Terminated"),
    ],
)
def test_a_killed_task_says_who_killed_it(killed_for: str, cause: str) -> None:
    """Whatever else its message says: a task may name itself so that it looks like a person."""
    task = info("KILLED", message=f"{killed_for or 'stopped by the shell'}; Command terminated")
    end = task.runtime.terminationStatus
    end.killed_for = killed_for
    end.reason = task_pb2.TerminationStatus.TERMINATION_STATUS_REASON_KILLED_ON_REQUEST
    end.signal = "Terminated"
    assert explain_task(task, None, None, NOW).cause == cause


# Services whose instances wait for their next run.

THROTTLED = "Task throttled due to failure"


def crashed(daemons: FakeDaemons, message: str) -> None:
    """Answer with an instance whose message tells that it waits; its events tell how its run ended."""
    task = info("FAILED", goalState=task_pb2.RUNNING, message=THROTTLED, reason="CONTAINER_LAUNCH_FAILED")
    daemons.answers["Get"] = task_pb2.GetResponse(result=task)
    events = [
        task_pb2.PodEvent(actualState="FAILED", message=THROTTLED),
        task_pb2.PodEvent(actualState="FAILED", message=message),
        task_pb2.PodEvent(actualState="STARTING", message="begins"),
    ]
    daemons.answers["GetPodEvents"] = task_pb2.GetPodEventsResponse(result=events)
    daemons.answers["Query"] = query([task])
    daemons.answers["ExplainJob"] = pb.ExplainJobResponse()


def test_how_a_run_ended_is_told_while_its_instance_waits(run: Run, daemons: FakeDaemons) -> None:
    crashed(daemons, "the image cannot be pulled: no such tag")
    assert "  the run ended: the image cannot be pulled: no such tag" in run("task", "why", JOB, "0").out
    daemons.answers["Get"] = job_pb2.GetResponse(jobInfo=job({"FAILED": 1}))
    assert (
        "  instance 0: the run ended: the image cannot be pulled: no such tag" in run("job", "why", JOB).out
    )
    assert [each.limit for each in daemons.requests("GetPodEvents")] == [1, 1]


def test_events_that_cannot_be_read_hide_nothing_else(run: Run, daemons: FakeDaemons) -> None:
    crashed(daemons, "")
    assert "the run ended" not in run("task", "why", JOB, "0").out
    daemons.answers["GetPodEvents"] = (grpc.StatusCode.UNAVAILABLE, "no store")
    outcome = run("task", "why", JOB, "0")
    assert outcome.code == 0 and THROTTLED in outcome.out
    assert "how the run ended is not known: " in outcome.out

"""The web's "Why it waits" and `job why` say the same of every reason."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.spans import spans
from peloton.present.why import ENDED, ON_HOST, explain_task, job_groups
from peloton.private.resmgr.explain import explain_pb2 as pb
from peloton.web.views.jobs.why import task_waiting, waiting
from resmgr.core.admission.checks import Check
from tests.unit.cli.test_why import CHECK, NOW, explained, info, job, position

LIMIT = "gpu: gang 16 GPUs > limit 12 GPUs of /ml/training"
STOPPED = task_pb2.KILLED
CHECKS = tuple(str(each.value) for each in Check)


def initialized(*numbers: int, **runtime: Any) -> list[task_pb2.TaskInfo]:
    return [info("INITIALIZED", number, **runtime) for number in numbers]


def group(*instances: int, state: str = "PENDING", **of: Any) -> pb.Group:
    return pb.Group(first=explained(state, **of), count=len(instances), instances=instances)


def checked(name: str) -> pb.Check:
    return pb.Check(check=name, kind="cpu", held=90, gang=20, bound=100, pool="/a", text=f"{name} of /a")


REASONS: dict[str, tuple[job_pb2.JobInfo, list[pb.Group], str, list[task_pb2.TaskInfo]]] = {
    "refused by resmgr": (job({"INITIALIZED": 16}), [], "", initialized(*range(16), reason=LIMIT)),
    "stopped": (job({"INITIALIZED": 2}), [], "", initialized(0, 1, goalState=STOPPED)),
    "one stopped, one refused": (
        job({"INITIALIZED": 2}),
        [],
        "",
        [*initialized(0, goalState=STOPPED), *initialized(1, reason=LIMIT)],
    ),
    "message": (job({"INITIALIZED": 1}), [], "", initialized(0, message="run 1 was lost", reason="LOST")),
    "maximumRunningInstances": (
        job({"INITIALIZED": 3, "RUNNING": 2}, maximumRunningInstances=2),
        [],
        "",
        initialized(2, 3, 4),
    ),
    "gang not created": (
        job({"INITIALIZED": 2}, instances=4, minimumRunningInstances=4),
        [],
        "",
        initialized(0, 1),
    ),
    "not enqueued yet": (job({"INITIALIZED": 1}), [], "", initialized(0)),
    "more than are read": (job({"INITIALIZED": 3000}), [], "", initialized(*range(1000), reason=LIMIT)),
    "more, of several causes": (
        job({"INITIALIZED": 3000}),
        [],
        "",
        [*initialized(*range(999), reason=LIMIT), *initialized(999)],
    ),
    "unknown to resmgr": (job({"PENDING": 2}), [], "", []),
    "resmgr is silent": (job({"PENDING": 2}), [], "the resource manager could not be asked: no leader", []),
    "head of a queue": (job({"PENDING": 1}), [group(0, check=CHECK, position=position(1))], "", []),
    "behind others": (
        job({"PENDING": 2}),
        [group(0, 1, check=CHECK, head_check=checked("entitlement"), position=position(3))],
        "",
        [],
    ),
    "placing": (job({"READY": 1}), [group(0, state="PLACING", holder="placement/1")], "", []),
    "placing failed": (
        job({"READY": 1}),
        [group(0, state="READY", tries=pb.Tries(failed=1, most=3, reason="no host", hosts={"no_offer": 2}))],
        "",
        [],
    ),
    "reserved": (job({"RESERVED": 1}), [group(0, state="RESERVED", host="h1")], "", []),
    "preempted": (
        job({"PREEMPTING": 1, "RUNNING": 3}),
        [group(0, state="PREEMPTING", reason="for another")],
        "",
        [],
    ),
    "of both": (
        job({"INITIALIZED": 1, "PENDING": 2}),
        [group(0, check=CHECK, position=position(1))],
        "",
        initialized(2, reason=LIMIT),
    ),
    **{
        f"check {name}": (
            job({"PENDING": 1}), [group(0, check=checked(name), cause=f"{name} of /a")], "", []
        )
        for name in CHECKS
    },
}  # fmt: skip


@pytest.mark.parametrize(("about", "groups", "failure", "tasks"), REASONS.values(), ids=REASONS)
def test_the_page_of_a_job_says_what_the_command_line_says(
    about: job_pb2.JobInfo, groups: list[pb.Group], failure: str, tasks: list[task_pb2.TaskInfo]
) -> None:
    read = {"INITIALIZED": tasks} if tasks else {}
    told = [
        (each.state, each.cause, each.count, spans(each.instances) if each.instances else "")
        for each in job_groups(about, groups, failure, read)
        if each.state not in (*ENDED, *ON_HOST) or each.state == "PREEMPTING"
    ]
    shown = [
        (each.state, each.cause, each.count, each.instances.removesuffix(", …"))
        for each in waiting(about, groups, failure, tasks)
    ]
    assert sorted(shown) == sorted(told) != []


@pytest.mark.parametrize(("about", "groups", "failure", "tasks"), REASONS.values(), ids=REASONS)
def test_the_page_of_an_instance_says_what_the_command_line_says(
    about: job_pb2.JobInfo, groups: list[pb.Group], failure: str, tasks: list[task_pb2.TaskInfo]
) -> None:
    found = groups[0].first if groups else None
    task = tasks[0] if tasks else info("PENDING")
    why = explain_task(task, found, about, NOW, failure)
    page = task_waiting(why, found, about)
    assert page is not None
    assert (page.state, page.cause) == (why.state, why.cause)
    assert set(page.lines) <= set(why.lines) and (not failure or failure in page.lines)


def test_a_gang_beyond_a_limit_is_told_with_what_helps() -> None:
    about, groups, failure, tasks = REASONS["refused by resmgr"]
    (shown,) = waiting(about, groups, failure, tasks)
    assert (shown.cause, shown.count, shown.instances) == (LIMIT, 16, "0-15")
    assert shown.helps == [
        "raise the limit of the pool, or ask for less: the gang alone is larger than the limit"
    ]

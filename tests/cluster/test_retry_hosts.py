"""Retry rules on a whole cluster: after which ends a run follows, and on which host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from minicluster.settings import Agent
from peloton.api.scheduling import scheduling_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.__main__ import main

from .conftest import Harness, harness_of, wait_for

SECONDS = 90
HOSTS = ("h0", "h1", "h2", "h3")
PAIR = ("h0", "h1")
"""Hosts with the label `pair`."""
ELSEWHERE = scheduling_pb2.RetryRule(exit_codes=[137], retries=2, another_host=True)
NEVER = scheduling_pb2.RetryRule(exit_codes=[3])
RUN = 'run="${MESOS_TASK_ID##*-}"; '
"""Sets the number of the run."""


class Ran(NamedTuple):
    """Where a run was, and what was said of its end."""

    host: str
    message: str


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    agents = tuple(
        Agent(
            hostname=host,
            resources=f"cpus:4;mem:2048;disk:20000;ports:[{31000 + 100 * number}-{31099 + 100 * number}]",
            attributes="pair:yes" if host in PAIR else "",
        )
        for number, host in enumerate(HOSTS)
    )
    with harness_of(tmp_path_factory, agents=agents) as held:
        yield held


def job_of(harness: Harness, command: str, *rules: scheduling_pb2.RetryRule) -> job_pb2.JobConfig:
    config = harness.config(command)
    config.defaultConfig.restartPolicy.maxFailures = 0
    config.defaultConfig.restartPolicy.rules.extend(rules)
    return config


def runs(harness: Harness, job_id: str) -> list[Ran]:
    """The ended runs of instance 0, the first one first."""
    task = harness.tasks(job_id).get(0)
    number = int(task.runtime.mesosTaskId.value.rpartition("-")[2] or 0) if task else 0
    return [ran for each in range(1, number + 1) for ran in _ended(harness, f"{job_id}-0-{each}")]


def _ended(harness: Harness, run: str) -> Iterator[Ran]:
    job = peloton_pb2.JobID(value=run[:36])
    request = task_pb2.GetPodEventsRequest(jobId=job, instanceId=0, runId=run)
    events = harness.client.task_svc.GetPodEvents(request, timeout=30).result
    yield from (Ran(each.hostname, each.message) for each in events if each.actualState == "FAILED")


@pytest.mark.parametrize(
    ("command", "end"),
    [("exit 137", "Command exited with status 137"), ("kill -9 $$", "Command terminated with signal Killed")],
    ids=["exit code", "signal"],
)
def test_a_run_that_is_killed_is_followed_by_two_on_other_hosts(
    harness: Harness, command: str, end: str
) -> None:
    job_id = harness.create(job_of(harness, command, ELSEWHERE, NEVER))
    assert harness.ended(job_id, SECONDS).state == job_pb2.FAILED
    ran = runs(harness, job_id)
    assert len(ran) == len({each.host for each in ran}) == 3, ran
    assert {each.host for each in ran} < set(HOSTS)
    assert [each.message for each in ran] == [
        f"retry 1 of 2 (restartPolicy.rules[0]), on another host than {ran[0].host}: {end}",
        f"retry 2 of 2 (restartPolicy.rules[0]), on another host than {ran[1].host}: {end}",
        f"not run again after 2 retries (restartPolicy.rules[0]): {end}",
    ]
    assert harness.tasks(job_id)[0].runtime.failureCount == 3


def test_a_run_that_says_so_is_never_followed(harness: Harness) -> None:
    config = job_of(harness, "exit 3", ELSEWHERE, NEVER)
    config.defaultConfig.restartPolicy.maxFailures = 5
    job_id = harness.create(config)
    assert harness.ended(job_id, SECONDS).state == job_pb2.FAILED
    (ran,) = runs(harness, job_id)
    assert ran.message == "never retried (restartPolicy.rules[1]): Command exited with status 3"


def test_twice_killed_and_then_never_again(harness: Harness) -> None:
    command = f'{RUN}[ "$run" -le 2 ] && exit 137; exit 3'
    job_id = harness.create(job_of(harness, command, ELSEWHERE, NEVER))
    assert harness.ended(job_id, SECONDS).state == job_pb2.FAILED
    ran = runs(harness, job_id)
    assert len({each.host for each in ran}) == 3, ran
    assert [each.message.partition(" (")[0] for each in ran] == [
        "retry 1 of 2",
        "retry 2 of 2",
        "never retried",
    ]


def test_a_leader_that_dies_meanwhile_forgets_no_host(harness: Harness, tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = f'{RUN}[ "$run" = 1 ] && exit 137; while [ ! -e {go} ]; do sleep 0.1; done; '
    job_id = harness.create(job_of(harness, f'{command}[ "$run" = 2 ] && exit 137; true', ELSEWHERE))

    def second() -> bool:
        task = harness.tasks(job_id).get(0)
        runs_now = task is not None and task.runtime.state == task_pb2.RUNNING
        return task is not None and runs_now and task.runtime.mesosTaskId.value.endswith("-2")

    wait_for(second, SECONDS, lambda: str(harness.tasks(job_id)))
    harness.cluster.kill(["jobmgr0"])
    harness.cluster.start(["jobmgr0"])
    go.touch()
    assert harness.ended(job_id, SECONDS).state == job_pb2.SUCCEEDED
    hosts = [*(each.host for each in runs(harness, job_id)), harness.tasks(job_id)[0].runtime.host]
    assert len(set(hosts)) == 3, hosts


def test_where_no_other_host_fits_it_waits_and_says_why(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = job_of(harness, "exit 137", ELSEWHERE)
    config.defaultConfig.constraint.type = task_pb2.Constraint.LABEL_CONSTRAINT
    label = config.defaultConfig.constraint.labelConstraint
    label.kind, label.condition = task_pb2.LabelConstraint.HOST, task_pb2.LabelConstraint.CONDITION_EQUAL
    label.label.key, label.label.value, label.requirement = "pair", "yes", 1
    job_id = harness.create(config)
    wait_for(lambda: len(runs(harness, job_id)) == 2, SECONDS, lambda: str(harness.tasks(job_id)))
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)
    told = {"text": ""}

    def why() -> bool:
        assert main(["job", "why", job_id]) == 0
        told["text"] = capsys.readouterr().out
        return "hostname" in told["text"]

    wait_for(why, SECONDS, lambda: told["text"])
    assert {each.host for each in runs(harness, job_id)} == set(PAIR)
    assert main(["job", "stop", job_id]) == 0
    assert harness.ended(job_id, SECONDS).state == job_pb2.KILLED

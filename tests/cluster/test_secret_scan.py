"""The secrets of a secure cluster are found nowhere but where they must be, whatever succeeds or fails."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .leaks import Allowed, Find, Secret, files, leaks, processes, rows, search, unused
from .scan_scene import PATH, Scene

pytestmark = pytest.mark.extended
ALWAYS = (
    *(Allowed(f"password of {user}", f"auth/{user}.yaml") for user in ("admin", "viewer")),
    Allowed("key of the store*", "auth/secret-keys"),
    Allowed("key of tokens*", "auth/task-keys"),
    *(
        Allowed("secret of the agents", f"certificates/agents.{suffix}")
        for suffix in ("json", "secret", "yaml")
    ),
    Allowed("key ca*", "certificates/ca.key"),
    *(
        Allowed(f"key {name}*", f"certificates/{name}.key")
        for name in (
            "jobmgr",
            "resmgr",
            "hostmgr",
            "placement",
            "archiver",
            "web",
            "client",
            "task",
            "mesos-agent",
            "mesos-master",
        )
    ),
)
"""Where secrets of the cluster lie. The token, and the secret for Mesos, are given to it from outside."""
WHILE_JOBS_RUN = (
    *ALWAYS,
    Allowed("secret of a job", "mesos/*/meta/secrets/*"),
    Allowed("new secret of a service", "mesos/*/meta/secrets/*"),
    Allowed("secret by JSON", "mesos/*/meta/secrets/*"),
    Allowed("key task*", "mesos/*/meta/secrets/*"),
    Allowed("token of a task", "mesos/*/meta/secrets/*"),
)
"""A run that has not ended has its secrets in a file for its user."""


@dataclass(frozen=True)
class Scanned:
    while_jobs_ran: set[Find]
    afterwards: set[Find]
    seen: set[str]
    """The places where the id of a job is."""
    answers: int
    pages: int


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanned]:
    scene = Scene(tmp_path_factory.mktemp("scan"))
    with scene.up() as harness:
        job = scene.job("secret of a job", f'test -s "$MESOS_SANDBOX{PATH}" && echo read; sleep 600')
        harness.running(job)
        scene.task_with_a_token()
        scene.create_wrongly()
        scene.fail_launches()
        scene.update_a_service()
        scene.json_door()
        scene.command_line(job)
        scene.hostmgr_with_a_wrong_secret()
        answers = scene.read_everything(job)
        scene.http_ports()
        scene.mesos()
        pages = scene.web(scene.jobs[:2])
        there = list(everything(scene))
        running, about = search(there, scene.known), search(there, [Secret("id", job.encode())])
        scene.delete_all()
        scene.await_empty_sandboxes()
        ended = search(processes(), scene.known)
    ended |= search([*files(scene.layout.root), *rows(scene.layout.database), *scene.answers], scene.known)
    yield Scanned(running, ended, {find.place for find in about}, answers, pages)


def everything(scene: Scene) -> Iterator[tuple[str, bytes]]:
    yield from files(scene.layout.root)
    yield from rows(scene.layout.database)
    yield from processes()
    yield from scene.answers


def test_secrets_are_only_where_they_must_be(scanned: Scanned) -> None:
    assert leaks(scanned.while_jobs_ran, WHILE_JOBS_RUN) == []


def test_nothing_is_left_of_jobs_that_are_deleted(scanned: Scanned) -> None:
    assert leaks(scanned.afterwards, ALWAYS) == []


def test_the_search_saw_what_it_is_about(scanned: Scanned) -> None:
    assert unused(scanned.while_jobs_ran, WHILE_JOBS_RUN) == []
    assert unused(scanned.afterwards, ALWAYS) == []
    for place in (
        "log/jobmgr0.log",
        "audit.jsonl",
        "table jobs",
        "answer /peloton.api.v0.job.JobManager/Get",
        "page /jobs/*",
        "mesos/*/stdout",
        "environ of sleep",
        "https://*/state",
    ):
        assert fnmatch.filter(scanned.seen, place), place
    assert scanned.answers > 50 and scanned.pages > 30

"""Tables that name services and methods by texts name only those that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobmgr.server import NAMES, OLDER_JOB_MANAGER, OLDER_TASK_MANAGER
from jobmgr.services.common.scope import LISTING
from peloton.cli.methods_by_verb import RESOURCES
from peloton.client.seeking import SERVED
from peloton.identity.methods import ACCESS, FOR_USERS, LOCKDOWN, SCOPED, interface

ROOT = Path(__file__).parents[2]
PROGRAMS = (
    "peloton", "jobmgr", "resmgr", "placement", "hostmgr", "archiver", "storage", "minicluster", "simulator"
)  # fmt: skip
TABLES = {
    "peloton/identity/methods.py",
    "peloton/cli/methods_by_verb.py",
    "peloton/client/seeking.py",
    "peloton/client/watching.py",
    "jobmgr/server.py",
    "resmgr/services/pools.py",
}
"""Files that name services by texts: who may call what, words of users, and names that older clients call."""
SERVICE = re.compile(r'["/](peloton\.(?:api|private)\.[a-z0-9.]*\.[A-Z]\w*)["/]')


def named() -> Iterator[tuple[str, str]]:
    for service, methods in FOR_USERS.items():
        yield from ((service, method) for method in methods)
    for service, some in SCOPED.items():
        yield from ((service, method) for method in some or [""])
    for resource in RESOURCES.values():
        yield from resource.values()
    yield from ((service, "") for service in SERVED.values())
    service, method = LOCKDOWN[1:].split("/")
    yield service, method
    yield ACCESS, ""


@pytest.mark.parametrize(("service", "method"), sorted(set(named())))
def test_a_named_method_exists(service: str, method: str) -> None:
    assert service in interface()
    assert not method or method in interface()[service]


def test_methods_about_many_jobs_exist() -> None:
    older = {OLDER_JOB_MANAGER, OLDER_TASK_MANAGER}
    assert {method for service in {*NAMES} - older for method in interface()[service]} >= LISTING


def test_no_other_file_of_a_program_names_a_service_by_a_text() -> None:
    found = {
        str(file.relative_to(ROOT))
        for program in PROGRAMS
        for file in (ROOT / program).rglob("*.py")
        if "_pb2" not in file.name and SERVICE.search(file.read_text())
    }
    assert found == TABLES

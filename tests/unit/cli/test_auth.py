"""`peloton auth`, and whose calls the command line makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from peloton.cli.app import cli
from peloton.cli.methods_by_verb import RESOURCES, asked
from peloton.client.auth import BasicAuth, BearerAuth, read_auth, read_basic_auth
from peloton.errors import InvalidArgument
from peloton.identity.methods import for_daemons_only, interface
from peloton.identity.passwords import kept


def test_every_verb_stands_for_a_method_that_users_may_call() -> None:
    for resource, verbs in RESOURCES.items():
        for verb, (service, method) in verbs.items():
            assert method in interface()[service], (verb, resource)
            assert not for_daemons_only(service, method)


@pytest.mark.parametrize(
    ("verb", "resource", "role", "method"),
    [
        ("create", "job", "jobmgr", "peloton.api.v0.job.JobManager/Create"),
        ("get", "respools", "resmgr", "peloton.api.v0.respool.ResourceManager/GetResourcePool"),
        ("drain", "hosts", "hostmgr", "peloton.api.v0.host.svc.HostService/StartMaintenance"),
        ("stop", "instances", "jobmgr", "peloton.api.v0.task.TaskManager/Stop"),
        ("call", "peloton.api.v0.job.JobManager:Get", "jobmgr", "peloton.api.v0.job.JobManager/Get"),
    ],
)
def test_verbs_and_resources_are_methods(verb: str, resource: str, role: str, method: str) -> None:
    found = asked(verb, resource)
    assert (found.role, f"{found.service}/{found.method}") == (role, method)


@pytest.mark.parametrize(
    ("verb", "resource", "said"),
    [
        ("create", "secrets", "RESOURCE: 'secrets' is not one of jobs, services, tasks, "),
        ("drain", "jobs", "VERB: 'drain' is not one of create, get, list, "),
        ("call", "JobManager", "RESOURCE: 'JobManager' is not SERVICE:METHOD"),
    ],
)
def test_what_there_is_not_is_said(verb: str, resource: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        asked(verb, resource)
    assert str(caught.value).startswith(said)


def test_a_password_is_hashed() -> None:
    done = CliRunner().invoke(cli, ["auth", "hash", "--stdin"], input="correct horse\n")
    assert done.exit_code == 0 and "horse" not in done.output
    assert kept(done.output.strip().strip("'")).matches("correct horse")


def test_credentials_are_read_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "auth.yaml"
    file.write_text("username: ann\npassword: pw-of-ann\n")
    assert read_auth(file) == BasicAuth("ann", "pw-of-ann")
    file.write_text("token: abc.def.ghi\n")
    bearer = read_auth(file)
    assert isinstance(bearer, BearerAuth) and "abc" not in repr(bearer)
    assert bearer.metadata == (("authorization", "Bearer abc.def.ghi"),)
    with pytest.raises(InvalidArgument):
        read_basic_auth(file)
    for text in ("token: 5", "token: a\nusername: b", "[]"):
        file.write_text(text)
        with pytest.raises(InvalidArgument):
            read_auth(file)

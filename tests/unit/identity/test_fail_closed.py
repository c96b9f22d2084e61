"""What promises that callers are asked who they are is obeyed, or the daemon does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from archiver.config import ArchiverSettings
from hostmgr.config import HostmgrSettings
from jobmgr.config import JobmgrSettings
from peloton.config.arguments import parse_arguments
from peloton.config.errors import ConfigError
from peloton.config.loading import load
from peloton.config.settings import DaemonSettings
from peloton.config.sources import variable_targets
from peloton.identity.door import Door
from placement.config import PlacementSettings
from resmgr.config import ResmgrSettings
from tests.unit.identity.served import ROLES, basic_file, private, settings

STORE = "storage: {kind: sqlite, path: /x.db}\n"
ALL = (
    "ENABLE_DEBUG_LOGGING ELECTION_ZK_SERVERS HTTP_PORT GRPC_PORT PELOTON_SECRET_FILE AUTH_TYPE "
    "AUTH_CONFIG_FILE CLUSTER"
)
STORED = "CASSANDRA_HOSTS CASSANDRA_STORE CASSANDRA_PORT"
NAMED: list[tuple[type[DaemonSettings], str]] = [
    (PlacementSettings, f"{ALL} TASK_TYPE TASK_DEQUEUE_LIMIT"),
    (ResmgrSettings, f"{ALL} {STORED} ENABLE_PREEMPTION TASK_PREEMPTION_PERIOD"),
    (JobmgrSettings, f"{ALL} {STORED} ENABLE_SECRETS JOB_TYPE"),
    (ArchiverSettings, f"{ALL} {STORED}"),
    (
        HostmgrSettings,
        f"{ALL} {STORED} MESOS_ZK_PATH AUTO_MIGRATE MESOS_SECRET_FILE SCARCE_RESOURCE_TYPES "
        "SLACK_RESOURCE_TYPES ENABLE_REVOCABLE_RESOURCES BIN_PACKING ENABLE_HOST_POOL",
    ),
]


@pytest.mark.parametrize(("cls", "names"), NAMED)
def test_every_variable_is_a_setting(cls: type[DaemonSettings], names: str) -> None:
    assert set(names.split()) <= {target.variable.name for target in variable_targets(cls)}


def read(cls: type[DaemonSettings], folder: Path, text: str = "", **variables: str) -> DaemonSettings:
    file = folder / "daemon.yaml"
    file.write_text(STORE + text)
    return load(cls, [file], variables)


@pytest.mark.parametrize(
    ("cls", "variables", "said"),
    [
        (JobmgrSettings, {"AUTH_TYPE": "BASIC"}, "BASIC needs a config_file, with users and roles"),
        (JobmgrSettings, {"AUTH_CONFIG_FILE": "/x"}, "config_file is given, but type is NOOP"),
        (
            JobmgrSettings,
            {"AUTH_TYPE": "BASIC", "AUTH_CONFIG_FILE": "/x"},
            "BASIC needs a token_file, by which the daemons know each other",
        ),
        (JobmgrSettings, {"AUTH_TYPE": "basic"}, "should be 'NOOP', 'BASIC' or 'OIDC'"),
        (
            JobmgrSettings,
            {"AUTH_TYPE": "OIDC", "AUTH_CONFIG_FILE": "/x", "PELOTON_SECRET_FILE": "/x"},
            "OIDC needs oidc.issuer, oidc.audience, and oidc.jwks_url or oidc.jwks_file",
        ),
        (HostmgrSettings, {"SCARCE_RESOURCE_TYPES": "GPU,MEMORY"}, "MEMORY is not GPU"),
        (HostmgrSettings, {"SLACK_RESOURCE_TYPES": "MEMORY"}, "MEMORY is not CPU"),
        (HostmgrSettings, {"AUTO_MIGRATE": "true"}, "unknown setting with kind sqlite"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(
    tmp_path: Path, cls: type[DaemonSettings], variables: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        read(cls, tmp_path, **variables)


@pytest.mark.parametrize("job_type", ["BATCH", "SERVICE", "anything"])
def test_a_job_type_is_logged_and_changes_nothing(tmp_path: Path, job_type: str) -> None:
    """Deployment scripts of Uber's Peloton set it for every job manager."""
    file = tmp_path / "daemon.yaml"
    file.write_text(STORE)
    ended = subprocess.run(
        [sys.executable, "-m", "jobmgr", "-c", str(file), "--check"],
        env={**os.environ, "JOB_TYPE": job_type},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "ok\n")
    assert f"JOB_TYPE {job_type} has no effect: every job manager runs jobs of all types" in ended.stderr


def test_slack_resources_are_obeyed(tmp_path: Path) -> None:
    for given, used in ({"SLACK_RESOURCE_TYPES": "cpu"}, True), ({}, True):
        found = read(HostmgrSettings, tmp_path, **given)
        assert isinstance(found, HostmgrSettings) and found.revocable is used
    none = read(HostmgrSettings, tmp_path, "slack_resource_types: ''")
    assert isinstance(none, HostmgrSettings) and not none.revocable


@pytest.mark.parametrize("url", ["http://keys.example.com/jwks", "keys.example.com", "https://"])
def test_keys_come_by_https(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="is no https address"):
        read(JobmgrSettings, tmp_path, f"auth: {{oidc: {{jwks_url: '{url}'}}}}")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "scheduler.example.com"])
def test_open_beyond_loopback_is_refused(tmp_path: Path, host: str) -> None:
    file = tmp_path / "daemon.yaml"
    file.write_text(f"{STORE}host: '{host}'\n")
    with pytest.raises(ConfigError, match="is beyond loopback") as caught:
        parse_arguments(JobmgrSettings, "peloton-jobmgr", ["-c", str(file)])
    assert "insecure: true" in str(caught.value)
    file.write_text(f"{STORE}host: '{host}'\ninsecure: true\n")
    found, _ = parse_arguments(JobmgrSettings, "peloton-jobmgr", ["-c", str(file)])
    assert found.exposed


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_open_on_loopback_is_not(tmp_path: Path, host: str) -> None:
    file = tmp_path / "daemon.yaml"
    file.write_text(f"{STORE}host: '{host}'\n")
    found, _ = parse_arguments(JobmgrSettings, "peloton-jobmgr", ["-c", str(file)])
    assert not found.exposed


ANN = "users: [{username: ann, password: pw-of-ann, role: admin}]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ANN, "roles: is needed"),
        (f"{ANN}\nroles: []", "roles: '(hidden)': "),
        (f"{ANN}\nroles: [{{role: reader}}]", "users.0.role: 'admin' is not one of the roles reader"),
        (f"{ANN}\nroles: [{{role: admin, accept: ['JobManager']}}]", "roles.0.accept.0: 'JobManager' is not"),
        (
            f"{ANN}\nroles: [{{role: admin, reject: ['peloton.api.v0.job.JobManger:Get*']}}]",
            "roles.0.reject.0: 'peloton.api.v0.job.JobManger:Get*' matches no method of any service",
        ),
        (f"{ANN}\nroles: [{{role: admin, acept: ['*']}}]", "roles.0.acept: unknown setting"),
        (f"users: [{{username: ann, role: admin}}]{ROLES}", "users.0.password: is needed"),
        (f"users: [{{password: pw-of-ann, role: admin}}]{ROLES}", "users.0.username: is needed"),
        (f"users: [{{role: admin}}, {{role: reader}}]{ROLES}", "users: only one may have no username"),
        (f"users: [ann:pw-of-ann]{ROLES}", "users.0: '(hidden)': should be a mapping"),
        (f"users: [{{username: ann, password: 12345, role: admin}}]{ROLES}", "users.0.password: '(hidden)'"),
        (f"users: [{{username: ann, password: $scrypt$x, role: admin}}]{ROLES}", "is no hash as `peloton"),
        (f"users: [{{username: ann, password: 'pw-of-ann]\n{ROLES}", "not YAML: line"),
        (f"groups: [{{group: a, role: admin}}]{ROLES}", "groups: are of OIDC, and auth.type is BASIC"),
    ],
)
def test_a_wrong_file_of_users_is_refused_without_its_passwords(tmp_path: Path, text: str, said: str) -> None:
    file = private(tmp_path / "users.yaml", text)
    with pytest.raises(ConfigError) as caught:
        Door(settings(tmp_path, type="BASIC", config_file=file))
    assert said in str(caught.value)
    assert "pw-of-ann" not in str(caught.value) and "12345" not in str(caught.value)


def test_files_that_others_can_read_are_refused(tmp_path: Path) -> None:
    given = settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path))
    for file in (given.config_file, given.token_file):
        assert file is not None
        file.chmod(0o640)
        with pytest.raises(ConfigError, match="its mode 0640 lets others use it: `chmod 600` it"):
            Door(given)
        file.chmod(0o600)
        file.rename(tmp_path / "away")
        with pytest.raises(ConfigError, match="No such file or directory"):
            Door(given)
        (tmp_path / "away").rename(file)
    Door(given)


@pytest.mark.parametrize("text", ["", "short\n", "0123456789abcdef 0123456789abcdef\n"])
def test_a_weak_token_is_refused(tmp_path: Path, text: str) -> None:
    given = settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path))
    private(tmp_path / "token", text)
    with pytest.raises(ConfigError, match="should have a token on each line, 32 to 512"):
        Door(given)

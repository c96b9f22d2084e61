"""Settings that are wrong: each line says where, what, and what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hostmgr.config import HostmgrSettings
from jobmgr.config import JobmgrSettings
from peloton.config.arguments import parse_arguments
from peloton.config.errors import ConfigError
from peloton.config.loading import load, validated
from peloton.config.settings import DaemonSettings
from resmgr.config import ResmgrSettings

STORE = "storage: {kind: sqlite, path: /x.db}\n"


def refusal(folder: Path, text: str, variables: Mapping[str, str] | None = None) -> str:
    file = folder / "daemon.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(JobmgrSettings, [file], variables or {})
    return str(caught.value).replace(str(file), "FILE")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "FILE: storage: is needed, and not given"),
        ("storage: {}", "FILE: storage.path: is needed with kind sqlite, and not given"),
        ("storage: {kind: mysql}", "FILE: storage.kind: 'mysql': should be 'sqlite' or 'cassandra'"),
        ("storage: []", "FILE: storage: []: should be a mapping of settings"),
        (STORE + "goal_state:", "FILE: goal_state: None: should be a mapping of settings"),
        (STORE + "htpp_port: 1", "FILE: htpp_port: unknown setting; did you mean http_port?"),
        (
            STORE + "goal_state: {ask_after: -1}",
            "FILE: goal_state.ask_after: -1: should be greater than or equal to 0",
        ),
        (
            STORE + "goal_state: {newsafter: 1}",
            "FILE: goal_state.newsafter: unknown setting; did you mean news_after?",
        ),
        (
            STORE + "membership: {kind: local, servers: 'a:1'}",
            "FILE: membership.servers: unknown setting with kind local; there are kind, directory",
        ),
        (
            STORE + "membership: {servers: a}",
            "FILE: membership.servers: 'a': is not host:port,host:port… with a path behind the last one "
            "where needed",
        ),
        (
            STORE + "membership: {servers: 'a:1', root: peloton}",
            "FILE: membership.root: 'peloton': is not the path of a node, such as /peloton",
        ),
        (STORE + "http_port: 99999", "FILE: http_port: 99999: should be less than or equal to 65535"),
        (STORE + "host: 5", "FILE: host: 5: should be a valid string"),
        (STORE + "host: ''", "FILE: host: '': should have at least 1 character"),
    ],
)
def test_error_names_source_value_and_what_is_valid(tmp_path: Path, text: str, said: str) -> None:
    assert refusal(tmp_path, text) == said


def test_key_that_is_not_text(tmp_path: Path) -> None:
    assert refusal(tmp_path, STORE + "true: 1").startswith("FILE: True: unknown setting; there are host, ")


def test_one_line_per_invalid_setting(tmp_path: Path) -> None:
    lines = refusal(tmp_path, STORE + "http_port: -1\ngrpc_port: x\n").splitlines()
    assert [line.split(": ")[1] for line in lines] == ["http_port", "grpc_port"]


@pytest.mark.parametrize(
    ("text", "variable", "value", "said"),
    [
        ("", "HTTP_PORT", "abc", "HTTP_PORT or --http-port: http_port: 'abc': should be a valid integer"),
        ("", "ENABLE_DEBUG_LOGGING", "maybe", "ENABLE_DEBUG_LOGGING or --debug: debug: 'maybe': should be"),
        (
            "membership: {directory: /x}",
            "ELECTION_ZK_SERVERS",
            "zk1",
            "ELECTION_ZK_SERVERS or --election-zk-servers: membership.servers: 'zk1': is not",
        ),
    ],
)
def test_error_names_the_variable(tmp_path: Path, text: str, variable: str, value: str, said: str) -> None:
    assert refusal(tmp_path, STORE + text, {variable: value}).startswith(said)


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    assert len(refusal(tmp_path, STORE + f"http_port: {'x' * 5000}")) < 250


@pytest.mark.parametrize(("text", "key"), [("a: 1\nhost: x\na: 2\n", "a"), ("s: {b: 1, b: 1}", "b")])
def test_duplicate_key_is_refused(tmp_path: Path, text: str, key: str) -> None:
    said = refusal(tmp_path, text)
    assert said.startswith(f"FILE: not YAML: {key} is given twice") and "line" in said
    assert len(said.splitlines()) == 1


def test_merge_keys_are_not_duplicates(tmp_path: Path) -> None:
    file = tmp_path / "daemon.yaml"
    file.write_text("storage: &s {kind: sqlite, path: /x}\ngoal_state: &g {ask_after: 1}\n")
    assert load(JobmgrSettings, [file]).goal_state.ask_after == 1
    file.write_text("storage: &s {path: /y}\nmembership: {<<: {directory: /a}, directory: /b}\n")
    assert str(load(JobmgrSettings, [file]).membership.directory) == "/b"  # type: ignore[union-attr]


def test_settings_made_directly_read_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PORT", "5")
    monkeypatch.setenv("HOST", "elsewhere")
    assert DaemonSettings(cluster="c") == validated(DaemonSettings, {"cluster": "c"}, "test")
    assert (DaemonSettings().http_port, DaemonSettings().host) == (0, "127.0.0.1")


def test_flags_win_over_the_environment_and_that_over_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "daemon.yaml"
    file.write_text(STORE + "mesos: {master: 'file:1'}\nhttp_port: 1\n")
    for name in ("HTTP_PORT", "MESOS_ZK_PATH"):
        monkeypatch.delenv(name, raising=False)

    def read(*flags: str) -> tuple[str, int]:
        settings, _ = parse_arguments(HostmgrSettings, "peloton-hostmgr", ["-c", str(file), *flags])
        return settings.mesos.master, settings.http_port

    assert read() == ("file:1", 1)
    monkeypatch.setenv("HTTP_PORT", "")
    monkeypatch.setenv("MESOS_MASTER", "env:1")
    assert read() == ("env:1", 1)
    monkeypatch.setenv("MESOS_ZK_PATH", "zk://env:1/mesos")
    monkeypatch.setenv("HTTP_PORT", "2")
    assert read() == ("zk://env:1/mesos", 2)
    assert read("--mesos-master", "flag:1", "--http-port", "3") == ("flag:1", 3)


def test_the_older_name_of_a_setting_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "daemon.yaml"
    file.write_text(STORE + "goal_state: {rows_per_turn: 77}\n")
    assert load(JobmgrSettings, [file]).goal_state.rows_per_cycle == 77
    file.write_text(STORE + "placement: {cycles: 7}\n")
    assert load(ResmgrSettings, [file]).limits.returns == 7
    file.write_text(STORE + "placement: {cycles: 7, returns: 8}\n")
    with pytest.raises(ConfigError, match="cycles"):
        load(ResmgrSettings, [file])

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.core.values import Group
from deployer.installation import installation_from, read_installation
from deployer.rendering import own_settings, settings_of, wanted_of
from peloton.config.errors import ConfigError

TREE: dict[str, Any] = {
    "name": "prod",
    "mesos": {"master": "zk://zk1:2181,zk2:2181/mesos"},
    "zookeeper": {"servers": "zk1:2181,zk2:2181", "credentials_file": "/etc/peloton/zk"},
    "version": {"environment": "/opt/peloton-1"},
    "storage": {"kind": "cassandra", "username": "p", "password_file": "secret:cassandra"},
    "secrets": {"cassandra": {"file": "/etc/peloton/cassandra"}},
    "settings": {"cluster": "prod"},
    "daemons": {
        "jobmgr": {"count": 3, "settings": {"cluster": "special"}},
        "hostmgr": {},
        "batch": {"role": "placement", "settings": {"task_type": ["batch"]}},
        "web": {"count": 1},
    },
}  # fmt: skip


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    tree = copy.deepcopy(TREE)
    change(tree)
    return tree


def test_groups_are_changed_callees_first() -> None:
    found = installation_from(TREE, "file")
    assert found.groups == ["hostmgr", "batch", "jobmgr", "web"]
    groups = wanted_of(found, 7, 6).groups
    assert [(each.name, each.count, each.led) for each in groups] == [
        ("hostmgr", 2, True), ("batch", 2, False), ("jobmgr", 3, True), ("web", 1, False),
    ]  # fmt: skip


def digests(tree: dict[str, Any]) -> dict[str, Group]:
    return {each.name: each for each in wanted_of(installation_from(tree, "file"), 1).groups}


def test_only_daemons_with_other_settings_are_replaced() -> None:
    before = digests(TREE)
    after = digests(changed(lambda tree: tree["daemons"]["jobmgr"]["settings"].update(debug=True)))
    assert {name for name in before if before[name].digest != after[name].digest} == {"jobmgr"}
    more = digests(changed(lambda tree: tree["daemons"]["jobmgr"].update(count=5)))
    assert before["jobmgr"].digest == more["jobmgr"].digest and more["jobmgr"].count == 5


def test_another_version_replaces_all_and_may_need_another_schema() -> None:
    other = changed(lambda tree: tree.update(version={"environment": "/opt/peloton-2"}))
    before, after = digests(TREE), digests(other)
    assert all(before[name].digest != after[name].digest for name in before)
    assert (
        wanted_of(installation_from(TREE, "f"), 1).schema
        != wanted_of(installation_from(other, "f"), 1).schema
    )


def test_settings_are_merged_and_secrets_become_paths() -> None:
    found = installation_from(TREE, "file")
    settings = settings_of(found, "jobmgr")
    assert settings["cluster"] == "special"
    assert settings["storage"]["password_file"] == "/etc/peloton/cassandra"
    assert settings["membership"] == {
        "kind": "zookeeper", "servers": "zk1:2181,zk2:2181", "credentials_file": "/etc/peloton/zk",
    }  # fmt: skip
    assert settings_of(found, "hostmgr")["mesos"]["master"] == "zk://zk1:2181,zk2:2181/mesos"
    assert "storage" not in settings_of(found, "batch")


def test_each_daemon_has_its_address() -> None:
    found = installation_from(TREE, "file")
    own = own_settings(found, "jobmgr", "prod.jobmgr.7", "10.0.0.1", (31000, 31001))
    assert (own["host"], own["advertise"], own["http_port"], own["grpc_port"]) == (
        "10.0.0.1", "10.0.0.1", 31000, 31001,
    )  # fmt: skip
    assert own["instance"] == "prod.jobmgr.7"
    web = own_settings(found, "web", "prod.web.8", "10.0.0.1", (31002,))
    assert (web["http_port"], "grpc_port" in web, "instance" in web) == (31002, False, False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.update(name="Prod"), "'Prod' is not a name of up to 40 lower-case letters"),
        (lambda t: t["mesos"].update(master="here"), "'here' is not HOST:PORT"),
        (lambda t: t.update(version={}), "needs exactly one of environment, wheel and image"),
        (lambda t: t.update(version={"image": "a", "wheel": "/b"}), "exactly one of"),
        (
            lambda t: t.update(version={"image": "a"}, storage={"kind": "sqlite", "path": "/b"}),
            "storage.kind is sqlite, and version an image",
        ),
        (lambda t: t.update(version={"environment": "venv"}), "'venv' is not an absolute path"),
        (lambda t: t.update(version={"wheel": "/a.whl", "sha256": "12"}), "64 hexadecimal digits"),
        (lambda t: t["daemons"].update(fast={}), "daemons.fast needs a role, one of hostmgr, resmgr"),
        (lambda t: t["daemons"].update(second={"role": "jobmgr"}), "has jobmgr in more than one group"),
        (lambda t: t["daemons"]["web"].update(count=21), "daemons.web.count"),
        (lambda t: t["settings"].update(tls={"ca_file": "secret:ca"}), "secret:ca names no secret"),
        (lambda t: t["secrets"].update(ca={"file": "ca.pem"}), "'ca.pem' is not an absolute path"),
        (lambda t: t.update(daemon={}), "daemon"),
    ],
)
def test_what_is_wrong_is_said(change: Callable[[dict[str, Any]], object], said: str) -> None:
    with pytest.raises(ConfigError, match="file: ") as failure:
        installation_from(changed(change), "file")
    assert said in str(failure.value)


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "installation.yaml"
    file.write_text(yaml.safe_dump(TREE))
    assert read_installation(file).name == "prod"
    with pytest.raises(ConfigError, match="No such file"):
        read_installation(tmp_path / "other.yaml")

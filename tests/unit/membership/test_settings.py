from __future__ import annotations

from pathlib import Path

import pytest

from peloton.config.errors import ConfigError
from peloton.config.loading import load, validated
from peloton.config.membership import LocalMembershipSettings, ZooKeeperMembershipSettings
from peloton.config.settings import DaemonSettings
from peloton.membership import factory


def test_the_environment_selects_zookeeper(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("membership: {kind: local, directory: /somewhere}\n")
    assert load(DaemonSettings, [file]).membership == LocalMembershipSettings(directory=Path("/somewhere"))
    found = load(DaemonSettings, [file], {"ELECTION_ZK_SERVERS": "zk1:2181,zk2:2181/below"}).membership
    assert found == ZooKeeperMembershipSettings(servers="zk1:2181,zk2:2181/below")


@pytest.mark.parametrize("kind", ["kind: zookeeper, ", ""])
def test_the_environment_keeps_other_settings_of_zookeeper(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"membership: {{{kind}servers: 'old:1', root: /mine}}\n")
    found = load(DaemonSettings, [file], {"ELECTION_ZK_SERVERS": "zk1:2181"}).membership
    assert found == ZooKeeperMembershipSettings(servers="zk1:2181", root="/mine")


@pytest.mark.parametrize(
    ("membership", "said"),
    [
        ({"servers": "zk1"}, "membership.servers: 'zk1': is not host:port"),
        ({"servers": "zk1:2181,"}, "is not host:port"),
        ({"kind": "zookeeper"}, "membership.servers: is needed with kind zookeeper"),
        ({"servers": "zk1:2181", "root": "peloton"}, "membership.root: 'peloton'"),
        (
            {"servers": "zk1:2181", "directory": "/x"},
            "membership.directory: unknown setting with kind zookeeper",
        ),
        ({"kind": "local", "servers": "zk1:2181"}, "membership.servers: unknown setting with kind local"),
        ({"kind": "etcd"}, "membership.kind: 'etcd': should be 'local' or 'zookeeper'"),
    ],
)
def test_invalid_settings(membership: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        validated(DaemonSettings, {"membership": membership}, "test")


def test_servers_with_spaces_between_are_servers() -> None:
    factory.membership(ZooKeeperMembershipSettings(servers=" zk1:2181, zk2:2181 /below"))


def test_invalid_port() -> None:
    with pytest.raises(ConfigError, match="'zk1:99999' are not host:port"):
        factory.membership(ZooKeeperMembershipSettings(servers="zk1:99999"))

"""Files of Secrets and ConfigMaps in the sandbox of a process."""

from __future__ import annotations

from typing import Any

import pytest

from minicluster.kubernetes.kubelet.translation import CannotBeRun, sources_of, task_of

SOURCES = {
    "configmaps/settings": {"a.yaml": b"1", "b.yaml": b"2"},
    "secrets/auth": {"token": b"t", "users": b"u"},
}
BOTH = {"projected": {"sources": [
    {"configMap": {"name": "settings"}},
    {"secret": {"name": "auth", "items": [{"key": "token", "path": "auth/token"}]}},
]}}  # fmt: skip


def pod(volume: dict[str, Any], workdir: str = "/etc/peloton", **mount: str) -> dict[str, Any]:
    container = {
        "command": ["true"],
        "workingDir": workdir,
        "volumeMounts": [{"name": "v", "mountPath": "/etc/peloton", **mount}],
    }
    return {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [container], "volumes": [{"name": "v", **volume}]},
    }


def files(wire: dict[str, Any]) -> dict[str, bytes]:
    volumes = task_of(wire, SOURCES).container.volumes
    return {each.container_path: each.source.secret.value.data for each in volumes}


def test_a_volume_on_the_working_directory_is_the_sandbox() -> None:
    assert files(pod({"configMap": {"name": "settings"}})) == {"./a.yaml": b"1", "./b.yaml": b"2"}
    assert files(pod(BOTH)) == {"./a.yaml": b"1", "./b.yaml": b"2", "./auth/token": b"t"}
    assert sources_of(pod(BOTH)) == {"configmaps/settings", "secrets/auth"}


def test_a_volume_elsewhere_keeps_its_path() -> None:
    assert files(pod({"secret": {"secretName": "auth"}}, workdir="/")) == {
        "/etc/peloton/token": b"t",
        "/etc/peloton/users": b"u",
    }
    sandbox = {"mountPath": "/mnt/mesos/sandbox/keys"}
    assert set(files(pod({"secret": {"secretName": "auth"}}, "", **sandbox))) == {"keys/token", "keys/users"}


@pytest.mark.parametrize("items", [None, [{"key": "token", "path": "token"}]])
def test_a_single_file_by_its_path(items: list[dict[str, str]] | None) -> None:
    secret: dict[str, Any] = {"secretName": "auth"} | ({"items": items} if items else {})
    mount = {"mountPath": "/etc/peloton/key", "subPath": "token"}
    assert files(pod({"secret": secret}, **mount)) == {"key": b"t"}


def test_what_a_source_does_not_have_is_refused() -> None:
    with pytest.raises(CannotBeRun, match="secrets/auth has no cert"):
        files(pod({"secret": {"secretName": "auth"}}, subPath="cert"))
    with pytest.raises(CannotBeRun, match="configmaps/other has no x"):
        files(pod({"configMap": {"name": "other", "items": [{"key": "x", "path": "x"}]}}))

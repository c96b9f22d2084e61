"""Kubeconfigs, and the service account of a pod."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from peloton.config.errors import ConfigError
from peloton.kubernetes.access import from_kubeconfig, in_cluster
from tests.contract.mesos_driver.certificates import Authority


def tree(**user: Any) -> dict[str, Any]:
    return {
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:8080/"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "n"}},
            {"name": "other", "context": {"cluster": "gone"}},
        ],
    }


def written(folder: Path, content: object) -> Path:
    path = folder / "kubeconfig"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_a_token(tmp_path: Path) -> None:
    access = from_kubeconfig(written(tmp_path, tree(token="secret")))
    assert (access.server, access.namespace, access.bearer()) == ("http://127.0.0.1:8080", "n", "secret")
    assert "secret" not in repr(access)


def test_a_token_that_rotates(tmp_path: Path) -> None:
    access = from_kubeconfig(written(tmp_path, tree(tokenFile="token")))
    with pytest.raises(ConfigError, match="token"):
        access.bearer()
    for token in ("first", "second"):
        (tmp_path / "token").write_text(f"{token}\n")
        assert access.bearer() == token


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("[]", "it is no kubeconfig"),
        ("a: [", "while parsing"),
        ({"kind": "Pod"}, "it is no kubeconfig"),
        ({"kind": "Config"}, "no current-context"),
        ({**tree(), "current-context": "x"}, "no context 'x', but c, other"),
        ({**tree(), "current-context": "other"}, "no cluster 'gone', but k"),
        (tree(exec={"command": "aws"}), "give command, and an apiVersion of client.authentication.k8s.io/v1"),
        (
            tree(
                exec={
                    "command": "x",
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "provideClusterInfo": True,
                }
            ),
            "provideClusterInfo are not supported",
        ),
        (tree(username="u", password="p"), "username is not supported"),
        (
            {**tree(), "clusters": [{"name": "k", "cluster": {"server": "127.0.0.1"}}]},
            "is not the URL of a server",
        ),
        (
            {
                **tree(),
                "clusters": [
                    {"name": "k", "cluster": {"server": "https://k", "insecure-skip-tls-verify": True}}
                ],
            },
            "insecure-skip-tls-verify is not supported",
        ),
        (
            {
                **tree(),
                "clusters": [
                    {"name": "k", "cluster": {"server": "https://k", "certificate-authority-data": "!"}}
                ],
            },
            "its certificates cannot be used",
        ),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, content: object, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        from_kubeconfig(written(tmp_path, content))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        from_kubeconfig(tmp_path / "kubeconfig")


def test_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    admin = authority.identity("admin", "DNS:admin")
    wire = tree(**{
        "client-certificate": admin.certificate.name,
        "client-key-data": base64.b64encode(admin.key.read_bytes()).decode(),
    })  # fmt: skip
    wire["clusters"][0]["cluster"] = {
        "server": "https://k",
        "certificate-authority": authority.file.name,
        "tls-server-name": "kubernetes",
    }
    access = from_kubeconfig(written(tmp_path, wire))
    assert access.server_name == "kubernetes"
    assert isinstance(access.tls, ssl.SSLContext)
    assert access.tls.verify_mode is ssl.CERT_REQUIRED
    assert len(access.tls.get_ca_certs()) == 1


def test_a_pod(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    (tmp_path / "ca.crt").write_bytes(authority.file.read_bytes())
    (tmp_path / "namespace").write_text("team")
    (tmp_path / "token").write_text("t1")
    variables = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = in_cluster(tmp_path, variables)
    assert (access.server, access.namespace, access.bearer()) == ("https://[fd00::1]:443", "team", "t1")
    (tmp_path / "token").write_text("t2")
    assert access.bearer() == "t2"
    with pytest.raises(ConfigError, match="this is no pod"):
        in_cluster(tmp_path, {})
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(ConfigError, match="No such file"):
        in_cluster(tmp_path, variables)

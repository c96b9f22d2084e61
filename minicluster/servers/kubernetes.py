"""The servers of Kubernetes' control plane, each a process: real ones, built from their Go modules.

`tools/kubernetes-server` builds them once. The API server serves TLS with a certificate that it makes itself,
and knows one token, of an administrator.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import shutil
import ssl
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from peloton.config.private import write_private
from peloton.errors import PelotonError, Unavailable
from peloton.identity.certs import LONGEST_DAYS, authority_in, issue, make_authority

VERSION = "1.35.4"
HOST = "127.0.0.1"
NAMESPACE = "peloton"
REQUEST_SECONDS = 5.0
_KEY_BITS = 2048
_SERVER, _CALLER = "kubelet", "apiserver"
"""Names of certificates: that of all kubelets, and that by which the API server calls them."""


class Missing(PelotonError):
    """The servers are not built."""


def binary() -> Path:
    """Return the program of all servers. Raise Missing where it was not built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = cache / "peloton" / f"kubernetes-{VERSION}" / "control-plane"
    if not os.access(path, os.X_OK):
        raise Missing(
            f"Kubernetes' API server is not in {path}: `make kubernetes-server` in a checkout of Peloton "
            "builds it, or name the kubeconfig of a cluster that runs"
        )
    return path


def etcd_command(folder: Path, port: int, peer_port: int) -> list[str]:
    """Return the command line of etcd. Raise Missing."""
    return [str(binary()), "etcd", str(folder / "data"), str(port), str(peer_port)]


def configure(folder: Path) -> None:
    """Make keys, certificates of kubelets and the administrator's token, where they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    _certify(folder)
    if not _key(folder).exists():
        key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        write_private(_key(folder), pem.decode())
    if not _tokens(folder).exists():
        write_private(_tokens(folder), f"{secrets.token_urlsafe(24)},admin,admin,system:masters\n")


def _certify(folder: Path) -> None:
    """Make the authority of kubelets, and certificates for them and for the API server as their caller."""
    kubelets = _kubelets(folder)
    if kubelets.exists():
        return
    with tempfile.TemporaryDirectory(dir=folder) as made:
        now = datetime.datetime.now(datetime.UTC)
        make_authority(Path(made), "kubelets", now)
        for name in (_SERVER, _CALLER):
            issue(Path(made), name, (HOST,), LONGEST_DAYS, now)
        shutil.copytree(made, kubelets)


def kubelet_flags(folder: Path) -> list[str]:
    """Return the flags of a kubelet that this API server calls, whose folder is configured."""
    kubelets = _kubelets(folder)
    return [
        f"--tls-certificate={kubelets / f'{_SERVER}.crt'}",
        f"--tls-key={kubelets / f'{_SERVER}.key'}",
        f"--tls-client-ca={authority_in(kubelets).certificate}",
    ]


def command(folder: Path, port: int, etcd_port: int) -> list[str]:
    """Return the command line of the API server, whose folder is configured. Raise Missing."""
    return [
        str(binary()),
        "apiserver",
        f"--etcd-servers=http://{HOST}:{etcd_port}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        f"--token-auth-file={_tokens(folder)}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={_key(folder)}",
        f"--service-account-signing-key-file={_key(folder)}",
        f"--kubelet-certificate-authority={authority_in(_kubelets(folder)).certificate}",
        f"--kubelet-client-certificate={_kubelets(folder) / f'{_CALLER}.crt'}",
        f"--kubelet-client-key={_kubelets(folder) / f'{_CALLER}.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        # Nothing makes the service account that it would ask for: no controller runs.
        "--disable-admission-plugins=ServiceAccount",
    ]


CONTROLLERS = ("deployment", "replicaset", "job", "disruption", "node-lifecycle", "garbage-collector")
"""Those that daemons on Kubernetes, and jobs of others, need."""


def controllers_command(kubeconfig: Path) -> list[str]:
    """Return the command line of the controllers of Kubernetes. Raise Missing."""
    names = ",".join(f"{name}-controller" for name in CONTROLLERS)
    return [
        *(str(binary()), "controllers", f"--kubeconfig={kubeconfig}", "--leader-elect=false"),
        *(f"--controllers={names}", "--secure-port=0", "--use-service-account-credentials=false"),
    ]


def scheduler_command(kubeconfig: Path) -> list[str]:
    """Return the command line of the default scheduler. Raise Missing."""
    return [
        *(str(binary()), "scheduler", f"--kubeconfig={kubeconfig}", "--leader-elect=false"),
        "--secure-port=0",
    ]


def write_kubeconfig(folder: Path, port: int, path: Path) -> None:
    """Write how the administrator calls the API server, which has made its certificate."""
    token = _tokens(folder).read_text().partition(",")[0]
    cluster = {"server": f"https://{HOST}:{port}", "certificate-authority": str(certificate(folder))}
    context = {"cluster": NAMESPACE, "user": "admin", "namespace": NAMESPACE}
    tree: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAMESPACE,
        "clusters": [{"name": NAMESPACE, "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": NAMESPACE, "context": context}],
    }
    write_private(path, yaml.safe_dump(tree))


def certificate(folder: Path) -> Path:
    """Return the API server's certificate, with that of the authority that it has made for it."""
    return folder / "certificates" / "apiserver.crt"


def etcd_serves(port: int) -> bool:
    """Return whether etcd is healthy."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=REQUEST_SECONDS) as answer:
            return b'"true"' in answer.read()
    except OSError:
        return False


def serves(folder: Path, port: int) -> bool:
    """Return whether the API server is ready."""
    try:
        _call(folder, port, "GET", "/readyz")
    except OSError:
        return False
    return True


def make_namespace(folder: Path, port: int) -> None:
    """Create the namespace of Peloton, where it is not there. Raise Unavailable."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    try:
        _call(folder, port, "POST", "/api/v1/namespaces", namespace)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 409:
                raise Unavailable(f"namespace {NAMESPACE}: {error.read().decode(errors='replace')}") from None
    except OSError as error:
        raise Unavailable(f"namespace {NAMESPACE}: {error}") from None


def _call(folder: Path, port: int, method: str, path: str, body: object = None) -> None:
    context = ssl.create_default_context(cafile=str(certificate(folder)))
    token = _tokens(folder).read_text().partition(",")[0]
    request = urllib.request.Request(
        f"https://{HOST}:{port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS, context=context):
        return


def _key(folder: Path) -> Path:
    return folder / "service-accounts.pem"


def _kubelets(folder: Path) -> Path:
    return folder / "kubelets"


def _tokens(folder: Path) -> Path:
    return folder / "tokens.csv"

"""Where an API server is and how it is called: by a kubeconfig, or as a pod in the cluster."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from peloton.config.errors import ConfigError
from peloton.kubernetes.following_tls import FollowingContext
from peloton.kubernetes.programs import VERSIONS, Program, TokenProgram

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its credentials (Kubernetes: "Accessing the API from within a Pod")."""
_UNSUPPORTED = ("auth-provider", "username", "password", "as", "as-uid", "as-groups")


@dataclass(frozen=True, slots=True)
class Access:
    """An API server with the credentials for it."""

    server: str
    """Its URL, without a slash at the end."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """None for plain HTTP."""
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """In place of `token`: a file that is read again, because its token rotates."""
    program: TokenProgram | None = None
    """In place of both: a program that is run for tokens."""
    server_name: str = ""
    """The name in the server's certificate, where it is not that of the URL."""
    namespace: str = ""
    """The namespace that the context names, or the pod's own; empty where there is none."""

    @property
    def renews(self) -> bool:
        """Whether there may be another token than one that was refused."""
        return self.program is not None or self.token_file is not None

    async def present_token(self) -> str:
        """Return a token that is good now; empty without one. Raises ConfigError, Unavailable."""
        return self.bearer() if self.program is None else await self.program.token()

    def reject(self, token: str) -> None:
        """Take over that the server has refused a token."""
        if self.program is not None:
            self.program.reject(token)

    def bearer(self) -> str:
        """Return the token of a file or of its own; empty without one.

        Raises ConfigError where it cannot be read.
        """
        if self.token_file is None:
            return self.token
        try:
            return self.token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.token_file}: {error}") from None


def in_cluster(folder: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ) -> Access:
    """Return the access of a pod by its service account. Raises ConfigError outside of a pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError(
            "this is no pod of a Kubernetes cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT "
            "are not set; give kubernetes.kubeconfig"
        )
    token_file, authority = folder / "token", folder / "ca.crt"
    try:
        context = FollowingContext(lambda: _of_pod(authority), [authority])
        namespace = (folder / "namespace").read_text().strip()
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{folder}: {error}") from None
    name = f"[{host}]" if ":" in host else host
    return Access(f"https://{name}:{port}", context, token_file=token_file, namespace=namespace)


def from_kubeconfig(path: Path, context: str = "") -> Access:
    """Return the access that a kubeconfig describes, by `context` or by its current one.

    Raises ConfigError where it cannot be read, and for what is not supported: passwords, impersonation, and
    servers whose certificates are not verified.
    """
    tree = _read(path)
    name = context or str(tree.get("current-context") or "")
    if not name:
        raise ConfigError(f"{path}: it has no current-context: give kubernetes.context")
    chosen = _named(tree, "contexts", "context", name, path)
    cluster = _named(tree, "clusters", "cluster", str(chosen.get("cluster", "")), path)
    user = _named(tree, "users", "user", str(chosen["user"]), path) if chosen.get("user") else {}
    for key in _UNSUPPORTED:
        if user.get(key):
            raise ConfigError(
                f"{path}: user {chosen['user']}: {key} is not supported: give a client certificate, token or "
                "tokenFile"
            )
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise ConfigError(f"{path}: {server!r} is not the URL of a server, http://… or https://…")
    token_file = user.get("tokenFile")
    return Access(
        server,
        _context(cluster, user, path) if server.startswith("https://") else None,
        str(user.get("token") or ""),
        path.parent / token_file if token_file else None,
        _program(user["exec"], path) if user.get("exec") else None,
        str(cluster.get("tls-server-name") or ""),
        str(chosen.get("namespace") or ""),
    )


def _read(path: Path) -> Mapping[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from None
    if not isinstance(tree, dict) or tree.get("kind", "Config") != "Config":
        raise ConfigError(f"{path}: it is no kubeconfig, of the kind Config")
    return tree


def _named(tree: Mapping[str, Any], many: str, one: str, name: str, path: Path) -> Mapping[str, Any]:
    entries = [each for each in tree.get(many) or () if isinstance(each, dict)]
    for each in entries:
        found = each.get(one)
        if each.get("name") == name and isinstance(found, dict):
            return found
    known = ", ".join(str(each.get("name")) for each in entries) or "none"
    raise ConfigError(f"{path}: it has no {one} {name!r}, but {known}")


def _program(given: Any, path: Path) -> TokenProgram:
    """Return the program of `exec`. Raises ConfigError."""
    given = given if isinstance(given, dict) else {}
    command, version = str(given.get("command") or ""), given.get("apiVersion")
    if not command or version not in VERSIONS:
        raise ConfigError(f"{path}: exec: give command, and an apiVersion of {' or '.join(VERSIONS)}")
    if given.get("interactiveMode") == "Always" or given.get("provideClusterInfo"):
        raise ConfigError(f"{path}: exec: interactiveMode Always and provideClusterInfo are not supported")
    if "/" in command:
        command = str(path.parent / command)
    variables = {str(each["name"]): str(each["value"]) for each in given.get("env") or ()}
    return TokenProgram(Program([command, *map(str, given.get("args") or ())], str(version), variables))


def _of_pod(authority: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{authority}: {error}") from None


def _context(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> ssl.SSLContext:
    """Return the context of connections, which follows the files that it is made of. Raises ConfigError."""
    given = ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key"))
    names = (entry[name] for entry, name in given if entry.get(name) and not entry.get(f"{name}-data"))
    files = [path.parent / str(name) for name in names]
    return FollowingContext(lambda: _read_context(cluster, user, path), files)


def _read_context(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify"):
        raise ConfigError(f"{path}: insecure-skip-tls-verify is not supported: give certificate-authority")
    try:
        authority = _data(cluster, "certificate-authority", path)
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
        certificate, key = _data(user, "client-certificate", path), _data(user, "client-key", path)
        if certificate and key:
            with _file(certificate) as first, _file(key) as second:
                context.load_cert_chain(first, second)
    except (OSError, ssl.SSLError, ValueError, binascii.Error) as error:
        raise ConfigError(f"{path}: its certificates cannot be used: {error}") from None
    return context


def _data(entry: Mapping[str, Any], name: str, path: Path) -> bytes:
    """Return what an entry has as a file, or in itself; the latter counts where both are given."""
    if entry.get(f"{name}-data"):
        return base64.b64decode(str(entry[f"{name}-data"]), validate=True)
    return (path.parent / str(entry[name])).read_bytes() if entry.get(name) else b""


@contextmanager
def _file(data: bytes) -> Iterator[str]:
    """Put a secret into a file, which only this user can read, for the time of the context."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name

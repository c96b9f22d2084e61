"""A secure cluster with known secrets of each kind, and calls of it whose answers are kept."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import yaml

from minicluster.cluster import Cluster
from minicluster.credentials import client_identity
from minicluster.settings import ClusterSettings, DaemonSettings, Instances
from peloton.client.auth import BasicAuth, read_auth
from peloton.identity.passwords import hashed

from .conftest import Harness, wait_for
from .leaks import Secret, of_key_file

SECONDS = 60
MESOS_PRINCIPAL = "hostmgr"
ROLES = ("jobmgr", "resmgr", "hostmgr")
STREAM_SECONDS = 1.5
CALLER = "/peloton.private.access.AccessService/GetCaller"
Metadata = tuple[tuple[str, str], ...]


def made(kind: str) -> str:
    """A secret whose forms all differ, from its beginning on. It is ASCII: passwords have to be."""
    return f'{kind[0]}"/+<&% {secrets.token_hex(16)}'


class ScannedCluster:
    """The cluster, its secrets, and what it has answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts: dict[str, str] = {}
        self.known: list[Secret] = []
        self.answers: list[tuple[str, bytes]] = []
        self.cluster = Cluster(folder / "cluster")
        self.layout = self.cluster.layout
        self.jobs: list[str] = []
        self.channels: dict[str, grpc.Channel] = {}

    # Secrets.

    def secret(self, name: str) -> str:
        """The secret of a name, made when it is first asked for."""
        if name not in self.texts:
            self.know(name, made(name))
        return self.texts[name]

    def know(self, name: str, text: str) -> None:
        self.texts[name] = text
        self.known.append(Secret(name, text.encode()))

    def private(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.touch(0o600)
        file.write_text(text)
        return file

    def learn(self) -> None:
        """Take up the secrets that were made with the cluster."""
        layout = self.layout
        for user in ("admin", "viewer"):
            auth = read_auth(layout.credentials_of(user))
            assert isinstance(auth, BasicAuth)
            self.know(f"password of {user}", auth.password)
        keys = layout.secret_keys.read_text().strip()
        self.know("key of the store", keys)
        self.known.append(Secret("key of the store, its bytes", base64.b64decode(keys)))
        keys = layout.task_keys.read_text().strip()
        self.know("key of tokens", keys)
        self.known.append(Secret("key of tokens, its bytes", base64.b64decode(keys)))
        self.know("secret of the agents", layout.agent_secret.read_text().strip())
        for file in layout.certificates.glob("*.key"):
            self.known += of_key_file(file)

    # The cluster.

    @contextmanager
    def up(self) -> Iterator[Harness]:
        self.know("token of the daemons", secrets.token_hex(24))
        token = self.private("token", self.texts["token of the daemons"] + "\n")
        mesos = self.private("mesos-secret", self.secret("secret of hostmgr at Mesos") + "\n")
        allowed = {"principal": MESOS_PRINCIPAL, "secret": self.secret("secret of hostmgr at Mesos")}
        credentials = self.private("mesos.json", json.dumps({"credentials": [allowed]}))
        daemon = {"debug": True, "auth": {"token_file": str(token)}}
        of_mesos = {"mesos": {"principal": MESOS_PRINCIPAL, "secret_file": str(mesos)}}
        self.cluster.up(
            ClusterSettings(
                ports="free",
                secure=True,
                instances=Instances(web=1),
                settings=DaemonSettings(
                    **dict.fromkeys(("jobmgr", "resmgr", "placement"), daemon),
                    hostmgr={**daemon, **of_mesos},
                    web={"debug": True},
                ),
                master_flags=(f"--credentials={credentials}",),
            )
        )
        try:
            self.learn()
            tls = client_identity(self.cluster.directory)["tls"].credentials()
            self.channels = {role: grpc.secure_channel(self.address(role), tls) for role in ROLES}
            self._add_user()
            harness = Harness(self.cluster)
            self.harness = harness
            yield harness
            harness.client.close()
            for channel in self.channels.values():
                channel.close()
        finally:
            self.cluster.down(keep=True)

    def _add_user(self) -> None:
        """Give the daemons a user while they run, whose password has signs that have to be escaped."""
        held = yaml.safe_load(self.layout.users.read_text())
        password = str(hashed(self.secret("password of ann")))
        held["users"].append({"username": "ann", "password": password, "role": "admin"})
        self.layout.users.write_text(yaml.safe_dump(held))
        ann = self.user("ann", self.secret("password of ann"))
        for role in ROLES:
            wait_for(partial(self.lets_in, role, ann), SECONDS)

    def lets_in(self, role: str, user: Metadata) -> bool:
        return bool(self.call(role, CALLER, b"", user))

    def auth_file(self, name: str, password: str) -> Path:
        return self.private(f"{name}.yaml", yaml.safe_dump({"username": "ann", "password": password}))

    # Calls, whose answers are kept.

    def keep(self, place: str, content: bytes | str) -> None:
        self.answers.append((place, content if isinstance(content, bytes) else content.encode()))

    def user(self, name: str, password: str) -> Metadata:
        return (("username", name), ("password", password))

    def address(self, role: str) -> str:
        return next(p.addresses["grpc"] for p in self.cluster.components() if p.kind == role)

    def call(self, role: str, path: str, request: bytes, metadata: Metadata) -> list[bytes]:
        """Call a method; keep what is answered, and why it is refused. Of a stream, the beginning is read."""
        found: list[bytes] = []
        method = self.channels[role].unary_stream(path, bytes, bytes)
        try:
            for answer in method(request, metadata=metadata, timeout=STREAM_SECONDS):
                found.append(answer)
        except grpc.RpcError as error:
            self.refused(path, error)
        for answer in found:
            self.keep(f"answer {path}", answer)
        return found

    def refused(self, path: str, error: Any) -> None:
        self.keep(f"refusal {path}", f"{error.details()} {error.trailing_metadata()} {error!r}")

    def told(self, method: Callable[..., Any], request: Any) -> Any:
        """Call a method of a stub; return the answer, or the error."""
        try:
            answer = method(request, timeout=SECONDS)
        except grpc.RpcError as error:
            self.refused(type(request).__name__, error)
            return error
        self.keep(f"answer {type(answer).__name__}", answer.SerializeToString() + str(answer).encode())
        return answer

"""The identity of a program that runs inside of a task: the token of its run, with what calls need besides.

A task that asked for it (`workload.token` in its spec) has PELOTON_TOKEN_FILE in its environment, and
PELOTON_CA_FILE, PELOTON_CERT_FILE and PELOTON_KEY_FILE where the cluster needs them: paths below
MESOS_SANDBOX.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from peloton.client.auth import BearerAuth
from peloton.errors import InvalidArgument

if TYPE_CHECKING:
    from peloton.client.tls import Tls

TOKEN_FILE = "PELOTON_TOKEN_FILE"
_FILES = (TOKEN_FILE, "PELOTON_CA_FILE", "PELOTON_CERT_FILE", "PELOTON_KEY_FILE")
_LONGEST = 4096
RENEWAL_SECONDS = 20.0
"""Seconds that one renewal may take."""


def own_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables of the environment with whole paths in place of those that begin in the sandbox."""
    found = dict(variables)
    sandbox = found.get("MESOS_SANDBOX", "")
    for name in _FILES if sandbox else ():
        path = found.get(name, "")
        if path and not PurePosixPath(path).is_absolute():
            found[name] = str(PurePosixPath(sandbox) / path)
    return found


class TaskToken:
    """The token of the task in which this program runs. It is renewed when half of its time is over."""

    def __init__(
        self, file: str | Path, renewed: Callable[[str], str], clock: Callable[[], float] = time.time
    ) -> None:
        """Read the token. `renewed` returns a new one for an old one, and may block.

        One that has expired already is renewed here. Raises InvalidArgument; never shows the token.
        """
        self._clock, self._renewed = clock, renewed
        self._renewing = threading.Lock()
        self._take(_read(file))
        if self._expires <= clock():
            self._renew()

    def __call__(self) -> str:
        """Return the token for a call, and have it renewed behind where that is due."""
        if self._clock() > self._due and self._renewing.acquire(blocking=False):
            threading.Thread(target=self._renew_behind, name="peloton token", daemon=True).start()
        return self._token

    def _take(self, token: str) -> None:
        self._token, self._expires = token, _expiry(token)
        now = self._clock()
        self._due = now + (self._expires - now) / 2
        """When it is renewed."""

    def _renew_behind(self) -> None:
        try:
            self._renew()
        finally:
            self._renewing.release()

    def _renew(self) -> None:
        """Renew the token. Where that fails, the calls tell why, and the next one tries again."""
        import grpc

        try:
            self._take(self._renewed(self._token))
        except (grpc.RpcError, InvalidArgument):
            self._due = self._clock() + RENEWAL_SECONDS


def task_auth(file: str, addresses: str, tls: Tls | None) -> BearerAuth:
    """Return the identity of the task whose token is in a file; it is renewed at one of the job managers.

    Raises InvalidArgument.
    """
    return BearerAuth(TaskToken(file, lambda token: _renewed(token, addresses, tls)), of_task=True)


def _renewed(token: str, addresses: str, tls: Tls | None) -> str:
    """Return a new token, of the job manager that leads. Raises grpc.RpcError, InvalidArgument."""
    from peloton.client.channel import open_channel
    from peloton.client.discovery import UrlDiscovery
    from peloton.client.role_channel import follow
    from peloton.client.stubs import BlockingChannel
    from peloton.client.sync_async import Blocking
    from peloton.private.jobmgr.access import access_pb2, access_pb2_grpc

    found, metadata = UrlDiscovery({"jobmgr": addresses}, patient=True), BearerAuth(token).metadata
    leader = follow(found, "jobmgr", Blocking(), open_channel, lambda: metadata, RENEWAL_SECONDS, tls)
    with BlockingChannel(leader) as channel:
        return access_pb2_grpc.TaskAccessServiceStub(channel).GetToken(access_pb2.GetTokenRequest()).token


def _read(file: str | Path) -> str:
    try:
        text = Path(file).read_bytes()[:_LONGEST]
    except OSError as error:
        raise InvalidArgument(TOKEN_FILE, str(file), f"a readable file: {error.strerror}") from None
    token = text.decode("ascii", "replace").strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise InvalidArgument(TOKEN_FILE, str(file), "a file with the token of a task")
    _expiry(token)
    return token


def _expiry(token: str) -> float:
    """Return when a token expires, in seconds since 1970. Raises InvalidArgument."""
    parts = token.split(".")
    if len(parts) != 4 or not parts[2].isdigit():
        raise InvalidArgument(TOKEN_FILE, "the content", "the token of a task")
    return float(parts[2])

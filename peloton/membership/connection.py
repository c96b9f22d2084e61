"""ZooKeeper for asyncio: a wrapper that keeps kazoo's threads apart from the event loop.

Answers, watches and changes of the connection enter the event loop through call_soon_threadsafe, and
kazoo's exceptions become Peloton's here. While the connection is broken, calls wait until it is restored or
lost for good.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kazoo import exceptions
from kazoo.client import KazooState
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Permissions, make_acl, make_digest_acl

from peloton.clock import SystemClock
from peloton.config.errors import ConfigError
from peloton.config.private import require_private
from peloton.errors import AlreadyExists, Conflict, NotFound, PelotonError, Refused, Unavailable
from peloton.membership.client import Client, Tls
from peloton.model.amounts import duration, elapsed

WARN_FIRST, WARN_LONGEST = 2.0, 60.0
"""Seconds without a connection until the first warning, and the longest time between two."""
CLOSE_SECONDS = 2.0
log = logging.getLogger(__name__)
_quiet = logging.getLogger("peloton.membership.kazoo")
# At lower levels kazoo logs passwords, and at WARNING each try to connect.
_quiet.setLevel(logging.ERROR)
Watch = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and password for ZooKeeper."""

    user: str
    password: str = field(repr=False)

    @classmethod
    def read(cls, file: Path) -> Credentials:
        """Read a file with one line, user:password. Raises ConfigError."""
        require_private(file, "membership.credentials_file")
        try:
            user, colon, password = file.read_text().strip().partition(":")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"membership.credentials_file: {file}: {error}") from None
        if not (user and colon and password) or "\n" in password:
            raise ConfigError(f"membership.credentials_file: {file}: is not one line, user:password")
        return cls(user, password)

    @property
    def acl(self) -> list[ACL]:
        """Return the ACL of our nodes: we may change them, everybody may read them to find leaders."""
        return [make_digest_acl(self.user, self.password, all=True), make_acl("world", "anyone", read=True)]


@dataclass(frozen=True, slots=True)
class Node:
    """Content and version of a node."""

    value: bytes
    version: int
    owner: int
    """Session of an ephemeral node, else 0."""


class Connection:
    """One session after another, until closed. Belongs to the event loop that opened it."""

    def __init__(
        self, servers: str, session: float, credentials: Credentials | None = None, tls: Tls | None = None
    ) -> None:
        """Check the addresses. Raises ConfigError for invalid ones.

        With `tls`, connections are encrypted by what it returns.
        """
        self._servers = servers
        self._clock = SystemClock()
        self._acl = credentials.acl if credentials else OPEN_ACL_UNSAFE
        self._requested = session
        try:
            self._client = Client(
                servers.replace(" ", ""),
                session,
                tls,
                default_acl=self._acl,
                auth_data=[("digest", f"{credentials.user}:{credentials.password}")] if credentials else None,
                connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 1.0},
                logger=_quiet,
            )
        except ValueError as error:
            raise ConfigError(
                f"ZooKeeper's servers {servers!r} are not host:port,host:port…: {error}"
            ) from None
        self._connected = asyncio.Event()
        self._pending: set[asyncio.Future[Any]] = set()
        self._given_up = ""
        self._closing = False
        self._warning: asyncio.TimerHandle | None = None
        self._began = self._clock.monotonic()
        self.on_state: list[Callable[[str], None]] = []
        """Called on the event loop with each new KazooState: CONNECTED, SUSPENDED, LOST."""

    async def open(self) -> None:
        """Wait until the servers answer, and log that meanwhile. Raises as `connected` does."""
        loop = asyncio.get_running_loop()

        def changed(state: str) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._on_state, state, self._client.given_up())

        self._client.add_listener(changed)
        self._warn_in(WARN_FIRST)  # before the start: it is cancelled as soon as the servers are connected
        await asyncio.to_thread(self._client.start_async)
        await self.connected()

    async def close(self) -> None:
        """End the session with its ephemeral nodes, without waiting for servers that do not answer."""
        self._closing = True
        self._stop_warning()
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()

        def stop() -> None:
            with suppress(KazooTimeoutError, exceptions.KazooException):
                self._client.stop()
                self._client.close()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(stopped.set)

        threading.Thread(target=stop, name="zookeeper-close", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await stopped.wait()

    @property
    def session(self) -> int:
        """Id of the present session, 0 while there is none."""
        held = self._client.client_id
        return int(held[0] or 0) if held else 0

    @property
    def granted(self) -> float:
        """Seconds for which the servers keep the present session without a message."""
        return self._client.granted

    def trouble(self) -> str:
        """Return why the servers cannot be reached; empty where they are connected."""
        if self._given_up:
            return self._given_up
        if self._connected.is_set():
            return ""
        why = f": {self._client.tls_trouble}" if self._client.tls_trouble else ""
        seconds = self._clock.monotonic() - self._began
        return f"ZooKeeper {self._servers} has not answered for {elapsed(seconds)}{why}"

    @property
    def is_connected(self) -> bool:
        """Whether the servers are connected, as far as known."""
        return self._connected.is_set() and not self._given_up

    async def connected(self) -> None:
        """Wait until the servers are connected. Raises PelotonError where that cannot happen any more."""
        await self._connected.wait()
        self._require_usable()

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """Return a node. Raises NotFound."""
        value, stat = await self._call(self._client.get_async, path, watch=self._on_loop(watch))
        return Node(value, stat.version, stat.ephemeralOwner)

    async def exists(self, path: str, watch: Watch | None = None) -> bool:
        """Return whether a node exists."""
        return await self._call(self._client.exists_async, path, watch=self._on_loop(watch)) is not None

    async def is_unprotected(self, path: str) -> bool:
        """Return whether anybody may change or delete the node, though we have credentials."""
        if self._acl is OPEN_ACL_UNSAFE:
            return False
        with suppress(NotFound):
            acl, _ = await self._call(self._client.get_acls_async, path)
            return any(each.id.scheme == "world" and each.perms & ~Permissions.READ for each in acl)
        return False

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names of the children of a node. Raises NotFound."""
        found = await self._call(self._client.get_children_async, path, watch=self._on_loop(watch))
        return list(found)

    async def make(self, path: str) -> None:
        """Create a persistent node and its ancestors, where they are missing."""
        await self._call(self._client.ensure_path_async, path)

    async def create(self, path: str, value: bytes, ephemeral: bool = False, sequence: bool = False) -> str:
        """Create a node and return its path.

        Raises AlreadyExists, and NotFound where the parent is missing.
        """
        return str(
            await self._call(self._client.create_async, path, value, ephemeral=ephemeral, sequence=sequence)
        )

    async def delete(self, path: str) -> None:
        """Delete a node, if it exists."""
        with suppress(NotFound):
            await self._call(self._client.delete_async, path)

    async def commit(self, *steps: Step) -> list[Any]:
        """Commit all steps or none; return their results. Raises the failure of the first that failed."""
        transaction = self._transaction(steps)
        return _committed(transaction, await self._call(transaction.commit_async))

    # For other threads than that of the event loop.

    def commit_blocking(self, timeout: float, *steps: Step) -> list[Any]:
        """Do as `commit`. Raises Unavailable, too, where there is no answer in `timeout` seconds."""
        transaction = self._transaction(steps)
        return _committed(transaction, self._blocking(timeout, "a transaction", transaction.commit_async))

    def get_blocking(self, timeout: float, path: str) -> Node:
        """Do as `get`. Raises Unavailable, too, where there is no answer in `timeout` seconds."""
        value, stat = self._blocking(timeout, path, self._client.get_async, path)
        return Node(value, stat.version, stat.ephemeralOwner)

    def _blocking(self, timeout: float, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        self._require_usable()
        try:
            return call(*arguments).get(timeout=timeout)
        except KazooTimeoutError:
            raise Unavailable(f"ZooKeeper: {what}: no answer in {duration(timeout)}") from None
        except exceptions.KazooException as error:
            raise _translated(error, what) from None

    def _transaction(self, steps: Iterable[Step]) -> Any:
        transaction = self._client.transaction()
        for step in steps:
            step(transaction, self._acl)
        return transaction

    # Parts.

    async def _call(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self._require_usable()
        loop, what = asyncio.get_running_loop(), str(arguments[0]) if arguments else "a transaction"
        future: asyncio.Future[Any] = loop.create_future()

        def answered(result: Any) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_resolve, future, result, what)

        self._pending.add(future)
        try:
            call(*arguments, **named).rawlink(answered)
            return await future
        finally:
            self._pending.discard(future)

    def _on_loop(self, watch: Watch | None) -> Callable[[Any], None] | None:
        if watch is None:
            return None
        loop, notify = asyncio.get_running_loop(), watch

        def fired(event: Any) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(notify)

        return fired

    def _on_state(self, state: str, given_up: str = "") -> None:
        if state == KazooState.CONNECTED:
            self._connected.set()
            self._stop_warning()
            self._check_granted()
        elif self._connected.is_set():
            self._connected.clear()
            self._began = self._clock.monotonic()
            self._warn_in(WARN_FIRST)
        log.info("ZooKeeper %s: %s", self._servers, state.lower())
        self._give_up(given_up)
        if state == KazooState.LOST:
            self._fail_pending()
        for each in self.on_state:
            each(state)

    def _warn_in(self, seconds: float) -> None:
        """Log a warning after `seconds`, and again in growing pauses, until the servers are connected."""

        def warn() -> None:
            self._give_up(self._client.given_up())
            if not self._given_up:
                log.warning("%s, trying again", self.trouble())
                self._warn_in(min(2 * seconds, WARN_LONGEST))

        if not self._closing:
            self._warning = asyncio.get_running_loop().call_later(seconds, warn)

    def _stop_warning(self) -> None:
        if self._warning is not None:
            self._warning.cancel()

    def _give_up(self, given_up: str) -> None:
        """Fail all present and later waits, if there is a reason to give up."""
        if given_up and not self._closing:
            self._given_up = f"ZooKeeper {self._servers} {given_up}"
            self._connected.set()

    def _require_usable(self) -> None:
        if self._given_up:
            raise PelotonError(self._given_up)

    def _fail_pending(self) -> None:
        """Fail the pending calls of the ended session.

        kazoo does so itself, except for calls that were made just before it ended the session.
        """
        for future in self._pending:
            if not future.done():
                future.set_exception(Unavailable("ZooKeeper: the session has ended"))

    def _check_granted(self) -> None:
        """Log where the servers grant a session of another length than the one requested."""
        if self.granted < self._requested:
            log.warning(
                "ZooKeeper %s grants sessions of %g s, its maxSessionTimeout, which counts: "
                "membership.session_seconds is %g",
                self._servers, self.granted, self._requested,
            )  # fmt: skip


Step = Callable[[Any, Iterable[ACL]], None]
"""Adds one operation to a transaction."""


def check(path: str, version: int) -> Step:
    """Return the step that checks the version of a node."""
    return lambda transaction, acl: transaction.check(path, version)


def put(path: str, value: bytes, version: int) -> Step:
    """Return the step that sets the content of a node."""
    return lambda transaction, acl: transaction.set_data(path, value, version)


def add(path: str, value: bytes) -> Step:
    """Return the step that creates an ephemeral node."""
    return lambda transaction, acl: transaction.create(path, value, acl=acl, ephemeral=True)


def drop(path: str) -> Step:
    """Return the step that deletes a node."""
    return lambda transaction, acl: transaction.delete(path)


def _committed(transaction: Any, results: list[Any]) -> list[Any]:
    """Return the results of a transaction. Raises the failure of the first operation that failed."""
    for operation, result in zip(transaction.operations, results, strict=True):
        if isinstance(result, Exception) and not isinstance(
            result, exceptions.RolledBackError | exceptions.RuntimeInconsistency
        ):
            raise _translated(result, operation.path)
    return list(results)


def _resolve(future: asyncio.Future[Any], result: Any, what: str) -> None:
    if future.done():
        return
    if result.exception is None:
        future.set_result(result.value)
    else:
        future.set_exception(_translated(result.exception, what))


def _translated(error: Exception, what: str) -> PelotonError:
    text = f"ZooKeeper: {what}: {type(error).__name__.removesuffix('Error')}"
    if isinstance(error, exceptions.NoAuthError):
        text += ": it belongs to other credentials than those of membership.credentials_file"
    for kind, mapped in _ERRORS:
        if isinstance(error, kind):
            return mapped(text)
    return Unavailable(text)


_ERRORS: tuple[tuple[type[Exception], type[PelotonError]], ...] = (
    (exceptions.NoNodeError, NotFound),
    (exceptions.NodeExistsError, AlreadyExists),
    (exceptions.BadVersionError, Conflict),
    (exceptions.NotEmptyError, Refused),
    (exceptions.NoAuthError, Refused),
    (exceptions.AuthFailedError, Refused),
    (exceptions.InvalidACLError, Refused),
    (exceptions.BadArgumentsError, Refused),
)
"""All others (the connection broke, the session ended) become Unavailable."""

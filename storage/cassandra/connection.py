"""A connection to the cluster: the driver's session and the prepared statements.

It belongs to no event loop; several handles may share it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cassandra import AuthenticationFailed, ConsistencyLevel, ProtocolVersion, UnresolvableContactPoints
from cassandra.auth import PlainTextAuthenticator, PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, DefaultConnection, ExecutionProfile, Session
from cassandra.connection import ConnectionBusy, ConnectionException, ConnectionShutdown
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    ExponentialReconnectionPolicy,
    FallthroughRetryPolicy,
    TokenAwarePolicy,
)
from cassandra.query import PreparedStatement, tuple_factory

from peloton.errors import Refused, Unavailable
from storage.cassandra.access import Access, access
from storage.cassandra.batch_encoder import EncodedBatches
from storage.cassandra.errors import DRIVER_ERRORS, translated
from storage.cassandra.statements import conditional, statements
from storage.config import CassandraSettings

_RECONNECT_FIRST, _RECONNECT_LAST = 0.25, 5.0
"""Seconds between tries to reach an unavailable server."""
_PREPARING_AT_ONCE = 4
_BYTES_AT_ONCE = 64 * 1024
"""Most bytes of one system call; the driver's 4,096 make hundreds of calls of one batch."""
_UNSURE = "Unable to perform authentication"
"""Part of the error of a server that cannot check a password."""


class _Credentials(PlainTextAuthProvider):  # type: ignore[misc]
    """Credentials that remember whether a server has accepted them."""

    def __init__(self, username: str, password: str) -> None:
        super().__init__(username, password)
        self.accepted = False

    def new_authenticator(self, host: str) -> PlainTextAuthenticator:
        return _Authenticator(self)


class _Authenticator(PlainTextAuthenticator):  # type: ignore[misc]
    def __init__(self, credentials: _Credentials) -> None:
        super().__init__(credentials.username, credentials.password)
        self.credentials = credentials

    def on_authentication_success(self, token: bytes | None) -> None:
        self.credentials.accepted = True


class _FailFast(DefaultConnection):  # type: ignore[misc]
    """Fail at once where the server closes the connection during the handshake, instead of at the time-out.

    Servers that are starting or stopping do so. The driver never reconnects to a server that once refused its
    password. Servers that have just started refuse it while they cannot read their users: that is treated
    as any other failure here.
    """

    in_buffer_size = out_buffer_size = _BYTES_AT_ONCE

    @classmethod
    def factory(cls, endpoint: Any, timeout: float, *args: Any, **kwargs: Any) -> DefaultConnection:
        try:
            return super().factory(endpoint, timeout, *args, **kwargs)
        except AuthenticationFailed as error:
            authenticator = kwargs.get("authenticator")
            accepted = isinstance(authenticator, _Authenticator) and authenticator.credentials.accepted
            if accepted or _UNSURE in str(error):
                raise ConnectionException(str(error), endpoint) from error
            raise

    def send_msg(self, msg: Any, request_id: int, *args: Any, **kwargs: Any) -> int:
        """Release the slot of a request that is not sent, which the driver forgets; it has 32,768."""
        try:
            size: int = super().send_msg(msg, request_id, *args, **kwargs)
        except ConnectionBusy:
            with self.lock:
                self.request_ids.append(request_id)
                self.in_flight -= 1
            raise
        return size

    def close(self) -> None:
        super().close()
        if not self.connected_event.is_set():
            if self.last_error is None:  # type: ignore[has-type]
                self.last_error = ConnectionShutdown("closed during the handshake")
            self.connected_event.set()


class Connection:
    """A session of the driver with its prepared statements, opened by `connect`."""

    def __init__(self, cluster: Cluster, session: Session) -> None:
        self._cluster = cluster
        self.session = session
        self.prepared: Mapping[str, PreparedStatement] = {}

    def prepare(self) -> None:
        """Prepare all named statements; blocks. Raises PelotonError."""
        named = statements()
        with ThreadPoolExecutor(_PREPARING_AT_ONCE) as pool:
            try:
                prepared = list(pool.map(self.session.prepare, named.values()))
            except DRIVER_ERRORS as error:
                raise translated(error) from error
        for text, statement in zip(named.values(), prepared, strict=True):
            statement.is_idempotent = not conditional(text)
        self.prepared = dict(zip(named, prepared, strict=True))

    def execute(self, text: str, values: tuple[object, ...] = ()) -> list[Any]:
        """Execute one statement that is not prepared; blocks. Raises PelotonError."""
        try:
            return list(self.session.execute(text, values or None))
        except DRIVER_ERRORS as error:
            raise translated(error) from error

    def close(self) -> None:
        """Close the connection; blocks."""
        self._cluster.shutdown()


class NoKeyspace(Refused):
    """The keyspace does not exist, or is just being created by another machine."""


def connect(settings: CassandraSettings, keyspace: str | None) -> Connection:
    """Connect to the cluster; blocks.

    Raises Unavailable where no server answers, Refused where the user or the keyspace is not accepted.
    """
    # It logs several lines for every failed try; errors are raised anyway.
    logging.getLogger("cassandra").setLevel(logging.CRITICAL)
    allowed = access(settings)
    try:
        cluster = _cluster(settings, allowed)
    except UnresolvableContactPoints:
        names = ", ".join(settings.contact_points)
        raise Unavailable(f"Cassandra cannot be reached: no address is known of {names}") from None
    try:
        session = cluster.connect()
        session.client_protocol_handler = EncodedBatches
        if keyspace is not None:
            session.set_keyspace(keyspace)
    except DRIVER_ERRORS as error:
        wrong = misplaced(settings, _data_centers(cluster))
        cluster.shutdown()
        raise Refused(f"Cassandra: {wrong}") if wrong else _explained(error, settings) from error
    wrong = misplaced(settings, _data_centers(cluster))
    if wrong:
        cluster.shutdown()
        raise Refused(f"Cassandra: {wrong}")
    return Connection(cluster, session)


def misplaced(settings: CassandraSettings, centers: Collection[str]) -> str:
    """Describe what is wrong with the settings for a cluster in these data centers, if anything.

    Of several data centers one must be named. If quorums are within a data center, two daemons that each took
    the first to answer could miss each other's writes.
    """
    listed = ", ".join(sorted(centers))
    if settings.datacenter:
        known = not centers or settings.datacenter in centers
        return "" if known else f"there is no data center {settings.datacenter}, but {listed}"
    local = settings.consistency.startswith("LOCAL_") or settings.serial_consistency == "LOCAL_SERIAL"
    if local and len(centers) > 1:
        return f"the servers are in {listed}: storage.datacenter must name one"
    return ""


def _data_centers(cluster: Cluster) -> set[str]:
    """Return the data centers known so far."""
    return {host.datacenter for host in cluster.metadata.all_hosts() if host.datacenter}


def _cluster(settings: CassandraSettings, allowed: Access) -> Cluster:
    return Cluster(
        list(settings.contact_points),
        port=settings.port,
        connection_class=_FailFast,
        auth_provider=_Credentials(allowed.username, allowed.password) if allowed.username else None,
        ssl_context=allowed.tls,
        execution_profiles={EXEC_PROFILE_DEFAULT: _profile(settings)},
        connect_timeout=settings.connect_timeout,
        control_connection_timeout=settings.connect_timeout,
        reconnection_policy=ExponentialReconnectionPolicy(
            _RECONNECT_FIRST, _RECONNECT_LAST, max_attempts=None
        ),
        protocol_version=ProtocolVersion.V5,
        prepare_on_all_hosts=False,
        idle_heartbeat_interval=10,
        idle_heartbeat_timeout=settings.connect_timeout,
    )


def _profile(settings: CassandraSettings) -> ExecutionProfile:
    # Requests are repeated by storage.cassandra.session alone, which knows which of them may be.
    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(settings.datacenter)),
        retry_policy=FallthroughRetryPolicy(),
        consistency_level=ConsistencyLevel.name_to_value[settings.consistency],
        serial_consistency_level=ConsistencyLevel.name_to_value[settings.serial_consistency],
        request_timeout=settings.request_timeout,
        row_factory=tuple_factory,
    )


def _explained(error: BaseException, settings: CassandraSettings) -> Exception:
    text = str(error)
    if "Keyspace" in text and "does not exist" in text:
        return NoKeyspace(f"keyspace {settings.keyspace} does not exist: peloton-migrate up creates it")
    return translated(error)

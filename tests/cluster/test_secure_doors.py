"""Attacks on the ports of a secure cluster, without credentials or with wrong ones: others are served."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import httpx2
import pytest

from minicluster.cluster import Cluster
from minicluster.components import WEB, Component
from minicluster.credentials import client_identity, https_context
from minicluster.settings import ClusterSettings, Instances
from peloton.client import LocalDiscovery, PelotonClient
from peloton.client.auth import BasicAuth, read_auth
from peloton.private.access import access_pb2

HALF_SENT, GUESSES, DEADLINE = 400, 60, 60.0
HEADER_MIB = 300


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with TemporaryDirectory(prefix="peloton-doors-") as folder:
        found = Cluster(Path(folder) / "cluster")
        found.up(ClusterSettings(ports="free", secure=True, instances=Instances(web=1)))
        try:
            yield found
        finally:
            found.down()


@pytest.fixture(params=["jobmgr", WEB])
def part(request: pytest.FixtureRequest, cluster: Cluster) -> Component:
    return next(each for each in cluster.components() if each.kind == request.param)


def https(cluster: Cluster) -> ssl.SSLContext:
    context = https_context(cluster.layout)
    assert context is not None
    return context


def connected(cluster: Cluster, part: Component) -> ssl.SSLSocket:
    host, port = _address(part)
    plain = socket.create_connection((host, port), DEADLINE)
    return https(cluster).wrap_socket(plain, server_hostname=host)


def healthy(cluster: Cluster, part: Component) -> bool:
    address = part.addresses["http"].rpartition("//")[2]
    with httpx2.Client(verify=https(cluster), trust_env=False, timeout=DEADLINE) as client:
        return client.get(f"https://{address}/health").status_code == 200


def called(cluster: Cluster, auth: BasicAuth | None = None) -> str:
    """Call jobmgr by a new connection; return who it takes us for."""
    identity = client_identity(cluster.directory)
    with PelotonClient(
        "doors",
        discovery=LocalDiscovery(cluster.layout.membership),
        auth=auth or identity["auth"],
        tls=identity["tls"],
    ) as client:
        answer = client.jobmgr_access_svc.GetCaller(access_pb2.GetCallerRequest(), timeout=DEADLINE)
        return str(answer.name)


def memory_mib(cluster: Cluster, part: Component) -> float:
    (pid,) = (each.pid for each in cluster.status() if each.name == part.name)
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"{part.name} has no memory")


def test_half_sent_requests_take_no_calls_and_no_health(cluster: Cluster, part: Component) -> None:
    with ExitStack() as held:
        for _ in range(HALF_SENT):
            plain = socket.create_connection(_address(part), DEADLINE)
            held.callback(plain.close)  # a handshake of TLS that never comes
        assert healthy(cluster, part)
        assert called(cluster) == "admin"


def test_headers_without_end_are_not_kept(cluster: Cluster, part: Component) -> None:
    before, sent = memory_mib(cluster, part), 0
    piece = b"x" * 65536
    with connected(cluster, part) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: ")
        with suppress(OSError):  # the connection is closed
            while sent < HEADER_MIB * 2**20:
                connection.sendall(piece)
                sent += len(piece)
    assert sent < HEADER_MIB * 2**20
    assert memory_mib(cluster, part) - before < 50
    assert healthy(cluster, part)


LARGE = {"bytes": b"x: " + b"a" * 200_000 + b"\r\n", "number": b"x: a\r\n" * 20_000}


@pytest.mark.parametrize("headers", LARGE.values(), ids=LARGE.keys())
def test_large_headers_are_refused(cluster: Cluster, part: Component, headers: bytes) -> None:
    with connected(cluster, part) as connection:
        try:
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + headers + b"\r\n")
            answer = connection.recv(100)
        except OSError:
            return  # closed while it was being sent
    assert answer.split(b" ")[1:2] in ([b"400"], [b"431"], [])


@pytest.mark.extended
def test_guesses_of_passwords_delay_nobody(cluster: Cluster) -> None:
    viewer = read_auth(cluster.layout.credentials_of("viewer"))
    assert isinstance(viewer, BasicAuth)
    assert (called(cluster), called(cluster, viewer)) == ("admin", "viewer")
    with guessing(cluster) as codes:
        for _ in range(20):  # each by a new connection, and none is refused or late
            assert called(cluster) == "admin"
            assert called(cluster, viewer) == "viewer"
    assert codes <= {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED}


@contextmanager
def guessing(cluster: Cluster) -> Iterator[set[grpc.StatusCode]]:
    """Guess all the time, each guess another one."""
    stop, codes = threading.Event(), set[grpc.StatusCode]()
    address = next(each for each in cluster.components() if each.kind == "jobmgr").addresses["grpc"]
    credentials = client_identity(cluster.directory)["tls"].credentials()
    channel = grpc.secure_channel(address, credentials)
    call = channel.unary_unary("/peloton.api.v0.job.JobManager/Get", bytes, bytes)

    def guess(number: int) -> None:
        tries = 0
        while not stop.is_set():
            tries += 1
            metadata = (("username", f"name{number}"), ("password", f"guess{tries}"))
            try:
                call(b"", metadata=metadata, timeout=DEADLINE)
            except grpc.RpcError as error:
                codes.add(error.code())

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(GUESSES)]
    for thread in threads:
        thread.start()
    try:
        yield codes
    finally:
        stop.set()
        for thread in threads:
            thread.join(DEADLINE)
        channel.close()


def _address(part: Component) -> tuple[str, int]:
    host, _, port = part.addresses["http"].rpartition("//")[2].rpartition(":")
    return host, int(port)

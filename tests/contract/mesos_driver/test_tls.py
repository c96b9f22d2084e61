"""TLS between hostmgr and the master: whom it trusts, as whom it comes, and what it says when that fails."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostmgr.config import MesosSettings
from mesos.v1 import mesos_pb2
from peloton.config.errors import ConfigError
from peloton.config.loading import validated
from peloton.errors import Unavailable
from peloton.mesos.codec import codec
from peloton.mesos.detector import MasterAddress, StaticMaster
from peloton.mesos.http import BrokenHttp, connect
from peloton.mesos.operator import OperatorClient
from peloton.mesos.tls import contexts
from tests.contract.mesos_driver.certificates import Authority, Identity
from tests.contract.mesos_driver.processes import Client, Processes, connected
from tests.waiting import until

HERE = "DNS:localhost,IP:127.0.0.1"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def serving(identity: Identity | None, name: str = "") -> AsyncIterator[MasterAddress]:
    """Somebody who says nothing, in TLS with an identity."""
    context = None
    if identity is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"welcome, whoever you are\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
    try:
        yield MasterAddress("127.0.0.1", server.sockets[0].getsockname()[1], name)
    finally:
        server.close()


async def greeting(master: MasterAddress, tls: ssl.SSLContext) -> bytes:
    reader, writer = await connect(master, 5.0, tls)
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_the_announced_hostname_of_a_master_is_checked(authority: Authority) -> None:
    tls = contexts(authority.file, None, None)()
    identity = authority.identity("master", "DNS:master-1.example")
    async with serving(identity, "master-1.example") as master:
        assert await greeting(master, tls)
    async with serving(identity, "master-2.example") as master:
        with pytest.raises(BrokenHttp, match=r"master-2\.example is not trusted: Hostname mismatch"):
            await connect(master, 5.0, tls)
    async with serving(identity) as master:
        with pytest.raises(BrokenHttp, match=r"127\.0\.0\.1 is not trusted: IP address mismatch"):
            await connect(master, 5.0, tls)


async def test_other_authorities_are_not_trusted(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    async with serving(authority.identity("master", HERE)) as master:
        for tls in (contexts(other.file, None, None)(), contexts(None, None, None)()):
            with pytest.raises(BrokenHttp, match="not trusted: unable to get local issuer certificate"):
                await connect(master, 5.0, tls)


async def test_a_master_without_tls(authority: Authority) -> None:
    async with serving(None) as master:
        with pytest.raises(BrokenHttp, match=r"does not speak TLS \(see mesos\.tls\.enabled\)"):
            await connect(master, 5.0, contexts(authority.file, None, None)())


def test_files_that_are_none(authority: Authority, tmp_path: Path) -> None:
    one, another = (authority.identity(name, HERE) for name in ("one", "another"))
    text = tmp_path / "text"
    text.write_text("no certificate")
    for file in (text, one.certificate):
        file.chmod(0o600)  # they are taken for files with keys
    wrong: list[tuple[tuple[Path | None, Path | None, Path | None], str]] = [
        ((tmp_path / "nosuch", None, None), "ca_file: .*No such file"),
        ((text, None, None), "ca_file: .*is not a PEM file with certificates"),
        ((None, text, None), "certificate_file: .*is not a PEM file"),
        ((None, one.certificate, another.key), "certificate_file: .*KEY_VALUES_MISMATCH"),
        ((None, one.certificate, None), "certificate_file: .*a certificate and its key"),
    ]
    for files, told in wrong:
        with pytest.raises(ConfigError, match=told) as caught:
            contexts(*files)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("tls", "told"),
    [
        ({"ca_file": "x"}, "files are given, but enabled is not true"),
        ({"enabled": True, "key_file": "x"}, "a key_file needs a certificate_file"),
    ],
)
def test_settings_that_do_not_fit_together(tls: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        validated(MesosSettings, {"tls": tls}, "test")


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    held = Processes(tmp_path)
    try:
        yield held
    finally:
        held.stop()


def of_master(identity: Identity, *more: str) -> tuple[str, ...]:
    return (f"--tls-certificate={identity.certificate}", f"--tls-key={identity.key}", *more)


async def test_a_task_over_tls_with_a_certificate_of_hostmgrs_own(
    processes: Processes, authority: Authority
) -> None:
    own = authority.identity("hostmgr", "DNS:hostmgr")
    flags = of_master(authority.identity("master", HERE), f"--tls-client-ca={authority.file}")
    await processes.start_master(*flags)
    nobody = contexts(authority.file, None, None)
    at = StaticMaster(MasterAddress("127.0.0.1", processes.master_port))
    with pytest.raises(Unavailable, match="Mesos GET_AGENTS"):
        await OperatorClient(at, codec("protobuf"), tls=nobody).agents()
    files = {"certificate_file": str(own.certificate), "key_file": str(own.key)}
    await processes.start_hostmgr(tls={"enabled": True, "ca_file": str(authority.file), **files})
    client = await connected(processes)
    await client.open_stream()
    (offer,) = await client.acquire()
    request = client.launch_request(offer)
    await client.hosts.LaunchTasks(request)
    await _finished(client, request.tasks[0].taskId.value)
    await client.close()


async def _finished(client: Client, run: str) -> None:
    await client.pull_until(lambda: (run, mesos_pb2.TASK_FINISHED) in client.seen)


async def test_a_wrong_authority_is_logged_in_one_line_with_each_try(
    processes: Processes, authority: Authority, tmp_path: Path
) -> None:
    await processes.start_master(*of_master(authority.identity("master", HERE)))
    other = Authority(tmp_path, "other")
    await processes.start_hostmgr(tls={"enabled": True, "ca_file": str(other.file)})

    def tries() -> list[str]:
        return [line for line in processes.log("hostmgr").splitlines() if "trying again in" in line]

    await until(lambda: len(tries()) >= 2, "it tries again")
    told = "the certificate of 127.0.0.1 is not trusted: unable to get local issuer certificate"
    assert all(told in line and "mesos.tls.ca_file" in line for line in tries())
    assert "Traceback" not in processes.log("hostmgr")


async def test_files_that_have_changed_count_for_the_next_connection(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other, ca = Authority(tmp_path, "other"), tmp_path / "trusted.pem"
    shutil.copy(other.file, ca)
    tls = contexts(ca, None, None)
    async with serving(authority.identity("master", HERE)) as master:
        with pytest.raises(BrokenHttp, match="not trusted"):
            await connect(master, 5.0, tls())
        shutil.copy(authority.file, ca)
        assert await greeting(master, tls())
        ca.write_text("nothing of the kind")
        assert await greeting(master, tls())  # as it was
        assert caplog.text.count("certificates are as they were: mesos.tls.ca_file: ") == 1

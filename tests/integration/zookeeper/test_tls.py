"""A real ZooKeeper that speaks TLS at its secureClientPort, and asks for certificates."""

from __future__ import annotations

import asyncio
import datetime
import re
import socket
import ssl
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from minicluster.ports import FreePorts
from peloton.cli.app import cli
from peloton.client.discovery import DiscoveryError, ZooKeeperDiscovery
from peloton.client.environment import settings_from_environment
from peloton.client.tls import Tls
from peloton.clock import SystemClock
from peloton.config.errors import ConfigError
from peloton.config.loading import validated
from peloton.config.membership import ZooKeeperMembershipSettings
from peloton.config.private import write_private
from peloton.config.settings import DaemonSettings
from peloton.daemon.servers import of_zookeeper
from peloton.identity.certs import LOOPBACK, Pair, authority_in, issue, make_authority
from peloton.membership.factory import membership
from peloton.membership.interface import Role
from peloton.membership.lease import Standing
from peloton.membership.zookeeper import ZooKeeperMembership
from tests.servers.zookeeper import new_zookeeper
from tests.waiting import until

from .conftest import member, standing

NOW = datetime.datetime.now(datetime.UTC)
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Secure:
    """The server, its authority, and a certificate for callers."""

    address: str
    folder: Path
    own: Pair

    @property
    def ca(self) -> Path:
        return authority_in(self.folder).certificate

    def tls(self, **changes: Any) -> dict[str, Any]:
        own = {"certificate_file": self.own.certificate, "key_file": self.own.key}
        return {"enabled": True, "ca_file": self.ca, **own, **changes}


def answers(address: str, context: ssl.SSLContext) -> bool:
    host, _, port = address.partition(":")
    try:
        with (
            socket.create_connection((host, int(port)), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure-zookeeper")
    make_authority(folder, "test", NOW)
    shown = issue(folder, "zookeeper", LOOPBACK, 1, NOW)
    own = issue(folder, "jobmgr", LOOPBACK, 1, NOW)
    both = folder / "both.pem"
    both.write_bytes(shown.key.read_bytes() + shown.certificate.read_bytes())
    server, port = new_zookeeper(folder / "server"), FreePorts(owner=folder).take()
    with (server.folder / "zoo.cfg").open("a") as config:
        config.write(
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            f"secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n"
            f"ssl.keyStore.location={both}\nssl.keyStore.type=PEM\n"
            f"ssl.trustStore.location={authority_in(folder).certificate}\nssl.trustStore.type=PEM\n"
            "ssl.clientAuth=need\nssl.hostnameVerification=false\n"
        )
    server.start()
    try:
        found = Secure(f"127.0.0.1:{port}", folder, own)
        context = Tls(str(found.ca), str(own.certificate), str(own.key)).context()
        deadline = time.monotonic() + SECONDS
        while not answers(found.address, context):
            assert time.monotonic() < deadline, (server.folder / "output.log").read_text()[-3000:]
        yield found
    finally:
        server.kill()


def joined(secure: Secure, root: str, **changes: Any) -> ZooKeeperMembership:
    tree = {"servers": secure.address, "root": root, "tls": secure.tls(), **changes}
    found = membership(validated(DaemonSettings, {"membership": tree}, "test").membership)
    assert isinstance(found, ZooKeeperMembership)
    return found


@pytest.fixture
def root() -> str:
    return f"/{uuid.uuid4().hex}"


async def test_leaders_are_elected_and_found_by_tls(secure: Secure, root: str, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    write_private(credentials, "peloton:pw-of-zookeeper")
    own = joined(secure, root, credentials_file=credentials)
    await own.start()
    try:
        leadership = await own.campaign(member("one"))
        await until(lambda: standing(leadership) is Standing.HELD)
        tls = Tls(str(secure.ca), str(secure.own.certificate), str(secure.own.key))
        with closing(ZooKeeperDiscovery(secure.address, root, 30.0, tls=tls)) as found:
            await until(lambda: found.address("resmgr") == "127.0.0.1:2")
        variables = {"ZK_SERVERS": secure.address, "ZK_ROOT": root, "ZK_TLS": "1"}
        variables |= {"PELOTON_CA_FILE": tls.ca, "PELOTON_CERT_FILE": tls.cert, "PELOTON_KEY_FILE": tls.key}
        given = settings_from_environment(variables)["discovery"]
        assert given.address("resmgr") == "127.0.0.1:2"
        given.close()
        runner = CliRunner(env={**variables, "BASIC_AUTH_CONFIG": ""})
        assert "127.0.0.1:2" in str(runner.invoke(cli, ["--debug", "-t", "5s", "respool", "dump"]))
    finally:
        await own.close()


async def test_its_certificate_is_told_before_its_end(secure: Secure, root: str) -> None:
    tree = {"servers": f"{secure.address}/below", "root": root, "tls": secure.tls()}
    found = validated(DaemonSettings, {"membership": tree}, "test").membership
    assert isinstance(found, ZooKeeperMembershipSettings)
    told = await of_zookeeper(found, SystemClock())()
    assert {each.text.partition(" ends in ")[0] for each in told} == {
        f"The certificate {secure.own.certificate}",
        f"The certificate of ZooKeeper at {secure.address}",
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ca_file": "other"}, "the certificate of 127.0.0.1 is not trusted: .*membership.tls.ca_file"),
        ({"ca_file": None}, "the certificate of 127.0.0.1 is not trusted: "),
        ({"certificate_file": None, "key_file": None}, ""),
    ],
)
async def test_the_wrong_certificates_reach_nothing(
    secure: Secure, root: str, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    if changes.get("ca_file"):
        changes = {"ca_file": make_authority(tmp_path / "other", "other", NOW).certificate}
    found = joined(secure, root, tls=secure.tls(**changes))
    starting = asyncio.create_task(found.start())
    try:
        await until(lambda: bool(re.search(f"has not answered for .*{said}", found.trouble())))
        await asyncio.wait({starting}, timeout=1.0)
        assert not starting.done()
    finally:
        starting.cancel()
        await found.close()


def test_a_client_says_why_it_finds_nothing(secure: Secure, root: str) -> None:
    found = ZooKeeperDiscovery(secure.address, root, 2.0, tls=Tls())
    with closing(found), pytest.raises(DiscoveryError, match="is not trusted"):
        found.address("resmgr")


async def test_files_are_read_again_for_each_connection(secure: Secure, root: str, tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    make_authority(tmp_path / "other", "other", NOW)
    ca.write_bytes(authority_in(tmp_path / "other").certificate.read_bytes())
    found = joined(secure, root, tls=secure.tls(ca_file=ca))
    starting = asyncio.create_task(found.start())
    try:
        await until(lambda: "is not trusted" in found.trouble())
        ca.write_bytes(secure.ca.read_bytes())
        async with asyncio.timeout(SECONDS):
            await starting
        assert found.leader(Role.RESMGR) is None
    finally:
        starting.cancel()
        await found.close()


def test_files_that_are_wrong_are_refused_at_start(secure: Secure, root: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"membership\.tls\.ca_file: .*No such file"):
        joined(secure, root, tls=secure.tls(ca_file=tmp_path / "none"))
    with pytest.raises(ConfigError, match="tls: files are given, but enabled is not true"):
        joined(secure, root, tls=secure.tls(enabled=False))

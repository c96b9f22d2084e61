"""TLS between daemons and clients: who is let in, names, rotation; the certificates of `peloton certs`."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
from click.testing import CliRunner
from cryptography import x509

from peloton.cli.app import cli
from peloton.client import PelotonClient
from peloton.client.tls import Tls as ClientTls
from peloton.config.encryption import TlsSettings
from peloton.config.errors import ConfigError
from peloton.config.loading import load
from peloton.config.settings import DaemonSettings
from peloton.daemon import healthcheck
from peloton.daemon.http import HttpServer
from peloton.errors import AlreadyExists, InvalidArgument
from peloton.identity.certs import LOOPBACK, Pair, authority_in, issue, make_authority
from peloton.private.access import access_pb2, access_pb2_grpc
from peloton.rpc import tls as tls_module
from peloton.rpc.access import access
from peloton.rpc.client import Channels
from peloton.rpc.server import RpcServer
from peloton.rpc.tls import Tls, tls_of


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_module, "PAUSE_SECONDS", 0.0)


NOW = datetime.datetime.now(datetime.UTC)


def authority(folder: Path, name: str = "daemon") -> Tls:
    """The credentials of a daemon with a certificate of an authority in a folder."""
    if not authority_in(folder).certificate.exists():
        make_authority(folder, "test", NOW)
    made = issue(folder, name, LOOPBACK, 1, NOW)
    return Tls(authority_in(folder).certificate, made.certificate, made.key)


@asynccontextmanager
async def serving(tls: Tls | None, client_certificates: bool = False) -> AsyncIterator[str]:
    server = RpcServer(lambda: "nobody leads")
    server.activate([access(None)])
    credentials = None if tls is None else tls.server(client_certificates)
    port = await server.start("127.0.0.1", 0, credentials=credentials)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def kind(target: str, tls: Tls | None) -> str:
    """The kind of caller that a server takes us for; the status of a failure."""
    channels = Channels(tls)
    stub = access_pb2_grpc.AccessServiceStub(channels.to(target))
    try:
        return str((await stub.GetCaller(access_pb2.GetCallerRequest(), timeout=60)).kind)
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    finally:
        await channels.close()


async def test_a_server_is_known_by_its_authority(tmp_path: Path) -> None:
    tls, other = authority(tmp_path / "a"), authority(tmp_path / "b")
    async with serving(tls) as target:
        assert await kind(target, tls) == "nobody"
        assert await kind(target, Tls(authority_in(tmp_path / "a").certificate)) == "nobody"
        assert await kind(target, other) == "UNAVAILABLE"
        assert await kind(target, None) == "UNAVAILABLE"
    async with serving(None) as target:
        assert await kind(target, tls) == "UNAVAILABLE"


async def test_callers_need_a_certificate_where_it_is_asked_for(tmp_path: Path) -> None:
    tls, stranger = authority(tmp_path / "a"), authority(tmp_path / "b")
    ca = authority_in(tmp_path / "a").certificate
    theirs = Tls(ca, *_files(tmp_path / "b", "daemon"))
    async with serving(tls, client_certificates=True) as target:
        assert await kind(target, tls) == "nobody"
        assert await kind(target, authority(tmp_path / "a", "ann")) == "nobody"
        for refused in (Tls(ca), theirs, stranger):
            assert await kind(target, refused) == "UNAVAILABLE"


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.crt", folder / f"{name}.key"


async def test_a_server_of_another_name_is_refused(tmp_path: Path) -> None:
    make_authority(tmp_path, "test", NOW)
    made = issue(tmp_path, "elsewhere", ["10.9.9.9"], 1, NOW)
    tls = Tls(authority_in(tmp_path).certificate, made.certificate, made.key)
    async with serving(tls) as target:
        assert await kind(target, tls) == "UNAVAILABLE"


async def test_an_expired_certificate_is_refused(tmp_path: Path) -> None:
    make_authority(tmp_path, "test", NOW - datetime.timedelta(days=30))
    made = issue(tmp_path, "old", LOOPBACK, 1, NOW - datetime.timedelta(days=10))
    tls = Tls(authority_in(tmp_path).certificate, made.certificate, made.key)
    async with serving(tls) as target:
        assert await kind(target, tls) == "UNAVAILABLE"


async def test_only_tls_12_and_later_is_spoken(tmp_path: Path) -> None:
    tls = authority(tmp_path)
    async with serving(tls) as target:
        host, _, port = target.partition(":")
        context = ssl.create_default_context(cafile=authority_in(tmp_path).certificate)
        context.set_alpn_protocols(["h2"])
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        assert writer.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
        writer.close()
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, OSError)):
            await asyncio.open_connection(host, int(port), ssl=context)


async def serial(target: str, ca: Path) -> int:
    """The serial number of the certificate that a server shows a new connection."""
    host, _, port = target.partition(":")
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    found = x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    writer.close()
    return int(found.serial_number)


def replace_certificate(folder: Path) -> Pair:
    for file in _files(folder, "daemon"):
        file.unlink()
    return issue(folder, "daemon", LOOPBACK, 1, NOW)


async def test_a_certificate_is_read_again_when_it_changes(tmp_path: Path) -> None:
    tls, ca = authority(tmp_path), authority_in(tmp_path).certificate
    channels = Channels(tls)
    async with serving(tls, client_certificates=True) as target:
        plain = Tls(ca, *_files(tmp_path, "daemon"))
        first = channels.to(target)
        assert channels.to(target) is first
        made = replace_certificate(tmp_path)
        expected = x509.load_pem_x509_certificate(made.certificate.read_bytes()).serial_number
        stub = access_pb2_grpc.AccessServiceStub(channels.to(target))
        assert (await stub.GetCaller(access_pb2.GetCallerRequest(), timeout=60)).kind == "nobody"
        assert channels.to(target) is not first
        assert tls.generation == 1 and plain.refresh()
    async with serving(tls) as target:
        assert await serial(target, ca) == expected
        new = replace_certificate(tmp_path)
        assert (
            await serial(target, ca)
            == x509.load_pem_x509_certificate(new.certificate.read_bytes()).serial_number
        )
        new.certificate.write_text("garbage")
        assert await serial(target, ca) != 0
        assert tls.trouble.startswith("certificates are as they were: tls.certificate_file:")
    await channels.close()


async def test_the_certificate_of_https_follows_the_files(tmp_path: Path) -> None:
    tls, ca = authority(tmp_path), authority_in(tmp_path).certificate
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, ssl=tls.http())
    async with server:
        target = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        first = await serial(target, ca)
        replace_certificate(tmp_path)
        await serial(target, ca)  # the handshake that finds the change may still show the old one
        assert await serial(target, ca) != first


@asynccontextmanager
async def https(tls: Tls, health: str = "") -> AsyncIterator[str]:
    """The HTTP port of a daemon."""
    server = HttpServer(lambda: health, tls=tls.http())
    port = server.bind("127.0.0.1", 0)
    task = asyncio.create_task(server.serve())
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop()
        await task


async def test_the_http_port_of_a_daemon_speaks_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls, other = authority(tmp_path / "a"), authority(tmp_path / "b")
    ca = authority_in(tmp_path / "a").certificate

    async def get(target: str, verify: ssl.SSLContext, scheme: str = "https") -> str:
        async with httpx2.AsyncClient(verify=verify, timeout=60, trust_env=False) as client:
            return (await client.get(f"{scheme}://{target}/health")).text

    async with https(tls) as target:
        assert await get(target, tls.https_client()) == "OK"
        assert await get(target, Tls(ca).https_client()) == "OK"
        for verify, scheme in ((other.https_client(), "https"), (tls.https_client(), "http")):
            with pytest.raises(httpx2.HTTPError):
                await get(target, verify, scheme)
        old = ssl.create_default_context(cafile=ca)
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(httpx2.HTTPError):
            await get(target, old)
        first = await serial(target, ca)
        replace_certificate(tmp_path / "a")
        await serial(target, ca)  # the handshake that finds the change may still show the old one
        assert await serial(target, ca) != first

        def check() -> int:
            return healthcheck.main([target])

        monkeypatch.setenv("PELOTON_CA_FILE", str(ca))
        assert await asyncio.to_thread(check) == 0
        monkeypatch.setenv("PELOTON_CA_FILE", str(authority_in(tmp_path / "b").certificate))
        assert await asyncio.to_thread(check) == 1
        monkeypatch.delenv("PELOTON_CA_FILE")
        assert await asyncio.to_thread(check) == 1


async def test_the_blocking_client_speaks_tls(tmp_path: Path) -> None:
    tls = authority(tmp_path)

    def ask(target: str, tls: Tls | None) -> Any:
        with PelotonClient(
            "test", jm_url=target, timeout=60, tls=None if tls is None else ClientTls(*tls.paths)
        ) as client:
            return client.jobmgr_access_svc.GetCaller(access_pb2.GetCallerRequest())

    async with serving(tls, client_certificates=True) as target:
        assert (await asyncio.to_thread(ask, target, tls)).kind == "nobody"
        with pytest.raises(grpc.RpcError, match="the server speaks TLS, and the client was given no `tls`"):
            await asyncio.to_thread(ask, target, None)


async def test_the_command_line_speaks_tls(tmp_path: Path) -> None:
    tls = authority(tmp_path)
    certificate, key = _files(tmp_path, "daemon")
    files = ["--tlsCa", str(authority_in(tmp_path).certificate)]
    own = [*files, "--tlsCert", str(certificate), "--tlsKey", str(key)]

    def run(target: str, *flags: str) -> Any:
        return CliRunner().invoke(cli, ["-m", target, "-t", "20s", *flags, "auth", "whoami"])

    async with serving(tls, client_certificates=True) as target:
        done = await asyncio.to_thread(run, target, *own)
        assert done.exit_code == 0 and done.output.startswith("nobody: this cluster asks nobody")
        refused = await asyncio.to_thread(run, target, "--tlsCert", str(certificate))
        assert refused.exit_code != 0 and "given together with" in str(refused.exception)


def test_certificates_are_made(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(cli, ["certs", *arguments])

    folder = tmp_path / "ca"
    assert run("ca", str(folder)).exit_code == 0
    assert run("issue", str(folder), "jobmgr", "--host", "10.0.0.1", "--days", "30").exit_code == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "jobmgr.key").stat().st_mode) == 0o600
    made = x509.load_pem_x509_certificate((folder / "jobmgr.crt").read_bytes())
    made.verify_directly_issued_by(x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["jobmgr", "10.0.0.1"]
    with pytest.raises(AlreadyExists, match="exists already: remove it first"):
        make_authority(folder, "again", NOW)
    with pytest.raises(InvalidArgument, match="one with an authority"):
        issue(tmp_path, "x", LOOPBACK, 1, NOW)


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    authority(tmp_path, "one"), authority(tmp_path, "two")
    ca = authority_in(tmp_path).certificate
    one, key_of_two = tmp_path / "one.crt", tmp_path / "two.key"
    with pytest.raises(ConfigError, match=r"tls\.certificate_file: .*whose key is in"):
        Tls(ca, one, key_of_two)
    with pytest.raises(
        ConfigError, match=r"tls\.ca_file: .*is not a PEM file with certificates of authorities"
    ):
        Tls(tmp_path / "one.key")
    with pytest.raises(ConfigError, match=r"tls\.ca_file: .*No such file"):
        Tls(tmp_path / "none.crt")
    key_of_two.chmod(0o644)
    with pytest.raises(ConfigError, match="its mode 0644 lets others use it"):
        Tls(ca, tmp_path / "two.crt", key_of_two)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("certificate_file: /a", "a certificate_file needs a key_file, and a key_file a certificate_file"),
        ("{certificate_file: /a, key_file: /b}", "a certificate needs a ca_file"),
        ("client_certificates: true", "client_certificates needs ca_file, certificate_file and key_file"),
        ("ca_file: /a", "a daemon needs tls.certificate_file and tls.key_file too"),
    ],
)
def test_half_of_the_settings_are_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "daemon.yaml"
    file.write_text(f"tls: {text if text.startswith('{') else '{' + text + '}'}\n")
    with pytest.raises(ConfigError, match=said):
        load(DaemonSettings, [file])


def test_without_settings_there_is_no_tls() -> None:
    assert tls_of(TlsSettings()) is None

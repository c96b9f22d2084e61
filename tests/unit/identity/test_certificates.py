"""Callers by their TLS certificates: users, daemons by role, and who is let in with which."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from peloton.config.auth import AuthSettings
from peloton.config.errors import ConfigError
from peloton.config.loading import load
from peloton.config.settings import DaemonSettings
from peloton.identity.certs import LOOPBACK, Pair, authority_in, issue, make_authority
from peloton.identity.door import Door
from peloton.identity.duties import NEEDED
from peloton.identity.methods import ACCESS, for_daemons_only, split
from peloton.identity.principal import Kind, Principal
from peloton.rpc.client import opened
from peloton.rpc.tls import Tls
from tests.unit.identity.served import (
    DAEMON,
    Metadata,
    Served,
    as_user,
    basic_file,
    every_method,
    serving,
    settings,
)

OK = grpc.StatusCode.OK
UNAUTHENTICATED, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
NOW = datetime.datetime.now(datetime.UTC)
CERTIFICATES = """
certificates:
- {name: placement, daemon: placement}
- {name: jobmgr.peloton.example, daemon: jobmgr}
- {name: archiver, daemon: archiver}
- {name: ann, role: admin}
- {name: ann-laptop, user: ann, role: admin}
- {name: eve, role: unbound}
"""


def shown(folder: Path, name: str, *hosts: str, days_ago: int = 0) -> Tls:
    """What a caller has who shows a certificate of the authority in a folder."""
    if not authority_in(folder).certificate.exists():
        make_authority(folder, "test", NOW - datetime.timedelta(days=30))
    files = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    if not files.key.exists():
        issue(folder, name, [*LOOPBACK, *hosts], 1, NOW - datetime.timedelta(days=days_ago))
    return Tls(authority_in(folder).certificate, files.certificate, files.key)


@asynccontextmanager
async def daemon(folder: Path, **more: Any) -> AsyncIterator[Served]:
    """A daemon that asks for certificates, and knows no token."""
    given = AuthSettings(type="BASIC", config_file=basic_file(folder, CERTIFICATES), **more)
    async with serving(given, tls=shown(folder, "server")) as served:
        yield served


@asynccontextmanager
async def showing(served: Served, tls: Tls | None) -> AsyncIterator[Served]:
    """The same server, called with another certificate."""
    async with opened(served.target, tls) as channel:
        yield Served(channel, served.target, served.calls, served.callers)


def duties(role: str) -> set[str]:
    return {f"/{service}/{method}" for service, methods in NEEDED[role].items() for method in methods}


@pytest.mark.parametrize("role", ["placement", "archiver"])
async def test_a_daemon_may_call_what_its_role_needs(tmp_path: Path, role: str) -> None:
    async with daemon(tmp_path) as served, showing(served, shown(tmp_path, role)) as caller:
        codes = await caller.call_all((("peloton-instance", f"{role}/one"),))
        let_in = {path for path, code in codes.items() if code is OK}
        assert {path for path in let_in if split(path)[0] != ACCESS} == {
            path for path in codes if f"/{'/'.join(split(path))}" in duties(role)
        }
        assert set(codes.values()) == {OK, DENIED} and sum(caller.calls.values()) == len(let_in)
        assert caller.callers == {Principal(f"{role}/one", Kind.DAEMON, (role,))}
        _, text = await caller.answer("/peloton.private.hostmgr.hostsvc.InternalHostService/KillTasks", ())
        assert text.endswith(f"/KillTasks: {role} does not need it")


async def test_an_alternative_name_shows_a_daemon_too(tmp_path: Path) -> None:
    other = shown(tmp_path, "host7", "jobmgr.peloton.example")
    async with daemon(tmp_path) as served, showing(served, other) as caller:
        kill = "/peloton.private.hostmgr.hostsvc.InternalHostService/KillTasks"
        assert await caller.call(kill, (("peloton-epoch", "jobmgr:7"),)) is OK
        assert caller.callers == {Principal("jobmgr", Kind.DAEMON, ("jobmgr",))}


@pytest.mark.parametrize(
    "metadata", [(("peloton-instance", "jobmgr/one"),), (("peloton-epoch", "hostmgr/two:9"),)]
)
async def test_a_daemon_cannot_pose_as_one_of_another_role(tmp_path: Path, metadata: Metadata) -> None:
    async with daemon(tmp_path) as served, showing(served, shown(tmp_path, "placement")) as caller:
        dequeue = "/peloton.private.resmgr.ResourceManagerService/DequeueGangs"
        code, text = await caller.answer(dequeue, metadata)
        assert code is DENIED and "is not of the role placement, whose certificate is shown" in text
        assert await caller.call(dequeue, ()) is OK


async def test_the_token_gives_a_role_no_further_methods(tmp_path: Path) -> None:
    token = settings(tmp_path).token_file
    placement = shown(tmp_path, "placement")
    kill = "/peloton.private.hostmgr.hostsvc.InternalHostService/KillTasks"
    async with daemon(tmp_path, token_file=token) as served:
        async with showing(served, placement) as caller:
            assert await caller.call(kill, DAEMON[:1]) is DENIED
        async with showing(served, shown(tmp_path, "unknown")) as caller:
            assert await caller.call(kill, DAEMON) is OK
    async with daemon(tmp_path) as served, showing(served, placement) as caller:
        assert await caller.call(kill, DAEMON[:1]) is UNAUTHENTICATED


@pytest.mark.parametrize("name", ["ann", "ann-laptop"])
async def test_a_user_is_known_by_a_certificate(tmp_path: Path, name: str) -> None:
    async with daemon(tmp_path) as served, showing(served, shown(tmp_path, name)) as caller:
        codes = await caller.call_all(())
        assert {path for path, code in codes.items() if code is OK} == {
            path for path in codes if not for_daemons_only(*split(path))
        }
        assert set(codes.values()) == {OK, DENIED}
        assert caller.callers == {Principal("ann", Kind.USER, ("admin",))}
        assert await caller.call("/peloton.api.v0.job.JobManager/Get", DAEMON[1:]) is DENIED
        assert await caller.reflect(()) is OK


async def test_a_password_counts_more_than_a_certificate(tmp_path: Path) -> None:
    create = "/peloton.api.v0.job.JobManager/Create"
    async with daemon(tmp_path) as served:
        for name in ("ann", "jobmgr.peloton.example", "unknown"):
            async with showing(served, shown(tmp_path, name)) as caller:
                assert await caller.call(create, as_user("bob")) is DENIED
                assert await caller.call(create, as_user("ann")) is OK
                assert await caller.call(create, as_user("ann", "wrong")) is UNAUTHENTICATED


async def test_a_certificate_of_nobody_in_particular_lets_nobody_in(tmp_path: Path) -> None:
    async with daemon(tmp_path) as served:
        async with showing(served, shown(tmp_path, "unknown")) as caller:
            assert set((await caller.call_all(())).values()) == {UNAUTHENTICATED}
            assert await caller.reflect(()) is UNAUTHENTICATED
            assert await caller.call("/none.of.Ours/Get", ()) is UNAUTHENTICATED
            assert await caller.call("/grpc.health.v1.Health/Check", ()) is OK
        async with showing(served, shown(tmp_path, "ann", "placement")) as caller:
            _, text = await caller.answer("/peloton.api.v0.job.JobManager/Get", ())
            assert text == "the certificate is that of daemon placement and of user ann"
        async with showing(served, shown(tmp_path, "eve")) as caller:
            codes = await caller.call_all(())
            assert {path for path, code in codes.items() if code is not DENIED} == {
                path for path in codes if split(path)[0] == ACCESS
            }
        async with showing(served, shown(tmp_path, "ann-laptop")) as caller:
            assert await caller.call("/none.of.Ours/Get", ()) is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("case", ["another authority", "expired", "none", "no TLS"])
async def test_certificates_that_do_not_count_reach_nothing(tmp_path: Path, case: str) -> None:
    paths = [path for path in every_method() if path.endswith(("/Get", "/GetCaller", "/KillTasks"))]
    async with daemon(tmp_path) as served:
        ca = authority_in(tmp_path).certificate
        if case == "another authority":
            theirs = shown(tmp_path / "other", "ann").paths
            tls: Tls | None = Tls(ca, Path(theirs[1]), Path(theirs[2]))
        elif case == "expired":
            tls = shown(tmp_path, "ann", days_ago=10)
        else:
            tls = Tls(ca) if case == "none" else None
        async with showing(served, tls) as caller:
            for metadata in ((), as_user("ann"), DAEMON):
                assert {await caller.call(path, metadata) for path in paths} == {UNAVAILABLE}
        assert not served.calls


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ("- {name: a, daemon: kubelet}", "certificates.0.daemon: "),
        ("- {name: a}", "certificates.0: 'a' needs either `daemon`, or the `role` of a user"),
        ("- {name: a, daemon: jobmgr, role: admin}", "needs either `daemon`, or the `role` of a user"),
        ("- {name: a, daemon: jobmgr, user: ann}", "needs either `daemon`, or the `role` of a user"),
        ("- {name: a, role: king}", "certificates.0.role: 'king' is not one of the roles admin, elsewhere, "),
        ("- {name: a, role: admin}\n- {name: a, role: reader}", "certificates: 'a' is there 2 times"),
        ("- {name: a, role: admin}", "has none of a daemon, and there is no auth.token_file"),
    ],
)
def test_wrong_entries_are_refused(tmp_path: Path, entries: str, said: str) -> None:
    file = basic_file(tmp_path, f"certificates:\n{entries}\n")
    with pytest.raises(ConfigError) as caught:
        Door(AuthSettings(type="BASIC", config_file=file), by_certificate=True)
    assert said in str(caught.value)


def test_certificates_that_nobody_asks_for_are_refused(tmp_path: Path) -> None:
    given = settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path, CERTIFICATES))
    with pytest.raises(ConfigError, match=r"count where tls\.client_certificates is true only"):
        Door(given)


def test_daemons_need_a_token_or_certificates(tmp_path: Path) -> None:
    file = tmp_path / "daemon.yaml"
    auth = f"auth: {{type: BASIC, config_file: {basic_file(tmp_path)}}}\n"
    file.write_text(auth)
    with pytest.raises(ConfigError, match=r"needs a token_file, .*or certificates"):
        load(DaemonSettings, [file])
    files = "ca_file: /a, certificate_file: /b, key_file: /c"
    file.write_text(f"{auth}tls: {{{files}, client_certificates: true}}\n")
    load(DaemonSettings, [file])

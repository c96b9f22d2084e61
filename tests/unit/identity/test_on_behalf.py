"""Calls that job managers pass on for callers with certificates: who is believed, and who is not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from peloton.config.auth import AuthSettings
from peloton.config.errors import ConfigError
from peloton.errors import Unauthenticated
from peloton.identity.door import Door
from peloton.identity.on_behalf import ON_BEHALF, read, written
from peloton.identity.principal import Kind, Principal
from peloton.rpc.audit import Audit
from tests.unit.identity.served import Metadata, Served, as_user, basic_file, serving, settings
from tests.unit.identity.test_certificates import CERTIFICATES, daemon, showing, shown

OK = grpc.StatusCode.OK
UNAUTHENTICATED, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED
CREATE = "/peloton.api.v0.job.JobManager/Create"
KILL = "/peloton.private.hostmgr.hostsvc.InternalHostService/KillTasks"
JOBMGR = "jobmgr.peloton.example"
ANN = Principal("ann", Kind.USER, ("admin",))


def behalf(*names: str) -> Metadata:
    return ((ON_BEHALF, written(names)), ("peloton-passed", "jobmgr/other"))


@asynccontextmanager
async def sharing(folder: Path, **more: Any) -> AsyncIterator[Served]:
    """A job manager that shares the work."""
    given = AuthSettings(type="BASIC", config_file=basic_file(folder, CERTIFICATES))
    async with serving(given, tls=shown(folder, "server"), passed_on=True, **more) as served:
        yield served


@pytest.mark.parametrize("name", ["ann", "ann-laptop"])
async def test_a_job_manager_names_the_caller(tmp_path: Path, name: str) -> None:
    async with sharing(tmp_path) as served, showing(served, shown(tmp_path, JOBMGR)) as caller:
        assert await caller.call(CREATE, behalf("more", name)) is OK
        assert caller.callers == {ANN}
        assert await caller.call(CREATE, behalf("eve")) is DENIED
        assert await caller.call(CREATE, behalf("archiver")) is DENIED


@pytest.mark.parametrize("names", [(), ("unknown",)])
async def test_the_certificate_of_the_job_manager_does_not_count_for_the_caller(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    async with sharing(tmp_path) as served, showing(served, shown(tmp_path, JOBMGR)) as caller:
        assert await caller.call(KILL, ()) is OK  # its own duty
        assert await caller.call(KILL, behalf(*names)) is UNAUTHENTICATED
        as_daemon = (*behalf(*names), ("peloton-instance", "jobmgr/one"))
        assert await caller.call(KILL, as_daemon) is DENIED


async def test_a_password_goes_along_and_is_checked(tmp_path: Path) -> None:
    async with sharing(tmp_path) as served, showing(served, shown(tmp_path, JOBMGR)) as caller:
        assert await caller.call(CREATE, (*behalf(), *as_user("ann"))) is OK
        assert caller.callers == {ANN}
        assert await caller.call(CREATE, (*behalf("ann"), *as_user("ann", "wrong"))) is UNAUTHENTICATED
        assert await caller.call(CREATE, (*behalf("ann"), *as_user("bob"))) is DENIED


@pytest.mark.parametrize("name", ["ann", "eve", "unknown", "placement"])
async def test_nobody_else_says_for_whom_a_call_is(tmp_path: Path, name: str) -> None:
    async with sharing(tmp_path) as served, showing(served, shown(tmp_path, name)) as caller:
        for more in ((), as_user("ann"), as_user("bob")):
            code, text = await caller.answer(CREATE, (*behalf("ann"), *more))
            assert code is DENIED and "is for job managers" in text
        assert not caller.callers


async def test_other_daemons_believe_nobody(tmp_path: Path) -> None:
    async with daemon(tmp_path) as served, showing(served, shown(tmp_path, JOBMGR)) as caller:
        code, text = await caller.answer(CREATE, behalf("ann"))
        assert code is DENIED and "no calls are passed on to this daemon" in text


@pytest.mark.parametrize("passed_on", [False, True])
async def test_without_certificates_nobody_is_believed(tmp_path: Path, passed_on: bool) -> None:
    """Over plaintext, and with the token of daemons."""
    given = settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path))
    async with serving(given, passed_on=passed_on) as served:
        for more in ((), as_user("ann"), (("peloton-token", "0123456789abcdef0123456789abcdef"),)):
            assert await served.call(CREATE, (*behalf("ann"), *more)) is DENIED
        assert not served.callers


async def test_nobody_is_believed_who_shows_no_certificate(tmp_path: Path) -> None:
    async with sharing(tmp_path) as served:
        async with grpc.aio.insecure_channel(served.target) as channel:
            caller = Served(channel, served.target, served.calls, served.callers)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await channel.unary_unary(CREATE, bytes, bytes)(b"", metadata=behalf("ann"), timeout=5)
        assert refused.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        assert not caller.callers


async def test_names_that_come_twice_or_are_none_are_refused(tmp_path: Path) -> None:
    async with sharing(tmp_path) as served, showing(served, shown(tmp_path, JOBMGR)) as caller:
        assert await caller.call(CREATE, (*behalf("eve"), *behalf("ann"))) is UNAUTHENTICATED
        for value in ("ann", '"ann"', "[1]", '{"ann": 1}'):
            assert await caller.call(CREATE, ((ON_BEHALF, value),)) is UNAUTHENTICATED
        assert not caller.callers


async def test_the_audit_log_has_the_caller(tmp_path: Path) -> None:
    lines: list[str] = []
    audit = Audit(lines.append, lambda: 0)
    async with sharing(tmp_path, audit=audit) as served, showing(served, shown(tmp_path, JOBMGR)) as caller:
        await caller.call(CREATE, behalf("ann"))
        await caller.call(CREATE, behalf("eve"))
    async with sharing(tmp_path, audit=audit) as served, showing(served, shown(tmp_path, "eve")) as caller:
        await caller.call(CREATE, behalf("ann"))
    noted = [json.loads(line) for line in lines]
    # Only refusals: the server of these tests notes no call that it answers.
    assert [(each.get("principal", ""), each["code"]) for each in noted] == [
        ("eve", "PERMISSION_DENIED"),
        ("", "PERMISSION_DENIED"),
    ]


def test_names_of_any_text_are_written_in_ascii() -> None:
    names = ["Ann Ä, Peloton", "a\n", ""]
    assert written(names).isascii() and written(names).isprintable()
    assert read(written(names)) == names
    with pytest.raises(Unauthenticated):
        read("")


def test_a_door_that_is_to_believe_job_managers_knows_their_certificate(tmp_path: Path) -> None:
    entries = CERTIFICATES.replace("daemon: jobmgr", "daemon: hostmgr")
    door = Door(AuthSettings(type="BASIC", config_file=basic_file(tmp_path, entries)), by_certificate=True)
    with pytest.raises(ConfigError, match="has none of a job manager"):
        door.believe_job_managers()

"""The Python client, of both kinds, on a cluster that asks who calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from peloton.api.v0.job import job_pb2
from peloton.client import AsyncPelotonClient, CallError, PelotonClient
from peloton.client.agents import agents_by
from peloton.client.auth import BasicAuth, BearerAuth, read_auth
from peloton.client.environment import settings_from_environment
from peloton.client.tls import Tls

CODES = grpc.StatusCode
MISSING = "00000000-0000-4000-8000-000000000000"
Settings = dict[str, Any]
Change = Callable[[Mapping[str, str], Settings], None]


def right(environment: Mapping[str, str], settings: Settings) -> None:
    pass


def password(environment: Mapping[str, str], settings: Settings) -> None:
    settings["auth"] = read_auth(environment["BASIC_AUTH_CONFIG"])


def wrong_password(environment: Mapping[str, str], settings: Settings) -> None:
    settings["auth"] = BasicAuth("admin", "wrong")


def nobody(environment: Mapping[str, str], settings: Settings) -> None:
    settings["auth"] = None


def token(name: str) -> Change:
    def change(environment: Mapping[str, str], settings: Settings) -> None:
        settings["auth"] = BearerAuth(strangers(environment, f"{name}.token").read_text())

    return change


def strangers(environment: Mapping[str, str], name: str) -> Path:
    return Path(environment["PELOTON_TEST_STRANGERS"]) / name


def no_certificate(environment: Mapping[str, str], settings: Settings) -> None:
    settings["tls"] = replace(settings["tls"], cert="", key="")


def strangers_certificate(environment: Mapping[str, str], settings: Settings) -> None:
    cert, key = (str(strangers(environment, f"stranger.{kind}")) for kind in ("crt", "key"))
    settings["tls"] = replace(settings["tls"], cert=cert, key=key)


def another_authority(environment: Mapping[str, str], settings: Settings) -> None:
    settings["tls"] = Tls(str(strangers(environment, "ca.crt")), settings["tls"].cert, settings["tls"].key)


def no_tls(environment: Mapping[str, str], settings: Settings) -> None:
    settings["tls"] = None


def another_agent(environment: Mapping[str, str], settings: Settings) -> None:
    ca = str(strangers(environment, "ca.crt"))
    settings["agents"] = agents_by(ca, environment["PELOTON_AGENT_AUTH"])


def wrong_secret(environment: Mapping[str, str], settings: Settings) -> None:
    settings["agents"] = replace(settings["agents"], secret="wrong")


def no_secret(environment: Mapping[str, str], settings: Settings) -> None:
    settings["agents"] = agents_by(environment["PELOTON_AGENT_CA_FILE"], "")


JOB, POOL, CREATE, WATCH, LOG, FOLLOW = "job", "pool", "create", "watch", "log", "follow"
CASES: dict[str, tuple[Change, str, grpc.StatusCode]] = {
    "right token": (right, JOB, CODES.NOT_FOUND),
    "right token of a watch": (right, WATCH, CODES.OK),
    "right password": (password, POOL, CODES.OK),
    "forged token": (token("forged"), JOB, CODES.UNAUTHENTICATED),
    "expired token": (token("expired"), JOB, CODES.UNAUTHENTICATED),
    "token for another": (token("elsewhere"), JOB, CODES.UNAUTHENTICATED),
    "garbage for a token": (token("garbage"), JOB, CODES.UNAUTHENTICATED),
    "no token": (nobody, JOB, CODES.UNAUTHENTICATED),
    "forged token of a watch": (token("forged"), WATCH, CODES.UNAUTHENTICATED),
    "a reader's token": (token("reader"), JOB, CODES.NOT_FOUND),
    "a reader creates": (token("reader"), CREATE, CODES.PERMISSION_DENIED),
    "wrong password": (wrong_password, POOL, CODES.UNAUTHENTICATED),
    "no password": (nobody, POOL, CODES.UNAUTHENTICATED),
    "no certificate": (no_certificate, JOB, CODES.UNAUTHENTICATED),
    "a stranger's certificate": (strangers_certificate, JOB, CODES.UNAUTHENTICATED),
    "a stranger's certificate of a watch": (strangers_certificate, WATCH, CODES.UNAUTHENTICATED),
    "another authority": (another_authority, JOB, CODES.UNAUTHENTICATED),
    "no TLS": (no_tls, JOB, CODES.UNAUTHENTICATED),
    "output of an agent": (right, LOG, CODES.OK),
    "output that is followed": (right, FOLLOW, CODES.OK),
    "an agent of another authority": (another_agent, LOG, CODES.UNAUTHENTICATED),
    "wrong secret of agents": (wrong_secret, LOG, CODES.UNAUTHENTICATED),
    "no secret of agents": (no_secret, FOLLOW, CODES.UNAUTHENTICATED),
}


def settings_of(environment: Mapping[str, str], change: Change) -> Settings:
    settings = settings_from_environment(environment)
    change(environment, settings)
    return settings


@pytest.mark.parametrize("case", CASES)
def test_who_calls_is_asked(secured: Mapping[str, str], case: str) -> None:
    change, kind, code = CASES[case]
    with PelotonClient("tests", **settings_of(secured, change)) as client:
        if code is CODES.OK:
            use(client, kind, secured["PELOTON_TEST_JOB"])
            return
        with pytest.raises(CallError) as refused:
            use(client, kind, secured["PELOTON_TEST_JOB"])
    assert refused.value.code is code


def use(client: PelotonClient, kind: str, job: str) -> None:
    if kind == JOB:
        client.jobs.get(MISSING)
    elif kind == POOL:
        assert client.jobs.pool_id("/")
    elif kind == CREATE:
        client.jobs.create("", job_pb2.JobConfig(name="denied"))
    elif kind == WATCH:
        next(iter(client.jobs.watch_services()))
    else:
        assert b"".join(client.jobs.logs(job, 0, follow=kind == FOLLOW)) == b"hello\n"


@pytest.mark.parametrize("case", CASES)
async def test_who_calls_by_asyncio_is_asked(secured: Mapping[str, str], case: str) -> None:
    change, kind, code = CASES[case]
    async with AsyncPelotonClient("tests", **settings_of(secured, change)) as client:
        if code is CODES.OK:
            await use_asyncio(client, kind, secured["PELOTON_TEST_JOB"])
            return
        with pytest.raises(CallError) as refused:
            await use_asyncio(client, kind, secured["PELOTON_TEST_JOB"])
    assert refused.value.code is code


async def use_asyncio(client: AsyncPelotonClient, kind: str, job: str) -> None:
    if kind == JOB:
        await client.jobs.get(MISSING)
    elif kind == POOL:
        assert await client.jobs.pool_id("/")
    elif kind == CREATE:
        await client.jobs.create("", job_pb2.JobConfig(name="denied"))
    elif kind == WATCH:
        async with aclosing(client.jobs.watch_services()) as events:
            await anext(events)
    else:
        pieces = [piece async for piece in client.jobs.logs(job, 0, follow=kind == FOLLOW)]
        assert b"".join(pieces) == b"hello\n"

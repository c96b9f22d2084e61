"""Wrong certificates, passwords and tokens: a typed error at once, from a client of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from peloton.client import CallError
from peloton.client.auth import BasicAuth, BearerAuth
from peloton.client.tls import Tls
from peloton.config.auth import AuthSettings
from peloton.identity.certs import authority_in
from peloton.identity.door import Door
from peloton.rpc.gate import Gate
from peloton.rpc.server import RpcServer
from tests.unit.client.both import KINDS, Ask
from tests.unit.identity import test_tls
from tests.unit.identity.served import Served, _services, basic_file, settings
from tests.unit.identity.test_every_rpc import oidc, token

HOUR = 3600.0
"""Far longer than the tests may take: a failure that is repeated until the deadline ends them."""


@pytest.fixture(params=KINDS)
def ask(request: Any) -> Ask:
    return request.param  # type: ignore[no-any-return]


async def refusal(ask: Ask, **named: Any) -> CallError:
    with pytest.raises(CallError) as refused:
        await ask(lambda client: client.jobs.get("x"), timeout=HOUR, **named)
    return refused.value


def files(folder: Path, ca: str, own: str = "") -> Tls:
    own_files = [str(folder / own / f"daemon.{kind}") for kind in ("crt", "key")] if own else []
    return Tls(str(authority_in(folder / ca).certificate), *own_files)


CERTIFICATES = {
    "another authority": (False, "b", "", "the certificate of the server is not accepted: "),
    "none where one is asked for": (True, "a", "", "does not accept the certificate of the client, none was"),
    "of a stranger": (True, "a", "b", "does not accept the certificate of the client, /"),
}


@pytest.mark.parametrize("case", CERTIFICATES)
async def test_a_wrong_certificate(tmp_path: Path, ask: Ask, case: str) -> None:
    mutual, ca, own, said = CERTIFICATES[case]
    tls, _ = test_tls.authority(tmp_path / "a"), test_tls.authority(tmp_path / "b")
    async with test_tls.serving(tls, mutual) as target:
        refused = await refusal(ask, jm_url=target, tls=files(tmp_path, ca, own))
    assert refused.code is grpc.StatusCode.UNAUTHENTICATED
    assert said in str(refused) and target in str(refused)


async def test_a_watch_with_a_wrong_certificate_ends(tmp_path: Path, ask: Ask) -> None:
    tls, _ = test_tls.authority(tmp_path / "a"), test_tls.authority(tmp_path / "b")

    async def awaited(client: Any) -> Any:
        async for _ in client.jobs.watch_pods("x"):
            pass

    work = awaited if ask is KINDS[1] else lambda client: list(client.jobs.watch_pods("x"))
    async with test_tls.serving(tls) as target:
        with pytest.raises(CallError) as refused:
            await ask(work, jm_url=target, tls=files(tmp_path, "b"))
    assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED


async def test_a_server_without_tls(tmp_path: Path, ask: Ask) -> None:
    test_tls.authority(tmp_path / "a")
    async with test_tls.serving(None) as target:
        refused = await refusal(ask, jm_url=target, tls=files(tmp_path, "a"))
    assert "the server does not speak TLS" in str(refused)


@asynccontextmanager
async def guarded(auth: AuthSettings) -> AsyncIterator[str]:
    server = RpcServer(lambda: "nobody leads", [Gate(Door(auth), None)])
    server.activate([*_services(Served())])
    port = await server.start("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop()


async def test_wrong_passwords_and_tokens(tmp_path: Path, ask: Ask) -> None:
    (good,) = (value.removeprefix("Bearer ") for _, value in token())
    for auth, right, wrong in (
        (oidc(tmp_path), BearerAuth(good), BearerAuth(good + "x")),
        (
            settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path)),
            BasicAuth("ann", "ann1"),
            BasicAuth("ann", "x"),
        ),
    ):
        async with guarded(auth) as target:
            await ask(lambda client: client.jobs.get("x"), timeout=60, jm_url=target, auth=right)
            refused = await refusal(ask, jm_url=target, auth=wrong)
        assert refused.code is grpc.StatusCode.UNAUTHENTICATED

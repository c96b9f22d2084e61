"""Credentials, right and wrong, are in no log, audit log, answer or metric of a server that checks them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from peloton.config.auth import AuthSettings
from peloton.rpc.audit import Audit
from tests.cluster.leaks import Secret, search
from tests.unit.identity.served import DAEMON, Metadata, as_user, basic_file, serving, settings
from tests.unit.identity.test_every_rpc import BASIC_REFUSED, OIDC_REFUSED, oidc, token

METHODS = ("/peloton.api.v0.job.JobManager/Get", "/peloton.api.v0.job.JobManager/Create")
LONG = "a password that is long enough to be searched for"


def secrets_of(cases: dict[str, Metadata]) -> list[Secret]:
    """What each of the calls shows: passwords and tokens, these without the scheme."""
    found = [
        Secret(name, value.removeprefix("Bearer ").encode())
        for name, metadata in cases.items()
        for key, value in metadata
        if key in ("password", "authorization", "peloton-token")
    ]
    return [each for each in found if len(each.content) >= 20]


def basic(folder: Path) -> tuple[AuthSettings, dict[str, Metadata]]:
    cases = {name: metadata for name, (metadata, _) in BASIC_REFUSED.items()}
    cases |= {"long": as_user("ann", LONG), "right": as_user("ann"), "daemon": DAEMON}
    return settings(folder, type="BASIC", config_file=basic_file(folder)), cases


def by_token(folder: Path) -> tuple[AuthSettings, dict[str, Metadata]]:
    cases = {name: make() for name, (make, _) in OIDC_REFUSED.items()}
    broken = {
        f"broken {number}": (("authorization", f"Bearer {text}"),)
        for number, text in enumerate(("eyJhbGciOiJSUzI1NiJ9" * 2, f"e30.{'x' * 40}.y", "\u00e9" * 20))
        if text.isascii()
    }
    return oidc(folder), {**cases, **broken, "right": token(), "daemon": DAEMON}


@pytest.mark.parametrize("kind", [basic, by_token], ids=["BASIC", "OIDC"])
async def test_credentials_are_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: object
) -> None:
    caplog.set_level(logging.DEBUG)
    auth, cases = basic(tmp_path) if kind is basic else by_token(tmp_path)
    lines: list[str] = []
    answers: list[str] = []
    async with serving(auth, audit=Audit(lines.append, lambda: 0)) as served:
        for metadata in cases.values():
            for path in METHODS:
                code, text = await served.answer(path, metadata)
                answers.append(f"{code} {text}")
    secrets = secrets_of(cases)
    assert len(secrets) >= 4 and len(lines) >= len(secrets)
    places = {"log": caplog.text, "audit": "\n".join(lines), "answers": "\n".join(answers)}
    texts = [(name, text.encode()) for name, text in places.items()]
    assert search([*texts, ("metrics", generate_latest())], secrets) == set()

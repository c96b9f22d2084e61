"""/logging-level: by POST, from no other site, and by those who administer the cluster."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from peloton.daemon.http import HttpServer
from peloton.daemon.level import by_door
from peloton.identity.door import Door
from peloton.rpc.audit import Audit
from tests.unit.identity.served import TOKEN, basic_file, settings

ADMIN, READER, ELSEWHERE = ("ann", "ann1"), ("bob", "bob1"), ("dan", "dan1")
ORIGIN = "http://daemon.example:5292"
PATH = "/logging-level?level=debug&duration=1m"


@pytest.fixture(autouse=True)
def level() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before = root.level
    yield root
    root.setLevel(before)


def client(folder: Path | None = None, lines: list[str] | None = None) -> TestClient:
    administers = None
    if folder is not None:
        audit = None if lines is None else Audit(lines.append, lambda: 0)
        administers = by_door(Door(settings(folder, type="BASIC", config_file=basic_file(folder))), audit)
    routes = HttpServer(lambda: "", administers=administers).routes()
    return TestClient(Starlette(routes=routes), base_url=ORIGIN, client=("10.0.0.7", 1234))


def as_user(name: str, password: str) -> Mapping[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_other_methods_change_nothing(method: str, level: logging.Logger) -> None:
    before = level.level
    assert client().request(method, PATH).status_code == 405
    assert level.level == before


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://other.example"},
        {"Origin": "null"},
        {"Origin": "http://daemon.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_sites_change_nothing(headers: Mapping[str, str], level: logging.Logger) -> None:
    before = level.level
    assert client().post(PATH, headers=headers).status_code == 403
    assert level.level == before


@pytest.mark.parametrize("headers", [{}, {"Origin": ORIGIN}, {"Sec-Fetch-Site": "same-origin"}])
def test_a_program_and_the_own_site_change_it(headers: Mapping[str, str], level: logging.Logger) -> None:
    answer = client().post(PATH, headers=headers)
    assert (answer.status_code, answer.text) == (200, "debug for 1 min\n")
    assert level.level == logging.DEBUG


def test_with_authentication_administrators_change_it(tmp_path: Path, level: logging.Logger) -> None:
    lines: list[str] = []
    asked, before = client(tmp_path, lines), level.level
    nobody = asked.post(PATH)
    assert (nobody.status_code, nobody.headers["www-authenticate"]) == (401, 'Basic realm="peloton"')
    assert asked.post(PATH, headers={"Authorization": "Basic ?"}).status_code == 401
    assert asked.post(PATH, headers=as_user("ann", "wrong")).status_code == 401
    for user in (READER, ELSEWHERE):
        assert asked.post(PATH, headers=as_user(*user)).status_code == 403
    assert level.level == before
    answer = asked.post(PATH, headers=as_user(*ADMIN))
    assert (answer.status_code, level.level) == (200, logging.DEBUG)
    told = [json.loads(line) for line in lines]
    assert [(each["method"], each.get("principal", ""), each["code"]) for each in told][-2:] == [
        ("logging-level/Set", ELSEWHERE[0], "PERMISSION_DENIED"),
        ("logging-level/Set", ADMIN[0], "OK"),
    ]
    assert asked.post(PATH, headers={"peloton-token": TOKEN}).status_code == 200
    assert all(each["address"] == "10.0.0.7" for each in told)

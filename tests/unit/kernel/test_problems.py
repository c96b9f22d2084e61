"""What a process tells is wrong though it works: its parts, certificates, and daemons that start often."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from peloton.clock import NANOSECONDS, ManualClock
from peloton.config.encryption import ServerTlsSettings
from peloton.config.tls import client_context
from peloton.daemon.problems import Problems, ProblemService
from peloton.errors import Unavailable
from peloton.identity.certs import LOOPBACK, Pair, issue, make_authority
from peloton.membership.starts import WINDOW_SECONDS, Starts
from peloton.model.problems import Problem
from peloton.private.problems import problems_pb2 as pb
from peloton.rpc import expiry
from peloton.rpc.expiry import LOOK_SECONDS, ServerCertificates, expiring
from peloton.rpc.peers import PASSED

NOW = datetime.datetime(2026, 11, 27, tzinfo=datetime.UTC)


async def test_all_parts_are_asked_and_the_worst_is_told_first() -> None:
    problems = Problems(patience=0.01)

    async def note() -> list[Problem]:
        return [Problem("note", "a note"), Problem("bad", "very bad", "/hosts", "do this")]

    async def unable() -> list[Problem]:
        raise Unavailable("the store is away")

    async def stuck() -> list[Problem]:
        await asyncio.Event().wait()
        raise AssertionError

    problems.add("one", note)
    with problems.telling("how the store is", unable), problems.telling("what is stuck", stuck):
        found = [(each.level, each.text) for each in await problems.now()]
    assert found == [
        ("bad", "very bad"),
        ("warn", "It is not known how the store is: the store is away"),
        ("warn", "It is not known what is stuck: there was no answer in 0.01 s"),
        ("note", "a note"),
    ]
    answer = await ProblemService(problems).ListProblems(pb.ListProblemsRequest(), None)
    assert answer.problems[0] == pb.Problem(level="bad", text="very bad", link="/hosts", remedy="do this")
    assert len(answer.problems) == 2, "the others are not asked any more"


class Context:
    def __init__(self, *metadata: tuple[str, str]) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata


async def test_what_instances_see_that_share_the_work_is_told_once() -> None:
    problems = Problems()

    async def here() -> list[Problem]:
        return [Problem("warn", "the store is slow"), Problem("note", "of my own")]

    async def others(context: Context) -> list[Problem]:
        assert context is asked
        return [Problem("note", "of theirs"), Problem("warn", "the store is slow"), Problem("bad", "worse")]

    problems.add("something", here)
    problems.elsewhere = others
    asked = Context()
    answer = await ProblemService(problems).ListProblems(pb.ListProblemsRequest(), asked)
    assert [each.text for each in answer.problems] == ["worse", "the store is slow", "of my own", "of theirs"]
    own = await ProblemService(problems).ListProblems(pb.ListProblemsRequest(), Context((PASSED, "jobmgr/b")))
    assert [each.text for each in own.problems] == ["the store is slow", "of my own"]


@pytest.mark.parametrize(
    ("days", "levels"), [(-1, []), (16, []), (17, ["warn"]), (29.9, ["warn"]), (30, ["bad"]), (99, ["bad"])]
)
def test_certificates_are_told_two_weeks_before_their_end(
    tmp_path: Path, days: float, levels: list[str]
) -> None:
    authority = make_authority(tmp_path, "test", NOW)
    made = issue(tmp_path, "daemon", ["localhost"], 30, NOW)
    (tmp_path / "none.crt").write_text("no certificate")
    files = [
        str(each)
        for each in (made.certificate, authority.certificate, tmp_path / "none.crt", tmp_path / "gone.crt")
    ]
    found = list(expiring(files, NOW + datetime.timedelta(days=days)))
    assert [each.level for each in found] == levels
    assert all(str(made.certificate) in each.text and "peloton certs issue" in each.remedy for each in found)


@asynccontextmanager
async def serving_tls(pair: Pair) -> AsyncIterator[int]:
    """Serve by TLS on loopback; yield the port."""

    async def greeted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server = await asyncio.start_server(greeted, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give handshakes more time than a daemon does: on a busy machine several at once may take seconds."""
    monkeypatch.setattr(expiry, "CONNECT_SECONDS", 60.0)


@pytest.mark.usefixtures("patient")
async def test_certificates_of_servers_of_others_are_told(tmp_path: Path) -> None:
    today = datetime.datetime.now(datetime.UTC)  # the handshake compares with it
    authority = make_authority(tmp_path, "test", today - datetime.timedelta(days=60))
    late = issue(tmp_path, "late", LOOPBACK, 10, today)
    over = issue(tmp_path, "over", LOOPBACK, 10, today - datetime.timedelta(days=20))
    long = issue(tmp_path, "long", LOOPBACK, 300, today)
    clock = ManualClock(epoch=int(today.timestamp()) * NANOSECONDS)
    tls = ServerTlsSettings(
        enabled=True, ca_file=authority.certificate, certificate_file=late.certificate, key_file=late.key
    )
    context = partial(client_context, "tls", authority.certificate, late.certificate, late.key)
    async with AsyncExitStack() as stack:
        ports = [await stack.enter_async_context(serving_tls(each)) for each in (late, over, long)]
        places = [*(("127.0.0.1", port) for port in ports), ("127.0.0.1", 1)]
        found = await ServerCertificates("Oracle", places, tls, context, clock).problems()
    own, soon, ended = found
    assert own.text.startswith(f"The certificate {late.certificate} ends in ") and own.level == "warn"
    assert soon.text.startswith(f"The certificate of Oracle at 127.0.0.1:{ports[0]} ends in ")
    assert (ended.level, ended.text) == (
        "bad",
        f"The certificate of Oracle at 127.0.0.1:{ports[1]} has ended: no new connection is made",
    )


@pytest.mark.usefixtures("patient")
async def test_servers_are_asked_for_their_certificates_now_and_then(tmp_path: Path) -> None:
    today = datetime.datetime.now(datetime.UTC)
    authority = make_authority(tmp_path, "test", today)
    first, second = issue(tmp_path, "one", LOOPBACK, 10, today), issue(tmp_path, "two", LOOPBACK, 300, today)
    clock = ManualClock(epoch=int(today.timestamp()) * NANOSECONDS)
    tls = ServerTlsSettings(enabled=True, ca_file=authority.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(first.certificate, first.key)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        places = [("127.0.0.1", server.sockets[0].getsockname()[1])]
        asked = ServerCertificates(
            "Oracle", places, tls, partial(client_context, "tls", authority.certificate, None, None), clock
        )
        assert len(await asked.problems()) == 1
        context.load_cert_chain(second.certificate, second.key)
        clock.now += LOOK_SECONDS - 1
        assert len(await asked.problems()) == 1, "it was asked a moment ago"
        clock.now += 1
        assert await asked.problems() == []


def test_an_instance_that_starts_again_and_again_is_told() -> None:
    starts = Starts()
    starts.look(["jobmgr-1-aaa", "resmgr-1-bbb"], 0.0)
    assert starts.problems(0.0) == [], "what was there at the begin has not started since"
    for number in range(3):
        starts.look(["resmgr-1-bbb"], 10.0 + number)
        starts.look([f"jobmgr-1-{number}", "resmgr-1-bbb"], 10.5 + number)
    [found] = starts.problems(20.0)
    assert found.text == "jobmgr-1 has started 3 times within the last hour" and found.level == "bad"
    assert starts.problems(13.0 + WINDOW_SECONDS) == []


def test_a_process_that_is_away_for_a_moment_has_not_started_again() -> None:
    starts = Starts()
    starts.look(["jobmgr-1-aaa"], 0.0)
    for number in range(5):
        starts.look([], 1.0 + number)
        starts.look(["jobmgr-1-aaa"], 1.5 + number)
    assert starts.problems(10.0) == []


def test_instances_that_share_a_name_may_start_as_often_together() -> None:
    starts = Starts()
    starts.look(["placement-0"], 0.0)
    starts.look([f"placement-{number}" for number in range(3)], 1.0)
    starts.look([f"placement-{number}" for number in range(10, 13)], 2.0)
    assert starts.problems(3.0) == [], "an upgrade of three is not told"
    for again in range(2, 5):
        starts.look([f"placement-{number}" for number in range(10 * again, 10 * again + 3)], float(again))
    assert [each.text for each in starts.problems(5.0)] == [
        "placement has started 14 times within the last hour"
    ]

"""Event streams: one poller for all who watch a page, changes only, the newest for the slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import pytest

from peloton.errors import NotFound, PelotonError, ResourceExhausted, Unavailable
from peloton.membership.interface import Role
from peloton.model.problems import Problem
from peloton.web.live import Hub, Subject, Watcher, event
from peloton.web.pages import Page, Reader
from peloton.web.pages import Subject as Request
from peloton.web.templating import Templates, digest
from tests.unit.web.fake import NOW, FakeCluster, application, browser

SECONDS = 60.0


class Source:
    """A page whose content a test sets."""

    def __init__(self) -> None:
        self.text = "first"
        self.error: PelotonError | None = None
        self.loads = 0
        self.read_thrice = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    async def load(self, request: Request) -> Mapping[str, Any]:
        self.loads += 1
        if self.loads == 3:
            self.read_thrice.set()
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return {"problems": [Problem("bad", self.text)], "daemons": (), "owners": ()}

    def page(self) -> Page:
        return Page("/", "overview.html", self.load, live=("problems", "daemons"))


def hub_of(source: Source, most: int = 10) -> Hub:
    return Hub(Reader([source.page()], Templates(), FakeCluster(), lambda: NOW), 0.01, most)


async def told(events: AsyncIterator[bytes], text: str) -> list[dict[str, Any]]:
    """The data of events until one holds a text."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(SECONDS):
        async for chunk in events:
            for line in chunk.decode().splitlines():
                if line.startswith("data: "):
                    found.append(json.loads(line.removeprefix("data: ")))
            if text in chunk.decode():
                return found
    raise AssertionError(f"the stream ended without {text!r}")


async def test_a_watcher_gets_all_blocks_and_then_those_that_change() -> None:
    source = Source()
    hub = hub_of(source)
    async with aclosing(hub.watch("/", None)) as events:  # type: ignore[type-var]
        first = await told(events, "first")
        assert (
            '<div class="scroll" tabindex="0">'
            in next(each for each in first if each["name"] == "daemons")["html"]
        )
        async with asyncio.timeout(SECONDS):
            await source.read_thrice.wait()  # and nothing changed
        source.text = "<second>"
        found = await told(events, "second")
        assert [each["name"] for each in found if "second" in each["html"]] == ["problems"]
        assert "daemons" not in [each["name"] for each in found[1:]]
        assert "&lt;second&gt;" in found[-1]["html"]
    await hub.close()


async def test_what_came_with_the_page_is_not_sent_until_it_changes() -> None:
    source = Source()
    hub = hub_of(source)
    shown = await hub.reader.fragments(hub.reader.find("/"), None)
    seen = {"problems": digest(shown["problems"]), "daemons": "another"}
    async with aclosing(hub.watch("/", None, seen)) as events:  # type: ignore[type-var]
        first = await told(events, "daemons")
        assert [each["name"] for each in first] == ["daemons"]
        async with aclosing(hub.watch("/", None, seen)) as others:  # type: ignore[type-var]
            assert [each["name"] for each in await told(others, "daemons")] == ["daemons"]
        source.text = "second"
        assert [each["name"] for each in await told(events, "second")] == ["problems"]
        source.text = "first"
        assert [each["name"] for each in await told(events, "first")] == ["problems"]
    await hub.close()


async def test_all_who_watch_a_page_share_one_poller_which_ends_with_the_last() -> None:
    source = Source()
    hub = hub_of(source)
    streams = [hub.watch("/", None) for _ in range(5)]
    for stream in streams:
        await told(stream, "first")
    assert hub.watched == 5
    pollers = [task for task in asyncio.all_tasks() if task.get_name() == "page /"]
    assert len(pollers) == 1
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]
    assert hub.watched == 0
    async with asyncio.timeout(SECONDS):
        await asyncio.wait(pollers)
    await hub.close()


async def test_a_page_that_cannot_be_read_says_so_and_recovers() -> None:
    source = Source()
    hub = hub_of(source)
    async with aclosing(hub.watch("/", None)) as events:  # type: ignore[type-var]
        await told(events, "first")
        source.error = Unavailable("resmgr is not there")
        assert (await told(events, "resmgr is not there"))[-1] == {"text": "resmgr is not there"}
        source.error = None
        assert {"text": ""} in await told(events, '"text":""')
    await hub.close()


async def test_a_page_that_is_long_in_being_read_says_so_and_recovers() -> None:
    source = Source()
    cluster = FakeCluster()
    for role in (Role.JOBMGR, Role.RESMGR, Role.HOSTMGR):
        cluster.fake.add(role, role.value, 1, leads=True)
    hub = Hub(Reader([source.page()], Templates(), cluster, lambda: NOW), 0.01, 10, late_seconds=0.05)
    async with aclosing(hub.watch("/", None)) as events:  # type: ignore[type-var]
        await told(events, "first")
        source.answers.clear()
        assert "still asked" in (await told(events, "have not answered"))[-1]["text"]
        source.answers.set()
        assert {"text": ""} in await told(events, '"text":""')
        del cluster.fake.leaders[Role.JOBMGR]
        source.answers.clear()
        assert (await told(events, "leader of jobmgr"))[-1]["text"].endswith("is known; it is tried again")
    await hub.close()


async def test_streams_end_when_the_web_ui_ends() -> None:
    hub = hub_of(Source())
    stream = hub.watch("/", None)
    await told(stream, "first")
    rest = asyncio.create_task(told(stream, "never"))
    await asyncio.sleep(0)
    await hub.close()
    with pytest.raises(AssertionError, match="ended"):
        await rest


async def test_too_many_streams_and_unknown_pages_are_refused() -> None:
    hub = hub_of(Source(), most=1)
    stream = hub.watch("/", None)
    await told(stream, "first")
    with pytest.raises(ResourceExhausted, match="max_watchers"):
        hub.watch("/", None)
    with pytest.raises(NotFound, match="/other"):
        hub.watch("/other", None)
    await stream.aclose()  # type: ignore[attr-defined]
    await hub.close()


def test_a_slow_browser_skips_to_the_newest() -> None:
    source = Source()
    subject = Subject(hub_of(source).reader.find("/"), None)
    watcher = Watcher()
    subject.watchers.add(watcher)
    for number in range(100):
        subject.publish({"problems": f"number {number}"})
    assert watcher.take() == event("fragment", {"name": "problems", "html": "number 99"})
    assert watcher.take() == b""


def test_an_unknown_page_is_answered_with_404() -> None:
    assert browser(application(FakeCluster())).get("/live?page=/nothing").status_code == 404


def test_an_event_is_one_line_of_data_whatever_it_holds() -> None:
    assert event("fragment", {"html": "a\n\nevent: x\r"}).count(b"\n") == 3

"""Watches of operators: of the event stream and of hosts."""

from __future__ import annotations

import grpc
import pytest

from hostmgr.services import watches as subject
from mesos.v1 import mesos_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.rpc import watchqueue
from tests.unit.hostmgr.hosts import agent, offer
from tests.unit.hostmgr.served import following, refused, serving, the_end
from tests.unit.hostmgr.test_manager import JOB
from tests.waiting import until

RUN = f"{JOB}-0-1"
REQUEST = pb.WatchEventRequest()


async def test_events_follow_the_id_of_the_watch() -> None:
    async with serving() as it:
        it.status(RUN, mesos_pb2.TASK_STARTING, b"before")
        call = it.v0.WatchEventStreamEvent(REQUEST)
        first = await following(call)
        assert first.watch_id and first.topic == "eventStream" and not first.HasField("mesos_task_update")
        it.status(RUN, mesos_pb2.TASK_RUNNING, b"one")
        it.status(RUN, mesos_pb2.TASK_RUNNING, b"one")
        it.status(RUN, mesos_pb2.TASK_FINISHED, b"two", message="done")
        seen = [await following(call) for _ in range(2)]
        assert {each.watch_id for each in seen} == {first.watch_id}
        events = [each.mesos_task_update for each in seen]
        assert [(each.offset, each.mesosTaskStatus.state) for each in events] == [
            (1, mesos_pb2.TASK_RUNNING),
            (2, mesos_pb2.TASK_FINISHED),
        ]
        assert events[1].mesosTaskStatus.message == "done"


async def test_hosts_that_change_are_shown_as_they_are() -> None:
    async with serving() as it:
        it.list_agents(agent(0, [("rack", "a")]), agent(1))
        it.put(offer(0, 0))
        call = it.v0.WatchHostSummaryEvent(REQUEST)
        first = await following(call)
        assert first.watch_id and not first.HasField("hostSummaryEvent")
        it.put(offer(1, 1, cpu=2))
        shown = (await following(call)).hostSummaryEvent
        assert (shown.hostname, shown.resources.cpu, shown.resources.memMb) == ("host1", 2, 1024)
        assert [(each.begin, each.end) for each in shown.available_ports] == [(31000, 31009)]
        it.list_agents(agent(0, [("rack", "b")]), agent(1))
        shown = (await following(call)).hostSummaryEvent
        assert shown.hostname == "host0"
        assert [(each.key, each.value) for each in shown.labels] == [("rack", "b")]
        it.manager.hosts.remove_agent("S0")
        shown = (await following(call)).hostSummaryEvent
        assert shown.hostname == "host0" and not shown.HasField("resources")


async def test_a_summary_has_the_offers_as_mesos_made_them() -> None:
    async with serving() as it:
        call = it.v0.WatchHostSummaryEvent(REQUEST)
        await following(call)
        it.offer(7)
        shown = (await following(call)).hostSummaryEvent
        assert list(shown.Offers) == ["O7"] and shown.Offers["O7"].resources[0].name == "cpus"


async def test_a_watch_is_cancelled_by_its_id_once() -> None:
    async with serving() as it:
        for call in (it.v0.WatchHostSummaryEvent(REQUEST), it.v0.WatchEventStreamEvent(REQUEST)):
            watch_id = (await following(call)).watch_id
            await it.v0.CancelWatchEvent(pb.CancelWatchRequest(watch_id=watch_id))
            with refused(grpc.StatusCode.CANCELLED, f"watch {watch_id} is cancelled"):
                await the_end(call)
            with refused(grpc.StatusCode.NOT_FOUND, f"there is no watch '{watch_id}'"):
                await it.v0.CancelWatchEvent(pb.CancelWatchRequest(watch_id=watch_id))
        assert not it.watches.count


async def test_nothing_is_gathered_without_a_watcher() -> None:
    async with serving() as it:
        calls = it.v0.WatchHostSummaryEvent(REQUEST), it.v0.WatchEventStreamEvent(REQUEST)
        for call in calls:
            await following(call)
        for call in calls:
            call.cancel()
        await until(lambda: not it.watches.count)
        it.put(offer(0, 0))
        it.status(RUN, mesos_pb2.TASK_RUNNING, b"one")
        assert not it.manager.hosts.changed.watched and it.manager.status_updates.watched is None


async def test_a_slow_watcher_is_aborted_and_holds_nobody_up() -> None:
    async with serving() as it:
        slow, quick = it.watches.watch_hosts(""), it.watches.watch_hosts("")
        items = quick.items()
        for number in range(watchqueue.MAX_QUEUED + 1):
            assert slow.end is None
            it.put(offer(number, 0))
            assert await anext(items) == (("S0", "host0"),)
        assert slow.end is not None and slow.end.code is grpc.StatusCode.ABORTED
        assert "more than 100 messages behind: watch again" in slow.end.text
        assert quick.end is None and it.watches.count == 1


@pytest.mark.parametrize("method", ["WatchHostSummaryEvent", "WatchEventStreamEvent"])
async def test_a_topic_is_that_of_the_method_and_watches_are_bounded(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "MAX_WATCHES", 1)
    async with serving() as it:
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "topic: 'weather' is not"):
            await the_end(getattr(it.v0, method)(pb.WatchEventRequest(topic="weather")))
        assert not it.watches.count
        call = getattr(it.v0, method)(REQUEST)
        topic = (await following(call)).topic
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "there are 1 watches already"):
            await the_end(getattr(it.v0, method)(pb.WatchEventRequest(topic=topic)))


async def test_the_end_of_the_term_ends_watches() -> None:
    async with serving() as it:
        call = it.v0.WatchHostSummaryEvent(REQUEST)
        await following(call)
        it.watches.close()
        with refused(grpc.StatusCode.UNAVAILABLE, "no longer leads"):
            await the_end(call)

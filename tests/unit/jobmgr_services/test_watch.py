"""WatchService over the wire and the engine: filters, limits, slow watchers, Cancel, loss of leadership."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from jobmgr.server import services
from jobmgr.services.v1alpha.watch_filters import PodFilter
from jobmgr.services.v1alpha.watches import Watches
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.watch import watch_pb2
from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb
from peloton.api.v1alpha.watch.svc import watch_svc_pb2_grpc
from peloton.clock import SystemClock
from peloton.model.ids import task_id
from peloton.model.lockdown import Component
from peloton.model.shard import shard_of
from peloton.model.states import JobType
from peloton.model.workflow import WorkflowOptions
from peloton.rpc import watchqueue
from peloton.rpc.server import RpcServer
from storage.interface import Store
from tests.unit.jobmgr_core.services import service
from tests.unit.jobmgr_core.specs import spec
from tests.unit.jobmgr_core.steps import ended
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.unit.jobmgr_services.conftest import JOB, status
from tests.unit.jobmgr_services.fakes import FakeHostmgr
from tests.waiting import until

OTHER = "b0000000-0000-4000-8000-00000000000b"
SECONDS = 120.0
"""A thousand watches begin within it, on a busy machine too."""


@dataclass
class Watching:
    engine: Engine
    world: World
    watches: Watches
    stub: Any

    def open(self, **fields: Any) -> Any:
        return self.stub.Watch(pb.WatchRequest(**fields))

    async def begin(self, **fields: Any) -> tuple[Any, pb.WatchResponse]:
        """Open a watch and read its first message."""
        call = self.open(**fields)
        return call, await following(call)


async def following(call: Any) -> pb.WatchResponse:
    async with asyncio.timeout(SECONDS):
        answer = await call.read()
    assert isinstance(answer, pb.WatchResponse), answer
    return answer


async def read_until(call: Any, holds: Callable[[pb.WatchResponse], bool]) -> list[pb.WatchResponse]:
    """Read messages up to the first one for which the condition holds."""
    read = [await following(call)]
    while not holds(read[-1]):
        read.append(await following(call))
    return read


async def the_end(call: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while await call.read() is not grpc.aio.EOF:
            pass


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    from storage.config import SqliteSettings
    from storage.sqlite.store import open_sqlite

    opened = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    yield opened
    await opened.close()


@pytest.fixture
async def watching(store: Store) -> AsyncIterator[Watching]:
    engine, world, hostmgr = Engine(store), World(runs_on), FakeHostmgr()
    await engine.recovery.begin()
    workflows = Workflows(engine)
    watches = Watches(engine, workflows.status, SystemClock(), gather=0.01)
    server = RpcServer(lambda: "nobody leads")
    server.activate(services(engine, workflows, SystemClock(), hostmgr, hostmgr, watches))
    port = await server.start("127.0.0.1", 0)
    async with (
        Running(engine, world),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield Watching(engine, world, watches, watch_svc_pb2_grpc.WatchServiceStub(channel))
        watches.close()
    await server.stop(0)


def pods(**fields: Any) -> watch_pb2.PodFilter:
    return watch_pb2.PodFilter(**fields)


def jobs(*ids: str, **fields: Any) -> watch_pb2.StatelessJobFilter:
    return watch_pb2.StatelessJobFilter(job_ids=[peloton_pb2.JobID(value=each) for each in ids], **fields)


def name(instance: int, job: str = JOB) -> peloton_pb2.PodName:
    return peloton_pb2.PodName(value=task_id(job, instance))


def runs(pod: str) -> Callable[[pb.WatchResponse], bool]:
    def holds(message: pb.WatchResponse) -> bool:
        return any(
            each.pod_name.value == pod and each.status.state == pod_pb2.POD_STATE_RUNNING
            for each in message.pods
        )

    return holds


async def test_the_first_message_has_the_id_and_changes_follow_with_growing_revisions(
    watching: Watching,
) -> None:
    call, first = await watching.begin(pod_filter=pods())
    assert first.watch_id
    assert not first.pods
    await watching.engine.create_job(JOB, spec(3))
    seen: dict[str, int] = {}
    revision = first.revision
    while len(seen) < 3 or set(seen.values()) != {pod_pb2.POD_STATE_RUNNING}:
        message = await following(call)
        assert message.revision > revision
        revision = message.revision
        seen.update((pod.pod_name.value, pod.status.state) for pod in message.pods)
    assert set(seen) == {task_id(JOB, i) for i in range(3)}


async def test_pods_are_filtered_by_job_name_and_label(watching: Watching) -> None:
    of_job, _ = await watching.begin(pod_filter=pods(job_id=peloton_pb2.JobID(value=JOB)))
    await watching.engine.create_job(OTHER, spec(2))
    await watching.engine.create_job(JOB, spec(3))
    one, _ = await watching.begin(pod_filter=pods(pod_names=[name(1)]))
    labels = [peloton_pb2.Label(key="no", value="such")]
    none, first = await watching.begin(pod_filter=pods(labels=labels))
    await until(lambda: len(watching.world.alive) == 5, "all run")
    await watching.engine.restart(JOB, None)
    read = await read_until(one, lambda message: bool(message.pods))
    assert {pod.pod_name.value for message in read for pod in message.pods} == {task_id(JOB, 1)}
    read = await read_until(of_job, runs(task_id(JOB, 2)))
    assert {pod.pod_name.value.rpartition("-")[0] for message in read for pod in message.pods} == {JOB}
    await watching.stub.Cancel(pb.CancelRequest(watch_id=first.watch_id))
    with status(grpc.StatusCode.CANCELLED):
        while (message := await none.read()) is not grpc.aio.EOF:
            assert not message.pods


async def test_jobs_are_filtered_by_id_and_only_services_are_shown(watching: Watching) -> None:
    await watching.engine.create_job(JOB, replace(spec(1), type=JobType.SERVICE))
    await watching.engine.create_job(OTHER, spec(1))
    await until(lambda: len(watching.world.alive) == 2, "both run")
    every, _ = await watching.begin(stateless_job_filter=jobs())
    one, _ = await watching.begin(stateless_job_filter=jobs(JOB))
    await watching.engine.stop(OTHER, None)
    await ended(watching.engine, OTHER)
    await watching.engine.stop(JOB, None)
    for call in (every, one):
        (message,) = await read_until(call, lambda message: True)
        assert [job.job_id.value for job in message.stateless_jobs] == [JOB]


async def test_a_job_is_shown_with_its_workflow_and_pods_that_it_removes_are_told(watching: Watching) -> None:
    engine = watching.engine
    await engine.create_job(JOB, service(2))
    await until(lambda: len(watching.world.alive) == 2, "both run")
    job, _ = await watching.begin(stateless_job_filter=jobs(JOB))
    pod, _ = await watching.begin(pod_filter=pods(job_id=peloton_pb2.JobID(value=JOB)))
    await Workflows(engine).replace(JOB, replace(service(1), version=2), WorkflowOptions())
    done = stateless_pb2.WORKFLOW_STATE_SUCCEEDED
    read = await read_until(
        job, lambda message: message.stateless_jobs[0].status.workflow_status.state == done
    )
    assert read[-1].stateless_jobs[0].instance_count == 1
    await read_until(pod, lambda message: list(message.pods_not_found) == [name(1)])


async def test_pods_that_a_batch_job_releases_are_told_when_they_have_ended(watching: Watching) -> None:
    engine = watching.engine
    await engine.create_job(JOB, spec(2))
    await until(lambda: len(watching.world.alive) == 2, "both run")
    pod, _ = await watching.begin(pod_filter=pods(job_id=peloton_pb2.JobID(value=JOB)))
    await engine.release(JOB, [1])
    await read_until(pod, lambda message: list(message.pods_not_found) == [name(1)])
    assert await engine.reuse(JOB, 2, 1) == [1]
    await read_until(pod, runs(task_id(JOB, 1)))


async def test_what_does_not_exist_is_told_after_the_id(watching: Watching) -> None:
    await watching.engine.create_job(JOB, spec(1))
    call, _ = await watching.begin(stateless_job_filter=jobs(OTHER, JOB))
    assert [job.value for job in (await following(call)).stateless_jobs_not_found] == [OTHER]
    call, _ = await watching.begin(pod_filter=pods(pod_names=[name(0), name(1), name(0, OTHER)]))
    gone = (await following(call)).pods_not_found
    assert [pod.value for pod in gone] == [task_id(JOB, 1), task_id(OTHER, 0)]


async def test_a_deleted_job_is_told(watching: Watching) -> None:
    await watching.engine.create_job(JOB, spec(1))
    await watching.engine.stop(JOB, None)
    await ended(watching.engine, JOB)
    job, _ = await watching.begin(stateless_job_filter=jobs(JOB))
    pod, _ = await watching.begin(pod_filter=pods(pod_names=[name(0)]))
    await watching.engine.delete(JOB)
    await read_until(job, lambda message: [each.value for each in message.stateless_jobs_not_found] == [JOB])
    await read_until(pod, lambda message: list(message.pods_not_found) == [name(0)])


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (pb.WatchRequest(), "filter: 'none' is not one of stateless_job_filter and pod_filter"),
        (pb.WatchRequest(stateless_job_filter=jobs(), pod_filter=pods()), "filter: 'both' is not one of"),
        (
            pb.WatchRequest(stateless_job_filter=jobs(JOB, "x")),
            "stateless_job_filter.job_ids[1]: 'x' is not a UUID",
        ),
        (
            pb.WatchRequest(pod_filter=pods(job_id=peloton_pb2.JobID(value="x"))),
            "pod_filter.job_id: 'x' is not a UUID",
        ),
        (
            pb.WatchRequest(pod_filter=pods(pod_names=[peloton_pb2.PodName(value="x")])),
            "pod_filter.pod_names[0]: 'x' is not <job UUID>-<instance>",
        ),
        (
            pb.WatchRequest(pod_filter=pods(job_id=peloton_pb2.JobID(value=JOB), pod_names=[name(0, OTHER)])),
            f"is not a pod of the job {JOB}",
        ),
    ],
)
async def test_wrong_filters_are_invalid(watching: Watching, request_: pb.WatchRequest, text: str) -> None:
    with status(grpc.StatusCode.INVALID_ARGUMENT, text):
        await the_end(watching.stub.Watch(request_))
    assert not watching.watches.count


async def test_a_start_in_the_past_is_refused(watching: Watching) -> None:
    now = watching.watches.revision
    with status(grpc.StatusCode.FAILED_PRECONDITION, f"revision {now} are not kept"):
        await the_end(watching.open(pod_filter=pods(), start_revision=now))
    call, _ = await watching.begin(pod_filter=pods(), start_revision=now + 2)
    await watching.engine.create_job(JOB, spec(1))
    await until(lambda: watching.watches.revision > now and watching.world.alive, "a first message is sent")
    await watching.engine.stop(JOB, None)
    assert (await following(call)).revision >= now + 2


async def test_a_lockdown_of_read_refuses_watches_but_ends_none(watching: Watching) -> None:
    call, _ = await watching.begin(pod_filter=pods())
    await watching.engine.lockdown.lock(Component.READ)
    with status(grpc.StatusCode.FAILED_PRECONDITION, "Watch: an operator has locked Read calls"):
        await the_end(watching.open(pod_filter=pods()))
    await watching.engine.create_job(JOB, spec(1))
    await read_until(call, runs(task_id(JOB, 0)))


async def test_cancel_ends_a_watch_once(watching: Watching) -> None:
    for filters in ({"pod_filter": pods()}, {"stateless_job_filter": jobs()}):
        call, first = await watching.begin(**filters)
        await watching.stub.Cancel(pb.CancelRequest(watch_id=first.watch_id))
        with status(grpc.StatusCode.CANCELLED, f"watch {first.watch_id} is cancelled"):
            await the_end(call)
        with status(grpc.StatusCode.NOT_FOUND, f"watch_id: there is no watch '{first.watch_id}'"):
            await watching.stub.Cancel(pb.CancelRequest(watch_id=first.watch_id))


async def test_a_watcher_that_goes_away_is_forgotten_and_nothing_is_gathered_then(watching: Watching) -> None:
    lane = watching.engine.lanes.lane(JOB)
    assert lane.on_commit is None
    call, _ = await watching.begin(pod_filter=pods())
    assert lane.on_commit is not None
    call.cancel()
    await until(lambda: not watching.watches.count, "it is forgotten")
    assert lane.on_commit is None
    assert watching.engine.on_delete is None


async def test_watches_end_with_leadership(watching: Watching) -> None:
    call, _ = await watching.begin(pod_filter=pods())
    watching.watches.close()
    with status(grpc.StatusCode.UNAVAILABLE, "no longer leads"):
        await the_end(call)


# --- where job managers share the work ---


async def test_a_watch_tells_what_is_owned_before_and_after_the_changes(watching: Watching) -> None:
    watches, shard = watching.watches, shard_of(JOB)
    watches.share()
    watches.began(shard, 7)
    watch = watches.open(hub_filter(), 0)
    call, first = await watching.begin(pod_filter=pods())
    assert (first.shards, first.generation) == (f"7:{shard}", 7)
    await watching.engine.create_job(JOB, spec(1))
    await read_until(call, runs(task_id(JOB, 0)))
    watches._changes.delete(JOB)
    watches._schedule()
    await watches.drained(shard)
    watches.saw(8)
    told = [pb.WatchResponse.FromString(each) for each in watch._queued]
    assert [(each.shards, each.generation) for each in told[-2:]] == [("", 7), ("", 8)]
    assert all(each.HasField("shards") for each in told[-2:])
    assert [pod.value for pod in told[-3].pods_not_found] == [task_id(JOB, 0)], "what was gathered goes first"


async def test_a_shard_that_is_lost_ends_the_watches_and_one_that_was_given_up_does_not(
    watching: Watching,
) -> None:
    watches = watching.watches
    watches.share()
    watches.began(1, 7)
    watches.began(2, 7)
    call, _ = await watching.begin(pod_filter=pods())
    await watches.drained(1)
    watches.dropped(1)
    assert watches.count == 1
    watches.dropped(2)
    with status(grpc.StatusCode.UNAVAILABLE, "this job manager has lost jobs: watch again"):
        await the_end(call)


async def test_one_who_has_all_jobs_tells_no_shards(watching: Watching) -> None:
    watching.watches.began(1, 7)
    _, first = await watching.begin(pod_filter=pods())
    assert not first.HasField("shards")


async def test_a_thousand_watchers_are_served_and_one_more_is_refused(watching: Watching) -> None:
    calls = [watching.open(pod_filter=pods()) for _ in range(watchqueue.MAX_WATCHES)]
    await asyncio.gather(*(following(call) for call in calls))
    with status(grpc.StatusCode.RESOURCE_EXHAUSTED, "there are 1000 watches already"):
        await the_end(watching.open(pod_filter=pods()))
    await watching.engine.create_job(JOB, spec(1))
    await asyncio.gather(*(read_until(call, runs(task_id(JOB, 0))) for call in calls))
    assert all(len(watch._queued) <= watchqueue.MAX_QUEUED for watch in watching.watches._watches.values())


async def test_a_slow_watcher_is_ended_and_holds_no_messages(watching: Watching) -> None:
    filter_ = hub_filter()
    slow, quick = watching.watches.open(filter_, 0), watching.watches.open(filter_, 0)
    messages = quick.items()
    for _ in range(watchqueue.MAX_QUEUED):
        assert slow.end is None
        watching.watches._changes.delete(JOB)
        watching.watches._flush()
        gone = pb.WatchResponse.FromString(await anext(messages)).pods_not_found
        assert [pod.value for pod in gone] == [task_id(JOB, 0)]
    watching.watches._changes.delete(JOB)
    watching.watches._flush()
    assert slow.end is not None
    assert slow.end.code is grpc.StatusCode.ABORTED
    assert slow.end.text == "the watcher is more than 100 messages behind: watch again"
    assert [message async for message in slow.items()] == []
    assert watching.watches.count == 1
    assert pb.WatchResponse.FromString(await anext(messages)).pods_not_found


async def test_a_message_is_serialized_once_for_watchers_with_the_same_filter(watching: Watching) -> None:
    same = [watching.watches.open(hub_filter(), 0) for _ in range(2)]
    every = watching.watches.open(hub_filter(pods(pod_names=[name(0), name(1)])), 0)
    watching.watches._changes.delete(JOB)
    watching.watches._flush()
    one, other, longer = [await anext(watch.items()) for watch in (*same, every)]
    assert one is other
    assert len(pb.WatchResponse.FromString(longer).pods_not_found) == 2


def test_many_watchers_get_fewer_messages(store: Store) -> None:
    engine = Engine(store)
    watches = Watches(engine, Workflows(engine).status, SystemClock())
    for count, seconds in ((1, 0.2), (400, 0.2), (1000, 0.5)):
        while watches.count < count:
            watches.open(hub_filter(), 0)
        assert watches.interval == seconds


def hub_filter(wire: watch_pb2.PodFilter | None = None) -> PodFilter:
    return PodFilter(pods(pod_names=[name(0)]) if wire is None else wire)

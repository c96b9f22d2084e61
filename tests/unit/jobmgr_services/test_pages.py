"""Pages are cut by bytes: a client with gRPC's usual limit reads every list, query and event method."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool
from hypothesis import given
from hypothesis import strategies as st

from jobmgr.server import NAMES
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v1alpha.watch.svc import watch_svc_pb2
from peloton.clock import ManualClock
from peloton.errors import InvalidArgument
from peloton.identity.methods import API, interface
from peloton.rpc.pages import ANSWER_BYTES, MOST_BYTES, USUAL_BYTES, Room, parts_of, taken_by
from peloton.rpc.server import OPTIONS, RpcServer
from storage.config import SqliteSettings
from storage.sqlite.store import open_sqlite
from tests.unit.jobmgr_services.configs import POOLS, job
from tests.unit.jobmgr_services.fakes import NOW, FakeEngine, FakeHostmgr, served_by

DESCRIPTORS: Any = descriptor_pool
CUT = {
    "v0.job.JobManager": {"Query"},
    "v0.task.TaskManager": {"Query", "GetPodEvents"},
    "v0.update.svc.UpdateService": {"ListUpdates"},
    "v1alpha.job.stateless.svc.JobService": {
        *("ListPods", "QueryPods", "QueryJobs", "ListJobs", "ListJobWorkflows", "GetWorkflowEvents"),
    },
    "v1alpha.pod.svc.PodService": {"GetPod", "GetPodEvents"},
    "v1alpha.watch.svc.WatchService": {"Watch"},
}
"""Methods whose answers are cut, or sent in several messages."""
WHOLE = {
    "v0.job.JobManager": {"Get", "GetActiveJobs", "Create", "Update"},
    "v0.job.instances.InstanceService": {"ReleaseInstances"},
    "v0.task.TaskManager": {"Get", "List", "Start", "Stop", "BrowseSandbox"},
    "v0.update.svc.UpdateService": {"GetUpdateCache"},
    "v0.volume.svc.VolumeService": {"ListVolumes"},
    "v1alpha.volume.svc.VolumeService": {"ListVolumes"},
    "v1alpha.admin.svc.AdminService": {"Lockdown", "RemoveLockdown"},
    "v1alpha.job.stateless.svc.JobService": {
        *("GetJob", "GetJobIDFromJobName", "GetReplaceJobDiff", "CreateJob", "ReplaceJob", "PatchJob"),
    },
    "v1alpha.pod.svc.PodService": {"BrowsePodSandbox"},
}
"""Methods without pages in the interface, whose answers are whole (docs/behaviour/operation.md, Sizes)."""


def listing() -> dict[str, set[str]]:
    """Methods of jobmgr's public services whose answers have a repeated field or a map of their own."""
    found: dict[str, set[str]] = {}
    for name, methods in interface().items():
        for method in methods if name.startswith(API) and name in NAMES else ():
            answer = DESCRIPTORS.Default().FindServiceByName(name).FindMethodByName(method).output_type
            inner = [field.message_type for field in answer.fields if field.name == "result"]
            fields = [*answer.fields, *(field for each in inner if each is not None for field in each.fields)]
            if any(field.is_repeated for field in fields if field.name not in ("labels", "ports")):
                found.setdefault(name.removeprefix(API), set()).add(method)
    return found


def test_every_method_that_lists_has_a_rule() -> None:
    ruled = {name: CUT.get(name, set()) | WHOLE.get(name, set()) for name in CUT.keys() | WHOLE.keys()}
    missing = {name: methods - ruled.get(name, set()) for name, methods in listing().items()}
    assert {name: methods for name, methods in missing.items() if methods} == {}


def records(*sizes: int) -> list[job_pb2.JobInfo]:
    return [job_pb2.JobInfo(config=job_pb2.JobConfig(name="x" * size)) for size in sizes]


@given(sizes=st.lists(st.integers(0, 400), max_size=40), most=st.integers(100, 1000))
def test_a_page_is_never_larger_than_it_may_be_and_never_empty(sizes: list[int], most: int) -> None:
    answer, found = job_pb2.QueryResponse(), records(*sizes)
    whole = Room(most).fill(answer.records, found)
    assert list(answer.records) == found[: len(answer.records)]
    assert whole == (len(answer.records) == len(found))
    assert answer.records or not found
    assert len(answer.records) <= 1 or answer.ByteSize() <= most - most // 8


@given(sizes=st.lists(st.integers(0, 300), max_size=40), gone=st.integers(0, 20))
def test_a_message_of_a_stream_is_sent_in_parts(sizes: list[int], gone: int) -> None:
    message = watch_svc_pb2.WatchResponse(watch_id="w", revision=7)
    for size in sizes:
        message.pods.add().pod_name.value = "x" * size
    for _ in range(gone):
        message.pods_not_found.add(value="y" * 50)
    parts = list(parts_of(message, 1000))
    assert [pod for part in parts for pod in part.pods] == list(message.pods)
    assert [pod for part in parts for pod in part.pods_not_found] == list(message.pods_not_found)
    assert {(part.watch_id, part.revision) for part in parts} == {("w", 7)}
    assert all(part.ByteSize() <= 1000 for part in parts)


class Context:
    def __init__(self, *metadata: tuple[str, str]) -> None:
        self.invocation_metadata = lambda: metadata


def test_a_client_may_say_what_it_takes() -> None:
    assert taken_by(None) == taken_by(Context()) == taken_by(Context((ANSWER_BYTES, "1"))) == USUAL_BYTES
    assert taken_by(Context((ANSWER_BYTES, "10000000"))) == 10_000_000
    assert taken_by(Context((ANSWER_BYTES, str(10**12)))) == MOST_BYTES
    with pytest.raises(InvalidArgument, match="peloton-answer-bytes: 'much' is not a number of bytes"):
        taken_by(Context((ANSWER_BYTES, "much")))


LARGE, COUNT = 130_000, 40


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[str]:
    """A jobmgr with 40 jobs whose commands are as long as they may be: 5 MB together."""
    store = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    for pool in POOLS:
        await store.pools.write(pool)
    hostmgr = FakeHostmgr()
    server = RpcServer(lambda: "nobody leads")
    server.activate(served_by(FakeEngine(store), ManualClock(epoch=NOW), hostmgr))
    port = await server.start("127.0.0.1", 0)
    yield f"127.0.0.1:{port}"
    await server.stop(0)
    await store.close()


async def test_a_client_with_the_usual_limit_reads_all_jobs_page_by_page(target: str) -> None:
    async with grpc.aio.insecure_channel(target) as channel:
        jobs = job_pb2_grpc.JobManagerStub(channel)
        for _ in range(COUNT):
            config = job(f'respoolID {{ value: "{POOLS[2].id}" }}')
            config.defaultConfig.command.value = "x" * LARGE
            answer = await jobs.Create(job_pb2.CreateRequest(config=config), timeout=60)
            assert not answer.HasField("error"), answer
        found: list[str] = []
        request = job_pb2.QueryRequest(spec=job_pb2.QuerySpec())
        request.spec.pagination.limit = 100
        while len(found) < COUNT:
            request.spec.pagination.offset = len(found)
            page = await jobs.Query(request, timeout=60)
            assert page.ByteSize() < USUAL_BYTES
            assert 0 < len(page.records) == len(page.results) < COUNT
            assert page.pagination.total == COUNT
            if len(found) + len(page.records) < COUNT:
                assert page.pagination.limit == len(page.records)
            found += [each.id.value for each in page.records]
        assert len(set(found)) == COUNT
    async with grpc.aio.insecure_channel(target, options=OPTIONS) as channel:
        request.spec.pagination.offset = 0
        metadata = ((ANSWER_BYTES, str(MOST_BYTES)),)
        page = await job_pb2_grpc.JobManagerStub(channel).Query(request, metadata=metadata, timeout=60)
        assert (len(page.records), page.pagination.limit) == (COUNT, 100)
        assert page.ByteSize() > USUAL_BYTES

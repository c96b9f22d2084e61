"""Calls about jobs of other instances: passed on once, to the owner, and never repeated after a doubt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from google.protobuf import descriptor_pool

from jobmgr.engine.engine import Engine
from jobmgr.engine.held_shards import HeldShards
from jobmgr.server import NAMES, OLDER_JOB_MANAGER, OLDER_TASK_MANAGER
from jobmgr.services.common import passing
from jobmgr.services.common.answering import ANYWHERE, GATHERED, MERGED, OF_POOLS, OWN, TRIED
from jobmgr.services.common.passing import Passing
from jobmgr.services.common.scope import KINDS
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.errors import Unavailable
from peloton.identity.methods import interface
from peloton.identity.on_behalf import ON_BEHALF, written
from peloton.leaders import NOT_BEGUN, Failure
from peloton.membership.interface import Address
from peloton.membership.shard_registry import SessionInfo, ShardRegistry, Shards
from peloton.model.shard import SHARDS, shard_of
from peloton.private.jobmgr.secrets import secrets_pb2, secrets_pb2_grpc
from peloton.rpc.caller import Metadata
from peloton.rpc.peers import PASSED, PassedFailure, Peers
from peloton.rpc.server import RpcServer, service
from peloton.sharding.table import Shard, ShardTable
from tests.unit.jobmgr_core.sharing import job_in

MINE, OTHERS = 1, 2
"""Shards."""
SERVED = (
    *(name for name in NAMES if name not in (OLDER_JOB_MANAGER, OLDER_TASK_MANAGER)),
    "peloton.private.access.AccessService",
    "peloton.private.problems.ProblemService",
)
"""The services of a job manager, each by its own name."""
_ADD = job_pb2_grpc.add_JobManagerServicer_to_server


class Registry:
    """What one instance sees. Half of the shards are a's, half are b's."""

    def __init__(self) -> None:
        self.addresses: dict[str, int] = {}
        self.owners = {number: "ab"[number % 2 == 0] for number in range(SHARDS)}
        self.generation = 1
        self._change = asyncio.Event()

    def give(self, shard: int, owner: str, generation: int) -> None:
        """See that a shard has another owner."""
        self.owners[shard], self.generation = owner, generation
        self._change.set()
        self._change = asyncio.Event()

    def seen(self) -> Shards:
        table = ShardTable(tuple(Shard(self.owners[number], 1) for number in range(SHARDS)), self.generation)
        sessions = {
            name: SessionInfo(Address("here", "127.0.0.1", 1, port)) for name, port in self.addresses.items()
        }
        return Shards(table, 1, sessions)

    async def changed(self) -> None:
        await self._change.wait()


class Jobs(job_pb2_grpc.JobManagerServicer):
    """Tells who answers, and keeps what it was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[dict[str, Any]] = []
        self.left: list[float | None] = []
        self.error: Exception | None = None
        self.before: Callable[[], None] = lambda: None
        """Called with each call."""

    def _note(self, context: Any) -> None:
        self.calls.append(dict(context.invocation_metadata()))
        self.left.append(context.time_remaining())
        self.before()
        if self.error is not None:
            raise self.error

    async def Get(self, request: job_pb2.GetRequest, context: Any) -> job_pb2.GetResponse:
        self._note(context)
        answer = job_pb2.GetResponse()
        answer.jobInfo.config.name = self.name
        return answer

    async def Create(self, request: job_pb2.CreateRequest, context: Any) -> job_pb2.CreateResponse:
        self._note(context)
        return job_pb2.CreateResponse(jobId=request.id)

    async def GetActiveJobs(
        self, request: job_pb2.GetActiveJobsRequest, context: Any
    ) -> job_pb2.GetActiveJobsResponse:
        self._note(context)
        return job_pb2.GetActiveJobsResponse(ids=[peloton_pb2.JobID(value=self.name)])


class Secrets(secrets_pb2_grpc.SecretServiceServicer):
    """Tells who answers."""

    def __init__(self, name: str) -> None:
        self.told = secrets_pb2.SecretInfo(name=name)

    async def CreateSecret(self, request: Any, context: Any) -> secrets_pb2.CreateSecretResponse:
        return secrets_pb2.CreateSecretResponse(info=self.told)

    async def ListSecrets(self, request: Any, context: Any) -> secrets_pb2.ListSecretsResponse:
        return secrets_pb2.ListSecretsResponse(secrets=[self.told])


class Instance:
    """A job manager, as far as its services go."""

    def __init__(self, name: str, registry: Registry) -> None:
        self.name = name
        self.registry = registry
        self.jobs = Jobs(name)
        self.held = HeldShards(whole=False)
        self.server = RpcServer(lambda: "nobody leads")
        self.peers = Peers(cast(ShardRegistry, registry), lambda: name, f"jobmgr/{name}", None)

    async def start(self) -> None:
        for shard, owner in self.registry.owners.items():
            if owner == self.name:
                self.held.begin(shard)
                self.held.opened(self.held.reading)
        engine = cast(Engine, SimpleNamespace(shards=self.held))
        secrets = service(secrets_pb2_grpc.add_SecretServiceServicer_to_server, Secrets(self.name))
        passing = Passing(engine, self.peers)
        self.server.activate([passing.over(service(_ADD, self.jobs)), passing.over(secrets)])
        self.registry.addresses[self.name] = await self.server.start("127.0.0.1", 0)
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.registry.addresses[self.name]}")
        self.stub = job_pb2_grpc.JobManagerStub(self.channel)

    async def close(self) -> None:
        await self.channel.close()
        await self.peers.close()
        await self.server.stop(0)


@pytest.fixture
async def two() -> AsyncIterator[tuple[Instance, Instance]]:
    a, b = Instance("a", Registry()), Instance("b", Registry())
    b.registry.addresses = a.registry.addresses
    for each in (a, b):
        await each.start()
    yield a, b
    for each in (a, b):
        await each.close()


async def get(instance: Instance, shard: int, metadata: Metadata = (), timeout: float = 10) -> str:
    request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_in(shard)))
    answer: job_pb2.GetResponse = await instance.stub.Get(request, timeout=timeout, metadata=metadata)
    return str(answer.jobInfo.config.name)


async def test_the_owner_answers(two: tuple[Instance, Instance]) -> None:
    a, _ = two
    for each in two:
        assert await get(each, MINE) == "a"
        assert await get(each, OTHERS) == "b"
    assert PASSED not in a.jobs.calls[0]
    assert a.jobs.calls[1][PASSED] == "jobmgr/b"


async def test_identity_and_deadline_are_kept(two: tuple[Instance, Instance]) -> None:
    a, b = two
    sent = (("authorization", "Bearer x"), ("x-request-id", "7"), ("rpc-caller", "me"))
    await get(a, OTHERS, sent, timeout=5)
    assert dict(sent).items() <= b.jobs.calls[0].items()
    left = b.jobs.left[0]
    assert left is not None
    assert left <= 5.1  # gRPC rounds a timeout up to what its header can say, by up to 10 ms here


async def test_a_call_is_passed_on_once(two: tuple[Instance, Instance]) -> None:
    a, b = two
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await get(a, OTHERS, ((PASSED, "jobmgr/b"),))
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert (NOT_BEGUN, "1") in tuple(refused.value.trailing_metadata() or ())
    assert not b.jobs.calls


async def test_a_call_of_unknown_outcome_is_not_repeated(two: tuple[Instance, Instance]) -> None:
    a, b = two
    b.jobs.error = Unavailable("the store does not answer")
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await get(a, OTHERS)
    assert failed.value.details() == "the store does not answer"
    assert NOT_BEGUN not in dict(tuple(failed.value.trailing_metadata() or ()))
    assert len(b.jobs.calls) == 1


async def test_a_call_that_has_not_begun_is_made_at_the_next_owner(two: tuple[Instance, Instance]) -> None:
    """The table of the one who is called may be old: the other one is no owner any more, or not yet."""
    a, b = two
    b.held.drop(OTHERS)
    b.registry.give(OTHERS, "a", 2)
    asked = asyncio.create_task(get(a, OTHERS))
    await asyncio.sleep(0.3)
    assert not asked.done()
    assert not b.jobs.calls
    a.held.begin(OTHERS)
    assert await asked == "a"


async def test_the_next_owner_answers_as_soon_as_it_has_begun(
    two: tuple[Instance, Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call waits there: who passes it on sees the table only, which does not change then."""
    monkeypatch.setattr(passing, "PAUSE_SECONDS", 60.0)
    a, b = two
    b.held.drop(OTHERS)
    asked = asyncio.create_task(get(a, OTHERS))
    await asyncio.sleep(0.1)
    assert not asked.done()
    b.held.begin(OTHERS)
    assert await asked == "b"


async def test_a_call_waits_where_the_table_of_its_next_owner_is_older(
    two: tuple[Instance, Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passing, "PAUSE_SECONDS", 60.0)
    a, b = two
    a.held.drop(MINE)
    a.registry.give(MINE, "b", 2)
    asked = asyncio.create_task(get(a, MINE))
    await asyncio.sleep(0.1)
    assert not asked.done()
    b.registry.give(MINE, "b", 2)
    b.held.begin(MINE)
    assert await asked == "b"


async def test_a_change_that_comes_while_a_call_is_on_its_way_is_not_missed(
    two: tuple[Instance, Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call comes back as not begun, and by then it is known here who owns the shard next."""
    monkeypatch.setattr(passing, "PAUSE_SECONDS", 60.0)
    a, b = two
    refused = asyncio.Event()

    async def refuse(self: Peers, *more: Any) -> Any:
        refused.set()
        await asyncio.sleep(0.05)
        raise PassedFailure(Failure.NOT_BEGUN, grpc.StatusCode.UNAVAILABLE, "moved", ())

    monkeypatch.setattr(Peers, "call", refuse)
    asked = asyncio.create_task(get(a, OTHERS))
    await refused.wait()
    b.held.drop(OTHERS)
    a.held.begin(OTHERS)
    a.registry.give(OTHERS, "a", 2)
    assert await asked == "a"


async def test_where_nobody_owns_it_the_call_ends_with_its_deadline(two: tuple[Instance, Instance]) -> None:
    a, b = two
    a.registry.owners[OTHERS] = "c"
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await get(a, OTHERS, timeout=0.5)
    assert failed.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    assert not b.jobs.calls


async def test_a_new_job_without_an_id_is_of_the_instance_that_is_called(
    two: tuple[Instance, Instance],
) -> None:
    for each in two:
        request = job_pb2.CreateRequest(config=job_pb2.JobConfig(name="new"))
        answer = await each.stub.Create(request, timeout=60)
        assert each.registry.owners[shard_of(answer.jobId.value)] == each.name


async def test_secrets_of_a_pool_are_changed_by_one_instance(two: tuple[Instance, Instance]) -> None:
    """It reads them before, under a lock of its own. Any instance lists them."""
    for each in two:
        pool = peloton_pb2.ResourcePoolID(value=job_in(OTHERS))
        stub = secrets_pb2_grpc.SecretServiceStub(each.channel)
        made = await stub.CreateSecret(secrets_pb2.CreateSecretRequest(pool_id=pool), timeout=60)
        assert made.info.name == "b"
        listed = await stub.ListSecrets(secrets_pb2.ListSecretsRequest(pool_id=pool), timeout=60)
        assert [secret.name for secret in listed.secrets] == [each.name]


async def test_lists_of_all_are_put_together(two: tuple[Instance, Instance]) -> None:
    for each in two:
        answer = await each.stub.GetActiveJobs(job_pb2.GetActiveJobsRequest(), timeout=60)
        assert {job.value for job in answer.ids} == {"a", "b"}


async def test_a_list_without_those_of_one_who_is_gone_is_no_answer(
    two: tuple[Instance, Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passing, "LONGEST_SECONDS", 0.3)
    a, _ = two
    a.registry.owners[OTHERS] = "c"
    with pytest.raises(grpc.aio.AioRpcError, match="gone"):
        await a.stub.GetActiveJobs(job_pb2.GetActiveJobsRequest(), timeout=60)


async def test_a_list_is_asked_for_again_where_jobs_have_moved_meanwhile(
    two: tuple[Instance, Instance],
) -> None:
    a, b = two
    a.registry.owners[OTHERS] = "c"
    asked = asyncio.ensure_future(_active(a))
    await asyncio.sleep(0.05)
    assert not asked.done()
    for each in two:
        each.registry.give(OTHERS, "b", 2)
    assert await asked == {"a", "b"}
    assert len(b.jobs.calls) == 1


@pytest.mark.parametrize("called", [0, 1])
async def test_a_list_waits_until_the_next_owner_has_begun(
    two: tuple[Instance, Instance], called: int
) -> None:
    """Between two owners nobody knows the jobs of a shard: a list without them would be wrong."""
    _, b = two
    b.held.drop(OTHERS)
    asked = asyncio.ensure_future(_active(two[called]))
    await asyncio.sleep(0.1)
    assert not asked.done()
    b.held.begin(OTHERS)
    assert await asked == {"a", "b"}


async def test_a_list_is_made_anew_where_a_shard_is_given_up_meanwhile(
    two: tuple[Instance, Instance],
) -> None:
    a, b = two
    b.jobs.before = lambda: b.held.drop(OTHERS)
    asked = asyncio.ensure_future(_active(a))
    while not b.jobs.calls:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    b.jobs.before = lambda: None
    await asyncio.sleep(0.1)
    assert not asked.done()
    b.held.begin(OTHERS)
    assert await asked == {"a", "b"}


async def test_a_list_waits_for_one_whose_table_is_older(two: tuple[Instance, Instance]) -> None:
    """It may have got a shard by the newer one, which neither has put into the list then."""
    a, b = two
    a.registry.give(MINE, "a", 2)
    asked = asyncio.ensure_future(_active(a))
    await asyncio.sleep(0.1)
    assert not asked.done()
    b.registry.give(MINE, "a", 2)
    assert await asked == {"a", "b"}


async def test_a_list_is_asked_for_again_where_this_instance_reads_its_jobs(
    two: tuple[Instance, Instance],
) -> None:
    a, _ = two
    a.jobs.error = Unavailable("5 of the active jobs are not read yet")
    asked = asyncio.ensure_future(_active(a))
    while not a.jobs.calls:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    a.jobs.error = None
    assert await asked == {"a", "b"}


def described(service_name: str) -> dict[str, Any]:
    """The methods of a service."""
    interface()  # imports all generated messages
    return dict(descriptor_pool.Default().FindServiceByName(service_name).methods_by_name)  # type: ignore[no-untyped-call]


def test_each_method_has_a_place_where_several_job_managers_are() -> None:
    """A call that names no job is answered by all owners or by any: a new method has to say which."""
    tables = (GATHERED.keys(), ANYWHERE, OF_POOLS, OWN, TRIED, MERGED)
    without = set()
    for service_name in SERVED:
        for name, method in described(service_name).items():
            place = f"{service_name.rpartition('.')[2]}.{name}"
            places = sum(place in table for table in tables)
            about_one_job = any(
                field.message_type is not None and field.message_type.name in KINDS and not field.is_repeated
                for field in method.input_type.fields
            )
            assert places == (0 if about_one_job else 1), f"{place} has {places} places"
            if not about_one_job:
                without.add(place)
    assert without == set().union(*tables), "methods that are gone"


async def _active(instance: Instance) -> set[str]:
    answer = await instance.stub.GetActiveJobs(job_pb2.GetActiveJobsRequest(), timeout=60)
    return {job.value for job in answer.ids}


class Call:
    """The context of a call by who shows a certificate."""

    def __init__(self, metadata: Metadata, *names: str) -> None:
        self._metadata = metadata
        self._names = names

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_common_name": [name.encode() for name in self._names]}


@pytest.mark.parametrize("names", [("ann",), ()])
async def test_the_names_of_the_callers_certificate_are_passed_on(names: tuple[str, ...]) -> None:
    """Even if there are none: and never those that the caller says itself."""
    peers = Peers(cast(ShardRegistry, Registry()), lambda: "a", "jobmgr/a", None, by_certificate=True)
    call = Call(((ON_BEHALF, written(["admin"])), ("x-request-id", "7")), *names)
    assert peers.metadata_of(call) == (("x-request-id", "7"), (ON_BEHALF, written(names)))


async def test_what_a_caller_says_of_its_certificate_is_not_passed_on(
    two: tuple[Instance, Instance],
) -> None:
    a, b = two
    await get(a, OTHERS, ((ON_BEHALF, written(["admin"])),))
    assert ON_BEHALF not in b.jobs.calls[0]


async def test_an_answer_of_a_read_is_not_parsed_on_its_way(
    two: tuple[Instance, Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = two
    asked: list[object] = []
    called = Peers.call

    async def call(self: Peers, owner: Any, path: str, request: Any, answer: Any, *more: Any) -> Any:
        asked.append(answer)
        return await called(self, owner, path, request, answer, *more)

    monkeypatch.setattr(Peers, "call", call)
    assert await get(a, OTHERS) == "b"
    request = job_pb2.CreateRequest(id=peloton_pb2.JobID(value=job_in(OTHERS)))
    assert (await a.stub.Create(request, timeout=60)).jobId == request.id
    assert asked == [None, job_pb2.CreateResponse]  # the audit log has ids of what is created

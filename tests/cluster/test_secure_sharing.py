"""Job managers that share the work of a cluster that asks callers who they are."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import grpc
import pytest

from minicluster.credentials import ADMIN, CLIENT, client_identity
from minicluster.settings import Instances
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.client.auth import BasicAuth
from peloton.identity.on_behalf import ON_BEHALF, written
from peloton.model.shard import shard_of
from peloton.private.jobmgr.scheduling import scheduling_pb2, scheduling_pb2_grpc
from peloton.private.problems import problems_pb2, problems_pb2_grpc
from tests.cluster.conftest import Harness, harness_of
from tests.cluster.test_sharing import SHARING, job_id, numbers, owners, settled

pytestmark = pytest.mark.extended

SERVICE = "/peloton.api.v0.job.JobManager/"
JOBS = 6
Metadata = tuple[tuple[str, str], ...]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness_of(tmp_path_factory, instances=Instances(jobmgr=2), settings=SHARING, secure=True) as held:
        settled(held, 2)
        yield held


@pytest.fixture(scope="module")
def channels(two: Harness) -> Iterator[list[grpc.Channel]]:
    credentials = client_identity(two.cluster.directory)["tls"].credentials()
    made = [grpc.secure_channel(each.address, credentials) for each in owners(two)]
    yield made
    for channel in made:
        channel.close()


def admin(two: Harness) -> Metadata:
    auth = client_identity(two.cluster.directory)["auth"]
    assert isinstance(auth, BasicAuth)
    return (("username", auth.username), ("password", auth.password))


def of_another(two: Harness, number: int) -> str:
    """A new id of a job that is not of the job manager with this number."""
    own = numbers(owners(two)[number].shards)
    return next(each for each in iter(lambda: str(uuid.uuid4()), "") if shard_of(each) not in own)


def create(channel: grpc.Channel, two: Harness, metadata: Metadata, name: str = "") -> str:
    name = name or str(uuid.uuid4())
    request = job_pb2.CreateRequest(id=job_id(name), config=two.config("true"))
    method = channel.unary_unary(
        f"{SERVICE}Create", job_pb2.CreateRequest.SerializeToString, job_pb2.CreateResponse.FromString
    )
    answer = method(request, metadata=metadata, timeout=30)
    assert not answer.HasField("error"), answer.error
    return name


def get(channel: grpc.Channel, name: str, metadata: Metadata) -> job_pb2.GetResponse:
    method = channel.unary_unary(
        f"{SERVICE}Get", job_pb2.GetRequest.SerializeToString, job_pb2.GetResponse.FromString
    )
    answer: job_pb2.GetResponse = method(job_pb2.GetRequest(id=job_id(name)), metadata=metadata, timeout=30)
    return answer


def test_any_instance_answers_and_the_audit_log_has_the_caller(
    two: Harness, channels: list[grpc.Channel]
) -> None:
    made = [
        create(channels[number % 2], two, admin(two), of_another(two, number % 2)) for number in range(JOBS)
    ]
    for name in made:
        for channel in channels:
            assert get(channel, name, admin(two)).jobInfo.config.instanceCount == 1
        assert two.ended(name).state == job_pb2.SUCCEEDED
    lines = [json.loads(line) for line in two.cluster.layout.audit.read_text().splitlines()]
    created = [each for each in lines if each["method"].endswith("JobManager/Create")]
    assert {each["object"]["job"] for each in created} == set(made)
    assert len(created) == 2 * JOBS, "each call was passed on"
    assert {(each["principal"], each["kind"]) for each in created} == {(ADMIN, "user")}


def test_what_only_owners_know_is_asked_of_them(two: Harness, channels: list[grpc.Channel]) -> None:
    """For the caller (problems, schedules), or as one job manager asks another (crash loops)."""
    for channel in channels:
        problems = problems_pb2_grpc.ProblemServiceStub(channel).ListProblems(
            problems_pb2.ListProblemsRequest(), metadata=admin(two), timeout=30
        )
        assert not [each.text for each in problems.problems if "job manager at" in each.text]
        schedules = scheduling_pb2_grpc.SchedulingServiceStub(channel).ListSchedules(
            scheduling_pb2.ListSchedulesRequest(), metadata=admin(two), timeout=30
        )
        assert schedules.total == 0
        query = job_pb2.QueryRequest(spec=job_pb2.QuerySpec(crashLooping=True))
        found = job_pb2_grpc.JobManagerStub(channel).Query(query, metadata=admin(two), timeout=30)
        assert not found.results


def test_who_shows_nothing_but_a_certificate_of_nobody_is_refused_by_all(
    two: Harness, channels: list[grpc.Channel]
) -> None:
    name = create(channels[0], two, admin(two))
    for channel in channels:
        with pytest.raises(grpc.RpcError) as refused:
            get(channel, name, ())
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("names", [[CLIENT], ["jobmgr"]])
def test_a_user_cannot_say_for_whom_a_call_is(
    two: Harness, channels: list[grpc.Channel], names: list[str]
) -> None:
    for channel in channels:
        with pytest.raises(grpc.RpcError) as refused:
            create(channel, two, (*admin(two), (ON_BEHALF, written(names))))
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED

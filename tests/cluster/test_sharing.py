"""Job managers that share the work: any of them answers any call, and each does the work of its own jobs."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import grpc
import pytest

from minicluster.settings import DaemonSettings, Instances
from peloton.api.scheduling import scheduling_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v0.task import task_pb2, task_pb2_grpc
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2, stateless_svc_pb2_grpc
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.watch import watch_pb2
from peloton.api.v1alpha.watch.svc import watch_svc_pb2, watch_svc_pb2_grpc
from peloton.client.watching import EventKind
from peloton.model.shard import SHARDS, shard_of
from peloton.private.jobmgr.scheduling import scheduling_pb2 as private_scheduling
from peloton.private.jobmgr.scheduling import scheduling_pb2_grpc
from peloton.private.jobmgr.sharing import sharing_pb2 as sharing
from peloton.private.problems import problems_pb2, problems_pb2_grpc
from tests.cluster.conftest import Harness, harness_of, wait_for
from tests.cluster.service_job import ServiceJob
from tests.cluster.test_what_is_wrong import problems

pytestmark = pytest.mark.extended

NAMES = ("jobmgr0", "jobmgr1", "jobmgr2")
TOO_LARGE = task_pb2.TaskConfig(resource=task_pb2.ResourceConfig(cpuLimit=2e6))
"""More than the pool's limit."""
Told = tuple[set[str], set[str], int]
"""Names of schedules, jobs that crash-loop, and how many problems are of jobs that are too large."""
SHARING = DaemonSettings(jobmgr={"shared": True})


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness_of(tmp_path_factory, instances=Instances(jobmgr=3), settings=SHARING) as held:
        settled(held, 3)
        yield held


def owners(harness: Harness) -> list[sharing.Owner]:
    """The job managers that have a session."""
    return list(harness.client.sharing_svc.ListOwners(sharing.ListOwnersRequest(), timeout=30).owners)


def settled(harness: Harness, count: int, seconds: float = 60) -> None:
    """Wait until each of `count` job managers has a fair part of the shards, and none moves."""
    last: list[sharing.Owner] = []

    def fair() -> bool:
        last[:] = owners(harness)
        counts = sorted(each.count for each in last)
        going = any(each.going or each.leaving for each in last)
        return len(counts) == count and sum(counts) == SHARDS and counts[-1] - counts[0] <= 1 and not going

    wait_for(fair, seconds, lambda: str(last))


def channels(harness: Harness) -> list[grpc.Channel]:
    """A channel to each job manager."""
    return [grpc.insecure_channel(each.address) for each in owners(harness)]


def owner(harness: Harness, job: str) -> str:
    """The session that owns a job."""
    shard = shard_of(job)
    (found,) = [each.session for each in owners(harness) if shard in numbers(each.shards)]
    return found


def numbers(text: str) -> set[int]:
    """The shards of a text such as 0-20,63."""
    ranges = (part.partition("-") for part in text.split(","))
    return {number for first, _, last in ranges for number in range(int(first), int(last or first) + 1)}


def fail(spec: stateless_pb2.JobSpec) -> None:
    spec.default_spec.containers[0].entrypoint.value = "exit 1"


def job_id(name: str) -> peloton_pb2.JobID:
    return peloton_pb2.JobID(value=name)


def spread(harness: Harness, command: str, jobs: int, instances: int = 2) -> list[str]:
    """Create jobs, in turns at each job manager."""
    made = []
    for number in range(jobs):
        channel = channels(harness)[number % 3]
        name = str(uuid.uuid4())
        answer = job_pb2_grpc.JobManagerStub(channel).Create(
            job_pb2.CreateRequest(id=job_id(name), config=harness.config(command, instances)), timeout=30
        )
        assert not answer.HasField("error"), answer.error
        made.append(name)
    return made


def test_any_instance_answers_any_call(three: Harness) -> None:
    made = spread(three, "sleep 60", 6)
    for channel in channels(three):
        jobs, tasks = job_pb2_grpc.JobManagerStub(channel), task_pb2_grpc.TaskManagerStub(channel)
        active = jobs.GetActiveJobs(job_pb2.GetActiveJobsRequest(), timeout=30)
        assert {each.value for each in active.ids} >= set(made)
        for name in made:
            cache = jobs.GetCache(job_pb2.GetCacheRequest(id=job_id(name)), timeout=30)
            assert cache.config.instanceCount == 2
            listed = tasks.List(task_pb2.ListRequest(jobId=job_id(name)), timeout=30)
            assert len(listed.result.value) == 2
    for number, name in enumerate(made):
        three.running(name)
        stub = task_pb2_grpc.TaskManagerStub(channels(three)[number % 3])
        stub.Stop(task_pb2.StopRequest(jobId=job_id(name)), timeout=30)
    for name in made:
        assert three.ended(name).state == job_pb2.KILLED


def test_a_new_job_without_an_id_is_created_where_it_is_asked_for(three: Harness) -> None:
    for channel in channels(three):
        answer = job_pb2_grpc.JobManagerStub(channel).Create(
            job_pb2.CreateRequest(config=three.config("true")), timeout=30
        )
        assert three.ended(answer.jobId.value).state == job_pb2.SUCCEEDED


def test_a_call_about_no_job_is_answered_as_ever(three: Harness) -> None:
    for channel in channels(three):
        stub = job_pb2_grpc.JobManagerStub(channel)
        assert stub.Get(job_pb2.GetRequest(id=job_id(str(uuid.uuid4()))), timeout=30).error.HasField(
            "notFound"
        )
        assert stub.Get(job_pb2.GetRequest(id=job_id("nonsense")), timeout=30).HasField("error")


def test_any_instance_tells_what_only_owners_know(three: Harness) -> None:
    """Schedules, services that crash-loop with the reason, and jobs that can never run: of all owners."""
    settled(three, 3)
    schedule = scheduling_pb2.JobSchedule(cron="0 3 1 1 *")
    stubs = [job_pb2_grpc.JobManagerStub(channel) for channel in channels(three)]
    made = []
    for number, stub in enumerate(stubs):  # a new job without an id is of the one that creates it
        for config in (
            three.config("true", name=f"nightly {number}", schedule=schedule),
            three.config("true", name=f"too large {number}", defaultConfig=TOO_LARGE),
        ):
            made.append(stub.Create(job_pb2.CreateRequest(config=config), timeout=30).jobId.value)
    services = [ServiceJob(three, 1, fail) for _ in range(6)]
    assert len({owner(three, each.id.value) for each in services}) > 1

    def told(channel: grpc.Channel) -> Told:
        listed = scheduling_pb2_grpc.SchedulingServiceStub(channel).ListSchedules(
            private_scheduling.ListSchedulesRequest(), timeout=30
        )
        request = stateless_svc_pb2.QueryJobsRequest(spec=stateless_pb2.QuerySpec(crash_looping=True))
        looping = stateless_svc_pb2_grpc.JobServiceStub(channel).QueryJobs(request, timeout=30)
        wrong = problems_pb2_grpc.ProblemServiceStub(channel).ListProblems(
            problems_pb2.ListProblemsRequest(), timeout=30
        )
        return (
            {each.name for each in listed.schedules},
            {each.job_id.value for each in looping.records if "crash-looping: " in each.status.reason},
            sum("too large" in each.text for each in wrong.problems),
        )

    wanted = {f"nightly {number}" for number in range(3)}, {each.id.value for each in services}, 3
    for channel in channels(three):
        wait_for(lambda: told(channel) == wanted, 60, lambda: str(told(channel)))  # noqa: B023
    assert sum("too large" in each for each in problems(three)) == 3, "so does `peloton status`"
    for service in services:
        stop(service)
    for name in made:
        three.client.task_svc.Stop(task_pb2.StopRequest(jobId=job_id(name)), timeout=30)


def test_one_that_dies_loses_its_jobs_to_the_others(three: Harness) -> None:
    made = spread(three, "sleep 12", 9)
    for name in made:
        three.running(name)
    three.cluster.kill(["jobmgr2"])
    settled(three, 2)
    for name in made:
        assert three.ended(name).state == job_pb2.SUCCEEDED
        assert all(task.runtime.mesosTaskId.value.endswith("-1") for task in three.tasks(name).values())
    three.cluster.start(["jobmgr2"])
    settled(three, 3)


def test_one_leaves_in_order_and_joins_again(three: Harness) -> None:
    """Meanwhile, no call about any job waits for more than some seconds, and none fails."""
    made = spread(three, "sleep 20", 9)
    for name in made:
        three.running(name)
    longest = 0.0

    def get_all() -> None:
        nonlocal longest
        for name in made:
            began = time.monotonic()
            three.runtime(name)
            longest = max(longest, time.monotonic() - began)

    three.cluster.stop(["jobmgr1"])
    get_all()
    settled(three, 2)
    get_all()
    three.cluster.start(["jobmgr1"])
    get_all()
    settled(three, 3)
    for name in made:
        assert three.ended(name).state == job_pb2.SUCCEEDED
        assert all(task.runtime.mesosTaskId.value.endswith("-1") for task in three.tasks(name).values())
    assert longest < 10


class Listing(threading.Thread):
    """Lists the schedules and the active jobs at one job manager again and again, until it is ended."""

    def __init__(self, address: str, wanted: set[str]) -> None:
        super().__init__(daemon=True)
        self.channel = grpc.insecure_channel(address)
        self.wanted = wanted
        self.told = 0
        self.missing: list[str] = []
        self.failures: list[str] = []
        self.longest = 0.0
        self.ends = threading.Event()
        self.start()

    def run(self) -> None:
        schedules = scheduling_pb2_grpc.SchedulingServiceStub(self.channel)
        jobs = job_pb2_grpc.JobManagerStub(self.channel)
        while not self.ends.wait(0.02):
            began = time.monotonic()
            try:
                listed = schedules.ListSchedules(private_scheduling.ListSchedulesRequest(), timeout=30)
                active = jobs.GetActiveJobs(job_pb2.GetActiveJobsRequest(), timeout=30)
            except grpc.RpcError as error:
                self.failures.append(str(error))
                continue
            self.longest = max(self.longest, time.monotonic() - began)
            self.told += 1
            self.missing += self.wanted - {each.job_id.value for each in listed.schedules}
            self.missing += self.wanted - {each.value for each in active.ids}

    def end(self) -> None:
        self.ends.set()
        self.join(60)


def test_no_list_is_told_without_some_jobs_while_they_move(three: Harness) -> None:
    """One leaves and joins again, another one dies: lists at the third one wait, and are whole."""
    settled(three, 3)
    config = three.config("true", schedule=scheduling_pb2.JobSchedule(cron="0 3 1 1 *"))
    made = {three.create(config) for _ in range(30)}
    assert len({owner(three, each) for each in made}) == 3
    parts = {part.name: part.addresses["grpc"] for part in three.cluster.components() if part.name in NAMES}
    listing = Listing(parts["jobmgr0"], made)
    for end in (three.cluster.stop, three.cluster.kill):
        end(["jobmgr1"])
        settled(three, 2)
        three.cluster.start(["jobmgr1"])
        settled(three, 3)
    listing.end()
    assert not listing.missing
    assert not listing.failures, listing.failures[0]
    assert listing.told > 10
    assert listing.longest < 10
    print(f"{listing.told} lists, the longest wait was {listing.longest:.2f} s")
    for name in made:
        three.client.task_svc.Stop(task_pb2.StopRequest(jobId=job_id(name)), timeout=30)


def test_a_watch_shows_the_jobs_of_all(three: Harness) -> None:
    settled(three, 3)
    stub = watch_svc_pb2_grpc.WatchServiceStub(channels(three)[0])
    request = watch_svc_pb2.WatchRequest(stateless_job_filter=watch_pb2.StatelessJobFilter())
    stream = stub.Watch(request, timeout=60)
    assert next(stream).watch_id
    services = [ServiceJob(three, 1) for _ in range(6)]
    missing = {each.id.value for each in services}
    assert len({shard_of(each) for each in missing}) > 1
    revision = 0
    for message in stream:
        assert message.revision > revision
        revision = message.revision
        missing -= {job.job_id.value for job in message.stateless_jobs}
        if not missing:
            break
    stream.cancel()


def stop(service: ServiceJob) -> None:
    version = service.get().job_info.status.version
    request = stateless_svc_pb2.StopJobRequest(job_id=service.id, version=version)
    service.jobs.StopJob(request, timeout=30)


class Following(threading.Thread):
    """Follows what a watch of services at one job manager tells, until it ends."""

    def __init__(self, harness: Harness, address: str) -> None:
        super().__init__(daemon=True)
        stub = watch_svc_pb2_grpc.WatchServiceStub(grpc.insecure_channel(address))
        request = watch_svc_pb2.WatchRequest(stateless_job_filter=watch_pb2.StatelessJobFilter())
        self.stream = stub.Watch(request, timeout=300)
        assert next(self.stream).watch_id
        self.versions: dict[str, list[int]] = {}
        self.states: dict[str, int] = {}
        self.failure: grpc.RpcError | None = None
        self.start()

    def run(self) -> None:
        try:
            for message in self.stream:
                for job in message.stateless_jobs:
                    self.versions.setdefault(job.job_id.value, []).append(job.status.revision.version)
                    self.states[job.job_id.value] = job.status.state
        except grpc.RpcError as error:
            self.failure = error

    def tells(self, ids: set[str], state: int) -> bool:
        assert self.failure is None, self.failure
        return {self.states.get(each) for each in ids} == {state}

    def story(self) -> str:
        return str(self.states)

    def end(self) -> None:
        self.stream.cancel()
        self.join(30)


def test_a_watch_goes_on_while_job_managers_leave_and_join(three: Harness) -> None:
    """It is at the one that stays. Each change of a service is told once, in order, the last one always."""
    settled(three, 3)
    parts = {part.name: part.addresses["grpc"] for part in three.cluster.components() if part.name in NAMES}
    watch = Following(three, parts["jobmgr0"])
    services = [ServiceJob(three, 1) for _ in range(9)]
    ids = {each.id.value for each in services}
    running = stateless_pb2.JOB_STATE_RUNNING
    wait_for(lambda: watch.tells(ids, running), 60, watch.story)
    for name in ("jobmgr1", "jobmgr2"):
        three.cluster.stop([name])
        settled(three, 2)
        three.cluster.start([name])
        settled(three, 3)
    for service in services:
        stop(service)
    killed = stateless_pb2.JOB_STATE_KILLED
    wait_for(lambda: watch.tells(ids, killed), 60, watch.story)
    for each in ids:
        assert watch.versions[each] == sorted(watch.versions[each])
    watch.end()


def test_a_watch_ends_where_an_owner_dies_and_the_client_goes_on(three: Harness) -> None:
    """What that one stored last may not have been told: the client lists what is there, and watches again."""
    settled(three, 3)
    parts = {part.name: part.addresses["grpc"] for part in three.cluster.components() if part.name in NAMES}
    watch = Following(three, parts["jobmgr0"])
    service = ServiceJob(three, 1)
    following = three.client.jobs.watch_pods(service.id.value)
    wait_for(lambda: next(following).kind is EventKind.SYNCED, 60)
    three.cluster.kill(["jobmgr1"])
    watch.join(60)
    assert watch.failure is not None
    assert watch.failure.code() is grpc.StatusCode.UNAVAILABLE
    assert "watch again" in str(watch.failure.details())
    settled(three, 2)
    stop(service)
    ended = (pod_pb2.POD_STATE_KILLED, pod_pb2.POD_STATE_DELETED)
    for event in following:
        if event.subject is not None and event.subject.status.state in ended:
            break
    three.cluster.start(["jobmgr1"])
    settled(three, 3)

"""After any sequence of requests, with all jobs deleted in the end, nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from minicluster.settings import Agent
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2
from tests.churn import STEPS, ChurnedService
from tests.leftovers import left_after, leftovers

from .conftest import Harness, harness_of, wait_for
from .service_job import SECONDS, ServiceJob

LEFT_SECONDS = 10.0
"""In which claims, holds and allocation follow the last job; a claim that was left behind ends after 15 s."""
HOSTS = tuple(Agent(hostname=f"left{i}", resources="cpus:4;mem:4096;disk:20000") for i in range(3))


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness_of(tmp_path_factory, agents=HOSTS) as held:
        yield held


def begin_in_place(service: ServiceJob) -> None:
    """Begin a restart in place of all instances at once."""
    restart = stateless_pb2.RestartSpec(in_place=True)
    version = service.get().job_info.status.version
    request = jobs_pb.RestartJobRequest(job_id=service.id, version=version, restart_spec=restart)
    service.jobs.RestartJob(request, timeout=SECONDS)


def test_a_service_that_is_stopped_in_place_leaves_all_hosts_to_others(harness: Harness) -> None:
    service = ServiceJob(harness, 30)
    service.await_states(*[pod_pb2.POD_STATE_RUNNING] * 30)
    begin_in_place(service)
    version = service.get().job_info.status.version
    service.jobs.StopJob(jobs_pb.StopJobRequest(job_id=service.id, version=version), timeout=SECONDS)
    other = harness.create(harness.config("true", 3))
    assert harness.ended(other, 30).state == job_pb2.SUCCEEDED
    wait_for(
        lambda: not [each for each in leftovers(harness.client) if "held" in each],
        30,
        lambda: str(leftovers(harness.client)),
    )
    version = service.get().job_info.status.version
    request = jobs_pb.DeleteJobRequest(job_id=service.id, version=version, force=True)
    service.jobs.DeleteJob(request, timeout=SECONDS)
    wait_for(lambda: not leftovers(harness.client), 60, lambda: str(leftovers(harness.client)))


steps = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(STEPS), st.integers(0, 5)), min_size=4, max_size=14
)


@pytest.mark.timeout(600)
@settings(
    max_examples=8,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(steps)
def test_nothing_is_left_behind(harness: Harness, steps: Sequence[tuple[int, str, int]]) -> None:
    services = [ChurnedService(harness.client, harness.pool, 6, cpu) for cpu in (0.2, 0.6)]
    for which, step, number in steps:
        services[which].do(step, number)
    for service in services:
        service.delete_all()
    left = left_after(harness.client, LEFT_SECONDS)
    assert not left, left
    assert not [wrong for service in services for wrong in service.wrong]

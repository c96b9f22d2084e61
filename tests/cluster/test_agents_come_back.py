"""An agent that is unreachable for a moment keeps its runs, where nothing could replace them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minicluster.cluster import Cluster
from minicluster.settings import ClusterSettings
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.model.constraint import Condition, Kind, LabelConstraint
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.wire.constraint import constraint_to
from peloton.wire.v1alpha.constraint import v1alpha_constraint

from .conftest import Harness, wait_for
from .freezing import frozen
from .service_job import ServiceJob

RUNNING, PENDING = pod_pb2.POD_STATE_RUNNING, pod_pb2.POD_STATE_PENDING

PING_SECONDS = 3.0
"""Five are missed until an agent is unreachable: 15 s each by default."""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A cluster whose master misses a silent agent after a quarter of a minute."""
    cluster = Cluster(tmp_path_factory.mktemp("minicluster") / "cluster")
    cluster.up(ClusterSettings(ports="free", master_flags=(f"--agent-ping-timeout={PING_SECONDS}",)))
    try:
        held = Harness(cluster)
        yield held
        held.client.close()
    finally:
        cluster.down()


def test_a_run_whose_agent_comes_back_before_its_replacement_is_launched_is_kept(harness: Harness) -> None:
    agent = next(part for part in harness.cluster.components() if part.name.startswith("mesos-agent"))
    host = next(flag for flag in agent.flags if flag.startswith("--hostname=")).partition("=")[2]

    def only_there(spec: stateless_pb2.JobSpec) -> None:
        leaf = LabelConstraint(Kind.HOST, Condition.EQUAL, ("hostname", host), 1)
        spec.default_spec.constraint.CopyFrom(v1alpha_constraint(constraint_to(leaf)))

    job = ServiceJob(harness, 3, only_there)
    job.await_states(RUNNING, RUNNING, RUNNING)
    before = [pod.status.pod_id.value for pod in job.list()]
    with frozen(harness.cluster, agent.name):
        wait_for(lambda: {pod.status.state for pod in job.list()} == {PENDING}, 150, lambda: str(job.list()))
        assert [job.run(instance) for instance in range(3)] == [2, 2, 2]
    job.await_states(RUNNING, RUNNING, RUNNING)
    assert [pod.status.pod_id.value for pod in job.list()] == before
    wait_for(
        lambda: active(harness) == {f"RUNNING {run}" for run in before}, 30, lambda: str(active(harness))
    )
    assert all("lives on: its agent came back" in pod.status.message for pod in job.list())


def active(harness: Harness) -> set[str]:
    """The runs that the resource manager counts, with their states."""
    request = resmgrsvc_pb2.GetActiveTasksRequest(respoolID=harness.pool)
    found = harness.client.resmgr_svc.GetActiveTasks(request, timeout=30).tasksByState
    return {f"{state} {task.taskID}" for state, some in found.items() for task in some.taskEntry}

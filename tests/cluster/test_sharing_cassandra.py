"""Job managers that share the work over Cassandra and ZooKeeper: one dies, its jobs go on at the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minicluster.servers import cassandra, maven, zookeeper
from minicluster.settings import Instances
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.model.shard import shard_of
from tests.cluster.conftest import Harness, harness_of
from tests.cluster.test_sharing import SHARING, channels, settled, spread
from tests.conftest import lacking

pytestmark = pytest.mark.long  # test_sharing does the same on SQLite, contract/storage has the terms of both


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    try:
        maven.java()
        for artifacts in (zookeeper.ARTIFACTS, cassandra.ARTIFACTS):
            maven.jars(artifacts)
    except maven.Missing as missing:
        lacking(missing)
    servers = {"storage": "cassandra", "membership": "zookeeper"}
    with harness_of(tmp_path_factory, instances=Instances(jobmgr=3), settings=SHARING, **servers) as held:
        settled(held, 3, 120)
        yield held


def test_one_that_dies_loses_its_jobs_to_the_others(three: Harness) -> None:
    """Each run is launched once, and all instances find the jobs of all."""
    made = spread(three, "sleep 15", 9)
    for name in made:
        three.running(name)
    assert len({shard_of(name) for name in made}) > 1
    three.cluster.kill(["jobmgr2"])
    settled(three, 2, 120)
    for name in made:
        assert three.ended(name).state == job_pb2.SUCCEEDED
        assert all(task.runtime.mesosTaskId.value.endswith("-1") for task in three.tasks(name).values())
    three.cluster.start(["jobmgr2"])
    settled(three, 3, 120)
    for channel in channels(three):
        query = job_pb2.QueryRequest(spec=job_pb2.QuerySpec(name="*"), summaryOnly=True)
        query.spec.pagination.limit = 100
        answer = job_pb2_grpc.JobManagerStub(channel).Query(query, timeout=60)
        assert {each.id.value for each in answer.results} >= set(made), answer
    after = spread(three, "true", 3)
    for name in after:
        assert three.ended(name).state == job_pb2.SUCCEEDED

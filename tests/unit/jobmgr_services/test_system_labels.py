"""The labels of the system in what is launched."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jobmgr.clients.launches import put_labels
from jobmgr.drivers.system_labels import SystemLabels
from peloton.api.v0.task import task_pb2
from peloton.errors import Unavailable
from peloton.model.job import JobSpec
from peloton.model.pool import PoolConfig
from peloton.wire.constraint import labels_from
from peloton.wire.job import job_spec
from peloton.wire.payload import job_config, spec_from_v1alpha
from tests.unit.jobmgr_services.configs import POOLS
from tests.unit.jobmgr_services.configs import job as batch_job
from tests.unit.wire.specs import job


class Pools:
    """The store's pools; the first `failing` reads get no answer."""

    def __init__(self, failing: int = 0) -> None:
        self.reads = 0
        self._failing = failing

    async def all(self) -> Sequence[PoolConfig]:
        self.reads += 1
        if self.reads <= self._failing:
            raise Unavailable("the store is away")
        return POOLS


def launched(labels: SystemLabels, spec: JobSpec) -> dict[str, str]:
    config = task_pb2.TaskConfig()
    config.CopyFrom(job_config(spec.payload).defaultConfig)
    put_labels(config, labels.of(spec))
    return dict(labels_from(config.labels))


FORGED = "default_spec { labels { key: 'peloton.job_name' value: 'forged' } }"


@pytest.mark.parametrize("failing", [0, 1])
async def test_tasks_of_services(failing: int) -> None:
    pools, spec = Pools(failing), spec_from_v1alpha(job(FORGED), 1)
    labels = SystemLabels(pools.all, "zone-a")
    await labels.learn([spec, spec])
    await labels.learn([spec])
    assert pools.reads == failing + 1
    assert launched(labels, spec) == {
        "app": "web",
        "peloton.cluster": "zone-a",
        "peloton.job_name": "web",
        "peloton.job_owner": "infra",
        "peloton.job_type": "SERVICE",
        "peloton.resource_pool": "/teams/batch",
    }


async def test_a_cluster_without_a_name() -> None:
    spec = spec_from_v1alpha(job(), 1)
    labels = SystemLabels(Pools().all)
    await labels.learn([spec])
    assert "peloton.cluster" not in launched(labels, spec)


async def test_tasks_of_batch_jobs_get_none() -> None:
    pools = Pools()
    text = "defaultConfig { labels { key: 'a' value: 'b' } labels { key: 'peloton.job_name' value: 'x' } }"
    spec = job_spec(batch_job(text), 1)
    labels = SystemLabels(pools.all, "zone-a")
    await labels.learn([spec])
    assert launched(labels, spec) == {"a": "b"} and pools.reads == 0

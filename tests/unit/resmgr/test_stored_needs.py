"""The needs of instances, read from the store."""

from __future__ import annotations

import pytest

from peloton.api.v0.job import job_pb2
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from peloton.wire.job import job_spec
from peloton.wire.resmgr import resmgr_task
from resmgr.drivers.store_reader import SpecVersion
from resmgr.wire.tasks import Translator
from tests.unit.resmgr.world import JOB


@pytest.mark.parametrize("elastic", [False, True])
def test_a_stored_instance_has_the_needs_with_which_it_was_enqueued(elastic: bool) -> None:
    """The same as in jobmgr's message, with and without overrides, in any order."""
    wire = job_pb2.JobConfig(name="job", instanceCount=6, sla=job_pb2.SlaConfig(minimumRunningInstances=3))
    wire.sla.preemptible = True
    if elastic:
        wire.workload.elastic.SetInParent()
    wire.defaultConfig.resource.cpuLimit = 1.0
    wire.defaultConfig.ports.add(name="http", envName="HTTP")
    wire.instanceConfig[0].controller = True
    wire.instanceConfig[4].resource.cpuLimit = 2.0
    spec, translator = job_spec(wire, 1), Translator()
    for order in (range(6), reversed(range(6))):
        config = SpecVersion(translator, JOB, spec)
        for instance in order:
            runtime = TaskRuntime(
                TaskState.PENDING, TaskState.SUCCEEDED, 7, 1, 1, 7, desired_host=f"h{instance}"
            )
            wanted = translator.new_task(resmgr_task(JOB, spec, instance, runtime))
            got = config.new_task(instance, runtime)
            assert got == wanted
            assert got.needs is wanted.needs
            assert got.needs.extra is (elastic and instance >= 3)

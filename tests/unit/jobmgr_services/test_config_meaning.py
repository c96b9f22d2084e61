"""Updates in another spelling restart nothing, and a diff says which fields restart an instance."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from jobmgr.engine.workflows import Workflows
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.model.states import TaskState
from tests.unit.jobmgr_services.conftest import JOB, Served
from tests.unit.jobmgr_services.conftest import job_id as v0_job_id
from tests.unit.jobmgr_services.test_services import job_id, opaque
from tests.unit.jobmgr_services.test_sla import report
from tests.unit.jobmgr_services.test_with_engine import real, states
from tests.unit.wire.specs import POOL
from tests.waiting import until

__all__ = ["real"]
SPEC = """
    name: "web" instance_count: 3 labels { key: "a" value: "1" } labels { key: "b" value: "2" }
    default_spec {
      labels { key: "tier" value: "a" } labels { key: "zone" value: "z" }
      containers {
        name: "main" resource { cpu_limit: 1 mem_limit_mb: 64 }
        command { value: "serve" uris { value: "x.tar" } }
        container { type: DOCKER docker { image: "i" } }
        ports { name: "http" env_name: "HTTP" } ports { name: "admin" env_name: "ADMIN" }
      }
    }
    instance_spec { key: 2 value { labels { key: "tier" value: "c" } } }
"""
SAME = """
    name: "web" instance_count: 3 labels { key: "b" value: "2" } labels { key: "a" value: "1" }
    default_spec {
      labels { key: "zone" value: "z" } labels { key: "tier" value: "a" }
      containers {
        name: "main" resource { cpu_limit: 1 mem_limit_mb: 64 }
        command { value: "serve" shell: true uris { value: "x.tar" extract: true executable: false } }
        container { type: DOCKER docker { image: "i" network: HOST privileged: false } }
        ports { name: "admin" env_name: "ADMIN" } ports { name: "http" env_name: "HTTP" }
        liveness_check { enabled: false interval_secs: 5 type: HEALTH_CHECK_TYPE_COMMAND }
      }
      kill_grace_period_seconds: 30
    }
    instance_spec { key: 2 value { labels { key: "tier" value: "c" } } }
"""


def spec(text: str) -> stateless_pb2.JobSpec:
    found = text_format.Parse(text, stateless_pb2.JobSpec())
    found.respool_id.value = POOL
    return found


async def created(served: Served) -> peloton_pb2.EntityVersion:
    """Return the version of a service whose instances run."""
    answer = await served.services.CreateJob(pb.CreateJobRequest(job_id=job_id(), spec=spec(SPEC)))
    await states(served, [task_pb2.INITIALIZED] * 3)
    await report(served, TaskState.RUNNING, 0, 1, 2)
    await ended(served)
    version: peloton_pb2.EntityVersion = answer.version
    return version


async def ended(served: Served) -> None:
    job = served.engine.job(JOB)
    await until(lambda: job.workflow is not None and job.workflow.state.terminal, "the workflow ends")


async def diff(served: Served, version: peloton_pb2.EntityVersion, text: str) -> pb.GetReplaceJobDiffResponse:
    request = pb.GetReplaceJobDiffRequest(job_id=job_id(), version=version, spec=spec(text))
    answer: pb.GetReplaceJobDiffResponse = await served.services.GetReplaceJobDiff(request)
    return answer


async def test_another_spelling_restarts_nothing(real: Served) -> None:
    version = await created(real)
    renamed = SAME.replace('"main"', '"another name, which is never launched"')
    for text in (SAME, renamed):
        found = await diff(real, version, text)
        assert not found.instances_updated and not found.changes
        assert [(getattr(each, "from"), each.to) for each in found.instances_unchanged] == [(0, 2)]
        request = pb.ReplaceJobRequest(job_id=job_id(), version=version, spec=spec(text))
        version = (await real.services.ReplaceJob(request)).version
        await ended(real)
    job = real.engine.job(JOB)
    assert [(task.run, task.desired_run, task.config_version) for task in job.tasks] == [(1, 1, 3)] * 3


async def test_a_diff_names_the_fields_for_which_instances_restart(real: Served) -> None:
    version = await created(real)
    text = SAME.replace('"tier" value: "a"', '"tier" value: "b"').replace("cpu_limit: 1", "cpu_limit: 2.5")
    found = await diff(real, version, text)
    told = {
        (getattr(each.instances[0], "from"), each.instances[0].to): [field.text for field in each.fields]
        for each in found.changes
    }
    assert told == {
        (0, 1): ["labels: tier a → b", "resource.cpu_limit: 1 → 2.5"],
        (2, 2): ["resource.cpu_limit: 1 → 2.5"],
    }
    (first, *_) = found.changes[0].fields
    assert (first.field, first.key, first.before, first.after) == ("labels", "tier", "a", "b")


async def test_repeating_an_update_in_another_spelling_is_the_same_update(real: Served) -> None:
    version = await created(real)
    text = SPEC.replace('"tier" value: "a"', '"tier" value: "b"')
    request = pb.ReplaceJobRequest(job_id=job_id(), version=version, spec=spec(text))
    request.version.CopyFrom((await real.services.ReplaceJob(request)).version)
    running = (await Workflows(real.engine).list(JOB))[0].workflow.id
    request.spec.CopyFrom(spec(SAME.replace('"tier" value: "a"', '"tier" value: "b"')))
    request.opaque_data.CopyFrom(opaque("again"))
    await real.services.ReplaceJob(request)
    found = (await Workflows(real.engine).list(JOB))[0].workflow
    assert (found.id, found.opaque_data) == (running, "again")


@pytest.mark.parametrize("count", [3, 4])
async def test_a_batch_job_may_be_updated_in_another_spelling(real: Served, count: int) -> None:
    text = """
        labels { key: "a" value: "1" } labels { key: "b" value: "2" }
        defaultConfig { labels { key: "c" } labels { key: "d" } command { value: "run" } }
        instanceConfig { key: 1 value { labels { key: "e" } labels { key: "f" } } }
    """
    await real.create(text)
    held = (await real.jobs.Get(job_pb2.GetRequest(id=v0_job_id()))).jobInfo.config
    config = job_pb2.JobConfig()
    config.CopyFrom(held)
    for labels in (config.labels, config.defaultConfig.labels, config.instanceConfig[1].labels):
        labels.sort(key=lambda label: label.key, reverse=True)
    config.defaultConfig.command.shell = True
    config.instanceCount = count
    answer = await real.jobs.Update(job_pb2.UpdateRequest(id=v0_job_id(), config=config))
    assert not answer.HasField("error"), answer
    now = (await real.jobs.Get(job_pb2.GetRequest(id=v0_job_id()))).jobInfo.config
    assert now.changeLog.version == (1 if count == 3 else 2)
    assert (now.labels, now.defaultConfig) == (held.labels, held.defaultConfig)

"""Audit logs of daemons are workloads: what users created is replayed, with durations of an archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2 as v0
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.workload import workload_pb2
from peloton.errors import InvalidArgument
from peloton.identity.principal import Kind, Principal
from peloton.rpc.audit import Audit
from simulator.cli import simulate
from simulator.workloads.audited import Durations
from simulator.workloads.jobs import read_jobs
from tests.unit.simulator.test_traces import archived

POOL = "2d12ab6b-92d0-4a86-8e4d-d0a84bd4a25d"
TRAIN, WEB = (f"{digit * 8}-1111-4111-8111-111111111111" for digit in "1a")
SECOND = 1_000_000_000
CREATE = "/peloton.api.v0.job.JobManager/Create"
SERVICES = "/peloton.api.v1alpha.job.stateless.svc.JobService"


def batch_job() -> job_pb2.JobConfig:
    config = job_pb2.JobConfig(name="train", type=job_pb2.BATCH, instanceCount=3)
    config.respoolID.value = POOL
    config.sla.priority, config.sla.preemptible, config.sla.minimumRunningInstances = 7, True, 3
    config.defaultConfig.CopyFrom(
        task_pb2.TaskConfig(
            resource=task_pb2.ResourceConfig(cpuLimit=2.5, memLimitMb=300, gpuLimit=1),
            command=mesos_pb2.CommandInfo(shell=True, value="run --token=hidden"),
        )
    )
    return config


def service() -> stateless_pb2.JobSpec:
    spec = stateless_pb2.JobSpec(name="web", instance_count=2)
    spec.respool_id.value = POOL
    needs = pod_pb2.ResourceSpec(cpu_limit=1, mem_limit_mb=100)
    spec.default_spec.containers.add(resource=needs)
    return spec


class Log:
    """An audit log as a daemon writes it; each call is made at a second of 1970."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 0
        self._audit = Audit(self._write, lambda: self._at * SECOND)

    def _write(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(line + "\n")

    def call(self, at: int, method: str, request: Any, answer: Any = None, code: str = "OK") -> None:
        self._at = at
        self._audit.note(method, Principal("ada", Kind.USER), (), code, 0.1, request, answer)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A gang and a service, which is stopped; a creation that was passed on, and one that was refused."""
    made = Log(tmp_path / "audit.log")
    batch = job_pb2.CreateRequest(id=v0.JobID(value=TRAIN), config=batch_job())
    web = v1alpha.JobID(value=WEB)
    made.call(1000, CREATE, batch)
    made.call(1001, CREATE, batch)
    made.call(1100, f"{SERVICES}/CreateJob", stateless_svc_pb2.CreateJobRequest(job_id=web, spec=service()))
    made.call(1200, CREATE, job_pb2.CreateRequest(config=batch_job()), code="PERMISSION_DENIED")
    made.call(1400, f"{SERVICES}/StopJob", stateless_svc_pb2.StopJobRequest(job_id=web))
    return made


def test_the_log_has_the_amounts_of_a_job_and_not_its_command(log: Log) -> None:
    first = json.loads(log.path.read_text().splitlines()[0])
    assert first["object"]["asks"] == {
        "instances": 3, "cpu": 2.5, "memory": 300.0, "gpu": 1.0, "priority": 7, "preemptible": True,
        "gang": True,
    }  # fmt: skip
    assert "hidden" not in log.path.read_text()


def test_what_was_created_is_a_workload(log: Log) -> None:
    train, web = read_jobs(log.path, durations=Durations({}, 60.0))
    assert (train.name, train.pool, train.submit, train.seconds) == ("train", f"/{POOL}", 0.0, 60.0)
    assert (train.instances, train.gang, train.priority, train.preemptible) == (3, True, 7, True)
    assert train.resources.values() == (2500, 300_000, 0, 1000)
    assert (web.submit, web.seconds, web.service, web.instances) == (100.0, 300.0, True, 2)
    assert web.resources.values() == (1000, 100_000, 0, 0)


@pytest.mark.parametrize(("interval", "grows"), [(60, (60, False)), (0, (300, True))])
def test_an_elastic_gang_needs_its_least_size(tmp_path: Path, interval: int, grows: tuple[int, bool]) -> None:
    config = batch_job()
    config.sla.minimumRunningInstances = 0
    config.workload.elastic.growth_interval_seconds = interval
    if not interval:
        config.workload.gang_policy = workload_pb2.GANG_POLICY_RESTART_MEMBER
    log = Log(tmp_path / "audit.log")
    log.call(1000, CREATE, job_pb2.CreateRequest(id=v0.JobID(value=TRAIN), config=config))
    (train,) = read_jobs(log.path, durations=Durations({}, 60.0))
    assert (train.instances, train.gang, train.needed) == (3, True, 1)
    assert (train.growth_interval, train.in_place) == grows


@pytest.mark.parametrize("job_id", [TRAIN, "22222222-2222-4222-8222-222222222222"], ids=["same", "name"])
def test_durations_are_those_of_the_archive(log: Log, tmp_path: Path, job_id: str) -> None:
    """Of the job itself, or of others with its name."""
    (tmp_path / "archive.jsonl").write_bytes(archived(job_id, (30, 50, 70), batch_job()))
    (tmp_path / "cluster.yaml").write_text("hosts: [{count: 3, cpu: 4, memory: 4000, gpu: 1}]\n")
    given = ["--trace", str(log.path), "--cluster", str(tmp_path / "cluster.yaml")]
    rows = tmp_path / "out"
    ran = CliRunner().invoke(
        simulate, [*given, "--archive", str(tmp_path / "archive.jsonl"), "--csv", str(rows)]
    )
    assert ran.exit_code == 0, ran.output
    train = next(line for line in (rows / "jobs.csv").read_text().splitlines() if line.startswith("train"))
    assert "SUCCEEDED" in train
    from simulator.workloads.archived import jobs_by_id

    known = Durations(jobs_by_id(tmp_path / "archive.jsonl"))
    assert [job.seconds for job in read_jobs(log.path, durations=known)] == [50.0, 300.0]


def test_a_duration_that_nobody_knows_is_asked_for(log: Log) -> None:
    with pytest.raises(InvalidArgument, match=f"1 batch job, such as {TRAIN}.*--archive.*--assume"):
        read_jobs(log.path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nothing\n", "a line of an audit log"),
        (
            '{"time": "1970-01-01T00:20:00Z", "method": "a.JobManager/Create", "code": "OK", '
            '"object": {"job": "x"}}\n',
            "a creation with its pool and amounts",
        ),
    ],
)
def test_a_wrong_line_is_told_with_its_number(log: Log, line: str, said: str) -> None:
    with log.path.open("a") as file:
        file.write(line)
    with pytest.raises(InvalidArgument, match=f"audit.log:6.*{said}"):
        read_jobs(log.path, durations=Durations({}, 60.0))

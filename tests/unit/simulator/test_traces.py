"""Public traces and our own archive as workloads and clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from archiver.records import Block
from peloton.api.v0.job import job_pb2
from peloton.api.workload import workload_pb2
from peloton.config.config_error import ConfigError
from peloton.errors import InvalidArgument
from peloton.model.job import JobRuntime
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from peloton.wire.job import job_spec
from simulator.cli import simulate
from simulator.workloads.cluster import hosts_of, pools_of, read_cluster
from simulator.workloads.jobs import read_jobs

SECOND = 10**9

PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p-0,12000,16384,1,460,,LS,Running,100,400,150\n"
    "p-1,6000,12288,2,1000,V100M16|V100M32,BE,Failed,50,70,\n"
    "p-2,1000,1024,0,0,,,Running,60,90,60\n"
)
NODES = (
    "sn,cpu_milli,memory_mib,gpu,model\n"
    "n-0,32000,262144,0,\nn-1,64000,262144,2,P100\nn-2,64000,262144,2,P100\n"
)
GENERATOR = """
- className: cohort
  count: 2
  queuesSets:
  - className: cq
    count: 3
    nominalQuota: 20
    borrowingLimit: 100
    reclaimWithinCohort: Any
    withinClusterQueue: LowerPriority
    workloadsSets:
    - count: 4
      creationIntervalMs: 100
      workloads: [{className: small, runtimeMs: 200, priority: 50, request: 1}]
    - count: 1
      creationIntervalMs: 1200
      workloads: [{className: large, runtimeMs: 1000, priority: 200, request: 2.5, podCount: 8}]
"""


def test_the_pods_of_openb_are_jobs(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(PODS)
    two, none, part = read_jobs(path)
    assert (two.name, two.submit, two.seconds, two.pool, two.kind) == ("p-1", 0.0, 20.0, "/be", "2 GPUs")
    assert two.resources.gpu == 2000
    assert (none.pool, none.resources.gpu, none.kind) == ("/default", 0, "no GPU")
    assert (part.submit, part.seconds, part.resources.gpu) == (50.0, 250.0, 460), "it waited for 50 s"


def test_the_nodes_of_openb_are_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(NODES)
    hosts = hosts_of(read_cluster(path))
    assert [(host.resources.cpu, host.resources.gpu) for host in hosts] == [
        (32000, 0),
        (64000, 2000),
        (64000, 2000),
    ]
    assert hosts[1].labels == (("gpu_model", "P100"),)


def test_a_run_of_openb(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(PODS)
    (tmp_path / "nodes.csv").write_text(NODES)
    given = ["--trace", str(tmp_path / "pods.csv"), "--cluster", str(tmp_path / "nodes.csv")]
    result = CliRunner().invoke(simulate, given)
    assert result.exit_code == 0, result.output
    assert "part of a GPU" in result.output


def test_the_generator_of_kueue_is_a_workload_and_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "generator.yaml"
    path.write_text(GENERATOR)
    jobs = read_jobs(path)
    assert len(jobs) == 2 * 3 * 5
    large = [job for job in jobs if job.kind == "large"]
    assert len(large) == 6
    assert (large[0].instances, large[0].resources.cpu, large[0].seconds) == (8, 2500, 1.0)
    assert large[0].submit == pytest.approx(1.1), "the first job is created at second 0"
    assert large[0].gang and large[0].priority == 200
    settings = read_cluster(path)
    hosts = hosts_of(settings)
    pools = {pool.id: pool.kind("cpu") for pool in pools_of(settings, hosts, {job.pool for job in jobs})}
    assert sum(host.resources.cpu for host in hosts) == 120_000
    assert len(pools) == 8
    assert (pools["/cohort-0/cq-0"].reservation, pools["/cohort-0/cq-0"].limit) == (20_000, 60_000)
    assert (pools["/cohort-1"].reservation, pools["/cohort-1"].limit) == (60_000, 60_000)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "x,y\n1,2\n", "a CSV with the columns"),
        ("a.csv", PODS.replace("400", "never"), "a.csv:2"),
        ("a.csv", PODS.replace(",400,", ",10,"), "a deletion after the pod was scheduled"),
        ("a.yaml", "- {className: a, count: 0}\n", "count"),
        ("a.yaml", "[", "is not YAML"),
        ("a.jsonl", '{"submit":0,"seconds":9,"service":true,"gang":true}\n', "false for a service"),
        ("a.jsonl", '{"record":"job","job_id":"x"}\n', "an archive that peloton-archiver wrote"),
    ],
)
def test_a_wrong_trace_is_told(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises((InvalidArgument, ConfigError), match=said):
        read_jobs(tmp_path / name)


def test_a_wrong_list_of_nodes_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(InvalidArgument, match="cpu_milli, gpu, memory_mib"):
        read_cluster(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(NODES.replace("32000", "many"))
    with pytest.raises(InvalidArgument, match=r"a\.csv:2"):
        read_cluster(tmp_path / "a.csv")


def archived(job_id: str, seconds: tuple[int, ...], config: job_pb2.JobConfig, whole: bool = True) -> bytes:
    """The lines of a job that was created at second 1,000; each instance began at second 1,010."""
    spec = job_spec(config, 1)
    runtime = JobRuntime(
        state=JobState.SUCCEEDED,
        goal=JobState.SUCCEEDED,
        config_version=1,
        creation_time=1000 * SECOND,
        updated_at=2000 * SECOND,
        completion_time=2000 * SECOND,
    )
    tasks = {
        instance: TaskRuntime(
            state=TaskState.SUCCEEDED,
            goal=TaskState.SUCCEEDED,
            run=1,
            desired_run=1,
            config_version=1,
            desired_config_version=1,
            start_time=1010 * SECOND,
            completion_time=(1010 + each) * SECOND,
        )
        for instance, each in enumerate(seconds)
    }
    block = Block(job_id)
    lines = [block.job(runtime, 3000 * SECOND), block.config(spec), *block.tasks(tasks)]
    return b"".join([*lines, block.end()] if whole else lines)


def test_our_archive_is_a_workload(tmp_path: Path) -> None:
    config = job_pb2.JobConfig(name="train", type=job_pb2.BATCH, instanceCount=3, owner="ada")
    config.respoolID.value = "pool-1"
    config.sla.priority, config.sla.preemptible, config.sla.minimumRunningInstances = 7, True, 3
    needs = config.defaultConfig.resource
    needs.cpuLimit, needs.memLimitMb, needs.diskLimitMb, needs.gpuLimit = 2.5, 300, 10, 1
    path = tmp_path / "archive.jsonl"
    cut_off = archived("22222222-2222-4222-8222-222222222222", (5, 5, 5), config, whole=False)
    never_ran = archived("33333333-3333-4333-8333-333333333333", (), config)
    path.write_bytes(
        archived("11111111-1111-4111-8111-111111111111", (30, 50, 70), config) + never_ran + cut_off
    )
    (job,) = read_jobs(path)
    assert (job.name, job.pool, job.kind, job.submit, job.seconds) == ("train", "/pool-1", "ada", 0.0, 50.0)
    assert (job.instances, job.gang, job.priority, job.preemptible) == (3, True, 7, True)
    assert job.resources.values() == (2500, 300_000, 10_000, 1000)


@pytest.mark.parametrize(
    ("interval", "policy", "grows"),
    [
        (0, workload_pb2.GANG_POLICY_DEFAULT, (300, False)),
        (60, workload_pb2.GANG_POLICY_DEFAULT, (60, False)),
        (0, workload_pb2.GANG_POLICY_RESTART_MEMBER, (300, True)),
    ],
)
def test_an_elastic_gang_of_our_archive_needs_its_least_size(
    tmp_path: Path, interval: int, policy: workload_pb2.GangPolicy.ValueType, grows: tuple[int, bool]
) -> None:
    config = job_pb2.JobConfig(name="train", type=job_pb2.BATCH, instanceCount=3)
    config.respoolID.value = "pool-1"
    config.sla.minimumRunningInstances = 2
    config.workload.elastic.growth_interval_seconds = interval
    config.workload.gang_policy = policy
    path = tmp_path / "archive.jsonl"
    path.write_bytes(archived("11111111-1111-4111-8111-111111111111", (30, 50, 70), config))
    (job,) = read_jobs(path)
    assert (job.instances, job.gang, job.needed) == (3, True, 2)
    assert (job.growth_interval, job.in_place) == grows
    assert job.spec("p").workload == job_spec(config, 1).workload

"""The job of `peloton run`, and the exit code that it ends with. Real clusters: tests/cluster/test_run.py."""

from __future__ import annotations

import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.workload import workload_pb2
from peloton.cli.exit_codes import JOB_FAILED
from peloton.cli.job_run import exit_code
from peloton.cli.run_spec import FRAMEWORKS, Program, config_of
from peloton.wire.validation.job import validated
from tests.unit.jobmgr_services.configs import POOL


def config(**changes: object) -> job_pb2.JobConfig:
    given = Program(**{"command": ("python", "a b.py", "--x=1"), "team": "ml", **changes})  # type: ignore[arg-type]
    made = config_of(given)
    made.respoolID.value = POOL
    return made


def test_one_process_is_a_plain_job() -> None:
    made = validated(config(folder="/my data", environment={"A": "1"}, grace_seconds=7, memory_mb=64.0))
    task = made.defaultConfig
    assert (made.name, made.instanceCount, made.sla.minimumRunningInstances) == ("a b.py", 1, 0)
    assert not made.HasField("workload") and not task.ports
    assert task.command.value == "cd '/my data' && exec python 'a b.py' --x=1"
    assert [(each.name, each.value) for each in task.command.environment.variables] == [("A", "1")]
    assert (task.killGracePeriodSeconds, task.resource.memLimitMb) == (7, 64)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_several_processes_are_a_gang_that_the_server_takes(framework: str) -> None:
    made = validated(config(processes=4, framework=framework, failures=2, gpus=1.0))
    assert made.sla.minimumRunningInstances == made.instanceCount == 4
    assert workload_pb2.Framework.Name(made.workload.framework) == f"FRAMEWORK_{framework.upper()}"
    assert made.workload.gang_policy == workload_pb2.GANG_POLICY_RESTART_GANG
    assert made.defaultConfig.restartPolicy.maxFailures == 2 and made.defaultConfig.resource.gpuLimit == 1
    assert [port.envName for port in made.defaultConfig.ports] == ["RENDEZVOUS_PORT"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_one_process_of_a_framework_is_taken_too(framework: str) -> None:
    validated(config(framework=framework))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_program_with_a_least_size_is_an_elastic_gang(framework: str) -> None:
    made = validated(config(processes=4, least=2, growth_interval=60, framework=framework))
    assert (made.sla.minimumRunningInstances, made.instanceCount) == (2, 4)
    assert made.workload.elastic.growth_interval_seconds == 60
    assert not config(processes=4).workload.HasField("elastic")


def test_a_gang_that_may_not_fail_ends_with_its_first_failure() -> None:
    assert config(processes=2).workload.gang_policy == workload_pb2.GANG_POLICY_FAIL


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "/x/train.py", "--epochs", "3"), "train.py"),
        (("/usr/bin/nvidia-smi",), "nvidia-smi"),
        (("bash", "-c", "true"), "bash"),
    ],
)
def test_the_job_is_named_as_the_program(command: tuple[str, ...], name: str) -> None:
    assert config(command=command).name == name
    assert config(command=command, name="mine").name == "mine"


def ended(
    state: task_pb2.TaskState.ValueType, time: str, code: int = 0, signal: str = ""
) -> task_pb2.RuntimeInfo:
    runtime = task_pb2.RuntimeInfo(state=state, completionTime=time)
    runtime.terminationStatus.exit_code, runtime.terminationStatus.signal = code, signal
    return runtime


def test_the_exit_code_is_that_of_the_first_failure() -> None:
    later = ended(task_pb2.FAILED, "2026-01-01T00:00:02Z", 2)
    first = ended(task_pb2.FAILED, "2026-01-01T00:00:01Z", 7)
    killed = ended(task_pb2.KILLED, "2026-01-01T00:00:00Z", 9)
    assert exit_code([later, killed, first]) == 7
    assert exit_code([ended(task_pb2.FAILED, "", 0, "Killed")]) == 137
    assert exit_code([ended(task_pb2.FAILED, "", 0, "Segmentation fault")]) == 139
    assert exit_code([ended(task_pb2.FAILED, "", 0, "unheard of")]) == JOB_FAILED
    assert exit_code([killed]) == JOB_FAILED

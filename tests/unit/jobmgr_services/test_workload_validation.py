"""Rules for workloads: each refuses with path, value and what would be right."""

from __future__ import annotations

import pytest

from peloton.errors import InvalidArgument
from peloton.model.workload import Framework, JobWorkload, TaskWorkload
from peloton.wire.job import job_spec
from peloton.wire.validation.job import validated
from tests.unit.jobmgr_services.configs import BATCH, SERVICE, job

PORT = 'ports { name: "a" envName: "A" }'
GANG = f"sla {{ minimumRunningInstances: 3 }} defaultConfig {{ {PORT} }}"
TENSORFLOW = "workload { framework: FRAMEWORK_TENSORFLOW }"


def tensorflow_gang(task: str) -> str:
    """A gang whose tasks have a workload."""
    return (
        f"{TENSORFLOW} sla {{ minimumRunningInstances: 3 }} defaultConfig {{ {PORT} workload {{ {task} }} }}"
    )


DAEMON = BATCH.replace("instanceCount: 3", "type: DAEMON")
ALONE = BATCH.replace("instanceCount: 3", "instanceCount: 1")

REFUSED = {
    "unknown gang policy": (f"{GANG} workload {{ gang_policy: 99 }}", BATCH, "workload.gang_policy", "99"),
    "unknown signal": (
        'defaultConfig { workload { stop_signal: "SIGKILL" } }',
        BATCH,
        "defaultConfig.workload.stop_signal",
        "'SIGKILL' is not one of SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2",
    ),
    "a file outside of the sandbox": (
        'defaultConfig { workload { checkpoint_file: "a/../../b" } }',
        BATCH,
        "defaultConfig.workload.checkpoint_file",
        "'a/../../b' is not a path below the sandbox of up to 200 characters, without `..`",
    ),
    "gang policy without a gang": (
        "workload { gang_policy: GANG_POLICY_RESTART_GANG }",
        BATCH,
        "workload.gang_policy",
        "'RESTART_GANG' is not allowed in a job without a gang: set sla.minimumRunningInstances to 2 or more",
    ),
    "gang policy in a service": (
        "workload { gang_policy: GANG_POLICY_FAIL }",
        SERVICE,
        "workload.gang_policy",
        "'FAIL' is not allowed in a SERVICE job, which has no gang",
    ),
    "token in a container of docker": (
        "defaultConfig { workload { token: true } container { type: DOCKER } }",
        BATCH,
        "defaultConfig.container.type",
        "'DOCKER' is not MESOS, into which a token can be put",
    ),
    "token of one instance in a container of docker": (
        "defaultConfig { container { type: DOCKER } } "
        "instanceConfig { key: 1 value { workload { token: true } } }",
        BATCH,
        "instanceConfig[1].container.type",
        "'DOCKER' is not MESOS",
    ),
    "token for an executor in a container": (
        "defaultConfig { workload { token: true } executor { type: CUSTOM executor_id { value: 'e' } "
        "data: 'x' container { type: MESOS } } }",
        SERVICE,
        "defaultConfig.executor.container",
        "the container of the task has the token",
    ),
    "an elastic service": (
        "workload { elastic {} }",
        SERVICE,
        "workload.elastic",
        "'{}' is not allowed in a SERVICE job, which has no gang",
    ),
    "an elastic gang of a fixed size whose members run again alone": (
        "workload { framework: FRAMEWORK_MPI elastic {} gang_policy: GANG_POLICY_RESTART_MEMBER }",
        BATCH,
        "workload.gang_policy",
        "'RESTART_MEMBER' is not allowed in an elastic gang of MPI, whose processes are as many as",
    ),
    "a pause before members join that nobody awaits": (
        "workload { elastic { growth_interval_seconds: 60 } gang_policy: GANG_POLICY_RESTART_MEMBER }",
        BATCH,
        "workload.elastic.growth_interval_seconds",
        "60 is not of use with GANG_POLICY_RESTART_MEMBER",
    ),
    "an elastic gang that grows after a year": (
        "workload { elastic { growth_interval_seconds: 31536000 } }",
        BATCH,
        "workload.elastic.growth_interval_seconds",
        "31536000 is not at most 2592000, which is 30 d",
    ),
    "an elastic gang that ends with a member that is preempted": (
        "workload { elastic {} } sla { preemptible: true } "
        "defaultConfig { preemptionPolicy { killOnPreempt: true } }",
        BATCH,
        "defaultConfig.preemptionPolicy.killOnPreempt",
        "gives members back and goes on without them",
    ),
    "an elastic gang with a peer": (
        f"workload {{ elastic {{}} }} defaultConfig {{ {PORT} workload {{ peer {{}} }} }}",
        BATCH,
        "defaultConfig.workload.peer.instance",
        "whose members get the addresses of all: leave it out",
    ),
    "an elastic gang whose chief may be away": (
        "workload { framework: FRAMEWORK_TENSORFLOW elastic {} } sla { minimumRunningInstances: 2 } "
        f'defaultConfig {{ {PORT} }} instanceConfig {{ key: 2 value {{ workload {{ role: "chief" }} }} }}',
        BATCH,
        "instanceConfig[2].workload.role",
        "the role of an instance below 2, without which the gang does not run",
    ),
    # text over the base, base, path, part of the message
    "unknown framework": (f"{GANG} workload {{ framework: 99 }}", BATCH, "workload.framework", "99"),
    "framework without a gang": (
        f"defaultConfig {{ {PORT} }} workload {{ framework: FRAMEWORK_TORCH }}",
        BATCH,
        "workload.framework",
        "'TORCH' is not allowed in a job of 3 instances without a gang: set sla.minimumRunningInstances",
    ),
    "rendezvous in a service": (
        "workload { rendezvous: true }",
        SERVICE,
        "workload.rendezvous",
        "'true' is not allowed in a SERVICE job, which has no gang",
    ),
    "framework in a daemon job": (
        "workload { framework: FRAMEWORK_MPI }",
        DAEMON,
        "workload.framework",
        "'MPI' is not allowed in a DAEMON job",
    ),
    "no port for the first member": (
        "sla { minimumRunningInstances: 3 } workload { framework: FRAMEWORK_JAX }",
        BATCH,
        "defaultConfig.ports",
        "'no dynamic port' is not enough for JAX: the first member of the gang listens on a dynamic port",
    ),
    "a fixed port for the first member": (
        "sla { minimumRunningInstances: 3 } workload { framework: FRAMEWORK_TORCH } "
        'instanceConfig { key: 0 value { ports { name: "m" value: 29500 } } }',
        BATCH,
        "instanceConfig[0].ports",
        "'the fixed port 29500' is not enough for TORCH",
    ),
    "a member of a cluster without port": (
        f"{GANG} workload {{ framework: FRAMEWORK_TENSORFLOW }} "
        'instanceConfig { key: 2 value { ports { name: "m" value: 29500 } } }',
        BATCH,
        "instanceConfig[2].ports",
        "each member of the gang",
    ),
    "port of another name": (
        tensorflow_gang('rendezvous_port: "b"'),
        BATCH,
        "defaultConfig.workload.rendezvous_port",
        "'b' is not the name of a port of the task (a)",
    ),
    "unknown role": (
        tensorflow_gang('role: "boss"'),
        BATCH,
        "defaultConfig.workload.role",
        "one of chief, worker, ps, evaluator",
    ),
    "role without TensorFlow": (
        tensorflow_gang('role: "ps"').replace("TENSORFLOW", "TORCH"),
        BATCH,
        "defaultConfig.workload.role",
        "TENSORFLOW",
    ),
    "several chiefs": (
        tensorflow_gang('role: "chief"'),
        BATCH,
        "workload.framework",
        "3 chiefs",
    ),
    "nobody who works": (
        tensorflow_gang('role: "ps"'),
        BATCH,
        "workload.framework",
        "without a worker or chief",
    ),
    "peer that does not exist": (
        f"defaultConfig {{ {PORT} workload {{ peer {{ instance: 3 }} }} }}",
        BATCH,
        "defaultConfig.workload.peer.instance",
        "below instanceCount, which is 3",
    ),
    "peer in a daemon job": (
        "defaultConfig { workload { peer {} } }",
        DAEMON,
        "defaultConfig.workload.peer.instance",
        "DAEMON job",
    ),
    "peer without a port": (
        "defaultConfig { workload { peer {} } }",
        SERVICE,
        "defaultConfig.workload.peer.instance",
        "a port",
    ),
    "peer that waits itself": (
        f"defaultConfig {{ {PORT} workload {{ peer {{}} }} }} "
        "instanceConfig { key: 0 value { workload { peer { instance: 2 } } } }",
        BATCH,
        "defaultConfig.workload.peer.instance",
        "instance 0 itself waits for instance 2",
    ),
    "peer outside of the gang": (
        f"sla {{ minimumRunningInstances: 2 }} defaultConfig {{ {PORT} }} "
        "instanceConfig { key: 1 value { workload { peer { instance: 2 } } } }",
        BATCH,
        "instanceConfig[1].workload.peer.instance",
        "0 to 1, which is placed as a whole",
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.replace(" ", "_"))
def test_a_workload_that_makes_no_sense_is_refused_with_the_reason(case: str) -> None:
    text, base, path, part = REFUSED[case]
    with pytest.raises(InvalidArgument) as caught:
        validated(job(text, base))
    assert caught.value.field == path
    assert part in str(caught.value)


TAKEN = {
    "a gang": (f"{GANG} workload {{ framework: FRAMEWORK_TENSORFLOW }}", BATCH),
    "an elastic gang": (
        f"{GANG} workload {{ framework: FRAMEWORK_TORCH elastic {{ growth_interval_seconds: 60 }} }}",
        BATCH,
    ),
    "an elastic gang that needs one member": ("workload { elastic {} }", BATCH),
    "one instance": (f"workload {{ framework: FRAMEWORK_TORCH }} defaultConfig {{ {PORT} }}", ALONE),
    "addresses alone, without ports": (
        "sla { minimumRunningInstances: 2 } workload { rendezvous: true }",
        BATCH,
    ),
    "a hostfile, without ports": (
        "sla { minimumRunningInstances: 2 } workload { framework: FRAMEWORK_MPI }",
        BATCH,
    ),
    "a service's workers and their controller": (
        f"defaultConfig {{ {PORT} workload {{ peer {{}} }} }}",
        SERVICE,
    ),
    "roles": (
        f"{GANG} workload {{ framework: FRAMEWORK_TENSORFLOW }} "
        'instanceConfig { key: 0 value { workload { role: "chief" } } } '
        'instanceConfig { key: 2 value { workload { role: "ps" } } }',
        BATCH,
    ),
}


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: case.replace(" ", "_"))
def test_a_workload_that_makes_sense_is_taken_as_it_is(case: str) -> None:
    config = job(*TAKEN[case])
    assert validated(config) == config


def test_a_workload_of_an_instance_replaces_the_default_s_as_a_whole() -> None:
    config = job(
        tensorflow_gang('rendezvous_port: "a"')
        + 'instanceConfig { key: 1 value { workload { role: "ps" } } }'
    )
    spec = job_spec(config, 1)
    assert spec.workload == JobWorkload(Framework.TENSORFLOW)
    assert spec.task(0).workload == TaskWorkload(rendezvous_port="a")
    assert spec.task(1).workload == TaskWorkload(role="ps")
    assert spec.rendezvous_size == 3

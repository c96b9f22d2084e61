"""Configs that the rules (docs/behaviour/jobs.md) take, as they are or with values cut to their limits."""

from __future__ import annotations

import pytest

from peloton.model.task import MAX_FAILURES
from peloton.wire.validation.job import (
    validated,
)
from tests.unit.jobmgr_services.configs import BATCH, EXECUTOR, NO_COMMAND, SERVICE, job

DOCKER = 'container { type: DOCKER docker { image: "busybox" } }'


ACCEPTED = {
    "plain": ("", BATCH),
    "most instances": ("instanceCount: 100000", BATCH),
    "zero cpu": ("defaultConfig { resource { cpuLimit: 0 } }", BATCH),
    "no name": ('name: ""', BATCH),
    "controller by override": ("instanceConfig { key: 0 value { controller: true } }", BATCH),
    "controller of a single instance": (
        "defaultConfig { controller: true }",
        BATCH.replace("instanceCount: 3", "instanceCount: 1"),
    ),
    "controller that the others override": (
        "defaultConfig { controller: true } instanceConfig { key: 1 value {} } "
        "instanceConfig { key: 2 value {} }",
        BATCH,
    ),
    "commands by override": (
        'instanceConfig { key: 0 value { command { value: "a" } } } '
        'instanceConfig { key: 1 value { command { value: "b" } } }',
        NO_COMMAND,
    ),
    "image's own entry point": (f"defaultConfig {{ command {{ shell: false }} {DOCKER} }}", NO_COMMAND),
    "ports": (
        'defaultConfig { ports { name: "a" envName: "A" } ports { name: "b" value: 65535 } '
        'ports { name: "c" envName: "C" } }',
        BATCH,
    ),
    "revocable": ("sla { preemptible: true revocable: true }", BATCH),
    "gang": ("sla { minimumRunningInstances: 3 maximumRunningInstances: 3 }", BATCH),
    "minimum within the count": ("sla { minimumRunningInstances: 3 }", BATCH),
    "own preemptible above the minimum": (
        "sla { minimumRunningInstances: 2 } "
        "instanceConfig { key: 2 value { preemptionPolicy { type: TYPE_PREEMPTIBLE } } }",
        BATCH,
    ),
    "default preemptible as the SLA": (
        "sla { minimumRunningInstances: 2 preemptible: true } "
        "defaultConfig { preemptionPolicy { type: TYPE_PREEMPTIBLE killOnPreempt: true } }",
        BATCH,
    ),
    "service": ("sla { preemptible: true maximumUnavailableInstances: 1 }", SERVICE),
    "service with an executor": (f"defaultConfig {{ {EXECUTOR} }}", NO_COMMAND + " type: SERVICE"),
    "executor's ports need no variable": (
        f'defaultConfig {{ {EXECUTOR} ports {{ name: "a" }} ports {{ name: "b" }} }}',
        SERVICE,
    ),
    "health by command": (
        'defaultConfig { healthCheck { enabled: true type: COMMAND commandCheck { command: "true" } } }',
        SERVICE,
    ),
    "health by HTTP": (
        'defaultConfig { healthCheck { enabled: true type: HTTP httpCheck { port: 80 path: "/" } } }',
        SERVICE,
    ),
    "health off": ("defaultConfig { healthCheck { enabled: false } }", SERVICE),
    "volume": ('defaultConfig { volume { containerPath: "data" sizeMB: 10 } }', SERVICE),
    "daemon": ("type: DAEMON", BATCH),
    "daemon without a number of instances": ("type: DAEMON", BATCH.replace("instanceCount: 3", "")),
    "daemon with unavailable instances": (
        "type: DAEMON sla { maximumUnavailableInstances: 1 priority: 2 }",
        BATCH,
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepts(case: str) -> None:
    config = job(*ACCEPTED[case])
    assert validated(config) == config


def test_clips_max_failures_everywhere_and_keeps_the_given_config() -> None:
    config = job(
        "defaultConfig { restartPolicy { maxFailures: 500 } } "
        "instanceConfig { key: 1 value { restartPolicy { maxFailures: 101 } } } "
        "instanceConfig { key: 2 value { restartPolicy { maxFailures: 99 } } }"
    )
    clipped = validated(config)
    assert clipped.defaultConfig.restartPolicy.maxFailures == MAX_FAILURES
    assert clipped.instanceConfig[1].restartPolicy.maxFailures == MAX_FAILURES
    assert clipped.instanceConfig[2].restartPolicy.maxFailures == 99
    assert not clipped.instanceConfig[2].HasField("command")
    assert config.defaultConfig.restartPolicy.maxFailures == 500

"""Each rule for configs (docs/behaviour/jobs.md) refuses with path, value and what would be right."""

from __future__ import annotations

import pytest

from peloton.errors import InvalidArgument
from peloton.wire.validation.job import (
    validated,
)
from tests.unit.jobmgr_services.configs import BATCH, EXECUTOR, NO_COMMAND, SERVICE, job

REFUSED = {
    # text over the base, base, path, part of the message
    "no instances": ("", BATCH.replace("instanceCount: 3", ""), "instanceCount", "0 is not"),
    "daemon with a config of its own": (
        "type: DAEMON instanceConfig { key: 2 value {} }",
        BATCH,
        "instanceConfig[2]",
        "all have defaultConfig",
    ),
    "preemptible daemon": (
        "type: DAEMON sla { preemptible: true }",
        BATCH,
        "sla.preemptible",
        "never preempted",
    ),
    "preemptible daemon task": (
        "type: DAEMON defaultConfig { preemptionPolicy { type: TYPE_PREEMPTIBLE } }",
        BATCH,
        "defaultConfig.preemptionPolicy.type",
        "never preempted",
    ),
    "revocable daemon": (
        "type: DAEMON defaultConfig { revocable: true }",
        BATCH,
        "defaultConfig.revocable",
        "preempt",
    ),
    "controller daemon": (
        "type: DAEMON defaultConfig { controller: true }",
        BATCH,
        "defaultConfig.controller",
        "false in a DAEMON job",
    ),
    "daemon with a volume": (
        'type: DAEMON defaultConfig { volume { containerPath: "data" sizeMB: 10 } }',
        BATCH,
        "defaultConfig.volume",
        "leave it out",
    ),
    "daemon in a gang": (
        "type: DAEMON sla { minimumRunningInstances: 2 }",
        BATCH,
        "sla.minimumRunningInstances",
        "0",
    ),
    "daemon with a strategy": (
        "type: DAEMON placementStrategy: PLACEMENT_STRATEGY_SPREAD_JOB",
        BATCH,
        "placementStrategy",
        "on every host",
    ),
    "daemon without command": ("type: DAEMON", NO_COMMAND, "defaultConfig.command", "must end up with one"),
    "too many instances": ("instanceCount: 100001", BATCH, "instanceCount", "100001 is not a number from 1"),
    "no command": ("", NO_COMMAND, "defaultConfig.command", "must end up with one"),
    "one without command": (
        'instanceConfig { key: 0 value { command { value: "a" } } } instanceConfig { key: 1 value {} }',
        NO_COMMAND,
        "instanceConfig[1].command",
        "must end up with one",
    ),
    "empty command": ("defaultConfig { command {} }", NO_COMMAND, "defaultConfig.command.value", "''"),
    "no program": (
        "defaultConfig { command { shell: false } }",
        NO_COMMAND,
        "defaultConfig.command.value",
        "only a container",
    ),
    "zero byte": (
        r'defaultConfig { command { value: "a\000b" } }',
        BATCH,
        "defaultConfig.command.value",
        "zero bytes",
    ),
    "zero byte in an argument": (
        r'defaultConfig { command { arguments: "a" arguments: "\000" } }',
        BATCH,
        "defaultConfig.command.arguments[1]",
        "zero bytes",
    ),
    "variable without name": (
        'defaultConfig { command { environment { variables { name: "" value: "x" } } } }',
        BATCH,
        "defaultConfig.command.environment.variables[0].name",
        "name of a variable",
    ),
    "variable with =": (
        'defaultConfig { command { environment { variables { name: "a=b" value: "x" } } } }',
        BATCH,
        "defaultConfig.command.environment.variables[0].name",
        "'a=b'",
    ),
    "required field": (
        "defaultConfig { container { } }",
        BATCH,
        "defaultConfig.container.type",
        "required",
    ),
    "override beyond the count": (
        "instanceConfig { key: 3 value {} }",
        BATCH,
        "instanceConfig[3]",
        "below instanceCount, which is 3",
    ),
    "controller for all": ("defaultConfig { controller: true }", BATCH, "defaultConfig.controller", "True"),
    "controller 1": (
        "instanceConfig { key: 1 value { controller: true } }",
        BATCH,
        "instanceConfig[1].controller",
        "only instance 0",
    ),
    "unknown type": ("type: 7", BATCH, "type", "7 is not one of BATCH (0)"),
    "unknown strategy": ("placementStrategy: 9", BATCH, "placementStrategy", "9 is not one of"),
    "label without key": ('labels { key: "a" } labels { value: "b" }', BATCH, "labels[1].key", "''"),
    "task label without key": (
        'defaultConfig { labels { value: "b" } }',
        BATCH,
        "defaultConfig.labels[0].key",
        "''",
    ),
    "port without name": (
        "defaultConfig { ports { value: 80 } }",
        BATCH,
        "defaultConfig.ports[0].name",
        "''",
    ),
    "port too large": (
        'defaultConfig { ports { name: "a" value: 65536 } }',
        BATCH,
        "defaultConfig.ports[0].value",
        "65536",
    ),
    "dynamic port without variable": (
        'defaultConfig { ports { name: "a" } }',
        BATCH,
        "defaultConfig.ports[0].envName",
        "dynamic port",
    ),
    "port name twice": (
        'defaultConfig { ports { name: "a" value: 1 } ports { name: "a" value: 2 } }',
        BATCH,
        "defaultConfig.ports[1].name",
        "'a'",
    ),
    "port value twice": (
        'instanceConfig { key: 1 value { ports { name: "a" value: 1 } ports { name: "b" value: 1 } } }',
        BATCH,
        "instanceConfig[1].ports[1].value",
        "a value of its own: port 0 has it",
    ),
    "port variable twice": (
        'defaultConfig { ports { name: "a" envName: "P" } ports { name: "b" envName: "P" } }',
        BATCH,
        "defaultConfig.ports[1].envName",
        "'P'",
    ),
    "too many ports": (
        "defaultConfig { " + " ".join(f'ports {{ name: "{i}" value: {i} }}' for i in range(1, 1002)) + "}",
        BATCH,
        "defaultConfig.ports",
        "at most 1000",
    ),
    "batch with a health check": (
        "defaultConfig { healthCheck { enabled: true } }",
        BATCH,
        "defaultConfig.healthCheck",
        "batch job",
    ),
    "batch with an executor": (
        f"instanceConfig {{ key: 2 value {{ {EXECUTOR} }} }}",
        BATCH,
        "instanceConfig[2].executor",
        "batch job",
    ),
    "executor of another type": (
        'defaultConfig { executor { type: DEFAULT executor_id { value: "e" } data: "x" } }',
        SERVICE,
        "defaultConfig.executor.type",
        "'DEFAULT' is not CUSTOM",
    ),
    "executor without data": (
        'defaultConfig { executor { type: CUSTOM executor_id { value: "e" } } }',
        SERVICE,
        "defaultConfig.executor.data",
        "data",
    ),
    "service with maximum": (
        "sla { maximumRunningInstances: 1 }",
        SERVICE,
        "sla.maximumRunningInstances",
        "1 is not 0",
    ),
    "service with minimum": (
        "sla { minimumRunningInstances: 1 }",
        SERVICE,
        "sla.minimumRunningInstances",
        "1 is not 0",
    ),
    "service with time": ("sla { maxRunningTime: 1 }", SERVICE, "sla.maxRunningTime", "1 is not 0"),
    "service killed on preemption": (
        "defaultConfig { preemptionPolicy { killOnPreempt: true } }",
        SERVICE,
        "defaultConfig.preemptionPolicy.killOnPreempt",
        "True",
    ),
    "gRPC health check": (
        "defaultConfig { healthCheck { enabled: true type: GRPC } }",
        SERVICE,
        "defaultConfig.healthCheck.type",
        "COMMAND or HTTP",
    ),
    "health check of no type": (
        "defaultConfig { healthCheck { enabled: true } }",
        SERVICE,
        "defaultConfig.healthCheck.type",
        "COMMAND or HTTP",
    ),
    "health check of unknown type": (
        "defaultConfig { healthCheck { enabled: true type: 9 } }",
        SERVICE,
        "defaultConfig.healthCheck.type",
        "9 is not one of",
    ),
    "health check without command": (
        "defaultConfig { healthCheck { enabled: true type: COMMAND } }",
        SERVICE,
        "defaultConfig.healthCheck.commandCheck.command",
        "command line",
    ),
    "health check without port": (
        "defaultConfig { healthCheck { enabled: true type: HTTP } }",
        SERVICE,
        "defaultConfig.healthCheck.httpCheck.port",
        "1 to 65535",
    ),
    "health check of unknown scheme": (
        'defaultConfig { healthCheck { enabled: true type: HTTP httpCheck { port: 1 scheme: "ftp" } } }',
        SERVICE,
        "defaultConfig.healthCheck.httpCheck.scheme",
        "'ftp'",
    ),
    "revocable, not preemptible": ("sla { revocable: true }", BATCH, "sla.revocable", "preemptible"),
    "task revocable, not preemptible": (
        "instanceConfig { key: 1 value { revocable: true } }",
        BATCH,
        "instanceConfig[1].revocable",
        "preemptible",
    ),
    "task not preemptible, job revocable": (
        "sla { preemptible: true revocable: true } "
        "instanceConfig { key: 1 value { preemptionPolicy { type: TYPE_NON_PREEMPTIBLE } } }",
        BATCH,
        "instanceConfig[1].revocable",
        "preemptible",
    ),
    "maximum over the count": (
        "sla { maximumRunningInstances: 4 }",
        BATCH,
        "sla.maximumRunningInstances",
        "4 is not at most instanceCount, which is 3",
    ),
    "minimum over the maximum": (
        "sla { maximumRunningInstances: 2 minimumRunningInstances: 3 }",
        BATCH,
        "sla.minimumRunningInstances",
        "at most maximumRunningInstances (2)",
    ),
    "minimum over the count": (
        "sla { minimumRunningInstances: 4 }",
        BATCH,
        "sla.minimumRunningInstances",
        "(3)",
    ),
    "own preemptible in the gang": (
        "sla { minimumRunningInstances: 2 } "
        "instanceConfig { key: 1 value { preemptionPolicy { type: TYPE_PREEMPTIBLE } } }",
        BATCH,
        "instanceConfig[1].preemptionPolicy.type",
        "TYPE_PREEMPTIBLE",
    ),
    "default's preemptible in the gang": (
        "sla { minimumRunningInstances: 2 } defaultConfig { preemptionPolicy { type: TYPE_PREEMPTIBLE } }",
        BATCH,
        "defaultConfig.preemptionPolicy.type",
        "below sla.minimumRunningInstances",
    ),
    "unknown preemption": (
        "defaultConfig { preemptionPolicy { type: 5 } }",
        BATCH,
        "defaultConfig.preemptionPolicy.type",
        "5 is not one of",
    ),
    "negative cpu": (
        "defaultConfig { resource { cpuLimit: -1 } }",
        BATCH,
        "defaultConfig.resource.cpuLimit",
        "-1.0 is not a number from 0",
    ),
    "memory that is no number": (
        "defaultConfig { resource { memLimitMb: nan } }",
        BATCH,
        "defaultConfig.resource.memLimitMb",
        "nan",
    ),
    "endless disk": (
        "instanceConfig { key: 0 value { resource { diskLimitMb: inf } } }",
        BATCH,
        "instanceConfig[0].resource.diskLimitMb",
        "inf",
    ),
    "too many GPUs": (
        "defaultConfig { resource { gpuLimit: 1e10 } }",
        BATCH,
        "defaultConfig.resource.gpuLimit",
        "10000000000.0",
    ),
    "constraint of no type": (
        "defaultConfig { constraint {} }",
        BATCH,
        "defaultConfig.constraint.type",
        "LABEL_CONSTRAINT",
    ),
    "constraint of unknown kind": (
        "defaultConfig { constraint { type: AND_CONSTRAINT andConstraint { constraints { "
        "type: LABEL_CONSTRAINT labelConstraint { kind: 8 condition: CONDITION_EQUAL } } } } }",
        BATCH,
        "defaultConfig.constraint.andConstraint.constraints[0].labelConstraint.kind",
        "8 is not",
    ),
    "OR without terms": (
        "defaultConfig { constraint { type: OR_CONSTRAINT } }",
        BATCH,
        "defaultConfig.constraint.orConstraint.constraints",
        "a list of at least one constraint",
    ),
    "OR without terms within an AND": (
        "instanceConfig { key: 1 value { constraint { type: AND_CONSTRAINT andConstraint { constraints { "
        "type: OR_CONSTRAINT } } } } }",
        BATCH,
        "instanceConfig[1].constraint.andConstraint.constraints[0].orConstraint.constraints",
        "a list of at least one constraint",
    ),
    "volume without path": (
        "defaultConfig { volume { sizeMB: 10 } }",
        SERVICE,
        "defaultConfig.volume.containerPath",
        "path",
    ),
    "volume without size": (
        'defaultConfig { volume { containerPath: "x" } }',
        SERVICE,
        "defaultConfig.volume.sizeMB",
        "above 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case: str) -> None:
    text, base, path, part = REFUSED[case]
    with pytest.raises(InvalidArgument) as refusal:
        validated(job(text, base))
    assert refusal.value.field == path
    assert part in str(refusal.value)

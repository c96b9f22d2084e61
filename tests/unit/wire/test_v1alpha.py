"""The edge of the v1alpha API: what specs become, and how they are merged and given back."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from mesos.v1 import mesos_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.errors import InvalidArgument
from peloton.model.payload import ApiVersion
from peloton.model.resources import Resources
from peloton.model.states import JobType
from peloton.wire.overrides import task_config as v0_task
from peloton.wire.payload import (
    indexed_fields,
    job_config,
    spec_from_payload,
    spec_from_v1alpha,
    summary,
    summary_and_texts,
    v1alpha_spec,
)
from peloton.wire.v1alpha.duplicate_fields import filled_job
from peloton.wire.v1alpha.job_config import job_config_of, job_spec_of
from peloton.wire.v1alpha.merge import merged
from peloton.wire.v1alpha.task_config import task_config
from tests.unit.wire.specs import POOL, job, pod


def test_a_spec_becomes_a_service() -> None:
    given = job("sla { priority: 3 preemptible: true maximum_unavailable_instances: 1 }")
    spec = spec_from_v1alpha(given, 1)
    assert (spec.name, spec.type, spec.pool_id, spec.instance_count) == ("web", JobType.SERVICE, POOL, 3)
    assert (spec.owner, spec.owning_team, spec.labels) == ("ann", "infra", (("tier", "front"),))
    assert (spec.sla.priority, spec.sla.preemptible, spec.sla.maximum_unavailable_instances) == (3, True, 1)
    assert spec.default.resources == Resources.of(0.1, 32)
    assert spec.default.labels == (("app", "web"),)
    assert spec.payload.api is ApiVersion.V1ALPHA
    assert v1alpha_spec(spec.payload) == given
    assert spec_from_payload(spec.payload, 1) == spec


def test_what_is_launched() -> None:
    config = task_config(
        pod(
            """
            containers {
                name: "main" entrypoint { value: "/bin/serve" arguments: "serve" arguments: "-v" }
                environment { name: "A" value: "1" }
                image: "web:7"
                ports { name: "http" env_name: "PORT" } ports { name: "admin" value: 80 }
                volume_mounts { name: "logs" mount_path: "/logs" }
                volume_mounts { name: "etc" mount_path: "/etc/web" read_only: true }
                liveness_check {
                    enabled: true type: HEALTH_CHECK_TYPE_HTTP http_get { port: 80 path: "/ok" }
                }
            }
            host_ports { name: "debug" value: 81 }
            volumes { name: "logs" type: VOLUME_TYPE_EMPTY_DIR }
            volumes { name: "etc" type: VOLUME_TYPE_HOST_PATH host_path { path: "/opt/etc" } }
            mesos_spec {
                type: CONTAINER_TYPE_DOCKER uris { value: "http://files/a" extract: true }
                network_spec { type: NETWORK_TYPE_BRIDGE } docker_parameters { key: "k" value: "v" }
            }
            kill_grace_period_seconds: 7
            """
        ),
        "p",
    )
    command = config.command
    assert (command.shell, command.value, list(command.arguments)) == (False, "/bin/serve", ["serve", "-v"])
    assert [(v.name, v.value) for v in command.environment.variables] == [("A", "1")]
    assert [(uri.value, uri.extract, uri.HasField("output_file")) for uri in command.uris] == [
        ("http://files/a", True, False)
    ]
    docker = config.container.docker
    assert (config.container.type, docker.image) == (mesos_pb2.ContainerInfo.DOCKER, "web:7")
    assert docker.network == mesos_pb2.ContainerInfo.DockerInfo.BRIDGE
    assert [(p.key, p.value) for p in docker.parameters] == [("k", "v")]
    logs, etc = config.container.volumes
    assert (logs.container_path, logs.source.sandbox_path.path, logs.mode) == (
        "/logs",
        "logs",
        mesos_pb2.Volume.RW,
    )
    assert (etc.container_path, etc.host_path, etc.mode) == ("/etc/web", "/opt/etc", mesos_pb2.Volume.RO)
    assert [(port.name, port.value, port.envName) for port in config.ports] == [
        ("http", 0, "PORT"),
        ("admin", 80, ""),
        ("debug", 81, ""),
    ]
    assert (config.healthCheck.type, config.healthCheck.httpCheck.port) == (
        task_pb2.HealthCheckConfig.HTTP,
        80,
    )
    assert config.killGracePeriodSeconds == 7 and config.IsInitialized()


def test_the_older_form_of_a_command_wins() -> None:
    config = task_config(
        pod(
            """
            containers {
                command { value: "old" environment { variables { name: "A" value: "old" } } }
                entrypoint { value: "new" }
                environment { name: "A" value: "new" } environment { name: "B" value: "new" }
            }
            """
        ),
        "p",
    )
    assert config.command.value == "old" and config.command.shell
    found = {each.name: each.value for each in config.command.environment.variables}
    assert found == {"A": "old", "B": "new"}


def test_specs_are_returned_with_both_forms() -> None:
    spec = filled_job(job("instance_spec { key: 1 value { containers { command { value: 'other' } } } }"))
    main = spec.default_spec.containers[0]
    assert (main.command.value, main.command.shell) == ("serve --port 80", True)
    assert main.entrypoint.value == "serve --port 80"
    assert spec.instance_spec[1].containers[0].entrypoint.value == "other"
    both = job("default_spec { containers { name: 'x' } }")
    both.default_spec.containers[0].command.value = "mine"
    both = filled_job(both)
    assert both.default_spec.containers[0].command.value == "mine"
    assert both.default_spec.containers[0].entrypoint.value == "serve --port 80"


def test_what_is_not_given_is_not_filled() -> None:
    spec = filled_job(job(base="name: 'bare' instance_spec { key: 2 value {} }"))
    assert not spec.HasField("default_spec") and not spec.instance_spec[2].containers
    empty = filled_job(job(base="default_spec { containers { name: 'c' } }"))
    container = empty.default_spec.containers[0]
    assert not container.HasField("command") and not container.HasField("entrypoint")


@pytest.mark.parametrize(
    ("default", "override", "command"),
    [
        ("containers { command { value: 'a' } }", "containers { entrypoint { value: 'b' } }", "b"),
        ("containers { entrypoint { value: 'a' } }", "containers { command { value: 'b' } }", "b"),
        ("containers { command { value: 'a' } }", "containers { name: 'n' }", "a"),
        ("containers { command { value: 'a' } }", "kill_grace_period_seconds: 1", "a"),
        ("", "containers { entrypoint { value: 'b' } }", "b"),
    ],
)
def test_commands_of_overrides(default: str, override: str, command: str) -> None:
    assert task_config(merged(pod(default), pod(override)), "p").command.value == command


def test_an_override_keeps_what_it_does_not_name() -> None:
    spec = job(
        """
        default_spec { containers { ports { name: "http" value: 80 } } controller: true revocable: true }
        instance_spec { key: 1 value { containers { environment { name: "MODE" value: "test" } } } }
        """
    )
    spec.default_spec.containers[0].MergeFrom(spec.default_spec.containers[1])
    del spec.default_spec.containers[1]
    one = v0_task(job_config_of(spec), 1)
    assert one.command.value == "serve --port 80" and one.resource.cpuLimit == 0.1
    assert [port.name for port in one.ports] == ["http"]
    assert [(v.name, v.value) for v in one.command.environment.variables] == [("MODE", "test")]
    assert not one.controller and not one.revocable
    zero = v0_task(job_config_of(spec), 0)
    assert zero.controller and zero.revocable


def test_variables_of_an_override_win_over_the_older_form_in_the_default() -> None:
    default = pod(
        "containers { command { value: 'a' environment { variables { name: 'A' value: '1' } "
        "variables { name: 'B' value: '1' } } } }"
    )
    whole = merged(default, pod("containers { environment { name: 'A' value: '2' } }"))
    variables = task_config(whole, "p").command.environment.variables
    assert {each.name: each.value for each in variables} == {"A": "2", "B": "1"}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("init_containers { name: 'a' }", "p.init_containers"),
        ("containers { name: 'a' } containers { name: 'b' }", "p.containers"),
        ("containers { readiness_check { enabled: true } }", "p.containers[0].readiness_check"),
        ("containers { liveness_check { type: 7 } }", "p.containers[0].liveness_check.type"),
        (
            "containers { liveness_check { success_threshold: 2 } }",
            "p.containers[0].liveness_check.success_threshold",
        ),
        (
            "containers { liveness_check { http_get { http_headers { name: 'a' } } } }",
            "p.containers[0].liveness_check.http_get.http_headers",
        ),
        (
            "containers { liveness_check { http_get { port_spec { name: 'http' } } } }",
            "p.containers[0].liveness_check.http_get.port_spec.value",
        ),
        ("containers { volume_mounts { name: 'v' } }", "p.containers[0].volume_mounts[0].name"),
        ("containers { name: 'x' } mesos_spec { type: CONTAINER_TYPE_DOCKER }", "p.containers[0].image"),
        ("mesos_spec { executor_spec { type: EXECUTOR_TYPE_DEFAULT } }", "p.mesos_spec.executor_spec.type"),
        ("constraint { }", "p.constraint.type"),
        ("constraint { type: CONSTRAINT_TYPE_LABEL }", "p.constraint.label_constraint.kind"),
        (
            "constraint { type: CONSTRAINT_TYPE_AND and_constraint { constraints { type: 9 } } }",
            "p.constraint.and_constraint.constraints[0].type",
        ),
    ],
)
def test_what_is_refused(text: str, field: str) -> None:
    given = pod_of_numbers(text)
    with pytest.raises(InvalidArgument) as refusal:
        task_config(given, "p")
    assert refusal.value.field == field


def pod_of_numbers(text: str) -> pod_pb2.PodSpec:
    """The text form refuses numbers that an enum does not know: they are set afterwards."""
    spec = pod(text.replace("type: 7", "").replace("type: 9", ""))
    if "type: 7" in text:
        spec.containers[0].liveness_check.type = 7  # type: ignore[assignment]
    if "type: 9" in text:
        spec.constraint.and_constraint.constraints[0].type = 9  # type: ignore[assignment]
    return spec


def test_a_v0_service_is_seen_as_a_spec() -> None:
    config = job_pb2.JobConfig()
    text_format.Parse(
        f"""
        name: "old" type: SERVICE owningTeam: "infra" instanceCount: 2 respoolID {{ value: "{POOL}" }}
        sla {{ priority: 2 maximumUnavailableInstances: 1 }}
        defaultConfig {{
            name: "t" command {{ value: "run" }} resource {{ cpuLimit: 2 }} labels {{ key: "a" value: "b" }}
            healthCheck {{ enabled: true type: COMMAND commandCheck {{ command: "true" }} }}
            constraint {{ type: LABEL_CONSTRAINT labelConstraint {{
                kind: HOST condition: CONDITION_EQUAL label {{ key: "k" value: "v" }} requirement: 1 }} }}
        }}
        instanceConfig {{ key: 1 value {{ command {{ value: "other" }} }} }}
        """,
        config,
    )
    spec = job_spec_of(config)
    main = spec.default_spec.containers[0]
    assert (main.command.value, main.entrypoint.value, main.resource.cpu_limit) == ("run", "run", 2)
    assert main.liveness_check.command_check.command == "true"
    assert spec.sla.maximum_unavailable_instances == 1
    again = job_config_of(spec)
    assert again.defaultConfig == config.defaultConfig
    assert [v0_task(again, i) for i in range(2)] == [v0_task(config, i) for i in range(2)]


def test_index_and_summary_of_a_spec() -> None:
    given = job("instance_spec { key: 1 value { containers { command { value: 'needle' } } } }")
    payload = spec_from_v1alpha(given, 1).payload
    assert tuple(indexed_fields(payload)) == ("web", "infra", POOL, (("tier", "front"),), given.owner)
    short, texts = summary_and_texts(payload)
    assert "needle" in texts and "serve --port 80" in texts
    assert short == summary(payload) and not v1alpha_spec(short).instance_spec
    assert job_config(short).defaultConfig == job_config(payload).defaultConfig

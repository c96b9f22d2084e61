"""An update of a batch job may add instances and change nothing else."""

from __future__ import annotations

import pytest

from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.wire.validation.job import validated
from peloton.wire.validation.update import validated_update
from tests.unit.jobmgr_services.configs import PARENT, job

OLD = 'labels { key: "a" value: "b" } instanceConfig { key: 0 value { controller: true } }'


def old() -> job_pb2.JobConfig:
    config = validated(job(OLD))
    config.changeLog.version = 4
    return config


@pytest.mark.parametrize(
    "more",
    [
        "",
        "instanceCount: 5",
        'instanceCount: 5 instanceConfig { key: 4 value { name: "new" } }',
        "instanceConfig { key: 1 value { } }",
        "instanceCount: 5 sla { maximumRunningInstances: 5 }",
        "changeLog { version: 1 }",
        "defaultConfig { restartPolicy { } }",
    ],
)
def test_accepts(more: str) -> None:
    before = old()
    if "restartPolicy" in more:
        before.defaultConfig.restartPolicy.SetInParent()
    after = validated_update(before, job(OLD + more))
    assert after.changeLog.version == 4
    assert after.instanceCount == (5 if "instanceCount" in more else 3)


def test_pool_may_be_left_out() -> None:
    new = job(OLD + "instanceCount: 4")
    new.ClearField("respoolID")
    assert validated_update(old(), new).respoolID.value == old().respoolID.value


def test_a_config_without_a_pool_is_left_without_one() -> None:
    stored = old()
    stored.ClearField("respoolID")
    assert validated_update(stored, stored) == stored


def test_values_clipped_by_create_are_clipped_by_update() -> None:
    text = "defaultConfig { restartPolicy { maxFailures: 500 } } instanceCount: 4"
    assert validated_update(validated(job(text)), job(text)).instanceCount == 4


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ('name: "other"', "name"),
        ('owningTeam: "other"', "owningTeam"),
        ('ldapGroups: "g"', "ldapGroups"),
        ('labels { key: "c" }', "labels"),
        ('description: "d"', "description"),
        ('owner: "o"', "owner"),
        ("type: SERVICE", "type"),
        ("placementStrategy: PLACEMENT_STRATEGY_PACK_HOST", "placementStrategy"),
        (f'respoolID {{ value: "{PARENT}" }}', "respoolID"),
        ('defaultConfig { command { value: "b" } }', "defaultConfig.command.value"),
        ("instanceCount: 2", "instanceCount"),
        ('instanceConfig { key: 0 value { name: "x" } }', "instanceConfig[0]"),
        ('instanceConfig { key: 2 value { name: "x" } }', "instanceConfig[2]"),
        ("sla { priority: 1 }", "sla.priority"),
        (
            "instanceCount: 5 instanceConfig { key: 4 value { controller: true } }",
            "instanceConfig[4].controller",
        ),
    ],
)
def test_refuses(more: str, path: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        validated_update(old(), job(OLD + more))
    assert refusal.value.field == path
    assert "\n" not in str(refusal.value)


def test_an_existing_override_may_not_be_left_out() -> None:
    new = job(OLD + "instanceCount: 5")
    del new.instanceConfig[0]
    with pytest.raises(InvalidArgument) as refusal:
        validated_update(old(), new)
    assert refusal.value.field == "instanceConfig[0]"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            'defaultConfig { command { value: "exit 1" } }',
            "defaultConfig.command.value: 'exit 1' is not 'echo hello', which an update keeps",
        ),
        ("type: SERVICE", "type: 'SERVICE' is not 'BATCH', which an update keeps"),
        (
            'description: "' + "long " * 40 + '"',
            "description: '" + "long " * 15 + "lon… is not '', which an update keeps",
        ),
        (
            'labels { key: "c" }',
            """labels: 'key: "a" value: "b", key: "c"' is not 'key: "a" value: "b"', which an update keeps""",
        ),
        ("sla { preemptible: true }", "sla.preemptible: True is not False, which an update keeps"),
    ],
)
def test_a_refusal_names_what_differs_and_no_more(more: str, told: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        validated_update(old(), job(OLD + more))
    assert str(refusal.value) == told

"""Retry rules: the same in both APIs, and refused where they make no sense."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.model.retry import RetryRule
from peloton.wire.job import job_spec
from peloton.wire.payload import spec_from_v1alpha
from peloton.wire.v1alpha.job_config import job_config_of, job_spec_of
from peloton.wire.validation.job import validated
from tests.unit.wire.specs import job

RULE = (
    'exit_codes: [137, 3] signals: "SIGSEGV" reasons: "REASON_CONTAINER_LIMITATION_MEMORY" hosts: "h*" '
    "retries: 2 another_host: true"
)
MODEL = RetryRule(
    frozenset({3, 137}), frozenset({11}), frozenset({"CONTAINER_LIMITATION_MEMORY"}), ("h*",), 2, True
)


def config(rules: str, more: str = "") -> job_pb2.JobConfig:
    made = job_pb2.JobConfig(name="job", instanceCount=1)
    made.defaultConfig.command.value = "true"
    made.defaultConfig.resource.cpuLimit = 1
    text_format.Parse(f"restartPolicy {{ {rules} }}", made.defaultConfig)
    made.MergeFrom(text_format.Parse(more, job_pb2.JobConfig()))
    return made


def test_both_apis_give_the_model_the_same_rules() -> None:
    wire = job(f"default_spec {{ restart_policy {{ rules {{ {RULE} }} }} }}")
    assert spec_from_v1alpha(wire, version=1).default.retry_rules == (MODEL,)
    assert job_spec(config(f"rules {{ {RULE} }}"), 1).default.retry_rules == (MODEL,)
    assert job_spec_of(job_config_of(wire)).default_spec.restart_policy == wire.default_spec.restart_policy


def test_rules_that_make_sense_are_taken() -> None:
    validated(config(f"rules {{ {RULE} }} rules {{ hosts: 'old-*' }} rules {{ retries: 100 }}"))


@pytest.mark.parametrize(
    ("rules", "more", "field", "says"),
    [
        ("rules { retries: 1 }", "type: SERVICE", "", "always runs again"),
        ("rules { retries: 1 }", "workload { gang_policy: GANG_POLICY_FAIL }", "", "GANG_POLICY_FAIL"),
        ("rules { exit_codes: 0 }", "", "[0].exit_codes[0]", "0 is a success"),
        ("rules { exit_codes: [1, 256] }", "", "[0].exit_codes[1]", "from 1 to 255"),
        ('rules { signals: "KILL" }', "", "[0].signals[0]", "such as SIGKILL"),
        ('rules { reasons: "OOM" }', "", "[0].reasons[0]", "a reason of Mesos"),
        ('rules { reasons: "AGENT_DRAINING" }', "", "[0].reasons[0]", "an eviction"),
        ('rules { hosts: "" }', "", "[0].hosts[0]", "a hostname"),
        ("rules { retries: 101 }", "", "[0].retries", "from 0 to 100"),
        ("rules { another_host: true }", "", "[0].another_host", "does not run again"),
        ("rules { retries: 1 } rules { exit_codes: 1 }", "", "[0]", "the last rule"),
        ("rules { exit_codes: 1 } " * 21, "", "", "at most 20 rules"),
        ("rules { exit_codes: [" + "1, " * 100 + "1] }", "", "[0].exit_codes", "at most 100"),
        (
            "rules { retries: 1 another_host: true }",
            'defaultConfig { volume { containerPath: "v" sizeMB: 1 } }',
            "[0].another_host",
            "the host of its volume",
        ),
    ],
)
def test_rules_that_make_no_sense_are_refused(rules: str, more: str, field: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        validated(config(rules, more))
    assert refused.value.field == f"defaultConfig.restartPolicy.rules{field}"
    assert says in str(refused.value)


def test_the_rules_of_an_instance_are_checked() -> None:
    made = config("")
    made.instanceConfig[0].restartPolicy.rules.add(exit_codes=[300])
    with pytest.raises(InvalidArgument, match=r"instanceConfig\[0\].restartPolicy.rules\[0\].exit_codes"):
        validated(made)

"""Rules for retry rules: what makes no sense is refused."""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.api.scheduling import scheduling_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.workload import workload_pb2
from peloton.errors import InvalidArgument
from peloton.model.plural import plural
from peloton.model.retry import MAX_RETRIES, MAX_RULES
from peloton.wire.retry import retry_rules

MAX_VALUES = 100
"""Values of one condition."""
MAX_CHARACTERS = 253
MAX_EXIT_CODE = 255
_REASON = "REASON_"
_REASONS = frozenset(
    name.removeprefix(_REASON) for name in mesos_pb2.TaskStatus.Reason.DESCRIPTOR.values_by_name
)
_NO_FAILURES = frozenset(
    {"AGENT_DRAINING", "AGENT_REMOVED_BY_OPERATOR", "CONTAINER_PREEMPTED", "FRAMEWORK_REMOVED"}
)
"""Reasons of evictions, which are always followed by the next run."""


def check_retry_rules(config: job_pb2.JobConfig, task: task_pb2.TaskConfig, path: str) -> None:
    """Check the retry rules of a task, default or merged. Raises InvalidArgument."""
    rules, at = task.restartPolicy.rules, f"{path}.restartPolicy.rules"
    if not rules:
        return
    if config.type != job_pb2.BATCH:
        wanted = "allowed in a batch job only: an instance of a service or daemon job always runs again"
        raise InvalidArgument(at, plural(len(rules), "rule"), wanted)
    if len(rules) > MAX_RULES:
        raise InvalidArgument(at, plural(len(rules), "rule"), f"at most {plural(MAX_RULES, 'rule')}")
    if config.workload.gang_policy == workload_pb2.GANG_POLICY_FAIL:
        wanted = "allowed with GANG_POLICY_FAIL, by which a gang does not run again after a failure"
        raise InvalidArgument(at, plural(len(rules), "rule"), wanted)
    for number, rule in enumerate(rules):
        _check_rule(task, rule, f"{at}[{number}]")
    decoded = retry_rules(rules, at)
    for number, before in enumerate(decoded[:-1]):
        if before.unconditional:
            wanted = f"the last rule: {at}[{number + 1}] and those after it would concern no end"
            raise InvalidArgument(f"{at}[{number}]", "no conditions", wanted)


def _check_rule(task: task_pb2.TaskConfig, rule: scheduling_pb2.RetryRule, path: str) -> None:
    for name in ("exit_codes", "signals", "reasons", "hosts"):
        count = len(getattr(rule, name))
        if count > MAX_VALUES:
            raise InvalidArgument(f"{path}.{name}", plural(count, "value"), f"at most {MAX_VALUES} of them")
    for i, code in enumerate(rule.exit_codes):
        if not 1 <= code <= MAX_EXIT_CODE:
            wanted = f"a number from 1 to {MAX_EXIT_CODE}" + ("; 0 is a success" if not code else "")
            raise InvalidArgument(f"{path}.exit_codes[{i}]", code, wanted)
    for i, reason in enumerate(rule.reasons):
        _check_reason(reason.removeprefix(_REASON), f"{path}.reasons[{i}]")
    for i, host in enumerate(rule.hosts):
        if not 1 <= len(host) <= MAX_CHARACTERS:
            wanted = f"a hostname of 1 to {MAX_CHARACTERS} characters, in which * stands for any text"
            raise InvalidArgument(f"{path}.hosts[{i}]", host[:MAX_CHARACTERS], wanted)
    if rule.retries > MAX_RETRIES:
        raise InvalidArgument(f"{path}.retries", rule.retries, f"a number from 0 to {MAX_RETRIES}")
    if rule.another_host and not rule.retries:
        wanted = "false where `retries` is 0: the task does not run again"
        raise InvalidArgument(f"{path}.another_host", True, wanted)
    if rule.another_host and task.HasField("volume"):
        wanted = "false in a task with a volume, which runs on the host of its volume only"
        raise InvalidArgument(f"{path}.another_host", True, wanted)


def _check_reason(reason: str, path: str) -> None:
    if reason in _NO_FAILURES:
        wanted = (
            "the reason of a failure or a loss: this one is an eviction, which is always followed by a run"
        )
        raise InvalidArgument(path, reason, wanted)
    if reason not in _REASONS:
        wanted = "a reason of Mesos, such as CONTAINER_LIMITATION_MEMORY or AGENT_REMOVED"
        raise InvalidArgument(path, reason, wanted)

"""Retry rules of batch tasks: what the end of a run counts as, and whether the next run follows.

All is decided from the rows of tasks alone, so that every leader decides the same.
"""

from __future__ import annotations

from typing import NamedTuple

from jobmgr.core.state.change import Change
from jobmgr.core.task.retry import EndCause, runs_again
from jobmgr.core.task.status_rules import termination
from peloton.model.plural import plural
from peloton.model.retry import NO_ENDS, RetryRule, RuleEnds, RunEnd, first_concerned, signal_number
from peloton.model.task import TaskRuntime, TaskSpec, TaskStatus, Termination

_CONCERNED = frozenset({EndCause.TASK, EndCause.SYSTEM, EndCause.LOST})


class Ruling(NamedTuple):
    """What a rule says of an end."""

    number: int
    """Of the rule, in the order of the spec."""
    rule: RetryRule
    host: str
    """Where the run ended; empty where that is not known."""
    ends: int
    """Ends of the instance, or of its gang, that the rule concerns, with this one."""

    @property
    def again(self) -> bool:
        """Whether the next run follows."""
        return self.ends <= self.rule.retries

    @property
    def avoided(self) -> str:
        """The host that the next run is to avoid; empty: none."""
        return self.host if self.again and self.rule.another_host else ""

    def told(self, message: str) -> str:
        """Return the message of the end, with what the rule says of it."""
        most, by = self.rule.retries, f"(restartPolicy.rules[{self.number}])"
        if self.again:
            where = f", on another host than {self.avoided}" if self.avoided else ""
            said = f"retry {self.ends} of {most} {by}{where}"
        else:
            said = (
                f"not run again after {plural(most, 'retry', 'retries')} {by}"
                if most
                else f"never retried {by}"
            )
        return f"{said}: {message}" if message else said


def ruling_on_end(
    change: Change, instance: int, cause: EndCause, status: TaskStatus, members: int = 0
) -> Ruling | None:
    """Return what the rules say of an end that is not stored yet; None: no rule concerns it.

    The first `members` instances are a gang that ends as one: the ends of all of them count.
    """
    spec, task = change.task_spec(instance), change.task(instance)
    if not spec.retry_rules or cause not in _CONCERNED:
        return None
    end = _run_end(termination(status.state, None, status.message), status.reason, task.host)
    number = first_concerned(spec.retry_rules, end)
    if number is None:
        return None
    rule = spec.retry_rules[number]
    before = sum(_ends_by(change, each, rule) for each in (range(members) if members else (instance,)))
    return Ruling(number, rule, task.host, before + 1)


def runs_again_after(cause: EndCause, failures: int, spec: TaskSpec, task: TaskRuntime) -> bool:
    """Return whether the next run of a batch task follows an end that is stored, and counted there."""
    if spec.retry_rules and cause in _CONCERNED:
        number = first_concerned(spec.retry_rules, _run_end(task.termination, task.reason, task.host))
        if number is not None:
            return (task.rule_ends or NO_ENDS).of(number) <= spec.retry_rules[number].retries
    return runs_again(cause, failures - ruled_ends(task), spec)


def ruled_ends(task: TaskRuntime) -> int:
    """Return how many of a task's failures rules concern: maxFailures is for the others."""
    return 0 if task.rule_ends is None else task.rule_ends.total


def ends_with(task: TaskRuntime, ruling: Ruling | None) -> RuleEnds | None:
    """Return what a task keeps of the ends that rules concern, with one that may be."""
    if ruling is None:
        return task.rule_ends
    return (task.rule_ends or NO_ENDS).with_end(ruling.number, ruling.avoided)


def _run_end(how: Termination | None, reason: str, host: str) -> RunEnd:
    if how is None:
        return RunEnd(reason=reason, host=host)
    return RunEnd(how.exit_code, signal_number(how.signal), reason, host)


def _ends_by(change: Change, instance: int, rule: RetryRule) -> int:
    ends, rules = change.task(instance).rule_ends, change.task_spec(instance).retry_rules
    if ends is None or rule not in rules:
        return 0
    return ends.of(rules.index(rule))

"""The next steps towards the wanted installation, each with its reason.

The rules:

- The schema of the store comes first.
- What is missing is started at once, in all groups.
- A daemon is replaced by starting its successor beside it. Only when the successor is healthy, and a leader
  is seen, the old one ends: followers before the leader. So a group never has fewer healthy daemons than are
  wanted because of a change.
- One daemon after another, one group after another.
- Where successors fail, the installation goes back to the last revision that was whole.

Nothing is remembered between two plans: another deployer goes on where one has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deployer.core.values import Failures, Group, Instance, Situation, Wanted
from peloton.model.amounts import elapsed
from peloton.model.backoff import exponential
from peloton.model.plural import plural

FIRST_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Migrate:
    """Bring the schema of the store up to date, by the wanted version."""

    reason: str


@dataclass(frozen=True, slots=True)
class Start:
    """Start a daemon of a group as it is wanted, on a host that `deployer.core.placing` chooses."""

    group: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Tell a daemon to end."""

    instance: str
    group: str
    reason: str
    failed: bool = False
    """Whether this counts as a failure of its group."""


@dataclass(frozen=True, slots=True)
class RollBack:
    """Want the revision again that was whole before."""

    revision: int
    reason: str


Step = Migrate | Start | Stop | RollBack


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now. Without steps: what is waited for, or nothing, when the installation is whole."""

    steps: tuple[Step, ...] = ()
    waits: tuple[str, ...] = ()
    blocked: str = ""
    """Why the wanted installation cannot be reached; empty where it may be."""

    @property
    def whole(self) -> bool:
        """Whether everything is as it is wanted, healthy and led."""
        return not (self.steps or self.waits or self.blocked)


def plan(wanted: Wanted, now_is: Situation, now: float) -> Plan:
    """Return the next steps; `now` in seconds since 1970."""
    return _Planner(wanted, now_is, now).plan()


class _Planner:
    def __init__(self, wanted: Wanted, found: Situation, now: float) -> None:
        self._wanted = wanted
        self._found = found
        self._now = now
        self._gate = wanted.gate
        self._live = {
            group.name: [each for each in found.instances if each.group == group.name and not each.ending]
            for group in wanted.groups
        }

    def plan(self) -> Plan:
        failed = "" if self._found.converged else self._failed()
        if failed and self._wanted.fallback is not None:
            return Plan((RollBack(self._wanted.fallback, failed),))
        if self._wanted.schema and self._wanted.schema not in self._found.schemas:
            if failed:
                return Plan(blocked=failed)
            return Plan((Migrate("the wanted version may need another schema of the store"),))
        urgent: tuple[Step, ...] = (*self._late_ones(), *self._missing())
        if urgent or failed:
            return Plan(urgent, blocked=failed)
        waits = tuple(self._waits())
        changed = self._change(bool(waits))
        return Plan((changed,) if changed else (), waits)

    # Failures.

    def _failed(self) -> str:
        """Return why the wanted revision counts as failed; empty where it does not."""
        if self._found.schema_failure and self._wanted.schema not in self._found.schemas:
            return f"the schema of the store was not brought up to date: {self._found.schema_failure}"
        for group in self._wanted.groups:
            failures = self._failures(group)
            if failures is not None and failures.count >= self._gate.tries:
                times = plural(failures.count, "daemon")
                return f"{group.name}: {times} failed, the last one because {failures.why}"
        return ""

    def _failures(self, group: Group) -> Failures | None:
        failures = self._found.failures.get(group.name)
        return failures if failures is not None and failures.digest == group.digest else None

    def _late_ones(self) -> tuple[Stop, ...]:
        """Stop daemons that did not become healthy in time after their start."""
        if self._found.converged:
            return ()
        return tuple(
            Stop(each.id, each.group, f"it is not healthy after {elapsed(self._now - each.started)}"
                 f"{': ' if each.problem else ''}{each.problem}", failed=True)
            for group in self._wanted.groups
            for each in self._new(group)
            if each.healthy_since is None and self._now - each.started > self._gate.healthy_within
        )  # fmt: skip

    # What is missing.

    def _missing(self) -> Iterator[Start]:
        for group in self._wanted.groups:
            lacking = group.count - len(self._live[group.name])
            if lacking <= 0 or self._pause(group) > 0:
                continue
            failures = self._failures(group)
            why = f", after one failed because {failures.why}" if failures else ""
            have = plural(len(self._live[group.name]), "daemon")
            for _ in range(lacking):
                yield Start(group.name, f"{group.name} has {have} of {group.count}{why}")

    def _pause(self, group: Group) -> float:
        """Return for how long nothing is started after failures."""
        failures = self._failures(group)
        if failures is None:
            return 0.0
        pause = exponential(failures.count, FIRST_PAUSE_SECONDS, self._gate.longest_pause)
        return failures.last + pause - self._now

    # What is waited for.

    def _waits(self) -> Iterator[str]:
        """Yield what is not as it has to be before a daemon is told to end."""
        for group in self._wanted.groups:
            yield from self._unready(group)
        for each in self._found.instances:
            if each.ending:
                yield f"{each.id} on {each.host} is ending"

    def _unready(self, group: Group) -> Iterator[str]:
        """Yield what is not as it has to be of a group before a daemon is replaced.

        Daemons that are not as they are wanted may be ill: the change may be what mends them.
        """
        live = self._live[group.name]
        if len(live) < group.count:
            yield f"{group.name} is started again in {elapsed(max(self._pause(group), 0.0))}"
        yield from filter(None, map(self._wait_for, self._new(group)))
        ill = any(each.healthy_since is None for each in self._old(group))
        if group.led and group.count and not ill and not any(each.leads for each in live):
            yield f"no {group.name} leads"

    def _wait_for(self, instance: Instance) -> str:
        if instance.healthy_since is None:
            why = f": {instance.problem}" if instance.problem else ""
            return f"{instance.id} on {instance.host} is not healthy{why}"
        if (left := instance.healthy_since + self._settling(instance) - self._now) > 0:
            return f"{instance.id} on {instance.host} is healthy, and is watched for {elapsed(left)} more"
        return ""

    def _settling(self, instance: Instance) -> float:
        """Return how long an instance is to be healthy before it counts."""
        group = next(each for each in self._wanted.groups if each.name == instance.group)
        new = self._new(group)
        if self._found.converged or instance not in new or not self._old(group):
            return 0.0
        return self._gate.canary if len(new) == 1 else self._gate.settle

    # Changes.

    def _change(self, waiting: bool) -> Stop | Start | None:
        """Return the next step of a change, where there is one."""
        for group in self._wanted.groups:
            if self._old(group) or len(self._live[group.name]) > group.count:
                return self._replace(group, waiting)
        if waiting:
            return None
        names = {group.name for group in self._wanted.groups}
        for each in _followers_first(self._found.instances):
            if each.group not in names and not each.ending:
                return Stop(each.id, each.group, f"the installation has no {each.group}")
        return None

    def _replace(self, group: Group, waiting: bool) -> Stop | Start | None:
        old, new, live = self._old(group), self._new(group), self._live[group.name]
        if len(live) <= group.count:
            # A daemon that is ending is not waited for here: its successor is healthy already.
            if any(next(self._unready(each), "") for each in self._wanted.groups):
                return None
            which = "the first daemon of" if not new else "the next daemon of"
            return Start(group.name, f"{which} {group.name} is replaced by one of {_what(group)}")
        if waiting:
            return None
        ends = _followers_first(old or new)[0]
        if old and ends.healthy_since is None:
            return Stop(ends.id, group.name, "it is not healthy, and its successor is")
        if old:
            leader = ": the leader, after its followers" if ends.leads else ""
            return Stop(ends.id, group.name, f"its successor is healthy{leader}")
        more = plural(len(live), "daemon")
        return Stop(ends.id, group.name, f"{group.name} has {more}, and is to have {group.count}")

    def _new(self, group: Group) -> list[Instance]:
        return [each for each in self._live[group.name] if each.digest == group.digest]

    def _old(self, group: Group) -> list[Instance]:
        return [each for each in self._live[group.name] if each.digest != group.digest]


def _followers_first(instances: Sequence[Instance]) -> list[Instance]:
    """Return instances in the order of ending: unhealthy ones, followers, leaders; the youngest first."""
    return sorted(instances, key=lambda each: (each.healthy_since is not None, each.leads, -each.started))


def _what(group: Group) -> str:
    """Return how people know what a daemon is started with."""
    return group.digest[:12]


def foresee(wanted: Wanted, now_is: Situation, now: float, most: int = 1000) -> list[Step]:
    """Return all steps to the wanted installation, if each one succeeds at once."""
    steps: list[Step] = []
    settled = max(wanted.gate.canary, wanted.gate.settle) + 1
    while len(steps) < most:
        now += settled
        now_is = _settled(wanted, now_is, now - settled)
        found = plan(wanted, now_is, now)
        if not found.steps:
            return steps
        steps += found.steps
        if any(isinstance(step, RollBack) for step in found.steps):
            return steps
        for number, step in enumerate(found.steps, len(steps)):
            now_is = _succeeded(step, wanted, now_is, now, f"new-{number}")
    return steps


def _succeeded(step: Step, wanted: Wanted, found: Situation, now: float, name: str) -> Situation:
    if isinstance(step, Migrate):
        return replace(found, schemas=found.schemas | {wanted.schema})
    if isinstance(step, Stop):
        return replace(found, instances=tuple(e for e in found.instances if e.id != step.instance))
    assert isinstance(step, Start), step
    group = next(each for each in wanted.groups if each.name == step.group)
    made = Instance(name, group.name, group.digest, "", now)
    return replace(found, instances=(*found.instances, made))


def _settled(wanted: Wanted, found: Situation, since: float) -> Situation:
    """Return the situation when all daemons are healthy, and each led group has a leader."""
    led = {group.name for group in wanted.groups if group.led}
    led -= {each.group for each in found.instances if each.leads}
    instances = []
    for each in found.instances:
        if each.ending:
            continue
        since_then = each.healthy_since if each.healthy_since is not None else since
        instances.append(replace(each, healthy_since=since_then, leads=each.leads or each.group in led))
        led -= {each.group}
    return replace(found, instances=tuple(instances))

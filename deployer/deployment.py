"""Carries out what the core plans: the record first, then Mesos."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from deployer.core.placing import Place, no_place, place
from deployer.core.plan import Migrate, Plan, RollBack, Start, Step, Stop, plan
from deployer.core.values import Situation, Wanted
from deployer.framework import DeployFramework, TaskReport, make_framework
from deployer.health import HealthWatch, instances_of, situation
from deployer.installation import LED, Installation
from deployer.probes import Prober
from deployer.record import MIGRATE, Record, Started
from deployer.rendering import (
    SETTINGS,
    as_yaml,
    daemon_command,
    migrate_command,
    mounts,
    need_of,
    own_settings,
    store_settings,
    wanted_of,
)
from deployer.store import Store
from deployer.tasks import OfferRest, TaskSpec, address_of
from mesos.v1 import mesos_pb2
from peloton.clock import NANOSECONDS, SystemClock
from peloton.errors import Unavailable
from peloton.membership.factory import membership
from peloton.membership.interface import Role
from peloton.mesos.detector import detecting
from peloton.model.amounts import elapsed

PAUSE_SECONDS = 0.25
SETTLE_SECONDS = 2.0
"""How long the answers to a reconciliation are waited for before something is started."""
REPORT_SECONDS = 5.0
log = logging.getLogger(__name__)
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the work ended."""

    whole: bool
    text: str


class Deployment:
    """The work on one installation, under its lock."""

    def __init__(
        self, store: Store, record: Record, prober: Prober, report: Report, clock: SystemClock | None = None
    ) -> None:
        self._store = store
        self.record = record
        self._prober = prober
        self._report = report
        self._clock = clock or SystemClock()
        self.framework = DeployFramework(self._registered, self._removed)
        self._watch = HealthWatch(prober, self._now)
        self._asked = -1
        """The subscription in which Mesos was asked for the state of all daemons."""
        self._settled_at = 0.0
        self._unanswered: set[str] = set()
        """Daemons of whose state Mesos has not told since it was asked."""
        self._killed: dict[str, float] = {}
        self._told = ("", 0.0)
        self._changes: list[tuple[Callable[[Record], Record], asyncio.Future[None]]] = []
        self._refresh()

    # The record.

    async def _save(self, record: Record) -> None:
        if record != self.record:
            await self._store.save(record)
            self.record = record

    async def want(self, record: Record) -> None:
        """Take over a record in which another revision is wanted."""
        await self._save(record)
        self._refresh()

    def _refresh(self) -> None:
        """Read the wanted installation."""
        self._installation: Installation | None = None
        self._wanted: Wanted | None = None
        if self.record.wanted and not self.record.destroying:
            self._installation = self.record.revision(self.record.wanted).installation
            fallback = self.record.fallback()
            self._wanted = wanted_of(self._installation, self.record.wanted, fallback)

    # Mesos tells of these while the loop may be saving: the loop alone writes the record.

    async def _registered(self, framework_id: str) -> None:
        await self._in_loop(lambda record: replace(record, framework_id=framework_id))

    async def _removed(self) -> None:
        """Mesos has ended the framework with all its tasks."""
        self._report("Mesos has removed the framework of the installation, with all its daemons")
        await self._in_loop(lambda record: replace(record, framework_id="", instances={}))

    async def _in_loop(self, change: Callable[[Record], Record]) -> None:
        """Wait until the loop has changed the record."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.append((change, done))
        self.framework.changed.set()
        await done

    async def _take_changes(self) -> None:
        while self._changes:
            change, done = self._changes.pop(0)
            await self._save(change(self.record))
            if not done.done():
                done.set_result(None)

    # The loop.

    async def work(self, seconds: float | None) -> Outcome:
        """Bring the installation about, for `seconds` at most; None: keep it as it is wanted without end.

        Raises Conflict where another deployer has taken over.
        """
        until = None if seconds is None else self._clock.monotonic() + seconds
        while True:
            step = await self._turn()
            if until is not None:
                if step.whole:
                    return self._reached()
                if step.blocked and not step.steps:
                    return Outcome(False, step.blocked)
                if self._clock.monotonic() > until:
                    why = "; ".join(step.waits) or self.framework.trouble or "steps are left"
                    return Outcome(False, f"not done after {elapsed(seconds or 0)}: {why}")
            if not step.steps:  # else the next one may follow at once
                await self._pause()

    async def _turn(self) -> Plan:
        """Look at what there is, and do what is next."""
        await self._take_changes()
        if not self.framework.ready:
            return self._waiting(f"Mesos: {self.framework.trouble}")
        if self._asked != self.framework.subscriptions:
            self._asked = self.framework.subscriptions
            self._settled_at = self._clock.monotonic() + (SETTLE_SECONDS if self.record.instances else 0)
            self.framework.reconcile((name, each.agent) for name, each in self.record.instances.items())
            self._unanswered = set(self.record.instances)
        await self._take_reports()
        if self._unanswered and self._clock.monotonic() < self._settled_at:
            return self._waiting("Mesos is asked for the state of all daemons")
        found = await self._planned(everyone=False)
        if _ends_something(found) or (found.whole and not self.record.reached):
            found = await self._planned(everyone=True)
        if found.whole and not self.record.reached:
            await self._save(self.record.whole())
        self.framework.want_offers(not found.whole)
        self._kill_again()
        if found.steps:
            return await self._carry_out(found)
        return found if found.whole or found.blocked else self._waiting(*found.waits)

    def _waiting(self, *waits: str) -> Plan:
        text, now = "; ".join(waits), self._clock.monotonic()
        if text.split(" for ")[0] != self._told[0] or now - self._told[1] > REPORT_SECONDS:
            self._told = (text.split(" for ")[0], now)
            self._report(f"waiting: {text}")
        return Plan(waits=waits)

    def _reached(self) -> Outcome:
        if self.record.went_back:
            return Outcome(False, f"went back to revision {self.record.wanted}: {self.record.went_back}")
        return Outcome(True, f"revision {self.record.wanted} is whole: all daemons are healthy, and led")

    async def _pause(self) -> None:
        """Wait until Mesos or the membership tells something, and at most until daemons are asked again."""
        told = [
            asyncio.create_task(self.framework.changed.wait()),
            asyncio.create_task(self._prober.leader_changed()),
        ]
        try:
            done, _ = await asyncio.wait(told, timeout=PAUSE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                await each
        finally:
            for each in told:
                each.cancel()
            await asyncio.gather(*told, return_exceptions=True)
            self.framework.changed.clear()

    def _now(self) -> float:
        return self._clock.wall() / NANOSECONDS

    # What there is.

    async def _take_reports(self) -> None:
        record = self.record
        for report in self.framework.take():
            self._unanswered.discard(report.id)
            started = record.instances.get(report.id)
            if started is None:
                self._end_unknown(report)
            elif report.ended:
                record = self._ended(record, started, report)
        await self._save(record)

    def _end_unknown(self, report: TaskReport) -> None:
        """End a task that was replaced while its host could not be reached."""
        if not report.ended:
            self._report(f"{report.id} runs, and is not wanted any more: it is told to end")
            with suppress(Unavailable):  # it is told of again
                self.framework.kill(report.id, report.agent)

    def _ended(self, record: Record, started: Started, report: TaskReport) -> Record:
        record = record.without(report.id)
        self._killed.pop(report.id, None)
        if started.group == MIGRATE:
            return self._migrated(record, started, report)
        if started.ending:
            self._report(f"{report.id} has ended")
            return record
        self._report(f"{report.id} on {started.host} is gone: {report.text}")
        if report.lost:
            return record
        return record.failed(started.group, started.digest, self._now(), f"it ended ({report.text})")

    def _migrated(self, record: Record, started: Started, report: TaskReport) -> Record:
        if report.succeeded:
            self._report("the schema of the store is up to date")
            return record.with_schema(started.digest)
        if report.lost:
            return record
        why = f"{report.text}, on {started.host}: see the output of {report.id}"
        assert self._wanted is not None, "want comes first"
        failed = record.schema_failed(started.digest, self._now(), why, self._wanted.gate.tries)
        if not failed.schema_failure:
            self._report(f"the schema of the store is tried again: {why}")
        return failed

    async def _planned(self, everyone: bool) -> Plan:
        """Return what is next, after asking the daemons that are due, or everyone."""
        assert self._wanted is not None, "want comes first"
        asked = {
            name: (each, self._role(each.group))
            for name, each in self.record.instances.items()
            if each.group != MIGRATE and not each.ending
        }
        gate = self._wanted.gate
        await self._watch.look(asked, max(gate.canary, gate.settle), everyone)
        return self._schema_wait() or plan(self._wanted, self._situation(), self._now())

    def _role(self, group: str) -> Role | None:
        """Return the role of a group that elects a leader."""
        assert self._installation is not None
        if group not in self._installation.daemons:
            return None
        role = self._installation.role_of(group)
        return Role(role) if role in LED else None

    def _situation(self) -> Situation:
        return situation(self.record, self._watch.answers, self._watch.healthy_since)

    def _schema_wait(self) -> Plan | None:
        for name, each in self.record.instances.items():
            if each.group == MIGRATE:
                return Plan(waits=(f"{name} on {each.host} brings the schema of the store up to date",))
        return None

    # Steps.

    async def _carry_out(self, found: Plan) -> Plan:
        """Store what is to be done, and do it. Return the plan, or what is waited for."""
        record, waits = self.record, list(found.waits)
        rests = {key: OfferRest(offer) for key, offer in self.framework.offers.items()}
        tasks: dict[str, list[mesos_pb2.TaskInfo]] = {}
        ends: list[str] = []
        lacks_room = False
        for step in found.steps:
            if isinstance(step, RollBack):
                self._report(f"going back to revision {step.revision}: {step.reason}")
                await self.want(record.wanting(step.revision, step.reason))
                return found
            if isinstance(step, Stop):
                self._say(step, f"end {step.instance}")
                record = self._stopped(record, step)
                ends.append(step.instance)
                continue
            made = self._started(record, step, rests)
            if isinstance(made, str):
                waits.append(made)
                lacks_room = True
                continue
            record, offer, task = made
            tasks.setdefault(offer, []).append(task)
        self.framework.lacks_room = lacks_room
        await self._save(record)
        self.framework.launch(tasks)
        for name in ends:
            self._kill(name)
        return self._waiting(*waits) if waits and not (tasks or ends) else found

    def _stopped(self, record: Record, step: Stop) -> Record:
        if step.failed:
            digest = record.instances[step.instance].digest
            record = record.failed(step.group, digest, self._now(), step.reason)
        return record.ending(step.instance)

    def _started(
        self, record: Record, step: Start | Migrate, rests: dict[str, OfferRest]
    ) -> tuple[Record, str, mesos_pb2.TaskInfo] | str:
        """Return the record with a new task, and the task with its offer; or why there is no room for it."""
        assert self._installation is not None and self._wanted is not None
        installation, number = self._installation, record.launched + 1
        is_daemon = isinstance(step, Start)
        name = step.group if isinstance(step, Start) else MIGRATE
        of = name if is_daemon else installation.groups[0]
        need, rooms = need_of(installation, of), [each.room for each in rests.values()]
        if not is_daemon:
            need = replace(need, ports=0)
        found = place(name, need, rooms, instances_of(record, {}, {}), record.launched)
        if found is None:
            return f"no room for {name}: {no_place(need, rooms)}"
        rest, task_id = rests[found.offer], f"{installation.name}.{name}.{number}"
        spec = self._spec(task_id, name if is_daemon else None, address_of(rest.offer), found)
        group = next((each for each in self._wanted.groups if each.name == name), None)
        started = Started(
            name, self._wanted.revision, group.digest if group else self._wanted.schema, found.host,
            address_of(rest.offer), rest.offer.agent_id.value, found.ports, self._now(),
        )  # fmt: skip
        self._say(step, f"start {task_id} on {found.host}")
        return record.with_instance(task_id, started), found.offer, rest.take(spec, need, found.ports)

    def _spec(self, task_id: str, group: str | None, ip: str, found: Place) -> TaskSpec:
        installation = self._installation
        assert installation is not None
        version = installation.version
        if group is None:
            settings, command = store_settings(installation), migrate_command(version)
        else:
            settings = own_settings(installation, group, task_id, ip, found.ports)
            command = daemon_command(version, installation.role_of(group))
        return TaskSpec(
            task_id,
            f"peloton {group or MIGRATE}",
            command,
            installation.mesos.user,
            {SETTINGS: as_yaml(settings)},
            version.image,
            tuple(mounts(installation).values()),
        )

    def _say(self, step: Step, what: str) -> None:
        self._report(f"{what}: {step.reason}")

    def _kill(self, name: str) -> None:
        self._killed[name] = self._clock.monotonic()
        self.framework.kill(name, self.record.instances[name].agent)

    def _kill_again(self) -> None:
        """Repeat what a deployer before this one, or a lost connection, may not have told."""
        now = self._clock.monotonic()
        for name, each in self.record.instances.items():
            if each.ending and now - self._killed.get(name, -1e9) > REPORT_SECONDS:
                self._kill(name)

    # The end.

    async def destroy(self, seconds: float) -> None:
        """End all daemons and the framework, and forget the installation. Raises Unavailable."""
        await self.want(replace(self.record, destroying=True))
        until = self._clock.monotonic() + seconds
        while not self.framework.ready:
            self._require_time(until, f"Mesos: {self.framework.trouble}")
            await self._take_changes()
            await self._pause()
        self.framework.reconcile((name, each.agent) for name, each in self.record.instances.items())
        for name in self.record.instances:
            self._report(f"end {name}: the installation is destroyed")
        await self._save(
            replace(
                self.record, instances={k: replace(v, ending=True) for k, v in self.record.instances.items()}
            )
        )
        while self.record.instances:
            self._require_time(until, f"{', '.join(self.record.instances)} did not end")
            if self.framework.ready:
                self._kill_again()
            await self._take_changes()
            await self._take_reports()
            await self._pause()
        await self.framework.tear_down()
        await self._store.remove()

    def _require_time(self, until: float, what: str) -> None:
        if self._clock.monotonic() > until:
            raise Unavailable(f"{what}: try again")


def _ends_something(found: Plan) -> bool:
    return any(isinstance(step, Stop) for step in found.steps)


@asynccontextmanager
async def deploying(
    installation: Installation, store: Store, record: Record, report: Report
) -> AsyncIterator[Deployment]:
    """Work on an installation, under its lock, while the body runs. Raises ConfigError, Unavailable."""
    clock = SystemClock()
    members = membership(installation.zookeeper)
    await members.start()
    try:
        async with (
            Prober(installation.health, members) as prober,
            detecting(installation.mesos.master) as detector,
        ):
            made = Deployment(store, record, prober, report, clock)

            def fence() -> None:
                if not store.usable:
                    raise Unavailable("ZooKeeper cannot be reached: another deployer may be at work")

            make_framework(
                installation.mesos,
                installation.name,
                record.framework_id,
                detector,
                clock,
                made.framework,
                fence,
            )
            running = asyncio.create_task(made.framework.run(), name="mesos")
            body = asyncio.current_task()
            assert body is not None
            running.add_done_callback(lambda ended: None if ended.cancelled() else body.cancel())
            try:
                yield made
            except asyncio.CancelledError:
                if running.done() and not running.cancelled() and (error := running.exception()) is not None:
                    raise error from None
                raise
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
    finally:
        await members.close()

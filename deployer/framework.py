"""The framework whose tasks the daemons are: what Mesos offers and tells, and what is asked of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from deployer.installation import Mesos
from mesos.v1 import mesos_pb2
from peloton.clock import Clock
from peloton.config.errors import ConfigError
from peloton.config.private import require_private
from peloton.errors import Unavailable
from peloton.mesos.calls import Call, Calls, Framework
from peloton.mesos.codec import codec
from peloton.mesos.connection import MesosDriver
from peloton.mesos.detector import MasterAddress, MasterDetector
from peloton.mesos.http import basic
from peloton.mesos.session import Session
from peloton.mesos.stream import Event
from peloton.mesos.tls import contexts

log = logging.getLogger(__name__)
_ABSENT = frozenset(
    {
        mesos_pb2.TASK_LOST, mesos_pb2.TASK_UNREACHABLE, mesos_pb2.TASK_GONE, mesos_pb2.TASK_UNKNOWN,
        mesos_pb2.TASK_DROPPED, mesos_pb2.TASK_GONE_BY_OPERATOR,
    }
)  # fmt: skip
"""States of tasks whose host is gone, or that it does not know."""
_ABOUT_OFFERS = frozenset({Event.OFFERS, Event.RESCIND})
_ENDED = frozenset(
    {mesos_pb2.TASK_FINISHED, mesos_pb2.TASK_FAILED, mesos_pb2.TASK_KILLED, mesos_pb2.TASK_ERROR}
)


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What Mesos tells of a task."""

    id: str
    agent: str
    ended: bool
    """Whether it is not there any more, as far as Mesos knows."""
    succeeded: bool
    lost: bool
    """Whether it ended with its host, or was never there; else by itself or because it was told to."""
    text: str


class DeployFramework:
    """The driver's handler. Belongs to one event loop."""

    def __init__(
        self, registered: Callable[[str], Awaitable[None]], removed: Callable[[], Awaitable[None]]
    ) -> None:
        """Tell of a framework id by `registered`, before anything else of a subscription; and of its end."""
        self._registered = registered
        self._removed = removed
        self._calls: Calls | None = None
        self._driver: MesosDriver | None = None
        self._reports: list[TaskReport] = []
        self._quiet = False
        self.offers: dict[str, mesos_pb2.Offer] = {}
        self.changed = asyncio.Event()
        """Set with each event, with offers only while room is lacking."""
        self.lacks_room = True
        self.trouble = "not subscribed with a Mesos master yet"
        self.subscriptions = 0

    def attach(self, driver: MesosDriver) -> None:
        """Set the driver, whose handler this is."""
        self._driver = driver

    async def run(self) -> NoReturn:
        """Subscribe, again after each end of the subscription."""
        await self._connected.run()

    @property
    def ready(self) -> bool:
        """Whether calls can be made."""
        return self._calls is not None and self._connected.ready

    def take(self) -> list[TaskReport]:
        """Return what was told since the last call."""
        reports, self._reports = self._reports, []
        return reports

    # Calls. Each raises Unavailable while not subscribed.

    def launch(self, tasks: Mapping[str, Sequence[mesos_pb2.TaskInfo]]) -> None:
        """Start tasks, by the offers from which they are made."""
        for offer, made in tasks.items():
            self._send(self._subscribed().accept([offer], made, 0.0))
            self.offers.pop(offer, None)

    def kill(self, task: str, agent: str) -> None:
        """Tell a task to end."""
        self._send(self._subscribed().kill(task, agent))

    def reconcile(self, tasks: Iterable[tuple[str, str]]) -> None:
        """Ask for the state of tasks, each with its agent; and of all that Mesos knows."""
        calls, known = self._subscribed(), list(tasks)
        if known:
            self._send(calls.reconcile(known))
        self._send(calls.reconcile(()))

    def want_offers(self, wanted: bool) -> None:
        """Take offers, or leave everything to others."""
        if wanted == (not self._quiet) or not self.ready:
            return
        self._quiet = not wanted
        if wanted:
            self._send(self._subscribed().revive())
            return
        self._send(self._subscribed().suppress())
        if self.offers:
            self._send(self._subscribed().decline(self.offers))
            self.offers.clear()

    async def tear_down(self) -> None:
        """End the framework, with all its tasks."""
        self._send(self._subscribed().teardown())
        with suppress(Unavailable):  # the master ends the connection
            await self._connected.drain()

    def _send(self, call: Call) -> None:
        self._connected.send(call)

    def _subscribed(self) -> Calls:
        if self._calls is None:
            raise Unavailable(f"Mesos: {self.trouble}")
        return self._calls

    @property
    def _connected(self) -> MesosDriver:
        assert self._driver is not None, "attach comes first"
        return self._driver

    # The driver's handler.

    async def on_subscribed(self, framework_id: str, master: MasterAddress, master_id: str) -> None:
        """Begin anew: earlier offers are void."""
        await self._registered(framework_id)
        self.offers.clear()
        self._calls = Calls(framework_id)
        self._quiet = False
        self.trouble = ""
        self.subscriptions += 1
        self.changed.set()

    async def on_framework_removed(self) -> None:
        """Tell that all tasks are gone with the framework."""
        await self._removed()

    def on_events(self, events: list[Event]) -> None:
        """Note offers and statuses, and acknowledge these."""
        for event in events:
            if event.type == Event.OFFERS:
                self.offers.update((offer.id.value, offer) for offer in event.offers.offers)
            elif event.type == Event.RESCIND:
                self.offers.pop(event.rescind.offer_id.value, None)
            elif event.type == Event.UPDATE:
                self._on_status(event.update.status)
        if self.lacks_room or any(event.type not in _ABOUT_OFFERS for event in events):
            self.changed.set()

    def _on_status(self, status: mesos_pb2.TaskStatus) -> None:
        self._reports.append(_report(status))
        if status.uuid:
            with suppress(Unavailable):  # it comes again
                self._send(self._subscribed().acknowledge(_Status(status)))

    def on_disconnected(self, reason: str) -> None:
        """Forget the offers."""
        self._calls = None
        self.offers.clear()
        self.trouble = reason
        self.changed.set()

    def on_refused(self, call: str, status: int, text: str) -> None:
        """Look again at what is there: the driver has logged it."""
        self.changed.set()


@dataclass(frozen=True, slots=True)
class _Status:
    """A status, as far as an acknowledgement needs it."""

    status: mesos_pb2.TaskStatus

    @property
    def run(self) -> str:
        return self.status.task_id.value

    @property
    def agent_id(self) -> str:
        return self.status.agent_id.value

    @property
    def uuid(self) -> bytes:
        return self.status.uuid


def _report(status: mesos_pb2.TaskStatus) -> TaskReport:
    state = status.state
    name = mesos_pb2.TaskState.Name(state).removeprefix("TASK_").lower().replace("_", " ")
    text = " ".join(status.message.split())
    return TaskReport(
        status.task_id.value,
        status.agent_id.value,
        ended=state in _ABSENT or state in _ENDED,
        succeeded=state == mesos_pb2.TASK_FINISHED,
        lost=state in _ABSENT,
        text=f"{name}: {text}" if text else name,
    )


def make_framework(
    mesos: Mesos,
    name: str,
    framework_id: str,
    detector: MasterDetector,
    clock: Clock,
    handler: DeployFramework,
    fence: Callable[[], None],
) -> None:
    """Give the handler its driver. Raises ConfigError where a file of the settings cannot be used."""
    tls = mesos.tls
    framework = Framework(
        user=mesos.user, name=f"peloton-deploy {name}", role=mesos.role, principal=mesos.principal,
        gpus=False, revocable=False,
    )  # fmt: skip
    driver = MesosDriver(
        Session(framework_id or None),
        framework,
        codec("protobuf"),
        detector,
        handler,
        clock.monotonic,
        _authorization(mesos),
        contexts(tls.ca_file, tls.certificate_file, tls.key_file) if tls.enabled else None,
        fence=fence,
    )
    handler.attach(driver)


def _authorization(mesos: Mesos) -> str:
    if mesos.secret_file is None:
        return ""
    require_private(mesos.secret_file, "mesos.secret_file")
    try:
        return basic(mesos.principal, mesos.secret_file.read_text().strip())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"mesos.secret_file: {mesos.secret_file}: {error}") from None

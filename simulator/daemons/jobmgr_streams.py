"""What jobmgr pulls from the other daemons: placements, statuses, preempted runs, and why tasks wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from jobmgr.core.state.events import (
    Draining,
    PendingReasons,
    Placed,
    Placement,
    Preempted,
    ResmgrChanged,
    Statuses,
)
from peloton.errors import PelotonError, Refused
from peloton.model.ids import Run, parse_mesos_task_id
from peloton.model.task import TaskStatus
from resmgr.core.state.placements import Handover
from simulator.daemons.hostmgr_stream import Follower
from simulator.daemons.jobmgr_calls import Lane

PLACEMENTS_PER_CALL = 1000
TASKS_PER_CALL = 1000
EVENTS_PER_CALL = 2000
POLL_SECONDS = 10.0
GATHER_SECONDS = 0.02
BEHIND_SECONDS = 0.5
RETRY_SECONDS = 0.5
DRAIN_SECONDS = 3.0
"""After so long hostmgr looks again for runs on hosts in maintenance."""
DRAIN_PAUSE_SECONDS = 1.0


class Streams:
    """Pulls, and hands what comes to the lane."""

    def __init__(self, lane: Lane, reasons: bool, drains: bool) -> None:
        self._lane = lane
        self._reasons, self._drains = reasons, drains
        self._kernel = lane.universe.kernel
        self._poll_seconds = lane.universe.patience(POLL_SECONDS)
        self._stream = ""
        self._next = 0
        """Statuses before this offset are handed to the lane."""
        self._unstored: deque[tuple[int, list[bool]]] = deque()
        """Batches of statuses that may not be stored: their first offset, and whether they are."""
        self._follower: Follower | None = None
        """The stream of statuses where nothing fails."""
        self.early = False
        """Whether statuses count as stored when they arrive. This and what follows are bugs to plant."""
        self.follows_leader = True
        """Whether another leader of resmgr is noticed."""
        self._leader = ""
        self._reason_stream, self._reason_last = "", 0

    def start(self) -> None:
        """Begin to pull: all active jobs are in memory."""
        self._pull_placements()
        self._open_statuses()
        self._pull_preempted()
        if self._reasons:
            self._pull_reasons()
        if self._drains:
            self._pull_draining()

    def _call(self, role: str, method: str, args: tuple[Any, ...], done: Callable[[Any], None]) -> None:
        lane = self._lane
        lane.universe.network.call(lane.caller, role, method, args, done, 10.0 + POLL_SECONDS)

    def _again(self, answer: Any, pull: Callable[[], None]) -> bool:
        """Pull again after a failure; return whether there was one."""
        if not isinstance(answer, PelotonError):
            return False
        self._kernel.after(RETRY_SECONDS, self._lane.life, pull)
        return True

    # Placements.

    def _pull_placements(self) -> None:
        self._call("resmgr", "on_placements", (PLACEMENTS_PER_CALL, self._poll_seconds), self._placed)

    def _placed(self, answer: Any) -> None:
        if self._again(answer, self._pull_placements):
            return
        given: Sequence[Handover] = answer
        if given:
            self._lane.post(
                Placed([Placement(it.host, it.agent_id, it.offer_id, it.ports, it.runs) for it in given])
            )
        self._pull_placements()

    # Statuses.

    def _open_statuses(self) -> None:
        def opened(answer: Any) -> None:
            if self._again(answer, self._open_statuses):
                return
            self._stream, self._next = answer
            self._unstored.clear()
            if self._lane.universe.quiet:
                self._follow_statuses()
            else:
                self._pull_statuses()

        self._call("hostmgr", "on_open_stream", ("jobmgr",), opened)

    def _follow_statuses(self) -> None:
        def followed(follower: Follower) -> None:
            self._follower = follower

        args = ("jobmgr", self._next, GATHER_SECONDS, EVENTS_PER_CALL, self._take)
        self._call("hostmgr", "on_follow", args, followed)

    def _take(self, events: Sequence[tuple[int, TaskStatus]]) -> None:
        """Take statuses from the stream that is followed; they are passed once they are stored."""
        behind = events[-1][0] + 1

        def stored(reply: Any) -> None:
            assert self._follower is not None
            self._follower.passed(behind)

        self._lane.post(Statuses(_parsed(events)), stored)

    def _pull_statuses(self) -> None:
        wait = BEHIND_SECONDS if self._unstored else self._poll_seconds
        purge = self._unstored[0][0] if self._unstored and not self.early else self._next
        args = ("jobmgr", self._stream, self._next, purge, EVENTS_PER_CALL, wait)
        self._call("hostmgr", "on_statuses", args, self._told)

    def _told(self, answer: Any) -> None:
        if isinstance(answer, Refused):  # another stream, or the events are gone
            self._open_statuses()
            return
        if self._again(answer, self._pull_statuses):
            return
        events: Sequence[tuple[int, TaskStatus]] = answer
        if not events:
            self._pull_statuses()
            return
        batch = (events[0][0], [False])
        self._unstored.append(batch)
        self._next = events[-1][0] + 1

        def stored(reply: Any) -> None:
            batch[1][0] = True
            while self._unstored and self._unstored[0][1][0]:
                self._unstored.popleft()

        self._lane.post(Statuses(_parsed(events)), stored)
        self._kernel.after(GATHER_SECONDS, self._lane.life, self._pull_statuses)

    # Preemption, and reasons.

    def _pull_preempted(self) -> None:
        self._call("resmgr", "on_preempted", (TASKS_PER_CALL, self._poll_seconds), self._preempted)

    def _preempted(self, answer: Any) -> None:
        if self._again(answer, self._pull_preempted):
            return
        if answer:
            self._lane.post(Preempted(answer))
        self._pull_preempted()

    def _pull_draining(self) -> None:
        self._call("hostmgr", "on_draining", (DRAIN_SECONDS,), self._draining)

    def _draining(self, answer: Any) -> None:
        if self._again(answer, self._pull_draining):
            return
        if answer:
            self._lane.post(Draining([parse_mesos_task_id(run) for run in answer]))
        self._kernel.after(DRAIN_PAUSE_SECONDS, self._lane.life, self._pull_draining)

    def _pull_reasons(self) -> None:
        args = (self._reason_stream, self._reason_last, self._poll_seconds)
        self._call("resmgr", "on_reasons", args, self._reasoned)

    def _reasoned(self, answer: Any) -> None:
        if self._again(answer, self._pull_reasons):
            return
        leader, self._reason_stream, self._reason_last, deltas = answer
        if leader != self._leader:
            # Where nothing fails, the first leader has no predecessor.
            if (self._leader or not self._lane.universe.quiet) and self.follows_leader:
                self._lane.post(ResmgrChanged())
            self._leader = leader
        if deltas:
            self._lane.post(PendingReasons(deltas))
        self._pull_reasons()


def _parsed(events: Sequence[tuple[int, TaskStatus]]) -> list[tuple[Run, TaskStatus]]:
    return [(parse_mesos_task_id(status.mesos_task_id), status) for _, status in events]

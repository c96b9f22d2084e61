"""Joins the launches that several lanes decide for one host into the one call that its claim allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from jobmgr.core.state.events import Event, LaunchRefused, Placement
from jobmgr.core.state.instructions import Instruction, Launch, Release
from peloton.model.ids import Run

PATIENCE_SECONDS = 2.0
"""How long the launch of a host waits for the lanes that have not stored their runs."""
TOO_LATE = "the host's other tasks were launched before this one was stored"
Key = tuple[str, str]
"""Host and offer."""


@dataclass(slots=True)
class _Host:
    hostname: str
    agent_id: str
    offer_id: str
    missing: int = 0
    """Lanes that have not stored their part."""
    runs: list[Run] = field(default_factory=list)
    due: bool = False
    """Whether the patience is over: the next part that has runs is launched."""
    sent: bool = False


class HostLaunches:
    """Holds back the launch of a host whose runs belong to several lanes until all lanes have stored them.

    After a bounded time the stored runs are launched. That ends the claim: runs that another lane stores
    later are returned to it as refused, and get a new run.
    """

    def __init__(
        self,
        send: Callable[[Iterable[Instruction]], None],
        post: Callable[[Event], None],
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._send = send
        self._post = post
        self._patience = patience
        self._hosts: dict[Key, _Host] = {}
        self._progress = asyncio.Event()
        """Set whenever the launch of a host is sent."""

    def expect(self, placement: Placement, parts: int) -> None:
        """Wait for the `parts` of a placement, each of another lane."""
        if parts < 2:
            return
        key = (placement.hostname, placement.offer_id)
        host = self._hosts.get(key)
        if host is None:
            host = _Host(placement.hostname, placement.agent_id, placement.offer_id)
            self._hosts[key] = host
            asyncio.get_running_loop().call_later(self._patience, self._overdue, host)
        host.missing += parts

    async def sent(self, concerns: Callable[[Run], bool]) -> None:
        """Wait, for the patience at most, until no stored run that `concerns` waits for other lanes."""
        while any(any(map(concerns, host.runs)) for host in self._hosts.values() if not host.sent):
            self._progress.clear()
            await self._progress.wait()

    def send(self, instructions: Sequence[Instruction]) -> None:
        """Pass on the instructions of a lane, except its part of a shared launch."""
        if self._hosts:
            self._send(each for each in instructions if not self._is_part(each))
        else:
            self._send(instructions)

    def _is_part(self, instruction: Instruction) -> bool:
        """Take an instruction that is part of a shared launch; return whether it is one."""
        if not isinstance(instruction, Launch | Release):
            return False
        key = (instruction.hostname, instruction.offer_id)
        host = self._hosts.get(key)
        if host is None:
            return False
        self._take(host, instruction)
        if not host.missing:
            del self._hosts[key]
        return True

    def _take(self, host: _Host, part: Launch | Release) -> None:
        host.missing -= 1
        runs = part.runs if isinstance(part, Launch) else ()
        if not host.sent:
            host.runs += runs
            if not host.missing or (host.due and host.runs):
                self._send_launch(host)
        elif runs:
            self._post(LaunchRefused(runs, TOO_LATE, faulty=False))

    def _overdue(self, host: _Host) -> None:
        host.due = True
        if host.runs and not host.sent:
            self._send_launch(host)

    def _send_launch(self, host: _Host) -> None:
        host.sent = True
        self._progress.set()
        claim = (host.hostname, host.agent_id, host.offer_id)
        self._send([Launch(*claim, tuple(host.runs)) if host.runs else Release(*claim)])

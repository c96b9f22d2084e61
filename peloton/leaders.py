"""How leaders are followed: who is called, when a call is made again, and how long is waited before.

All of it is decided here, without clock and effects. `Leaders` knows who leads and who led, `Tries` takes a
call from its first try to its end, `Doubts` says when other servers are asked whether they lead. Two
interpreters make the calls: `peloton.client.following`, blocking or in asyncio, for clients, the command line
and the JSON door, which look leaders up; `peloton.rpc.client`, in asyncio, for daemons and web pages, whose
membership names the leader of each moment.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from peloton.model.backoff import exponential

NOT_BEGUN = "peloton-not-begun"
"""Key of the trailing metadata of a call that was refused before it began."""
REPEATED = "peloton-repeated"
"""Key of the metadata of a call whose earlier try may have been carried out."""
MOST_FORMER = 8
"""Former leaders whose connections stay open."""
DOUBT_SECONDS = 0.4
"""How long a call may be without an answer before other servers are asked whether they lead."""
IDLE_SECONDS = 5.0
"""How long after the last call or doubt the next call is waited for."""
LEAST_SECONDS = 0.001
"""Time-out of a try where none is left."""
JITTER = 0.5
"""Share by which an interpreter shortens pauses at random: callers that failed together try again apart."""
IDEMPOTENT = re.compile(r"(Get|List|Query|Browse|Lookup|Refresh|Start|Stop|Kill|Delete)(?![a-z])")
"""Methods that read, or that change nothing when they are carried out again."""
_NO_CONNECTION = "failed to connect"
"""How gRPC's text begins where a call has found no connection."""
_CUT = re.compile(rf"^{_NO_CONNECTION}.*(handshake|socket closed|reset|eof)", re.IGNORECASE | re.DOTALL)
"""Texts of gRPC where a server was reached, and ended the connection or failed in its handshake."""


class Failure(Enum):
    """What a failed try tells about who leads."""

    NOT_BEGUN = "nothing was carried out: nobody leads, this server does not, or there is no connection"
    GONE = "the server has ended, or the connection; whether the call was carried out is unknown"
    SILENT = "there was no answer in time"
    TURNED_AWAY = "the server does not take calls of this caller"
    ANSWERED = "the leader has refused: the call has failed"


_BY_CODE = {
    "UNAVAILABLE": Failure.GONE,
    "CANCELLED": Failure.GONE,
    "DEADLINE_EXCEEDED": Failure.SILENT,
    "UNAUTHENTICATED": Failure.TURNED_AWAY,
    "PERMISSION_DENIED": Failure.TURNED_AWAY,
}


def failure_of(code: str, details: str, trailing: Container[str]) -> Failure:
    """Return what a call's status tells, by its name, its text and the keys of its trailing metadata."""
    failure = _BY_CODE.get(code, Failure.ANSWERED)
    if failure is Failure.GONE and (NOT_BEGUN in trailing or details.startswith(_NO_CONNECTION)):
        return Failure.NOT_BEGUN
    return failure


def may_be_handshake(code: str, details: str) -> bool:
    """Return whether the two sides may have refused each other's certificates, which no try mends."""
    return code == "UNAVAILABLE" and _CUT.search(details) is not None


def repeatable(method: str, request: Any) -> bool:
    """Return whether a call that may have been carried out may be made again.

    It may where the second time changes nothing: the call reads, requests an end state, or names the job or
    the entity version.
    """
    name = method.rpartition("/")[2]
    if IDEMPOTENT.match(name) or _value(request, "version"):
        return True
    return name.startswith("Create") and bool(_value(request, "id") or _value(request, "job_id"))


def _value(request: Any, name: str) -> Any:
    """Return what the field of this name wraps, empty where the request has no such field."""
    return getattr(getattr(request, name, None), "value", "")


@dataclass(frozen=True, slots=True)
class Patience:
    """Which failures are followed by another try, and after how many seconds."""

    again: frozenset[Failure]
    first_pause: float
    longest_pause: float


CLIENT = Patience(frozenset({Failure.NOT_BEGUN, Failure.GONE}), 0.1, 0.5)
"""Clients, whose time-out bounds one try as well."""
PROGRAM = Patience(CLIENT.again | {Failure.SILENT}, 0.05, 1.0)
"""Programs of the cluster, whose tries may be shorter than the whole call."""
DAEMON = Patience(PROGRAM.again | {Failure.TURNED_AWAY}, 0.05, 1.0)
"""A daemon that is turned away goes on trying: nothing has begun, and its token may be about to change."""


class Tries:
    """The tries of one call."""

    def __init__(
        self,
        patience: Patience,
        now: float,
        seconds: float | None,
        *,
        repeats: bool = True,
        repeatable: bool = True,
        waits: float = 0.0,
    ) -> None:
        """Bound all tries by `seconds` (None: no bound) from `now` on.

        Without `repeats` there is one try; a call that is not `repeatable` is made again only where it has
        not begun. In a long poll the other side waits for up to `waits` seconds in each try; `seconds` bounds
        what a try takes beyond them, and the tries after the first one that failed.
        """
        self.lost = False
        """Whether an earlier try may have been carried out."""
        self._patience = patience
        self._seconds = seconds
        self._repeats = repeats
        self._repeatable = repeatable
        self._waits = waits
        self._end = None if waits or seconds is None else now + seconds
        self._pauses = 0

    def seconds(self, now: float) -> float | None:
        """Return how long a try that begins now may take; None where there is no bound."""
        rest = self._seconds if self._end is None else self.rest(now)
        return None if rest is None else rest + self._waits

    def rest(self, now: float) -> float | None:
        """Return how long the leader may be looked for; None where there is no bound."""
        return None if self._end is None else max(self._end - now, LEAST_SECONDS)

    def failed(self, failure: Failure, now: float) -> float | None:
        """Take how a try failed; return the pause before the next one, None where the call has failed."""
        if self._end is None and self._seconds is not None:
            self._end = now + self._seconds
        pause = exponential(self._pauses + 1, self._patience.first_pause, self._patience.longest_pause)
        again = failure is Failure.NOT_BEGUN or (failure in self._patience.again and self._repeatable)
        if not (self._repeats and again) or (self._end is not None and now + pause >= self._end):
            return None
        self._pauses += 1
        self.lost = self.lost or failure is not Failure.NOT_BEGUN
        return pause

    def hear(self) -> None:
        """Take that another server leads: the pauses begin with the first one again."""
        self._pauses = 0


@dataclass(eq=False, slots=True)
class Server:
    """A server that leads, or led."""

    address: str
    deposed: bool = False
    """Whether another server is known to lead."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What follows from what was told: whose repeatable calls end, and whose connections."""

    left: Sequence[Server] = ()
    """They are deposed: what may be repeated goes on at the leader."""
    closed: Sequence[Server] = ()
    """They led too long ago for their connections to stay."""
    leader: Server | None = None
    """Who leads from now on: callers that pause call it now."""


class Leaders:
    """Who leads a role, as far as is known, and who led before: calls to these may be under way."""

    def __init__(self) -> None:
        self.current: Server | None = None
        """Who is called; None where the leader is to be looked up."""
        self.ended = False
        """Whether nobody is called any more."""
        self._former: list[Server] = []
        self._announced = ""

    def find(self, address: str) -> None:
        """Take whom a look-up found."""
        if self.current is not None or self.ended:
            return
        known = [each for each in self._former if each.address == address and not each.deposed]
        self._former = [each for each in self._former if each not in known]
        self.current = known[0] if known else Server(address)

    def tell(self, address: str) -> Turn:
        """Take what an election says: who leads now, empty while nobody does."""
        known = address == self._announced and (not address or self._calls(address))
        if self.ended or known:
            return Turn()
        self._announced = address
        closed: list[Server] = []
        if self.current is not None and not self._calls(address):
            closed = self._set_aside(self.current)
        if not address:
            return Turn(closed=closed)
        left = [each for each in self._former if each.address != address and not each.deposed]
        for each in left:
            each.deposed = True
        self.find(address)
        return Turn(left, closed, self.current)

    def _calls(self, address: str) -> bool:
        return self.current is not None and self.current.address == address

    def _set_aside(self, server: Server) -> list[Server]:
        """Let no call begin at a server; those under way go on. Return whose connections are closed."""
        self.current = None
        self._former.append(server)
        return [self._former.pop(0)] if len(self._former) > MOST_FORMER else []

    def fail(self, server: Server, failure: Failure) -> Sequence[Server]:
        """Take how a call failed at a server; return whose connections are closed.

        A server that has ended, or is silent, is forgotten: the next call looks the leader up again.
        """
        unsettled = failure in (Failure.NOT_BEGUN, Failure.GONE, Failure.SILENT)
        return self.forget(server) if unsettled else ()

    def forget(self, server: Server) -> Sequence[Server]:
        """Look the leader up again for the next call; return whose connections are closed."""
        return self._set_aside(server) if server is self.current else ()

    def end(self) -> None:
        """Let no call begin any more."""
        self.ended = True
        self.current, self._former = None, []


def left(connected: Iterable[str], leaders: Collection[str]) -> list[str]:
    """Return which of the servers with a connection a registry does not name as leaders: calls there end."""
    return [address for address in connected if address not in leaders]


class Doubts:
    """Calls under way at servers that may have ceased to lead, where nobody would tell."""

    def __init__(self, now: float) -> None:
        self._calls: dict[int, tuple[str, float]] = {}
        self._numbers = itertools.count()
        self._last = now

    def begin(self, address: str, now: float) -> int:
        """Note a call to a server; return its number."""
        call = next(self._numbers)
        self._calls[call] = (address, now)
        self._last = now
        return call

    def end(self, call: int) -> None:
        """Note that a call has ended."""
        del self._calls[call]

    def doubted(self, now: float) -> set[str]:
        """Return the servers that have left a call without an answer for too long."""
        found = {address for address, began in self._calls.values() if began < now - DOUBT_SECONDS}
        if found:
            self._last = now
        return found

    def idle(self, now: float) -> bool:
        """Return whether nobody calls, and has not for a while."""
        return not self._calls and now - self._last > IDLE_SECONDS


def instead(address: str, given: Iterable[str], leads: Callable[[str], bool]) -> str:
    """Return which other given address leads in place of a silent one; empty where none does.

    Two names of one server both say that it leads: then the silent one is only slow.
    """
    for other in given:
        if other != address and leads(other):
            return "" if leads(address) else other
    return ""

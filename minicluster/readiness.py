"""Waiting until a cluster's components answer, and saying what they wait for themselves."""

from __future__ import annotations

import re
import time
import urllib.error  # not httpx: its import takes 0.3 s of processor time, while the daemons start
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from minicluster.components import CASSANDRA, ZOOKEEPER, Component
from minicluster.layout import Layout
from minicluster.processes import wait_until
from minicluster.progress import Progress
from minicluster.servers import cassandra, zookeeper
from peloton.client.discovery import DiscoveryError, ZooKeeperDiscovery
from peloton.errors import Unavailable
from peloton.membership.interface import Address, Role
from peloton.membership.local import registered

UP_SECONDS = 90.0
SLOW_SECONDS = 240.0
"""Until a Cassandra answers on a machine that is busy."""
TELL_SECONDS = 5.0
ASK_SECONDS = 2.0
LEADERS = (Role.JOBMGR, Role.RESMGR, Role.HOSTMGR)
_COMPLAINT = re.compile(r"\S+Z [EW] \S+ (.+)")
"""A daemon's log line that tells of something wrong."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """For components that were started."""

    layout: Layout
    servers: str
    """ZooKeeper's, by which leaders are found; empty where they are by a folder."""
    runs: Callable[[Component], bool]
    tell: Progress
    seconds: float = UP_SECONDS
    between: float = TELL_SECONDS
    """Seconds from one line of progress to the next."""

    def until_all_answer(self, parts: Sequence[Component]) -> None:
        """And leaders lead. Raises Unavailable with what is wrong."""
        lacking = {part.name: "" for part in parts}
        unled: list[str] = []
        longest = SLOW_SECONDS if any(part.kind == CASSANDRA for part in parts) else self.seconds
        begun = told = time.monotonic()

        def all_ready() -> bool:
            nonlocal told
            self._look(parts, lacking)
            unled[:] = [] if lacking else self._unled(parts)
            if not lacking and not unled:
                return True
            if time.monotonic() - told > self.between:
                told = time.monotonic()
                self.tell(self._slow(lacking, unled, told - begun))
            return False

        if not wait_until(all_ready, longest):
            raise Unavailable(self._late(lacking, unled, longest))

    def last_line(self, name: str) -> str:
        """Of a component's log, the line that says why it ended."""
        lines = self._lines(name)
        if name in (ZOOKEEPER, CASSANDRA):  # says why it failed, and then by which ways it came there
            whole = [line for line in lines if not line.lstrip().startswith(("at ", "..."))]
            lines = [line for line in whole if "ERROR" in line or "Exception" in line] or lines
        return lines[-1] if lines else "it said nothing"

    def _look(self, parts: Sequence[Component], lacking: dict[str, str]) -> None:
        """Strikes out who answers; of the others, notes what they say is wrong."""
        for part in parts:
            if part.name not in lacking:
                continue
            answers, said = self._asked(part)
            if answers:
                del lacking[part.name]
                self.tell(f"{part.name} answers")
            elif not self.runs(part):
                raise Unavailable(f"{part.name} ended: {self.last_line(part.name)} {self._log(part.name)}")
            else:
                lacking[part.name] = said

    def _asked(self, part: Component) -> tuple[bool, str]:
        """Whether it is ready, and what it says."""
        if part.kind == ZOOKEEPER:
            return zookeeper.serves(part.http), ""
        if part.kind == CASSANDRA:
            return cassandra.serves(part.http), ""
        if not part.grpc:
            return self.layout.ready_of(part.name).exists(), ""
        try:
            with urllib.request.urlopen(f"http://{part.addresses['http']}/health", timeout=ASK_SECONDS):
                return True, ""
        except urllib.error.HTTPError as error:
            with error:
                return False, " ".join(error.read().decode(errors="replace").split())
        except OSError:
            return False, ""

    def _unled(self, parts: Sequence[Component]) -> list[str]:
        """Roles whose leader has not finished taking over: before that it refuses calls."""
        kinds = {part.kind for part in parts}
        roles = [role for role in LEADERS if role.value in kinds]
        if not roles:
            return []
        leaders = _elected(self.servers, roles) if self.servers else registered(self.layout.membership)[0]
        return [role.value for role in roles if role not in leaders or not _leads(leaders[role])]

    def _slow(self, lacking: dict[str, str], unled: Sequence[str], seconds: float) -> str:
        why = next(filter(None, lacking.values()), "") if lacking else self._complaint(unled)
        what = ", ".join(lacking) or f"a leader of {', '.join(unled)}"
        return f"waiting for {what}, {seconds:.0f} s so far{': ' if why else ''}{why}"

    def _late(self, lacking: dict[str, str], unled: Sequence[str], seconds: float) -> str:
        if lacking:
            name, said = next(iter(lacking.items()))
            said = said or self.last_line(name)
            return f"{name} did not answer in {seconds:.0f} s: {said} {self._log(name)}"
        name = f"{unled[0]}0"
        said = self._complaint(unled) or self.last_line(name)
        return f"no {unled[0]} leads after {seconds:.0f} s: {said} {self._log(name)}"

    def _complaint(self, unled: Sequence[str]) -> str:
        """What the first of those daemons told of last that is wrong."""
        found = [match[1] for line in self._lines(f"{unled[0]}0") if (match := _COMPLAINT.match(line))]
        return found[-1] if found else ""

    def _lines(self, name: str) -> list[str]:
        file = self.layout.log_of(name)
        return file.read_text(errors="replace").splitlines() if file.exists() else []

    def _log(self, name: str) -> str:
        return f"(log: {self.layout.log_of(name)})"


def _elected(servers: str, roles: Sequence[Role]) -> dict[Role, Address]:
    """Who leads, as ZooKeeper says."""
    with closing(ZooKeeperDiscovery(servers)) as discovery:
        found: dict[Role, Address] = {}
        for role in roles:
            with suppress(DiscoveryError):
                found[role] = discovery.leader(role.value)
        return found


def _leads(leader: Address) -> bool:
    try:
        with urllib.request.urlopen(
            f"http://{leader.ip}:{leader.http}/metrics", timeout=ASK_SECONDS
        ) as answer:
            return b"\nhealth_leader 1.0\n" in answer.read()
    except OSError:
        return False

"""Wait until a cluster's components answer, and report what keeps them from it."""

from __future__ import annotations

import math
import re
import ssl
import time
import urllib.error  # the import of requests takes 0.1 s of processor time, while the daemons start
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from minicluster.components import API_SERVER, CASSANDRA, ETCD, ZOOKEEPER, Component
from minicluster.layout import Layout
from minicluster.processes import wait_until
from minicluster.progress import Progress
from minicluster.servers import cassandra, kubernetes, zookeeper
from peloton.client.discovery import DiscoveryError, LocalDiscovery, ZooKeeperDiscovery
from peloton.errors import Unavailable
from peloton.membership.interface import Address, Role
from peloton.model.amounts import elapsed

UP_SECONDS = 90.0
SLOW_SECONDS = 240.0
"""The same where a Cassandra is among the components."""
QUIET_SECONDS = 60.0
"""A ZooKeeper or Cassandra whose log has grown since is still starting: it is waited for further."""
MOST_TIMES = 5.0
"""The longest wait in all, as a multiple of the timeout."""
REPORT_SECONDS = 5.0
REQUEST_SECONDS = 2.0
LEADERS = (Role.JOBMGR, Role.RESMGR, Role.HOSTMGR)
SERVERS = (ZOOKEEPER, CASSANDRA)
_PROBLEM = re.compile(r"\S+Z [EW] \S+ (.+)")
"""A line of a daemon's log that is a warning or an error."""


class Patience:
    """How long to wait: for the timeout, and while a log grows, but not for ever."""

    def __init__(self, timeout: float, quiet: float, now: float) -> None:
        self.until = now + timeout
        """When the waiting ends; seconds on the monotonic clock."""
        self._most = now + timeout * MOST_TIMES
        self._quiet = quiet
        self._size = 0

    def note(self, size: int, now: float) -> None:
        """Note the size of the logs of what is waited for."""
        if size > self._size:
            self.until = max(self.until, min(now + self._quiet, self._most))
        self._size = size


@dataclass(frozen=True, slots=True)
class ReadinessWait:
    """Wait for components that were started."""

    layout: Layout
    servers: str
    """ZooKeeper's servers, by which leaders are found; empty where they are found by a folder."""
    is_running: Callable[[Component], bool]
    report: Progress
    timeout: float | None = None
    """In seconds. Where not given: UP_SECONDS, or SLOW_SECONDS where a Cassandra is among the components."""
    quiet: float = QUIET_SECONDS
    report_interval: float = REPORT_SECONDS
    """Seconds between two lines of progress."""
    https: ssl.SSLContext | None = None
    """What is trusted where the daemons' HTTP ports speak TLS."""

    def wait(self, parts: Sequence[Component]) -> None:
        """Return when all components answer and the leaders lead. Raise Unavailable with what is wrong."""
        unready = {part.name: "" for part in parts}
        leaderless: list[str] = []
        started = reported = time.monotonic()
        patience = Patience(self.timeout or _usual_timeout(parts), self.quiet, started)

        def ended() -> bool:
            """Return whether all are ready, or the time is over."""
            nonlocal reported
            self._check(parts, unready)
            leaderless[:] = [] if unready else self._leaderless(parts)
            if not unready and not leaderless:
                return True
            if time.monotonic() - reported > self.report_interval:
                reported = time.monotonic()
                self.report(self._progress(unready, leaderless, reported - started))
            patience.note(self._server_logs(parts, unready), time.monotonic())
            return time.monotonic() > patience.until

        wait_until(ended, math.inf)
        if unready or leaderless:
            raise Unavailable(self._failure(unready, leaderless, time.monotonic() - started))

    def last_line(self, name: str) -> str:
        """Return the line of a component's log that says why it ended."""
        lines = self._lines(name)
        if name in SERVERS:  # their logs end with a stack trace
            messages = [line for line in lines if not line.lstrip().startswith(("at ", "..."))]
            lines = [line for line in messages if "ERROR" in line or "Exception" in line] or lines
        return lines[-1] if lines else "it said nothing"

    def _server_logs(self, parts: Sequence[Component], unready: Mapping[str, str]) -> int:
        """Return the size of the logs of the servers that do not answer yet."""
        names = [part.name for part in parts if part.kind in SERVERS and part.name in unready]
        logs = [file for name in names if (file := self.layout.log_of(name)).exists()]
        return sum(file.stat().st_size for file in logs)

    def _check(self, parts: Sequence[Component], unready: dict[str, str]) -> None:
        """Remove components that answer from `unready`; record what the others report is wrong."""
        for part in parts:
            if part.name not in unready:
                continue
            ready, problem = self._probe(part)
            if ready:
                del unready[part.name]
                self.report(f"{part.name} answers")
            elif not self.is_running(part):
                raise Unavailable(f"{part.name} ended: {self.last_line(part.name)} {self._log(part.name)}")
            else:
                unready[part.name] = problem

    def _probe(self, part: Component) -> tuple[bool, str]:
        """Return whether a component is ready, and what it reports."""
        if part.kind == ZOOKEEPER:
            return zookeeper.serves(part.http), ""
        if part.kind == CASSANDRA:
            return cassandra.serves(part.http), ""
        if part.kind == ETCD:
            return kubernetes.etcd_serves(part.http), ""
        if part.kind == API_SERVER:
            return kubernetes.serves(self.layout.work_of(part.name), part.http), ""
        if not part.configured:
            return self.layout.ready_of(part.name).exists(), ""
        try:
            with self._get(f"{part.addresses['http']}/health"):
                return True, ""
        except urllib.error.HTTPError as error:
            with error:
                return False, " ".join(error.read().decode(errors="replace").split())
        except OSError:
            return False, ""

    def _get(self, where: str) -> Any:
        """Request a page of a daemon, HOST:PORT/PATH. Raises OSError."""
        url = f"{'http' if self.https is None else 'https'}://{where}"
        return urllib.request.urlopen(url, timeout=REQUEST_SECONDS, context=self.https)

    def _leaderless(self, parts: Sequence[Component]) -> list[str]:
        """Return the roles whose leader has not finished taking over: until then it refuses calls."""
        kinds = {part.kind for part in parts if not part.cluster}
        roles = [role for role in LEADERS if role.value in kinds]
        if not roles:
            return []
        leaders = self._elected(roles)
        return [role.value for role in roles if role not in leaders or not self._leads(leaders[role])]

    def _elected(self, roles: Sequence[Role]) -> dict[Role, Address]:
        """Return who leads, by ZooKeeper or by the folder."""
        by_folder = LocalDiscovery(self.layout.membership)
        with closing(ZooKeeperDiscovery(self.servers) if self.servers else by_folder) as discovery:
            found: dict[Role, Address] = {}
            for role in roles:
                with suppress(DiscoveryError):
                    found[role] = discovery.leader(role.value)
            return found

    def _leads(self, leader: Address) -> bool:
        try:
            with self._get(f"{leader.ip}:{leader.http}/metrics") as answer:
                return b"\nhealth_leader 1.0\n" in answer.read()
        except OSError:
            return False

    def _progress(self, unready: dict[str, str], leaderless: Sequence[str], seconds: float) -> str:
        why = next(filter(None, unready.values()), "") if unready else self._last_problem(leaderless)
        what = ", ".join(unready) or f"a leader of {', '.join(leaderless)}"
        return f"waiting for {what}, {elapsed(seconds)} so far{': ' if why else ''}{why}"

    def _failure(self, unready: dict[str, str], leaderless: Sequence[str], seconds: float) -> str:
        if unready:
            name, problem = next(iter(unready.items()))
            problem = problem or self.last_line(name)
            return f"{name} did not answer in {elapsed(seconds)} (--timeout): {problem} {self._log(name)}"
        name = f"{leaderless[0]}0"
        problem = self._last_problem(leaderless) or self.last_line(name)
        return f"no {leaderless[0]} leads after {elapsed(seconds)} (--timeout): {problem} {self._log(name)}"

    def _last_problem(self, leaderless: Sequence[str]) -> str:
        """Return the last problem that the first daemon of the first of these roles has logged."""
        found = [match[1] for line in self._lines(f"{leaderless[0]}0") if (match := _PROBLEM.match(line))]
        return found[-1] if found else ""

    def _lines(self, name: str) -> list[str]:
        file = self.layout.log_of(name)
        return file.read_text(errors="replace").splitlines() if file.exists() else []

    def _log(self, name: str) -> str:
        return f"(log: {self.layout.log_of(name)})"


def _usual_timeout(parts: Sequence[Component]) -> float:
    return SLOW_SECONDS if any(part.kind == CASSANDRA for part in parts) else UP_SECONDS

"""Candidates, elections and leases: who leads, who believes to lead, and who comes back after a crash.

A leader whose process ends is replaced after its session. One that is frozen for longer than that believes to
lead until it goes on: its lease is then over by the clock. An overlap is a lease that does not keep its
promise: the old leader acts on beside the new one, and only terms and fences protect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Any, Protocol

from simulator.world.kernel import Kernel, Life
from simulator.world.network import Server

SESSION_SECONDS = 5.0
LEASE_SECONDS = 4.0
STALE_SECONDS = 0.5
"""For so long after an election some callers still call the former leader."""


class Startable(Server, Protocol):
    """A leader."""

    term: int

    def start(self) -> None:
        """Begin to lead."""
        ...


class Elections:
    """The leaders of all roles."""

    def __init__(self, kernel: Kernel, random: Random, build: Callable[[str, Life, int], Startable]) -> None:
        """`build` makes the leader of a role and a term."""
        self._kernel = kernel
        self._random = random
        self._build = build
        self._registry = Life("registry/one")
        self.leaders: dict[str, Startable | None] = {}
        self._former: dict[str, tuple[Startable, float]] = {}
        """Former leaders that may still live, and until when callers know them."""
        self._known: dict[tuple[str, str], int] = {}
        """The newest term of a role that a caller has called: it does not go back to an older one."""
        self.believes: dict[int, float] = {}
        """Until when a former leader believes to lead, by the identity of the object."""
        self._alive: dict[int, Startable] = {}
        self.terms: dict[str, int] = {}
        self._processes: dict[str, int] = {}
        self.on_election: Callable[[Startable], None] = lambda server: None

    def elect(self, role: str) -> None:
        """Elect another process of a role: one that stands by."""
        self._processes[role] = number = self._processes.get(role, 0) + 1
        self.terms[role] = term = self.terms.get(role, 0) + 1
        server = self._build(role, Life(f"{role}/{number}"), term)
        former = self.leaders.get(role)
        if former is not None and not former.life.ended:
            self._former[role] = former, self._kernel.now + STALE_SECONDS
        self.leaders[role] = server
        self._alive[id(server)] = server
        self.on_election(server)
        self._kernel.after(0.0, server.life, server.start)

    def ended(self, life: Life) -> None:
        """Have a successor elected for a process that has ended."""
        for role, server in self.leaders.items():
            if server is not None and server.life is life:
                self._kernel.after(SESSION_SECONDS, self._registry, self._replace, role, server)

    def _replace(self, role: str, former: Startable) -> None:
        if self.leaders.get(role) is former:
            self.elect(role)

    def freeze(self, role: str, seconds: float) -> None:
        """Freeze the leader of a role."""
        server = self.leaders.get(role)
        if server is None or server.life.ended:
            return
        now = self._kernel.now
        server.life.frozen_until = now + seconds
        if seconds > SESSION_SECONDS:
            self.believes[id(server)] = now + LEASE_SECONDS
            self._kernel.after(SESSION_SECONDS, self._registry, self._replace, role, server)
            self._kernel.after(seconds, self._registry, self._end, server)

    def overlap(self, role: str, seconds: float) -> None:
        """Elect another leader while the present one acts on for a while."""
        server = self.leaders.get(role)
        if server is None or server.life.ended:
            return
        self.believes[id(server)] = self._kernel.now + seconds
        self.elect(role)
        self._former[role] = server, self._kernel.now + seconds
        self._kernel.after(seconds, self._registry, self._end, server)

    def _end(self, server: Startable) -> None:
        """End a process that has learned that it no longer leads."""
        if self.leaders.get(server.life.name.partition("/")[0]) is not server:
            server.life.ended = True

    # What the daemons and the network ask.

    def leader(self, role: str, caller: str) -> Server | None:
        """Return the leader that a caller knows: for a while it may be the former one."""
        present = self.leaders.get(role)
        former = self._former.get(role)
        if former is not None and present is not None:
            server, until = former
            if self._kernel.now >= until or server.life.ended:
                del self._former[role]
            elif self._known.get((role, caller), 0) < present.term and self._random.random() < 0.7:
                return server
        if present is None or present.life.ended:
            return None
        self._known[role, caller] = present.term
        return present

    def leads(self, server: Any) -> bool:
        """Return whether an instance believes to lead."""
        until = self.believes.get(id(server))
        if until is not None:
            return self._kernel.now < until
        return self.leaders.get(server.life.name.partition("/")[0]) is server

    def present(self, role: str) -> Collection[str]:
        """Return the names of the live processes of a role."""
        raise NotImplementedError

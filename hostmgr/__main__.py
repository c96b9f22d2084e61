"""The host manager's process: `python -m hostmgr -c FILE…`."""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

from hostmgr.composition.backends import Access, access_of, connecting
from hostmgr.composition.parts import Parts, build_parts
from hostmgr.composition.serving import SERVICES, services
from hostmgr.composition.work import begin_work
from hostmgr.config import HostmgrSettings
from hostmgr.services.problems import HostProblems
from hostmgr.services.watches import Watches
from peloton.daemon.lifecycle import Daemon, run
from peloton.identity.agents import agent_access
from peloton.membership.interface import Role
from storage.selection.factory import Stores

COLLECTION = (20_000, 100, 100)
"""Thresholds of Python's cycle collector. Events and runs are many long-lived objects without cycles."""
Hostmgr = Daemon[HostmgrSettings]


def build(daemon: Hostmgr) -> None:
    """Set up the work of a leader, and the health checks of all instances."""
    daemon.cluster = daemon.settings.cluster_name
    access = access_of(daemon.settings)
    agent_access(daemon.settings.agents)  # raises ConfigError now, and not only in a term
    stores = Stores(daemon.settings.storage)

    def leading(term: int) -> AbstractAsyncContextManager[None]:
        return _lead(daemon, stores, access, term)

    daemon.checks.append(stores.trouble)
    daemon.lead(leading, SERVICES, lambda: stores.standby(daemon.spawn))
    daemon.checks.append(lambda: "" if daemon.membership.leader(*daemon.group) else "no hostmgr leads")


@asynccontextmanager
async def _lead(daemon: Hostmgr, stores: Stores, access: Access, term: int) -> AsyncIterator[None]:
    with _checked(daemon, lambda: "about to lead"):
        store = await stores.open()
    try:
        with _checked(daemon, lambda: "about to lead"):
            await store.begin_term(str(daemon.group), term, daemon.fence)
        async with connecting(daemon, access) as backend_of:
            with _checked(daemon, lambda: "about to lead"):
                parts = await build_parts(daemon, store, backend_of)
            with _checked(daemon, lambda: parts.unhealthy):
                async with _serve(daemon, parts, term):
                    yield
    finally:
        await store.close()


@contextmanager
def _checked(daemon: Hostmgr, check: Callable[[], str]) -> Iterator[None]:
    """Add a check to the daemon's health during the context."""
    daemon.checks.append(check)
    try:
        yield
    finally:
        daemon.checks.remove(check)


@asynccontextmanager
async def _serve(daemon: Hostmgr, parts: Parts, term: int) -> AsyncIterator[None]:
    manager = parts.manager
    mover = begin_work(daemon, parts)
    watches = Watches(manager.status_updates, manager.hosts)
    if term > 1:
        manager.postpone_claims(daemon.settings.reservations.takeover)
    refused = manager.backend.problems
    problems = HostProblems(manager.hosts, parts.maintenance.hosts.records, daemon.clock, refused)
    try:
        with daemon.problems.telling("how the hosts are", problems.now):
            async with daemon.serving(*services(daemon, parts, mover, watches)):
                yield
    finally:
        watches.close()
        manager.status_updates.close()


def main() -> int:
    """Run the daemon."""
    gc.set_threshold(*COLLECTION)
    return run(HostmgrSettings, Role.HOSTMGR, build)


if __name__ == "__main__":
    sys.exit(main())

"""What the commands do that change an installation, each under its lock."""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deployer.deployment import Deployment, Outcome, Report, deploying
from deployer.installation import Installation
from deployer.record import Record
from deployer.store import Store, open_store
from peloton.clock import NANOSECONDS, SystemClock
from peloton.config.sources import Tree
from peloton.errors import NotFound, Refused


@asynccontextmanager
async def _under_lock(installation: Installation, command: str) -> AsyncIterator[tuple[Store, Record]]:
    async with open_store(installation.zookeeper, installation.name) as store, store.locked(command):
        yield store, await store.load()


async def applied(installation: Installation, seconds: float, keep: bool, report: Report) -> Outcome:
    """Bring an installation about. Raises PelotonError."""
    async with _under_lock(installation, "apply --keep" if keep else "apply") as (store, record):
        wanted = record.with_wanted(tree_of(installation), _now(), _user())
        async with deploying(installation, store, record, report) as deployment:
            return await _worked(deployment, wanted, seconds, keep, report)


async def _worked(
    deployment: Deployment, wanted: Record, seconds: float, keep: bool, report: Report
) -> Outcome:
    await deployment.want(wanted)
    outcome = await deployment.work(seconds)
    if keep:
        report(outcome.text)
        return await deployment.work(None)
    return outcome


async def rolled_back(installation: Installation, to: int | None, seconds: float, report: Report) -> Outcome:
    """Want an earlier revision again, and bring it about. Raises PelotonError, NotFound without one."""
    async with _under_lock(installation, "rollback") as (store, record):
        number = to if to is not None else record.before()
        if number is None:
            raise NotFound("there is no earlier revision of the installation that was whole")
        wanted = record.with_wanted(record.revision(number).tree, _now(), _user())
        earlier = record.revision(number).installation
        async with deploying(earlier, store, record, report) as deployment:
            return await _worked(deployment, wanted, seconds, False, report)


async def destroyed(installation: Installation, seconds: float, report: Report) -> None:
    """End an installation. Raises PelotonError."""
    async with _under_lock(installation, "destroy") as (store, record):
        if not record.wanted:
            raise Refused(f"there is no installation {installation.name} at {installation.zookeeper.servers}")
        async with deploying(installation, store, record, report) as deployment:
            await deployment.destroy(seconds)


def tree_of(installation: Installation) -> Tree:
    """Return what is stored of an installation."""
    return installation.model_dump(mode="json", exclude_defaults=True)


def _now() -> float:
    return SystemClock().wall() / NANOSECONDS


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no entry for the user's number
        return str(os.getuid())

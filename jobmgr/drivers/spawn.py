"""Starts the background tasks of a job manager that leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NoReturn

from jobmgr.drivers.daemon_hosts import HostFollower
from jobmgr.drivers.enqueue import Enqueuer
from jobmgr.drivers.held_runs import Comparer
from jobmgr.drivers.hostmgr import HostDrivers, Hostmgr
from jobmgr.drivers.launch import Placements, Settler
from jobmgr.drivers.pending_reasons import PendingReasonStream
from jobmgr.drivers.preemption import PreemptionStream
from jobmgr.drivers.prune import WORKFLOWS_KEPT, prune
from jobmgr.drivers.retry import Bucket
from jobmgr.drivers.system_labels import SystemLabels
from jobmgr.engine.engine import ADOPTION_DELAYS, Engine
from jobmgr.engine.outbox import Queue
from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.clock import NANOSECONDS, Clock
from peloton.errors import NotFound
from peloton.model.cluster import UNNAMED
from peloton.model.ids import JobId
from peloton.model.lockdown import Component
from peloton.rpc.client import Caller
from peloton.rpc.clusters import Clusters
from storage.interface import Store

Spawn = Callable[[str, Coroutine[Any, Any, Any]], None]
RETIREMENTS_AT_ONCE = 100
FINISH_SECONDS = 5.0
FIRST_EXPIRY_SECONDS = 600.0
"""Delay of the first expiry after a leader's start, as some leaders lead only for a short time."""
DAY = 86400 * NANOSECONDS
NO_LIMIT = Bucket(0, 1)
log = logging.getLogger(__name__)


def spawn_drivers(
    spawn: Spawn,
    engine: Engine,
    resmgr: Caller,
    waiting: Caller,
    holding: Caller,
    preemption: Caller,
    hostmgrs: Callable[[str], Hostmgr],
    clusters: Clusters | None = None,
    kills: Bucket = NO_LIMIT,
    shut_downs: Bucket = NO_LIMIT,
    finish_within: float = FINISH_SECONDS,
    cluster: str = "",
    workflows_kept: int = WORKFLOWS_KEPT,
) -> Callable[[], Awaitable[None]]:
    """Start the lanes, their sources of events, and what carries out their instructions.

    Return what to do before an orderly end: it takes no more placements and finishes the launches that are
    under way, for at most `finish_within` seconds. `hostmgrs` returns the callers of a Mesos cluster's host
    manager, of each of `clusters`, or of the unnamed one. `cluster` is the name in the labels of tasks,
    `workflows_kept` the number of workflows that are kept of each job.
    """
    lanes, outbox, after = engine.lanes, engine.outbox, engine.recovery.run_after
    kill_gate = engine.lockdown.gate(Component.GOAL_STATE_ENGINE, Component.KILL)
    launch_gate = engine.lockdown.gate(Component.GOAL_STATE_ENGINE, Component.LAUNCH)
    labels = SystemLabels(engine.store.pools.all, cluster)
    enqueuer = Enqueuer(resmgr, lanes.job, lanes.post)
    placements = Placements(resmgr, lanes, launch_gate)
    follower = HostFollower(lanes)
    hosts = HostDrivers(engine, hostmgrs, follower, labels, kill_gate, kills, shut_downs)
    drivers = {
        "lanes": lanes.run(),
        "recovery": engine.recovery.run(),
        "enqueue": enqueuer.enqueue(outbox.enqueue),
        "enqueue again": enqueuer.enqueue(outbox.enqueue_again),
        "compare": Comparer(holding, lanes.post).run(outbox.compare),
        "withdraw": enqueuer.withdraw(outbox.withdraw),
        "placements": after(placements.run),
        "settle": Settler(resmgr).run(outbox.settle),
        "waiting reasons": after(PendingReasonStream(waiting, lanes).run),
        "evict": after(PreemptionStream(resmgr, preemption, lanes.post, kill_gate).run),
        "daemon jobs": follower.take(outbox.follow),
        "retire": retire(engine.store, outbox.retire),
        "delete": delete(engine, outbox.delete),
        "hosts": hosts.run(UNNAMED) if clusters is None else clusters.follow(hosts.run),
        "prune": prune(engine.store, outbox.prune, workflows_kept),
        "adopt": adopt(engine),
    }
    for name, driver in drivers.items():
        spawn(name, driver)
    return partial(_finish, engine, placements, hosts, finish_within)


async def _finish(engine: Engine, placements: Placements, hosts: HostDrivers, within: float) -> None:
    """Take no more placements, and finish the launches that are under way, for at most `within` seconds."""
    try:
        async with asyncio.timeout(within):
            await placements.stop()
            await hosts.finish_launches()
            await engine.lanes.flush()
    except TimeoutError:
        log.warning("launches are left to the next leader: they did not finish within %d s", within)


async def expire(
    store: Store, clock: Clock, days: float, every: float, first: float = FIRST_EXPIRY_SECONDS
) -> NoReturn:
    """Drop events of ended runs that are older than `days`, every `every` seconds; run for ever."""
    delay = first
    while True:
        await asyncio.sleep(delay)
        delay = every
        try:
            gone = await store.pod_events.expire(clock.wall() - round(days * DAY))
        except TRANSIENT as error:
            log.warning("old events are not dropped yet: %s", error)
            continue
        if gone:
            log.info("dropped %d events of ended runs, older than %g days", gone, days)


async def retire(store: Store, queue: Queue[JobId]) -> None:
    """Take finished jobs out of the active set; run for ever."""
    while True:
        jobs = dict.fromkeys(await queue.take(RETIREMENTS_AT_ONCE))
        await asyncio.gather(*(_retire(store, job_id) for job_id in jobs))


async def _retire(store: Store, job_id: JobId) -> None:
    delays = backoff()
    while True:
        try:
            await store.jobs.retire(job_id)
            return
        except TRANSIENT as error:
            log.warning("cannot retire job %s: %s", job_id, error)
        await delays.wait()


async def delete(engine: Engine, queue: Queue[JobId]) -> None:
    """Delete services that were stopped to be deleted; run for ever."""
    while True:
        for job_id in await queue.take(RETIREMENTS_AT_ONCE):
            pause = backoff()
            while True:
                try:
                    await engine.remove(job_id)
                    break
                except TRANSIENT as error:
                    log.warning("cannot delete job %s: %s", job_id, error)
                await pause.wait()


async def adopt(engine: Engine, delays: Sequence[float] = ADOPTION_DELAYS) -> None:
    """Adopt jobs that are stored although their creation failed; run for ever."""
    while True:
        for job_id in await engine.unconfirmed.take(1):
            for delay in delays:
                await asyncio.sleep(delay)
                if await _adopted(engine, job_id):
                    break


async def _adopted(engine: Engine, job_id: JobId) -> bool:
    """Adopt a job; return whether it is stored."""
    delays = backoff()
    while True:
        try:
            await engine.find(job_id)
            return True
        except NotFound:
            return False
        except TRANSIENT as error:
            log.warning("it is unknown whether job %s is stored: %s", job_id, error)
        await delays.wait()

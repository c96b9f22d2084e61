"""Starts the background tasks of a job manager that leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial

from jobmgr.drivers.daemon_hosts import HostFollower
from jobmgr.drivers.dependencies import DependencyWatch
from jobmgr.drivers.enqueue import Enqueuer
from jobmgr.drivers.held_runs import Comparer
from jobmgr.drivers.hostmgr import HostDrivers
from jobmgr.drivers.job_retirement import adopt, delete, retire
from jobmgr.drivers.launch import Placements, Settler
from jobmgr.drivers.options import Called, DriverOptions
from jobmgr.drivers.pending_reasons import PendingReasonStream
from jobmgr.drivers.preemption import PreemptionStream, keep
from jobmgr.drivers.prune import prune
from jobmgr.drivers.schedules import Schedules
from jobmgr.drivers.system_labels import SystemLabels
from jobmgr.engine.engine import Engine
from peloton.model.cluster import UNNAMED
from peloton.model.lockdown import Component
from peloton.model.shard import shard_of
from peloton.rpc.clusters import Clusters

Spawn = Callable[[str, Coroutine[object, None, object]], None]
log = logging.getLogger(__name__)


def start_drivers(
    spawn: Spawn, engine: Engine, called: Called, options: DriverOptions, clusters: Clusters | None = None
) -> Callable[[], Awaitable[None]]:
    """Start the lanes, their sources of events, and what carries out their instructions.

    Each of `clusters` gets drivers of its own; without them, the unnamed one. Return what to do before an
    orderly end: it takes no more placements and finishes the launches that are under way.
    """
    lanes, outbox, shards = engine.lanes, engine.outbox, engine.shards
    resmgr, while_open, source = called.resmgr, shards.while_open, called.resmgr_of
    kill_gate = engine.lockdown.gate(Component.GOAL_STATE_ENGINE, Component.KILL)
    launch_gate = engine.lockdown.gate(Component.GOAL_STATE_ENGINE, Component.LAUNCH)
    labels = SystemLabels(engine.store.pools.all, options.cluster)
    enqueuer = Enqueuer(resmgr, lanes.job, lanes.post)
    placements = Placements(resmgr, lanes, launch_gate)
    follower = HostFollower(lanes)
    waiting = PendingReasonStream(resmgr, lanes)
    preempted = PreemptionStream(resmgr, lanes.post, kill_gate)
    hosts = HostDrivers(engine, called, options, follower, labels, kill_gate)
    engine.finish_launches = partial(_finish_of_shard, hosts, options.finish_within)
    drivers = {
        "lanes": lanes.run(),
        "recovery": engine.recovery.run(),
        "enqueue": enqueuer.enqueue(outbox.enqueue),
        "enqueue again": enqueuer.enqueue(outbox.enqueue_again),
        "compare": Comparer(resmgr, lanes.post).run(outbox.compare),
        "withdraw": enqueuer.withdraw(outbox.withdraw),
        "placements": while_open(lambda opened: placements.run(source(opened), opened)),
        "placements asked for before": placements.run_left(),
        "settle": Settler(resmgr).run(outbox.settle),
        "waiting reasons": while_open(lambda opened: waiting.run(source(opened))),
        "evict": while_open(lambda opened: preempted.run(source(opened))),
        "keep": keep(resmgr, outbox.keep),
        "daemon jobs": follower.take(outbox.follow),
        "dependencies": while_open(lambda opened: DependencyWatch(engine).run()),
        "schedules": while_open(lambda opened: Schedules(engine).run()),
        "retire": retire(engine.store, outbox.retire, engine.accounts, shards.holds),
        "delete": delete(engine, outbox.delete),
        "hosts": hosts.run(UNNAMED) if clusters is None else clusters.follow(hosts.run),
        "prune": prune(engine.store, outbox.prune, options.workflows_kept, shards.holds),
        "adopt": adopt(engine),
    }
    for name, driver in drivers.items():
        spawn(name, driver)
    return partial(_finish, engine, placements, hosts, options.finish_within)


async def _finish(engine: Engine, placements: Placements, hosts: HostDrivers, within: float) -> None:
    """Take no more placements, and finish the launches that are under way, for at most `within` seconds."""
    try:
        async with asyncio.timeout(within):
            await placements.stop()
            await hosts.finish_launches()
            await engine.lanes.flush()
    except TimeoutError:
        log.warning("launches are left to the next leader: they did not finish within %d s", within)


async def _finish_of_shard(hosts: HostDrivers, within: float, shard: int) -> None:
    """Finish the launches of a shard that are under way, for at most `within` seconds."""
    try:
        async with asyncio.timeout(within):
            await hosts.finish_launches(
                lambda launch: any(shard_of(run.job_id) == shard for run in launch.runs)
            )
    except TimeoutError:
        log.warning("launches of shard %d are left to its next owner", shard)

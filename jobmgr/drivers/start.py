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
from jobmgr.drivers.hostmgr import HostDrivers, Sources
from jobmgr.drivers.job_retirement import adopt, delete, retire
from jobmgr.drivers.launch import Placements, Settler
from jobmgr.drivers.pending_reasons import PendingReasonStream
from jobmgr.drivers.preemption import PreemptionStream, keep
from jobmgr.drivers.prune import WORKFLOWS_KEPT, prune
from jobmgr.drivers.retry import Bucket
from jobmgr.drivers.schedules import Schedules
from jobmgr.drivers.system_labels import SystemLabels
from jobmgr.engine.engine import Engine
from jobmgr.engine.held_shards import Opened
from jobmgr.engine.task_access import TaskAccess
from jobmgr.ports.hostmgr import Hostmgr
from jobmgr.ports.resmgr import Resmgr
from peloton.model.cluster import UNNAMED
from peloton.model.lockdown import Component
from peloton.model.shard import shard_of
from peloton.rpc.clusters import Clusters

Spawn = Callable[[str, Coroutine[object, None, object]], None]
FINISH_SECONDS = 5.0
NO_LIMIT = Bucket(0, 1)
log = logging.getLogger(__name__)


def start_drivers(
    spawn: Spawn,
    engine: Engine,
    resmgr: Resmgr,
    hostmgrs: Callable[[str], Hostmgr],
    clusters: Clusters | None = None,
    kills: Bucket = NO_LIMIT,
    shut_downs: Bucket = NO_LIMIT,
    finish_within: float = FINISH_SECONDS,
    cluster: str = "",
    workflows_kept: int = WORKFLOWS_KEPT,
    access: TaskAccess | None = None,
    hosts_address: str = "",
    resmgr_sources: Callable[[Opened], Resmgr] | None = None,
    hostmgr_sources: Sources | None = None,
) -> Callable[[], Awaitable[None]]:
    """Start the lanes, their sources of events, and what carries out their instructions.

    Return what to do before an orderly end: it takes no more placements and finishes the launches that are
    under way, for at most `finish_within` seconds. `hostmgrs` returns the host manager of a Mesos
    cluster, of each of `clusters`, or of the unnamed one. `cluster` is the name in the labels of tasks,
    `workflows_kept` the number of workflows that are kept of each job, `access` what tasks call Peloton with,
    `hosts_address` what they are told of all hosts in place of the names. What happens to the tasks of some
    shards is read from `resmgr_sources` and `hostmgr_sources`; without these, from `resmgr` and `hostmgrs`.
    """
    lanes, outbox, shards = engine.lanes, engine.outbox, engine.shards
    while_open, source = shards.while_open, resmgr_sources or (lambda opened: resmgr)
    kill_gate = engine.lockdown.gate(Component.GOAL_STATE_ENGINE, Component.KILL)
    launch_gate = engine.lockdown.gate(Component.GOAL_STATE_ENGINE, Component.LAUNCH)
    labels = SystemLabels(engine.store.pools.all, cluster)
    enqueuer = Enqueuer(resmgr, lanes.job, lanes.post)
    placements = Placements(resmgr, lanes, launch_gate)
    follower = HostFollower(lanes)
    waiting = PendingReasonStream(resmgr, lanes)
    preempted = PreemptionStream(resmgr, lanes.post, kill_gate)
    hosts = HostDrivers(
        engine,
        hostmgrs,
        follower,
        labels,
        kill_gate,
        kills,
        shut_downs,
        access,
        hosts_address,
        hostmgr_sources,
    )
    engine.finish_launches = partial(_finish_of_shard, hosts, finish_within)
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
        "prune": prune(engine.store, outbox.prune, workflows_kept, shards.holds),
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


async def _finish_of_shard(hosts: HostDrivers, within: float, shard: int) -> None:
    """Finish the launches of a shard that are under way, for at most `within` seconds."""
    try:
        async with asyncio.timeout(within):
            await hosts.finish_launches(
                lambda launch: any(shard_of(run.job_id) == shard for run in launch.runs)
            )
    except TimeoutError:
        log.warning("launches of shard %d are left to its next owner", shard)

"""What goes on in a term beside the requests: loops, each supervised by its name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NoReturn

from hostmgr.composition.parts import Parts
from hostmgr.config import HostmgrSettings, LoadSettings
from hostmgr.core.pools.moving_hosts import MovingHosts
from hostmgr.core.state.host_filter import Ranking
from hostmgr.drivers.host_mover import HostMover
from hostmgr.drivers.load_scores import LoadScores, Source
from hostmgr.drivers.load_sources import prometheus, score_file
from peloton.calls.hostmgr import GET_HOSTS_BY_SCORES
from peloton.calls.rpc import Caller
from peloton.daemon.lifecycle import Daemon
from peloton.membership.interface import Role
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.waking import tick

EXPIRE_SECONDS = 1.0
PRUNE_SECONDS = 3600.0
MOST_SCORES = 100_000
"""Hosts whose cost is requested from resmgr at a time."""
log = logging.getLogger(__name__)


def begin_work(daemon: Daemon[HostmgrSettings], parts: Parts) -> HostMover:
    """Begin what goes on in a term; return the mover of hosts, which requests wake."""
    manager = parts.manager
    daemon.spawn("cluster manager", manager.backend.run())
    daemon.spawn("acknowledgements", manager.status_updates.acknowledge(manager.backend))
    daemon.spawn("agents", parts.cluster.follow())
    _follow_load(daemon, parts)
    daemon.spawn("reconciliation", parts.reconciliation.run())
    daemon.spawn("maintenance", parts.maintenance.run())
    daemon.spawn("claims", _every(EXPIRE_SECONDS, lambda: manager.expire(_claimants(daemon))))
    daemon.spawn("host pools", parts.pools.run())
    daemon.spawn("known hosts", parts.known.run())
    resmgr = daemon.client(Role.RESMGR)
    moving = MovingHosts(parts.maintenance.hosts, parts.cluster.sight)
    mover = HostMover(parts.pools, parts.maintenance, moving, lambda: _scores(resmgr))
    daemon.spawn("host mover", mover.run())
    daemon.spawn("old offers", _every(PRUNE_SECONDS, manager.prune_offers))
    daemon.spawn("reservations", parts.planner.run())
    daemon.spawn("history of hosts", parts.history.run())
    if daemon.settings.usage.enabled and daemon.settings.kubernetes is None:  # nodes have no such server
        daemon.spawn("usage", parts.sampler.run())
        daemon.spawn("history of usage", parts.sampler.keep_history(2 * daemon.settings.usage.interval))
    return mover


def _follow_load(daemon: Daemon[HostmgrSettings], parts: Parts) -> None:
    load, scores = daemon.settings.load, _load_source(daemon.settings.load)
    if scores is not None:
        table, now = parts.manager.hosts.table, daemon.clock.monotonic
        follower = LoadScores(table, scores, load.interval, load.keep, now, daemon.cluster)
        daemon.spawn("load scores", follower.follow())
    elif daemon.settings.ranking is Ranking.LOAD_AWARE:
        log.warning("bin_packing is LOAD_AWARE, but neither load.prometheus nor load.file gives scores")


def _load_source(load: LoadSettings) -> Source | None:
    """Return where load scores come from; None where the settings name nothing."""
    if load.file is not None:
        return score_file(load.file, load.max_bytes)
    if load.prometheus:
        return prometheus(load.prometheus, load.query, load.host_label, load.timeout, load.max_bytes)
    return None


async def _scores(resmgr: Caller) -> Sequence[str]:
    """Return the hosts that can be moved, the cheapest first. Raises PelotonError."""
    request = resmgrsvc_pb2.GetHostsByScoresRequest(limit=MOST_SCORES)
    answer: resmgrsvc_pb2.GetHostsByScoresResponse = await resmgr.call(GET_HOSTS_BY_SCORES, request)
    return answer.hosts


def _claimants(daemon: Daemon[HostmgrSettings]) -> set[str]:
    """Return the present processes that claim hosts."""
    return {f"{Role.PLACEMENT.value}/{each}" for each in daemon.membership.members(Role.PLACEMENT)}


async def _every(seconds: float, work: Callable[[], None]) -> NoReturn:
    while True:
        await tick(seconds)
        work()

"""All that works in the background while a job manager leads, by name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NoReturn

from jobmgr.drivers.enqueue import Enqueuer
from jobmgr.drivers.held_runs import Comparer
from jobmgr.drivers.kill import Killer
from jobmgr.drivers.launch import Launcher, Placements, Settler
from jobmgr.drivers.pending_reasons import WaitingReasons
from jobmgr.drivers.preemption import Evictor
from jobmgr.drivers.retry import Bucket
from jobmgr.drivers.status_stream import Intake
from jobmgr.engine.engine import LOOKS, Engine
from jobmgr.engine.outbox import Queue
from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.clock import NANOSECONDS, Clock
from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.rpc.client import Caller
from storage.interface import Store

Spawn = Callable[[str, Coroutine[Any, Any, Any]], None]
RETIREMENTS_AT_ONCE = 100
FINISH_SECONDS = 5.0
FIRST_EXPIRY_SECONDS = 600.0
"""From a leader's start until it looks for old events; some leaders do not live long."""
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
    hostmgr: Caller,
    events: Caller,
    passing: Caller,
    reconciler: Caller,
    kills: Bucket = NO_LIMIT,
    shut_downs: Bucket = NO_LIMIT,
    finish_within: float = FINISH_SECONDS,
) -> Callable[[], Awaitable[None]]:
    """Start the lanes and all that feeds them and carries out what they say.

    Returns what to do before they are ended in order: no more placements are taken, and what is launched is
    brought to its end, for at most `finish_within` seconds.
    """
    lanes, outbox = engine.lanes, engine.outbox
    enqueuer = Enqueuer(resmgr, lanes.job, lanes.post)
    placements = Placements(resmgr, lanes)
    then = engine.recovery.then
    launcher = Launcher(hostmgr, lanes.job, lanes.post, outbox.release)
    killer = Killer(hostmgr, reconciler, kills, shut_downs)
    spawn("lanes", lanes.run())
    spawn("recovery", engine.recovery.run())
    spawn("enqueue", enqueuer.enqueue(outbox.enqueue))
    spawn("enqueue again", enqueuer.enqueue(outbox.enqueue_again))
    spawn("compare", Comparer(holding, lanes.post).run(outbox.compare))
    spawn("withdraw", enqueuer.withdraw(outbox.withdraw))
    spawn("placements", then(placements.run))
    spawn("launch", launcher.launch(outbox.launch))
    spawn("release", launcher.release())
    spawn("settle", Settler(resmgr).run(outbox.settle))
    spawn("kill", killer.kill(outbox.kill))
    spawn("shut down", killer.shut_down(outbox.shut_down))
    spawn("reconcile", killer.reconcile(outbox.reconcile))
    spawn("event stream", then(Intake(events, passing, engine).run))
    spawn("waiting reasons", then(WaitingReasons(waiting, lanes).run))
    spawn("evict", then(Evictor(resmgr, preemption, lanes.post).run))
    spawn("retire", retire(engine.store, outbox.retire))
    spawn("adopt", adopt(engine))

    async def finish() -> None:
        try:
            async with asyncio.timeout(finish_within):
                await placements.stop()
                await launcher.finish(outbox.launch)
                await lanes.flush()
        except TimeoutError:
            log.warning("launches are left to the next leader: %d s were not enough", finish_within)

    return finish


async def expire(
    store: Store, clock: Clock, days: float, every: float, first: float = FIRST_EXPIRY_SECONDS
) -> NoReturn:
    """Drop events of ended runs that are older than so many days, every so many seconds; run for ever."""
    pause = first
    while True:
        await asyncio.sleep(pause)
        pause = every
        try:
            gone = await store.pod_events.expire(clock.wall() - round(days * DAY))
        except TRANSIENT as error:
            log.warning("old events are kept until the next time: %s", error)
            continue
        if gone:
            log.info("%d events of runs that ended are older than %g days: dropped", gone, days)


async def retire(store: Store, queue: Queue[JobId]) -> None:
    """Take finished jobs out of the active set; run for ever."""
    while True:
        jobs = dict.fromkeys(await queue.take(RETIREMENTS_AT_ONCE))
        await asyncio.gather(*(_retire(store, job_id) for job_id in jobs))


async def _retire(store: Store, job_id: JobId) -> None:
    pause = backoff()
    while True:
        try:
            await store.jobs.retire(job_id)
            return
        except TRANSIENT as error:
            log.warning("cannot retire job %s: %s", job_id, error)
        await pause.wait()


async def adopt(engine: Engine, looks: Sequence[float] = LOOKS) -> None:
    """Take on the jobs that are stored though nobody could tell; run for ever."""
    while True:
        for job_id in await engine.doubtful.take(1):
            for pause in looks:
                await asyncio.sleep(pause)
                if await _adopted(engine, job_id):
                    break


async def _adopted(engine: Engine, job_id: JobId) -> bool:
    """Whether it is stored."""
    pause = backoff()
    while True:
        try:
            await engine.find(job_id)
            return True
        except NotFound:
            return False
        except TRANSIENT as error:
            log.warning("cannot tell whether job %s is stored: %s", job_id, error)
        await pause.wait()

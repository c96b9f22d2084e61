"""Watches: what each watcher waits for, fed from the changes that the engine has stored.

Changes are gathered for a moment and sent as the state that jobs and pods have then: one message for all
watchers with the same filter, serialized once. Each watcher has a bounded queue. Without watchers nothing is
gathered.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress

import grpc

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.decisions import Cycle
from jobmgr.engine.engine import Engine
from jobmgr.services.common.reach import ALL_JOBS, Paths, Reach, paths_of_pools
from jobmgr.services.v1alpha.watch_filters import Changes, Filter
from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb
from peloton.clock import Clock
from peloton.errors import NotFound, PelotonError, Refused, ResourceExhausted
from peloton.model.workflow import WorkflowStatus
from peloton.rpc.pages import parts_of
from peloton.rpc.watchqueue import MAX_WATCHES, WatchQueue
from peloton.sharding.claims import claim_of

GATHER_SECONDS = 0.2
"""Time from a change to the message, in which further changes join it."""
MESSAGES_PER_SECOND = 2000
"""To all watchers together: where there are many, each gets fewer messages with more changes."""
NANOSECONDS_PER_MICROSECOND = 1000
WRITTEN_SECONDS = 1.0
log = logging.getLogger(__name__)


class Watch(WatchQueue[bytes]):
    """One watcher; its messages are serialized already."""

    def __init__(self, watch_id: str, filter_: Filter, start_revision: int, reach: Reach = ALL_JOBS) -> None:
        super().__init__(watch_id)
        self.filter = filter_
        self.start_revision = start_revision
        self.reach = reach


class Watches:
    """All watches of the leader."""

    def __init__(
        self,
        engine: Engine,
        workflow: Callable[[CachedJob], WorkflowStatus | None],
        clock: Clock,
        gather: float = GATHER_SECONDS,
    ) -> None:
        """Gather changes for at least `gather` seconds before they are sent.

        `workflow` returns the workflow of a job in memory that runs, or ran last.
        """
        self._engine = engine
        self._workflow = workflow
        self._gather = gather
        self._watches: dict[str, Watch] = {}
        self._changes = self._none()
        self._timer: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self.paths: Paths = {}
        """Of the pools; read before each message where a watch may not see all jobs."""
        # Later leaders begin above it, unless more than a million messages are sent in a second.
        self._revision = clock.wall() // NANOSECONDS_PER_MICROSECOND
        self._terms: dict[int, int] | None = None
        """Of the shards that this instance owns, where it shares the work."""
        self._generation = 0
        """Of the table of shards, as it was seen."""
        self._said: tuple[str | None, int] = None, 0
        """What was last told of them."""

    @property
    def count(self) -> int:
        """The number of watches."""
        return len(self._watches)

    @property
    def interval(self) -> float:
        """The seconds from a change to its message: longer where there are many watches."""
        return max(self._gather, len(self._watches) / MESSAGES_PER_SECOND)

    @property
    def revision(self) -> int:
        """The revision of the last message."""
        return self._revision

    # --- shards, where job managers share the work ---

    def share(self) -> None:
        """Let each watch tell which shards are owned here, from its first message on."""
        self._terms = {}

    @property
    def claim(self) -> str | None:
        """What is owned here now; None where one job manager owns all jobs."""
        return None if self._terms is None else claim_of(self._terms)

    @property
    def generation(self) -> int:
        """The generation of the table of shards that was seen; 0 where one job manager owns all jobs."""
        return self._generation

    def saw(self, generation: int) -> None:
        """Tell that a table of shards was seen. Shards that others own in it were drained here before."""
        if self._terms is not None:
            self._generation = max(self._generation, generation)
            self._tell()

    def began(self, shard: int, term: int) -> None:
        """Tell that a shard is owned, before any change of it."""
        if self._terms is not None:
            self._terms[shard] = term
            self._generation = max(self._generation, term)
            asyncio.get_running_loop().call_soon(self._tell)

    async def drained(self, shard: int) -> None:
        """Send what has changed, and tell that a shard is not owned from then on."""
        if self._terms is None or shard not in self._terms:
            return
        await self._read_paths()
        if self._timer is not None:
            self._timer.cancel()
            self._flush()
        del self._terms[shard]
        self._tell()

    async def written(self) -> None:
        """Wait until all that was told is written to the watchers, a moment at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WRITTEN_SECONDS):
                for watch in list(self._watches.values()):
                    await watch.written()

    def dropped(self, shard: int) -> None:
        """End all watches where a shard is lost: what was stored of it may not be known here."""
        if self._terms is not None and self._terms.pop(shard, None) is not None:
            self._finish_all(grpc.StatusCode.UNAVAILABLE, "this job manager has lost jobs: watch again")

    def _tell(self) -> None:
        said = self.claim, self._generation
        if said[0] is None or said == self._said:
            return
        self._said = said
        message = pb.WatchResponse(shards=said[0], generation=said[1]).SerializeToString()
        for watch in list(self._watches.values()):
            if not watch.put(message):
                self.remove(watch)

    # --- watches ---

    def open(self, filter_: Filter, start_revision: int, reach: Reach = ALL_JOBS) -> Watch:
        """Begin a watch of the jobs that are in `reach`; `paths` are fresh where these are not all.

        Raises ResourceExhausted where there are too many, and Refused for a start in the past.
        """
        if 0 < start_revision <= self._revision:
            raise Refused(
                f"start_revision: changes of revision {start_revision} are not kept; the next one is "
                f"{self._revision + 1}: begin with 0, then read what is of interest"
            )
        if len(self._watches) >= MAX_WATCHES:
            raise ResourceExhausted(f"there are {MAX_WATCHES} watches already: cancel some")
        if not self._watches:
            self._listen(self._on_commit, self._on_delete)
        watch = Watch(str(uuid.uuid4()), filter_, start_revision, reach)
        self._watches[watch.id] = watch
        return watch

    def cancel(self, watch_id: str, by: Reach = ALL_JOBS) -> None:
        """End a watch. Raises NotFound, also for somebody else's where `by` is not all jobs."""
        watch = self._watches.get(watch_id)
        if watch is None or not (by.all or by.caller == watch.reach.caller):
            raise NotFound(f"watch_id: there is no watch {watch_id!r}")
        watch.cancel()
        self.remove(watch)

    def remove(self, watch: Watch) -> None:
        """Forget a watch, if it is there."""
        self._watches.pop(watch.id, None)
        if not self._watches:
            self._listen(None, None)
            self._changes = self._none()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def close(self) -> None:
        """End all watches: this job manager no longer leads."""
        self._finish_all(grpc.StatusCode.UNAVAILABLE, "this job manager no longer leads: watch the next one")

    def _finish_all(self, code: grpc.StatusCode, text: str) -> None:
        for watch in list(self._watches.values()):
            watch.finish(code, text)
            self.remove(watch)

    def _none(self) -> Changes:
        return Changes(self._workflow)

    def _listen(
        self, on_commit: Callable[[Cycle], None] | None, on_delete: Callable[[str], None] | None
    ) -> None:
        self._engine.lanes.on_commit(on_commit)
        self._engine.on_delete = on_delete

    def _on_commit(self, cycle: Cycle) -> None:
        for change in cycle.changes.values():
            if not change.empty:
                self._add(change.job, change.tasks)

    def _add(self, job: CachedJob, instances: Iterable[int]) -> None:
        self._changes.add(job, instances)
        self._schedule()

    def _on_delete(self, job_id: str) -> None:
        self._changes.delete(job_id)
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        if all(watch.reach.all for watch in self._watches.values()):
            self._timer = loop.call_later(self.interval, self._flush)
        else:
            self._timer = loop.create_task(self._flush_limited(), name="watches")

    async def _flush_limited(self) -> None:
        """Send what is gathered, by the pools as they are then."""
        await asyncio.sleep(self.interval)
        await self._read_paths()
        self._flush()

    async def _read_paths(self) -> None:
        """Read the paths of the pools where a watch needs them. It ends where they are not known."""
        if all(watch.reach.all for watch in self._watches.values()):
            return
        try:
            self.paths = await paths_of_pools(self._engine)
        except PelotonError as error:
            log.warning("watches of those who may not see all jobs end: the pools are not known: %s", error)
            for watch in [watch for watch in self._watches.values() if not watch.reach.all]:
                watch.finish(grpc.StatusCode.UNAVAILABLE, f"the pools are not known: {error}; watch again")
                self.remove(watch)

    def _flush(self) -> None:
        """Send what was gathered."""
        self._tell()
        self._timer = None
        changes, self._changes = self._changes, self._none()
        self._revision += 1
        made: dict[tuple[bytes, Reach], list[bytes]] = {}
        try:
            for watch in list(self._watches.values()):
                if self._revision >= watch.start_revision:
                    self._send(watch, changes, made)
        except Exception:
            log.exception("changes cannot be sent: all watches end")
            self._finish_all(grpc.StatusCode.INTERNAL, "changes cannot be sent; see the daemon's log")

    def _serialized(self, message: pb.WatchResponse | None) -> list[bytes]:
        """Return the messages that are sent: several where there are more changes than a client can read."""
        if message is None:
            return []
        message.revision = self._revision
        return [part.SerializeToString() for part in parts_of(message)]

    def _send(self, watch: Watch, changes: Changes, made: dict[tuple[bytes, Reach], list[bytes]]) -> None:
        reach = watch.reach
        key = watch.filter.key, (ALL_JOBS if reach.all else reach)
        if key not in made:
            seen = (
                changes
                if reach.all
                else changes.within(lambda job: reach.has(job.job_id, job.spec, self.paths))
            )
            made[key] = self._serialized(watch.filter.message(seen))
        if not all(watch.put(shared) for shared in made[key]):
            self.remove(watch)

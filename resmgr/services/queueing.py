"""The private QueueService: jobmgr enqueues many runs that need the same."""

from __future__ import annotations

from peloton.errors import InvalidArgument, NotFound, Refused
from peloton.model.ids import is_uuid
from peloton.model.plural import plural
from peloton.private.resmgr.queueing import queueing_pb2 as pb
from peloton.private.resmgr.queueing import queueing_pb2_grpc
from peloton.rpc.claimed import refusal, shards
from resmgr.core.state.needs import NewAlone
from resmgr.core.state.pool import Pool
from resmgr.drivers.loop import Driver
from resmgr.services.callers import touch

MOST_RUNS = 10_000
_LARGEST_INSTANCE = 2**31


class QueueService(queueing_pb2_grpc.QueueServiceServicer):
    """Queue runs."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def EnqueueGangs(self, request: pb.EnqueueGangsRequest, context: object) -> pb.EnqueueGangsResponse:
        """Queue runs in a pool; return which are refused, all of them where the pool takes none.

        Runs of jobs that are not the caller's are refused.

        Raises InvalidArgument for runs that cannot be.
        """
        driver = self._driver
        touch(driver, context)
        count = sum(len(each.instances) for each in request.runs)
        if count > MOST_RUNS:
            raise InvalidArgument("runs", plural(count, "run"), f"at most {MOST_RUNS} runs")
        for place, each in enumerate(request.runs):
            _check(each, f"runs[{place}]")
        refusals: list[pb.Refusal] = []
        pool, why = self._pool(request.pool_id)
        mine = shards(context)
        for place, each in enumerate(request.runs):
            if text := refusal(mine, each.job_id) or (why if pool is None else self._enqueue(pool, each)):
                refusals.append(pb.Refusal(place=place, message=text))
        driver.wake()
        return pb.EnqueueGangsResponse(refusals=refusals)

    def _pool(self, pool_id: str) -> tuple[Pool | None, str]:
        """Return the pool, or why it takes no runs."""
        try:
            pool = self._driver.scheduler.tree.get(pool_id)
        except NotFound as missing:
            return None, str(missing)
        return (pool, "") if pool.leaf else (None, f"{pool.path} is not a leaf: only leaves take jobs")

    def _enqueue(self, pool: Pool, wire: pb.AloneRuns) -> str:
        """Queue runs; return why they are refused, empty where they are not."""
        driver = self._driver
        try:
            needs = driver.translator.needs(wire.needs)
            runs = [(instance, run, "") for instance, run in zip(wire.instances, wire.runs, strict=True)]
            driver.scheduler.enqueue_alone(pool, NewAlone(wire.job_id, needs, runs), driver.now())
        except (InvalidArgument, Refused) as error:
            return str(error)
        return ""


def _check(wire: pb.AloneRuns, path: str) -> None:
    """Raise InvalidArgument for runs that are not of different instances of one job."""
    if not is_uuid(wire.job_id):
        raise InvalidArgument(f"{path}.job_id", wire.job_id, "a UUID")
    if not wire.instances:
        raise InvalidArgument(f"{path}.instances", "[]", "at least one instance")
    if len(wire.runs) != len(wire.instances):
        expected = f"one number for each of {plural(len(wire.instances), 'instance')}"
        raise InvalidArgument(f"{path}.runs", plural(len(wire.runs), "number"), expected)
    if len(set(wire.instances)) != len(wire.instances):
        twice = next(each for each in wire.instances if list(wire.instances).count(each) > 1)
        raise InvalidArgument(f"{path}.instances", twice, "named once")
    if max(wire.instances) > _LARGEST_INSTANCE:
        raise InvalidArgument(f"{path}.instances", max(wire.instances), f"at most {_LARGEST_INSTANCE}")
    if not min(wire.runs):
        raise InvalidArgument(f"{path}.runs", 0, "the number of a run, from 1 on")

"""WatchService: streams of changes of jobs and pods (docs/behaviour/operation.md, Watches)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from jobmgr.engine.engine import Engine
from jobmgr.services.common.reach import Reach, paths_of_pools, reach
from jobmgr.services.common.view import view
from jobmgr.services.v1alpha.watch_filters import Filter, JobFilter, PodFilter
from jobmgr.services.v1alpha.watches import Watches
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb
from peloton.api.v1alpha.watch.svc import watch_svc_pb2_grpc
from peloton.errors import InvalidArgument, NotFound, PermissionDenied
from peloton.identity.principal import current
from peloton.model.ids import JobId
from peloton.rpc.pages import parts_of
from peloton.rpc.peers import passed
from peloton.rpc.server import serialized
from peloton.wire.v1alpha.pod_status import pod_name


class WatchService(watch_svc_pb2_grpc.WatchServiceServicer):
    """Serves the v1alpha WatchService. Failures are gRPC statuses."""

    def __init__(self, engine: Engine, watches: Watches) -> None:
        self._engine = engine
        self._watches = watches

    async def Watch(self, request: pb.WatchRequest, context: Any) -> AsyncIterator[pb.WatchResponse]:
        """Stream changes, serialized already.

        The first message has the watch_id alone, the second one what does not exist.
        A caller whose role is bound to pools, or to own jobs, sees the changes of these only.
        Raises InvalidArgument for a wrong filter, PermissionDenied where it names a job that the caller may
        not read, ResourceExhausted, and Refused for a start in the past.
        Ends with ABORTED where the watcher is too slow, CANCELLED after Cancel, and UNAVAILABLE where this
        instance no longer leads.
        """
        filter_ = _filter(request)
        mine = reach()
        if not mine.all:
            self._watches.paths = await paths_of_pools(self._engine)
            await self._check(filter_, mine)
        watch = self._watches.open(filter_, request.start_revision, mine)
        context.add_done_callback(lambda _: self._watches.remove(watch))
        try:
            yield pb.WatchResponse(
                watch_id=watch.id,
                revision=self._watches.revision,
                shards=self._watches.claim,
                generation=self._watches.generation,
            )
            # Where it is passed on, the instance that was called tells it.
            missing = None if passed(context.invocation_metadata()) else await self._missing(filter_)
            if missing is not None:
                for part in parts_of(missing):
                    yield part
            async for message in watch.items():
                yield serialized(pb.WatchResponse, message)
        finally:
            self._watches.remove(watch)
        if watch.end is not None:
            await context.abort(watch.end.code, watch.end.text, watch.end.metadata)

    async def Cancel(self, request: pb.CancelRequest, context: Any) -> pb.CancelResponse:
        """End a watch. Raises NotFound, also where it has ended already."""
        self._watches.cancel(request.watch_id, reach())
        return pb.CancelResponse()

    async def _missing(self, filter_: Filter) -> pb.WatchResponse | None:
        """Return what a filter names and does not exist."""
        answer = pb.WatchResponse(revision=self._watches.revision)
        if isinstance(filter_, JobFilter):
            gone = [job_id for job_id in sorted(filter_.ids) if await self._instances(job_id) is None]
            answer.stateless_jobs_not_found.extend(peloton_pb2.JobID(value=job_id) for job_id in gone)
        elif isinstance(filter_, PodFilter):
            counts = {job_id: await self._instances(job_id) for job_id in filter_.ids}
            names = sorted(name for name in filter_.names if name[1] >= (counts[name[0]] or 0))
            answer.pods_not_found.extend(pod_name(*name) for name in names)
        return answer if answer.stateless_jobs_not_found or answer.pods_not_found else None

    async def _check(self, filter_: Filter, mine: Reach) -> None:
        """Raise PermissionDenied where a filter names a job that may not be read."""
        for job_id in filter_.ids:
            try:
                spec = (await view(self._engine, job_id)).spec
            except NotFound:
                continue
            if not mine.has(job_id, spec, self._watches.paths):
                raise PermissionDenied(f"{current()} may not watch the job {job_id}")

    async def _instances(self, job_id: JobId) -> int | None:
        try:
            return (await view(self._engine, job_id)).size
        except NotFound:
            return None


def _filter(request: pb.WatchRequest) -> Filter:
    jobs, pods = request.HasField("stateless_job_filter"), request.HasField("pod_filter")
    if jobs == pods:
        given = "both" if jobs else "none"
        raise InvalidArgument("filter", given, "one of stateless_job_filter and pod_filter")
    return JobFilter(request.stateless_job_filter) if jobs else PodFilter(request.pod_filter)

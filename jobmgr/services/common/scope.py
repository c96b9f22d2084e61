"""In which pools, and of which owners, the jobs may be that a call is about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Any

import grpc

from jobmgr.engine.engine import Engine
from jobmgr.services.common.view import view
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument, NotFound, PermissionDenied
from peloton.identity.methods import scoped as is_scoped
from peloton.identity.principal import EVERYTHING, Scope, current, granted, require
from peloton.model.ids import JobId, PoolId, is_uuid, parse_task_id
from peloton.model.job import JobQuery, JobScope, JobSpec
from peloton.model.pool import pool_path
from peloton.rpc.server import Service

LISTING = frozenset({"Query", "QueryJobs", "ListJobs", "GetActiveJobs", "GetJobIDFromJobName"})
"""Methods about many jobs, which leave out what the caller may not read (`limited`, `readable`)."""


def scoped(service: Service, engine: Engine) -> Service:
    """Return the service with methods that raise PermissionDenied for jobs that are not the caller's."""
    names = [name for name in service.names if "v0" in name or "v1alpha" in name or "private" in name]
    methods = {
        name: _scoped(name, handler, engine) if any(is_scoped(each, name) for each in names) else handler
        for name, handler in service.methods.items()
    }
    return Service(service.names, methods)


def _scoped(name: str, handler: Any, engine: Engine) -> Any:
    codecs = handler.request_deserializer, handler.response_serializer
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(_stream(handler.unary_stream, name, engine), *codecs)
    return grpc.unary_unary_rpc_method_handler(_unary(handler.unary_unary, name, engine), *codecs)


def _unary(method: Callable[[Any, Any], Awaitable[Any]], name: str, engine: Engine) -> Any:
    @wraps(method)
    async def call(request: Any, context: Any) -> Any:
        if granted() != EVERYTHING:
            await _check(engine, name, request)
        return await method(request, context)

    return call


def _stream(method: Callable[[Any, Any], AsyncIterator[Any]], name: str, engine: Engine) -> Any:
    @wraps(method)
    async def call(request: Any, context: Any) -> Any:
        if granted() != EVERYTHING:
            await _check(engine, name, request)
        async for answer in method(request, context):
            yield answer

    return call


async def _check(engine: Engine, name: str, request: Any) -> None:
    """Raise PermissionDenied where a request is about a job, or a new spec, beyond the grant.

    What is not there is left to the method, whose answer has a form for it.
    """
    if name in LISTING and not _named(request):
        return
    pools = await engine.store.pools.all()
    found = False
    held: JobSpec | None = None
    try:
        job_id = await _job_of(engine, request)
        if job_id is not None:
            found, held = True, (await view(engine, job_id)).spec
    except (NotFound, InvalidArgument):
        found = True
    if held is not None:
        require(pool_path(held.pool_id, pools), held.owner, "the job")
    for new in _specs(request):
        found = True
        pool = _pool_of(new) or (held.pool_id if held is not None else "")
        _own(new)
        require(pool_path(pool, pools), new.owner, "the new spec")
    if not found:
        raise PermissionDenied(f"{current()} may call {name} for single jobs only")


def _named(request: Any) -> list[Any]:
    """Return the ids by which a request names one job, in whatever form."""
    kinds = ("JobID", "PodName", "UpdateID", "VolumeID")
    return [
        getattr(request, field.name)
        for field in request.DESCRIPTOR.fields
        if field.message_type is not None and field.message_type.name in kinds and not field.is_repeated
    ]


async def _job_of(engine: Engine, request: Any) -> JobId | None:
    """Return the job that a request names; None where it names none. Raises NotFound, InvalidArgument."""
    for named in _named(request):
        kind, value = named.DESCRIPTOR.name, named.value
        if kind == "JobID":
            return str(value) if value or not any(_specs(request)) else None
        if kind == "PodName":
            return parse_task_id(value)[0]
        if kind == "UpdateID":
            if not is_uuid(value):
                raise NotFound("update not found")
            return (await engine.workflows.find(value)).workflow.job_id
        return (await engine.store.volumes.get(value)).job_id
    return None


def _specs(request: Any) -> Iterator[Any]:
    """Iterate over the specs of jobs in a request."""
    for field in request.DESCRIPTOR.fields:
        if field.message_type is None or field.message_type.name not in ("JobConfig", "JobSpec"):
            continue
        if request.HasField(field.name):
            yield getattr(request, field.name)


def _pool_of(spec: Any) -> PoolId:
    v0 = isinstance(spec, job_pb2.JobConfig)
    return str((spec.respoolID if v0 else spec.respool_id).value)


def _own(spec: Any) -> None:
    """Make the caller the owner of a spec without one, where it may only have jobs of its own."""
    if not spec.owner and all(scope.own for scope in granted()):
        spec.owner = current().name


async def limited(query: JobQuery, engine: Engine) -> JobQuery:
    """Return a query for what the caller may read."""
    if granted() == EVERYTHING:
        return query
    pools = await engine.store.pools.all()
    paths = {pool.id: pool_path(pool.id, pools) for pool in pools}

    def part(scope: Scope) -> JobScope:
        held = frozenset(pool for pool, path in paths.items() if Scope(scope.pools).holds(path, owned=True))
        return JobScope(held if scope.pools else None, current().name if scope.own else None)

    return replace(query, within=tuple(map(part, granted())))


async def readable(jobs: list[JobId], engine: Engine) -> list[JobId]:
    """Return those of some active jobs that the caller may read."""
    if granted() == EVERYTHING:
        return jobs
    pools = await engine.store.pools.all()
    found = []
    for job_id in jobs:
        job = engine.job(job_id)
        if job is None:
            continue
        owned = bool(current().name) and job.spec.owner == current().name
        path = pool_path(job.spec.pool_id, pools)
        if any(scope.holds(path, owned) for scope in granted()):
            found.append(job_id)
    return found

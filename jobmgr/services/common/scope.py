"""In which pools, and of which owners, the jobs may be that a call is about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import Any

import grpc

from jobmgr.engine.engine import Engine
from jobmgr.services.common.task_callers import check_call, require_alive
from jobmgr.services.common.view import view
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument, NotFound, PermissionDenied, shown
from peloton.identity.methods import scoped as is_scoped
from peloton.identity.principal import EVERYTHING, Kind, administers, current, granted, require
from peloton.model.ids import JobId, PoolId, is_uuid, parse_task_id
from peloton.model.job import JobSpec
from peloton.model.pool import pool_path
from peloton.rpc.server import Service

LISTING = frozenset(
    {
        "Query",
        "QueryJobs",
        "ListJobs",
        "GetActiveJobs",
        "GetJobIDFromJobName",
        "ListAccounts",
        "ListLosses",
        "ListSchedules",
        "ListUsed",
        "CreateSecret",
        "ReplaceSecret",
        "DeleteSecret",
        "ListSecrets",
        "Watch",
        "Cancel",
    }
)
"""Methods about many jobs, which leave out what the caller may not read (`jobmgr.services.common.reach`), and
those about secrets of pools, which check the pool themselves."""

KINDS = ("JobID", "PodName", "UpdateID", "VolumeID")
"""Messages by which a request names a job."""


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
        await _check(engine, name, request)
        return await method(request, context)

    return call


def _stream(method: Callable[[Any, Any], AsyncIterator[Any]], name: str, engine: Engine) -> Any:
    @wraps(method)
    async def call(request: Any, context: Any) -> Any:
        await _check(engine, name, request)
        caller = current()
        async for answer in method(request, context):
            if caller.kind is Kind.TASK:
                await require_alive(engine, caller)
            yield answer

    return call


async def _check(engine: Engine, name: str, request: Any) -> None:
    """Raise PermissionDenied where a request is about a job, or a new spec, beyond the grant.

    New specs get their owner. What is not there is left to the method, whose answer has a form for it.
    """
    if current().kind is Kind.TASK:
        await _check_task(engine, name, request)
        return
    everything = granted() == EVERYTHING
    specs = list(specs_of(request)) if not everything or current().kind is Kind.USER else []
    if (everything and not specs) or (name in LISTING and not _named(request)):
        return
    found, held = await _held(engine, request)
    pools = await engine.store.pools.all() if not everything else ()
    if held is not None:
        require(pool_path(held.pool_id, pools), held.owner, "the job")
    for new in specs:
        found = True
        pool = _pool_of(new) or (held.pool_id if held is not None else "")
        _give_owner(new, held)
        require(pool_path(pool, pools), new.owner, "the new spec")
    if not found and not everything:
        raise PermissionDenied(f"{current()} may call {name} for single jobs only")


async def _check_task(engine: Engine, name: str, request: Any) -> None:
    """Raise PermissionDenied where the call of a task is beyond its own job."""
    _, held = await _held(engine, request)
    await check_call(engine, name, request, held)
    for new in specs_of(request):
        new.owner = "" if held is None else held.owner


async def _held(engine: Engine, request: Any) -> tuple[bool, JobSpec | None]:
    """Return whether a request names a job, and the spec of that; None where it is not there."""
    try:
        job_id = await job_of(engine, request)
        return job_id is not None, None if job_id is None else (await view(engine, job_id)).spec
    except (NotFound, InvalidArgument):
        return True, None


def _named(request: Any) -> list[Any]:
    """Return the ids by which a request names one job, in whatever form."""
    return [
        getattr(request, field.name)
        for field in request.DESCRIPTOR.fields
        if field.message_type is not None and field.message_type.name in KINDS and not field.is_repeated
    ]


async def job_of(engine: Engine, request: Any) -> JobId | None:
    """Return the job that a request names; None where it names none. Raises NotFound, InvalidArgument."""
    for named in _named(request):
        kind, value = named.DESCRIPTOR.name, named.value
        if kind == "JobID":
            return str(value) if value or not any(specs_of(request)) else None
        if kind == "PodName":
            return parse_task_id(value)[0]
        if kind == "UpdateID":
            if not is_uuid(value):
                raise NotFound("update not found")
            return (await engine.store.workflows.get(value)).job_id
        return (await engine.store.volumes.get(value)).job_id
    return None


def specs_of(request: Any) -> Iterator[Any]:
    """Iterate over the specs of jobs in a request."""
    for field in request.DESCRIPTOR.fields:
        if field.message_type is None or field.message_type.name not in ("JobConfig", "JobSpec"):
            continue
        if request.HasField(field.name):
            yield getattr(request, field.name)


def _pool_of(spec: Any) -> PoolId:
    v0 = isinstance(spec, job_pb2.JobConfig)
    return str((spec.respoolID if v0 else spec.respool_id).value)


def _give_owner(spec: Any, held: JobSpec | None) -> None:
    """Fill in the owner of a new spec: that of the job as it is, of a new job the caller.

    Raises PermissionDenied for another's name, unless the caller administers the cluster.
    """
    caller = current()
    if caller.kind is not Kind.USER:
        return
    kept = caller.name if held is None else held.owner
    if not spec.owner:
        spec.owner = kept
    elif spec.owner not in (kept, caller.name) and not administers():
        raise PermissionDenied(
            f"owner: {shown(spec.owner)} is not {caller}: leave it out, and it is "
            + (shown(kept) if kept else "nobody")
        )

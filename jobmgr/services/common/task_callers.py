"""Calls of tasks: each is about the task's own job, whose updates by a task widen nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

from jobmgr.engine.engine import Engine
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.errors import InvalidArgument, NotFound, PermissionDenied, Unauthenticated, shown
from peloton.identity.principal import Principal, current
from peloton.model.ids import JobId, Run, is_uuid, parse_mesos_task_id, parse_task_id
from peloton.model.job import JobSpec
from peloton.model.states import ON_HOST_TASK_STATES
from peloton.wire.overrides import task_config
from peloton.wire.payload import job_config, v1alpha_spec
from peloton.wire.v1alpha.job_config import job_config_of
from peloton.wire.v1alpha.patch import patched

WITHOUT_JOB = frozenset({"Watch", "Cancel"})
"""Methods that may name no job: they show the caller's, and end the watches of the caller."""
_SPECS = frozenset({"JobConfig", "JobSpec"})


async def is_alive(engine: Engine, run: Run) -> bool:
    """Return whether a run is its instance's current one, and is on a host.

    Of a job that another instance owns, the store tells it: there it stands before it counts.
    """
    try:
        if not engine.shards.holds(run.job_id):
            stored = await engine.store.tasks.get(run.job_id, run.instance)
            return stored.run == run.run and stored.state in ON_HOST_TASK_STATES
        job = await engine.find(run.job_id)
    except NotFound:
        return False
    task = None if job is None else job.task(run.instance)
    return task is not None and task.run == run.run and task.state in ON_HOST_TASK_STATES


async def require_alive(engine: Engine, caller: Principal) -> None:
    """Raise Unauthenticated where the run of a task has ended."""
    if not await is_alive(engine, parse_mesos_task_id(caller.name)):
        raise Unauthenticated(f"the run {caller.name} has ended, and its token with it")


async def check_call(engine: Engine, name: str, request: Message, held: JobSpec | None) -> None:
    """Raise PermissionDenied for a call of a task about another job, or one that widens its own.

    `held` is the newest spec of the job that the request names.
    """
    own = parse_mesos_task_id(current().name).job_id
    jobs = [await _job_of(engine, named) for named in _named(request)]
    other = next((job for job in jobs if job != own), None)
    if other is not None or not (jobs or name in WITHOUT_JOB):
        about = f"it is about {shown(other)}" if other else "it names no job, or one that is not there"
        raise PermissionDenied(f"{current()} may call {name} for its own job, {own}, only: {about}")
    for spec in _specs(request):
        if held is not None:
            _check_update(held, request, spec)


def _named(message: Message) -> Iterator[Message]:
    """Yield the ids of jobs, pods, runs, updates and volumes anywhere in a request, but in new specs."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for part in value if field.is_repeated else (value,):
            if field.message_type.name in _JOB_OF:
                yield part
            elif field.message_type.name not in _SPECS:
                yield from _named(part)


async def _job_of(engine: Engine, named: Any) -> JobId:
    """Return the job that an id is about; empty where there is none."""
    try:
        return str(await _JOB_OF[named.DESCRIPTOR.name](engine, str(named.value)))
    except (NotFound, InvalidArgument):
        return ""


async def _of_job(engine: Engine, value: str) -> JobId:
    return value


async def _of_pod(engine: Engine, value: str) -> JobId:
    return parse_task_id(value)[0]


async def _of_run(engine: Engine, value: str) -> JobId:
    return parse_mesos_task_id(value).job_id


async def _of_update(engine: Engine, value: str) -> JobId:
    return (await engine.store.workflows.get(value)).job_id if is_uuid(value) else ""


async def _of_volume(engine: Engine, value: str) -> JobId:
    return (await engine.store.volumes.get(value)).job_id


_JOB_OF = {
    "JobID": _of_job,
    "PodName": _of_pod,
    "PodID": _of_run,
    "TaskID": _of_pod,
    "UpdateID": _of_update,
    "VolumeID": _of_volume,
}


def _specs(request: Message) -> Iterator[Any]:
    for field, value in request.ListFields():
        if field.message_type is not None and field.message_type.name in _SPECS:
            yield value


def _check_update(held: JobSpec, request: Message, spec: Any) -> None:
    """Raise PermissionDenied where a new spec changes the owner, the pool, or as whom and in what tasks run.

    A task that chose these could act beyond its job.
    """
    old, new = job_config(held.payload), _as_config(held, request, spec)
    if new.owner not in ("", held.owner):
        raise _refusal("owner", shown(new.owner), shown(held.owner))
    if new.respoolID.value not in ("", held.pool_id):
        raise _refusal("pool", shown(new.respoolID.value), shown(held.pool_id))
    known = _rights(old)
    for part, values in _rights(new).items():
        if not values <= known[part]:
            raise _refusal(part, "another one", "one of those that the job has")


def _refusal(part: str, given: str, expected: str) -> PermissionDenied:
    return PermissionDenied(f"{current()} may not change {part} of its job: {given} is not {expected}")


def _as_config(held: JobSpec, request: Message, spec: Any) -> job_pb2.JobConfig:
    """Return a new spec in the form of v0. Raises InvalidArgument."""
    if isinstance(spec, job_pb2.JobConfig):
        return spec
    if isinstance(request, stateless_svc_pb2.PatchJobRequest):
        spec = patched(v1alpha_spec(held.payload), spec)
    return job_config_of(spec)


def _rights(config: job_pb2.JobConfig) -> dict[str, set[bytes]]:
    """Return as whom, and in what, the tasks of a job run; none of it given is a value, too."""
    tasks = [config.defaultConfig, *(task_config(config, instance) for instance in config.instanceConfig)]
    return {
        "user": {task.command.user.encode() for task in tasks},
        "container": {_given(task, "container") for task in tasks},
        "executor": {_given(task, "executor") for task in tasks},
    }


def _given(task: task_pb2.TaskConfig, field: str) -> bytes:
    """Return what a field says, in a form to compare; nothing where it is not given."""
    if not task.HasField(field):  # type: ignore[arg-type]
        return b""
    return bytes(getattr(task, field).SerializeToString(deterministic=True))

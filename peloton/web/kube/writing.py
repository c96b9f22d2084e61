"""What this API changes: jobs that are created, updated and deleted, pods that are deleted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.calls.web import (
    CREATE_JOB,
    CREATE_JOB_V1ALPHA,
    DELETE_JOB_V1ALPHA,
    PAUSE_SCHEDULE,
    REPLACE_JOB,
    RESTART_TASKS,
    RESUME_JOB,
    RESUME_SCHEDULE,
    STOP_JOB_V1ALPHA,
    SUSPEND_JOB,
    UPDATE_POOL,
)
from peloton.errors import Conflict, InvalidArgument, NotFound, PelotonError, Refused, Unavailable
from peloton.private.jobmgr.scheduling import scheduling_pb2
from peloton.web.cluster import Calls
from peloton.web.kube.core.cluster_objects import QUOTA_NAME
from peloton.web.kube.core.cronjobs import cron_config
from peloton.web.kube.core.daemonsets import Daemon, daemon
from peloton.web.kube.core.deployments import Service, service
from peloton.web.kube.core.jobs import Made, job_config, split_suspension
from peloton.web.kube.core.kinds import CRON_JOB, DAEMON_SET, JOB, RESOURCE_QUOTA, STATEFUL_SET, Kind
from peloton.web.kube.core.managers import Managers, encoded, same_managers
from peloton.web.kube.core.manifests import stripped
from peloton.web.kube.core.names import Pool, managers_labels
from peloton.web.kube.core.objects import Held
from peloton.web.kube.core.quotas import changed_pool
from peloton.web.kube.core.refusals import Cause, Refusal, invalid, refusal_of
from peloton.web.kube.core.secret_uses import Keys, SecretFile, mentions_secrets
from peloton.web.kube.core.statefulsets import stateful_service
from peloton.web.kube.core.values import Object
from peloton.web.kube.reading import Known, Reader

log = logging.getLogger(__name__)
DELETE_SECONDS = 600.0
"""How long it is waited for the end of a job that is deleted."""
DELETE_POLL_SECONDS = 0.5
MOST_DELETING = 1000


class Writer:
    """Changes jobs. One for the process: it knows what is being deleted."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._locks: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    async def create(
        self,
        reader: Reader,
        kind: Kind,
        namespace: str,
        given: Object,
        dry: bool,
        managers: Managers = (),
    ) -> tuple[Held | None, Object, tuple[str, ...]]:
        """Create a job; return it, what it was made of, and warnings. Dry, only check. Raises Refusal."""
        pool = await reader.pool(namespace)
        made = await self._translated(reader, kind, given, pool)
        _note_managers(made, managers)
        key = (pool.id, kind.kind, made.name)
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            if await self._exists(reader, kind, namespace, made.name):
                text = f'{kind.plural}{"." * bool(kind.group)}{kind.group} "{made.name}" already exists'
                details = {"name": made.name, "group": kind.group, "kind": kind.plural}
                raise Refusal(409, text, "AlreadyExists", details)
            if dry:
                return None, made.manifest, made.warnings
            warnings = await self._call(reader.calls, kind, made)
            reader.calls.cluster.shared.forget()
            return await reader.job(kind, namespace, made.name), made.manifest, (*made.warnings, *warnings)

    async def _translated(
        self, reader: Reader, kind: Kind, given: Object, pool: Pool
    ) -> Made | Service | Daemon:
        """Translate a manifest, with the Secrets that there are where it may use some. Raises Refusal."""
        secrets = await reader.secret_keys(pool) if mentions_secrets(given) else {}
        return _made(kind, given, pool, secrets)

    async def _exists(self, reader: Reader, kind: Kind, namespace: str, name: str) -> bool:
        try:
            await reader.job(kind, namespace, name)
        except Refusal as refusal:
            if refusal.code == 404:
                return False
            raise
        return True

    async def _call(self, calls: Calls, kind: Kind, made: Made | Service | Daemon) -> tuple[str, ...]:
        """Create a job, and return what the job manager warns of."""
        try:
            if not isinstance(made, Service):
                suspended = isinstance(made, Made) and made.suspended
                wanted = job_pb2.CreateRequest(config=made.config, suspended=suspended and kind is JOB)
                _take_secrets(wanted.secrets, made.secret_files)
                answer = await calls.call(CREATE_JOB, wanted)
                if suspended and kind is CRON_JOB:
                    await calls.call(PAUSE_SCHEDULE, scheduling_pb2.PauseScheduleRequest(job_id=answer.jobId))
                return tuple(answer.warnings)
            create = stateless_pb2.CreateSpec(start_paused=made.paused)
            request = stateless_svc_pb2.CreateJobRequest(spec=made.spec, create_spec=create)
            _take_secrets(request.secrets, made.secret_files)
            return tuple((await calls.call(CREATE_JOB_V1ALPHA, request)).warnings)
        except (Refused, InvalidArgument) as error:
            raise _refused(kind, made.name, error) from None

    async def replace(
        self, reader: Reader, current: Held, given: Object, dry: bool, managers: Managers = ()
    ) -> tuple[Held | None, Object, tuple[str, ...]]:
        """Bring a job to another manifest. Raises Refusal."""
        if current.kind in (JOB, CRON_JOB):
            return await self._keep(reader, current, given, dry)
        made = await self._translated(reader, current.kind, given, await reader.pool(current.namespace))
        assert not isinstance(made, Made)
        if made.name != current.name:
            raise invalid(current.kind.kind, current.name, [Cause("metadata.name", "a name is kept")])
        _check_kept_selector(current, made.manifest)
        same = made.manifest == stripped(current.manifest) and same_managers(managers, current.managers)
        if dry or same:
            return (None if dry else current), made.manifest, made.warnings
        _note_managers(made, managers)
        request = stateless_svc_pb2.ReplaceJobRequest(
            job_id=v1alpha_pb2.JobID(value=current.job_id),
            version=v1alpha_pb2.EntityVersion(value=entity_version(current)),
            spec=made.spec,
            update_spec=stateless_pb2.UpdateSpec(batch_size=made.batch_size, start_paused=made.paused),
            drop_other_secrets=True,
        )
        _take_secrets(request.secrets, made.secret_files)
        try:
            answer = await reader.calls.call(REPLACE_JOB, request)
        except (Refused, InvalidArgument) as error:
            raise _refused(current.kind, current.name, error) from None
        reader.calls.cluster.shared.forget()
        found = await reader.job(current.kind, current.namespace, current.name)
        return found, made.manifest, (*made.warnings, *answer.warnings)

    async def _keep(
        self, reader: Reader, current: Held, given: Object, dry: bool
    ) -> tuple[Held | None, Object, tuple[str, ...]]:
        """Suspend a Job or CronJob, or let it go on; refuse other changes."""
        suspend, rest = split_suspension(given)
        was = split_suspension(current.manifest)[1]
        if rest != was or suspend is None:
            made = await self._translated(reader, current.kind, given, await reader.pool(current.namespace))
            causes = _other(current.kind, split_suspension(made.manifest)[1], was)
            raise invalid(current.kind.kind, current.name, causes)
        if dry:
            shown = {**current.manifest, "spec": {**current.manifest["spec"], "suspend": suspend}}
            return None, shown, ()
        if suspend == current.suspended:
            return current, current.manifest, ()
        await self._suspend(reader.calls, current, suspend)
        reader.calls.cluster.shared.forget()
        found = await reader.job(current.kind, current.namespace, current.name)
        return found, found.manifest, ()

    async def _suspend(self, calls: Calls, job: Held, suspend: bool) -> None:
        job_id = peloton_pb2.JobID(value=job.job_id)
        try:
            if job.kind is CRON_JOB and suspend:
                await calls.call(PAUSE_SCHEDULE, scheduling_pb2.PauseScheduleRequest(job_id=job_id))
            elif job.kind is CRON_JOB:
                await calls.call(RESUME_SCHEDULE, scheduling_pb2.ResumeScheduleRequest(job_id=job_id))
            elif suspend:
                await calls.call(SUSPEND_JOB, scheduling_pb2.SuspendJobRequest(job_id=job_id))
            else:
                await calls.call(RESUME_JOB, scheduling_pb2.ResumeJobRequest(job_id=job_id))
        except (Refused, InvalidArgument) as error:
            causes = [Cause("spec.suspend", str(error), "FieldValueInvalid")]
            raise invalid(job.kind.kind, job.name, causes) from None

    async def resize(
        self, reader: Reader, pool: Pool, given: Object, dry: bool
    ) -> tuple[Pool, tuple[str, ...]]:
        """Bring reservation and limit of a pool to a quota; return it with warnings. Raises Refusal."""
        config, warnings = changed_pool(pool, given)
        if config is None:
            return pool, warnings
        if dry:
            tried = respool_pb2.ResourcePoolInfo()
            tried.CopyFrom(pool.info)
            tried.config.CopyFrom(config)
            return replace(pool, info=tried), warnings
        request = respool_pb2.UpdateRequest(id=peloton_pb2.ResourcePoolID(value=pool.id), config=config)
        try:
            await reader.calls.call(UPDATE_POOL, request)
        except (Refused, InvalidArgument) as error:
            raise _refused(RESOURCE_QUOTA, QUOTA_NAME, error) from None
        reader.calls.cluster.shared.forget()
        return await reader.pool_now(pool.namespace), warnings

    async def delete(self, reader: Reader, job: Held) -> None:
        """Delete a job with its pods: stop it, and remove it when all of them have ended."""
        calls, ids = reader.calls, v1alpha_pb2.JobID(value=job.job_id)
        version = v1alpha_pb2.EntityVersion(value=entity_version(job))
        if job.kind not in (JOB, CRON_JOB):
            request = stateless_svc_pb2.DeleteJobRequest(job_id=ids, version=version, force=True)
            await calls.call(DELETE_JOB_V1ALPHA, request)
            self._known.deleting[job.job_id] = _now()
            self._drop_old()
        elif job.job_id not in self._known.deleting:
            if len(self._known.deleting) >= MOST_DELETING:
                raise Refusal(429, f"{MOST_DELETING} jobs are being deleted already: try again later")
            await calls.call(STOP_JOB_V1ALPHA, stateless_svc_pb2.StopJobRequest(job_id=ids, version=version))
            self._known.deleting[job.job_id] = _now()
            task = asyncio.get_running_loop().create_task(
                self._remove(reader, job), name=f"delete {job.job_id}"
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if job.kind is CRON_JOB:  # it is stopped: no further runs begin
            for run in await reader.runs(job):
                await self.delete(reader, run)
        calls.cluster.shared.forget()

    def _drop_old(self) -> None:
        while len(self._known.deleting) > MOST_DELETING:
            del self._known.deleting[next(iter(self._known.deleting))]

    async def _remove(self, reader: Reader, job: Held) -> None:
        """Remove a Job once it has ended."""
        try:
            async with asyncio.timeout(DELETE_SECONDS):
                while True:
                    if await self._removed(reader, job):
                        return
                    await asyncio.sleep(DELETE_POLL_SECONDS)
        except TimeoutError:
            log.warning(
                "job %s has not ended within %.0f s, so it is not deleted", job.job_id, DELETE_SECONDS
            )
        except PelotonError as error:
            log.warning("job %s is not deleted: %s", job.job_id, error)
        finally:
            self._known.deleting.pop(job.job_id, None)

    async def _removed(self, reader: Reader, job: Held) -> bool:
        """Try to remove a Job; return whether it is gone. It is refused until the job has ended."""
        try:
            found = await reader.job(job.kind, job.namespace, job.name)
        except Refusal as refusal:
            return refusal.code == 404
        except Unavailable:
            return False  # another leader will answer
        version = v1alpha_pb2.EntityVersion(value=entity_version(found))
        request = stateless_svc_pb2.DeleteJobRequest(
            job_id=v1alpha_pb2.JobID(value=job.job_id), version=version
        )
        try:
            await reader.calls.call(DELETE_JOB_V1ALPHA, request)
        except NotFound:
            return True
        except (Conflict, Unavailable):
            return False
        return True

    async def restart(self, reader: Reader, job: Held, instance: int) -> None:
        """Delete a pod: its instance gets another run, as a controller of Kubernetes makes another pod."""
        request = task_pb2.RestartRequest(jobId=peloton_pb2.JobID(value=job.job_id))
        part = request.ranges.add(to=instance + 1)
        setattr(part, "from", instance)
        await reader.calls.call(RESTART_TASKS, request)
        reader.calls.cluster.shared.forget()

    async def close(self) -> None:
        """Leave off what is being deleted."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _made(kind: Kind, given: Object, pool: Pool, secrets: Keys) -> Made | Service | Daemon:
    """Translate a manifest. Raises Refusal."""
    of = (given, pool.namespace, pool.id, secrets)
    if kind is JOB:
        return job_config(*of)
    if kind is CRON_JOB:
        return cron_config(*of)
    if kind is DAEMON_SET:
        return daemon(*of)
    return (stateful_service if kind is STATEFUL_SET else service)(*of)


def _note_managers(made: Made | Service | Daemon, managers: Managers) -> None:
    """Keep with a job who has said which fields of its manifest."""
    for key, text in managers_labels(encoded(managers)) if managers else ():
        if not isinstance(made, Service):
            made.config.labels.add(key=key, value=text)
        if not isinstance(made, Made):
            made.spec.labels.add(key=key, value=text)


def _take_secrets(secrets: Any, files: Iterable[SecretFile]) -> None:
    """Add secrets to a request, which have their contents of the pool's."""
    for file in files:
        found = secrets.add(path=file.path)
        found.source.name, found.source.key = file.name, file.key


def entity_version(job: Held) -> str:
    """Return the version of a job by which a change of it is refused when others came first."""
    runtime = job.summary.runtime
    return f"{runtime.configurationVersion}-{runtime.desiredStateVersion}-{runtime.workflowVersion}"


def _other(kind: Kind, given: Object, was: Object) -> list[Cause]:
    """Return what differs of a Job or CronJob, which keep what they were created with."""
    text = (
        f"a {kind.kind} keeps what it was created with, but for spec.suspend; delete it, and create it anew"
    )
    found = [key for key in sorted({*given, *was}) if given.get(key) != was.get(key)]
    return [Cause(key, text, "FieldValueForbidden") for key in found]


def _check_kept_selector(current: Held, manifest: Mapping[str, Any]) -> None:
    was = (current.manifest.get("spec") or {}).get("selector")
    if (manifest.get("spec") or {}).get("selector") != was:
        cause = Cause("spec.selector", "field is immutable", "FieldValueInvalid")
        raise invalid(current.kind.kind, current.name, [cause])


def _refused(kind: Kind, name: str, error: PelotonError) -> Refusal:
    """Return the refusal of what the job manager refuses to make."""
    if isinstance(error, InvalidArgument | NotFound):
        return refusal_of(error)
    return invalid(kind.kind, name, [Cause("spec", str(error), "FieldValueInvalid")])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

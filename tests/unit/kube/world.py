"""A cluster with a pool, whose jobs are what the API of Kubernetes made of manifests."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from starlette.testclient import TestClient

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.calls import web
from peloton.errors import AlreadyExists, Conflict, NotFound, Refused
from peloton.private.jobmgr.scheduling import scheduling_pb2
from peloton.private.jobmgr.secrets import secrets_pb2
from peloton.wire.job import job_spec
from peloton.wire.payload import job_config as parsed_config
from peloton.wire.schedule import told
from peloton.wire.schedule_runs import spec_of_run
from peloton.wire.v1alpha.job_config import job_config_of
from tests.unit.web.fake import FakeCluster, application, browser

POOL = "11111111-0000-0000-0000-000000000001"
CREATED = "2026-01-31T12:00:00.123456789Z"
DAEMON_SETS = "/apis/apps/v1/namespaces/team/daemonsets"
STATEFUL_SETS = "/apis/apps/v1/namespaces/team/statefulsets"
HOSTS = 3
JOBS = "/apis/batch/v1/namespaces/team/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/team/cronjobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/team/deployments"
PODS = "/api/v1/namespaces/team/pods"
SECRETS = "/api/v1/namespaces/team/secrets"


def job_manifest(**spec: Any) -> dict[str, Any]:
    """A Job that is taken; `spec` replaces fields of its specification."""
    container = {"name": "main", "image": "busybox", "command": ["echo", "hello"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "hello", "labels": {"app": "hello"}},
        "spec": {"template": template, **spec},
    }


def cron_manifest(job: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A CronJob that is taken; `job` replaces fields of its Jobs' specification."""
    template = {"metadata": {"labels": {"app": "nightly"}}, "spec": job_manifest(**job or {})["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "30 3 * * *", "concurrencyPolicy": "Forbid", "jobTemplate": template, **spec},
    }


def deployment_manifest(**spec: Any) -> dict[str, Any]:
    """A Deployment that is taken."""
    container = {"name": "main", "command": ["sleep", "600"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def daemon_set_manifest(**spec: Any) -> dict[str, Any]:
    """A DaemonSet that is taken."""
    manifest = deployment_manifest(**spec)
    if "replicas" not in spec:
        del manifest["spec"]["replicas"]
    return {**manifest, "kind": "DaemonSet"}


def claim(**spec: Any) -> dict[str, Any]:
    """A claim that is taken."""
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}, **spec}
    return {"metadata": {"name": "data"}, "spec": given}


def stateful_set_manifest(**spec: Any) -> dict[str, Any]:
    """A StatefulSet that is taken."""
    manifest = deployment_manifest(podManagementPolicy="Parallel", volumeClaimTemplates=[claim()], **spec)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "data", "mountPath": "data"}]
    return {**manifest, "kind": "StatefulSet"}


class World:
    """Jobs in memory, and a client of the API."""

    def __init__(self) -> None:
        self.jobs: dict[str, job_pb2.JobConfig] = {}
        self.classes = scheduling_pb2.ListPriorityClassesResponse()
        self.classes.classes.add(name="high", priority=100, description="what cannot wait")
        self.resources: list[respool_pb2.ResourceConfig] = []
        self.usage: list[respool_pb2.ResourceUsage] = []
        self.runtimes: dict[str, job_pb2.RuntimeInfo] = {}
        self.runs: dict[tuple[str, int], int] = {}
        self.secrets: dict[str, tuple[secrets_pb2.SecretInfo, dict[str, bytes]]] = {}
        self.taken: list[Any] = []
        """The secrets of requests that create or change jobs."""
        self.updates: list[stateless_svc_pb2.ReplaceJobRequest] = []
        self.versions: dict[tuple[str, int], job_pb2.JobConfig] = {}
        """Configs of jobs before their updates."""
        answers: Mapping[Any, Callable[[Any], Any]] = {
            web.QUERY_POOLS: lambda request: self._pools(),
            web.QUERY_JOBS: self._query,
            web.CREATE_JOB: self._create,
            web.CREATE_JOB_V1ALPHA: self._create_service,
            web.REPLACE_JOB: self._replace,
            web.GET_JOB_V1ALPHA: self._version,
            web.GET_POOL: lambda request: respool_pb2.GetResponse(poolinfo=self._pools().resourcePools[1]),
            web.UPDATE_POOL: self._resize,
            web.LIST_PRIORITY_CLASSES: lambda request: self.classes,
            web.LIST_TASKS: self._tasks,
            web.RESTART_TASKS: self._restart,
            web.SUSPEND_JOB: self._suspend,
            web.RESUME_JOB: self._resume,
            web.LIST_SECRETS: lambda request: secrets_pb2.ListSecretsResponse(
                secrets=[info for info, _ in self.secrets.values()]
            ),
            web.CREATE_SECRET: self._create_secret,
            web.REPLACE_SECRET: self._replace_secret,
            web.DELETE_SECRET: self._delete_secret,
            web.PAUSE_SCHEDULE: self._pause,
            web.RESUME_SCHEDULE: self._go_on,
            web.STOP_JOB_V1ALPHA: self._stop,
            web.DELETE_JOB_V1ALPHA: self._delete,
            web.GET_POD_EVENTS: self._events,
        }
        self.cluster = FakeCluster(answers)
        self.client: TestClient = browser(application(self.cluster))

    def _pools(self) -> respool_pb2.QueryResponse:
        def info(pool_id: str, path: str, *children: str) -> respool_pb2.ResourcePoolInfo:
            found = respool_pb2.ResourcePoolInfo()
            found.id.value, found.path.value = pool_id, path
            for child in children:
                found.children.add(value=child)
            return found

        team = info(POOL, "/team")
        team.config.resources.extend(self.resources)
        team.usage.extend(self.usage)
        return respool_pb2.QueryResponse(resourcePools=[info("root", "/", POOL), team])

    def _resize(self, request: respool_pb2.UpdateRequest) -> respool_pb2.UpdateResponse:
        assert request.id.value == POOL
        self.resources = list(request.config.resources)
        return respool_pb2.UpdateResponse()

    def _query(self, request: job_pb2.QueryRequest) -> job_pb2.QueryResponse:
        wanted = {(label.key, label.value) for label in request.spec.labels}
        found = [
            self.summary(job_id)
            for job_id, config in self.jobs.items()
            if config.respoolID.value == request.respoolID.value
            and wanted <= {(label.key, label.value) for label in config.labels}
            and request.spec.reference in ("", job_id)
        ]
        answer = job_pb2.QueryResponse(results=found[::-1][request.spec.pagination.offset :])
        answer.pagination.total = len(found)
        return answer

    def summary(self, job_id: str) -> job_pb2.JobSummary:
        config = self.jobs[job_id]
        return job_pb2.JobSummary(
            id=peloton_pb2.JobID(value=job_id), name=config.name, type=config.type, labels=config.labels,
            instanceCount=config.instanceCount, respoolID=config.respoolID, runtime=self.runtimes[job_id],
            sla=config.sla,
        )  # fmt: skip

    def add(self, config: job_pb2.JobConfig, job_id: str = "") -> str:
        job_id = job_id or str(uuid.uuid4())
        self.jobs[job_id] = config
        count = 0 if config.HasField("schedule") else config.instanceCount
        self.runtimes[job_id] = job_pb2.RuntimeInfo(
            state=job_pb2.RUNNING, creationTime=CREATED, configurationVersion=1, workflowVersion=1,
            taskStats={"RUNNING": count}, taskConfigVersionStats={1: count},
        )  # fmt: skip
        return job_id

    def end(self, state: str, job_id: str = "") -> None:
        """Let a job end, without an id the only one."""
        if not job_id:
            (job_id,) = self.jobs
        runtime = self.runtimes[job_id]
        count = self.jobs[job_id].instanceCount
        runtime.state = job_pb2.JobState.Value(state)
        runtime.completionTime = "2026-01-31T12:05:00Z"
        runtime.taskStats.clear()
        runtime.taskStats[state] = count

    def _create(self, request: job_pb2.CreateRequest) -> job_pb2.CreateResponse:
        if request.config.type == job_pb2.DAEMON:
            assert not request.config.instanceCount
            request.config.instanceCount = HOSTS
        self.taken += request.secrets
        job_id = self.add(request.config)
        if request.suspended:
            self.runtimes[job_id].suspendedSince = CREATED
        return job_pb2.CreateResponse(jobId=peloton_pb2.JobID(value=job_id))

    def _create_service(self, request: Any) -> stateless_svc_pb2.CreateJobResponse:
        self.taken += request.secrets
        answer = stateless_svc_pb2.CreateJobResponse()
        answer.job_id.value = self.add(job_config_of(request.spec))
        return answer

    def _replace(self, request: stateless_svc_pb2.ReplaceJobRequest) -> stateless_svc_pb2.ReplaceJobResponse:
        self.updates.append(request)
        self.taken += request.secrets
        job_id = request.job_id.value
        runtime = self.runtimes[job_id]
        if request.version.value != f"{runtime.configurationVersion}-0-{runtime.workflowVersion}":
            raise Conflict("unexpected entity version")
        config = job_config_of(request.spec)
        config.type = self.jobs[job_id].type
        if config.type == job_pb2.DAEMON:
            config.instanceCount = HOSTS
        self.versions[job_id, runtime.configurationVersion] = self.jobs[job_id]
        self.jobs[job_id] = config
        runtime.configurationVersion += 1
        runtime.taskConfigVersionStats.clear()
        runtime.taskConfigVersionStats[runtime.configurationVersion] = config.instanceCount
        runtime.taskStats["RUNNING"] = config.instanceCount
        return stateless_svc_pb2.ReplaceJobResponse()

    def _version(self, request: stateless_svc_pb2.GetJobRequest) -> stateless_svc_pb2.GetJobResponse:
        found = self.versions.get((request.job_id.value, int(request.version.value.partition("-")[0])))
        if found is None:
            raise NotFound("that version is not stored")
        answer = stateless_svc_pb2.GetJobResponse()
        for label in found.labels:
            answer.job_info.spec.labels.add(key=label.key, value=label.value)
        return answer

    def _tasks(self, request: task_pb2.ListRequest) -> task_pb2.ListResponse:
        answer, job_id = task_pb2.ListResponse(), request.jobId.value
        if job_id not in self.jobs:
            raise NotFound("no such job")
        config = self.jobs[job_id]
        if config.HasField("schedule"):
            return answer  # only its runs have instances
        (state,) = self.runtimes[job_id].taskStats
        for instance in range(getattr(request.range, "from"), min(request.range.to, config.instanceCount)):
            info = answer.result.value[instance]
            info.instanceId, info.jobId.value = instance, job_id
            info.config.CopyFrom(config.defaultConfig)
            run = self.runs.get((job_id, instance), 1)
            info.runtime.mesosTaskId.value = f"{job_id}-{instance}-{run}"
            info.runtime.state, info.runtime.host = task_pb2.TaskState.Value(state), "host-1"
            info.runtime.startTime = CREATED
        return answer

    def _restart(self, request: task_pb2.RestartRequest) -> task_pb2.RestartResponse:
        for part in request.ranges:
            for instance in range(getattr(part, "from"), part.to):
                key = (request.jobId.value, instance)
                self.runs[key] = self.runs.get(key, 1) + 1
        return task_pb2.RestartResponse()

    def _suspend(self, request: scheduling_pb2.SuspendJobRequest) -> scheduling_pb2.SuspendJobResponse:
        runtime = self._live(request.job_id.value)
        runtime.suspendedSince = CREATED
        runtime.taskStats.clear()
        runtime.taskStats["KILLED"] = self.jobs[request.job_id.value].instanceCount
        return scheduling_pb2.SuspendJobResponse()

    def _resume(self, request: scheduling_pb2.ResumeJobRequest) -> scheduling_pb2.ResumeJobResponse:
        self._live(request.job_id.value).suspendedSince = ""
        return scheduling_pb2.ResumeJobResponse()

    def _create_secret(self, request: secrets_pb2.CreateSecretRequest) -> secrets_pb2.CreateSecretResponse:
        assert request.pool_id.value == POOL
        if request.info.name in self.secrets:
            raise AlreadyExists("there is one")
        info = secrets_pb2.SecretInfo()
        info.CopyFrom(request.info)
        info.id, info.revision, info.creation_time = str(uuid.uuid4()), 1, CREATED
        return secrets_pb2.CreateSecretResponse(info=self._keep_secret(info, dict(request.contents)))

    def _replace_secret(self, request: secrets_pb2.ReplaceSecretRequest) -> secrets_pb2.ReplaceSecretResponse:
        held, before = self.secrets[request.info.name]
        info = secrets_pb2.SecretInfo()
        info.CopyFrom(request.info)
        info.id, info.revision, info.creation_time = held.id, held.revision + 1, CREATED
        contents = {key: data or before[key] for key, data in request.contents.items()}
        return secrets_pb2.ReplaceSecretResponse(info=self._keep_secret(info, contents))

    def _keep_secret(
        self, info: secrets_pb2.SecretInfo, contents: dict[str, bytes]
    ) -> secrets_pb2.SecretInfo:
        del info.keys[:]
        info.keys.extend(sorted(contents))
        self.secrets[info.name] = (info, contents)
        return info

    def _delete_secret(self, request: secrets_pb2.DeleteSecretRequest) -> secrets_pb2.DeleteSecretResponse:
        del self.secrets[request.name]
        return secrets_pb2.DeleteSecretResponse()

    def _pause(self, request: scheduling_pb2.PauseScheduleRequest) -> scheduling_pb2.PauseScheduleResponse:
        self.runtimes[request.job_id.value].schedule.paused_since = CREATED
        return scheduling_pb2.PauseScheduleResponse()

    def _go_on(self, request: scheduling_pb2.ResumeScheduleRequest) -> scheduling_pb2.ResumeScheduleResponse:
        self.runtimes[request.job_id.value].schedule.paused_since = ""
        return scheduling_pb2.ResumeScheduleResponse()

    def run_of(self, job_id: str, time: int) -> str:
        """Begin the run of a time of a job with a schedule."""
        made = spec_of_run(job_id, job_spec(self.jobs[job_id], 1), time)
        run = self.add(parsed_config(made.payload))
        state = self.runtimes[job_id].schedule
        state.running_job_id, state.last_time = run, told(time)
        return run

    def _live(self, job_id: str) -> job_pb2.RuntimeInfo:
        if self.runtimes[job_id].state == job_pb2.SUCCEEDED:
            raise Refused(f"job {job_id} has ended")
        return self.runtimes[job_id]

    def _stop(self, request: stateless_svc_pb2.StopJobRequest) -> stateless_svc_pb2.StopJobResponse:
        self.end("KILLED", request.job_id.value)
        return stateless_svc_pb2.StopJobResponse()

    def _delete(self, request: stateless_svc_pb2.DeleteJobRequest) -> stateless_svc_pb2.DeleteJobResponse:
        del self.jobs[request.job_id.value]
        return stateless_svc_pb2.DeleteJobResponse()

    def _events(self, request: task_pb2.GetPodEventsRequest) -> task_pb2.GetPodEventsResponse:
        answer = task_pb2.GetPodEventsResponse()
        for state in ("RUNNING", "PENDING"):
            event = answer.result.add(actualState=state, timestamp=CREATED, message="as it was")
            event.taskId.value = request.runId
        return answer

    def create(self, path: str, manifest: Any, **query: str) -> Any:
        return self.client.post(path, json=manifest, params=query)

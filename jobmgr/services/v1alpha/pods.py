"""PodService: the instances of jobs, each by its name (docs/behaviour/tasks.md, Operations on tasks)."""

from __future__ import annotations

from typing import Any

from jobmgr.engine.engine import Engine
from jobmgr.services.common.launched import launched_run
from jobmgr.services.common.runs import DEFAULT_RUNS, MAX_RUNS, past_runtimes, run_number
from jobmgr.services.common.sandbox import Sandboxes
from jobmgr.services.common.view import JobView, TerminatedJob, view
from jobmgr.services.v1alpha.pod_info import Pods
from peloton.api.v1alpha.pod.svc import pod_svc_pb2 as pb
from peloton.api.v1alpha.pod.svc import pod_svc_pb2_grpc
from peloton.errors import InvalidArgument, NotFound
from peloton.model.ids import mesos_task_id, parse_task_id
from peloton.model.plural import plural
from peloton.model.states import JobType
from peloton.rpc.pages import Room, taken_by
from peloton.wire.v1alpha.constraint import labels_to
from peloton.wire.v1alpha.pod_status import pod_event

LAST_RUN = 2**63 - 1


class PodService(pod_svc_pb2_grpc.PodServiceServicer):
    """Serves the v1alpha PodService. Failures are gRPC statuses.

    Every method raises InvalidArgument for a name that is no pod's, and NotFound for a pod that is not there.
    """

    def __init__(self, engine: Engine, sandboxes: Sandboxes) -> None:
        self._engine = engine
        self._sandboxes = sandboxes

    async def StartPod(self, request: pb.StartPodRequest, context: Any) -> pb.StartPodResponse:
        """Give a stopped pod a new run; one that is not stopped is left as it is.

        Raises InvalidArgument for a batch job that has ended.
        """
        job, instance = await self._pod(request.pod_name.value)
        if job.spec.type is JobType.BATCH and job.runtime.state.terminal:
            raise TerminatedJob("pod_name", request.pod_name.value, "a pod of a job that has not ended")
        await self._engine.start(job.job_id, [instance])
        return pb.StartPodResponse()

    async def StopPod(self, request: pb.StopPodRequest, context: Any) -> pb.StopPodResponse:
        """Make the pod's goal KILLED. One that has ended is left as it is."""
        job, instance = await self._pod(request.pod_name.value)
        await self._engine.stop(job.job_id, [instance])
        return pb.StopPodResponse()

    async def RestartPod(self, request: pb.RestartPodRequest, context: Any) -> pb.RestartPodResponse:
        """Stop the pod and start it again. One whose goal is KILLED is left as it is.

        Raises Conflict where the SLA is to be checked and would break.
        """
        job, instance = await self._pod(request.pod_name.value)
        await self._engine.restart(job.job_id, [instance], request.check_sla)
        return pb.RestartPodResponse()

    async def GetPod(self, request: pb.GetPodRequest, context: Any) -> pb.GetPodResponse:
        """Return the current run, and at most `limit` earlier ones, newest first."""
        job, instance = await self._pod(request.pod_name.value)
        pods, runtime = Pods(job), await job.task(instance)
        answer = pb.GetPodResponse(current=await pods.info(instance, runtime, request.status_only))
        if request.limit and runtime is not None and runtime.run > 1:
            runs = min(request.limit, MAX_RUNS)
            events = await job.store.pod_events.list(job.job_id, instance, runs=runs + 1)
            room = Room(taken_by(context))
            room.takes(answer.current)
            for past in past_runtimes(events, runtime.run)[:runs]:
                if not room.fill(answer.previous, [await pods.info(instance, past, request.status_only)]):
                    break
        return answer

    async def GetPodEvents(self, request: pb.GetPodEventsRequest, context: Any) -> pb.GetPodEventsResponse:
        """Return the history of a run, or of the last 10, newest first."""
        job, instance = await self._pod(request.pod_name.value)
        run = self._run(job, instance, request.pod_id.value) if request.pod_id.value else None
        events = await job.store.pod_events.list(job.job_id, instance, run, DEFAULT_RUNS)
        answer = pb.GetPodEventsResponse()
        Room(taken_by(context)).fill(answer.events, map(pod_event, events))
        return answer

    async def BrowsePodSandbox(
        self, request: pb.BrowsePodSandboxRequest, context: Any
    ) -> pb.BrowsePodSandboxResponse:
        """List the files of a run, or of the current one.

        Raises NotFound where it was not launched or its sandbox is gone, Unavailable where nobody can tell.
        """
        job, instance = await self._pod(request.pod_name.value)
        if request.pod_id.value:
            self._run(job, instance, request.pod_id.value)
        run, host, agent_id = await launched_run(job, instance, request.pod_id.value)
        sandbox = await self._sandboxes.find(mesos_task_id(job.job_id, instance, run), host, agent_id)
        return pb.BrowsePodSandboxResponse(
            hostname=sandbox.host,
            port=sandbox.port,
            paths=sandbox.paths,
            mesos_master_hostname=sandbox.master_host,
            mesos_master_port=sandbox.master_port,
        )

    async def RefreshPod(self, request: pb.RefreshPodRequest, context: Any) -> pb.RefreshPodResponse:
        """Read the pod from the store again, and evaluate it."""
        job, instance = await self._pod(request.pod_name.value)
        await self._engine.refresh_tasks(job.job_id, instance, instance + 1)
        return pb.RefreshPodResponse()

    async def GetPodCache(self, request: pb.GetPodCacheRequest, context: Any) -> pb.GetPodCacheResponse:
        """Return a pod's status as it is in memory. Raises NotFound for pods of jobs that have ended."""
        job, instance = await self._pod(request.pod_name.value)
        runtime = await job.task(instance)
        if job.cached is None or runtime is None:
            raise NotFound(f"pod {request.pod_name.value} is not in memory: only those of active jobs are")
        return pb.GetPodCacheResponse(
            status=await Pods(job).status(instance, runtime),
            labels=labels_to(job.cached.task_spec(instance).labels),
        )

    async def DeletePodEvents(
        self, request: pb.DeletePodEventsRequest, context: Any
    ) -> pb.DeletePodEventsResponse:
        """Delete the history of a run and of those before it."""
        job, instance = await self._pod(request.pod_name.value)
        run = self._run(job, instance, request.pod_id.value)
        await job.store.pod_events.delete(job.job_id, instance, min(run, LAST_RUN))
        return pb.DeletePodEventsResponse()

    async def _pod(self, name: str) -> tuple[JobView, int]:
        """Return the job and the instance of a pod. Raises as every method does."""
        try:
            job_id, instance = parse_task_id(name)
        except InvalidArgument as error:
            raise InvalidArgument("pod_name", name, error.expected) from None
        job = await view(self._engine, job_id)
        if instance >= job.size:
            raise NotFound(f"pod {name} not found: the job has {plural(job.size, 'instance')}")
        return job, instance

    @staticmethod
    def _run(job: JobView, instance: int, pod_id: str) -> int:
        """Return the number of a run. Raises InvalidArgument for what is no run of the pod."""
        try:
            return run_number(job.job_id, instance, pod_id)
        except InvalidArgument as error:
            raise InvalidArgument("pod_id", pod_id, error.expected) from None

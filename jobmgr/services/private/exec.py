"""ExecService: where commands run beside instances, for those who may run them."""

from __future__ import annotations

import uuid

from jobmgr.engine.engine import Engine
from jobmgr.services.common.sandbox import Sandboxes
from jobmgr.services.common.view import JobView, view
from peloton.errors import InvalidArgument, NotFound, Refused
from peloton.model.ids import MesosTaskId, is_uuid, mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from peloton.private.jobmgr.exec import exec_pb2 as pb
from peloton.private.jobmgr.exec import exec_pb2_grpc


class ExecService(exec_pb2_grpc.ExecServiceServicer):
    """Begins and ends sessions. That a caller may is what these calls are for; the audit log has them."""

    def __init__(self, engine: Engine, sandboxes: Sandboxes) -> None:
        self._engine = engine
        self._sandboxes = sandboxes

    async def StartSession(self, request: pb.StartSessionRequest, context: object) -> pb.StartSessionResponse:
        """Return where commands run beside an instance. Raises NotFound, Refused and Unavailable."""
        job = await self._job(request.job_id.value, request.instance)
        runtime = await job.task(request.instance)
        run = _running(request.instance, runtime)
        wanted: MesosTaskId = mesos_task_id(job.job_id, request.instance, run.run)
        sandbox = await self._sandboxes.find(wanted, run.host, run.agent_id)
        return pb.StartSessionResponse(
            session=str(uuid.uuid4()),
            run=wanted,
            hostname=sandbox.host,
            port=sandbox.port,
            paths=sandbox.paths,
        )

    async def EndSession(self, request: pb.EndSessionRequest, context: object) -> pb.EndSessionResponse:
        """Take the end of a session, for the audit log. Raises NotFound and InvalidArgument."""
        await self._job(request.job_id.value, request.instance)
        if not is_uuid(request.session):
            raise InvalidArgument("session", request.session, "the id that StartSession has returned")
        return pb.EndSessionResponse()

    async def _job(self, job_id: str, instance: int) -> JobView:
        job = await view(self._engine, job_id)
        if instance >= job.size:
            raise NotFound(f"no instance {instance}: the job has {job.size}")
        return job


def _running(instance: int, runtime: TaskRuntime | None) -> TaskRuntime:
    """Return the runtime of an instance that runs. Raises Refused for another."""
    if runtime is None or runtime.state is not TaskState.RUNNING:
        state = "not there yet" if runtime is None else runtime.state.name
        raise Refused(f"instance {instance} is {state}: a command runs beside a task that is RUNNING")
    return runtime

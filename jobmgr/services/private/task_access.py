"""TaskAccessService: what tasks need to act on their own job, beyond the listed methods."""

from __future__ import annotations

from jobmgr.engine.engine import Engine
from jobmgr.engine.task_access import TaskAccess
from jobmgr.services.common.launched import launched_run
from jobmgr.services.common.sandbox import Sandboxes
from jobmgr.services.common.view import view
from peloton.errors import NotFound, Refused
from peloton.identity.principal import Kind, current
from peloton.model.ids import mesos_task_id, parse_mesos_task_id
from peloton.private.jobmgr.access import access_pb2 as pb
from peloton.private.jobmgr.access import access_pb2_grpc


class TaskAccessService(access_pb2_grpc.TaskAccessServiceServicer):
    """Renews tokens, and reads files of sandboxes."""

    def __init__(self, engine: Engine, access: TaskAccess | None, sandboxes: Sandboxes) -> None:
        self._engine = engine
        self._access = access
        self._sandboxes = sandboxes

    async def GetToken(self, request: pb.GetTokenRequest, context: object) -> pb.GetTokenResponse:
        """Return a new token for the task that calls. Raises Refused where none calls."""
        caller = current()
        if caller.kind is not Kind.TASK or self._access is None:
            raise Refused(f"{caller} has no token to renew: tasks have, on a cluster that gives them tokens")
        token, claim = self._access.token(parse_mesos_task_id(caller.name))
        return pb.GetTokenResponse(token=token, expires=claim.expires)

    async def GetSandboxFile(
        self, request: pb.GetSandboxFileRequest, context: object
    ) -> pb.GetSandboxFileResponse:
        """Return a piece of a file of a run. Raises NotFound, InvalidArgument and Unavailable."""
        job = await view(self._engine, request.job_id.value)
        if request.instance >= job.size:
            raise NotFound(f"no instance {request.instance}: the job has {job.size}")
        run, host, agent_id = await launched_run(job, request.instance, request.run)
        wanted = mesos_task_id(job.job_id, request.instance, run)
        data = await self._sandboxes.read(wanted, host, agent_id, request.path, request.offset)
        return pb.GetSandboxFileResponse(data=data)

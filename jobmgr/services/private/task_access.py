"""TaskAccessService: what tasks need to act on their own job, beyond the listed methods."""

from __future__ import annotations

from jobmgr.core.task.rendezvous import meeting_of
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

    def __init__(
        self, engine: Engine, access: TaskAccess | None, sandboxes: Sandboxes, hosts_address: str
    ) -> None:
        """Tell `hosts_address` for all hosts; where it is empty, their names."""
        self._engine = engine
        self._hosts_address = hosts_address
        self._access = access
        self._sandboxes = sandboxes

    async def GetToken(self, request: pb.GetTokenRequest, context: object) -> pb.GetTokenResponse:
        """Return a new token for the task that calls. Raises Refused where none calls."""
        caller = current()
        if caller.kind is not Kind.TASK or self._access is None:
            raise Refused(f"{caller} has no token to renew: tasks have, on a cluster that gives them tokens")
        token, claim = self._access.token(parse_mesos_task_id(caller.name))
        return pb.GetTokenResponse(token=token, expires=claim.expires)

    async def GetMembers(self, request: pb.GetMembersRequest, context: object) -> pb.GetMembersResponse:
        """Return where the members of a gang are reached. Raises NotFound, InvalidArgument and Refused."""
        job_id = request.job_id.value
        await view(self._engine, job_id)
        job = await self._engine.find(job_id)
        if job is None:
            raise Refused(f"job {job_id} has ended")
        if not job.spec.rendezvous_size:
            raise Refused(f"job {job_id} has no gang whose members meet: its workload asks for no rendezvous")
        first = job.task(0)
        run = 0 if first is None else first.run
        meeting = meeting_of(job, job.spec.version, self._hosts_address, run)
        instances = {rank: instance for instance, rank in meeting.ranks.items()}
        return pb.GetMembersResponse(
            members=[
                pb.Member(
                    instance=instances.get(rank, rank), rank=rank, address=str(member) if member.host else ""
                )
                for rank, member in enumerate(meeting.members)
            ]
        )

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

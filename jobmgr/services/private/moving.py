"""MoveService: jobs that go from one cluster to another (docs/operations.md, Move jobs)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from jobmgr.core.state.decisions import Relocated
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from jobmgr.ports.hostmgr import HostMatches, HostNeeds
from jobmgr.services.common.view import JobView, view
from peloton.clock import Clock
from peloton.errors import Conflict, InvalidArgument, Refused
from peloton.identity.principal import current
from peloton.model.cluster import cluster_of
from peloton.model.constraint import Constraint
from peloton.model.destination import Destination
from peloton.model.job import JobSpec
from peloton.model.payload import ApiVersion
from peloton.model.resources import ZERO, Resources
from peloton.model.states import ON_HOST_TASK_STATES, JobType
from peloton.model.workflow import WorkflowOptions
from peloton.offload import run_by_size
from peloton.private.jobmgr.moving import moving_pb2 as pb
from peloton.private.jobmgr.moving import moving_pb2_grpc
from peloton.wire.job import config_payload, job_spec
from peloton.wire.moves import moved_config
from peloton.wire.payload import same_config
from peloton.wire.v1alpha.job_status import version_to

TRIES = 5
"""To store a version, where other updates come first."""
AT_A_TIME = 10
"""Without an SLA the instances are divided by this number: so a tenth of them is in flight."""
_ANY_HOST = HostNeeds(ZERO, 0, False, None), HostNeeds(Resources.of(gpu=1), 0, False, None)
"""Hosts with GPUs may be kept for tasks that need one."""
MovedSpec = Callable[[JobView, Constraint | None], Awaitable[JobSpec]]
"""Returns the next version of a service's spec, with a constraint on clusters in place of the one before."""


class MoveService(moving_pb2_grpc.MoveServiceServicer):
    """Keeps jobs in other clusters than before."""

    def __init__(
        self,
        engine: Engine,
        workflows: Workflows,
        clock: Clock,
        hosts: HostMatches,
        v0: MovedSpec,
        v1alpha: MovedSpec,
    ) -> None:
        """Make the specs of services by `v0` and `v1alpha`, as they were given; ask `hosts` for clusters."""
        self._engine = engine
        self._workflows = workflows
        self._clock = clock
        self._hosts = hosts
        self._moved = {ApiVersion.V0: v0, ApiVersion.V1ALPHA: v1alpha}

    async def MoveJob(self, request: pb.MoveJobRequest, context: object) -> pb.MoveJobResponse:
        """Keep a job in a cluster.

        Raises NotFound, InvalidArgument for a cluster that has no host and for a constraint that cannot be
        changed, Refused for a job that has ended, has volumes or follows the hosts, and Unavailable.
        """
        job = await view(self._engine, request.job_id.value)
        _check_movable(job)
        to = destination(request)
        wanted = await self._constraint(to)
        if job.spec.type is JobType.BATCH:
            return await self._move_batch(job, wanted)
        return await self._move_service(job, wanted, request)

    async def _constraint(self, to: Destination) -> Constraint | None:
        """Return what hosts of the destination have. Raises InvalidArgument where there is none."""
        if to.cluster is None:
            return None
        found = await self._hosts.matches(_ANY_HOST, "", 0.0)
        matches = found[1] if found else ()
        clusters = {cluster_of(host) for match in matches for host in match.hosts | match.disconnected}
        if to.cluster not in clusters:
            known = ", ".join(sorted(name or "one without a name" for name in clusters)) or "none"
            raise InvalidArgument("cluster", to.cluster, f"a cluster with hosts: {known}")
        return to.constraint(clusters)

    async def _move_batch(self, job: JobView, wanted: Constraint | None) -> pb.MoveJobResponse:
        """Store the config, and let the next runs go by it. What a call before left undone is done."""
        changed = False
        for _ in range(TRIES):
            spec = await self._next_batch(job, wanted)
            if spec is None:
                break
            try:
                await self._engine.update_job(job.job_id, spec)
            except Conflict:
                job = await view(self._engine, job.job_id)
                continue
            changed = True
            break
        else:
            raise Conflict(f"job {job.job_id} is being changed by others: try again")
        done = await self._relocated(job)
        return pb.MoveJobResponse(
            changed=changed or done.taken > 0, begun_anew=done.anew, staying=await self._staying(job)
        )

    async def _relocated(self, job: JobView) -> Relocated:
        """Let the next runs go by the newest config. Those of a schedule are jobs to come."""
        return Relocated(0, 0) if job.spec.schedule else await self._engine.relocate(job.job_id)

    async def _staying(self, job: JobView) -> int:
        """Return how many runs are on hosts by an older config."""
        now = await view(self._engine, job.job_id)
        if now.cached is None:
            return 0
        return sum(
            task.state in ON_HOST_TASK_STATES and task.config_version != task.desired_config_version
            for _, task in now.cached.created()
        )

    async def _next_batch(self, job: JobView, wanted: Constraint | None) -> JobSpec | None:
        """Return the next version of a batch job's spec; None where nothing changes."""
        size = len(job.spec.payload.data)
        config = await run_by_size(size, moved_config, job.config, wanted)
        if config == job.config:
            return None
        version = job.spec.version + 1
        config.changeLog.version = version
        config.changeLog.updatedAt = self._clock.wall()
        config.changeLog.updatedBy = current().name
        payload = config_payload(config, job.spec.payload.secrets)
        return await run_by_size(size, job_spec, config, version, payload)

    async def _move_service(
        self, job: JobView, wanted: Constraint | None, request: pb.MoveJobRequest
    ) -> pb.MoveJobResponse:
        """Start an update to the spec with another constraint."""
        spec = await self._moved[job.spec.payload.api](job, wanted)
        if same_config(spec.payload, job.spec.payload):
            return pb.MoveJobResponse()
        _check_no_workflow(job)
        options = WorkflowOptions(
            batch_size=batch_size(job.spec, request.batch_size if request.HasField("batch_size") else None),
            rollback_on_failure=request.rollback_on_failure,
            max_instance_attempts=request.max_retries,
            max_failure_instances=request.max_failures,
            start_paused=request.start_paused,
        )
        begun = await self._workflows.replace(job.job_id, spec, options)
        return pb.MoveJobResponse(
            changed=True, version=version_to(begun.version), batch_size=options.batch_size
        )


def destination(request: pb.MoveJobRequest) -> Destination:
    """Return where a job is to go. Raises InvalidArgument."""
    match request.WhichOneof("to"):
        case "cluster":
            if not request.cluster:
                raise InvalidArgument("cluster", "", "a name; `unnamed` is for the cluster without one")
            return Destination(request.cluster)
        case "unnamed" if request.unnamed:
            return Destination("")
        case "anywhere" if request.anywhere:
            return Destination(None)
    raise InvalidArgument("to", "nothing", "`cluster`, `unnamed` or `anywhere`")


def batch_size(spec: JobSpec, given: int | None) -> int:
    """Return how many instances of a service are in flight at once. Raises InvalidArgument beyond its SLA."""
    most = spec.sla.maximum_unavailable_instances
    if given is None:
        return most or max(spec.instance_count // AT_A_TIME, 1)
    if most and not 0 < given <= most:
        raise InvalidArgument("batch_size", given, f"1 to {most}, the SLA's maximumUnavailableInstances")
    return given


def _check_movable(job: JobView) -> None:
    spec = job.spec
    if job.runtime.state.terminal and spec.type is JobType.BATCH:
        raise Refused(f"job {spec.name} has ended ({job.runtime.state.name}): it has no run to come")
    if job.runtime.goal in ENDING_JOB_GOALS:
        raise Refused(f"job {spec.name} is stopped, or is being stopped")
    if spec.type is JobType.DAEMON:
        raise Refused(f"job {spec.name} is a daemon: it runs on each host that its constraint allows")
    if spec.task(0).pod is not None:
        raise Refused(f"job {spec.name} stands for a pod that is on its cluster: make another pod elsewhere")
    if any(task.stateful for task in (spec.default, *spec.overrides.values())):
        raise Refused(f"job {spec.name} has volumes, which stay on their hosts")


def _check_no_workflow(job: JobView) -> None:
    workflow = None if job.cached is None else job.cached.workflow
    if workflow is not None and not workflow.state.terminal:
        raise Refused(
            f"an update or restart of job {job.spec.name} is under way ({workflow.state.name}): let it "
            "end, or end it by `peloton job stateless workflow abort`"
        )

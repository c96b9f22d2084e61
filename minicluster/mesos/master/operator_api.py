"""The operator API ``/api/v1`` and the older endpoints beside it.

Source: recordings ``11-maintenance``, ``12-operator*``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.master import master_pb2 as master
from minicluster.mesos.common.http_messages import ACCEPTED, JSON, Request, Response, refuse
from minicluster.mesos.common.media_types import accepted_type, method_error
from minicluster.mesos.master.core import agents, frameworks, maintenance, operations, quota
from minicluster.mesos.master.core import operator_views as views
from minicluster.mesos.master.core.state import Agent, Master
from minicluster.mesos.master.scheduler_api import NOT_ACCEPTABLE, parse
from peloton.mesos import json as mesos_json

Call = master.Call
Reply = master.Response
OK = Response(200)

_BODIES: dict[int, str] = {
    Call.GET_METRICS: "get_metrics",
    Call.SET_LOGGING_LEVEL: "set_logging_level",
    Call.LIST_FILES: "list_files",
    Call.READ_FILE: "read_file",
    Call.UPDATE_WEIGHTS: "update_weights",
    Call.RESERVE_RESOURCES: "reserve_resources",
    Call.UNRESERVE_RESOURCES: "unreserve_resources",
    Call.CREATE_VOLUMES: "create_volumes",
    Call.DESTROY_VOLUMES: "destroy_volumes",
    Call.UPDATE_MAINTENANCE_SCHEDULE: "update_maintenance_schedule",
    Call.START_MAINTENANCE: "start_maintenance",
    Call.STOP_MAINTENANCE: "stop_maintenance",
    Call.DRAIN_AGENT: "drain_agent",
    Call.DEACTIVATE_AGENT: "deactivate_agent",
    Call.REACTIVATE_AGENT: "reactivate_agent",
    Call.UPDATE_QUOTA: "update_quota",
    Call.TEARDOWN: "teardown",
    Call.MARK_AGENT_GONE: "mark_agent_gone",
}

_RESOURCES: dict[int, mesos.Offer.Operation.Type.ValueType] = {
    Call.RESERVE_RESOURCES: mesos.Offer.Operation.RESERVE,
    Call.UNRESERVE_RESOURCES: mesos.Offer.Operation.UNRESERVE,
    Call.CREATE_VOLUMES: mesos.Offer.Operation.CREATE,
    Call.DESTROY_VOLUMES: mesos.Offer.Operation.DESTROY,
}

_MAINTENANCE = (Call.UPDATE_MAINTENANCE_SCHEDULE, Call.START_MAINTENANCE, Call.STOP_MAINTENANCE)

_ALWAYS_LISTED: dict[str, tuple[str, ...]] = {
    "get_tasks": ("tasks", "unreachable_tasks", "completed_tasks"),
    "get_frameworks": ("frameworks", "completed_frameworks"),
    "get_executors": ("executors",),
    "get_agents": ("agents", "recovered_agents"),
}


@dataclass(frozen=True, slots=True)
class Watch:
    """A SUBSCRIBE that is well formed, and the media type that its stream is to have."""

    content_type: str


class OperatorApi:
    """Answers operator calls about one cluster."""

    def __init__(
        self,
        cluster: Master,
        flags: dict[str, str],
        started: float,
        figures: Callable[[], dict[str, float]],
    ) -> None:
        """``figures`` returns all metrics."""
        self._cluster = cluster
        self._flags = flags
        self._figures = figures
        self._queries: dict[int, Callable[[Reply], None]] = {
            Call.GET_HEALTH: self._health,
            Call.GET_FLAGS: self._get_flags,
            Call.GET_VERSION: self._version,
            Call.GET_LOGGING_LEVEL: lambda out: setattr(out.get_logging_level, "level", 0),
            Call.GET_METRICS: self._metrics,
            Call.GET_STATE: lambda out: out.get_state.CopyFrom(views.get_state(cluster)),
            Call.GET_AGENTS: lambda out: out.get_agents.CopyFrom(views.get_agents(cluster)),
            Call.GET_FRAMEWORKS: lambda out: out.get_frameworks.CopyFrom(views.get_frameworks(cluster)),
            Call.GET_EXECUTORS: lambda out: out.get_executors.SetInParent(),
            Call.GET_OPERATIONS: lambda out: out.get_operations.SetInParent(),
            Call.GET_TASKS: lambda out: out.get_tasks.CopyFrom(views.get_tasks(cluster)),
            Call.GET_ROLES: lambda out: out.get_roles.CopyFrom(views.get_roles(cluster)),
            Call.GET_WEIGHTS: lambda out: out.get_weights.SetInParent(),
            Call.GET_QUOTA: lambda out: out.get_quota.status.CopyFrom(quota.status(cluster)),
            Call.GET_MAINTENANCE_SCHEDULE: lambda out: out.get_maintenance_schedule.schedule.CopyFrom(
                maintenance.get_schedule(cluster)
            ),
            Call.GET_MAINTENANCE_STATUS: lambda out: out.get_maintenance_status.status.CopyFrom(
                maintenance.get_status(cluster)
            ),
            Call.GET_MASTER: lambda out: out.get_master.CopyFrom(views.get_master(cluster, started)),
        }

    # --- queries ---

    def _health(self, out: Reply) -> None:
        out.get_health.healthy = True

    def _version(self, out: Reply) -> None:
        out.get_version.version_info.version = self._cluster.config.version

    def _metrics(self, out: Reply) -> None:
        for name, value in self._figures().items():
            out.get_metrics.metrics.add(name=name, value=value)

    def _get_flags(self, out: Reply) -> None:
        for name, value in sorted(self._flags.items()):
            out.get_flags.flags.add(name=name, value=value)

    # --- the way of a call ---

    def handle(self, request: Request, now: float) -> Response | Watch:
        """Carry out one call; who may call has been checked. To watch is only checked, and handed back."""
        wrong_method = method_error(request)
        if wrong_method is not None:
            return wrong_method
        call = parse(request, Call)
        if isinstance(call, Response):
            return call
        error = _validate(call)
        if error is not None:
            return error
        content_type = accepted_type(request)
        if content_type is None:
            return refuse(406, NOT_ACCEPTABLE)
        if call.type == Call.SUBSCRIBE:
            return Watch(content_type)
        query = self._queries.get(call.type)
        if query is None:
            return self._act(call, now)
        out = Reply(type=Reply.Type.Value(Call.Type.Name(call.type)))
        query(out)
        return _render(out, content_type)

    def _act(self, call: master.Call, now: float) -> Response:
        cluster = self._cluster
        if call.type == Call.TEARDOWN:
            return self._teardown(call.teardown.framework_id.value, now)
        if call.type == Call.MARK_AGENT_GONE:
            agent_id = call.mark_agent_gone.agent_id.value
            found = agents.mark_gone(cluster, agent_id, now)
            return OK if found else refuse(404, f"Agent '{agent_id}' not found")
        if call.type in _MAINTENANCE or call.type == Call.UPDATE_QUOTA:
            error = self._change(call, now)
            return OK if error is None else refuse(400, error)
        if call.type in (Call.LIST_FILES, Call.READ_FILE):
            return refuse(404, "")
        if call.type in _RESOURCES:
            return self._resources_call(call)
        if call.type in (Call.DRAIN_AGENT, Call.DEACTIVATE_AGENT, Call.REACTIVATE_AGENT):
            return self._agent_call(call, now)
        return refuse(501, f"{Call.Type.Name(call.type)} is not served by this master")

    def _change(self, call: master.Call, now: float) -> str | None:
        cluster = self._cluster
        if call.type == Call.UPDATE_MAINTENANCE_SCHEDULE:
            return maintenance.update_schedule(cluster, call.update_maintenance_schedule.schedule, now)
        if call.type == Call.START_MAINTENANCE:
            return maintenance.start(cluster, list(call.start_maintenance.machines), now)
        if call.type == Call.STOP_MAINTENANCE:
            return maintenance.stop(cluster, list(call.stop_maintenance.machines))
        return quota.update(cluster, list(call.update_quota.quota_configs), call.update_quota.force)

    def _agent_call(self, call: master.Call, now: float) -> Response:
        body = getattr(call, _BODIES[call.type])
        agent: Agent | None = self._cluster.agents.get(body.agent_id.value)
        if agent is None:
            return refuse(404, f"Agent '{body.agent_id.value}' not found")
        if call.type == Call.DEACTIVATE_AGENT:
            agents.deactivate(self._cluster, agent)
        elif call.type == Call.REACTIVATE_AGENT:
            agents.reactivate(agent)
        else:
            grace = call.drain_agent.max_grace_period
            limit = (
                grace.seconds + grace.nanos / 1e9 if call.drain_agent.HasField("max_grace_period") else -1.0
            )
            agents.drain(self._cluster, agent, limit, now)
        return OK

    def _resources_call(self, call: master.Call) -> Response:
        body = getattr(call, _BODIES[call.type])
        agent = self._cluster.agents.get(body.agent_id.value)
        if agent is None:
            return refuse(400, "No agent found with specified ID")
        operation = mesos.Offer.Operation(type=_RESOURCES[call.type])
        if call.type == Call.RESERVE_RESOURCES:
            operation.reserve.resources.extend(body.resources)
        elif call.type == Call.UNRESERVE_RESOURCES:
            operation.unreserve.resources.extend(body.resources)
        elif call.type == Call.CREATE_VOLUMES:
            operation.create.volumes.extend(body.volumes)
        else:
            operation.destroy.volumes.extend(body.volumes)
        status, text = operations.by_operator(self._cluster, agent, operation)
        return ACCEPTED if status == ACCEPTED.status else refuse(status, text)

    def _teardown(self, framework_id: str, now: float) -> Response:
        framework = self._cluster.frameworks.get(framework_id)
        if framework is None:
            return refuse(400, "No framework found with specified ID")
        frameworks.remove(self._cluster, framework, now)
        return OK

    # --- the old endpoints ---

    def teardown(self, request: Request, now: float) -> Response:
        """Answer POST ``/teardown`` with ``frameworkId=…``."""
        wrong_method = method_error(request)
        if wrong_method is not None:
            return wrong_method
        form = parse_qs(request.body.decode("utf-8", "replace"))
        return self._teardown(form.get("frameworkId", [""])[0], now)

    def version(self) -> Response:
        """Answer GET ``/version``."""
        return Response(200, mesos_json.dumps({"version": self._cluster.config.version}), JSON)


def _validate(call: master.Call) -> Response | None:
    if not call.HasField("type"):
        return refuse(400, "Failed to validate master::Call: Expecting 'type' to be present")
    body = _BODIES.get(call.type)
    if body is not None and not call.HasField(body):  # type: ignore[arg-type]
        return refuse(400, f"Failed to validate master::Call: Expecting '{body}' to be present")
    return None


def _with_empty_lists(value: dict[str, Any]) -> dict[str, Any]:
    """Add the lists that Mesos prints even when they are empty."""
    for name, lists in _ALWAYS_LISTED.items():
        inner = value.get(name)
        if inner is not None:
            value[name] = {**{each: [] for each in lists}, **inner}
    for name in ("get_state", "subscribed"):
        if name in value:
            _with_empty_lists(value[name])
    return value


def rendered(message: master.Response | master.Event, content_type: str) -> bytes:
    """Serialise a reply or an event."""
    if content_type == JSON:
        return mesos_json.dumps(_with_empty_lists(mesos_json.to_dict(message)))
    return message.SerializeToString()


def _render(out: master.Response, content_type: str) -> Response:
    return Response(200, rendered(out, content_type), content_type)

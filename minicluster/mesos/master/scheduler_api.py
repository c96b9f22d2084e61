"""The scheduler API: which calls are well formed, and what each one does.

The order of the checks is Mesos' own (recordings ``06-invalid``, ``16-auth``): method, type, parsing,
validation, Accept, framework, principal, stream id. Everything that passes is answered 202, whatever comes of
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common import basic_auth
from minicluster.mesos.common.basic_auth import Credentials, principal_of
from minicluster.mesos.common.http_messages import ACCEPTED, JSON, PROTOBUF, Request, Response, refuse
from minicluster.mesos.common.media_types import accepted_type, method_error
from minicluster.mesos.master.core import accept, frameworks, operations, tasks
from minicluster.mesos.master.core.state import Framework, Master
from peloton.mesos import json as mesos_json

Call = scheduler.Call
"""Secrets by principal."""

_BODIES: dict[int, str] = {
    Call.SUBSCRIBE: "subscribe",
    Call.ACCEPT: "accept",
    Call.DECLINE: "decline",
    Call.ACCEPT_INVERSE_OFFERS: "accept_inverse_offers",
    Call.DECLINE_INVERSE_OFFERS: "decline_inverse_offers",
    Call.KILL: "kill",
    Call.SHUTDOWN: "shutdown",
    Call.ACKNOWLEDGE: "acknowledge",
    Call.ACKNOWLEDGE_OPERATION_STATUS: "acknowledge_operation_status",
    Call.RECONCILE: "reconcile",
    Call.RECONCILE_OPERATIONS: "reconcile_operations",
    Call.MESSAGE: "message",
    Call.REQUEST: "request",
    Call.UPDATE_FRAMEWORK: "update_framework",
}
_TYPES = "application/json or application/x-protobuf"


def unauthorized(realm: str) -> Response:
    """Return the 401 of one of Mesos' realms (``scheduler``, ``readwrite``, ``readonly``)."""
    return basic_auth.unauthorized(f"mesos-master-{realm}")


NOT_ACCEPTABLE = "Expecting 'Accept' to allow 'application/x-protobuf' or 'application/json'"


def parse(request: Request, kind: type[mesos_json.M]) -> mesos_json.M | Response:
    """Read a call of either type out of a request, or return the refusal."""
    content_type = request.headers.get("content-type")
    if content_type == PROTOBUF:
        try:
            return kind.FromString(request.body)
        except DecodeError:
            return refuse(400, "Failed to parse body into Call protobuf")
    if content_type == JSON:
        try:
            return mesos_json.decode(request.body, kind)
        except mesos_json.JsonError as error:
            return refuse(400, str(error))
    if content_type is None:
        return refuse(400, "Expecting 'Content-Type' to be present")
    return refuse(415, f"Expecting 'Content-Type' of {_TYPES}")


def _invalid(what: str) -> Response:
    return refuse(400, f"Failed to validate scheduler::Call: {what}")


def _validate(call: scheduler.Call, principal: str | None) -> Response | None:
    if not call.HasField("type"):
        return _invalid("Expecting 'type' to be present")
    if call.type == Call.SUBSCRIBE:
        return _validate_subscribe(call, principal)
    if not call.HasField("framework_id"):
        return _invalid("Expecting 'framework_id' to be present")
    body = _BODIES.get(call.type)
    if body is not None and not call.HasField(body):  # type: ignore[arg-type]
        return _invalid(f"Expecting '{body}' to be present")
    if call.type == Call.ACKNOWLEDGE and len(call.acknowledge.uuid) != 16:
        return _invalid("Not a valid UUID")
    return None


def _validate_subscribe(call: scheduler.Call, principal: str | None) -> Response | None:
    if not call.HasField("subscribe"):
        return _invalid("Expecting 'subscribe' to be present")
    info = call.subscribe.framework_info
    if call.HasField("framework_id") != info.HasField("id") or call.framework_id.value != info.id.value:
        return _invalid("'framework_id' differs from 'subscribe.framework_info.id'")
    if principal is not None and info.HasField("principal") and info.principal != principal:
        return _invalid(_other_principal(principal, info.principal))
    return None


def _other_principal(principal: str, owner: str) -> str:
    return f"Authenticated principal '{principal}' does not match principal '{owner}' set in `FrameworkInfo`"


def _belongs(request: Request, framework: Framework | None, principal: str | None) -> Response | None:
    if framework is None:
        return refuse(400, "Framework cannot be found")
    if principal is not None and framework.info.principal != principal:
        return refuse(400, _other_principal(principal, framework.info.principal))
    if framework.stream is None:
        return refuse(403, "Framework is not subscribed")
    stream = request.headers.get("mesos-stream-id")
    if stream is None:
        return refuse(400, "All non-subscribe calls should include the 'Mesos-Stream-Id' header")
    if stream != framework.stream:
        return refuse(
            400,
            f"The stream ID '{stream}' included in this request didn't match the stream ID currently "
            f"associated with framework ID {framework.id}",
        )
    return None


@dataclass(frozen=True, slots=True)
class Subscription:
    """A SUBSCRIBE that is well formed: the call, and the media type of the stream."""

    call: scheduler.Call.Subscribe
    content_type: str


def handle(
    cluster: Master,
    request: Request,
    credentials: Credentials | None,
    now: float,
) -> Response | Subscription:
    """Carry out one request to the scheduler API; a subscription is only checked, and handed back."""
    principal = None
    if credentials is not None:
        principal = principal_of(request, credentials)
        if principal is None:
            return unauthorized("scheduler")
    wrong_method = method_error(request)
    if wrong_method is not None:
        return wrong_method
    call = parse(request, Call)
    if isinstance(call, Response):
        return call
    error = _validate(call, principal)
    if error is not None:
        return error
    if call.type == Call.SUBSCRIBE:
        return _subscription(request, call, principal)
    framework = cluster.frameworks.get(call.framework_id.value)
    error = _belongs(request, framework, principal)
    if error is not None or framework is None:
        return error or refuse(400, "Framework cannot be found")
    return _dispatch(cluster, framework, call, now)


def _subscription(request: Request, call: scheduler.Call, principal: str | None) -> Response | Subscription:
    content_type = accepted_type(request)
    if content_type is None:
        return refuse(406, NOT_ACCEPTABLE)
    if "mesos-stream-id" in request.headers:
        return refuse(400, "Subscribe calls should not include the 'Mesos-Stream-Id' header")
    if principal is not None and not call.subscribe.framework_info.HasField("principal"):
        call.subscribe.framework_info.principal = principal
    return Subscription(call.subscribe, content_type)


_Action = Callable[[Master, Framework, scheduler.Call, float], None]

_ACTIONS: dict[int, _Action] = {
    Call.ACKNOWLEDGE: lambda c, f, call, now: tasks.acknowledge(c, f, call.acknowledge),
    Call.ACCEPT: lambda c, f, call, now: accept.accept(c, f, call.accept, now),
    Call.DECLINE: lambda c, f, call, now: accept.decline(c, f, call.decline, now),
    Call.KILL: lambda c, f, call, now: tasks.kill(c, f, call.kill, now),
    Call.SHUTDOWN: lambda c, f, call, now: tasks.shutdown(c, f, call.shutdown),
    Call.RECONCILE: lambda c, f, call, now: tasks.reconcile(c, f, call.reconcile.tasks, now),
    Call.RECONCILE_OPERATIONS: lambda c, f, call, now: operations.reconcile(c, f, call.reconcile_operations),
    Call.REVIVE: lambda c, f, call, now: frameworks.revive(c, f, call.revive.roles, now),
    Call.SUPPRESS: lambda c, f, call, now: frameworks.suppress(f, call.suppress.roles),
    Call.TEARDOWN: lambda c, f, call, now: frameworks.remove(c, f, now),
    Call.ACCEPT_INVERSE_OFFERS: lambda c, f, call, now: accept.answer_inverse(
        c, f, call.accept_inverse_offers.inverse_offer_ids, call.accept_inverse_offers.filters, True, now
    ),
    Call.DECLINE_INVERSE_OFFERS: lambda c, f, call, now: accept.answer_inverse(
        c, f, call.decline_inverse_offers.inverse_offer_ids, call.decline_inverse_offers.filters, False, now
    ),
}
"""What is carried out. MESSAGE, REQUEST and ACKNOWLEDGE_OPERATION_STATUS are taken and come to nothing: there
are no executors of frameworks here, and statuses of operations are not repeated."""


_COUNTED: dict[int, str] = {
    Call.ACCEPT: "messages_launch_tasks",
    Call.ACKNOWLEDGE: "messages_status_update_acknowledgement",
    Call.DECLINE: "messages_decline_offers",
    Call.KILL: "messages_kill_task",
    Call.RECONCILE: "messages_reconcile_tasks",
    Call.REVIVE: "messages_revive_offers",
    Call.SUPPRESS: "messages_suppress_offers",
    Call.TEARDOWN: "messages_unregister_framework",
}
"""By which names Mesos' metrics count them."""


def _dispatch(cluster: Master, framework: Framework, call: scheduler.Call, now: float) -> Response:
    if call.type == Call.UPDATE_FRAMEWORK:
        error = frameworks.update_info(cluster, framework, call.update_framework)
        if error is None:
            return Response(200)
        return refuse(400, f"FrameworkInfo update is not valid: {error}")
    if call.type in _COUNTED:
        cluster.counts[_COUNTED[call.type]] += 1
    action = _ACTIONS.get(call.type)
    if action is not None:
        action(cluster, framework, call, now)
    return ACCEPTED

"""Requests to the private services with fields missing, and with numbers that are none: a client in another
language may send them. No daemon answers with UNKNOWN or INTERNAL, and all go on as before."""

from __future__ import annotations

import math
import uuid
from random import Random
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.private.eventstream import eventstream_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.reconcile import reconcile_pb2
from peloton.private.jobmgrsvc import jobmgrsvc_pb2
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgr.explain import explain_pb2
from peloton.private.resmgr.preemption import preemption_pb2
from peloton.private.resmgr.waiting import waiting_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2

from .conftest import Harness
from .test_bad_input import address, refusal, unharmed

__all__ = ["unharmed"]

SERVICES = {
    hostsvc_pb2: "hostmgr0",
    eventstream_pb2: "hostmgr0",
    reconcile_pb2: "hostmgr0",
    resmgrsvc_pb2: "resmgr0",
    explain_pb2: "resmgr0",
    preemption_pb2: "resmgr0",
    waiting_pb2: "resmgr0",
    jobmgrsvc_pb2: "jobmgr0",
}
"""The modules of the private services, each with the daemon that serves them."""
LASTING = {"DisableKillTasks"}
"""Methods whose effect no later call takes back."""
DEFECTS = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)
WAIT_SECONDS = 2.0
REQUESTS = 8
"""Of each method, for one seed."""
LEFT_OUT = 0.25
"""Of the fields, so much."""
DEEPEST = 4


METHODS: list[tuple[str, MethodDescriptor]] = [
    (daemon, method)
    for module, daemon in SERVICES.items()
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if method.name not in LASTING and not method.server_streaming
]


def code(channel: grpc.Channel, method: MethodDescriptor, request: bytes) -> grpc.StatusCode:
    path = f"/{method.containing_service.full_name}/{method.name}"
    try:
        channel.unary_unary(path, bytes, bytes)(request, timeout=WAIT_SECONDS)
    except grpc.RpcError as failure:
        found: grpc.StatusCode = failure.code()
        return found
    return grpc.StatusCode.OK


@pytest.mark.parametrize("seed", range(3))
def test_requests_with_missing_fields_are_refused(harness: Harness, unharmed: None, seed: int) -> None:
    assert len(METHODS) > 20
    random = Random(seed)
    channels = {name: grpc.insecure_channel(address(harness, name)) for name in set(SERVICES.values())}
    for daemon, method in METHODS:
        for _ in range(REQUESTS):
            request = GetMessageClass(method.input_type)()
            fill(random, request)
            found = code(channels[daemon], method, _partial(request))
            assert found not in DEFECTS, (method.full_name, request)
    for channel in channels.values():
        channel.close()


def fill(random: Random, message: Message, depth: int = 0) -> None:
    """Set some fields, in messages within it too, required or not."""
    for field in message.DESCRIPTOR.fields:
        if random.random() < LEFT_OUT or (depth > DEEPEST and field.message_type is not None):
            continue
        held = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.message_type is not None:
            child = held.add() if field.is_repeated else held
            child.SetInParent()
            fill(random, child, depth + 1)
        elif field.is_repeated:
            held.append(scalar(random, field))
        else:
            setattr(message, field.name, scalar(random, field))


def scalar(random: Random, field: FieldDescriptor) -> object:
    if field.enum_type is not None:
        return random.choice([value.number for value in field.enum_type.values])
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        text = random.choice(["", "a", f"{uuid.UUID(int=random.getrandbits(128))}-0-1"])
        return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
    if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return random.choice([0.0, 1.5, -1.0, math.nan, math.inf, -math.inf, 1e308])
    return random.choice([0, 1, 2, 100])


def _partial(request: Any) -> bytes:
    return bytes(request.SerializePartialToString())


ONE_RUN = resmgr_pb2.Placement.Task()
ONE_RUN.mesosTaskID.SetInParent()
PLACEMENT = resmgr_pb2.Placement(hostname="h", taskIDs=[ONE_RUN])
NAN = task_pb2.ResourceConfig(cpuLimit=float("nan"))


@pytest.mark.parametrize(
    ("name", "method", "request_"),
    [
        ("resmgr0", "SetPlacements", resmgrsvc_pb2.SetPlacementsRequest(placements=[PLACEMENT])),
        ("hostmgr0", "KillTasks", hostsvc_pb2.KillTasksRequest(taskIds=[mesos_pb2.TaskID()])),
        (
            "hostmgr0",
            "ShutdownExecutors",
            hostsvc_pb2.ShutdownExecutorsRequest(
                executors=[hostsvc_pb2.ExecutorOnAgent(agentId=mesos_pb2.AgentID())]
            ),
        ),
        ("hostmgr0", "LaunchTasks", hostsvc_pb2.LaunchTasksRequest(agentId=mesos_pb2.AgentID())),
        ("hostmgr0", "GetHostsByQuery", hostsvc_pb2.GetHostsByQueryRequest(resource=NAN)),
    ],
    ids=["SetPlacements", "KillTasks", "ShutdownExecutors", "LaunchTasks", "GetHostsByQuery"],
)
def test_a_message_without_a_required_field_is_refused(
    harness: Harness, unharmed: None, name: str, method: str, request_: Any
) -> None:
    service = {"resmgr0": "resmgr.ResourceManagerService", "hostmgr0": "hostmgr.hostsvc.InternalHostService"}
    path = f"/peloton.private.{service[name]}/{method}"
    assert refusal(harness, name, path, _partial(request_)) is grpc.StatusCode.INVALID_ARGUMENT

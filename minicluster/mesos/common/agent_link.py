"""The private protocol between master and agents: its messages, and their frames on TCP.

A simulated agent gets and gives the same messages inside the master's process, without frames. A frame is a
4-byte big-endian length and a JSON object; protobuf values travel as base64 of their bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from google.protobuf.message import Message

from mesos.v1 import mesos_pb2 as mesos

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Longest frame in bytes; a longer one breaks the link."""
UPGRADE_PATH = "/master/agent-link"
UPGRADE_NAME = "peloton-agent-link"


class LinkError(ValueError):
    """What came over the link is not of this protocol."""


# --- master to agent -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Registered:
    """The agent has its id; it must answer each ping, and receives one each ``ping_seconds``."""

    agent_id: str
    ping_seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The agent may not (any longer) belong to this master; it ends, its tasks too when ``kill_tasks``."""

    reason: str
    kill_tasks: bool


@dataclass(frozen=True, slots=True)
class Ping:
    """Requests a pong."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a task."""

    framework: mesos.FrameworkInfo
    task: mesos.TaskInfo


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill a task. ``grace_seconds`` below 0: the task's own policy. ``draining`` gives the reason."""

    framework_id: str
    task_id: str
    grace_seconds: float = -1.0
    draining: bool = False


@dataclass(frozen=True, slots=True)
class ShutdownExecutor:
    """Kill an executor (of a command task: the task) without grace."""

    framework_id: str
    executor_id: str


@dataclass(frozen=True, slots=True)
class ShutdownFramework:
    """Kill all tasks of a framework and forget its updates."""

    framework_id: str


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """The framework has taken the update ``uuid``; the next one may be sent."""

    framework_id: str
    task_id: str
    uuid: bytes


@dataclass(frozen=True, slots=True)
class ResendUpdates:
    """Send the oldest unacknowledged update of each task again, now."""

    framework_id: str


@dataclass(frozen=True, slots=True)
class ApplyResources:
    """Checkpoint these dynamic reservations and persistent volumes in place of the earlier ones.

    With an operation id: answer by OperationApplied.
    """

    resources: tuple[mesos.Resource, ...]
    framework_id: str = ""
    operation_id: str = ""


MasterMessage = (
    Registered
    | Refused
    | Ping
    | Launch
    | Kill
    | ShutdownExecutor
    | ShutdownFramework
    | Acknowledge
    | ResendUpdates
    | ApplyResources
)


# --- agent to master -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentTask:
    """A task as the agent knows it.

    ``statuses``: those so far, none before it starts. ``unacknowledged``: its oldest pending update.
    """

    framework_id: str
    task: mesos.TaskInfo
    statuses: tuple[mesos.TaskStatus, ...]
    unacknowledged: mesos.TaskStatus | None


@dataclass(frozen=True, slots=True)
class Register:
    """The agent registers; with ``info.id`` it registers again."""

    info: mesos.AgentInfo
    ip: str
    version: str
    frameworks: tuple[mesos.FrameworkInfo, ...] = ()
    tasks: tuple[AgentTask, ...] = ()
    checkpointed: tuple[mesos.Resource, ...] = ()
    """Its dynamic reservations and persistent volumes."""


@dataclass(frozen=True, slots=True)
class Unregister:
    """The agent leaves for good."""


@dataclass(frozen=True, slots=True)
class Pong:
    """Answer to a ping."""


@dataclass(frozen=True, slots=True)
class Update:
    """A status update with its uuid, and the newest state, which later updates report."""

    framework_id: str
    status: mesos.TaskStatus
    latest_state: int


@dataclass(frozen=True, slots=True)
class OperationApplied:
    """The agent has carried out an operation of a framework."""

    framework_id: str
    operation_id: str
    uuid: bytes


AgentMessage = Register | Unregister | Pong | Update | OperationApplied

_TYPES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        *(Registered, Refused, Ping, Launch, Kill, ShutdownExecutor, ShutdownFramework, Acknowledge),
        *(ResendUpdates, ApplyResources, Register, Unregister, Pong, Update, OperationApplied, AgentTask),
    )
}
_FIELDS = {cls: tuple(item.name for item in fields(cls)) for cls in _TYPES.values()}
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_MESSAGES: dict[str, type[Message]] = {
    cls.__name__: cls
    for cls in (mesos.AgentInfo, mesos.FrameworkInfo, mesos.Resource, mesos.TaskInfo, mesos.TaskStatus)
}


def _pack(value: Any) -> Any:
    if isinstance(value, Message):
        return {"proto": type(value).__name__, "data": _text(value.SerializeToString())}
    if isinstance(value, bytes):
        return {"bytes": _text(value)}
    if isinstance(value, tuple):
        return [_pack(item) for item in value]
    if (names := _FIELDS.get(type(value))) is not None:
        return {"type": type(value).__name__, **{name: _pack(getattr(value, name)) for name in names}}
    return value


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_unpack(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "proto" in value:
        return _MESSAGES[value["proto"]].FromString(base64.b64decode(value["data"]))
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    cls = _TYPES[value["type"]]
    known = _FIELDS[cls]
    return cls(**{name: _unpack(item) for name, item in value.items() if name in known})


def encode(message: MasterMessage | AgentMessage) -> bytes:
    """Return the frame of a message."""
    body = _ENCODER.encode(_pack(message)).encode()
    return len(body).to_bytes(4, "big") + body


def _decode_one(body: bytes) -> Any:
    try:
        message = _unpack(json.loads(body))
        if type(message) not in _FIELDS:
            raise TypeError(f"{type(message).__name__} is no message")
        return message
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LinkError(f"a frame of {len(body)} bytes is no message of this protocol: {error}") from error


class Decoder:
    """Cuts a byte stream into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the messages that ``data`` completes.

        Raise LinkError when the stream is not of this protocol; then the link must be closed.
        """
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 4:
            length = int.from_bytes(buffer[:4], "big")
            if length > MAX_FRAME_BYTES:
                raise LinkError(f"a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
            if len(buffer) < 4 + length:
                return
            body = bytes(buffer[4 : 4 + length])
            del buffer[: 4 + length]
            yield _decode_one(body)

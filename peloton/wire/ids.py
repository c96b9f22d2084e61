"""Ids as the internal API carries them: in Mesos' messages."""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.model.ids import MesosTaskId


def agent_id(value: str) -> mesos_pb2.AgentID:
    """Return the message of an agent's id."""
    return mesos_pb2.AgentID(value=value)


def run_id(value: MesosTaskId) -> mesos_pb2.TaskID:
    """Return the message of a run's id."""
    return mesos_pb2.TaskID(value=value)


def executor_id(value: str) -> mesos_pb2.ExecutorID:
    """Return the message of an executor's id."""
    return mesos_pb2.ExecutorID(value=value)

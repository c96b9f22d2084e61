"""Reasons of statuses."""

from __future__ import annotations

import pytest

from mesos.v1 import mesos_pb2
from peloton.wire.mesos import reason_name


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (mesos_pb2.TaskStatus.REASON_COMMAND_EXECUTOR_FAILED, "COMMAND_EXECUTOR_FAILED"),
        (mesos_pb2.TaskStatus.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED, ""),
        (mesos_pb2.TaskStatus.REASON_TASK_CHECK_STATUS_UPDATED, ""),
        (None, ""),
    ],
)
def test_the_result_of_a_check_is_no_reason(
    given: mesos_pb2.TaskStatus.Reason.ValueType | None, named: str
) -> None:
    assert reason_name(mesos_pb2.TaskStatus(reason=given)) == named

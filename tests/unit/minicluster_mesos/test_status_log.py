"""The statuses of a task as the master keeps them."""

from __future__ import annotations

import pytest

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.master.core.status_log import StatusLog


def a_status(state: mesos.TaskState.ValueType, timestamp: float) -> mesos.TaskStatus:
    return mesos.TaskStatus(task_id=mesos.TaskID(value="t"), state=state, timestamp=timestamp)


def test_the_newest_of_several_with_one_state_is_kept() -> None:
    starting = a_status(mesos.TASK_STARTING, 1)
    first, second = (a_status(mesos.TASK_RUNNING, at) for at in (2, 3))
    log = StatusLog([starting, first])
    log.append(second)
    assert list(log) == [starting, second]
    assert list(reversed(log)) == [second, starting]
    assert (log.first, log.last) == (starting, second)


def test_a_task_may_have_no_status() -> None:
    log = StatusLog()
    assert not log and list(log) == []
    with pytest.raises(IndexError):
        _ = log.last

"""What simulated agents tell of their tasks, as hostmgr reads it."""

from __future__ import annotations

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import resources as res
from minicluster.mesos.master.core.simulated_usage import LEAST, MOST, containers
from minicluster.mesos.master.core.state import Agent, Task
from minicluster.mesos.master.core.status_log import StatusLog
from peloton.mesos.agent_usage import containers_path, usages


def task(name: str, *states: int) -> Task:
    info = mesos.TaskInfo(name=name)
    info.task_id.value = name
    bundle = res.from_messages(
        [
            mesos.Resource(name="cpus", type=mesos.Value.SCALAR, scalar=mesos.Value.Scalar(value=2)),
            mesos.Resource(name="mem", type=mesos.Value.SCALAR, scalar=mesos.Value.Scalar(value=100)),
        ]
    )
    statuses = [
        mesos.TaskStatus(state=state, timestamp=10.0 * at, task_id=info.task_id)  # type: ignore[arg-type]
        for at, state in enumerate(states)
    ]
    return Task(info, "F", "A", "*", bundle, statuses=StatusLog(statuses))


def agent(*tasks: Task) -> Agent:
    made = Agent("A", mesos.AgentInfo(hostname="h", port=5050), "127.0.0.1", "1", {}, {}, 0.0)
    made.number = 7
    made.tasks = {("F", each.id): each for each in tasks}
    return made


def test_tasks_that_run_use_a_share_of_what_they_have() -> None:
    running = task("a", mesos.TASK_STARTING, mesos.TASK_RUNNING)
    others = (task("b", mesos.TASK_STARTING), task("c", mesos.TASK_RUNNING, mesos.TASK_FINISHED), task("d"))
    [(name, used)] = usages(containers(agent(running, *others), 20.0), "x").items()
    assert (name, used.at, used.cpu_limit, used.memory_limit_bytes) == ("a", 20.0, 2.0, 100 * 1024**2)
    share = used.cpu_seconds / (2 * 10)
    assert LEAST <= share <= MOST
    assert used.memory_bytes == used.memory_peak_bytes == int(share * 100 * 1024**2)
    [later] = usages(containers(agent(running), 30.0), "x").values()
    assert later.cpu_seconds == 2 * used.cpu_seconds


def test_each_has_a_path_of_its_own() -> None:
    assert agent().pid == "slave(7)@127.0.0.1:5050"
    assert containers_path(agent().pid) == "/slave(7)/containers"
    for unusual in ("", "10.0.0.7:5051", "../x@10.0.0.7:5051", "slave(1)/..@10.0.0.7:5051"):
        assert containers_path(unusual) == "/containers"

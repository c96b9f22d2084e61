"""GPUs of an agent: which run has which, and what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.checkpoint import Checkpoint
from minicluster.mesos.agent.devices import (
    DeviceError,
    Devices,
    container_variables,
    devices_of,
    variables,
    wanted,
)
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.location import RunLocation, environment
from minicluster.mesos.common.resource_notation import parse_resources
from minicluster.mesos.common.resources import to_messages


def task_with(gpus: float | None, **variables: str) -> mesos.TaskInfo:
    task = mesos.TaskInfo(name="t")
    task.task_id.value, task.agent_id.value = "t", "a"
    if gpus is not None:
        task.resources.add(name="gpus", type=mesos.Value.SCALAR).scalar.value = gpus
    for name, value in variables.items():
        task.command.environment.variables.add(name=name, value=value)
    return task


@pytest.mark.parametrize(
    ("resources", "listed", "found"),
    [
        ("cpus:1", "", ()),
        ("cpus:1;gpus:3", "", ("0", "1", "2")),
        ("gpus:2", "3, 1", ("3", "1")),
        ("gpus:1;gpus(role):1", "GPU-a,GPU-b", ("GPU-a", "GPU-b")),
    ],
)
def test_the_devices_of_an_agent(resources: str, listed: str, found: tuple[str, ...]) -> None:
    assert devices_of(parse_resources(resources), listed) == found


@pytest.mark.parametrize(
    ("resources", "listed", "wrong"),
    [
        ("gpus:1.5", "", "1.5 is not a whole number of GPUs"),
        ("gpus:2", "0", "'0' has 1 devices, the resources have gpus:2"),
        ("cpus:1", "0", "'0' has 1 devices, the resources have gpus:0"),
        ("gpus:2", "0,0", "not a list of different devices"),
        ("gpus:2", "0,", "not a list of different devices"),
    ],
)
def test_devices_that_an_agent_cannot_have(resources: str, listed: str, wrong: str) -> None:
    with pytest.raises(DeviceError, match=wrong):
        devices_of(parse_resources(resources), listed)


def test_a_task_asks_for_whole_devices() -> None:
    assert [wanted(task_with(gpus)) for gpus in (None, 0, 1, 4)] == [0, 0, 1, 4]
    reserved = mesos.TaskInfo(resources=to_messages(parse_resources("gpus:1;gpus(role):1")))
    assert wanted(reserved) == 2
    with pytest.raises(DeviceError, match=r"0\.5 is not a whole number"):
        wanted(task_with(0.5))


def test_what_a_process_is_told() -> None:
    assert variables(()) == {"CUDA_VISIBLE_DEVICES": ""}
    assert variables(("2", "0")) == {"CUDA_VISIBLE_DEVICES": "2,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert variables(("GPU-a",)) == {"CUDA_VISIBLE_DEVICES": "GPU-a"}


def test_what_a_container_is_told() -> None:
    none = container_variables(())
    assert none == {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    some = container_variables(("2", "3"))
    assert (some["NVIDIA_VISIBLE_DEVICES"], some["CUDA_VISIBLE_DEVICES"]) == ("2,3", "0,1")
    named = container_variables(("GPU-a", "GPU-b"))
    assert named["NVIDIA_VISIBLE_DEVICES"] == named["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"


def test_the_devices_of_the_agent_count_more_than_a_variable_of_the_task(tmp_path: Path) -> None:
    task = task_with(1, CUDA_VISIBLE_DEVICES="0,1,2,3", CUDA_DEVICE_ORDER="FASTEST_FIRST")
    mine = RunLocation("a", "f", "c", tmp_path, ("1",))
    found = environment(task, mine)
    assert (found["CUDA_VISIBLE_DEVICES"], found["CUDA_DEVICE_ORDER"]) == ("1", "PCI_BUS_ID")
    assert environment(task, RunLocation("a", "f", "c", tmp_path))["CUDA_VISIBLE_DEVICES"] == ""


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(1, 4)), max_size=60))
def test_a_device_has_one_owner_at_a_time_and_runs_take_turns(steps: list[tuple[bool, int, int]]) -> None:
    devices, owned = Devices(("0", "1", "2", "3")), dict[tuple[str, str], tuple[str, ...]]()
    waiting: list[tuple[tuple[str, str], int]] = []
    for begins, number, count in steps:
        key = ("f", str(number))
        known = key in owned or any(key == other for other, _ in waiting)
        if begins and not known:
            names = devices.take(key, count)
            assert names is None or not waiting, "it overtook others"
            waiting += [(key, count)] if names is None else []
            owned |= {key: names} if names is not None else {}
        elif not begins:
            devices.give_back(key)
            owned.pop(key, None)
            waiting = [each for each in waiting if each[0] != key]
            for due in devices.due():
                assert waiting[0][0] == due
                names = devices.take(*waiting.pop(0))
                assert names is not None
                owned[due] = names
        given_out = [name for names in owned.values() for name in names]
        assert len(given_out) == len(set(given_out))
        assert sorted([*given_out, *devices.free]) == ["0", "1", "2", "3"]
        assert not waiting or waiting[0][1] > len(devices.free), "one waits that could begin"


def test_what_a_run_has_is_written_down(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.make()
    checkpoint = Checkpoint(layout)
    for name in ("with", "without"):
        checkpoint.begin(name, mesos.FrameworkInfo(user="u", name="n"), task_with(1))
    checkpoint.devices("with", ("1", "GPU-b"))
    status = mesos.TaskStatus(state=mesos.TASK_RUNNING, uuid=b"1")
    status.task_id.value = "t"
    checkpoint.update("with", status)
    found = {run.container_id: run for run in Checkpoint(layout).load()}
    assert found["with"].devices == ("1", "GPU-b") and found["without"].devices == ()
    assert found["with"].pending == [status]

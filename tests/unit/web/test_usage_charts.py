"""Charts of what is used, and who holds memory that was never used."""

from __future__ import annotations

import pytest

from peloton.api.v0.task import task_pb2
from peloton.model.accounting import HOUR_SECONDS
from peloton.model.states import TaskState
from peloton.present.unused import lacking, unused
from peloton.private.hostmgr.sampling import sampling_pb2
from peloton.private.jobmgr.usage import usage_pb2
from peloton.private.resmgr.explain import explain_pb2
from peloton.web.charts import WIDTH
from peloton.web.views.shared.usage_charts import host_charts, instance_charts, job_charts

START = 1_700_000_000 // HOUR_SECONDS * HOUR_SECONDS


def account(begin: float = START + 2 * HOUR_SECONDS) -> usage_pb2.GetJobAccountResponse:
    found = usage_pb2.GetJobAccountResponse(course_begin=begin)
    for hour in range(3):
        amounts = usage_pb2.Amounts(
            held_cpu=7200, used_cpu=1800, held_memory=3600 * 4096, used_memory=3600 * 1024
        )
        found.hours.add(start=START + hour * HOUR_SECONDS, amounts=amounts)
    for minute in (1, 2):
        found.course.add(
            until=begin + 60 * minute, held_cores=4, used_cores=minute, held_mb=4096, used_mb=512
        )
    return found


def test_a_job_has_hours_and_then_shorter_times() -> None:
    cpu, memory = job_charts(account())
    assert (cpu.title, cpu.unit, memory.unit) == ("CPU", "cores", "GB")
    assert cpu.description == "CPU: Used 2, Held 4"
    assert memory.description == "Memory: Used 0.5, Held 4"
    (used,) = cpu.areas
    assert used.path.count("L") == 4  # the first hour begins and ends, the second, and two minutes


def test_nothing_is_drawn_where_nothing_was_measured() -> None:
    assert job_charts(usage_pb2.GetJobAccountResponse()) == ()
    waits = usage_pb2.GetJobAccountResponse(course=[usage_pb2.CoursePoint(until=START)])
    assert job_charts(waits) == ()
    assert instance_charts(usage_pb2.InstanceUsage()) == ()
    assert host_charts(sampling_pb2.HostUsage(memory_bytes=5), (1.0, 100.0)) == ()


def test_hours_alone_are_drawn_where_no_leader_has_followed_the_job() -> None:
    found = account()
    del found.course[:]
    cpu, _ = job_charts(found)
    assert cpu.description == "CPU: Used 0.5, Held 2"
    assert cpu.x_ticks[0][1] == "22:00" and cpu.x_ticks[-1][1] == "01:00"


def test_an_axis_of_little_has_different_numbers() -> None:
    found = usage_pb2.GetJobAccountResponse(course_begin=START)
    found.course.add(until=START + 60, held_cores=0.008, used_cores=0.001, held_mb=64, used_mb=32)
    cpu, _ = job_charts(found)
    assert [text for _, text in cpu.y_ticks] == ["0", "0.004", "0.008"]


@pytest.mark.parametrize(("seconds", "named"), [(0.2, ["start"]), (1.0, ["start", "end"])])
def test_times_that_read_alike_are_named_once_and_a_short_course_is_as_wide_as_any(
    seconds: float, named: list[str]
) -> None:
    begin = START + 2 * HOUR_SECONDS
    found = usage_pb2.GetJobAccountResponse(course_begin=begin)
    found.course.add(until=begin + seconds, held_cores=1, used_cores=0.5, held_mb=64, used_mb=32)
    cpu, _ = job_charts(found)
    assert [anchor for _, _, anchor in cpu.x_ticks] == named
    assert f"L{WIDTH - 2}.0" in cpu.lines[0].path


def test_days_are_named_where_it_is_more_than_one() -> None:
    found = account()
    found.hours[0].start -= 48 * HOUR_SECONDS
    cpu, _ = job_charts(found)
    assert [text for _, text, _ in cpu.x_ticks] == ["12 Nov 22:00", "13 Nov 23:01", "15 Nov 00:02"]


def test_a_host_and_an_instance() -> None:
    usage = sampling_pb2.HostUsage(course_begin=START)
    usage.course.add(until=START + 30, cores=0.5, memory_mb=100)
    assert host_charts(usage, None)[0].description == "CPU: Used 0.5"
    cpu, memory = host_charts(usage, (3.0, 300.0))
    assert (cpu.description, memory.description) == (
        "CPU: Used 0.5, Allocated now 3",
        "Memory: Used 100, Allocated now 300",
    )
    instance = usage_pb2.InstanceUsage(course_begin=START)
    instance.course.add(until=START + 30, held_cores=1, used_cores=0.25, held_mb=256, used_mb=10)
    assert instance_charts(instance)[0].description == "CPU: Used 0.25, Asked for 1"


def used(name: str, asked: float, peak: float, runs: int = 1, pool: str = "p") -> usage_pb2.JobUsed:
    return usage_pb2.JobUsed(
        job_id=f"id-{name}", name=name, pool_id=pool, memory_asked_mb=asked, memory_peak_mb=peak, runs=runs
    )


def test_jobs_that_ask_for_far_more_memory_than_they_have_had() -> None:
    jobs = [
        used("small", 4096, 600),
        used("etl", 4096, 600, runs=12),
        used("elsewhere", 4096, 1, pool="q"),
        used("fair", 1024, 900),
        used("unknown", 1024, 0),
    ]
    assert unused("memory", "p", jobs) == [
        "job etl asks for 4 GB, peaked at 600 MB: "
        "its 12 running instances hold up to 41 GB that was never used",
        "job small asks for 4 GB, peaked at 600 MB: "
        "its 1 running instance holds up to 3.41 GB that was never used",
    ]
    assert len(unused("memory", "p", [used(str(each), 4096, 600) for each in range(10)])) == 3


def test_jobs_that_ask_for_far_more_cores_than_they_use() -> None:
    def cores(name: str, asked: float, mean: float, runs: int, seconds: float = 3600) -> usage_pb2.JobUsed:
        return usage_pb2.JobUsed(
            name=name, pool_id="p", cores_asked=asked, cores_mean=mean, mean_seconds=seconds, runs=runs
        )

    jobs = [cores("idle", 4, 0.3, 12), cores("busy", 4, 3, 9), cores("new", 4, 0.3, 9, 60)]
    assert unused("cpu", "p", jobs) == [
        "job idle asks for 4 cores, used 0.3 in the mean of the last hour: "
        "its 12 running instances hold about 44.4 cores that were not used"
    ]
    assert unused("memory", "p", jobs) == [] and unused("cpu", "q", jobs) == []


@pytest.mark.parametrize(
    ("state", "check", "head", "expected"),
    [
        (TaskState.PENDING, "memory", "", "memory"),
        (TaskState.PENDING, "cpu", "", "cpu"),
        (TaskState.PENDING, "gpu", "", ""),
        (TaskState.PENDING, "memory", "gpu", ""),
        (TaskState.PENDING, "cpu", "memory", "memory"),
        (TaskState.READY, "memory", "", ""),
    ],
)
def test_of_which_kind_a_pool_has_too_little(state: TaskState, check: str, head: str, expected: str) -> None:
    found = explain_pb2.Explanation(
        state=task_pb2.TaskState.ValueType(state), check=explain_pb2.Check(kind=check)
    )
    if head:
        found.head_check.kind = head
    assert lacking(found) == expected
    assert lacking(None) == ""

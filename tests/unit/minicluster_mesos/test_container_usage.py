"""What containers use, from the kernel's accounts and from processes."""

from __future__ import annotations

import os

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.cgroups.usage import Usage
from minicluster.mesos.agent.container_usage import ProcessUsage, process_usage, processes, statistics

MB = 1024 * 1024
STAT = "42 (an (odd) name) S 1 42 41 0 -1 4194560 1 2 0 0 100 50 200 25 20 0 3 0 999 12345678 250 99"


def task() -> mesos.TaskInfo:
    made = mesos.TaskInfo()
    for name, value in (("cpus", 0.5), ("mem", 64)):
        made.resources.add(name=name, type=mesos.Value.SCALAR).scalar.value = value
    return made


def test_a_process_is_read_whatever_its_name() -> None:
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    assert process_usage(STAT) == ProcessUsage(42, 41, 3, 300 / ticks, 75 / ticks, 250 * page)
    assert processes()[os.getpid()].session == os.getsid(0)


def test_the_account_of_the_kernel_goes_before_that_of_processes() -> None:
    usage = Usage(
        memory=20 * MB,
        memory_peak=30 * MB,
        memory_limit=64 * MB,
        anonymous=15 * MB,
        cached=5 * MB,
        user_seconds=1.5,
        system_seconds=0.25,
        periods=10,
        throttled_periods=4,
        throttled_seconds=2.0,
    )
    found = statistics(task(), usage, [ProcessUsage(42, 41, 3, 9.0, 9.0, MB)], 7.0)
    assert (found.timestamp, found.processes, found.threads, found.cpus_limit) == (7.0, 1, 3, 0.5)
    assert (found.cpus_user_time_secs, found.cpus_system_time_secs) == (1.5, 0.25)
    assert (found.cpus_nr_periods, found.cpus_nr_throttled, found.cpus_throttled_time_secs) == (10, 4, 2.0)
    assert (found.mem_total_bytes, found.mem_peak_bytes, found.mem_limit_bytes) == (20 * MB, 30 * MB, 64 * MB)
    assert (found.mem_rss_bytes, found.mem_cache_bytes) == (15 * MB, 5 * MB)


def test_without_cgroups_processes_are_added_up_and_the_peak_is_not_known() -> None:
    members = [ProcessUsage(1, 1, 1, 1.0, 0.5, MB), ProcessUsage(2, 1, 2, 2.0, 0.25, 2 * MB)]
    found = statistics(task(), Usage(), members, 7.0)
    assert (found.cpus_user_time_secs, found.cpus_system_time_secs) == (3.0, 0.75)
    assert (found.mem_rss_bytes, found.mem_limit_bytes, found.threads) == (3 * MB, 64 * MB, 3)
    assert not found.HasField("mem_peak_bytes") and not found.HasField("mem_total_bytes")

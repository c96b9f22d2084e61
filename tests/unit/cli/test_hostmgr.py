"""The watches of `peloton hostmgr`, `disable-kill-tasks`, and `peloton hostcache dump`."""

from __future__ import annotations

import json

import grpc

from mesos.v1 import mesos_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.host import host_pb2
from peloton.private.eventstream import eventstream_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.private.hostmgr.v1alpha import hostmgr_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2

from .conftest import Run
from .fakes import FakeDaemons, Stream

ABORTED = (grpc.StatusCode.ABORTED, "the watcher is more than 100 messages behind: watch again")


def test_updates_of_mesos_are_printed_until_the_watch_ends(run: Run, daemons: FakeDaemons) -> None:
    event = eventstream_pb2.Event(offset=7)
    status = event.mesosTaskStatus
    status.task_id.value, status.agent_id.value, status.state = "t", "S0", mesos_pb2.TASK_FAILED
    status.message = "exit 1"
    change = pb.WatchEventStreamEventResponse(watch_id="w1", mesos_task_update=event)
    daemons.answers["WatchEventStreamEvent"] = Stream(
        pb.WatchEventStreamEventResponse(watch_id="w1"), change, ABORTED
    )
    outcome = run("hostmgr", "events-mesos-update")
    assert outcome.out == "watch w1\n7 t FAILED S0 exit 1\n"
    assert outcome.code == 1 and "more than 100 messages behind" in outcome.err


def test_hosts_that_change_are_printed(run: Run, daemons: FakeDaemons) -> None:
    host = host_pb2.HostSummary(hostname="a", resources=peloton_pb2.Resources(cpu=1.5, memMb=64))
    gone = host_pb2.HostSummary(hostname="b")
    daemons.answers["WatchHostSummaryEvent"] = Stream(
        pb.WatchHostSummaryEventResponse(watch_id="w1"),
        pb.WatchHostSummaryEventResponse(watch_id="w1", hostSummaryEvent=host),
        pb.WatchHostSummaryEventResponse(watch_id="w1", hostSummaryEvent=gone),
    )
    outcome = run("hostmgr", "events-host-summary")
    assert outcome.out == "watch w1\na cpu:1.5 memory:64 disk:0 gpu:0 offers:0\nb is gone\n"


def test_disable_kill_tasks(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["DisableKillTasks"] = pb.DisableKillTasksResponse()
    assert (
        run("hostmgr", "disable-kill-tasks").out == "No task is killed until the host manager is restarted\n"
    )
    assert len(daemons.requests("DisableKillTasks")) == 1


def test_the_cache_of_hosts(run: Run, daemons: FakeDaemons) -> None:
    answer = hostmgr_svc_pb2.GetHostCacheResponse()
    host = answer.summaries.add(hostname="a", status="placing")
    host.allocation.append(hostmgr_pb2.Resource(kind="cpu", capacity=1.5))
    for kind, amount in (("cpu", 4), ("memory", 1024)):
        host.capacity.append(hostmgr_pb2.Resource(kind=kind, capacity=amount))
    daemons.answers["GetHostCache"] = answer
    assert run("hostcache", "dump").out == (
        "Hostname  Status   CPU       GPU     Mem (MB)   Disk (MB)\n"
        "a         placing  1.5 of 4  0 of 0  0 of 1024  0 of 0\n"
    )
    assert json.loads(run("hostcache", "dump", "-j").out)["summaries"][0]["hostname"] == "a"

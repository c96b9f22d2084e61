"""`peloton host maintenance`."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest

from mesos.v1 import mesos_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.task import task_pb2
from peloton.private.hostmgr.history import history_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.jobmgr.maintenance import maintenance_pb2

from .conftest import Run
from .fakes import FakeDaemons

JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
CONCERN = maintenance_pb2.CheckHostsResponse(
    concerns=[maintenance_pb2.Concern(text="host0 is the last host that can run job web")]
)


class Hosts:
    """Hosts with their states; maintenance that starts makes them DRAINING at once."""

    def __init__(self, daemons: FakeDaemons, **states: str) -> None:
        self.daemons = daemons
        self.states = states
        self.tasks: dict[str, int] = {}
        daemons.answers["QueryHosts"] = self.query
        daemons.answers["StartMaintenance"] = self.start
        daemons.answers["CompleteMaintenance"] = self.complete
        daemons.answers["GetHostsByQuery"] = self.by_query
        daemons.answers["CheckHosts"] = maintenance_pb2.CheckHostsResponse()

    def query(self, request: host_svc_pb2.QueryHostsRequest) -> host_svc_pb2.QueryHostsResponse:
        answer = host_svc_pb2.QueryHostsResponse()
        for name, state in self.states.items():
            number = host_pb2.HostState.Value(f"HOST_STATE_{state}")
            if not request.host_states or number in request.host_states:
                goal = host_pb2.HOST_STATE_UP if state == "UP" else host_pb2.HOST_STATE_DOWN
                answer.host_infos.add(hostname=name, state=number, goal_state=goal)
        return answer

    def start(self, request: host_svc_pb2.StartMaintenanceRequest) -> Any:
        for name in [request.hostname] if request.hostname else request.hostnames:
            if name not in self.states:
                return grpc.StatusCode.ABORTED, f"host {name} is unknown"
            if self.states[name] == "UP":
                self.states[name] = "DRAINING"
        return host_svc_pb2.StartMaintenanceResponse(hostname=request.hostname)

    def complete(self, request: host_svc_pb2.CompleteMaintenanceRequest) -> Any:
        for name in [request.hostname] if request.hostname else request.hostnames:
            if self.states[name] != "DOWN":
                return grpc.StatusCode.NOT_FOUND, f"host {name} is {self.states[name]}, not DOWN"
            self.states[name] = "UP"
        return host_svc_pb2.CompleteMaintenanceResponse(hostname=request.hostname)

    def by_query(self, request: hostsvc_pb2.GetHostsByQueryRequest) -> hostsvc_pb2.GetHostsByQueryResponse:
        answer = hostsvc_pb2.GetHostsByQueryResponse()
        for name in request.hostnames:
            tasks = [mesos_pb2.TaskID(value=f"{JOB}-{i}-1") for i in range(self.tasks.get(name, 0))]
            answer.hosts.add(hostname=name, tasks=tasks)
        return answer


def test_start(run: Run, daemons: FakeDaemons) -> None:
    hosts = Hosts(daemons, host0="UP", host1="UP", host2="DRAINING", host3="DOWN")
    hosts.tasks = {"host0": 3, "host2": 1}
    outcome = run("host", "maintenance", "start", "host0,host1", "host2", "host3")
    assert outcome == (
        0,
        "Host host0 is DRAINING: 3 tasks to move, then it goes DOWN\n"
        "Host host1 is DRAINING: it has no tasks, and goes DOWN\n"
        "Host host2 is DRAINING already: 1 task is left\n"
        "Host host3 is DOWN already\n"
        "Follow it with: peloton host maintenance status\n",
        "",
    )
    assert list(daemons.requests("StartMaintenance")[0].hostnames) == ["host0", "host1", "host2", "host3"]
    assert list(daemons.requests("CheckHosts")[0].hostnames) == ["host0", "host1"]


def test_a_start_that_is_sent_again_after_a_change_of_leaders(run: Run, daemons: FakeDaemons) -> None:
    """The first leader carried it out and ended without an answer: it is this user's own."""
    hosts = Hosts(daemons, host0="UP")
    hosts.tasks = {"host0": 2}

    def carried_out_without_answer(request: host_svc_pb2.StartMaintenanceRequest) -> Any:
        hosts.start(request)
        return grpc.StatusCode.UNAVAILABLE, "it leads no more"

    daemons.answers["StartMaintenance"] = carried_out_without_answer
    assert run("host", "maintenance", "start", "host0").code != 0
    daemons.answers["StartMaintenance"] = hosts.start
    begun = history_pb2.Maintenance(hostname="host0", begun_by="ann", since="2026-11-23T10:00:00Z")
    daemons.answers["GetMaintenances"] = history_pb2.GetMaintenancesResponse(maintenances=[begun])
    outcome = run("host", "maintenance", "start", "host0")
    assert outcome.out.splitlines()[0] == (
        "Host host0 is DRAINING since 2026-11-23T10:00:00Z, begun by ann: 2 tasks are left"
    )


def test_a_start_at_a_leader_that_does_not_know_its_hosts_yet(run: Run, daemons: FakeDaemons) -> None:
    """What it does not know is in no maintenance: that is stored."""
    hosts = Hosts(daemons, host0="UP")
    hosts.tasks = {"host0": 2}
    reads = iter((False,))
    daemons.answers["QueryHosts"] = lambda request: (
        hosts.query(request) if next(reads, True) else host_svc_pb2.QueryHostsResponse()
    )
    outcome = run("host", "maintenance", "start", "host0")
    assert outcome.out.splitlines()[0] == "Host host0 is DRAINING: 2 tasks to move, then it goes DOWN"


def test_a_start_on_a_host_that_is_listed_as_lost(run: Run, daemons: FakeDaemons) -> None:
    """Its agent has just registered again, which the host manager reads before it starts."""
    hosts = Hosts(daemons, host0="UP")
    hosts.tasks = {"host0": 2}
    reads = iter((False,))

    def query(request: host_svc_pb2.QueryHostsRequest) -> host_svc_pb2.QueryHostsResponse:
        if next(reads, True):
            return hosts.query(request)
        lost = host_pb2.LostHost(since="2026-11-23T10:00:00Z", reason="its agent is gone")
        return host_svc_pb2.QueryHostsResponse(host_infos=[host_pb2.HostInfo(hostname="host0", lost=lost)])

    daemons.answers["QueryHosts"] = query
    outcome = run("host", "maintenance", "start", "host0")
    assert outcome.out.splitlines()[0] == "Host host0 is DRAINING: 2 tasks to move, then it goes DOWN"
    assert list(daemons.requests("CheckHosts")[0].hostnames) == ["host0"]


def test_start_of_one_host_as_json(run: Run, daemons: FakeDaemons) -> None:
    Hosts(daemons, host0="UP").tasks = {"host0": 1}
    (shown,) = json.loads(run("host", "maintenance", "start", "host0", "-j").out)
    assert (shown["hostname"], shown["state"], shown["tasks"]) == (
        "host0",
        "HOST_STATE_DRAINING",
        [f"{JOB}-0-1"],
    )
    assert daemons.requests("StartMaintenance")[0].hostname == "host0"


def test_an_unknown_host(run: Run, daemons: FakeDaemons) -> None:
    hosts = Hosts(daemons, host0="UP")
    outcome = run("host", "maintenance", "start", "nosuch")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == "peloton: host nosuch is unknown (ABORTED)\n"
    assert hosts.states == {"host0": "UP"}
    assert run("host", "maintenance", "start", "host0,").code == 2


def test_the_last_host_of_a_job(run: Run, daemons: FakeDaemons) -> None:
    hosts = Hosts(daemons, host0="UP")
    daemons.answers["CheckHosts"] = CONCERN
    outcome = run("host", "maintenance", "start", "host0")
    assert outcome.err == "Warning: host0 is the last host that can run job web\n"
    assert outcome.code == 0 and hosts.states == {"host0": "DRAINING"}, "no terminal asks"


@pytest.mark.parametrize(("flags", "state"), [((), "UP"), (("--force",), "DRAINING")])
def test_a_terminal_asks(
    run: Run, daemons: FakeDaemons, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], state: str
) -> None:
    hosts = Hosts(daemons, host0="UP")
    daemons.answers["CheckHosts"] = CONCERN
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    outcome = run("host", "maintenance", "start", "host0", *flags)
    assert outcome.code == (1 if state == "UP" else 0) and hosts.states == {"host0": state}


def test_maintenance_starts_without_jobmgr(run: Run, daemons: FakeDaemons) -> None:
    hosts = Hosts(daemons, host0="UP")
    daemons.answers["CheckHosts"] = (grpc.StatusCode.UNAVAILABLE, "no leader")
    outcome = run("host", "maintenance", "start", "host0")
    assert outcome.code == 0 and hosts.states == {"host0": "DRAINING"}
    assert outcome.err.startswith("It is not known whether jobs would have no host left: jobmgr")


def test_complete(run: Run, daemons: FakeDaemons) -> None:
    hosts = Hosts(daemons, host0="DOWN", host1="DRAINING")
    outcome = run("host", "maintenance", "complete", "host0")
    assert outcome.out == "Host host0 is UP: its agent is registered\n"
    refused = run("host", "maintenance", "complete", "host1")
    assert refused == (1, "", "peloton: host host1 is DRAINING, not DOWN (NOT_FOUND)\n")
    assert hosts.states == {"host0": "UP", "host1": "DRAINING"}


def test_status(run: Run, daemons: FakeDaemons) -> None:
    hosts = Hosts(daemons, host0="UP")
    assert run("host", "maintenance", "status").out == "No host is in maintenance\n"
    assert run("host", "maintenance", "status", "nosuch").out == "host nosuch is unknown\n"
    hosts.states |= {"host1": "DRAINING", "host2": "DOWN"}
    hosts.tasks = {"host1": 22}
    runtime = task_pb2.RuntimeInfo(state=task_pb2.RUNNING, message="the SLA would break")
    daemons.answers["Get"] = task_pb2.GetResponse(result=task_pb2.TaskInfo(runtime=runtime))
    lines = run("host", "maintenance", "status").out.splitlines()
    assert lines[:6] == [
        "Hostname  State     Goal State  Tasks Left",
        "host1     DRAINING  DOWN        22",
        "host2     DOWN      DOWN        0",
        "",
        "Host   Task                                       State    Message",
        f"host1  {JOB}-0-1   RUNNING  the SLA would break",
    ]
    assert len(lines) == 6 + 20 and lines[-1] == "host1  and 2 more"
    request = daemons.requests("Get")[0]
    assert (request.jobId.value, request.instanceId) == (JOB, 0)
    assert (
        run("host", "maintenance", "status", "host0").out.splitlines()[1] == "host0     UP     UP          0"
    )

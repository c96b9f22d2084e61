"""`peloton deploy` on Mesos: daemons as tasks of a framework of their own, changed while they serve."""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any, Self

import psutil
import pytest

from minicluster.cluster import Cluster
from minicluster.mesos.agent.cleanup import kill_tasks
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from tests.cluster.conftest import Harness, wait_for
from tests.cluster.deploying import Deployer, run_a_job

UPGRADES = int(os.environ.get("PELOTON_TEST_UPGRADES", "20"))
TASKS, INSTANCES = 2000, 50
STANDS_STILL_SECONDS = 10.0


@pytest.fixture(scope="module")
def deployer(bare: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Deployer:
    return Deployer(tmp_path_factory.mktemp("installation"), bare)


@pytest.fixture
def deployed(deployer: Deployer) -> Iterator[Harness]:
    """An installation with a store of its own and a pool; each test begins with the first environment."""
    deployer.new_store()
    with deployer.deployed(deployer.file()) as harness:
        yield harness


def test_from_nothing_to_a_first_job_and_back(deployer: Deployer, bare: Cluster) -> None:
    file = deployer.file()
    assert "start one of jobmgr: jobmgr has 0 daemons of 2" in deployer("plan", file)
    assert "test is not deployed" in deployer("status", file, code=1)
    began = time.monotonic()
    deployer("apply", file)
    harness = Harness(bare)
    try:
        run_a_job(harness)
    finally:
        harness.client.close()
    took = time.monotonic() - began
    print(f"from nothing to the end of a first job: {took:.1f} s")
    assert took < 90
    assert "nothing is to be done" in deployer("plan", file)
    said = deployer("apply", file)
    assert "start" not in said, said
    found = deployer.status(file)
    assert found["whole"] and found["wanted"] == 1
    assert len(found["daemons"]) == 8
    assert {each["group"] for each in found["daemons"] if each["leads"]} == {"hostmgr", "resmgr", "jobmgr"}
    for group in ("hostmgr", "resmgr", "jobmgr", "placement"):
        assert len({each["host"] for each in found["daemons"] if each["group"] == group}) == 2, found
    deployer("destroy", file, "--yes")
    assert "there is no installation test" in deployer("destroy", file, "--yes", code=1)


class Calls:
    """Calls that are made all the time, as a user's program makes them."""

    def __init__(self, harness: Harness, job: str) -> None:
        self._harness, self._job = harness, job
        self._stop = threading.Event()
        self.made, self.failed, self.longest = 0, list[str](), 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            began = time.monotonic()
            try:
                self._harness.runtime(self._job)
                self.made += 1
            except Exception as error:  # noqa: BLE001 - the test tells of any
                self.failed.append(repr(error))
            self.longest = max(self.longest, time.monotonic() - began)

    def end(self) -> None:
        self._stop.set()
        self._thread.join(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.end()


def service(harness: Harness) -> str:
    config = harness.config("sleep 100000", INSTANCES, type=job_pb2.SERVICE)
    config.defaultConfig.resource.CopyFrom(task_pb2.ResourceConfig(cpuLimit=0.02, memLimitMb=8))
    return harness.create(config)


def runs_of(harness: Harness, job: str) -> set[str]:
    return {task.runtime.mesosTaskId.value for task in harness.tasks(job).values()}


def undemanding(harness: Harness, command: str, count: int) -> job_pb2.JobConfig:
    """A batch job of small tasks, none of which may be lost: no run follows one that was."""
    config = harness.config(command, count)
    config.defaultConfig.restartPolicy.maxFailures = 0
    config.defaultConfig.resource.CopyFrom(task_pb2.ResourceConfig(cpuLimit=0.02, memLimitMb=8))
    return config


def others(harness: Harness, job: str) -> Counter[str]:
    """What became of the tasks that did not succeed: how many, by state, reason, host and message."""
    runtimes = (task.runtime for task in harness.tasks(job).values())
    return Counter(
        f"{task_pb2.TaskState.Name(each.state)} {each.reason} on {each.host}: {each.message}"
        for each in runtimes
        if each.state != task_pb2.SUCCEEDED
    )


def removals(bare: Cluster) -> int:
    """Return how many agents the master has given up so far."""
    (master,) = (part for part in bare.components() if part.kind == "mesos-master")
    with urllib.request.urlopen(f"http://{master.addresses['http']}/metrics/snapshot", timeout=30) as answer:
        return int(json.load(answer)["master/slave_removals"])


def cpu_of_children() -> float:
    """CPU seconds of the processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of_daemons(status: dict[str, Any]) -> float:
    """CPU seconds of the daemons of an installation, from their start until now."""
    ports = {int(each["http"].rpartition(":")[2]) for each in status["daemons"]}
    listening = psutil.net_connections("tcp")
    pids = {c.pid for c in listening if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port in ports}
    assert len(pids) == len(ports)
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


PHASES = {
    "starts": " is not healthy",
    "watches": " is watched for",
    "elections": " leads",
    "ends": "end",
    "schema": "schema",
}
"""Words of what `apply` says while something lasts; what is left belongs to starts of daemons."""


def phases(said: str) -> str:
    """Return how long each kind of work took, by the times of the lines of `apply`, in whole seconds."""
    lines = [line.split(" ", 1) for line in said.splitlines() if line[2:3] == ":"]
    times = [datetime.strptime(at, "%H:%M:%S") for at, _ in lines]
    found = Counter[str]()
    for (_, text), (began, then) in zip(lines, pairwise(times), strict=False):
        kind = next((name for name, words in PHASES.items() if words in text), "starts")
        found[kind] += (then - began).seconds
    return ", ".join(f"{kind} {seconds} s" for kind, seconds in found.most_common())


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_upgrades_back_and_forth_while_jobs_run(deployer: Deployer, deployed: Harness, bare: Cluster) -> None:
    harness, files = deployed, [deployer.file(deployer.environment("second")), deployer.file()]
    lasting = service(harness)
    wait_for(lambda: harness.runtime(lasting).state == job_pb2.RUNNING, 90)
    wait_for(lambda: harness.runtime(lasting).taskStats.get("RUNNING") == INSTANCES, 90)
    before, calls = runs_of(harness, lasting), Calls(harness, lasting)
    took: list[float] = []
    for number in range(UPGRADES):
        job, used = harness.create(undemanding(harness, "sleep 0.2", TASKS)), cpu_of_children()
        seconds, said = deployer.timed("apply", files[number % 2])
        took.append(seconds)
        print(
            f"upgrade {number + 1}: {seconds:.1f} s; CPU: deployer {cpu_of_children() - used:.1f} s, "
            f"new daemons {cpu_of_daemons(deployer.status(files[number % 2])):.1f} s; "
            f"{calls.made} calls, load {os.getloadavg()[0]:.0f}; {phases(said)}",
            flush=True,
        )
        ended = harness.ended(job, 300)
        assert (ended.state, dict(ended.taskStats)["SUCCEEDED"]) == (job_pb2.SUCCEEDED, TASKS), (
            f"{others(harness, job)}; the master has removed {removals(bare)} agents"
        )
    calls.end()
    print(f"{UPGRADES} upgrades: {min(took):.1f} to {max(took):.1f} s")
    print(f"{calls.made} calls, the longest one {calls.longest:.1f} s")
    assert not calls.failed
    assert runs_of(harness, lasting) == before, "no instance of the service was started again"
    assert max(took) <= 60


@pytest.mark.long
def test_an_agent_that_stands_still_for_a_while_costs_no_task(
    deployer: Deployer, deployed: Harness, bare: Cluster
) -> None:
    """A task of an agent that the master gives up is LOST, and with `maxFailures` 0 it does not run again.

    A busy machine keeps an agent from answering for seconds: the limit of these tests has to be above that.
    """
    job = deployed.create(undemanding(deployed, "sleep 20", 200))
    wait_for(lambda: deployed.runtime(job).taskStats.get("RUNNING") == 200, 120)
    process = psutil.Process(next(each.pid for each in bare.status() if each.name == "mesos-agent0"))
    before = removals(bare)
    process.suspend()
    try:
        time.sleep(STANDS_STILL_SECONDS)
    finally:
        process.resume()
    ended = deployed.ended(job, 300)
    assert ended.state == job_pb2.SUCCEEDED, others(deployed, job)
    assert removals(bare) == before


@pytest.mark.long
def test_a_version_that_does_not_start_goes_back_while_it_serves(
    deployer: Deployer, deployed: Harness
) -> None:
    lasting = service(deployed)
    calls, file = Calls(deployed, lasting), deployer.file()
    before = {each["name"] for each in deployer.status(file)["daemons"]}
    said = deployer("apply", deployer.file(deployer.broken_environment()), code=1)
    calls.end()
    assert "went back to revision 1: hostmgr: 2 daemons failed" in said
    found = deployer.status(file)
    assert {each["name"] for each in found["daemons"]} == before, "no daemon that served was touched"
    assert found["whole"] and "2 daemons failed" in found["went_back"]
    assert calls.made and not calls.failed


@pytest.mark.long
@pytest.mark.timeout(900)
def test_deployers_that_die_at_each_step_are_continued(deployer: Deployer, deployed: Harness) -> None:
    lasting = service(deployed)
    file, calls, kills = deployer.file(deployer.environment("second")), Calls(deployed, lasting), 0
    for number in range(80):
        process = deployer.begin("apply", file)
        assert process.stdout is not None
        acted = next((line for line in process.stdout if " start test." in line or " end test." in line), "")
        if not acted:
            assert process.wait(60) == 0
            break
        if number % 2:  # by then the step is done; in other turns it is not, or not quite
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        kills += 1
    calls.end()
    print(f"{kills} deployers were killed")
    assert kills > 10
    found = deployer.status(file)
    assert found["whole"] and len(found["daemons"]) == 8 and {d["revision"] for d in found["daemons"]} == {2}
    assert not calls.failed


@pytest.mark.long
def test_one_deployer_works_at_a_time(deployer: Deployer, deployed: Harness) -> None:
    first = deployer.begin("apply", deployer.file(deployer.environment("second")))
    try:
        assert first.stdout is not None
        next(line for line in first.stdout if " start test." in line)
        said = deployer("apply", deployer.file(), code=1)
        assert (
            "another deployer is at work: `peloton deploy apply` of" in said
            and f"process {first.pid}" in said
        )
        first.stdout.read()
        assert first.wait(120) == 0
    finally:
        first.kill()
        first.wait()
    said = deployer("rollback", deployer.file())
    assert "is whole" in said


@pytest.mark.long
def test_daemons_of_a_dead_host_come_up_elsewhere(
    deployer: Deployer, deployed: Harness, bare: Cluster
) -> None:
    file = deployer.file()
    host = next(d["host"] for d in deployer.status(file)["daemons"] if d["group"] == "jobmgr" and d["leads"])
    name = f"mesos-{host}"
    process = deployer.begin("apply", file, "--keep")
    try:
        wait_for(lambda: deployer.status(file)["deployer"] != "", 60)
        bare.kill([name])
        kill_tasks(bare.layout.work_of(name))

        def elsewhere() -> bool:
            found = deployer.status(file, code=None)
            return bool(found["whole"]) and all(each["host"] != host for each in found["daemons"])

        wait_for(elsewhere, 180)
        run_a_job(deployed)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()
        bare.start([name])

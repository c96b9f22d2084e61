"""Journals of cores: what was recorded is replayed with the same decisions, and another decision is told."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from hostmgr.core.cluster_manager.events import OffersMade
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.offers import Entry, Offer
from hostmgr.core.state.table import HostTable
from hostmgr.core.term import Term
from hostmgr.drivers.claim_ids import claim_ids
from jobmgr.core.cycle import Core
from jobmgr.core.state.cache import NOT_CREATED
from jobmgr.core.state.events import Now
from mesos.v1.master import master_pb2
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobRuntime
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import Resources
from peloton.model.states import JobState, TaskState
from resmgr.core.preemption.decide import Rules
from resmgr.core.scheduler import Scheduler
from simulator.daemons.resmgr_term import ResmgrOptions
from simulator.jobs import SimJob
from simulator.recording.__main__ import main
from simulator.recording.cores import CORES, ENDING, Recorder
from simulator.recording.replay import Replay, replay
from simulator.recording.texts import text_of
from simulator.simulation import Options, Simulation
from simulator.world.agents import HostSpec
from tests.unit.jobmgr_core.specs import JOB, spec, stored_job


def pool(name: PoolId) -> PoolConfig:
    kinds = {"cpu": KindConfig(4000, 8000), "memory": KindConfig(4_000_000, 8_000_000)}
    return PoolConfig(name, name, "root", kinds)


def workload() -> list[SimJob]:
    """One pool takes all hosts, then the other one wants its part; every fifth job is a gang."""
    early = [SimJob(f"a{i}", i / 10, "/a", Resources.of(1, 500), 900.0, preemptible=True) for i in range(12)]
    late = [
        SimJob(f"b{i}", 60.0 + i, "/b", Resources.of(1, 500), 100.0, 1 + 2 * (not i % 5), preemptible=True)
        for i in range(40)
    ]
    return early + late


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journals")
    hosts = [HostSpec(f"host-{number}", Resources.of(4, 4000, 1000)) for number in range(2)]
    resmgr = ResmgrOptions(rules=Rules(strikes=1), preemption_period=10.0, entitlement_interval=10.0)
    with ExitStack() as stack:
        for daemon in CORES:
            stack.enter_context(Recorder(daemon, folder).recording())
        simulation = Simulation(hosts, [pool("a"), pool("b")], workload(), Options(resmgr=resmgr))
        simulation.run(20_000.0)
    assert len(simulation.ended) == len(workload()) and simulation.resmgr.loop.preempted
    return folder


def found(folder: Path, core: str) -> list[Replay]:
    return [replay(path) for path in sorted(folder.glob(f"{core}-*{ENDING}"))]


@pytest.mark.parametrize("core", sorted(CORES))
def test_a_replay_decides_the_same(journals: Path, core: str) -> None:
    replays = found(journals, core)
    assert [each.difference for each in replays] == [None] * len(replays)
    calls = sum((each.calls for each in replays), Counter())
    wanted = {"hostmgr": "judge", "jobmgr": "run_cycle", "placement": "handle", "resmgr": "__next__"}
    assert calls[wanted[core]] > 0 and any(each.states for each in replays)


def test_a_job_that_is_recovered_half_created_is_replayed(tmp_path: Path) -> None:
    row = replace(NOT_CREATED, state=TaskState.PENDING, goal=TaskState.SUCCEEDED, run=1, desired_run=1)
    runtime = JobRuntime(JobState.INITIALIZED, JobState.SUCCEEDED, 1, 1)
    with Recorder("jobmgr", tmp_path).recording():
        core = Core()
        core.recover(stored_job(runtime, {1: row}, spec(4, version=0)))
        assert len(core.run_cycle([], Now(1, 1.0)).changes[JobId(JOB)].tasks) == 3
    (replayed,) = found(tmp_path, "jobmgr")
    assert replayed.difference is None and replayed.calls == {"recover": 1, "run_cycle": 1}


def test_a_message_is_read_where_nobody_has_imported_its_class(tmp_path: Path) -> None:
    """A journal of hostmgr has messages of Mesos, which replaying needs for nothing else."""
    with Recorder("hostmgr", tmp_path).recording():
        term = Term(HostTable())
        offer = Offer("offer-1", "agent-1", "host-1", (), wire=master_pb2.Response.GetAgents.Agent(pid="x"))
        term.on_events([OffersMade([offer])], 1.0)
    command = [sys.executable, "-m", "simulator.recording", "replay", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "1 calls and 0 states are equal" in ran.stdout


def test_ids_that_were_drawn_by_chance_are_drawn_again(tmp_path: Path) -> None:
    with Recorder("hostmgr", tmp_path).recording():
        term = Term(HostTable())
        for number in range(3):
            entries = (Entry("cpus", 0, amount=4000),)
            offer = Offer(f"offer-{number}", f"agent-{number}", f"host-{number}", entries)
            term.on_events([OffersMade([offer])], 1.0)
        acquired = term.acquire(HostFilter(max_hosts=3), claim_ids(), 2.0, "placement/one")
    assert len({claim.id for claim in acquired.claims}) == 3
    (replayed,) = found(tmp_path, "hostmgr")
    assert replayed.difference is None and replayed.decided["Acquired"] == 1


def test_another_decision_is_told(
    journals: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dequeue = Scheduler.dequeue
    monkeypatch.setattr(Scheduler, "dequeue", lambda core, *args: dequeue(core, *args)[:-1])
    (replayed,) = found(journals, "resmgr")
    assert replayed.difference is not None and "dequeue" in replayed.difference.call
    assert main(["replay", str(journals)]) == 1
    assert "recorded: …" in capsys.readouterr().out


def test_a_journal_that_is_cut_off_is_replayed_up_to_there(journals: Path, tmp_path: Path) -> None:
    (path,) = journals.glob(f"resmgr-*{ENDING}")
    whole = replay(path).calls.total()
    (tmp_path / path.name).write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    half = replay(tmp_path / path.name)
    assert half.difference is None and 0 < half.calls.total() < whole


def test_a_folder_without_journals_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path)]) == 1
    assert "no journal" in capsys.readouterr().err


def test_values_without_a_text_of_their_own_are_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        text_of(object(), lambda value: None)
    assert text_of({"b": {2, 1}, "a": (None, 1.5)}, lambda value: None) == "{'b': {1, 2}, 'a': (None, 1.5)}"

"""Policies that are plugged in decide, in the cores and in `peloton simulate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from peloton.model.states import TaskType
from placement.config import PlacementSettings
from placement.core.batch import Batch
from placement.core.plan import plan
from placement.core.policy import Desired, FreeHosts, Policy, Scorer, TaskAmounts
from placement.core.service import Service
from placement.core.strategy import Family, Scored
from resmgr.core.preemption.cross_pool import CrossPoolPolicy
from resmgr.core.preemption.order import Takeable
from resmgr.core.preemption.same_pool import SamePoolPolicy
from resmgr.core.preemption.view import Candidates, PoolView
from simulator.cli import simulate
from tests.unit.placement.fakes import running
from tests.unit.placement.samples import gang, host, needs, returning
from tests.unit.resmgr_preemption.samples import numbers, task, victims, waiting
from tests.unit.resmgr_preemption.test_cross_pool import over


def test_a_strategy_that_is_plugged_in_places_services(installed: Path) -> None:
    """The own strategy would spread them; a task still returns to its host."""
    strategy = PlacementSettings(strategy="packed").rules(TaskType.STATELESS).strategy
    family = strategy.family(gang())
    assert not family.even and strategy.policy(family).scorer is Scorer.BEST_FIT
    back = strategy.family(returning("host-1"))
    assert strategy.policy(back).desired is Desired.HOST


def _last(hosts: FreeHosts, task: TaskAmounts) -> Any:
    """Prefer the host with the greatest number in its name."""
    return np.array([int(name.rpartition("-")[2]) for name in hosts.hostnames])


def _levelling(hosts: FreeHosts, task: TaskAmounts) -> Any:
    return hosts.cpu - task.cpu


def test_tasks_go_to_the_host_with_the_highest_score() -> None:
    hosts, gangs = [host(at) for at in range(3)], [gang() for _ in range(5)]
    placed = plan(gangs, hosts, policy=Policy(Scorer.PLUGGED_IN, score=_last)).placements
    assert {each.host.hostname: len(each.tasks) for each in placed} == {"host-1": 1, "host-2": 4}


def test_each_task_is_scored_beside_those_before() -> None:
    hosts, gangs = [host(at) for at in range(3)], [gang() for _ in range(6)]
    placed = plan(gangs, hosts, policy=Policy(Scorer.PLUGGED_IN, score=_levelling)).placements
    assert [len(each.tasks) for each in placed] == [2, 2, 2]


def test_a_gang_is_placed_whole_whatever_the_score() -> None:
    hosts = [host(at) for at in range(2)]
    large, small = gang(*[needs()] * 9), gang(*[needs()] * 8)
    planned = plan([large, small], hosts, policy=Policy(Scorer.PLUGGED_IN, score=_last))
    assert planned.placed == (small,)
    assert planned.unplaced == (large,)


def test_a_score_of_another_shape_is_refused_with_both_shapes() -> None:
    policy = Policy(Scorer.PLUGGED_IN, score=lambda hosts, task: np.zeros(1))
    with pytest.raises(
        ValueError,
        match=r"scores of hosts: an array of shape \(1,\).*should be \(2,\), a number for each row",
    ):
        plan([gang()], [host(0), host(1)], policy=policy)


def test_a_desired_host_is_not_scored() -> None:
    strategy = Scored(Service(), _last)
    assert strategy.policy(Family("", 0, to_desired_host=True)).desired is Desired.HOST
    assert strategy.policy(Family("", 0)).score is _last
    assert (strategy.type, strategy.longest) == (TaskType.STATELESS, Service().longest)


async def test_an_engine_claims_many_hosts_to_choose_among() -> None:
    """hostmgr, which knows no score, would give the fullest host."""
    hosts = [host(at) for at in range(5)]
    async with running([gang()], hosts, strategy=Scored(Batch(), _last)) as world:
        await world.idle()
        assert [each.host.hostname for each in world.resmgr.placements] == ["host-4"]


def _oldest_first(gangs: Takeable, now: float) -> Any:
    return [gangs.work_from]


def test_victims_are_taken_in_an_order_that_is_plugged_in() -> None:
    pool = over(task(1, started=5.0), task(2, started=1.0), task(3, started=3.0), cpu=2)
    assert numbers(victims(CrossPoolPolicy(), pool)) == [1, 3]
    assert numbers(victims(CrossPoolPolicy(order=_oldest_first), pool)) == [2, 3]


def test_priorities_hold_within_a_pool_whatever_the_order() -> None:
    tasks = Candidates.of([task(i, 1, 1, priority=i, started=9.0 - i) for i in range(4)])
    pool = PoolView("/a", candidates=tasks, queues=((waiting(9, 2, priority=2),),))
    assert numbers(victims(SamePoolPolicy(), pool)) == [0, 1]
    assert numbers(victims(SamePoolPolicy(_oldest_first), pool)) == [1, 0]


def _hosts_of(folder: Path, *options: str) -> list[str]:
    decisions = folder / "decisions.jsonl"
    given = ["--trace", str(folder / "jobs.jsonl"), "--cluster", str(folder / "cluster.yaml")]
    ran = CliRunner().invoke(simulate, [*given, "--decisions", str(decisions), *options])
    assert ran.exit_code == 0, ran.output
    lines = [json.loads(line) for line in decisions.read_text().splitlines()]
    return [line["host"] for line in lines if "host" in line]


def test_the_simulator_takes_the_settings_of_an_engine(tmp_path: Path, installed: Path) -> None:
    sys.modules.pop("mine", None)
    hosts = "hosts: [{count: 1, cpu: 4, memory: 4000}, {count: 1, cpu: 4, memory: 2000}]\n"
    (tmp_path / "cluster.yaml").write_text(hosts)
    job = {"name": "a", "submit": 0, "pool": "/x", "seconds": 100, "cpu": 1, "memory": 100}
    (tmp_path / "jobs.jsonl").write_text(json.dumps(job) + "\n")
    (tmp_path / "most.yaml").write_text("scorer: alignment\n")
    (tmp_path / "least.yaml").write_text("scorer: mine\n")
    most = _hosts_of(tmp_path, "--placement", str(tmp_path / "most.yaml"))
    least = _hosts_of(tmp_path, "--placement", str(tmp_path / "least.yaml"))
    assert len(set(most)) == len(set(least)) == 1 and set(most) != set(least)
    (tmp_path / "wrong.yaml").write_text("scorer: best\n")
    given = ["--trace", str(tmp_path / "jobs.jsonl"), "--cluster", str(tmp_path / "cluster.yaml")]
    refused = CliRunner().invoke(simulate, [*given, "--placement", str(tmp_path / "wrong.yaml")])
    assert refused.exit_code == 1
    assert "scorer" in refused.output and "there are: alignment, default" in refused.output


def _ends(folder: Path, *options: str) -> list[str]:
    """Return the names of the jobs in the order in which they end."""
    rows = folder / "out"
    given = ["--trace", str(folder / "jobs.jsonl"), "--cluster", str(folder / "cluster.yaml")]
    ran = CliRunner().invoke(simulate, [*given, "--decisions", str(rows), *options])
    assert ran.exit_code == 0, ran.output
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    return [line["run"][:36] for line in lines if line["what"] == "launch"]


def test_the_simulator_takes_the_settings_of_a_resource_manager(tmp_path: Path, installed: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("hosts: [{count: 1, cpu: 8, memory: 8000}]\n")
    sizes = (8, 8, 4, 2)
    jobs = [
        {"name": f"j{at}", "submit": at and 10 + at, "pool": "/x", "seconds": 100, "cpu": cpu, "memory": 100}
        for at, cpu in enumerate(sizes)
    ]
    (tmp_path / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
    (tmp_path / "order.yaml").write_text("admission: {queue_order: smallest_first}\n")
    plain, ordered = _ends(tmp_path), _ends(tmp_path, "--resmgr", str(tmp_path / "order.yaml"))
    assert len(plain) == len(ordered) == len(sizes)
    assert ordered == [plain[0], plain[3], plain[2], plain[1]]
    (tmp_path / "wrong.yaml").write_text("entitlement_policy: none\n")
    given = ["--trace", str(tmp_path / "jobs.jsonl"), "--cluster", str(tmp_path / "cluster.yaml")]
    refused = CliRunner().invoke(simulate, [*given, "--resmgr", str(tmp_path / "wrong.yaml")])
    assert refused.exit_code == 1
    assert "entitlement_policy" in refused.output and "there are: default, fixed_shares" in refused.output

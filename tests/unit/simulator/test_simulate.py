"""`peloton simulate`: what it prints and writes, that it is repeatable, and what it says of wrong input."""

from __future__ import annotations

import csv
import gc
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from peloton.errors import InvalidArgument
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, Resources
from simulator.cli import simulate
from simulator.jobs import SimJob
from simulator.results.figures import jain, quantile
from simulator.results.fragmentation import fragmentation, scarce_kind, shapes_of
from simulator.results.recorder import PoolSample
from simulator.simulation import Simulation
from simulator.workloads.jobs import read_jobs
from simulator.world.agents import HostSpec

CLUSTER = "hosts: [{count: 2, cpu: 4, memory: 4000}]\n"
JOBS: list[Mapping[str, Any]] = [
    {"name": "a", "submit": 10, "pool": "/x", "seconds": 100, "cpu": 4, "class": "long"},
    {"name": "b", "submit": 11, "pool": "/y", "seconds": 50, "cpu": 4, "instances": 2, "gang": True},
    {"name": "c", "submit": 12, "pool": "/x", "seconds": 5, "cpu": 1, "instances": 4, "class": "short"},
]


def files(folder: Path, cluster: str = CLUSTER) -> list[str]:
    (folder / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in JOBS))
    (folder / "cluster.yaml").write_text(cluster)
    return ["--trace", str(folder / "jobs.jsonl"), "--cluster", str(folder / "cluster.yaml")]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, list(arguments))


def test_waits_follow_from_the_hosts(tmp_path: Path) -> None:
    result = run(*files(tmp_path), "--csv", str(tmp_path / "out"), "--html", str(tmp_path / "page.html"))
    assert result.exit_code == 0, result.output
    rows = {row["name"]: row for row in csv.DictReader((tmp_path / "out" / "jobs.csv").open())}
    assert {row["state"] for row in rows.values()} == {"SUCCEEDED"}
    assert float(rows["a"]["wait"]) < 5
    assert 95 < float(rows["b"]["wait"]) < 170, "it needs both hosts, of which a has one"
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page and "http" not in page, "it needs nothing else"
    assert "mean wait, s" in result.output and "long" in result.output


def test_a_service_runs_until_it_is_stopped(tmp_path: Path) -> None:
    given = files(tmp_path)
    service = {"name": "web", "submit": 0, "pool": "/x", "seconds": 500, "instances": 2, "service": True}
    jobs = [service, {"name": "later", "submit": 10, "pool": "/x", "seconds": 5, "cpu": 4, "instances": 2}]
    (tmp_path / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
    result = run(*given, "--csv", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    rows = {row["name"]: row for row in csv.DictReader((tmp_path / "out" / "jobs.csv").open())}
    assert (rows["web"]["state"], rows["later"]["state"]) == ("KILLED", "SUCCEEDED")
    assert 500 <= float(rows["web"]["completion"]) < 505
    assert float(rows["later"]["wait"]) > 480, "each host has an instance of the service until it is stopped"


@pytest.mark.parametrize(
    ("growth", "rounds"),
    [({"growth_interval": 60}, ["0-1", "0-2", "1-2"]), ({"in_place": True}, ["0-1", "1-1"])],
)
def test_an_elastic_gang_grows_and_goes_on_where_its_round_ended(
    tmp_path: Path, growth: Mapping[str, Any], rounds: list[str]
) -> None:
    given = files(tmp_path)
    gang = {"name": "gang", "submit": 5, "pool": "/x", "seconds": 200, "cpu": 4, "instances": 2}
    jobs = [
        {"name": "first", "submit": 0, "pool": "/y", "seconds": 100, "cpu": 4},
        {**gang, "gang": True, "needed": 1, **growth},
    ]
    (tmp_path / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
    decisions = tmp_path / "decisions.jsonl"
    result = run(*given, "--csv", str(tmp_path / "out"), "--decisions", str(decisions))
    assert result.exit_code == 0, result.output
    rows = {row["name"]: row for row in csv.DictReader((tmp_path / "out" / "jobs.csv").open())}
    assert rows["gang"]["state"] == "SUCCEEDED"
    told = [json.loads(line) for line in decisions.read_text().splitlines()]
    launched = [each for each in told if each["what"] == "launch"]
    second = launched[-1]["run"][:36]
    assert sorted(each["run"][37:] for each in launched if each["run"].startswith(second)) == rounds
    assert 100 < launched[-1]["at"] < 140, "it grows when the other job has ended"
    assert float(rows["gang"]["completion"]) < 260, "a round that began anew would last until 300 s"


def test_tasks_with_gpus_that_come_one_by_one_leave_hosts_whole_for_larger_ones(tmp_path: Path) -> None:
    small = [{"name": f"s{at}", "submit": 10 * at, "seconds": 9000, "gpu": 1} for at in range(8)]
    large = {"name": "large", "submit": 200, "seconds": 10, "gpu": 8, "instances": 3, "gang": True}
    (tmp_path / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in (*small, large)))
    (tmp_path / "cluster.yaml").write_text("hosts: [{count: 4, cpu: 32, gpu: 8}]\n")
    given = "--trace", str(tmp_path / "jobs.jsonl"), "--cluster", str(tmp_path / "cluster.yaml")
    result = run(*given, "--csv", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    rows = {row["name"]: row for row in csv.DictReader((tmp_path / "out" / "jobs.csv").open())}
    assert float(rows["large"]["wait"]) < 60, "three hosts have no task"


def test_two_configurations_are_compared_over_seeds(tmp_path: Path) -> None:
    given = files(tmp_path)
    (tmp_path / "more.yaml").write_text(CLUSTER.replace("count: 2", "count: 8"))
    result = run(*given, "--compare", str(tmp_path / "more.yaml"), "--seeds", "2")
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.output.splitlines() if "mean wait, s" in line]
    first, other, difference, _ = map(float, line.rsplit(maxsplit=4)[1:])
    assert other < first and difference == pytest.approx(other - first, abs=0.01)


def test_settings_of_the_resource_manager_count(tmp_path: Path) -> None:
    given = files(tmp_path)
    (tmp_path / "resmgr.yaml").write_text("preemption: {period: 0}\n")
    result = run(*given, "--resmgr", str(tmp_path / "resmgr.yaml"))
    assert (
        result.exit_code == 1 and "preemption.period" in result.output and "greater than 0" in result.output
    )


_TRACE = """
import sys
from simulator.cli import simulate
simulate(sys.argv[1:])
"""


def test_the_same_input_gives_the_same_decisions_in_each_process(tmp_path: Path) -> None:
    given = files(tmp_path)

    def decisions(hash_seed: str) -> str:
        path = tmp_path / "new" / f"{hash_seed}.jsonl"
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", _TRACE, *given, "--decisions", str(path)]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        return path.read_text()

    first = decisions("1")
    assert first == decisions("2")
    assert [json.loads(line)["what"] for line in first.splitlines()].count("job") == len(JOBS)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is not a JSON object"),
        ("[]", "is not a JSON object"),
        ('{"submit": 0}', "seconds: is missing: give a number from 0"),
        ('{"submit": 0, "seconds": -1}', "seconds: -1 is not a number from 0"),
        ('{"submit": 0, "seconds": 1, "pool": "x"}', "is not the path of a pool"),
        ('{"submit": 0, "seconds": 1, "instances": 0}', "instances: 0 is not a number from 1 to"),
        ('{"submit": 0, "seconds": 1, "needed": 1}', """needed: 1 is not of use with "gang": true only"""),
        (
            '{"submit": 0, "seconds": 1, "instances": 2, "gang": true, "needed": 3}',
            "needed: 3 is not a number from 1 to 2",
        ),
        ('{"submit": 0, "seconds": 1, "in_place": true}', "in_place: True is not of use with `needed` only"),
        (
            '{"submit": 0, "seconds": 1, "gang": true, "needed": 1, "in_place": true, "growth_interval": 9}',
            "growth_interval: 9 is not left out of a gang that grows in place",
        ),
        (
            '{"submit": 0, "seconds": 1, "gang": true, "needed": 1, "growth_interval": 0}',
            "growth_interval: 0 is not a number from 1 to",
        ),
        ('{"submit": 0, "seconds": 1, "cpus": 1}', "'cpus' is not one of the fields"),
        ("", "a trace with at least one job"),
    ],
)
def test_a_wrong_line_is_told(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InvalidArgument, match=said):
        read_jobs(path)


def test_an_unknown_pool_of_a_job_is_told(tmp_path: Path) -> None:
    result = run(*files(tmp_path, CLUSTER + "pools: [{path: /x}, {path: /z}]\n"))
    assert result.exit_code == 1 and "'/y' is not a leaf among /x, /z" in result.output


def test_other_formats_are_read(tmp_path: Path) -> None:
    swf = tmp_path / "a.swf"
    swf.write_text("; Version: 2\n1 5094 -1 12072 16 -1 -1 16 20000 -1 1 -1 -1 0 -1 -1 -1 -1\n")
    (job,) = read_jobs(swf)
    assert (job.submit, job.seconds, job.instances, job.gang, job.longest) == (0.0, 12072.0, 16, True, 20000)
    philly = tmp_path / "b.csv"
    philly.write_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 07:01:55,66.0,12,792.0,11cb48\n2017-10-09 07:00:55,5.0,1,5.0,6214e9\n"
    )
    one, twelve = read_jobs(philly)
    assert (one.pool, one.submit, one.resources.gpu) == ("/6214e9", 0.0, 1000)
    assert (twelve.submit, twelve.instances, twelve.resources.gpu) == (60.0, 2, 6000)


def test_values_over_time_are_written(tmp_path: Path) -> None:
    given = files(tmp_path)
    result = run(*given, "--csv", str(tmp_path / "out"), "--html", str(tmp_path / "page.html"))
    assert result.exit_code == 0, result.output
    pools = list(csv.DictReader((tmp_path / "out" / "pools.csv").open()))
    assert {row["pool"] for row in pools} == {"/x", "/y"}
    cluster = list(csv.DictReader((tmp_path / "out" / "cluster.csv").open()))
    assert len(pools) == 2 * len(cluster) > 0
    assert all(0 <= float(row["fragmentation"]) <= 1 for row in cluster)
    assert "fragmentation, %" in result.output
    page = (tmp_path / "page.html").read_text()
    assert "Fairness and fragmentation" in page and "of the pool&#x27;s entitlement" in page.replace(
        "'", "&#x27;"
    )


def test_fragmentation_is_what_is_free_and_cannot_be_used() -> None:
    jobs = [
        SimJob("a", 0.0, "/x", Resources.of(4, 0, 0, 1), 1.0, instances=3),
        SimJob("b", 0.0, "/x", Resources.of(1, 0, 0, 2), 1.0),
        SimJob("c", 0.0, "/x", Resources.of(64), 1.0, instances=100),
    ]
    gpu = scarce_kind(Resources.of(8, 0, 0, 8))
    shapes = shapes_of(jobs, gpu)
    assert [share for _, share in shapes] == [0.75, 0.25], "tasks without GPUs do not count"
    busy, half, idle = Resources.of(0, 0, 0, 2), Resources.of(8, 0, 0, 1), Resources.of(8, 0, 0, 4)
    assert fragmentation([idle], shapes, gpu) == 0.0
    assert fragmentation([busy], shapes, gpu) == 1.0
    assert fragmentation([half], shapes, gpu) == pytest.approx(0.25)
    assert fragmentation([busy, half, idle], shapes, gpu) == pytest.approx(1 - (0.75 * 5 + 0.25 * 4) / 7)
    assert fragmentation([], shapes, gpu) == fragmentation([idle], [], gpu) == 0.0
    assert scarce_kind(Resources.of(8)) == 0


def test_figures() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.99) == 4.0
    fair = {"a": PoolSample(0.5, 0.5, 0.0), "b": PoolSample(0.5, 0.5, 1.0)}
    unfair = {"a": PoolSample(0.5, 0.5, 0.0), "b": PoolSample(0.0, 0.5, 1.0)}
    assert jain([fair]) == 1.0
    assert jain([unfair]) == 0.5


def test_a_task_that_waits_for_a_host_costs_little_and_starts_when_there_is_room() -> None:
    """Its reservation was asked for and planned in each second of the days that it waited."""
    hosts = [HostSpec(f"host-{number}", Resources.of(4, 4000, 1000)) for number in range(2)]
    held = 2 * 86_400.0
    pool = PoolConfig("x", "x", "root", {kind: KindConfig(8_000_000, 8_000_000) for kind in KINDS})
    jobs = [
        SimJob("one", 0.0, "/x", Resources.of(3, 500), held),
        SimJob("two", 0.0, "/x", Resources.of(3, 500), held),
        SimJob("wide", 60.0, "/x", Resources.of(2, 500), 100.0),
    ]
    simulation = Simulation(hosts, [pool], jobs)
    simulation.run()
    ended = {job.spec.name: job.runtime for job in simulation.ended}
    assert len(ended) == len(jobs) and simulation.kernel.events < 100_000
    began = (ended["wide"].start_time - ended["one"].completion_time) / 1e9
    assert 0 < began < 15


def test_a_run_leaves_no_cycles_of_each_job_for_the_garbage_collector() -> None:
    pools = [PoolConfig("p", "a", "root", {kind: KindConfig(10**9, 10**9) for kind in KINDS})]
    jobs = [SimJob(f"j{n}", float(n), "/a", Resources.of(1.0), 5.0, preemptible=True) for n in range(300)]
    simulation = Simulation([HostSpec("h", Resources.of(4.0))], pools, jobs)
    gc.collect()
    gc.disable()
    try:
        simulation.run()
        found = gc.collect()
    finally:
        gc.enable()
    assert len(simulation.ended) == 300
    assert found < 300, "a collection looks at all new objects: it took 6 % of a run"

"""benchmarks/scaling.py: which clusters and jobs it makes, and how it adds what processes need."""

from __future__ import annotations

import pytest

from benchmarks.scaling import GPUS_EACH, Row, arguments, settings_of, shown_names, total
from benchmarks.scaling_jobs import EXCLUSIVE_EVERY, JOB_SIZE, MIX, Part, job_of, numbers_of, parts

FOUR = ["--hosts", "10", "--clusters", "4", "--jobmgrs", "2", "--placements", "4", "--mixed"]


def test_hosts_are_divided_among_the_clusters_and_the_last_has_the_gpus() -> None:
    settings = settings_of(10, arguments(FOUR))
    every = [settings.simulated, *(each.simulated for each in settings.clusters)]
    assert [each.agents for each in every if each] == [4, 2, 2, 2]
    assert ["gpus" in each.resources for each in every if each] == [False, False, False, True]
    assert settings.instances.jobmgr == 2 and settings.settings.jobmgr == {"shared": True}
    assert settings.instances.placement == (("batch",),) * 4


def test_a_mix_needs_a_cluster_with_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--mixed"])
    assert "--mixed: needs --clusters 2" in capsys.readouterr().err


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("count", [1, 999, 2_000_001])
def test_jobs_have_as_many_instances_as_are_wanted(count: int, mixed: bool) -> None:
    found = list(parts(count, mixed))
    assert sum(each.instances for each in found) == count
    assert max(each.instances for each in found) <= JOB_SIZE
    assert {each.kind for each in found} <= set(MIX if mixed else ["any"])


def test_tasks_that_are_spread_all_have_room_on_the_hosts() -> None:
    task = job_of(Part("spread", 150), "pool", 7, hosts=100).defaultConfig
    limit = task.constraint.labelConstraint
    assert limit.label.value == task.labels[0].value
    assert 100 * limit.requirement >= 2 * 150


def test_a_million_tasks_on_50000_hosts_have_gpus_enough() -> None:
    """Tasks with GPUs do not go to hosts that are exclusive."""
    hosts = 50_000 // 4 * (EXCLUSIVE_EVERY - 1) // EXCLUSIVE_EVERY
    assert hosts * GPUS_EACH >= 1_000_000 * MIX["gpu"]


def test_shards_are_read_as_they_are_told() -> None:
    assert numbers_of("0-2,63") == {0, 1, 2, 63}


def test_what_processes_of_a_kind_need_is_added() -> None:
    one = Row(10, 20, 0, "jobmgr0", 30.0, 1.5, 2.0, 0.5, 100.0)
    assert total("jobmgr", [one, one]) == Row(10, 20, 0, "2 jobmgr", 60.0, 3.0, 4.0, 1.0, 100.0)


def test_processes_of_a_kind_are_drawn_as_one() -> None:
    names = ["hostmgr0", "hostmgr-cluster2", "resmgr0", "2 hostmgr"]
    rows = [Row(10, 20, 0, name, 30.0, 1.5, 2.0, 0.5, 100.0) for name in names]
    assert shown_names(rows) == ["resmgr0", "2 hostmgr"]
    assert shown_names(rows[:1]) == ["hostmgr0"]

"""GPUs of a host apart: what fits, what is a fragment, and which host each ranking takes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu_sharing import (
    ABSENT,
    DEVICES,
    Cluster,
    FragmentationGradient,
    Kind,
    Ranking,
    allocate,
    at_random,
    best_fit,
    drawn,
    fragments,
    pooled_fragments,
    rankings,
    read_hosts,
    read_tasks,
    tightest,
    whole_points,
    workload_of,
)

HALF = Kind(1000, 0, 1, 500)
ONE = Kind(1000, 0, 1, 1000)
TWO = Kind(1000, 0, 2, 1000)
NONE = Kind(4000, 0, 0, 0)


def cluster(*hosts: Sequence[int], cpu: int = 8000) -> Cluster:
    """Return hosts with these devices."""
    gpus = np.array([[*free, *[ABSENT] * (DEVICES - len(free))] for free in hosts], np.int64)
    return Cluster(np.full(len(hosts), cpu), np.full(len(hosts), 1000), gpus)


def test_a_part_of_a_gpu_is_on_one_device_and_whole_ones_are_free() -> None:
    found = cluster([300, 300], [500, 0], [1000, 400], [1000, 1000], [])
    assert found.fits(HALF).tolist() == [False, True, True, True, False]
    assert found.fits(ONE).tolist() == [False, False, True, True, False]
    assert found.fits(TWO).tolist() == [False, False, False, True, False]
    assert found.fits(NONE).all()
    assert found.total_gpu == 300 + 300 + 500 + 1000 + 400 + 2000


def test_cpu_and_memory_count() -> None:
    assert not cluster([1000], cpu=999).fits(ONE).any()
    assert not cluster([1000]).fits(Kind(0, 1001, 0, 0)).any()


def test_the_tightest_device_is_taken() -> None:
    free = cluster([700, 500, 1000]).gpus[0]
    assert tightest(free, HALF) == [1]
    assert tightest(free, ONE) == [2]


def test_fragments_by_hand() -> None:
    states = cluster([300, 300], [500, 1000], [1000, 1000])
    workload = {HALF: 0.75, TWO: 0.25}
    # The first takes neither; the second takes half a GPU on both, and no task with two.
    assert fragments(states.cpu, states.gpus, workload).tolist() == [600.0, 0.25 * 1500, 0.0]
    # As one amount, 600 thousandths take half a GPU, and 1500 do not take two.
    assert pooled_fragments(states.cpu, states.gpus, workload).tolist() == [0.25 * 600, 0.25 * 1500, 0.0]


def test_what_is_free_beside_too_little_cpu_is_a_fragment() -> None:
    states = cluster([1000, 1000], cpu=500)
    assert fragments(states.cpu, states.gpus, {HALF: 1.0}).tolist() == [2000.0]


def test_a_device_that_is_too_small_is_a_fragment_of_a_host_that_takes_the_task() -> None:
    states = cluster([400, 1000])
    assert fragments(states.cpu, states.gpus, {HALF: 1.0}).tolist() == [400.0]


def test_the_gradient_keeps_pairs_of_whole_devices_together() -> None:
    hosts = cluster([1000, 1000], [1000, 500])
    rows = np.arange(2)
    choice = FragmentationGradient({HALF: 0.5, TWO: 0.5})(hosts, HALF, rows)
    assert choice == (1, [1])  # the device that is begun, on the host that takes no task with two


def test_the_gradient_follows_the_hosts() -> None:
    """Its memory of hosts gives the same as no memory, over many steps."""
    tasks = list(islice(drawn([HALF, ONE, TWO, NONE, Kind(500, 10, 1, 250)], seed=3), 60))
    workload = workload_of(tasks)
    hosts = cluster([1000] * 4, [1000] * 8, [1000, 1000], [], cpu=16_000)
    kept = FragmentationGradient(workload)
    for kind in tasks:
        rows = np.flatnonzero(hosts.fits(kind))
        if not len(rows):
            continue
        choice = kept(hosts, kind, rows)
        assert choice == FragmentationGradient(workload)(hosts, kind, rows)
        hosts.take(choice[0], kind, choice[1])
    assert hosts.gpus[hosts.gpus != ABSENT].min() >= 0
    assert min(hosts.cpu.min(), hosts.memory.min()) >= 0


@pytest.mark.parametrize("name", ["random", "best fit", "pooled", "devices"])
def test_no_ranking_gives_more_than_there_is(name: str) -> None:
    hosts = cluster([1000] * 8, [1000] * 2, [1000], cpu=32_000)
    tasks = [HALF, ONE, TWO, Kind(100, 1, 1, 300), NONE]
    named: dict[str, Ranking] = {
        "random": at_random(1),
        "best fit": best_fit(hosts),
        "pooled": FragmentationGradient(workload_of(tasks), pooled_fragments),
        "devices": FragmentationGradient(workload_of(tasks)),
    }
    total = hosts.total_gpu
    found = allocate(hosts, drawn(tasks, 1), named[name], [0.5, 1.3])
    assert [each.asked >= share for each, share in zip(found, [0.5, 1.3], strict=True)] == [True, True]
    assert 0 < found[0].allocated <= found[1].allocated <= 1
    assert found[1].allocated == pytest.approx(1 - hosts.total_gpu / total)


def test_the_workload_is_what_most_tasks_with_gpus_are() -> None:
    tasks = [HALF] * 70 + [ONE] * 26 + [TWO] * 4 + [NONE] * 500
    assert workload_of(tasks) == {HALF: 70 / 96, ONE: 26 / 96}


def test_files_of_the_trace(tmp_path: Path) -> None:
    hosts, tasks = tmp_path / "hosts.csv", tmp_path / "tasks.csv"
    hosts.write_text("sn,cpu_milli,memory_mib,gpu,model\na,32000,1024,0,\nb,96000,2048,2,T4\n")
    tasks.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,12000,16,1,460\nq,1000,8,2,1000\nr,500,4,0,\n"
    )
    read = read_hosts(hosts)
    assert read.gpus.tolist() == [[ABSENT] * 8, [1000, 1000, *[ABSENT] * 6]]
    assert read.cpu.tolist() == [32000, 96000]
    assert read_tasks(tasks) == [Kind(12000, 16, 1, 460), Kind(1000, 8, 2, 1000), Kind(500, 4, 0, 0)]
    assert len(rankings(read, read_tasks(tasks), 0)) == 5


def test_fragments_of_whole_devices_are_those_of_the_gpus_as_one_amount() -> None:
    chance = np.random.default_rng(3)
    gpus = np.where(chance.random((200, 8)) < 0.5, 1000, 0).astype(np.int64)
    cpu = chance.integers(0, 64_000, 200)
    workload = {Kind(4000 * count, 0, count, 1000): 0.25 for count in (1, 2, 4, 8)}
    assert fragments(cpu, gpus, workload).tolist() == pooled_fragments(cpu, gpus, workload).tolist()
    gpus[0] = 500
    assert fragments(cpu, gpus, workload)[0] != pooled_fragments(np.full_like(cpu, 64_000), gpus, workload)[0]


def test_by_whole_points_hosts_whose_fragments_grow_by_about_the_same_are_equal() -> None:
    points = whole_points(np.array([0.0, 10.0, 30.0, 60.0, 1000.0, 100_000.0]))
    assert points.tolist() == [-50, -49, -49, -48, -26, 0]
    workload = {ONE: 0.98, HALF: 0.02}
    found = cluster([1000, 500], [500, 1000, 1000])
    exact, cut = FragmentationGradient(workload), FragmentationGradient(workload, compared=whole_points)
    rows = np.flatnonzero(found.fits(HALF))
    assert exact(found, HALF, rows)[0] == cut(found, HALF, rows)[0] == 0

"""Reservations where some hosts have GPUs, whose other resources are no capacity for other tasks.

Twelve hosts, three of them with 4 GPUs; eight pools with reservations and limits, two of them for GPUs; each
demands more than it reserves. `PELOTON_WATCH_SECONDS=300` watches for five minutes.
"""

from __future__ import annotations

import os
import re
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from minicluster.settings import Agent, DaemonSettings
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2

from .conftest import Harness, harness_of, wait_for

SECONDS = 120
WATCHED = float(os.environ.get("PELOTON_WATCH_SECONDS", "10"))
"""How long it is watched that the reservations are kept."""
EVERY = 5.0 if WATCHED > 60 else 1.0
PERIOD, STRIKES = 2.0, 2
FOREVER = "exec sleep 3600"


def _agent(number: int, gpus: int) -> Agent:
    of_gpus = f"gpus:{gpus};" if gpus else ""
    first = 31000 + 100 * number
    return Agent(
        hostname=f"{'gpu' if gpus else 'plain'}{number}",
        resources=f"cpus:8;mem:4096;disk:20000;{of_gpus}ports:[{first}-{first + 99}]",
    )


AGENTS = tuple(_agent(number, 4 if number < 3 else 0) for number in range(12))


@dataclass(frozen=True, slots=True)
class Demand:
    """A pool, and a job in it that demands more than is reserved."""

    reserved: int
    """Cpus."""
    limit: int
    instances: int
    cpus: float = 2.0
    gpus: int = 0

    @property
    def due(self) -> int:
        """Tasks that the reservation has room for."""
        return int(self.reserved / self.cpus)


POOLS = {
    "gpu-a": Demand(12, 24, 12, gpus=1),
    "gpu-b": Demand(6, 12, 12, gpus=1),
    "cpu-a": Demand(20, 72, 40),
    "cpu-b": Demand(12, 40, 30),
    "cpu-c": Demand(8, 24, 20),
    "cpu-d": Demand(8, 24, 20),
    "cpu-e": Demand(6, 24, 20),
    "cpu-f": Demand(4, 72, 60),
}
"""72 cpus have no GPUs beside them, of which 58 are reserved; 24 cpus and 12 GPUs are on the other hosts."""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    quick = {"preemption": {"period": PERIOD, "strikes": STRIKES}}
    with harness_of(tmp_path_factory, agents=AGENTS, settings=DaemonSettings(resmgr=quick)) as held:
        yield held


def make_room(harness: Harness) -> None:
    """Take the reservation of the pool that all cluster tests have: it is the whole cluster's."""
    answer = harness.client.respool_svc.GetResourcePool(
        respool_pb2.GetRequest(id=peloton_pb2.ResourcePoolID(value=harness.pool)), timeout=SECONDS
    )
    config = answer.poolinfo.config
    for kind in config.resources:
        kind.reservation = 0
    update = respool_pb2.UpdateRequest(id=answer.poolinfo.id, config=config, Force=True)
    changed = harness.client.respool_svc.UpdateResourcePool(update, timeout=SECONDS)
    assert not changed.HasField("error"), changed


def make_pool(harness: Harness, name: str, demand: Demand) -> str:
    gpus = demand.due * demand.gpus
    amounts = {
        "cpu": (demand.reserved, demand.limit),
        "memory": (0, 1e6),
        "disk": (0, 1e6),
        "gpu": (gpus, 12 if gpus else 0),
    }
    config = respool_pb2.ResourcePoolConfig(
        name=name,
        parent=peloton_pb2.ResourcePoolID(value="root"),
        resources=[
            respool_pb2.ResourceConfig(kind=kind, reservation=reserved, limit=limit, share=1)
            for kind, (reserved, limit) in amounts.items()
        ],
    )
    answer = harness.client.respool_svc.CreateResourcePool(
        respool_pb2.CreateRequest(config=config), timeout=SECONDS
    )
    assert not answer.HasField("error"), answer
    return str(answer.result.value)


def job(harness: Harness, pool: str, demand: Demand) -> str:
    config = harness.config(FOREVER, demand.instances)
    config.defaultConfig.resource.cpuLimit = demand.cpus
    config.defaultConfig.resource.gpuLimit = demand.gpus
    config.respoolID.value = pool
    return harness.create(config)


def running(harness: Harness, jobs: dict[str, str]) -> dict[str, int]:
    return {
        name: sum(task.runtime.state == task_pb2.RUNNING for task in harness.tasks(job_id).values())
        for name, job_id in jobs.items()
    }


def short(counts: dict[str, int]) -> dict[str, str]:
    """The pools that run less than is reserved for them."""
    return {
        name: f"{counts[name]} of {demand.due}" for name, demand in POOLS.items() if counts[name] < demand.due
    }


@pytest.mark.timeout(WATCHED + 300)
def test_each_pool_runs_its_reservation(harness: Harness) -> None:
    """Within two preemption periods, from a cluster that one pool has taken completely."""
    make_room(harness)
    pools = {name: make_pool(harness, name, demand) for name, demand in POOLS.items()}
    last, *others = ("cpu-f", *(name for name in POOLS if name != "cpu-f"))
    jobs = {last: job(harness, pools[last], POOLS[last])}
    wait_for(lambda: running(harness, jobs)[last] == 36, SECONDS, lambda: str(running(harness, jobs)))

    jobs.update({name: job(harness, pools[name], POOLS[name]) for name in others})
    # Tasks are ended and started besides: on a busy machine that is slower than any preemption.
    wait_for(lambda: not short(running(harness, jobs)), SECONDS, lambda: str(running(harness, jobs)))
    began = time.monotonic()
    while time.monotonic() - began < WATCHED:
        counts = running(harness, jobs)
        assert not short(counts), counts
        assert sum(counts[name] * POOLS[name].cpus for name in POOLS if "cpu" in name) <= 72
        for name, demand in POOLS.items():
            assert counts[name] * demand.cpus <= demand.limit
        time.sleep(EVERY)

    shown = entitlements(harness)
    assert sum(shown[f"/{name}"] for name in POOLS if "cpu" in name) <= 72, shown
    assert sum(shown[f"/{name}"] for name in POOLS if "gpu" in name) <= 24, shown
    assert all(shown[f"/{name}"] >= demand.reserved for name, demand in POOLS.items()), shown


def entitlements(harness: Harness) -> dict[str, float]:
    """The entitlement to cpu of each pool as the resource manager shows it."""
    [resmgr] = [part for part in harness.cluster.components() if part.kind == "resmgr"]
    with urllib.request.urlopen(f"http://{resmgr.addresses['http']}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    pattern = r'^resmgr_pool_entitlement\{kind="cpu",pool="([^"]+)"\} (\S+)$'
    return {pool: float(amount) for pool, amount in re.findall(pattern, text, re.MULTILINE)}

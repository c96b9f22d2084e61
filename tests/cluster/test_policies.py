"""Policies that are plugged in decide in real daemons as they decide in the simulator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from minicluster.mesos.master.core.simulated_agents import SECONDS_LABEL
from minicluster.settings import DaemonSettings, Simulated
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import parse_rfc3339
from simulator.cli import simulate
from simulator.jobs import job_id_of

from .conftest import TERMINAL, Harness, harness_of, wait_for

pytestmark = pytest.mark.extended
EXAMPLES = Path(__file__).parents[2] / "examples" / "policies"
SECONDS = 90
LONG = 1000
"""Seconds of a task that runs as long as the test."""
APART = 20
"""Simulated seconds between two jobs."""
DECISIONS = "decisions.jsonl"
HOSTS, CORES, MEMORY_MB = 4, 4, 4096
QUICK = {"preemption": {"period": 0.5, "strikes": 1}, "entitlement_interval": 1}
RESMGR = {
    "preemption": {**QUICK["preemption"], "victim_order": "least_work"},  # type: ignore[dict-item]
    "entitlement_interval": 1,
    "entitlement_policy": "fixed_shares",
    "admission": {"queue_order": "smallest_first"},
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the daemons are set to, in a cluster and in the simulator."""

    resmgr: Mapping[str, Any]
    placement: Mapping[str, Any]


PLUGGED_IN = Configuration(RESMGR, {"strategy": "packed"})
OTHERWISE = Configuration(QUICK, {"scorer": "alignment"})
"""Of the resource manager nothing is plugged in, and of the engine something else."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A job of a scene; it is created when those before it run, or wait as they should."""

    name: str
    cpu: int
    """Cores of each instance."""
    instances: int = 1
    seconds: int = LONG
    priority: int = 0
    service: bool = False
    waits: bool = False
    """Whether it is queued when it is created."""
    preempts: bool = False
    """Whether another one makes room for it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Jobs in the first of some pools. Each pool may hold `limit` cores."""

    jobs: tuple[Planned, ...]
    limit: int = HOSTS * CORES
    pools: tuple[str, ...] = ("one",)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The examples, installed by pip into a folder of their own, where processes that are started find it."""
    folder = tmp_path_factory.mktemp("policies")
    source, site = folder / "source", folder / "site"
    shutil.copytree(EXAMPLES, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(site), str(source)]
    subprocess.run(pip, check=True, timeout=300)
    assert list(site.glob("*.dist-info/entry_points.txt"))
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        patch.syspath_prepend(str(site))
        yield site


@contextmanager
def cluster_of(folders: pytest.TempPathFactory, configuration: Configuration) -> Iterator[Harness]:
    resources = f"cpus:{CORES};mem:{MEMORY_MB};disk:20000"
    simulated = Simulated(agents=HOSTS, resources=resources, task_seconds=LONG)
    settings = DaemonSettings(resmgr=dict(configuration.resmgr), placement=dict(configuration.placement))
    with harness_of(folders, simulated=simulated, settings=settings) as harness:
        delete_pool(harness, "test")
        yield harness


@pytest.fixture(scope="module")
def plugged(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with cluster_of(tmp_path_factory, PLUGGED_IN) as harness:
        yield harness


@pytest.fixture(scope="module")
def otherwise(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with cluster_of(tmp_path_factory, OTHERWISE) as harness:
        yield harness


# A scene in a cluster.


def make_pool(harness: Harness, name: str, limit: int) -> str:
    kinds = (("cpu", limit), ("memory", 1e6), ("disk", 1e6), ("gpu", 0))
    config = respool_pb2.ResourcePoolConfig(
        name=name,
        parent=peloton_pb2.ResourcePoolID(value="root"),
        resources=[respool_pb2.ResourceConfig(kind=kind, limit=most, share=1) for kind, most in kinds],
    )
    answer = harness.client.respool_svc.CreateResourcePool(
        respool_pb2.CreateRequest(config=config), timeout=SECONDS
    )
    assert not answer.HasField("error"), answer.error
    return str(answer.result.value)


def delete_pool(harness: Harness, name: str) -> None:
    request = respool_pb2.DeleteRequest(path=respool_pb2.ResourcePoolPath(value=f"/{name}"))
    answer: list[Any] = []

    def deleted() -> bool:
        answer[:] = [harness.client.respool_svc.DeleteResourcePool(request, timeout=SECONDS)]
        return not answer[0].HasField("error")

    wait_for(deleted, SECONDS, lambda: str(answer))


class Played:
    """The jobs of a scene in a cluster."""

    def __init__(self, harness: Harness, pool: str) -> None:
        self.harness = harness
        self.ids: dict[str, str] = {}
        self._pool = pool

    def play(self, scene: Scene) -> None:
        for planned in scene.jobs:
            if planned.preempts:
                self._await_work(scene)
            self.ids[planned.name] = self.harness.create(self._config(planned))
            self.await_states(task_pb2.PENDING if planned.waits else task_pb2.RUNNING, planned)

    def _await_work(self, scene: Scene) -> None:
        """Wait until the job that began last has done the most work, since it is large."""
        first, last = (parse_rfc3339(self.runtime(each.name).startTime) for each in scene.jobs[:2])
        wait_for(lambda: time.time_ns() - last > last - first, SECONDS)

    def _config(self, planned: Planned) -> job_pb2.JobConfig:
        config = self.harness.config("true", planned.instances)
        config.defaultConfig.resource.cpuLimit = planned.cpu
        config.defaultConfig.labels.add(key=SECONDS_LABEL, value=str(planned.seconds))
        config.sla.priority = planned.priority
        config.respoolID.value = self._pool
        config.type = job_pb2.SERVICE if planned.service else job_pb2.BATCH
        return config

    def runtime(self, name: str) -> task_pb2.RuntimeInfo:
        """Return the state of its only task; an empty one before that is created."""
        return self.harness.tasks(self.ids[name]).get(0, task_pb2.TaskInfo()).runtime

    def await_states(self, state: int, *jobs: Planned) -> None:
        """Wait until all instances of jobs are in a state."""

        def states() -> list[int]:
            found = [self.harness.tasks(self.ids[each.name]).values() for each in jobs]
            return [task.runtime.state for tasks in found for task in tasks]

        wanted = [state] * sum(each.instances for each in jobs)
        wait_for(lambda: states() == wanted, SECONDS, lambda: f"{jobs}: {states()}")

    def stop(self, *names: str) -> None:
        for name in names:
            stop = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=self.ids[name]))
            assert not self.harness.client.task_svc.Stop(stop, timeout=SECONDS).HasField("error")
        ids = [self.ids[name] for name in names]
        wait_for(lambda: all(self.harness.runtime(each).state in TERMINAL for each in ids), SECONDS)


@contextmanager
def played(harness: Harness, scene: Scene) -> Iterator[Played]:
    """Play a scene; its jobs and pools are gone after the body."""
    pools = [make_pool(harness, name, scene.limit) for name in scene.pools]
    held = Played(harness, pools[0])
    try:
        held.play(scene)
        yield held
    finally:
        held.stop(*[name for name in held.ids if harness.runtime(held.ids[name]).state not in TERMINAL])
        for name in scene.pools:
            delete_pool(harness, name)


# The same scene in the simulator.


def launches(folder: Path, scene: Scene, configuration: Configuration) -> list[tuple[str, str]]:
    """Return the name and the host of each launch, in order."""
    rows = [
        {
            "name": each.name, "submit": APART * number, "pool": f"/{scene.pools[0]}", "cpu": each.cpu,
            "memory": 32, "disk": 8, "seconds": each.seconds, "priority": each.priority,
            "service": each.service, "instances": each.instances,
        }
        for number, each in enumerate(scene.jobs)
    ]  # fmt: skip
    (folder / "jobs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    cpu = {"limit": scene.limit, "share": 1}
    pools = [{"path": f"/{name}", "resources": {"cpu": cpu}} for name in scene.pools]
    hosts = [{"count": HOSTS, "cpu": CORES, "memory": MEMORY_MB, "disk": 20_000}]
    (folder / "cluster.yaml").write_text(yaml.safe_dump({"hosts": hosts, "pools": pools}))
    (folder / "resmgr.yaml").write_text(yaml.safe_dump(dict(configuration.resmgr)))
    (folder / "engine.yaml").write_text(yaml.safe_dump(dict(configuration.placement)))
    out = folder / DECISIONS
    ran = CliRunner().invoke(
        simulate,
        [
            "--trace", str(folder / "jobs.jsonl"), "--cluster", str(folder / "cluster.yaml"),
            "--resmgr", str(folder / "resmgr.yaml"), "--placement", str(folder / "engine.yaml"),
            "--decisions", str(out),
        ],
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    names = {job_id_of(number): each.name for number, each in enumerate(scene.jobs)}
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return [(names[line["run"][:36]], line["host"]) for line in lines if line["what"] == "launch"]


def at_once(folder: Path, scene: Scene, configuration: Configuration) -> int:
    """Return how many jobs have been launched before the first one ends."""
    launches(folder, scene, configuration)
    lines = (json.loads(line) for line in (folder / DECISIONS).read_text().splitlines())
    return sum(line["what"] == "launch" for line in takewhile(lambda line: line["what"] != "end", lines))


# The policies.

QUEUE = Scene(
    (
        Planned("first", 4, seconds=90),
        Planned("large", 4, seconds=2, waits=True),
        Planned("middle", 3, seconds=2, waits=True),
        Planned("small", 2, seconds=2, waits=True),
    ),
    limit=4,
)
"""One of them runs at a time."""


def started(harness: Harness) -> list[str]:
    """Return in which order the jobs of the queue have started."""
    with played(harness, QUEUE) as scene:
        scene.stop("first")
        scene.await_states(task_pb2.SUCCEEDED, *QUEUE.jobs[1:])
        return sorted((each.name for each in QUEUE.jobs[1:]), key=lambda name: scene.runtime(name).startTime)


def test_the_order_of_a_queue_decides(plugged: Harness, otherwise: Harness, tmp_path: Path) -> None:
    """By default, the one that came first would start first."""
    assert started(plugged) == ["small", "middle", "large"]
    assert [name for name, _ in launches(tmp_path, QUEUE, PLUGGED_IN)][1:] == ["small", "middle", "large"]
    assert started(otherwise) == ["large", "middle", "small"]
    assert [name for name, _ in launches(tmp_path, QUEUE, OTHERWISE)][1:] == ["large", "middle", "small"]


def sharing(waits: bool) -> Scene:
    jobs = (Planned("a", 4), Planned("b", 4), Planned("c", 4, waits=waits), Planned("d", 4, waits=waits))
    return Scene(jobs, pools=("busy", "idle"))


def test_the_entitlement_decides(plugged: Harness, otherwise: Harness, tmp_path: Path) -> None:
    """By default, a pool has what another one has no use for."""
    with played(plugged, sharing(waits=True)) as scene:
        check = [scene.runtime(name) for name in "abcd"]
        assert [each.state for each in check] == [task_pb2.RUNNING] * 2 + [task_pb2.PENDING] * 2, check
        wait_for(lambda: "entitlement" in scene.runtime("c").reason, SECONDS)
    assert at_once(tmp_path, sharing(waits=True), PLUGGED_IN) == 2
    with played(otherwise, sharing(waits=False)):
        pass  # all four have run
    assert at_once(tmp_path, sharing(waits=False), OTHERWISE) == 4


VICTIMS = Scene(
    (Planned("small", 1), Planned("large", 4), Planned("urgent", 1, priority=1, preempts=True)), limit=5
)
"""The first one has run for longer, and less work is lost with it."""


def victims(harness: Harness) -> list[str]:
    """Return which jobs make room for one of a higher priority."""
    with played(harness, VICTIMS) as scene:
        return [name for name in ("small", "large") if scene.runtime(name).state != task_pb2.RUNNING]


def simulated_victims(folder: Path, configuration: Configuration) -> list[str]:
    """Return which jobs run again once there is room."""
    names = [name for name, _ in launches(folder, VICTIMS, configuration)]
    assert names[:3] == ["small", "large", "urgent"]
    return names[3:]


def test_the_order_of_victims_decides(plugged: Harness, otherwise: Harness, tmp_path: Path) -> None:
    """By default, the one that began last would make room."""
    assert victims(plugged) == simulated_victims(tmp_path, PLUGGED_IN) == ["small"]
    assert victims(otherwise) == simulated_victims(tmp_path, OTHERWISE) == ["large"]


PAIR = Scene((Planned("pair", 1, instances=2),))
SERVICES = Scene((Planned("pair", 1, instances=2, service=True),))


def together(harness: Harness, scene: Scene) -> bool:
    """Return whether both instances of a job are on one host."""
    with played(harness, scene) as held:
        one, two = (task.runtime.host for task in harness.tasks(held.ids["pair"]).values())
        return bool(one == two)


def simulated_together(launched: Sequence[tuple[str, str]]) -> bool:
    (_, one), (_, two) = launched
    return one == two


@pytest.mark.parametrize("scene", [PAIR, SERVICES], ids=["scorer", "strategy"])
def test_scorer_and_strategy_decide(
    plugged: Harness, otherwise: Harness, tmp_path: Path, scene: Scene
) -> None:
    """By default, batch jobs are packed and services are spread: the scorer spreads, the strategy packs."""
    assert together(plugged, scene) and simulated_together(launches(tmp_path, scene, PLUGGED_IN))
    assert not together(otherwise, scene) and not simulated_together(launches(tmp_path, scene, OTHERWISE))
    own = Configuration(QUICK, {})
    assert simulated_together(launches(tmp_path, scene, own)) is (scene is PAIR)

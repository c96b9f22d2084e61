"""`make demo-elastic`: two pools share a cluster of simulated agents.

Team 1's demand grows, and it borrows what team 2 does not use. Then team 2 returns and gets its share, for
which tasks of team 1 are preempted. Then team 2 is done. The demo prints a table over time and writes a
picture.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

from mesos.v1 import mesos_pb2
from minicluster.cluster import Cluster
from minicluster.demo.chart import Chart, Line, Panel, svg
from minicluster.settings import ClusterSettings, Simulated, read_cluster
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient, blocking_http
from peloton.errors import PelotonError, Unavailable
from peloton.model.amounts import duration

PICTURE = Path("build/elastic.svg")
AGENTS, CPUS = 10, 10
CAPACITY = AGENTS * CPUS
TEAMS = ("team1", "team2")
FEW, MORE, MANY, RETURNING = 20, 50, 50, 70
"""Tasks of one cpu: team 1's at first, what it adds twice, and team 2's."""
SAMPLE_SECONDS, HOLD_SECONDS, PATIENCE = 0.5, 4.0, 60.0
PREEMPTED = "resmgr_preempted_tasks_total"
GAUGES = ("resmgr_pool_demand", "resmgr_pool_entitlement", "resmgr_pool_allocation")
_LINES = (("demand", "#888888"), ("entitlement", "#1f77b4"), ("allocation", "#2ca02c"))


@dataclass(frozen=True, slots=True)
class Share:
    """A pool's cpu at one time."""

    demand: float
    """Allocated and queued."""
    entitlement: float
    allocation: float


@dataclass(slots=True)
class Samples:
    """The shares of both teams over time, and the marks between the phases."""

    times: list[float] = field(default_factory=list)
    shares: dict[str, list[Share]] = field(default_factory=lambda: {team: [] for team in TEAMS})
    marks: list[tuple[float, str]] = field(default_factory=list)

    def chart(self) -> Chart:
        """Return the picture: a panel for each team."""
        panels = [
            Panel(
                f"/{team}, which reserves {CAPACITY // 2}",
                [
                    Line(
                        name, [getattr(share, name) for share in shares], colour, name == "allocation", not i
                    )
                    for i, (name, colour) in reversed(list(enumerate(_LINES)))
                ],
            )
            for team, shares in self.shares.items()
        ]
        return Chart(f"Two pools share {CAPACITY} cpus", "cpu", self.times, panels, self.marks)


def main() -> int:
    """Run the demo; return the exit code."""
    return run_program("demo", lambda: demonstrate(PICTURE))


def demonstrate(picture: Path) -> int:
    """Run the demo; return the exit code. The cluster is gone afterwards in any case."""
    print(f"A Mesos master with {AGENTS} simulated agents and the four daemons come up.", flush=True)
    with temporary_cluster(cluster_settings()) as cluster:
        samples = Demo(cluster).run()
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(svg(samples.chart()))
    print(f"demo: each team got its share; the picture is {picture}", flush=True)
    return 0


def cluster_settings() -> ClusterSettings:
    """Return the settings: shares and preemption are computed each second, not each minute."""
    resmgr = {
        "metrics_interval": 0.5,
        "entitlement_interval": 1.0,
        "preemption": {"period": 1.0, "strikes": 3},
    }
    resources = f"cpus:{CPUS};mem:{CPUS * 1024};disk:100000;ports:[31000-31999]"
    simulated = Simulated(agents=AGENTS, resources=resources, task_seconds=3600)
    tree = {"ports": "free", "simulated": simulated.model_dump(), "settings": {"resmgr": resmgr}}
    return read_cluster(None, tree)


class Demo:
    """The demo on a cluster that is up. Each phase ends when its aim has held for some seconds."""

    def __init__(self, cluster: Cluster) -> None:
        urls = cluster.urls()
        self._client = PelotonClient("demo", jm_url=urls["JOBMGR_URL"], rm_url=urls["RESMGR_URL"])
        resmgr = next(part for part in cluster.components() if part.kind == "resmgr")
        self._metrics = f"http://{resmgr.addresses['http']}/metrics"
        self._pools = {team: self._make_pool(team) for team in TEAMS}
        self.samples = Samples()
        self._begun = time.monotonic()

    def run(self) -> Samples:
        """Run all phases. Raise PelotonError where a phase does not reach its aim."""
        try:
            self._phases()
        finally:
            self._client.close()
        return self.samples

    def _phases(self) -> None:
        half = CAPACITY // 2
        print(f"\n{'':8}" + "".join(f"{'/' + team:^34}" for team in TEAMS))
        print(f"{'seconds':>8}" + f"{'demand':>12}{'entitled':>11}{'allocated':>11}" * len(TEAMS))
        self._mark(f"team 1 runs {FEW} tasks")
        self._start("team1", FEW)
        self._until(lambda one, two: one == FEW, f"team 1 runs {FEW}")
        self._mark("team 1 grows and borrows")
        self._start("team1", MORE)
        self._until(lambda one, two: one == FEW + MORE, f"team 1 runs {FEW + MORE}")
        self._mark("team 1 wants more than there is")
        self._start("team1", MANY)
        self._until(lambda one, two: one == CAPACITY, "team 1 has the whole cluster")
        self._mark("team 2 comes back")
        job_id = self._start("team2", RETURNING)
        self._until(lambda one, two: one == two == half, f"each team has {half}")
        print(f"-- {self._preempted():g} tasks of team 1 were preempted", flush=True)
        self._mark("team 2 is done")
        self._stop(job_id)
        self._until(lambda one, two: (one, two) == (CAPACITY, 0), "team 1 borrows again")

    def _until(self, holds: Callable[[float, float], bool], aim: str) -> None:
        """Sample until both teams' allocations fulfil the condition, and have done so for some seconds."""
        deadline, since = time.monotonic() + PATIENCE, 0.0
        while not since or time.monotonic() - since < HOLD_SECONDS:
            time.sleep(SAMPLE_SECONDS)
            shares = self._sample()
            one, two = (shares[team].allocation for team in TEAMS)
            if not holds(one, two):
                since = 0.0
                if time.monotonic() > deadline:
                    raise PelotonError(
                        f"not seen in {duration(PATIENCE)}: {aim}; they have {one:g} and {two:g}"
                    )
            elif not since:
                since = time.monotonic()

    def _sample(self) -> dict[str, Share]:
        shares = shares_of(self._read())
        now = time.monotonic() - self._begun
        self.samples.times.append(now)
        line = f"{now:8.0f}"
        for team in TEAMS:
            share = shares[team]
            self.samples.shares[team].append(share)
            line += f"{share.demand:12g}{share.entitlement:11g}{share.allocation:11g}"
        print(line, flush=True)
        return shares

    def _read(self) -> str:
        try:
            with blocking_http.session() as made:
                answer = made.get(self._metrics, timeout=10)
                answer.raise_for_status()
                return answer.text
        except requests.RequestException as error:
            raise Unavailable(f"{self._metrics}: {error or type(error).__name__}") from error

    def _preempted(self) -> float:
        samples = (each for family in text_string_to_metric_families(self._read()) for each in family.samples)
        return sum(each.value for each in samples if each.name == PREEMPTED)

    def _mark(self, what: str) -> None:
        self.samples.marks.append((time.monotonic() - self._begun, what))
        print(f"-- {what}", flush=True)

    def _make_pool(self, name: str) -> str:
        amounts = {"cpu": CAPACITY, "memory": CAPACITY * 1024, "disk": AGENTS * 100_000, "gpu": 0}
        config = respool_pb2.ResourcePoolConfig(
            name=name,
            parent=peloton_pb2.ResourcePoolID(value="root"),
            policy=respool_pb2.PriorityFIFO,
            resources=[
                respool_pb2.ResourceConfig(kind=kind, reservation=amount / 2, limit=amount, share=1)
                for kind, amount in amounts.items()
            ],
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._client.respool_svc.CreateResourcePool(
                respool_pb2.CreateRequest(config=config), metadata=self._client.resmgr_metadata, timeout=30
            )
            if not answer.HasField("error"):
                return str(answer.result.value)
            if time.monotonic() > deadline:
                raise PelotonError(f"cannot create pool {name}: {answer.error}")
            time.sleep(SAMPLE_SECONDS)  # the agents have not all registered

    def _start(self, team: str, tasks: int) -> str:
        config = job_pb2.JobConfig(
            name=team,
            type=job_pb2.BATCH,
            owningTeam=team,
            instanceCount=tasks,
            respoolID=peloton_pb2.ResourcePoolID(value=self._pools[team]),
            sla=job_pb2.SlaConfig(preemptible=True),
            defaultConfig=task_pb2.TaskConfig(
                resource=task_pb2.ResourceConfig(cpuLimit=1, memLimitMb=64, diskLimitMb=16),
                command=mesos_pb2.CommandInfo(shell=True, value="true"),
            ),
        )
        answer = self._client.job_svc.Create(
            job_pb2.CreateRequest(config=config), metadata=self._client.jobmgr_metadata, timeout=60
        )
        if answer.HasField("error"):
            raise PelotonError(f"cannot create the job: {answer.error}")
        return str(answer.jobId.value)

    def _stop(self, job_id: str) -> None:
        request = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id))
        self._client.task_svc.Stop(request, metadata=self._client.jobmgr_metadata, timeout=60)


def shares_of(metrics: str) -> dict[str, Share]:
    """Return each team's cpu, from the resource manager's metrics."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name in GAUGES and sample.labels.get("kind") == "cpu":
                found[sample.name, sample.labels["pool"]] = sample.value
    shares = {}
    for team in TEAMS:
        queued, entitlement, allocation = (found.get((name, f"/{team}"), 0.0) for name in GAUGES)
        shares[team] = Share(queued + allocation, entitlement, allocation)
    return shares


if __name__ == "__main__":
    sys.exit(main())

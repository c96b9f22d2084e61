"""What becomes of jobs and runs, as JSON lines: the same input gives the same file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import IO, Any

from jobmgr.core.state.cache import CachedJob
from simulator.simulation import Simulation
from simulator.world.agents import SimRun
from simulator.world.cluster import both


def follow(simulation: Simulation, file: IO[str]) -> None:
    """Write a line for each launch, start and end of a run, and for the end of each job."""
    kernel, cluster = simulation.kernel, simulation.cluster

    def write(what: str, **fields: Any) -> None:
        line = {"at": round(kernel.now, 6), "what": what, **fields}
        file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def of_run(what: str) -> Callable[[SimRun], None]:
        return lambda run: write(what, run=run.id, host=run.agent.spec.hostname, state=run.state.name)

    cluster.on_launch = both(cluster.on_launch, of_run("launch"))
    cluster.on_start = both(cluster.on_start, of_run("start"))
    cluster.on_end = both(cluster.on_end, of_run("end"))
    note = simulation.on_end

    def ended(job: CachedJob) -> None:
        note(job)
        write("job", job=job.job_id, state=job.runtime.state.name)

    simulation.on_end = ended

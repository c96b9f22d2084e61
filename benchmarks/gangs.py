"""How fast the members of a gang find each other: real daemons and agents, a process for each member.

    python benchmarks/gangs.py [--members 16,256] [--agents 4] [--rounds 3]

A gang is created; each member reads the address of the first one, connects to it, and waits to be let go.
The first member lets all go when all have connected. Prints one figure per line, each the median of the
rounds: the seconds from the call that creates the gang until the last member has been let go, and those from
the start of the first member's process to that of the last one.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.throughput import client_of, make_pool, tell
from mesos.v1 import mesos_pb2
from minicluster.settings import Agent, ClusterSettings
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.errors import PelotonError

POLL_SECONDS = 0.1
PORTS_OF_AN_AGENT = 1000
MEMBER = task_pb2.ResourceConfig(cpuLimit=0.1, memLimitMb=64, diskLimitMb=1)
_FIRST = """
import os, pathlib, socket, time
size, port = int(os.environ["PELOTON_SIZE"]), int(os.environ["PORT"])
with socket.create_server(("127.0.0.1", port), backlog=size) as server:
    members = [server.accept()[0] for _ in range(size - 1)]
for member in members:
    member.sendall(b"go\\n")
"""
_COMMAND = """
echo $EPOCHREALTIME >"{marks}/$PELOTON_RANK.begun"
if [ $PELOTON_RANK = 0 ]; then
  "{python}" -I -S -c '{first}' || exit 1
else
  host=${{PELOTON_RANK0_ADDRESS%:*}} port=${{PELOTON_RANK0_ADDRESS##*:}}
  until {{ exec 3<>/dev/tcp/$host/$port; }} 2>/dev/null; do sleep 0.05; done
  read -r word <&3 && [ "$word" = go ] || exit 1
fi
echo $EPOCHREALTIME >"{marks}/$PELOTON_RANK.met"
"""


@dataclass(frozen=True, slots=True)
class Meeting:
    """One gang. Both in seconds."""

    rendezvous: float
    """From the call that creates it until the last member has met the first."""
    spread: float
    """From the start of the first process to that of the last."""


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--members", type=_sizes, default=(16, 256), help="sizes of gangs, with commas between"
    )
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds until a gang is given up")
    parser.add_argument("--keep-logs", type=Path, help="copy the daemons' logs to this folder")
    return parser.parse_args()


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(word) for word in text.split(","))
    if min(sizes) < 2:
        raise argparse.ArgumentTypeError(f"a gang has two members or more, not {min(sizes)}")
    return sizes


def measure(options: argparse.Namespace) -> int:
    settings = ClusterSettings(ports="free", agents=tuple(agents(options.agents, max(options.members))))
    with (
        temporary_cluster(settings, tell, options.keep_logs) as cluster,
        client_of(cluster) as client,
    ):
        pool = make_pool(client)
        for size in options.members:
            found = [meet(client, pool, size, options.timeout) for _ in range(options.rounds)]
            tell(f"{size} members: {', '.join(f'{each.rendezvous:.2f} s' for each in found)}")
            print(f"rendezvous seconds of {size} members: {_median(each.rendezvous for each in found):.2f}")
            print(
                f"seconds between first and last start of {size} members: "
                f"{_median(each.spread for each in found):.2f}",
                flush=True,
            )
    return 0


def agents(count: int, members: int) -> Iterator[Agent]:
    """Yield agents on which that many members have place, and each of them some more."""
    each = -(-members // count) + 16
    for number in range(count):
        port = 31000 + number * PORTS_OF_AN_AGENT
        resources = f"cpus:{each};mem:{each * 64};disk:{each * 16}"
        yield Agent(hostname=f"agent{number}", resources=f"{resources};ports:[{port}-{port + each}]")


def meet(client: PelotonClient, pool: str, size: int, timeout: float) -> Meeting:
    """Run a gang, and return how its members met. Raises PelotonError."""
    with TemporaryDirectory(prefix="peloton-gangs-") as folder:
        marks = Path(folder)
        marks.chmod(0o777)
        config = config_of(pool, size, marks)
        begun = time.time()
        answer = client.job_svc.Create(job_pb2.CreateRequest(config=config), timeout=60)
        if answer.HasField("error"):
            raise PelotonError(f"the gang is not created: {answer.error}")
        follow(client, answer.jobId, timeout)
        starts, ends = times(marks, "begun", size), times(marks, "met", size)
    return Meeting(max(ends) - begun, max(starts) - min(starts))


def config_of(pool: str, size: int, marks: Path) -> job_pb2.JobConfig:
    script = _COMMAND.format(marks=marks, python=sys.executable, first=_FIRST)
    command = mesos_pb2.CommandInfo(shell=False, value="/bin/bash", arguments=["bash", "-c", script])
    task = task_pb2.TaskConfig(resource=MEMBER, command=command)
    task.ports.add(name="meeting", envName="PORT")
    config = job_pb2.JobConfig(
        name="gang",
        instanceCount=size,
        defaultConfig=task,
        respoolID=peloton_pb2.ResourcePoolID(value=pool),
        sla=job_pb2.SlaConfig(minimumRunningInstances=size, preemptible=True),
    )
    config.workload.rendezvous = True
    return config


def follow(client: PelotonClient, job: peloton_pb2.JobID, timeout: float) -> None:
    """Wait until a gang has succeeded. Raises PelotonError."""
    deadline = time.monotonic() + timeout
    while (state := _runtime(client, job).state) != job_pb2.SUCCEEDED:
        if state in (job_pb2.FAILED, job_pb2.KILLED) or time.monotonic() > deadline:
            counts = dict(_runtime(client, job).taskStats)
            raise PelotonError(f"the gang has not succeeded: {job_pb2.JobState.Name(state)}, {counts}")
        time.sleep(POLL_SECONDS)


def _runtime(client: PelotonClient, job: peloton_pb2.JobID) -> job_pb2.RuntimeInfo:
    runtime: job_pb2.RuntimeInfo = client.job_svc.Get(job_pb2.GetRequest(id=job), timeout=60).jobInfo.runtime
    return runtime


def times(marks: Path, what: str, size: int) -> list[float]:
    """Return when each member did something, in seconds since 1970. Raises PelotonError."""
    found = [float(file.read_text()) for file in marks.glob(f"*.{what}")]
    if len(found) != size:
        raise PelotonError(f"{len(found)} of {size} members have told when they had {what}")
    return found


def _median(values: Iterator[float]) -> float:
    return statistics.median(values)


if __name__ == "__main__":
    sys.exit(main())

"""`make demo`: a cluster from nothing, a pool, a job, its output, and nothing left behind.

With --secure (`make demo-secure`), the daemons speak TLS, and ask who calls them.

Every step that a person would type is the command itself, printed before it runs.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

from minicluster.settings import ClusterSettings
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.client.environment import settings_from_environment
from peloton.client.sandbox import Agent, SandboxFile, path_of
from peloton.errors import PelotonError

EXAMPLES = Path("examples")
POOL = "/DefaultResPool"
TIMEOUT = 10.0


def main() -> int:
    """Run the demo from the project's folder; return the exit code."""
    if not EXAMPLES.is_dir():
        print(f"demo: {EXAMPLES.absolute()} is not there: run it from the project's folder", file=sys.stderr)
        return 1
    return run_program("demo", demonstrate)


def demonstrate() -> int:
    """Run the demo; return the exit code. The cluster is gone afterwards in any case."""
    report("A Mesos master, three agents and the four daemons of Peloton come up, each a process:")
    settings = ClusterSettings(ports="free", secure="--secure" in sys.argv[1:])
    with temporary_cluster(settings, lambda line: report(f"  {line}")) as cluster:
        try:
            verdict, code = run_job(cluster.urls())
        finally:
            report("\nThe cluster goes down.")
    report(f"demo: {verdict}")
    return code


def run_job(urls: Mapping[str, str]) -> tuple[str, int]:
    """Create a pool and a job, wait for its end; return the result as text and the exit code."""
    job_id = str(uuid.uuid4())
    peloton(urls, "respool", "create", POOL, str(EXAMPLES / "default_respool.yaml"))
    peloton(urls, "job", "create", POOL, str(EXAMPLES / "helloworld_job.yaml"), "--jobID", job_id, "--follow")
    with PelotonClient("demo", **settings_from_environment(urls)) as client:
        request = task_pb2.ListRequest(jobId=peloton_pb2.JobID(value=job_id))
        tasks = sorted(client.task_svc.List(request).result.value.items())
        report("\nEach instance's host, state, and first line of output:")
        for instance, task in tasks:
            state = task_pb2.TaskState.Name(task.runtime.state)
            report(f"  {instance:>2}  {task.runtime.host}  {state}  {first_line(client, job_id, instance)}")
    succeeded = sum(task.runtime.state == task_pb2.SUCCEEDED for _, task in tasks)
    return f"{succeeded} of {len(tasks)} instances SUCCEEDED", 0 if tasks and succeeded == len(tasks) else 1


def peloton(urls: Mapping[str, str], *arguments: str) -> None:
    """Print and run a command of the CLI. Raise PelotonError where it fails."""
    report(f"\n$ peloton {shlex.join(arguments)}")
    command = [sys.executable, "-m", "peloton.cli", *arguments]
    if subprocess.run(command, env={**os.environ, **urls}, check=False).returncode:
        raise PelotonError(f"`peloton {arguments[0]} {arguments[1]}` failed")


def first_line(client: PelotonClient, job_id: str, instance: int) -> str:
    """Return the first line of an instance's stdout, read from the agent that ran it."""
    request = task_pb2.BrowseSandboxRequest(jobId=peloton_pb2.JobID(value=job_id), instanceId=instance)
    sandbox = client.task_svc.BrowseSandbox(request)
    path = path_of(list(sandbox.paths), "stdout")
    if path is None:
        return f"(no output: {' '.join(str(sandbox.error).split()) or 'no file stdout'})"
    agent = Agent(sandbox.hostname, int(sandbox.port), TIMEOUT, client.agents)
    text = SandboxFile(agent, path).read(0).decode(errors="replace")
    return text.partition("\n")[0]


def report(line: str) -> None:
    """Print a line of progress."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""`make demo`: a cluster from nothing, a pool, a job, its output, and nothing left behind.

Every step is a command of the CLI, printed as one would type it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from peloton.client import PelotonClient
from peloton.errors import PelotonError
from peloton.minicluster.cluster import Cluster
from peloton.minicluster.settings import ClusterSettings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
POOL = "/DefaultResPool"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="peloton-demo-") as folder:
        cluster = Cluster(Path(folder) / "cluster")
        print("Bringing up a Mesos master, three agents and Peloton's four daemons …", flush=True)
        cluster.up(ClusterSettings(ports="free"), lambda line: print(f"  {line}", flush=True))
        try:
            return show(cluster.urls())
        finally:
            cluster.down()
            print("The cluster is down again.", flush=True) if sys.exc_info()[0] else None


def show(urls: Mapping[str, str]) -> int:
    job_id = str(uuid.uuid4())
    peloton(urls, "respool", "create", POOL, str(EXAMPLES / "default_respool.yaml"))
    peloton(urls, "job", "create", POOL, str(EXAMPLES / "helloworld_job.yaml"), "--jobID", job_id, "--follow")
    return 0


def peloton(urls: Mapping[str, str], *arguments: str) -> None:
    print(f"\n$ peloton {shlex.join(arguments)}", flush=True)
    command = [sys.executable, "-m", "peloton.cli", *arguments]
    if subprocess.run(command, env={**os.environ, **urls}, check=False).returncode:
        raise PelotonError(f"peloton {arguments[0]} {arguments[1]} failed")


if __name__ == "__main__":
    sys.exit(main())

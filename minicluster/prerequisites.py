"""What has to be there before a cluster's processes start: servers' jars, and tables in Cassandra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from minicluster.components import CASSANDRA, own_servers
from minicluster.processes import inherited
from minicluster.progress import Progress
from minicluster.servers import maven
from minicluster.settings import ClusterSettings
from peloton.config.sources import Tree
from peloton.errors import Unavailable

MIGRATE_SECONDS = 240.0


def fetch(settings: ClusterSettings, tell: Progress) -> None:
    """What servers that are started along need. Raises PelotonError where it is not to be had."""
    for kind, artifacts in own_servers(settings).items():
        try:
            if not maven.present(artifacts):
                tell(f"{kind}: fetching {artifacts[0]} by Maven, this once")
            maven.java()
            maven.jars(artifacts)
        except maven.Missing as missing:
            setting = "storage" if kind == CASSANDRA else "membership"
            raise maven.Missing(
                f"{kind} cannot be started along: {missing}; install it, or name servers that run: "
                f"--{setting} {kind}=HOST:PORT"
            ) from None


def make_tables(storage: Tree, file: Path, tell: Progress) -> None:
    """Keyspace and tables where they are missing; the settings go into `file`. Raises Unavailable with what
    `peloton-migrate` says."""
    file.write_text(yaml.safe_dump({"storage": storage}))
    command = [sys.executable, "-m", "storage.selection.migrate", "up", "-c", str(file)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MIGRATE_SECONDS, check=False, env=inherited()
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"cassandra did not make tables in {MIGRATE_SECONDS:.0f} s") from None
    said = (done.stderr if done.returncode else done.stdout).strip().splitlines()
    if done.returncode:
        raise Unavailable(said[-1] if said else f"peloton-migrate ended with {done.returncode}")
    tell(said[-1])

"""Prepare what a cluster's processes need: jars of servers, and tables in Cassandra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from minicluster.components import CASSANDRA, embedded_servers
from minicluster.processes import clean_environment
from minicluster.progress import Progress
from minicluster.servers import kubernetes, maven
from minicluster.settings import OWN, ClusterSettings
from peloton.config.private import write_private
from peloton.config.sources import Tree
from peloton.errors import Refused, Unavailable
from peloton.model.amounts import duration

MIGRATE_SECONDS = 240.0


def fetch(settings: ClusterSettings, report: Progress) -> None:
    """Download what embedded servers need. Raise PelotonError where that fails."""
    if settings.kubernetes == OWN:
        kubernetes.binary()
    for kind, artifacts in embedded_servers(settings).items():
        try:
            if not maven.present(artifacts):
                report(f"{kind}: fetching {artifacts[0]} by Maven, this once")
            maven.java()
            maven.jars(artifacts)
        except maven.Missing as missing:
            setting = "storage" if kind == CASSANDRA else "membership"
            raise maven.Missing(
                f"{kind} cannot be started along: {missing}; install it, or name servers that run: "
                f"--{setting} {kind}=HOST:PORT"
            ) from None


def make_tables(storage: Tree, file: Path, report: Progress, timeout: float | None = None) -> None:
    """Create the keyspace and the tables where they are missing; write the settings to `file`.

    Raise Unavailable with the message of `peloton-migrate`.
    """
    write_private(file, yaml.safe_dump({"storage": storage}))
    seconds = max(MIGRATE_SECONDS, timeout or 0.0)
    command = [sys.executable, "-m", "storage.selection.migrate", "up", "-c", str(file)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env=clean_environment(),
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"cassandra did not make tables in {duration(seconds)}") from None
    lines = (done.stderr if done.returncode else done.stdout).strip().splitlines()
    if done.returncode:
        raise Unavailable(lines[-1] if lines else f"peloton-migrate ended with {done.returncode}")
    report(lines[-1])


def tell_isolation(folder: Path, settings: ClusterSettings, report: Progress) -> None:
    """Report what tasks can reach that they should not. Raise Refused where isolation is required."""
    from minicluster.mesos.agent.isolation import Mode, detect

    mode = Mode(settings.tasks_isolated)
    found = detect(mode, [folder])
    if not found.lacks:
        return
    reach = (
        "they can see what others run"
        if found.users is not None
        else f"they can read and write {folder} with its keys and passwords, and end each other"
    )
    text = f"tasks cannot have {found.lacks}; {reach}"
    if mode is Mode.REQUIRE:
        raise Refused(f"isolation: require: {text}")
    report(f"WARNING: {text}: run nothing here that you do not trust")

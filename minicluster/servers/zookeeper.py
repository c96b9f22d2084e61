"""A ZooKeeper server of one node: real and small.

Its data survive a crash of the process, but not of the machine (no fsync).
"""

from __future__ import annotations

import socket
from pathlib import Path

from minicluster.servers.maven import class_path, jars, java

VERSION = "3.9.5"
ARTIFACTS = (
    f"org.apache.zookeeper:zookeeper:{VERSION}",
    # Provided by the server's distribution, and not in its POM.
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
    "org.xerial.snappy:snappy-java:1.1.10.5",
    "org.slf4j:slf4j-simple:2.0.13",
)
TICK_MILLISECONDS = 500
HOST = "127.0.0.1"


def configure(folder: Path, port: int) -> None:
    """Create the server's folder with its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zoo.cfg").write_text(
        f"tickTime={TICK_MILLISECONDS}\n"
        f"dataDir={folder / 'data'}\n"
        f"clientPortAddress={HOST}\n"
        f"clientPort={port}\n"
        "admin.enableServer=false\n"
        "4lw.commands.whitelist=srvr\n"
        "maxClientCnxns=0\n"
    )


def command(folder: Path) -> list[str]:
    """Return the command line. Raise Missing without Java 17 or Maven, Broken where Maven fails."""
    return [
        str(java()),
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dzookeeper.forceSync=no",
        "-Dzookeeper.sasl.client=false",
        f"-Djava.io.tmpdir={folder}",
        "-cp",
        class_path(jars(ARTIFACTS)),
        "org.apache.zookeeper.server.ZooKeeperServerMain",
        str(folder / "zoo.cfg"),
    ]


def serves(port: int) -> bool:
    """Return whether the server at this port of 127.0.0.1 answers clients."""
    try:
        with socket.create_connection((HOST, port), timeout=1) as probe:
            probe.sendall(b"srvr")
            # Before it serves, it answers otherwise.
            return probe.recv(4096).startswith(b"Zookeeper version")
    except OSError:
        return False

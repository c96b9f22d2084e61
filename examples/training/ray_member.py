"""Start a node of Ray in each member of a gang, and a program on the whole Ray cluster beside the first one.

    peloton run --framework ray -n 4 -- python ray_member.py python ray_pi.py

All members run this file. The first one starts Ray's head at its port, waits until the nodes of all members
that have a host then are there (a gang that grows in place may have more later), and runs the program, which
finds the head by `RAY_ADDRESS`; the gang ends as it ends. Where all members have machines of their own,
`ray symmetric-run` does the same; it tells the head by its IP address.
`RAY_MEMBER_OPTIONS` are options of `ray start` for each node: what the task asks for, as Ray should see it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SECONDS = 180.0
"""How long the head waits for the nodes, and a node for the head."""
OPTIONS = "--num-cpus=1 --object-store-memory=200000000"
DRAIN = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
"""Seconds that a node waits for its work to end elsewhere, and for its head also where that has ended."""
PORTS = ("--min-worker-port=0", "--max-worker-port=0")
"""Any that are free: nodes on one machine would choose the same."""

STARTS = 5
"""How often a node is started: of those that start at once on one machine, which choose names of sockets, one
may end."""


def main(arguments: list[str]) -> int:
    """Run as the head with the program, or as a node; return the exit code."""
    if not arguments or "RAY_ADDRESS" not in os.environ:
        print("usage, in a gang with `framework: ray`: ray_member.py PROGRAM [ARGUMENT...]", file=sys.stderr)
        return 2
    address = os.environ["RAY_ADDRESS"]
    host, _, port = address.rpartition(":")
    own = shlex.split(os.environ.get("RAY_MEMBER_OPTIONS", OPTIONS))
    if int(os.environ["PELOTON_RANK"]):
        return node(address, own)
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        options = ["--head", f"--node-ip-address={host}", f"--port={port}", "--include-dashboard=false"]
        with started([*options, *own, f"--temp-dir={folder}"]) as head:
            await_nodes(placed(), head)
            return subprocess.run(arguments, check=False).returncode


def placed() -> int:
    """Return how many members have a host, by the file of the members, in which `-` stands for the others."""
    lines = Path(os.environ["PELOTON_MEMBERS_FILE"]).read_text().split()
    return sum(line != "-" for line in lines)


def node(address: str, own: list[str]) -> int:
    """Run a node until the head has ended; return 0, or 1 where the head or the node does not come up."""
    deadline = time.monotonic() + SECONDS
    while not answers(address):
        if time.monotonic() > deadline:
            print(f"ray_member: no head at {address} within {SECONDS:g} s", file=sys.stderr)
            return 1
        time.sleep(0.5)
    for again in range(STARTS):
        time.sleep(again * int(os.environ["PELOTON_RANK"]))
        with started([f"--address={address}", *own]) as ray:
            while ray.poll() is None and answers(address):
                time.sleep(0.5)
        if not answers(address):
            return 0
        print(f"ray_member: this node has ended by itself with code {ray.returncode}", file=sys.stderr)
    return 1


@contextlib.contextmanager
def started(options: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run `ray start` in the foreground, quietly, until the body ends."""
    ray = shutil.which("ray", path=Path(sys.executable).parent) or "ray"
    command = [ray, "start", "--block", "--disable-usage-stats", *PORTS, *options]
    environment = {DRAIN: "2", **os.environ}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def answers(address: str) -> bool:
    """Return whether something listens at an address."""
    import socket

    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def await_nodes(size: int, head: subprocess.Popen[bytes]) -> None:
    """Wait until the nodes of all members have joined. Ends the program where they do not."""
    import ray

    deadline = time.monotonic() + SECONDS
    while not answers(os.environ["RAY_ADDRESS"]):
        if head.poll() is not None or time.monotonic() > deadline:
            sys.exit("ray_member: Ray's head has not started")
        time.sleep(0.5)
    ray.init(logging_level="error")
    while (here := sum(each["Alive"] for each in ray.nodes())) < size:
        if time.monotonic() > deadline:
            sys.exit(f"ray_member: {here} of {size} nodes have joined within {SECONDS:g} s")
        time.sleep(0.2)
    ray.shutdown()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

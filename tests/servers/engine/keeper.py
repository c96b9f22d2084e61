"""Keep a container engine for the process that started this one, and remove every trace of it afterwards.

    python -m tests.servers.engine.keeper FOLDER [--without-bridge]

It prints `ready REGISTRY` when the engine answers at FOLDER/docker.sock, and takes it down when its input
ends: also when the other process is killed. dockerd runs in PID and mount namespaces of its own: its
processes, containers and mounts end with the first process there, even where this keeper is killed. What is
then left are files, network bridges and cgroups, which the next keeper removes (`sweep`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from minicluster.ports import FreePorts
from minicluster.servers.maven import Broken
from tests.servers.engine.cache import PREFIX, registry_folder

LONGEST_START = 60.0
LONGEST_END = 30.0
"""Seconds."""
HIDDEN = ("/run/docker", "/run/containerd", "/run/runc", "/etc/docker")
"""Folders where docker and its parts write, whatever their settings: dockerd sees empty ones instead."""
HOST = "127.0.0.1"
NO_BRIDGE = "none"
CGROUPS = Path("/sys/fs/cgroup")
WEIGHTS = (("cpu/{}/cpu.shares", 16384), ("{}/cpu.weight", 1600))
"""Of all containers together, where one process outside of them has 1024 or 100: cgroup v1 and v2."""
_IN_NAMESPACES = 'for each in $HIDDEN; do mount -t tmpfs tmpfs "$each"; done; exec tini -- "$@"'
_DIES_WITH_ITS_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")


def main(folder: Path, bridge: str) -> int:
    """Run the engine until the input ends. `bridge`: the name of its own, or `none`."""
    for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    with _locked(folder):
        sweep()
        try:
            with _registry(folder) as registry, _dockerd(folder, registry, bridge):
                print(f"ready {registry}", flush=True)
                sys.stdin.buffer.read()
        except Broken as broken:
            print(broken, flush=True)
            return 1
        finally:
            remove(folder)
    return 0


def settings(folder: Path, registry: str, bridge: str) -> dict[str, object]:
    """Return dockerd's settings: its files are in the folder, and the machine's firewall is left alone."""
    return {
        "data-root": str(folder / "data"),
        "exec-root": str(folder / "exec"),
        "pidfile": str(folder / "pid"),
        "hosts": [f"unix://{folder / 'docker.sock'}"],
        "bridge": bridge,
        "iptables": False,
        "ip-forward": False,
        "ip-masq": False,
        "cgroup-parent": f"/{folder.name}",
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "registry-mirrors": [f"http://{registry}"],
    }


def bridge_of(folder: Path) -> str:
    """Return the name of the engine's own bridge, for containers of the network `bridge`."""
    return f"br-{hashlib.sha256(folder.name.encode()).hexdigest()[:12]}"


def sweep() -> None:
    """Remove what keepers that were killed have left."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/lock"):
        with suppress(BlockingIOError), _locked(lock.parent):
            remove(lock.parent)


def remove(folder: Path) -> None:
    """Remove the networks, cgroups and files of an engine that has ended."""
    for bridge in _bridges(folder):
        subprocess.run(["ip", "link", "delete", bridge], check=False, capture_output=True)
    deadline = time.monotonic() + LONGEST_END
    while _remove_cgroups(folder.name) and time.monotonic() < deadline:
        time.sleep(0.05)  # the last processes are just ending
    for made in (folder / "made").read_text().split() if (folder / "made").exists() else ():
        with suppress(OSError):
            Path(made).rmdir()
    shutil.rmtree(folder, ignore_errors=True)


def _bridges(folder: Path) -> Iterator[str]:
    """Iterate over this machine's bridges of the engine: its own, and those named by a network's id."""
    yield bridge_of(folder)
    store = folder / "data" / "network" / "files" / "local-kv.db"
    known = store.read_bytes() if store.exists() else b""
    for path in Path("/sys/class/net").glob("br-*"):
        if path.name.removeprefix("br-").encode() in known:
            yield path.name


def _remove_cgroups(name: str) -> list[Path]:
    """Return what is still left."""
    tops = [CGROUPS / name, *CGROUPS.glob(f"*/{name}")]
    for top in tops:
        for folder, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
    return [top for top in tops if top.exists()]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@contextmanager
def _registry(folder: Path) -> Iterator[str]:
    """Serve the images of the cache; give host:port."""
    address = f"{HOST}:{FreePorts(owner=folder).take()}"
    config = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(registry_folder())}},
        "http": {"addr": address},
    }
    (folder / "registry.yml").write_text(json.dumps(config))  # JSON is YAML
    argv = [*_DIES_WITH_ITS_PARENT, "docker-registry", "serve", str(folder / "registry.yml")]
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield address
    finally:
        process.kill()
        process.wait()


@contextmanager
def _dockerd(folder: Path, registry: str, bridge: str) -> Iterator[None]:
    """Run an engine that answers. Raise Broken with the end of its log where it does not."""
    (folder / "daemon.json").write_text(json.dumps(settings(folder, registry, bridge)))
    (folder / "made").write_text("\n".join(each for each in HIDDEN if not Path(each).exists()))
    for each in HIDDEN:
        Path(each).mkdir(exist_ok=True)
    _weigh(folder.name)
    if bridge != NO_BRIDGE:
        _make_bridge(bridge)
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    dockerd = ["dockerd", "--config-file", str(folder / "daemon.json")]
    argv = [*_DIES_WITH_ITS_PARENT, *namespaces, "sh", "-ec", _IN_NAMESPACES, "sh", *dockerd]
    with (folder / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(
            argv,
            env={**os.environ, "HIDDEN": " ".join(HIDDEN)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _await(folder, process)
        yield
    finally:
        process.kill()
        process.wait()


def _make_bridge(name: str) -> None:
    """Make a network of its own that leads nowhere: nothing is forwarded. Raise Broken."""
    address = f"10.{213 + os.getpid() % 40}.{os.getpid() // 40 % 250}.1/24"
    for words in (
        ("link", "add", name, "type", "bridge"),
        ("address", "add", address, "dev", name),
        ("link", "set", name, "up"),
    ):
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Broken(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _weigh(name: str) -> None:
    """Give the containers' common cgroup its share of the processors, which is else that of one process."""
    for path, weight in WEIGHTS:
        file = CGROUPS / path.format(name)
        if (file.parent.parent / "cgroup.procs").exists():
            file.parent.mkdir(exist_ok=True)
            with suppress(OSError):  # where the controller is not enabled
                file.write_text(str(weight))


def _await(folder: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + LONGEST_START
    while not _answers(folder / "docker.sock"):
        if process.poll() is not None or time.monotonic() > deadline:
            log = (folder / "dockerd.log").read_text(errors="replace")
            raise Broken(f"dockerd did not start: {' | '.join(log.splitlines()[-5:])}")
        time.sleep(0.05)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        try:
            client.connect(str(path))
            client.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in client.recv(64)
        except OSError:
            return False


if __name__ == "__main__":
    place = Path(sys.argv[1])
    sys.exit(main(place, NO_BRIDGE if "--without-bridge" in sys.argv else bridge_of(place)))

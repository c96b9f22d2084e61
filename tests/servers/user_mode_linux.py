"""A Linux of its own for tests, as a program: Debian's user-mode-linux, with this machine's files.

Its kernel has what this machine's may lack, such as control groups of version 2 with all controllers: here
they may belong to hierarchies of version 1. It sees this machine's files read-only, has /tmp and /run of its
own, and no network but its loopback. It is about ten times slower where many processes begin.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from minicluster.servers.maven import Broken, Missing, cache

PACKAGE = "user-mode-linux"
MEMORY = "2500M"
SHARED = "/mnt"
"""Where it has the folder that it shares with this machine."""
_INIT = """#!/bin/sh
export PATH={path} HOME=/root PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mkdir /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t hostfs -o {folder} none {shared}
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
cd {where}
{command} > {shared}/output 2>&1 < /dev/null
echo $? > {shared}/code
poweroff -f
"""


def run(command: Sequence[str], where: Path, seconds: float) -> tuple[int, str]:
    """Run a command as root in a new Linux; return its exit code and output. Raise Missing, Broken.

    Raise TimeoutExpired after `seconds`; every process of it ends with it.
    """
    program = _program()
    with tempfile.TemporaryDirectory(prefix="peloton-uml-") as made:
        folder = Path(made)
        init = folder / "init"
        init.write_text(
            _INIT.format(
                path=shlex.quote(os.environ["PATH"]),
                folder=folder,
                shared=SHARED,
                where=shlex.quote(str(where)),
                command=shlex.join(command),
            )
        )
        init.chmod(0o755)
        options = (f"mem={MEMORY}", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "quiet")
        # Its processes end with the first one of a namespace of their own, and that one with the tests.
        contained = ("setpriv", "--pdeathsig", "KILL", "--", "unshare", "--pid", "--fork", "--kill-child")
        first = ("sh", "-c", '"$@"; exit $?', "sh")
        argv = [*contained, *first, str(program), *options, "con=null", "con0=null,fd:1"]
        environment = {**os.environ, "HOME": made}  # where it keeps its sockets
        done = subprocess.run(
            argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
        code, output = folder / "code", folder / "output"
        if not code.exists():
            raise Broken(f"{program} ended: {done.stdout.decode(errors='replace')[-4000:]}")
        return int(code.read_text()), output.read_text(errors="replace")


def _program() -> Path:
    found = shutil.which("linux.uml")
    if found is not None:
        return Path(found)
    if os.geteuid() != 0:
        raise Missing("only root has a root file system to start a Linux of its own on")
    place = cache() / PACKAGE
    place.mkdir(parents=True, exist_ok=True)
    program = place / "usr" / "bin" / "linux.uml"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _fetch(place)
    return program


def _fetch(place: Path) -> None:
    """Unpack Debian's package, which installs nothing."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise Missing(f"{PACKAGE} is not installed, and there is no {program} to fetch it")
    with tempfile.TemporaryDirectory(prefix="peloton-uml-", dir=place) as made:
        _run("apt-get", "--quiet", "download", PACKAGE, where=Path(made))
        (package,) = Path(made).glob("*.deb")
        _run("dpkg-deb", "--extract", package.name, "unpacked", where=Path(made))
        (Path(made) / "unpacked" / "usr").rename(place / "usr")


def _run(*command: str, where: Path) -> None:
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise Missing(f"{PACKAGE} cannot be fetched: {' '.join(command)}: {done.stderr.strip()[-500:]}")

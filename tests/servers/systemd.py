"""systemd for tests: as the first process of namespaces that end with it, with its units and files to itself.

It sees this machine's files, and changes none: /etc, /var and /run are its own. Its control group is one of
version 2, below that of the tests. Needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from minicluster.servers.maven import Broken, Missing

SYSTEMD = Path("/lib/systemd/systemd")
LONGEST_START = 60.0
LONGEST_END = 30.0
"""Seconds."""
PREFIX = "peloton-systemd-"
TARGET = "tests.target"
_DIES_WITH_ITS_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
_NAMESPACES = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup")
_INSIDE = f"""
umount --recursive /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
for each in etc var; do
  own="$FOLDER/$each"
  mkdir -p "$own/upper" "$own/work"
  mount -t overlay overlay -o "lowerdir=/$each,upperdir=$own/upper,workdir=$own/work" "/$each"
done
mount -t tmpfs tmpfs /run
# Other users may not pass through the home of root, where an interpreter may be.
case "$PYTHON" in /root/*)
  mkdir -p "$FOLDER/python"
  mount --bind "$PYTHON" "$FOLDER/python"
  mount -t tmpfs -o mode=755 tmpfs /root
  mkdir -p "$PYTHON"
  mount --bind "$FOLDER/python" "$PYTHON"
esac
# Nothing of this machine's own services is started.
mount -t tmpfs tmpfs /lib/systemd/system
mount -t tmpfs tmpfs /lib/systemd/system-generators
rm -rf /etc/systemd/system
mkdir -p /etc/systemd/system
for each in {TARGET} sysinit.target basic.target multi-user.target network-online.target shutdown.target; do
  printf '[Unit]\\nDefaultDependencies=no\\n' > "/lib/systemd/system/$each"
done
mkdir /lib/systemd/system/service.d
cat > /lib/systemd/system/service.d/output.conf <<END
[Service]
StandardOutput=append:$FOLDER/systemd.log
StandardError=append:$FOLDER/systemd.log
END
exec env -i PATH="$PATH" container=tests {SYSTEMD} --unit={TARGET} --log-target=console --show-status=no
"""


@dataclass(frozen=True, slots=True)
class Systemd:
    """A systemd that runs."""

    pid: int
    log: Path
    """What it and its services write."""

    def run(self, *command: str, code: int = 0, seconds: float = 120.0) -> str:
        """Run a command on its machine; return what it writes. Raise Broken where it ends otherwise."""
        where = ("nsenter", "--target", str(self.pid), "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--")
        done = subprocess.run(
            [*where, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode != code:
            told = self.log.read_text(errors="replace")[-4000:]
            raise Broken(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{told}")
        return done.stdout


@contextmanager
def systemd(folder: Path) -> Iterator[Systemd]:
    """Give a systemd that answers, and end it with all its services. Raise Missing, Broken."""
    _require()
    top = _own_group()
    _sweep(top)
    group = top / f"{PREFIX}{os.getpid()}"
    group.mkdir()
    log = folder / "systemd.log"
    enter = f'echo $$ > "{group}/cgroup.procs"; exec "$@"'
    inside = ("sh", "-ec", _INSIDE)
    argv = ["sh", "-ec", enter, "sh", *_DIES_WITH_ITS_PARENT, *_NAMESPACES, "--mount-proc", *inside]
    environment = {"PATH": os.environ["PATH"], "FOLDER": str(folder), "PYTHON": sys.base_prefix}
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield _answering(process, log)
    finally:
        process.kill()
        process.wait()
        _remove(group)
        for each in ("etc", "var"):
            shutil.rmtree(folder / each, ignore_errors=True)


def _require() -> None:
    if os.geteuid() != 0:
        raise Missing("only root may start a systemd of its own: no unit is run")
    for program in ("unshare", "nsenter", "setpriv", "systemctl"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed: apt-get install systemd util-linux")
    if not SYSTEMD.exists():
        raise Missing(f"{SYSTEMD} is not there: apt-get install systemd")


def _own_group() -> Path:
    """Return the control group of version 2 of this process. Raise Missing where none is mounted."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    mounted = next((Path(each[1]) for each in mounts if each[2] == "cgroup2"), None)
    own = next((line for line in Path("/proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"), "")
    if mounted is None or not own:
        raise Missing("control groups of version 2 are not mounted: no unit is run")
    return mounted / own[4:]


def _answering(process: subprocess.Popen[bytes], log: Path) -> Systemd:
    deadline = time.monotonic() + LONGEST_START
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError, IndexError, Broken):  # not there yet
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            found = Systemd(int(children[0]), log)
            found.run("systemctl", "is-active", TARGET)
            return found
        time.sleep(0.1)
    process.kill()
    raise Broken(f"systemd did not start: {log.read_text(errors='replace')[-2000:]}")


def _sweep(top: Path) -> None:
    """Remove the groups of those whose tests were killed; one that is in use stays."""
    for each in top.glob(f"{PREFIX}*"):
        _remove(each, seconds=0)


def _remove(group: Path, seconds: float = LONGEST_END) -> None:
    deadline = time.monotonic() + seconds
    while group.exists():
        for folder, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)  # the last processes are just ending

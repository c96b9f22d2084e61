"""Daemons of a testbed as containers: the engine starts, kills and pauses them.

`docker run` in the foreground stands for the daemon in the minicluster: it ends with the container and passes
signals on. So a supervisor starts a daemon again in the same way as a process.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDED = "/recorded"
"""Where a container has these tests, of which its daemon is a recording one."""
LOCKED_DOWN = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp")
SECONDS = 120.0
"""Longest command on a busy machine."""
_VERBS = {signal.SIGSTOP: ("pause",), signal.SIGCONT: ("unpause",)}


class Containers:
    """The containers of one testbed, by the names of its components."""

    def __init__(self, image: str, folder: Path) -> None:
        """Share `folder` with them, at the same path: configuration, store and records are there."""
        self._image = image
        self._folder = folder
        self._label = f"peloton-faults={folder.name}"
        self._names: dict[str, str] = {}
        self._begun = 0

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a daemon, `argv` on this machine, in a new container."""
        self._begun += 1
        container = self._names[name] = f"{self._folder.name}-{name}-{self._begun}"
        options = (
            *("--rm", "--init", f"--name={container}", f"--label={self._label}", "--network=host"),
            # The files that they share belong to the user of these tests.
            *("--user=0:0", *LOCKED_DOWN, f"--volume={self._folder}:{self._folder}"),
            *(f"--volume={ROOT / 'tests'}:{RECORDED}/tests:ro", f"--env=PYTHONPATH={RECORDED}"),
        )
        return ["docker", "run", *options, self._image, "python", *argv[1:]]

    def has(self, name: str) -> bool:
        """Return whether a component is one of them."""
        return name in self._names

    def signal(self, name: str, number: signal.Signals) -> None:
        """Pause a daemon, let it go on, or send it a signal."""
        verb = _VERBS.get(number, ("kill", f"--signal={number.name}"))
        _docker(*verb, self._names[name])

    def remove(self) -> None:
        """End them all."""
        left = _docker("ps", "--all", "--quiet", f"--filter=label={self._label}").split()
        if left:
            _docker("rm", "--force", *left)


def _docker(*arguments: str) -> str:
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done.stdout

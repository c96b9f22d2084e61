"""Docker Compose 2, which Debian 12 lacks: the machine's own where it is new enough, else built by Go.

Go's checksum database and the module's own go.sum say what is built; SUM is that of the module itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from minicluster.servers.maven import Broken, Missing
from tests.servers.engine.cache import folder
from tests.servers.engine.running import Engine

MODULE = "github.com/docker/compose/v2"
VERSION = "v2.40.3"
SUM = "h1:XeYkQu1svDtyfZPv5nTwFryQ25ZJMkIlc4pz9HalMPI="
OLDEST = (2, 20)
"""`required` in `depends_on`."""
LONGEST_BUILD = 3600.0
"""Seconds on a busy machine; it takes 270 s of a processor."""


def give_compose(engine: Engine) -> None:
    """Make `docker compose` work. Raise Missing where it cannot be built, Broken where that fails."""
    found = re.search(r"(\d+)\.(\d+)", engine.docker("compose", "version", "--short").stdout)
    if found and (int(found[1]), int(found[2])) >= OLDEST:
        return
    if not engine.own:
        raise Missing(f"docker compose {OLDEST[0]}.{OLDEST[1]} or newer is missing")
    plugin = Path(engine.environment["DOCKER_CONFIG"]) / "cli-plugins" / "docker-compose"
    plugin.symlink_to(_built())


def _built() -> Path:
    program = folder() / f"docker-compose-{VERSION}"
    with program.with_name(f"{program.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(program)
    return program


def _build(program: Path) -> None:
    if shutil.which("go") is None:
        raise Missing("docker compose is missing, and Go to build it: no `go` on the path")
    with tempfile.TemporaryDirectory(prefix="peloton-compose-") as made:
        module = json.loads(_go(Path(made), "mod", "download", "-json", f"{MODULE}@{VERSION}"))
        if module["Sum"] != SUM:
            raise Broken(f"{MODULE}@{VERSION} has the checksum {module['Sum']}, not {SUM}")
        output = Path(made) / program.name
        flags = f"-s -w -X {MODULE}/internal.Version={VERSION}"
        _go(
            Path(module["Dir"]),
            *(
                "build",
                "-trimpath",
                "-mod=readonly",
                "-buildvcs=false",
                "-ldflags",
                flags,
                "-o",
                str(output),
                "./cmd",
            ),
        )
        partial = program.with_name(f"{program.name}.partial")
        shutil.copy2(output, partial)
        partial.rename(program)


def _go(where: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments],
        cwd=where,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "auto"},
        capture_output=True,
        text=True,
        timeout=LONGEST_BUILD,
        check=False,
    )
    if done.returncode:
        raise Broken(f"go {' '.join(arguments)}: {done.returncode}\n{done.stderr[-4000:]}")
    return done.stdout

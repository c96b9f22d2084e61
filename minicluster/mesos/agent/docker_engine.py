"""The container engine that an agent uses: by the command line of `docker`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping

_PATIENCE_SECONDS = 20.0
LONGEST_PULL_SECONDS = 1200.0
_TOLD_CHARACTERS = 500
_OWN = ("PATH", "HOME")
ERRORS = b"docker: "
NOT_RUN = 125
"""The exit code of `docker run` where the engine did not run the container."""


class EngineError(Exception):
    """The engine lacks what a container needs; the text goes into the status."""


async def docker_answers() -> bool:
    """Return whether there is a docker client here whose engine answers."""
    docker = shutil.which("docker")
    if docker is None:
        return False
    process = await asyncio.create_subprocess_exec(
        docker,
        "info",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await process.wait() == 0
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return False


def own_environment() -> Mapping[str, str]:
    """Return the variables of the agent by which `docker` finds its engine."""
    return {name: value for name, value in os.environ.items() if name in _OWN or name.startswith("DOCKER_")}


def provide(image: str, force_pull: bool) -> None:
    """Have an image in the engine, pulled where it is not there or that is forced. Raise EngineError."""
    if not force_pull and _docker("image", "inspect", "--format=.", "--", image).returncode == 0:
        return
    done = _docker("pull", "--quiet", "--", image)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip()[-_TOLD_CHARACTERS:]
        raise EngineError(f"Failed to pull image '{image}': {reason}")


def require_bridge() -> None:
    """Raise EngineError where the engine has no network `bridge`.

    It would run the container with a loopback alone, and its mapped ports would lead nowhere.
    """
    if _docker("network", "inspect", "--format=.", "bridge").returncode:
        raise EngineError("network bridge not found: the container engine runs without one")


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["docker", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST_PULL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"docker {arguments[0]} did not end in {LONGEST_PULL_SECONDS:g} s") from None
    except OSError as error:
        raise EngineError(f"docker cannot be started: {error.strerror}") from None


def why_not_run(output: bytes) -> str:
    """Return what `docker run` wrote to the error output where the engine did not run the container.

    Empty where it wrote nothing of the kind: the exit code was the task's own.
    """
    lines = output.splitlines()
    at = next((i for i in range(len(lines) - 1, -1, -1) if lines[i].startswith(ERRORS)), None)
    return "" if at is None else lines[at].decode(errors="replace")[len(ERRORS) :][:_TOLD_CHARACTERS].strip()

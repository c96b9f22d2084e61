"""Credentials by a program: `exec` of a kubeconfig, as kubectl has it (client-go: "credential plugins")."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from peloton.errors import Unavailable
from peloton.plainjson import parse_json

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
RUN_SECONDS = 30.0
"""Longest time of a program."""
EARLY_SECONDS = 60.0
"""How long before the end of its token a program is run again."""
PAUSE_SECONDS = 10.0
"""After a program that has failed, while its last token is still good."""
MAX_OUTPUT_BYTES = 1024 * 1024
MOST_TOLD_CHARACTERS = 300
"""Characters of what a program says, in an error."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Program:
    """How a program is run."""

    command: Sequence[str]
    version: str
    """Of the messages, one of VERSIONS."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables beside those of this process."""


class TokenProgram:
    """Runs a program for tokens: before the first call, before each token ends, and when one is refused."""

    def __init__(self, program: Program, now: Callable[[], float] = time.time) -> None:
        """`now` is seconds since 1970."""
        self._program = program
        self._now = now
        self._token = ""
        self._until: float | None = None
        self._not_before = 0.0
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        """Return a token that is good now. Raises Unavailable where the program gives none."""
        async with self._lock:
            if self._is_due():
                try:
                    await self._renew()
                except Unavailable as error:
                    if not self._token or (self._until is not None and self._now() >= self._until):
                        raise
                    self._not_before = self._now() + PAUSE_SECONDS
                    log.warning("the token stays as it was: %s", error)
            return self._token

    def reject(self, token: str) -> None:
        """Take over that a token was refused: the program is run again."""
        if token == self._token:
            self._token, self._not_before = "", 0.0

    def _is_due(self) -> bool:
        if not self._token:
            return True
        ends_soon = self._until is not None and self._now() >= self._until - EARLY_SECONDS
        return ends_soon and self._now() >= self._not_before

    async def _renew(self) -> None:
        status = _status(await _output(self._program), self._program.command[0])
        self._token, self._until = status


async def _output(program: Program) -> bytes:
    """Run a program and return what it writes. Raises Unavailable."""
    name = program.command[0]
    info = {"apiVersion": program.version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {**os.environ, **program.environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *program.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env=environment,
            limit=MAX_OUTPUT_BYTES,
        )
    except (OSError, ValueError) as error:
        raise Unavailable(f"the program for credentials {name}: {error}") from None
    try:
        async with asyncio.timeout(RUN_SECONDS):
            output, told = await process.communicate()
    except TimeoutError:
        raise Unavailable(f"the program for credentials {name}: no end within {RUN_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        text = " ".join(told.decode("utf-8", "replace").split())[-MOST_TOLD_CHARACTERS:]
        raise Unavailable(f"the program for credentials {name}: exit code {process.returncode}: {text}")
    return output


def _status(output: bytes, name: str) -> tuple[str, float | None]:
    """Return token and its end, in seconds since 1970. Raises Unavailable."""
    try:
        status = _object(_object(parse_json(output)).get("status"))
        token, ends = status.get("token"), status.get("expirationTimestamp")
        until = None if ends is None else datetime.fromisoformat(str(ends)).timestamp()
    except ValueError as error:
        raise Unavailable(f"the program for credentials {name}: no ExecCredential: {error}") from None
    if not isinstance(token, str) or not token:
        raise Unavailable(f"the program for credentials {name}: status.token is missing")
    return token, until


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is no object with a status")
    return value

"""What tasks that ask for it get to call Peloton with: addresses, certificates, a token for their own job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from peloton.clock import NANOSECONDS
from peloton.config.errors import ConfigError
from peloton.config.tls import stamp_of
from peloton.errors import Refused
from peloton.identity.task_tokens import TaskClaim, TaskKeys
from peloton.model.ids import Run

FOLDER = ".peloton"
"""Below the sandbox: Mesos makes secret files at relative paths, in containers with an image and without."""
TOKEN, CA, CERTIFICATE, KEY = "PELOTON_TOKEN_FILE", "PELOTON_CA_FILE", "PELOTON_CERT_FILE", "PELOTON_KEY_FILE"
PATHS = {
    TOKEN: f"{FOLDER}/token",
    CA: f"{FOLDER}/ca.pem",
    CERTIFICATE: f"{FOLDER}/cert.pem",
    KEY: f"{FOLDER}/key.pem",
}
"""The file that each variable names, relative to the sandbox."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GivenAccess:
    """What a run is launched with."""

    environment: Sequence[tuple[str, str]] = ()
    files: Sequence[tuple[str, bytes]] = field(default=(), repr=False)
    """Path and content of each file, which are secret."""


NOTHING = GivenAccess()


class _File:
    """A file that is read again when it has changed. One that cannot be read any more is as it was."""

    def __init__(self, path: Path) -> None:
        """Read it. Raises ConfigError."""
        self._path = path
        self._stamp = stamp_of(path)
        try:
            self._content = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"task_access: {path}: {error.strerror}") from None

    @property
    def content(self) -> bytes:
        stamp = stamp_of(self._path)
        if stamp != self._stamp:
            try:
                self._content, self._stamp = self._path.read_bytes(), stamp
            except OSError as error:
                log.warning("tasks get %s as it was: %s", self._path, error)
        return self._content


class TaskAccess:
    """Gives access to runs."""

    def __init__(
        self,
        addresses: Callable[[], str],
        wall: Callable[[], int],
        keys: TaskKeys | None = None,
        seconds: float = 86400.0,
        asks: bool = False,
        files: Mapping[str, Path | None] = MappingProxyType({}),
    ) -> None:
        """Tell tasks `addresses()` of job managers; without keys, they get no tokens.

        `asks` is whether callers are asked who they are. `wall` returns nanoseconds since 1970. `files` has
        what else they get, by the variables of PATHS. Raises ConfigError for a file that cannot be read.
        """
        self._addresses = addresses
        self._wall = wall
        self._keys = keys
        self._seconds = seconds
        self.enough = keys is not None or not asks
        """Whether tasks can call with what they get."""
        self._files = {variable: _File(path) for variable, path in files.items() if path is not None}

    def token(self, run: Run) -> tuple[str, TaskClaim]:
        """Return a new token of a run. Raises Refused where there are none."""
        if self._keys is None:
            raise Refused("this cluster gives no tokens to tasks: task_access.keys_file is not set")
        claim = TaskClaim(run, int(self._wall() / NANOSECONDS + self._seconds))
        return self._keys.sign(claim), claim

    def of(self, run: Run) -> GivenAccess:
        """Return what a run gets."""
        contents = {variable: file.content for variable, file in self._files.items()}
        if self._keys is not None:
            contents[TOKEN] = self.token(run)[0].encode()
        environment = [("JOBMGR_URL", self._addresses())]
        environment += [(variable, PATHS[variable]) for variable in contents]
        return GivenAccess(
            environment, [(PATHS[variable], content) for variable, content in contents.items()]
        )

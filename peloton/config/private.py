"""Files for this user alone: those that are read, and those that are made, whatever the umask."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from peloton.config.config_error import ConfigError

UMASK = 0o077
FILE, FOLDER = 0o600, 0o700
OF_ROOT = 0o037
"""What a mode may not have of a file that is root's, where this process is not."""


def require_private(path: Path, setting: str) -> None:
    """Raise ConfigError for a file that cannot be read, or that others can use than this user and root.

    As PostgreSQL has it: the file is this user's, and nobody else's to read; or it is root's, and a group may
    read it, as in a Kubernetes volume with `fsGroup`.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise ConfigError(f"{setting}: {path}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{setting}: {path}: is not a file")
    own = os.geteuid()
    if found.st_uid not in (own, 0):
        raise ConfigError(
            f"{setting}: {path}: belongs to user {found.st_uid}, not to {own}, as who this process runs"
        )
    if found.st_mode & (UMASK if found.st_uid == own else OF_ROOT):
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise ConfigError(f"{setting}: {path}: its mode {mode} lets others use it: `chmod 600` it")
    if not os.access(path, os.R_OK):
        raise ConfigError(f"{setting}: {path}: cannot be read by this process")


def require_private_key(setting: str, certificate: Path | None, key: Path | None) -> None:
    """Raise ConfigError where others can read the file that has the key of a certificate."""
    if key is not None:
        require_private(key, f"{setting}.key_file")
    elif certificate is not None:
        require_private(certificate, f"{setting}.certificate_file")


def keep_private(folders: int = FOLDER) -> None:
    """Let this process, and those that it starts, make files of mode 0600, and folders of a mode."""
    os.umask(0o777 & ~(FILE | folders))


def make_folder(path: Path, mode: int = FOLDER) -> None:
    """Make a folder with those above it, where they are missing. Raises OSError."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=mode, exist_ok=True)
        each.chmod(mode)


def write_private(path: Path, text: str) -> None:
    """Write a file, in place of what is in it. Raises OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(handle, FILE)
        file.write(text)

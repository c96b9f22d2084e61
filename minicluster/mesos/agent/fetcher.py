"""Bringing a task's URIs into its sandbox: files of this machine only."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlparse

from mesos.v1 import mesos_pb2 as mesos

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


class FetchError(Exception):
    """A URI cannot be fetched; the text says which and why."""


def _source(uri: str) -> Path:
    parsed = urlparse(uri)
    if parsed.scheme in ("", "file") and parsed.netloc in ("", "localhost"):
        path = Path(unquote(parsed.path) if parsed.scheme else uri)
        if path.is_absolute():
            return path
    raise FetchError(f"'{uri}' cannot be fetched: only file:// URIs and absolute paths are supported")


def _extract(archive: Path, sandbox: Path) -> bool:
    name = archive.name.lower()
    if name.endswith(_TARS):
        with tarfile.open(archive) as tar:
            tar.extractall(sandbox, filter="data")
        return True
    if name.endswith((".zip", ".jar")) and zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as bundle:
            bundle.extractall(sandbox)
        return True
    return False


def _give(folder: Path, user: tuple[int, int]) -> None:
    """Make a user the owner of a folder and all in it; of links, not what they lead to."""
    for place, folders, names in os.walk(folder):
        for path in (Path(place), *(Path(place, name) for name in (*folders, *names))):
            os.lchown(path, *user)


def _copy(source: Path, target: Path, user: tuple[int, int] | None, hides: Callable[[str], bool]) -> None:
    """Copy what the task's user may read, and is not hidden from it. Raise OSError, FetchError."""
    if user is not None:
        with target.open("wb") as file:
            done = subprocess.run(
                ["/bin/cat", "--", source],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
                user=user[0],
                group=user[1],
                extra_groups=(),
                check=False,
            )
        if done.returncode != 0:
            target.unlink()
            reason = done.stderr.decode("utf-8", "replace").strip().rpartition(": ")[2]
            raise FetchError(f"'{source}' cannot be fetched by user {user[0]}: {reason}")
        return
    with source.open("rb") as opened, target.open("wb") as file:
        # Of what was opened, whatever the path leads to by now.
        if hides(os.readlink(f"/proc/self/fd/{opened.fileno()}")):  # noqa: PTH115
            raise FetchError(f"'{source}' cannot be fetched: it is hidden from tasks")
        shutil.copyfileobj(opened, file)


def fetch(
    uri: mesos.CommandInfo.URI,
    sandbox: Path,
    user: tuple[int, int] | None = None,
    hides: Callable[[str], bool] = lambda path: False,
) -> None:
    """Copy one URI into a sandbox and extract it where asked to; what is there then is the task's user's.

    ``hides`` tells whether a real path is hidden from tasks. Raise FetchError.
    """
    source = _source(uri.value)
    target = (sandbox / (uri.output_file or source.name)).resolve()
    if not target.is_relative_to(sandbox.resolve()):
        raise FetchError(f"output_file '{uri.output_file}' is outside of the sandbox")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(source, target, user, hides)
        if uri.executable:
            target.chmod(0o755)
        elif uri.extract:
            _extract(target, sandbox)
        if user is not None:
            _give(sandbox, user)
    except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise FetchError(f"'{uri.value}' cannot be fetched: {error}") from error

"""Find the miniclusters that run on this machine, for a caller without an address or a folder.

The client and the command line call `find` by the entry point `minicluster` of `peloton.local_clusters`.

`peloton minicluster` without --dir uses the default folder. Clusters in other folders are registered in the
home directory when they come up; a registered cluster that does not run any more is ignored. Each call of the
command line imports this module, so that it imports little.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from minicluster.layout import Layout
from minicluster.processes import load
from peloton.client.extensions import VARIABLE, Identity
from peloton.config.private import make_folder, write_private
from peloton.errors import NotFound, Refused, Unavailable

SERVED_BY = ("jobmgr", "resmgr", "hostmgr")
"""Daemons that clients call."""


@dataclass(frozen=True, slots=True)
class Running:
    """A minicluster to use."""

    directory: Path
    zookeeper: str = ""
    """Servers by which its daemons find each other; empty where they do by a folder."""
    default_ports: bool = True
    explicit: bool = False
    """Whether the environment names it."""
    others: Sequence[Path] = ()
    """Folders of the other miniclusters that run."""

    @property
    def membership(self) -> Path:
        """The folder by which its daemons find each other without ZooKeeper."""
        return Layout(self.directory).membership

    @property
    def notice(self) -> str:
        """Which one it is, for a user who cannot expect that."""
        if self.explicit or (self.default_ports and not self.others):
            return ""
        others = f"; others run in {', '.join(map(str, self.others))}" if self.others else ""
        return f"using the minicluster in {self.directory}{others}"

    def identity(self) -> Identity:
        """Return what its administrator shows; nothing where it is not secure."""
        from minicluster.credentials import client_identity

        return client_identity(self.directory)


def default_directory() -> Path:
    """Return the folder that the commands use without --dir."""
    return (Path.home() / ".peloton" / "minicluster").resolve()


def find(variables: Mapping[str, str] = os.environ) -> Running | None:
    """Return the minicluster to use, None where none runs.

    That is the one in PELOTON_MINICLUSTER_DIR, else the one in the default folder, else the only one that
    runs. Raise NotFound where the one in the variable does not run, Refused where several run and none is in
    the default folder.
    """
    if named := variables.get(VARIABLE):
        directory = Path(named).expanduser().resolve()
        if not _runs(directory):
            raise NotFound(
                f"no minicluster runs in {directory}, which {VARIABLE} names: `peloton minicluster up` "
                "brings one up there, or unset the variable"
            )
        return _read_record(directory, explicit=True)
    default = default_directory()
    others = [directory for directory in _registered() if directory != default and _runs(directory)]
    if _runs(default):
        return _read_record(default, others)
    if len(others) > 1:
        raise Refused(
            f"{len(others)} miniclusters run here, in {', '.join(map(str, others))}: say which is meant by "
            f"{VARIABLE}=FOLDER, or give addresses"
        )
    return _read_record(others[0]) if others else None


def not_found_message(directory: Path) -> str:
    """Return the message that there is no minicluster in a folder, with where one runs."""
    elsewhere = [
        other for other in (default_directory(), *_registered()) if other != directory and _runs(other)
    ]
    hint = f"; one runs in {elsewhere[0]}: --dir {elsewhere[0]}" if elsewhere else ""
    return f"no minicluster in {directory}: `peloton minicluster up` makes one{hint}"


def register(directory: Path) -> None:
    """Register the minicluster in a folder, and drop entries of clusters that are gone. Raise OSError."""
    for entry in _entries():
        registered = _read(entry)
        if registered is None or not Layout(registered).record.exists():
            entry.unlink(missing_ok=True)
    if directory != default_directory():
        file = _entry(directory)
        make_folder(file.parent)
        write_private(file, str(directory))


def unregister(directory: Path) -> None:
    """Remove the entry of the minicluster in a folder. Raise OSError."""
    _entry(directory).unlink(missing_ok=True)


def _read_record(directory: Path, others: Sequence[Path] = (), *, explicit: bool = False) -> Running:
    """Read the record of a cluster. Raise Refused where it is not as this program writes it."""
    import yaml

    record = Layout(directory).record
    try:
        held = yaml.safe_load(record.read_text())
        default_ports = held["cluster"]["ports"] == "default"
        return Running(directory, str(held.get("zookeeper", "")), default_ports, explicit, others)
    except (OSError, yaml.YAMLError, LookupError, TypeError, AttributeError):
        raise Refused(
            f"{record} is no record of a minicluster: end by hand what runs, and remove it"
        ) from None


def _runs(directory: Path) -> bool:
    """Return whether one of the daemons that clients call is alive."""
    layout = Layout(directory)
    try:
        records = [file for kind in SERVED_BY for file in layout.run.glob(f"{kind}*.json")]
        alive = [process for file in records if (process := load(file)) is not None and process.alive()]
        return bool(alive) and layout.record.exists()
    except (OSError, Unavailable):  # of another user, or broken: it cannot be used
        return False


def _registered() -> list[Path]:
    return sorted(directory for directory in map(_read, _entries()) if directory is not None)


def _entries() -> list[Path]:
    folder = _folder()
    return list(folder.iterdir()) if folder.is_dir() else []


def _read(entry: Path) -> Path | None:
    """Return the folder of an entry; None for one that is gone by now."""
    try:
        return Path(entry.read_text())
    except FileNotFoundError:
        return None


def _entry(directory: Path) -> Path:
    return _folder() / hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]


def _folder() -> Path:
    return Path.home() / ".peloton" / "miniclusters"

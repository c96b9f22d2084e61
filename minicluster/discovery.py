"""Which miniclusters run on this machine, for whoever was not told where the cluster is.

`peloton minicluster` without --dir speaks of one folder; clusters in other folders are noted in the home
directory when they come up. What is noted and does not run any more counts for nothing. Imported by each call
of the command line: light on purpose.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minicluster.layout import Layout
from minicluster.processes import load
from peloton.errors import NotFound, Refused, Unavailable

VARIABLE = "PELOTON_MINICLUSTER_DIR"
SERVED_BY = ("jobmgr", "resmgr", "hostmgr")
"""Daemons that clients call."""


@dataclass(frozen=True, slots=True)
class Running:
    """A minicluster to use."""

    directory: Path
    zookeeper: str = ""
    """Servers by which its daemons find each other; empty where they do by a folder."""
    usual_ports: bool = True
    named: bool = False
    """Whether it was asked for in so many words."""
    others: Sequence[Path] = ()
    """That run besides."""


def usual_directory() -> Path:
    """The folder of which the commands speak when nothing else is said."""
    return (Path.home() / ".peloton" / "minicluster").resolve()


def find() -> Running | None:
    """The minicluster that PELOTON_MINICLUSTER_DIR names; else the one in the usual folder; else the only one
    that runs. None where none runs.

    Raises NotFound where the one that is named does not run, Refused where several do and none is the usual.
    """
    if named := os.environ.get(VARIABLE):
        directory = Path(named).expanduser().resolve()
        if not _runs(directory):
            raise NotFound(
                f"no minicluster runs in {directory}, which {VARIABLE} names: `peloton minicluster up` "
                "brings one up there, or unset the variable"
            )
        return _read_record(directory, named=True)
    usual = usual_directory()
    others = [directory for directory in _noted() if directory != usual and _runs(directory)]
    if _runs(usual):
        return _read_record(usual, others)
    if len(others) > 1:
        raise Refused(
            f"{len(others)} miniclusters run here, in {', '.join(map(str, others))}: say which is meant by "
            f"{VARIABLE}=FOLDER, or give addresses"
        )
    return _read_record(others[0]) if others else None


def none_in(directory: Path) -> str:
    """Says that there is no minicluster in a folder, and where one runs."""
    elsewhere = [other for other in (usual_directory(), *_noted()) if other != directory and _runs(other)]
    hint = f"; one runs in {elsewhere[0]}: --dir {elsewhere[0]}" if elsewhere else ""
    return f"no minicluster in {directory}: `peloton minicluster up` makes one{hint}"


def note(directory: Path) -> None:
    """Remember that there is a minicluster in this folder. Raises OSError."""
    for entry in _entries():
        noted = _read(entry)
        if noted is None or not Layout(noted).record.exists():
            entry.unlink(missing_ok=True)
    if directory != usual_directory():
        file = _entry(directory)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(directory))


def forget(directory: Path) -> None:
    """The minicluster in this folder is gone. Raises OSError."""
    _entry(directory).unlink(missing_ok=True)


def _read_record(directory: Path, others: Sequence[Path] = (), *, named: bool = False) -> Running:
    """Raises Refused where the cluster's record is not as this program writes it."""
    import yaml

    record = Layout(directory).record
    try:
        held = yaml.safe_load(record.read_text())
        usual_ports = held["cluster"]["ports"] == "default"
        return Running(directory, str(held.get("zookeeper", "")), usual_ports, named, others)
    except (OSError, yaml.YAMLError, LookupError, TypeError, AttributeError):
        raise Refused(
            f"{record} is no record of a minicluster: end by hand what runs, and remove it"
        ) from None


def _runs(directory: Path) -> bool:
    """Whether one of the daemons that clients call is alive."""
    layout = Layout(directory)
    try:
        records = [file for kind in SERVED_BY for file in layout.run.glob(f"{kind}*.json")]
        alive = [process for file in records if (process := load(file)) is not None and process.alive()]
        return bool(alive) and layout.record.exists()
    except (OSError, Unavailable):  # somebody else's, or broken: none that could be used
        return False


def _noted() -> list[Path]:
    return sorted(directory for directory in map(_read, _entries()) if directory is not None)


def _entries() -> list[Path]:
    folder = _folder()
    return list(folder.iterdir()) if folder.is_dir() else []


def _read(entry: Path) -> Path | None:
    """None for an entry that is gone by now."""
    try:
        return Path(entry.read_text())
    except FileNotFoundError:
        return None


def _entry(directory: Path) -> Path:
    return _folder() / hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]


def _folder() -> Path:
    return Path.home() / ".peloton" / "miniclusters"
